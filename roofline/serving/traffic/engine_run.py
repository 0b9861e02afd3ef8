"""A measured run: a folder with the requests that an engine served (`requests.jsonl`) and a description of it (`meta.json`).

A line of `requests.jsonl` is a request: `input_toks`, `output_toks`, and on one clock, in seconds, when the engine queued it
(`queued_ts`) and when its first and last tokens were ready (`first_token_ts`, `last_token_ts`). Other keys are ignored,
`arrival_time` too: it is of another clock. The benchmark of LLMServingSim (https://github.com/casys-kaist/LLMServingSim) writes
this, from vLLM's own times of its engine core.

`meta.json` has three parts, of which runs of older tools have the first alone: `engine_kwargs`, the arguments the engine was
started with; `resolved_config`, what the engine made of them; `kv_cache` and `hardware`, what it measured at
its start. Where it does not name the device, `config.json` may, the cluster that LLMServingSim simulates
(`nodes[].instances[].hardware`).
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import SpecError
from roofline.serving.traffic.tables import hashing, read_bytes
from roofline.serving.traffic.trace import Trace
from roofline.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

REQUESTS_FILE, META_FILE, CONFIG_FILE = "requests.jsonl", "meta.json", "config.json"
TOKENS = ("input_toks", "output_toks")
TIMES = ("queued_ts", "first_token_ts", "last_token_ts")
ASYNCHRONOUS = (0, 14)
"""Since this version vLLM schedules a step while the one before runs, by default."""
_REASONS = 5
_MAX_TOKENS = 2**40

# Options of `roofline simulate`, each with the keys of `meta.json` that hold it, the most reliable first.
_COUNTS = {
    "tensor_parallel_size": ("engine_kwargs.tensor_parallel_size", "resolved_config.parallel_config.tensor_parallel_size"),
    "pipeline_parallel_size": (
        "engine_kwargs.pipeline_parallel_size", "resolved_config.parallel_config.pipeline_parallel_size",
    ),
    "max_num_seqs": ("resolved_config.scheduler_config.max_num_seqs", "engine_kwargs.max_num_seqs"),
    "max_num_batched_tokens": (
        "resolved_config.scheduler_config.max_num_batched_tokens", "engine_kwargs.max_num_batched_tokens",
    ),
    "max_model_len": ("resolved_config.model_config.max_model_len", "engine_kwargs.max_model_len"),
    "block_size": ("kv_cache.block_size", "engine_kwargs.block_size"),
    "num_gpu_blocks_override": ("kv_cache.num_gpu_blocks",),
}  # fmt: skip
_FRACTIONS = {"gpu_memory_utilization": ("kv_cache.gpu_memory_utilization", "engine_kwargs.gpu_memory_utilization")}
_TEXTS = {
    "dtype": ("engine_kwargs.dtype", "resolved_config.model_config.dtype"),
    "kv_cache_dtype": ("engine_kwargs.kv_cache_dtype", "resolved_config.cache_config.cache_dtype"),
    "quantization": ("engine_kwargs.quantization", "resolved_config.model_config.quantization"),
}
_SWITCHES = {
    "enable_prefix_caching": ("kv_cache.enable_prefix_caching", "engine_kwargs.enable_prefix_caching"),
    "enable_expert_parallel": ("engine_kwargs.enable_expert_parallel",),
    "async_scheduling": ("resolved_config.scheduler_config.async_scheduling", "engine_kwargs.async_scheduling"),
}


@dataclass(frozen=True, slots=True)
class EngineMeta:
    """The engine of a run; None, or no entry, where the file does not say.

    Args:
        path: of the file.
        model: the model's name.
        version: of vLLM.
        device: the device's name, as the driver reports it, or as LLMServingSim has it ("RTX4090").
        device_bytes: its memory, bytes.
        data_parallel_size: number of replicas; 1 where the file does not say.
        options: the deployment, as options of `roofline simulate`.
        prefix_caching: whether prefix caching was on.
        asynchronous: whether a step is scheduled while the one before runs.
    """

    path: str
    model: str | None
    version: str | None
    device: str | None
    device_bytes: int | None
    data_parallel_size: int
    options: dict[str, Any]
    prefix_caching: bool | None
    asynchronous: bool | None

    @property
    def release(self) -> tuple[int, ...]:
        """The leading numbers of vLLM's version; empty if unknown.

        >>> EngineMeta("", None, "0.19.0rc1", None, None, 1, {}, None, None).release
        (0, 19)
        """
        parts = (self.version or "").lstrip("v").split(".")
        return tuple(int(part) for part in takewhile(str.isdigit, parts))

    @property
    def ahead(self) -> bool | None:
        """Whether steps were scheduled asynchronously: `asynchronous`, else the default of the version; None if unknown too."""
        if self.asynchronous is not None or not self.release:
            return self.asynchronous
        return self.release >= ASYNCHRONOUS


@dataclass(frozen=True)
class EngineRun:
    """The requests of a run and their times, in the order of arrival.

    Args:
        trace: arrivals and lengths.
        first: seconds from the first arrival to the first token of each request; float64, read-only, shape (requests,).
        last: the same to the last token.
        meta: the engine; None: unknown.
    """

    trace: Trace
    first: Array = field(repr=False)
    last: Array = field(repr=False)
    meta: EngineMeta | None = None

    def __len__(self) -> int:
        return len(self.trace)

    @property
    def arrived(self) -> Array:
        """Arrival times in seconds from the first: float64, read-only, shape (requests,)."""
        arrived = self.trace.arrived
        assert arrived is not None  # noqa: S101 - a run always has them
        return arrived


def read_run(folder: str | Path, skip_bad_rows: bool = False) -> EngineRun:
    """Read a measured run from its folder.

    Args:
        folder: with `requests.jsonl`, and `meta.json` if the engine is known.
        skip_bad_rows: leave broken lines out and count them; else the first one is an error.

    Raises:
        SpecError: no such folder or file, a broken line with its number and key, no valid line, an invalid `meta.json`.
    """
    import numpy as np

    location = Path(folder).expanduser()
    path = location / REQUESTS_FILE
    if not files.is_folder(location):
        raise SpecError(f"no such folder: a measured run is a folder with {REQUESTS_FILE}", path=location)
    if not files.exists(path):
        raise SpecError(f"is a folder without {REQUESTS_FILE}: neither a trace nor a measured run", path=location)
    read = _Lines()
    with hashing(path, "the requests of a measured run") as (file, sha256):
        read.parse(file)
    if not read.rows and not read.bad:
        raise SpecError("the file is empty", path=path)
    if read.bad and (not skip_bad_rows or not read.rows):
        line, why = read.reasons[0]
        if skip_bad_rows:
            why = f"{why}. No line of the {read.bad:,} is whole"
        else:
            more = f" ({read.bad:,} of {read.bad + read.count:,} lines are broken)" if read.bad > 1 else ""
            why = f"{why}{more}. --skip-bad-rows leaves such lines out"
        raise SpecError(why, path=path, line=line)
    table = np.frombuffer(read.rows).reshape(read.count, -1)
    late = int((np.diff(table[:, 2]) < 0).sum())
    table = table[np.argsort(table[:, 2], kind="stable")]
    tokens = [table[:, column].astype(np.int64) for column in (0, 1)]
    arrived, first, last = (table[:, column] - table[0, 2] for column in (2, 3, 4))
    for column in (*tokens, arrived, first, last):
        column.flags.writeable = False
    trace = Trace(
        name=clean(location.resolve().name),
        sha256=sha256(),
        path=str(path),
        arrived=arrived,
        prompts=tokens[0],
        outputs=tokens[1],
        skipped=read.bad,
        reasons=tuple(f"line {line}: {why}" for line, why in read.reasons),
        notes=(f"{late:,} lines arrived before the one above them: sorted by arrival",) if late else (),
    )
    return EngineRun(trace, first, last, _read_meta(location))


@dataclass(slots=True)
class _Lines:
    """The numbers of valid lines, one after another, and what is wrong with the first of the others."""

    rows: array[float] = field(default_factory=lambda: array("d"))
    count: int = 0
    bad: int = 0
    reasons: list[tuple[int, str]] = field(default_factory=list)

    def parse(self, lines: Iterable[bytes]) -> None:
        """Add all lines."""
        for number, line in enumerate(lines, 1):
            text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
            if not text.strip():
                continue
            try:
                self.rows.extend(_parse_line(text))
                self.count += 1
            except ValueError as error:
                self.bad += 1
                if len(self.reasons) < _REASONS:
                    self.reasons.append((number, str(error)))


def _parse_line(line: str) -> tuple[float, ...]:
    """The numbers of a line; a `ValueError` names the problem."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON: each line has to be an object in braces") from None
    if not isinstance(entry, dict):
        raise ValueError("is no object in braces")  # noqa: TRY004 - one kind of error for a line
    tokens = [_tokens(name, entry) for name in TOKENS]
    times = [_time(name, entry) for name in TIMES]
    for earlier, later in ((0, 1), (1, 2)):
        if times[later] < times[earlier]:
            raise ValueError(f"{TIMES[later]} is {times[earlier] - times[later]:.6g} s before {TIMES[earlier]}")
    return (*tokens, *times)


