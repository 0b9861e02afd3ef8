"""Prediction and measurement: an engine's log and its benchmark, against what is predicted for the same deployment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.audit.engine_logs import bench_result, engine_log
from roofline.audit.engine_logs.bench_result import BenchResult
from roofline.audit.engine_logs.capacity import Capacity
from roofline.audit.engine_logs.deployment import LoggedDeployment, logged_deployment
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.audit.engine_logs.names import Row, Unit
from roofline.audit.engine_logs.reasons import Evidence, why
from roofline.errors import InputError
from roofline.predict.drafts import read_options, resolve
from roofline.predict.request import ResolvedRequest
from roofline.specs.library import Input
from roofline.specs.source import Assumption

if TYPE_CHECKING:
    from roofline.audit.engine_logs.load_prediction import LoadPrediction


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `roofline compare`.

    Attributes:
        rows: one quantity each, measured and predicted.
        request: the deployment that the predictions are of.
        deployment: its options, and where they come from.
        log: the engine's log; None: not given.
        bench: the benchmark's result, likewise.
        load: the prediction for the load of the benchmark; None without one.
        assumptions: everything that was read from the files or assumed.
    """

    rows: tuple[Row, ...]
    request: ResolvedRequest
    deployment: LoggedDeployment
    log: EngineLog | None
    bench: BenchResult | None
    load: LoadPrediction | None
    assumptions: tuple[Assumption, ...]

    @property
    def inputs(self) -> dict[str, dict[str, str]]:
        """Name, path and SHA-256 of every file that was read, by its role."""
        files = [(role, file) for role, file in (("engine log", self.log), ("benchmark", self.bench)) if file is not None]
        read = [Input(role, file.path.name, str(file.path), file.sha256) for role, file in files]
        used = (*read, *self.request.inputs, *self.request.estimator.fits.inputs.values())
        return {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used}

    def to_dict(self) -> dict[str, Any]:
        """Plain data in the layout of `roofline compare --json`, without the header."""
        deployment = self.request.deployment
        return {
            "model": self.request.model.name,
            "hardware": self.request.hardware.name,
            "devices": deployment.devices,
            "engine_log": None if self.log is None else self.log.to_dict(),
            "benchmark": None if self.bench is None else self.bench.to_dict(),
            "load": None if self.load is None else self.load.description,
            "saturated": None if self.load is None else self.load.saturated,
            "concurrency": None if self.load is None else self.load.concurrency,
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
        engine_log_path: the log of a server of vLLM, SGLang, TensorRT-LLM or llama.cpp.
        bench_path: a result of `vllm bench serve` or `sglang.bench_serving`.
        **options: of the deployment and of speculative decoding, as in `roofline.analyze`; they take precedence over the log.

    Returns:
        Measured and predicted quantities in base units, with likely reasons for each gap.

    Raises:
        InputError: neither file given, a file in no known format, files of different models, a model or hardware that no file
            names, an option that is wrong, or a deployment whose memory does not hold one request of the load.
        SpecError: a file that does not exist or is too large.
    """
    if engine_log_path is None and bench_path is None:
        raise InputError("nothing to compare: give --engine-log FILE, --bench FILE, or both")
    log = None if engine_log_path is None else _read_log(Path(engine_log_path))
    bench = None if bench_path is None else _read_bench(Path(bench_path))
    about = logged_deployment(model, hardware, options, log, bench)
    request, load, rows = _predict(about, log, bench)
    evidence = Evidence(request=request, deployment=about, log=log, bench=bench, load=load, rows=tuple(rows))
    explained = tuple(replace(row, why=why(row, evidence)) for row in rows)
    noted = {note.name for note in about.notes}
    rest = (note for note in request.assumptions if note.name not in noted)
    return Comparison(explained, request, about, log, bench, load, (*about.notes, *rest))


def _read_log(path: Path) -> EngineLog:
    """An engine's log; a benchmark's result that was given instead is named as what it is."""
    try:
        return engine_log.read(path)
    except InputError as error:
        try:
            bench = bench_result.read(path)
        except InputError:
            raise error from None
        raise InputError(f"{path}: this is a result of {bench.format.title}, no log: give it as --bench") from None


def _read_bench(path: Path) -> BenchResult:
    """A benchmark's result; an engine's log that was given instead is named as what it is."""
    try:
        return bench_result.read(path)
    except InputError as error:
        try:
            log = engine_log.read(path)
        except InputError:
            raise error from None
        raise InputError(f"{path}: this is a log of {log.format.engine}, no result: give it as --engine-log") from None


def _predict(
    about: LoggedDeployment, log: EngineLog | None, bench: BenchResult | None
) -> tuple[ResolvedRequest, LoadPrediction | None, list[Row]]:
    request, speculation = resolve(about.model, about.hardware, batch=1, input_len=1, phase="decode", **about.options)
    capacity = Capacity(request, about.engine, log, about.eager)
    if bench is None:
        return request, None, capacity.rows()
    from roofline.audit.engine_logs.load_prediction import LoadPredictor
    from roofline.serving.queueing.closed_loop import ClosedLoop

    loop = ClosedLoop.of(about.model, about.hardware, **read_options(about.options)[1])
    tokens = capacity.tokens * request.deployment.data_parallel_size
    load = LoadPredictor(loop, bench.load, tokens, int(str(request.deployment.max_num_seqs or 256)), speculation).predict()
    # the stream of a request has one piece per step
    per_step = 1.0 if speculation is None else speculation.tokens
    return request, load, [*(capacity.rows() if log is not None else []), *_load_rows(bench, load, per_step)]


def _load_rows(bench: BenchResult, predicted_load: LoadPrediction, tokens_per_step: float) -> list[Row]:
    """A row for each figure of the benchmark that is predicted."""
    rates, load = predicted_load.requests_per_s, bench.load
    factors = {
        "requests_per_s": 1.0,
        "output_tokens_per_s": load.output_len,
        "total_tokens_per_s": load.input_len + load.output_len,
    }
    spans: dict[str, tuple[Unit, Any, float]] = {
        "ttft_s": ("s", predicted_load.ttft, 1.0),
        "tpot_s": ("s", predicted_load.tpot, 1.0),
        "itl_s": ("s", predicted_load.tpot, tokens_per_step),
        "e2e_s": ("s", predicted_load.e2e, 1.0),
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
            bound = predicted_load.capacity * factor
        basis = f"{'bound' if best is None else 'estimate'} of the model on the hardware"
        rows.append(Row(name, unit, bench.measured[name], predicted, low, high, bound, basis))
    return rows
