"""What a benchmark's result holds: the load that was put on a server, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofline.errors import InputError
from roofline.formatting import plural

_FIGURES = {
    "ttft_s": ("mean_ttft_ms", "median_ttft_ms"),
    "tpot_s": ("mean_tpot_ms", "median_tpot_ms"),
    "itl_s": ("mean_itl_ms", "median_itl_ms"),
    "e2e_s": ("mean_e2el_ms", "median_e2el_ms", "mean_e2e_latency_ms", "median_e2e_latency_ms"),
}


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of a benchmark: lengths are means in tokens; `rate` in requests a second (infinite: all at once);
    `concurrency` is the most that are under way at a time, None where nothing limits it."""

    requests: int
    input_len: float
    output_len: float
    rate: float
    concurrency: int | None
    spread: float | None = None
    """Standard deviation of the answers' lengths over their mean; None where single lengths are not in the file."""

    @property
    def words(self) -> str:
        """The load in a few words."""
        lengths = f"{plural(self.requests, 'request')} of {self.input_len:,.0f} + {self.output_len:,.0f} tokens"
        arrivals = "all at once" if math.isinf(self.rate) else f"{self.rate:g} a second"
        if self.concurrency is None:
            return f"{lengths}, {arrivals}"
        limit = f"at most {self.concurrency:,} at a time"
        return f"{lengths}, {limit}" if math.isinf(self.rate) else f"{lengths}, {arrivals}, {limit}"


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark's result. `measured` are seconds and rates by name."""

    path: Path
    sha256: str
    format: BenchFormat
    model: str | None
    backend: str | None
    load: Load
    measured: dict[str, float]
    failed: int
    medians: tuple[str, ...] = ()
    """Names whose figure is a median, as there is no mean."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what was read."""
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
    """A tool's result in JSON: `has` and `has_not` are the keys by which it is known."""

    title: str
    source: str
    has: tuple[str, ...]
    has_not: tuple[str, ...] = ()
    rates: dict[str, str] = field(default_factory=dict)
    """Ours to the tool's keys, of rates."""
    model: str | None = None

    def fits(self, data: dict[str, Any]) -> bool:
        """Whether a result is in this format."""
        return all(key in data for key in self.has) and not any(key in data for key in self.has_not)


def read(path: Path, sha256: str, form: BenchFormat, data: dict[str, Any], notes: tuple[str, ...]) -> Bench:
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
        spread=_spread(data.get("output_lens")),
    )
    if load.input_len < 1 or output < 1:
        raise InputError(
            f"{path}: {load.input_len:.3g} prompt and {output:.3g} answered tokens a request: nothing was generated"
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
    return Bench(
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
            f"{path}: the requests arrived as in a trace: only a rate, or a limit on those under way, can be compared"
        )
    try:
        rate = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        rate = math.nan
    if not rate > 0:
        raise InputError(f"{path}: request_rate must be a number above 0 or inf, not {value!r:.60}")
    return rate


def _spread(lengths: object) -> float | None:
    if not isinstance(lengths, list) or len(lengths) < 2 or not all(isinstance(entry, (int, float)) for entry in lengths):
        return None
    mean = sum(lengths) / len(lengths)
    return math.sqrt(sum((entry - mean) ** 2 for entry in lengths) / len(lengths)) / mean if mean > 0 else None
