"""One operator on one device: what it does, what it moves, how long it takes, and what limits it.

It is timed alone, as a benchmark does it: caches cold, its launch and whatever it does before its product in its own time. What
remains of that in an engine's step, whose graphs hide launches, is given beside it (`in_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from roofline.blocks.precision import resolve_precision
from roofline.cost import ZERO, Cost
from roofline.documents import dump_json, envelope
from roofline.dtypes import Precision
from roofline.errors import InputError
from roofline.operators.base import Operator
from roofline.predict import assumptions
from roofline.predict.bounds import Times, matrix_dtype, times
from roofline.predict.duration import Duration
from roofline.predict.efficiency.estimate import Basis, Estimator
from roofline.predict.efficiency.fits import DEFAULT, HOST, Fits
from roofline.predict.efficiency.form import SERVING, Conditions, WorkGrid
from roofline.predict.efficiency.forms import GRIDS
from roofline.predict.efficiency.kernels import EXPERTS as MOE
from roofline.predict.efficiency.kernels import Kernel
from roofline.predict.floor import graph_floor
from roofline.predict.operator_query import EXPERTS, Dimensions, OperatorQuery, Values, operator_query, swept_dimension
from roofline.predict.options import (
    COUNTING,
    ENGINE,
    HARDWARE,
    OPTIONS,
    PRECISION,
    Count,
    Number,
    Quantity,
    Text,
    keywords,
)
from roofline.predict.request import Options, override_hardware, validated
from roofline.predict.result import Costed, bytes_by_content
from roofline.predict.sweeps.axes import numbers
from roofline.predict.timing import with_estimate
from roofline.registry import Displayed
from roofline.specs.deployment import Conventions, Deployment
from roofline.specs.engine import Engine
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_engine, load_engine_steps, load_hardware, measured_engines
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from roofline.predict.explain import Explanation

GROUPS = (PRECISION, HARDWARE, ENGINE, COUNTING)
"""Of the schema: the options that one operator takes."""


class KernelOptions(TypedDict, total=False):
    """Options of these groups that matter to one operator."""

    dtype: Text
    activation_dtype: Text
    kv_cache_dtype: Text
    quantization: Text
    bits_per_weight: Number
    engine: Text
    backend: Text
    peak_flops: Quantity
    bandwidth: Quantity
    link_bandwidth: Quantity
    allreduce_bandwidth: Quantity
    mfu: Number
    mbu: Number
    mask: Literal["causal", "full"] | None
    attention: Literal["fused", "eager"] | None
    mla: Literal["auto", "expand", "absorb"] | None
    routing_skew: Number
    shared_prefix: Count
    mamba_ssm_cache_dtype: Text


class OpOptions(KernelOptions, Dimensions, total=False):
    """Keyword arguments of `op`: dimensions by name, and options."""


_TAKEN = tuple(KernelOptions.__annotations__)
WITHOUT = tuple(name for name, entry in OPTIONS.items() if entry.group in GROUPS and name not in _TAKEN)
"""Options of these groups that matter to whole deployments alone."""
MOST_POINTS = 4096
"""Of a sweep."""
_MOST = 2**30
"""Up to which a dimension is looked at for where an operator becomes compute-bound."""
_MAIN = ("time_bound", "link_bytes", "matrix_flops")
"""Of the formulas of an operator the first that it has is `formula`."""
_SIXTEEN_BITS = ("bf16", "fp16", "fp32")

_TERMS = {
    "launch": ("overhead", "launch"),
    "wait": ("overhead", "fixed cost of a call"),
    "latency": ("overhead", "latency"),
    "calls": ("overhead", "latency of the calls"),
    "extra": ("overhead", "further kernels"),
    "tiles": ("compute", "compute in tiles"),
    "feed": ("compute", "operands from the L2 cache"),
    "blocks": ("compute", "thread blocks"),
    "compute": ("compute", "matrix units"),
    "matrix": ("compute", "matrix units"),
    "vector": ("compute", "vector units"),
    "quantise": ("memory", "quantizing activations"),
    "memory": ("memory", "device memory"),
    "streams": ("memory", "keys streamed through each SM"),
    "cached": ("memory", "cached keys and values"),
    "activations": ("memory", "queries, outputs and new keys"),
    "queries": ("memory", "queries and outputs"),
    "write": ("memory", "writing the cache"),
    "stream": ("memory", "activations between the products"),
    "link": ("link", "link"),
    "up_proj": ("", "up projection"),
    "down_proj": ("", "down projection"),
}
"""Terms of estimates: what each is a limit of ("": whatever binds the operator), and its name for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPoint(Costed):
    """One operator at one shape, in base units (FLOP, bytes, seconds)."""

    dims: dict[str, Any]
    cost: Cost
    times: Times
    """Seconds for which each resource of the device is busy."""
    time: Duration
    """Alone: floor, bound, sum and estimate with its interval."""
    bound_by: str
    """`compute`, `memory` or `link`: what is busy longest."""
    limited_by: str
    """What most of the estimate goes to: `compute`, `memory`, `link` or `overhead` (launches, latency)."""
    terms: dict[str, float]
    """Parts of the estimate in seconds, which overlap."""

    @property
    def time_s(self) -> Duration:
        """Times in seconds."""
        return self.time

    @property
    def resources_s(self) -> Times:
        """Seconds for which each resource is busy."""
        return self.times

    @property
    def terms_s(self) -> dict[str, float]:
        """Parts of the estimate in seconds."""
        return self.terms

    @property
    def messages(self) -> float:
        """Steps of communication, one after another."""
        count: float = self.cost.messages
        return count

    @property
    def matrix_intensity(self) -> float | None:
        """Matrix FLOP per byte of device memory."""
        return self.cost.matrix_flops / self.cost.bytes if self.cost.bytes else None

    @property
    def intensity(self) -> float | None:
        """Matrix FLOP per byte of device memory, which is what the ridge point is of; vector FLOP where it has no others."""
        flops = self.cost.matrix_flops or self.cost.vector_flops
        return flops / self.cost.bytes if self.cost.bytes else None

    @property
    def mfu(self) -> float | None:
        """Share of the matrix peak that is used, at the estimate, else at the bound."""
        return self.times.matrix / self.time.best if self.time.best else None

    @property
    def mbu(self) -> float | None:
        """Share of the memory bandwidth that is used, likewise."""
        return self.times.memory / self.time.best if self.time.best else None

    @property
    def link_share(self) -> float | None:
        """Share of the link's bandwidth that is used, likewise."""
        return self.times.link / self.time.best if self.time.best else None

    @property
    def flops_per_s(self) -> float | None:
        """FLOP/s that are reached, likewise."""
        return self.cost.flops / self.time.best if self.time.best else None

    def figures(self) -> dict[str, Any]:
        """The numbers of this shape as plain data, in the layout of `roofline op --json`."""
        cost = self.cost
        return {
            "dims": self.dims,
            "flops": {"matrix": cost.matrix_flops, "vector": cost.vector_flops, "total": cost.flops},
            "bytes": bytes_by_content(cost),
            "link_bytes": cost.link_bytes,
            "messages": cost.messages,
            "arithmetic_intensity": cost.flops / cost.bytes if cost.bytes else None,
            "matrix_intensity": cost.matrix_flops / cost.bytes if cost.bytes else None,
            "bound_by": self.bound_by,
            "time_s": {**self.time.to_dict(), "sum": self.time.sum},
            "resources_s": {name: getattr(self.times, name) for name in ("matrix", "vector", "memory", "link")},
            "limited_by": self.limited_by,
            "terms_s": self.terms,
            "flops_per_s": self.flops_per_s,
            "mfu": self.mfu,
            "mbu": self.mbu,
        }

    def row(self) -> dict[str, Any]:
        """One flat row: dimensions, then results; times end in `_s`."""
        return {
            **self.dims,
            "matrix_flops": self.cost.matrix_flops,
            "vector_flops": self.cost.vector_flops,
            "bytes": self.cost.bytes,
            "link_bytes": self.cost.link_bytes,
            "matrix_intensity": self.cost.matrix_flops / self.cost.bytes if self.cost.bytes else None,
            "bound_by": self.bound_by,
            "time_floor_s": self.time.floor,
            "time_bound_s": self.time.bound,
            "time_estimate_s": self.time.estimate,
            "time_low_s": self.time.low,
            "time_high_s": self.time.high,
            "limited_by": self.limited_by,
            "flops_per_s": self.flops_per_s,
            "mfu": self.mfu,
            "mbu": self.mbu,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSweep:
    """A curve: the operator over values of one dimension."""

    dimension: str
    points: tuple[OpPoint, ...]
    crossovers: tuple[tuple[int, str, str], ...]
    """Where what binds changes: the first value, what bound before, and what from there on."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpResult(Displayed, OpPoint):
    """The result of `roofline op`: one operator on one device."""

    operator: str
    parts: dict[str, dict[str, Any]]
    """The operators of the kernel by name, with their kind and dimensions: one, but for the experts of a layer."""
    formats: dict[str, str]
    dtype: str
    """In which products run."""
    hardware: dict[str, Any]
    """Name, title, peak of the dtype (FLOP/s), bandwidth (byte/s), ridge point (FLOP/byte)."""
    in_step: Duration
    """In an engine's step: its launch partly hidden, activations quantised by the kernel before."""
    estimate_basis: Basis | None
    """`measured` on this card, `transferred` from another, a `prior`, or `given`; None without an estimate."""
    estimate_source: str
    median_error: float | None
    """Of the fit on shapes that it had not seen, as a share."""
    grid: WorkGrid | None
    """Tiles or thread blocks over the compute units, where the form of the fitted kernel has them."""
    compute_bound_from: tuple[str, int | None] | None
    """The dimension that makes it compute-bound as it grows and the value from which it is; None where there is none such."""
    sweep: OpSweep | None
    unstated: tuple[str, ...]
    """Dimensions with their default that were not given: structure without effect."""
    assumptions: tuple[Assumption, ...]
    inputs: dict[str, Any]
    query: dict[str, Any]
    """What was given: `operator`, `hardware` and the other arguments."""
    explain: Callable[[], tuple[Explanation, ...]] = field(compare=False)
    """Makes the formulas."""

    @property
    def ridge_point(self) -> float | None:
        """FLOP per byte at which the device's memory and its matrix units take equally long."""
        edge: float | None = self.hardware["ridge_point"]
        return edge

    @property
    def in_step_s(self) -> Duration:
        """Times in an engine's step, in seconds."""
        return self.in_step

    @property
    def operators(self) -> dict[str, dict[str, Any]]:
        """The operators of the kernel by name."""
        return self.parts

    @property
    def formulas(self) -> tuple[Explanation, ...]:
        """FLOP, bytes, intensity and bound as formulas, with numbers put in."""
        return self.explain()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in base units, in the layout of `roofline op --json`."""
        document: dict[str, Any] = {
            **envelope(self.inputs),
            "operator": self.operator,
            "operators": self.parts,
            "formats": self.formats,
            "dtype": self.dtype,
            "hardware": self.hardware,
            "ridge_point": self.hardware["ridge_point"],
            **self.figures(),
            "in_step_s": {name: getattr(self.in_step, name) for name in ("bound", "estimate", "low", "high")},
            "estimate_basis": self.estimate_basis,
            "estimate_source": self.estimate_source,
            "median_error": self.median_error,
            "grid": None if self.grid is None else {**asdict(self.grid), "waves": self.grid.waves},
            "compute_bound_from": None if self.compute_bound_from is None else dict([self.compute_bound_from]),
        }
        formulas = [
            {name: getattr(part, name) for name in ("subject", "formula", "latex", "substituted", "value", "unit", "source")}
            for part in self.formulas
        ]
        by_subject = {formula["subject"]: formula for formula in reversed(formulas)}
        document["formula"] = next((by_subject[name] for name in _MAIN if name in by_subject), formulas[0])
        document["formulas"] = formulas
        if self.sweep is not None:
            document["points"] = [point.figures() for point in self.sweep.points]
            document["sweep"] = {
                "dimension": self.sweep.dimension,
                "crossovers": [{"at": at, "from": before, "to": after} for at, before, after in self.sweep.crossovers],
            }
        document["assumptions"] = [
            {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
        ]
        return document

    def to_json(self, indent: int | None = 2) -> str:
        """Return the result as JSON text; NaN and infinity are null."""
        return dump_json(self.to_dict(), indent)

    def rows(self) -> list[dict[str, Any]]:
        """Return flat rows: the points of the sweep, or the one shape."""
        return [point.row() for point in self.sweep.points] if self.sweep is not None else [self.row()]


@keywords(*GROUPS, without=WITHOUT)
def op(
    operator: str,
    /,
    *dimensions: Any,
    hardware: str | PathLike[str] | Hardware,
    sweep: str | Mapping[str, Any] | None = None,
    **options: Unpack[OpOptions],
) -> OpResult:
    """Predict one operator on one device.

    Args:
        operator: `gemm`, `attention`, `experts`, `all-reduce`, `norm`, or any other registered operator.
        *dimensions: in the order of the operator's own (gemm: m, n, k); or by name, among the options.
        hardware: a shipped id, the path of a file, or loaded hardware.
        sweep: a dimension and its values, "m=1:8192:x2" or {"m": [1, 8, 64]}: adds the curve.
        **options: dimensions by name (`m=512`, `q_len=1`, `tp=8`, `bytes="64 MB"`), and the options of formats, hardware,
            backend and counting as of `analyze` (`dtype`, `quantization`, `peak_flops`, `mfu`, ...).

    Returns:
        Cost, times and what limits them, in base units; `.formulas`, `.to_dict()`, `.figure("roofline")`.

    Raises:
        roofline.errors.RooflineError: an unknown operator, dimension or option, or a wrong value.

    >>> result = op("gemm", m=512, n=8192, k=28672, hardware="h100-sxm", dtype="bf16")
    >>> result.cost.matrix_flops, result.bound_by  # 2*512*8192*28672
    (240518168576, 'compute')
    """
    query = operator_query(operator)
    left = Options.of({name: value for name, value in options.items() if _is_option(name)})
    named = {name: value for name, value in options.items() if not _is_option(name) and value is not None}
    swept: tuple[str, tuple[int, ...]] | None = None
    if sweep is not None:
        swept = _swept(query, sweep)
        taken = {query.dimension(name, _TAKEN).name for name in named}
        taken |= {entry.name for entry, _ in zip(query.dimensions, dimensions, strict=False)}
        if swept[0] not in taken:  # the one shape that is shown is the last of the curve
            named[swept[0]] = swept[1][-1]
    values, given = query.read(dimensions, named, _TAKEN)
    request = {
        "operator": query.name,
        "hardware": str(hardware),
        **named,
        **{k: v for k, v in options.items() if _is_option(k)},
    }
    setting = _setting(query, hardware, left)
    if swept is not None:
        return _result(setting, values, given, request, _curve(setting, values, *swept))
    return _result(setting, values, given, request, None)


def _is_option(name: str) -> bool:
    return name in _TAKEN


def _swept(query: OperatorQuery, sweep: str | Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """The dimension of a sweep and its values in rising order."""
    if isinstance(sweep, Mapping):
        if len(sweep) != 1:
            raise InputError("a sweep is over one dimension")
        ((name, written),) = sweep.items()
        name = query.dimension(str(name)).name
    else:
        name, written = swept_dimension(query, sweep)
    entry = query.dimension(name)
    if entry.kind not in ("count", "bytes"):
        raise InputError(f"--sweep is over whole numbers, and {name} of {query.name} is none")
    if entry.kind == "bytes":  # 1MB:64MB:x2
        parts = written.split(",") if isinstance(written, str) else written if isinstance(written, Iterable) else [written]
        ends = [str(part).split(":") for part in parts]
        written = ",".join(":".join(str(entry.read(end, query.name)) if "B" in end else end for end in part) for part in ends)
    points = sorted({entry.read(value, query.name) for value in numbers(name, written, entry.minimum)})
    if len(points) > MOST_POINTS:
        raise InputError(f"--sweep has {len(points):,} values; it can have {MOST_POINTS:,}")
    return name, tuple(points)


@dataclass(frozen=True, slots=True)
class _Setting:
    """Where an operator runs, with everything resolved but its shape."""

    query: OperatorQuery
    hardware: Hardware
    precision: Precision
    conventions: Conventions
    engine: Engine
    alone: Estimator
    in_step: Estimator
    notes: tuple[Assumption, ...]
    inputs: tuple[Input, ...]

    def operators(self, values: Values) -> dict[str, Operator]:
        """The operators of the kernel at a shape."""
        return self.query.make(values, self.precision, self.conventions)

    def kernel(self, values: Values) -> Kernel:
        """The kernel at a shape."""
        operators = self.operators(values)
        name = MOE if self.query.name == EXPERTS else next(iter(operators.values())).measured_as
        return Kernel(name, operators, tuple(operators), 1)

    def bound_by(self, values: Values) -> str:
        """What binds at a shape: of several operators one after another what binds most of their bounds."""
        return _binding(_resources(self.operators(values), self.hardware))


@dataclass(frozen=True, slots=True)
class _Unquantized:
    """What the formats of an operator are decided from: weights as they come, in 16 bits."""

    dtype: str
    activation_dtype: str | None = None
    quantization: tuple[Any, ...] = ()
    layer_types: Mapping[str, Any] = field(default_factory=dict)
    state_dtype: str | None = None
    family: str = ""


def _setting(query: OperatorQuery, hardware: str | PathLike[str] | Hardware, left: Options) -> _Setting:
    """Read the options, load the files."""
    notes: list[Assumption] = []
    inputs: list[Input] = []
    if not isinstance(hardware, Hardware):
        hardware, inputs = load_hardware(hardware)
    hardware = override_hardware(hardware, left, notes)
    engine, read = load_engine(left.take("engine") or DEFAULT)
    inputs = [*inputs, read]
    backend = left.take("backend")
    if backend is None and engine.name != DEFAULT and engine.name in measured_engines():
        backend = engine.name
    formats = {
        name: left.take(name) for name in ("dtype", "activation_dtype", "kv_cache_dtype", "quantization", "bits_per_weight")
    }
    formats["mamba_ssm_cache_dtype"] = left.take("mamba_ssm_cache_dtype")
    chosen = {name: left.take(name) for name in ("mask", "attention", "mla", "routing_skew", "shared_prefix")}
    for name, value in chosen.items():
        if value is not None and name not in query.conventions:
            raise InputError(f"--{name.replace('_', '-')} has no effect on {query.name}: leave it out")
    conventions = validated(Conventions, {name: value for name, value in chosen.items() if value is not None})
    deployment = validated(Deployment, {name: value for name, value in formats.items() if value is not None})
    left.done()
    peaks = hardware.accelerator.peak_flops
    usual = next((name for name in _SIXTEEN_BITS if name in peaks), _SIXTEEN_BITS[0])
    precision, chosen_formats = resolve_precision(_Unquantized(usual), deployment, peaks, engine)
    if deployment.quantization not in (None, "none") and query.role not in ("linear", "experts"):
        raise InputError(f"--quantization is of linear layers and experts, and {query.name} has neither: leave it out")
    notes += [
        replace(note, why="unless --dtype says otherwise") if note.name == "dtype" and note.origin == "default" else note
        for note in chosen_formats
    ]
    fits = Fits(hardware, backend)
    fits.check()
    unknown = hardware.accelerator.vendor == HOST or hardware.given_shares is not None
    steps = None if unknown else load_engine_steps([*([backend] if backend else []), engine.name])
    in_step = Estimator(fits)
    if steps is not None:
        conditions = Conditions(fused=steps[0].fused_quantization, popularity=steps[0].routing_skew)
        in_step = Estimator(fits, conditions, hidden=steps[0].hidden)
        inputs = [*inputs, steps[1]]
    return _Setting(
        query, hardware, precision, conventions, engine, Estimator(fits, SERVING), in_step, tuple(notes), tuple(inputs)
    )


def _resources(operators: Mapping[str, Operator], hardware: Hardware) -> list[Times]:
    return [times(operator, operator.cost(), hardware) for operator in operators.values()]


def _binding(resources: Iterable[Times]) -> str:
    share = {"memory": 0.0, "compute": 0.0, "link": 0.0}
    for each in resources:
        share[each.bound_by] += each.bound
    return max(share, key=lambda name: share[name])


def _point(setting: _Setting, values: Values) -> dict[str, Any]:
    """The fields of a point."""
    kernel = setting.kernel(values)
    resources = _resources(kernel.operators, setting.hardware)
    cost = sum((operator.cost() for operator in kernel.operators.values()), ZERO)
    bound = sum(each.bound for each in resources)
    total = Times(**{name: sum(getattr(each, name) for each in resources) for name in ("matrix", "vector", "memory", "link")})
    estimator, binds = setting.alone, _binding(resources)
    estimate, terms = None, {}
    if estimator.applies:
        estimate = estimator.interval(kernel)
        terms = {name: float(value) for name, value in estimator.terms(kernel).items() if name not in ("bound", "total")}
    segment = Segment(values.get("batch", 1), values.get("q_len", 1), values.get("context", 0))
    graph = {name: (operator, 1) for name, operator in kernel.operators.items()}
    floor = min(float(graph_floor(graph, (segment,), setting.hardware).seconds), bound)
    time = with_estimate(float(bound), float(total.sum), estimate)
    return {
        "dims": {name: value for name, value in values.items() if value is not None},
        "cost": cost,
        "times": total,
        "time": replace(time, floor=floor),
        "bound_by": binds,
        "limited_by": _limit(terms, binds),
        "terms": terms,
    }


def _limit(terms: Mapping[str, float], binds: str) -> str:
    """What the largest term of an estimate is a limit of."""
    known = {name: value for name, value in terms.items() if name in _TERMS}
    if not known:
        return binds
    longest = max(known, key=lambda name: known[name])
    return _TERMS[longest][0] or binds


def term_texts(terms: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the terms of an estimate that have a name for people, with their seconds, longest first; none of 0 s."""
    named = [(_TERMS[name][1], value) for name, value in terms.items() if name in _TERMS and value > 0]
    return sorted(named, key=lambda entry: -entry[1])


def _curve(setting: _Setting, values: Values, dimension: str, swept: tuple[int, ...]) -> OpSweep:
    """The operator over values of a dimension, and where what binds changes."""
    shapes = [_at(setting.query, values, dimension, value) for value in swept]
    points = tuple(OpPoint(**_point(setting, shape)) for shape in shapes)
    crossovers: list[tuple[int, str, str]] = []
    for before, after, low, high in zip(points, points[1:], swept, swept[1:], strict=False):
        if before.bound_by != after.bound_by:

            def turned(value: int, kind: str = before.bound_by) -> bool:
                return setting.bound_by(_at(setting.query, values, dimension, value)) != kind

            crossovers.append((_first(turned, low, high), before.bound_by, after.bound_by))
    return OpSweep(dimension=dimension, points=points, crossovers=tuple(crossovers))


def _at(query: OperatorQuery, values: Values, dimension: str, value: int) -> Values:
    """A shape with another value of one dimension."""
    changed = {**values, dimension: value}
    if dimension == "context":
        changed["kv_len"] = value + changed["q_len"]
    query.check(changed)
    return changed


def _first(turned: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number at which something is so that is not at `low`, and is at `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if turned(middle) else (middle, high)
    return high


def _compute_bound_from(setting: _Setting, values: Values) -> tuple[str, int | None] | None:
    """Where the operator becomes compute-bound."""
    dimension = setting.query.grows
    if not dimension:
        return None

    def computes(value: int) -> bool:
        return setting.bound_by({**values, dimension: value}) == "compute"

    if computes(1):
        return dimension, 1
    return dimension, _first(computes, 1, _MOST) if computes(_MOST) else None


def _result(setting: _Setting, values: Values, given: set[str], request: dict[str, Any], sweep: OpSweep | None) -> OpResult:
    """The result at a shape."""
    kernel, hardware, query = setting.kernel(values), setting.hardware, setting.query
    operators = kernel.operators
    point = _point(setting, values)
    first = next(iter(operators.values()))
    cost: Cost = point["cost"]
    weights = first.dtypes.weight
    if not cost.weight_bytes and weights.bytes < first.dtypes.activation.bytes:
        formats = "--activation-dtype or --kv-cache-dtype"
        raise InputError(f"{query.name} has no weights that could be {weights.name}: give {formats}")
    estimated, fitted = setting.alone.applies, setting.alone.fitted(kernel)
    dtype = matrix_dtype(first, hardware) if cost.matrix_flops else first.dtypes.activation.name
    peak = hardware.peak(dtype) if cost.matrix_flops else hardware.vector_peak
    estimator, step = setting.alone, setting.in_step
    served = with_estimate(point["time"].bound, None, step.interval(kernel) if estimated else None)
    notes = [
        Assumption(entry.name, values[entry.name], "default", entry.meaning)
        for entry in query.dimensions
        if not entry.required and entry.name not in given and entry.name in ("batch", "q_len", "kv_heads")
        if values[entry.name] is not None
    ]
    conventions = [
        Assumption(name, getattr(setting.conventions, name), "default", "") for name in query.conventions if name not in request
    ]
    used = (*setting.inputs, *estimator.fits.inputs.values())
    held_out = fitted.family.held_out if fitted is not None and fitted.origin != "assumed" else None
    return OpResult(
        **point,
        operator=query.name,
        parts={name or query.name: {"kind": operator.kind, "dims": operator.dims()} for name, operator in operators.items()},
        formats={name: getattr(first.dtypes, name).name for name in ("weight", "activation", "kv")},
        dtype=dtype,
        hardware={
            "name": hardware.name,
            "accelerator": hardware.accelerator.name,
            "title": f"{hardware.accelerator.title} ({hardware.title})" if hardware.node else hardware.title,
            "peak_flops": peak,
            "bandwidth": hardware.bandwidth,
            "ridge_point": peak / hardware.bandwidth if peak else None,
            "link": _link(first, hardware) if cost.link_bytes else None,
        },
        in_step=served,
        estimate_basis=estimator.basis([kernel]) if estimated else None,
        estimate_source=fitted.source if fitted is not None else "",
        median_error=held_out.median_ape if held_out is not None else None,
        grid=_grid(estimator, kernel),
        compute_bound_from=_compute_bound_from(setting, values),
        sweep=sweep,
        unstated=tuple(
            entry.name for entry in query.dimensions if entry.name not in given and values[entry.name] == entry.default
        ),
        assumptions=(
            *notes,
            *setting.notes,
            *conventions,
            *assumptions.gaps(hardware),
            *(assumptions.estimates(estimator, [kernel]) if estimated else assumptions.no_estimate(estimator.fits.backend)),
        ),
        inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used},
        query=request,
        explain=lambda: formulas_of(setting, values),
    )


def _grid(estimator: Estimator, kernel: Kernel) -> WorkGrid | None:
    """How the fitted kernel deals its work out to the compute units."""
    fitted = estimator.fitted(kernel) if estimator.applies else None
    if fitted is None or fitted.form.name not in GRIDS:
        return None
    chip = estimator.fits.chip
    return GRIDS[fitted.form.name](kernel.timed, chip, estimator.conditions_of(kernel), fitted.values)


def _link(operator: Operator, hardware: Hardware) -> str:
    """How the devices of a group are joined."""
    joined = hardware.to_host() if operator.to_host else hardware.connection(getattr(operator, "span", 2))
    return str(joined) if joined is not None else ""


def formulas_of(setting: _Setting, values: Values) -> tuple[Explanation, ...]:
    """The formulas of an operator at a shape; they need SymPy, which nothing else here does."""
    from roofline.predict.explain import explain_shape

    return explain_shape(setting.query, values, setting.precision, setting.conventions, setting.hardware)
