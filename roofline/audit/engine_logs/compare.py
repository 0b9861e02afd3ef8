"""Prediction beside reality: an engine's log and its benchmark, against what is predicted for the same deployment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.audit.engine_logs import files
from roofline.audit.engine_logs.benches import Bench
from roofline.audit.engine_logs.capacity import Capacity
from roofline.audit.engine_logs.case import Case
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.audit.engine_logs.reasons import why
from roofline.audit.engine_logs.rows import Row, Unit
from roofline.audit.engine_logs.subject import Subject, subject
from roofline.errors import InputError
from roofline.predict.request import Request, prepare
from roofline.specs.library import Input
from roofline.specs.source import Assumption

if TYPE_CHECKING:
    from roofline.audit.engine_logs.loaded import Served


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer to `roofline compare`."""

    rows: tuple[Row, ...]
    request: Request
    subject: Subject
    log: EngineLog | None
    bench: Bench | None
    served: Served | None
    assumptions: tuple[Assumption, ...]

    @property
    def inputs(self) -> dict[str, dict[str, str]]:
        """Every file that the answer stands on, by its role."""
        files = [(role, file) for role, file in (("engine log", self.log), ("benchmark", self.bench)) if file is not None]
        read = [Input(role, file.path.name, str(file.path), file.sha256) for role, file in files]
        used = (*read, *self.request.inputs, *self.request.estimator.fits.inputs.values())
        return {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used}

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the documented layout, without the header."""
        deployment = self.request.deployment
        return {
            "model": self.request.model.name,
            "hardware": self.request.hardware.name,
            "devices": deployment.devices,
            "engine_log": None if self.log is None else self.log.to_dict(),
            "benchmark": None if self.bench is None else self.bench.to_dict(),
            "load": None if self.served is None else self.served.way,
            "saturated": None if self.served is None else self.served.saturated,
            "concurrency": None if self.served is None else self.served.concurrency,
            "rows": [row.to_dict() for row in self.rows],
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }


def compare(
    model: str | None = None,
    hardware: str | None = None,
    *,
    engine_log_path: str | PathLike[str] | None = None,
    bench_path: str | PathLike[str] | None = None,
    **options: Any,
) -> Comparison:
    """Compare an engine's log, a benchmark's result, or both, with what is predicted.

    Args:
        model: as in `roofline.analyze`; None: as the files name it.
        hardware: likewise; logs seldom name it.
        engine_log_path: the log of a server of vLLM or SGLang.
        bench_path: a result of `vllm bench serve` or `sglang.bench_serving`.
        **options: of the deployment, as in `roofline.analyze`; they come before what the log says.

    Raises:
        roofline.errors.RooflineError: a file that is none of these, a model or hardware that no file names.
    """
    if engine_log_path is None and bench_path is None:
        raise InputError("nothing to compare: give --engine-log FILE, --bench FILE, or both")
    log = None if engine_log_path is None else files.log(Path(engine_log_path))
    bench = None if bench_path is None else files.bench(Path(bench_path))
    about = subject(model, hardware, options, log, bench)
    request, served, rows = _predict(about, log, bench)
    case = Case(request=request, subject=about, log=log, bench=bench, served=served, rows=tuple(rows))
    explained = tuple(replace(row, why=why(row, case)) for row in rows)
    return Comparison(explained, request, about, log, bench, served, (*about.notes, *_rest(about, request)))


def _rest(about: Subject, request: Request) -> list[Assumption]:
    """What else was assumed, without what the subject has already said."""
    said = {note.name for note in about.notes}
    return [note for note in request.assumptions if note.name not in said]


def _predict(about: Subject, log: EngineLog | None, bench: Bench | None) -> tuple[Request, Served | None, list[Row]]:
    if bench is None:
        request = prepare(about.model, about.hardware, batch=1, input_len=1, phase="decode", **about.options)
        return request, None, Capacity(request, about.engine, log, about.eager).rows()
    from roofline.audit.engine_logs.loaded import Server
    from roofline.serving.queueing.closed_loop import ClosedLoop

    loop = ClosedLoop.of(about.model, about.hardware, **about.options)
    request = loop.steps.request
    capacity = Capacity(request, about.engine, log, about.eager)
    tokens = capacity.tokens * request.deployment.data_parallel_size
    served = Server(loop, bench.load, tokens, int(str(request.deployment.max_num_seqs or 256))).served()
    return request, served, [*(capacity.rows() if log is not None else []), *_loaded(bench, served)]


def _loaded(bench: Bench, served: Served) -> list[Row]:
    """A row each figure of the benchmark that is predicted."""
    rates, load = served.requests_per_s, bench.load
    factors = {
        "requests_per_s": 1.0,
        "output_tokens_per_s": load.output_len,
        "total_tokens_per_s": load.input_len + load.output_len,
    }
    spans: dict[str, tuple[Unit, Any, float]] = {
        "ttft_s": ("s", served.ttft, 1.0),
        "tpot_s": ("s", served.tpot, 1.0),
        "itl_s": ("s", served.tpot, 1.0),
        "e2e_s": ("s", served.e2e, 1.0),
        **{name: ("1/s", rates, factor) for name, factor in factors.items()},
    }
    rows = []
    for name, (unit, span, factor) in spans.items():
        if name not in bench.measured:
            continue
        best, low, high, bound = (
            None if value is None else value * factor for value in (span.estimate, span.low, span.high, span.bound)
        )
        predicted = bound if best is None else best
        if unit == "1/s":
            bound = served.capacity * factor
        basis = f"{'bound' if best is None else 'estimate'} of the model on the hardware"
        rows.append(Row(name, unit, bench.measured[name], predicted, low, high, bound, basis))
    return rows