def _value(name: str, entry: dict[str, Any]) -> Any:
    if name not in entry:
        raise ValueError(f"{name} is missing; the line has {clean(', '.join(map(str, entry)))[:200]}")
    return entry[name]


def _tokens(name: str, entry: dict[str, Any]) -> int:
    value = _value(name, entry)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _MAX_TOKENS:
        raise ValueError(f"{name} must be a whole number of tokens, at least 1, not {_quoted(value)}")
    return value


def _time(name: str, entry: dict[str, Any]) -> float:
    value = _value(name, entry)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number of seconds, not {_quoted(value)}")
    return float(value)


def _quoted(value: object) -> str:
    return repr(clean(value)[:40]) if isinstance(value, str) else clean(json.dumps(value))[:40]


def _read_meta(folder: Path) -> EngineMeta | None:
    """Read the `meta.json` of a run; None if there is none.

    Raises:
        SpecError: no JSON object, or a value of the wrong kind, by its key.
    """
    path = folder / META_FILE
    if not files.exists(path):
        return None
    raw = read_bytes(path, "the description of a measured run")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        where = {"line": error.lineno, "column": error.colno} if isinstance(error, json.JSONDecodeError) else {}
        raise SpecError("is no JSON", path=path, **where) from None
    if not isinstance(data, dict):
        raise SpecError("has to be an object in braces", path=path)
    meta = _Values(path, data)
    options: dict[str, Any] = {name: meta.count(*keys) for name, keys in _COUNTS.items()}
    options |= {name: meta.fraction(*keys) for name, keys in _FRACTIONS.items()}
    options |= {name: _unless_auto(meta.text(*keys)) for name, keys in _TEXTS.items()}
    switches = {name: meta.switch(*keys) for name, keys in _SWITCHES.items()}
    data_parallel = meta.count("engine_kwargs.data_parallel_size") or 1
    if switches["enable_expert_parallel"]:
        options["expert_parallel_size"] = (options["tensor_parallel_size"] or 1) * data_parallel
    if switches["enable_prefix_caching"]:
        options["enable_prefix_caching"] = True
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if options[name] == 1:
            options[name] = None
    return EngineMeta(
        path=str(path),
        model=meta.text("model", "engine_kwargs.model"),
        version=meta.text("vllm_version"),
        device=meta.text("hardware.device_name") or _simulated_device(folder / CONFIG_FILE),
        device_bytes=meta.count("hardware.device_total_memory_bytes"),
        data_parallel_size=data_parallel,
        options={name: value for name, value in options.items() if value is not None},
        prefix_caching=switches["enable_prefix_caching"],
        asynchronous=switches["async_scheduling"],
    )


