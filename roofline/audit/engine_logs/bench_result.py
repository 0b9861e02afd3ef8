"""Results of benchmarks: the load that was put on a server, and what was measured. JSON, or JSON lines of which the last
counts.

Other packages add formats by the entry-point group `roofline.benchmark_formats`.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from roofline import files
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.registry import Registry

_MAX_BYTES = 256 * 2**20


_FIGURES = {
    "ttft_s": ("mean_ttft_ms", "median_ttft_ms"),
    "tpot_s": ("mean_tpot_ms", "median_tpot_ms"),
    "itl_s": ("mean_itl_ms", "median_itl_ms"),
    "e2e_s": ("mean_e2el_ms", "median_e2el_ms", "mean_e2e_latency_ms", "median_e2e_latency_ms"),
}


@dataclass(frozen=True, slots=True)
class Load:
    """The load that a benchmark put on a server.

    Attributes:
        requests: number of requests sent.
        input_len: mean prompt length in tokens.
        output_len: mean output length in tokens.
        rate: arrivals in requests/s; infinite: all at once.
        concurrency: maximum number of requests in flight; None: no limit.
        output_variation: coefficient of variation of the output lengths; None where the file does not have each length.
    """

    requests: int
    input_len: float
    output_len: float
    rate: float
    concurrency: int | None
    output_variation: float | None = None

    @property
    def description(self) -> str:
        """The load in words: requests, lengths and arrivals."""
        lengths = f"{plural(self.requests, 'request')} of {self.input_len:,.0f} + {self.output_len:,.0f} tokens"
        arrivals = "all at once" if math.isinf(self.rate) else f"{self.rate:g} per second"
        if self.concurrency is None:
            return f"{lengths}, {arrivals}"
        limit = f"at most {self.concurrency:,} at a time"
        return f"{lengths}, {limit}" if math.isinf(self.rate) else f"{lengths}, {arrivals}, {limit}"


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The result of a benchmark.

    Attributes:
        path: of the file.
        sha256: of the file, in hex.
        format: the format of the file.
        model: as the file names it; None where it does not.
        backend: likewise.
        load: the requests.
        measured: mean times in seconds (`ttft_s`, `tpot_s`, `itl_s`, `e2e_s`) and rates per second (`requests_per_s`,
            `output_tokens_per_s`, `total_tokens_per_s`), where the file has them.
        failed: number of requests that did not complete.
        medians: keys of `measured` whose values are medians, as the file has no mean.
        notes: on what was ignored.
    """

    path: Path
    sha256: str
    format: BenchFormat
    model: str | None
    backend: str | None
    load: Load
    measured: dict[str, float]
    failed: int
    medians: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data under `benchmark` in `roofline compare --json`: times in seconds, rates per second, lengths in tokens."""
        load = self.load
        return {
            "path": str(self.path),
            "format": self.format.title,
            "model": self.model,
            "backend": self.backend,
            "requests": load.requests,
            "failed": self.failed,
            "input_len": load.input_len,
            "output_len": load.output_len,
            "request_rate": None if math.isinf(load.rate) else load.rate,
            "max_concurrency": load.concurrency,
            "measured": self.measured,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFormat:
    """The JSON format in which a benchmark tool writes its result.

    Attributes:
        title: the tool and its versions.
        source: where the keys are documented.
        has: keys that all results of the format have.
        has_not: keys that none has.
        rates: our names of rates (`BenchResult.measured`) to the tool's keys.
        model: the key of the model's name; None where there is none.
    """

    title: str
    source: str
    has: tuple[str, ...]
    has_not: tuple[str, ...] = ()
    rates: dict[str, str] = field(default_factory=dict)
    model: str | None = None

    def matches(self, data: dict[str, Any]) -> bool:
        """Whether the keys of a result are those of this format."""
        return all(key in data for key in self.has) and not any(key in data for key in self.has_not)


# `benchmarks/benchmark_serving.py` of vLLM 0.4, whose rate of requests has a name of its own.
VLLM_BENCHMARK_SERVING_OLD = BenchFormat(
    title="vllm benchmark_serving.py (0.4)",
    source="https://github.com/vllm-project/vllm/blob/v0.4.3/benchmarks/benchmark_serving.py",
    has=(
        "backend",
        "model_id",
        "num_prompts",
        "completed",
        "total_input_tokens",
        "total_output_tokens",
        "request_inthroughput",
    ),
    rates={"requests_per_s": "request_inthroughput", "output_tokens_per_s": "output_throughput"},
    model="model_id",
)

# `benchmarks/benchmark_serving.py` of vLLM 0.5 to 0.8, before it became a command.
VLLM_BENCHMARK_SERVING = BenchFormat(
    title="vllm benchmark_serving.py (0.5 to 0.8)",
    source="https://github.com/vllm-project/vllm/blob/v0.8.5/benchmarks/benchmark_serving.py",
    has=("backend", "model_id", "num_prompts", "completed", "total_input_tokens", "total_output_tokens", "request_throughput"),
    has_not=("endpoint_type",),
    rates={
        "requests_per_s": "request_throughput",
        "output_tokens_per_s": "output_throughput",
        "total_tokens_per_s": "total_token_throughput",
    },
    model="model_id",
)

# `vllm bench serve --save-result`, from 0.9 on: it names the endpoint, and the label of the run.
VLLM_SERVE = BenchFormat(
    title="vllm bench serve (0.9 and later)",
    source="https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py",
    has=("endpoint_type", "model_id", "num_prompts", "completed", "total_input_tokens", "total_output_tokens"),
    rates={
        "requests_per_s": "request_throughput",
        "output_tokens_per_s": "output_throughput",
        "total_tokens_per_s": "total_token_throughput",
    },
    model="model_id",
)

# `python -m sglang.bench_serving`, 0.4 and 0.5: one object a line; the model is named by neither, if not by server_info.
SGLANG_BENCH_SERVING = BenchFormat(
    title="sglang bench_serving (0.4 and 0.5)",
    source="https://github.com/sgl-project/sglang/blob/main/python/sglang/bench_serving.py",
    has=("completed", "total_input_tokens", "total_output_tokens", "total_output_tokens_retokenized", "mean_ttft_ms"),
    rates={
        "requests_per_s": "request_throughput",
        "output_tokens_per_s": "output_throughput",
        "total_tokens_per_s": "total_throughput",
    },
)

# Those with more keys of their own first.
BENCH_FORMATS = Registry(
    "benchmark format", (VLLM_BENCHMARK_SERVING_OLD, VLLM_BENCHMARK_SERVING, VLLM_SERVE, SGLANG_BENCH_SERVING),
    group="roofline.benchmark_formats", key=attrgetter("title"), accepts=BenchFormat,
)  # fmt: skip


def read(path: str | Path) -> BenchResult:
    """Read the result of a benchmark; of several in one file the last.

    Raises:
        SpecError: no such file, or one of more than 256 MiB.
        InputError: no JSON, no format that is known (the message lists those that are), no completed request, or a value that
            is not a number in range.
    """
    path = Path(path)
    raw = files.read_bytes(path, _MAX_BYTES, "a benchmark's result")
    data, notes = _object(path, raw.decode("utf-8-sig", errors="replace"))
    for form in BENCH_FORMATS.values():
        if form.matches(data):
            return _result(path, hashlib.sha256(raw).hexdigest(), form, data, notes)
    raise InputError(f"{path}: the keys are of no benchmark that is known. Known: {_known()}.{_hint(data)}")


def _known() -> str:
    """Every format, for messages."""
    return "; ".join(form.title for form in BENCH_FORMATS.values())


def _hint(data: dict[str, Any]) -> str:
    if "elapsed_time" in data and "tokens_per_second" in data:
        return " This is a result of `vllm bench throughput`, which measures no server: run `vllm bench serve`."
    if "avg_latency" in data:
        return " This is a result of `vllm bench latency`, which measures no server: run `vllm bench serve`."
    return ""


def _object(path: Path, text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The object in a file, or the last of several on lines of their own."""
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    decoder, results, position = json.JSONDecoder(), list[Any](), 0
    try:
        while position < len(text):
            while position < len(text) and text[position].isspace():
                position += 1
            if position < len(text):
                value, position = decoder.raw_decode(text, position)
                results.append(value)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}. Known: {_known()}.") from None
    except RecursionError:
        raise InputError(f"{path}: not the JSON of a benchmark: nested too deep") from None
    data = results[-1]
    if isinstance(data, list) and data and isinstance(data[-1], dict):
        results, data = data, data[-1]
    if not isinstance(data, dict):
        raise InputError(f"{path}: a result is an object in braces, not {type(data).__name__}")
    return data, (f"the file holds {len(results)} results; the last is taken",) if len(results) > 1 else ()


