"""What a measured run says of the engine that served it: its `meta.json`.

Three parts, of which runs of older tools have the first alone: `engine_kwargs`, the arguments it was started with;
`resolved_config`, what the engine made of them; `kv_cache` and `hardware`, what it found when it had started.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline import files
from roofline.errors import SpecError
from roofline.serving.traffic.tables import read_bytes
from roofline.text import clean

NAME = "meta.json"
ASYNCHRONOUS = (0, 14)
"""Since this version vLLM forms a step while the one before runs, unless it is told not to."""

# Option of ours: where it stands, the surest first.
_WHOLE = {
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
_SHARES = {"gpu_memory_utilization": ("kv_cache.gpu_memory_utilization", "engine_kwargs.gpu_memory_utilization")}
_WORDS = {
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
    """What is known of the engine; None, or no entry, where the file does not say it."""

    path: str
    model: str | None
    version: str | None
    device: str | None
    """As the driver calls it."""
    device_bytes: int | None
    data_parallel_size: int
    options: dict[str, Any]
    """The deployment, in the words of `roofline simulate`."""
    prefix_caching: bool | None
    asynchronous: bool | None
    """Whether a step is formed while the one before runs."""

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers; empty where there is none.

        >>> EngineMeta("", None, "0.19.0rc1", None, None, 1, {}, None, None).release
        (0, 19)
        """
        found = []
        for part in (self.version or "").lstrip("v").split("."):
            if not part.isdigit():
                break
            found.append(int(part))
        return tuple(found)

    @property
    def ahead(self) -> bool | None:
        """The same, or else the default of the version; None where that is not known either."""
        if self.asynchronous is not None or not self.release:
            return self.asynchronous
        return self.release >= ASYNCHRONOUS


def read_meta(folder: Path) -> EngineMeta | None:
    """The `meta.json` of a run; None where there is none.

    Raises:
        SpecError: no JSON object, or a value of the wrong kind, by its key.
    """
    path = folder / NAME
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
    found = _Values(path, data)
    options: dict[str, Any] = {name: found.whole(*keys) for name, keys in _WHOLE.items()}
    options |= {name: found.share(*keys) for name, keys in _SHARES.items()}
    options |= {name: _plain(found.text(*keys)) for name, keys in _WORDS.items()}
    switches = {name: found.switch(*keys) for name, keys in _SWITCHES.items()}
    data_parallel = found.whole("engine_kwargs.data_parallel_size") or 1
    if switches["enable_expert_parallel"]:
        options["expert_parallel_size"] = (options["tensor_parallel_size"] or 1) * data_parallel
    if switches["enable_prefix_caching"]:
        options["enable_prefix_caching"] = True
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if options[name] == 1:
            options[name] = None
    return EngineMeta(
        path=str(path),
        model=found.text("model", "engine_kwargs.model"),
        version=found.text("vllm_version"),
        device=found.text("hardware.device_name"),
        device_bytes=found.whole("hardware.device_total_memory_bytes"),
        data_parallel_size=data_parallel,
        options={name: value for name, value in options.items() if value is not None},
        prefix_caching=switches["enable_prefix_caching"],
        asynchronous=switches["async_scheduling"],
    )


def _plain(word: str | None) -> str | None:
    """A word that says something: `auto` leaves it to the engine."""
    return None if word in (None, "auto") else word.removeprefix("torch.")


@dataclass(frozen=True, slots=True)
class _Values:
    path: Path
    data: dict[str, Any]

    def _find(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        """The first of the keys that has a value."""
        for key in keys:
            value: Any = self.data
            for part in key.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None:
                return key, value
        return keys[0], None

    def _wrong(self, key: str, wanted: str, value: Any) -> SpecError:
        return SpecError(f"{key} must be {wanted}, not {clean(json.dumps(value))[:60]}", path=self.path)

    def whole(self, *keys: str) -> int | None:
        key, value = self._find(keys)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(key, "a whole number, at least 1", value)
        return value

    def share(self, *keys: str) -> float | None:
        key, value = self._find(keys)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1 or math.isnan(value):
            raise self._wrong(key, "a share, more than 0 and at most 1", value)
        return float(value)

    def text(self, *keys: str) -> str | None:
        key, value = self._find(keys)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value

    def switch(self, *keys: str) -> bool | None:
        key, value = self._find(keys)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value