def _simulated_device(path: Path) -> str | None:
    """The one accelerator of a cluster as LLMServingSim describes it; None: no such file, or several."""
    try:
        nodes = json.loads(read_bytes(path, "a simulated cluster"))["nodes"] if files.exists(path) else []
        devices = {str(instance["hardware"]) for node in nodes for instance in node["instances"]}
    except (ValueError, RecursionError, LookupError, TypeError):  # another file of that name
        return None
    return devices.pop() if len(devices) == 1 else None


def _unless_auto(text: str | None) -> str | None:
    return None if text in (None, "auto") else text.removeprefix("torch.")


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of `meta.json` by dotted keys, of which the first that has a value counts; None: none has."""

    path: Path
    data: dict[str, Any]

    def count(self, *keys: str) -> int | None:
        value: int | None = self._get(keys, "a whole number, at least 1", lambda x: _is_number(x, int) and x >= 1)
        return value

    def fraction(self, *keys: str) -> float | None:
        wanted = "a share, more than 0 and at most 1"
        value: float | None = self._get(keys, wanted, lambda x: _is_number(x, int | float) and 0 < x <= 1)
        return None if value is None else float(value)

    def text(self, *keys: str) -> str | None:
        value: str | None = self._get(keys, "a text", lambda x: isinstance(x, str))
        return value

    def switch(self, *keys: str) -> bool | None:
        value: bool | None = self._get(keys, "true or false", lambda x: isinstance(x, bool))
        return value

    def _get(self, keys: tuple[str, ...], wanted: str, valid: Callable[[Any], bool]) -> Any:
        for key in keys:
            value: Any = self.data
            for part in key.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is None:
                continue
            if not valid(value):
                raise SpecError(f"{key} must be {wanted}, not {clean(json.dumps(value))[:60]}", path=self.path)
            return value
        return None


def _is_number(value: Any, kind: Any) -> bool:
    """Whether a value of JSON is a number of this type; true and false are none."""
    return isinstance(value, kind) and not isinstance(value, bool)