def _result(path: Path, sha256: str, form: BenchFormat, data: dict[str, Any], notes: tuple[str, ...]) -> BenchResult:
    """A result in a format that it fits.

    Raises:
        InputError: a key that holds no number, or none that can be.
    """
    completed = int(_number(path, data, "completed", least=0))
    if completed == 0:
        raise InputError(f"{path}: completed is 0: no request was answered, so that there is nothing to compare")
    sent = int(_number(path, data, "num_prompts", least=1)) if data.get("num_prompts") is not None else completed
    output = _number(path, data, "total_output_tokens", least=0) / completed
    load = Load(
        requests=sent,
        input_len=_number(path, data, "total_input_tokens", least=0) / completed,
        output_len=output,
        rate=_rate(path, data.get("request_rate", math.inf)),
        concurrency=None if not data.get("max_concurrency") else int(_number(path, data, "max_concurrency", least=1)),
        output_variation=_variation(data.get("output_lens")),
    )
    if load.input_len < 1 or output < 1:
        raise InputError(
            f"{path}: {load.input_len:.3g} prompt and {output:.3g} generated tokens per request: nothing was generated"
        )
    measured: dict[str, float] = {}
    medians = []
    for name, keys in _FIGURES.items():
        key = next((key for key in keys if data.get(key) is not None), None)
        if key is not None and (value := _number(path, data, key, least=0)) > 0:
            measured[name] = value * 1e-3
            medians += [name] if key.startswith("median") else []
    for name, key in form.rates.items():
        if data.get(key) is not None:
            measured[name] = _number(path, data, key, least=0)
    model = data.get(form.model) if form.model else None
    return BenchResult(
        path=path,
        sha256=sha256,
        format=form,
        model=model if isinstance(model, str) else None,
        backend=data["backend"] if isinstance(data.get("backend"), str) else None,
        load=load,
        measured=measured,
        failed=max(sent - completed, 0),
        medians=tuple(medians),
        notes=notes,
    )


def _number(path: Path, data: dict[str, Any], key: str, *, least: float) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < least:
        raise InputError(f"{path}: {key} must be a number, at least {least:g}, not {value!r:.60}")
    return float(value)


def _rate(path: Path, value: object) -> float:
    if isinstance(value, str) and value.strip().lower() in ("inf", "infinity"):
        return math.inf
    if isinstance(value, str) and value == "trace":
        raise InputError(
            f"{path}: the requests arrived as in a trace: only a rate, or a limit on those in flight, can be compared"
        )
    try:
        rate = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        rate = math.nan
    if not rate > 0:
        raise InputError(f"{path}: request_rate must be a number above 0 or inf, not {value!r:.60}")
    return rate


def _variation(lengths: object) -> float | None:
    if not isinstance(lengths, list) or len(lengths) < 2 or not all(isinstance(entry, (int, float)) for entry in lengths):
        return None
    mean = sum(lengths) / len(lengths)
    return math.sqrt(sum((entry - mean) ** 2 for entry in lengths) / len(lengths)) / mean if mean > 0 else None
