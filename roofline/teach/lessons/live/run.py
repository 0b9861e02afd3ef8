"""What the controls ask, answered. Pages run a translation of this module."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.blocks.model_files import load_model
from roofline.graph import build, caches
from roofline.numeric import Expr
from roofline.predict.analyze import run as analysed
from roofline.predict.request import Request, prepare
from roofline.predict.result import Analysis, OperatorResult, Phase
from roofline.report.analysis.state import WEIGHTS
from roofline.specs.library import load_hardware
from roofline.specs.workload import decode
from roofline.symbols import TABLE
from roofline.teach.lessons.live.edits import Values, edited

_COUNTS = ("batch", "input_len", "context", "tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The controls, the request that they make, and its answer."""

    values: Values
    request: Request
    result: Analysis

    @property
    def decode(self) -> Phase:
        """The decode step."""
        return next(phase for phase in self.result.phases if phase.name == "decode")

    def operator(self, path: str) -> OperatorResult:
        """One operator of the decode step."""
        return next(op for op in self.decode.operators if op.path == path)


def ran(values: Values) -> Run:
    """The answer. Times are bounds, unless `efficiency` is on; what does not fit is counted all the same.

    Raises:
        InputError: dimensions that do not go together.
    """
    options: Values = {key: int(values[key]) for key in _COUNTS if key in values}
    if values.get("weights", "") in WEIGHTS:
        name, value = WEIGHTS[values["weights"]]
        options[name] = value
    if values.get("kv", "") != "":
        options["kv_cache_dtype"] = values["kv"]
    if values.get("bandwidth_gbs", 0) > 0:
        options["bandwidth"] = values["bandwidth_gbs"] * 1e9
    if values.get("peak_tflops", 0) > 0:
        options["peak_flops"] = values["peak_tflops"] * 1e12
    if values.get("memory_gb", 0) > 0:
        options["memory"] = values["memory_gb"] * 1e9
    model = edited(load_model(values["model"])[0], values)
    request = prepare(model, load_hardware(values["hardware"])[0], ignore_capacity=True, **options)
    if not values.get("efficiency", False):
        request = replace(request, estimator=replace(request.estimator, wanted=False), steps=None)
    return Run(values=values, request=request, result=analysed(request))


def shape(run: Run) -> str:
    """What the form of the formulas depends on: model, kind of attention, whether a window binds its cache, devices."""
    model, devices = run.request.model, run.request.deployment.tensor_parallel_size
    first = next(iter(model.layer_types.values())).mixer
    window = getattr(first, "sliding_window", None)
    shared = "" if devices == 1 else f" on {devices}"
    return f"{model.name} {getattr(first, 'kind', '')}{'' if window is None else ' window'}{shared}"


def symbols(run: Run) -> dict[str, float]:
    """What the symbols of the nomenclature stand for, by their names in text."""
    request = run.request
    model, workload, precision = request.model, request.workload, request.precision
    memory = run.result.memory
    found: dict[str, float] = {
        "B": workload.batch,
        "S_q": workload.input_len,
        "S_c": workload.context,
        "L": sum(len(group.pattern) * group.repeat for group in model.layers),
        "b_w": precision.weight.bytes,
        "b_a": precision.activation.bytes,
        "b_kv": precision.kv.bytes,
        "P": request.hardware.peak(precision.activation.name),
        "β": request.hardware.bandwidth,
        "W_streamed": streamed(run),
        "M_free": memory.budget_bytes - memory.weights_bytes - memory.reserved_bytes,
        "A": memory.activation_bytes / workload.batch,
        "b_block": request.memory.block_tokens,
    }
    first = next(iter(model.layer_types.values()))
    for entry in TABLE:
        for block in (model, first.mixer, first.mlp):
            value = getattr(block, entry.hf_key, None) if entry.hf_key != "" else None
            if isinstance(value, int) and entry.name not in found:
                found[entry.name] = value
    return found


def streamed(run: Run) -> float:
    """Bytes of weights that one decode step of one sequence reads."""
    request = run.request
    graph = build(request.model, request.deployment, request.precision, decode(1, 0), request.memory.stage)
    total: float = sum(operator.cost().weight_bytes * repeat for operator, repeat in graph.values())
    return total


def kv_bytes_per_sequence(run: Run) -> float:
    """The cache of a sequence after a decode step: S_c tokens and the new one."""
    found = caches(run.request.model, run.request.deployment, run.request.memory.stage)
    kept: float = kept_bytes(found, run.request.precision.kv.bytes, run.request.workload.context + 1)
    return kept


def kept_bytes(found: list[tuple[Expr, Expr]], size: Expr, length: Expr) -> Expr:
    """Bytes of the caches of all layers after some tokens; symbols work too.

    >>> from roofline.blocks.base import Cache
    >>> kept_bytes([(Cache(2048), 32)], 2, 4096), kept_bytes([(Cache(2048, window=4096), 32)], 2, 32768)
    (536870912, 536870912)
    """
    return sum(cache.kept(length) * cache.elements * size * layers for cache, layers in found)
