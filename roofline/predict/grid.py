"""The columns of a step at every point of a grid, a tile at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import nan
from typing import TYPE_CHECKING, Any

from roofline.errors import UnknownNameError
from roofline.graph.build import build
from roofline.graph.sharding import Stage, stages
from roofline.numeric import Expr, ceil_div, maximum
from roofline.operators.base import Operator
from roofline.operators.collectives import Collective
from roofline.predict.bounds import Times, times
from roofline.predict.efficiency.estimate import Interval, at_least, independent, together
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.floor import PARTS, floor_parts, step_floor
from roofline.predict.memory import StageMemory
from roofline.predict.request import ResolvedRequest
from roofline.predict.tiles import Shape, Tile, Totals, cut
from roofline.predict.timing import overlapped, overlapped_interval, second_reading, with_engine
from roofline.specs.workload import Step, sequences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

RESOURCES = ("compute", "memory", "link")
"""What may bind, as the codes of `bound_by` count it; of equal shares the first, as in `analyze`."""
_WORK = ("bound", "sum", "flops", "bytes", *RESOURCES, *PARTS)
_OVERLAP = ("links", "again")
_PARTS = ("seconds", "low", "high")


@dataclass(slots=True, eq=False)
class StageGrid:
    """Work and estimates of one device of a pipeline stage on a grid."""

    request: ResolvedRequest
    step: Step
    stage: Stage
    shape: Shape
    wanted: tuple[str, ...]
    """Of the work: what is to be summed."""
    _work: Totals | None = None
    _families: dict[tuple[str, bool], Totals] | None = None
    """By the name of the family, and whether they are the collectives of microbatches that overlap."""

    def work(self, tile: Tile) -> dict[str, Expr]:
        """Return FLOP, bytes, seconds and the bound by resource in a tile, summed over operators; arrays that broadcast to
        it.
        """
        if self._work is None:
            wanted = (*self.wanted, *_OVERLAP) if self.request.deployment.microbatch_overlap else self.wanted
            self._work = Totals.of(self._graph(), self._of_operator, wanted, self.shape)
        work = self._work.at(tile)
        if not self.request.deployment.microbatch_overlap:
            return work
        links = work["links"]
        return {**work, "bound": overlapped(self.request, cut(self.step, tile), work["bound"] - links, links)}

    def floor(self, tile: Tile) -> Expr:
        """Return the seconds in a tile that nothing beats."""
        return step_floor(self.work(tile), cut(self.step, tile), self.request.hardware).seconds

    def interval(self, tile: Tile) -> Interval:
        """Return the estimate of the stage's kernels in a tile, in seconds."""
        if self._families is None:
            self._families = {}
            members: dict[tuple[str, bool], list[Kernel]] = {}
            estimator = self.request.estimator
            for kernel in kernels(build(*self._built_from())):
                link = kernel.collective and self.request.deployment.microbatch_overlap
                members.setdefault((estimator.family(kernel), link), []).append(kernel)
            for key, launched in members.items():
                self._families[key] = Totals.of(launched, self._of_kernel, _PARTS, self.shape)
        parts = {key: Interval(**family.at(tile)) for key, family in self._families.items()}
        # without measurements collectives are of the same family as all else
        whole = independent(
            together(parts[name, link] for link in (False, True) if (name, link) in parts)
            for name in dict.fromkeys(name for name, _ in parts)
        )
        if not any(link for _, link in parts):
            return whole
        compute, links = (independent(time for (_, link), time in parts.items() if link is sent) for sent in (False, True))
        again = self.work(tile)["again"]
        return overlapped_interval(self.request, cut(self.step, tile), whole, compute, links, again)

    def _built_from(self) -> tuple[Any, ...]:
        request = self.request
        return request.model, request.deployment, request.precision, self.step, self.stage

    def _graph(self) -> Iterable[tuple[Operator, Expr]]:
        for operator, repeat in build(*self._built_from()).values():
            one, count = operator.factored()
            yield one, count * repeat

    def _of_operator(self, item: tuple[Operator, Expr]) -> dict[str, Expr]:
        operator, repeat = item
        cost = operator.cost()
        resources = times(operator, cost, self.request.hardware)
        bound = resources.bound * repeat
        work = {"bound": bound}
        if self.request.deployment.microbatch_overlap:
            work |= {"links": bound if isinstance(operator, Collective) else 0.0 * bound}
            work["again"] = second_reading(operator, self.request.hardware) * repeat
        if "sum" in self.wanted:
            work["sum"] = resources.sum * repeat
        if "flops" in self.wanted:
            work["flops"] = cost.flops * repeat
        if "bytes" in self.wanted:
            work["bytes"] = cost.bytes * repeat
        if PARTS[0] in self.wanted:
            work |= {name: part * repeat for name, part in floor_parts(operator, self.request.hardware).items()}
        return work | _shares(resources, bound) if RESOURCES[0] in self.wanted else work

    def _of_kernel(self, kernel: Kernel) -> dict[str, Expr]:
        part = self.request.estimator.interval(kernel) * kernel.repeat
        return {"seconds": part.seconds, "low": part.low, "high": part.high}


def _shares(resources: Times, bound: Expr) -> dict[str, Expr]:
    """The bound, under the name of the resource that sets it; of equal ones memory, as in `Times.bound_by`."""
    compute = maximum(resources.matrix, resources.vector)
    memory_binds = (resources.memory >= compute) & (resources.memory >= resources.link)
    compute_binds = (compute > resources.memory) & (compute >= resources.link)
    by_resource = {"memory": bound * memory_binds, "compute": bound * compute_binds}
    if not isinstance(resources.link, float) or resources.link:
        by_resource["link"] = bound * ((resources.link > resources.memory) & (resources.link > compute))
    return by_resource


@dataclass(slots=True)
class MemoryGrid:
    """Memory of one device of a pipeline stage on a grid."""

    part: StageMemory
    step: Step
    shape: Shape
    _peaks: Totals = field(init=False)
    _stream: Expr = field(init=False)

    def __post_init__(self) -> None:
        self._stream, graph = self.part.working_set(self.step)
        operators = [operator for operator, _ in graph.values()]
        self._peaks = Totals.of(operators, _activations, ("bytes",), self.shape, maximum)

    def held(self, tile: Tile) -> tuple[Expr, Expr, Expr]:
        """Return the bytes that caches and states need in a tile, the bytes left for them, and those of all else."""
        activations = cut(self._stream, tile) + self._peaks.at(tile)["bytes"]
        weights = self.part.loaded_bytes
        left = self.part.left_bytes(weights, activations)
        return self.part.needed_bytes(cut(self.step, tile)), left, weights + self.part.deployment.reserve + activations


def _activations(operator: Operator) -> dict[str, Expr]:
    return {"bytes": operator.activation_bytes}


@dataclass(slots=True)
class Grid:
    """A step whose counts and lengths are arrays with one axis for each axis of the grid, and names of columns."""

    request: ResolvedRequest
    step: Step
    shape: Shape
    produced: Expr
    """Tokens that the step gives."""
    columns: tuple[str, ...]
    own: StageGrid = field(init=False)
    """The fullest stage."""
    through: list[tuple[StageGrid, int]] = field(init=False)
    """Stages that differ, and how many are alike."""
    memory: list[MemoryGrid] = field(init=False)
    replica: Expr = field(init=False)

    def __post_init__(self) -> None:
        request, chosen = self.request, [COLUMNS[name] for name in self.columns]
        needs = {need for column in chosen for need in column.needs}
        work = tuple(name for name in _WORK if name in needs or name == "bound")
        differing: dict[tuple[Any, ...], tuple[Stage, int]] = {}
        for stage in stages(request.model, request.deployment.pipeline_parallel_size):
            key = (stage.layers, stage.first, stage.last)
            differing[key] = (stage, differing.get(key, (stage, 0))[1] + 1)
        own = request.memory.stage
        self.own = StageGrid(request, self.step, own, self.shape, work)
        same = (own.layers, own.first, own.last)
        others = tuple(name for name in work if name == "bound" or name in PARTS)
        self.through = [
            (self.own if key == same else StageGrid(request, self.step, stage, self.shape, others), often)
            for key, (stage, often) in differing.items()
        ]
        parts = request.memory.stages if "memory" in needs else ()
        self.memory = [MemoryGrid(part, self.step, self.shape) for part in parts]
        self.replica = ceil_div(sequences(self.step), request.deployment.data_parallel_size)

    def at(self, tile: Tile) -> dict[str, Expr]:
        """Return the columns in a tile by name, arrays that broadcast to its shape."""
        piece = Piece(self, tile)
        return {name: COLUMNS[name].of(piece) for name in self.columns}


class Piece:
    """A tile of a grid: what several columns use is computed once."""

    def __init__(self, grid: Grid, tile: Tile) -> None:
        self.grid, self.tile = grid, tile

    @cached_property
    def work(self) -> dict[str, Expr]:
        """Return the sums over operators of the fullest stage: seconds, FLOP and bytes by name."""
        return self.grid.own.work(self.tile)

    @cached_property
    def through(self) -> Expr:
        """Return the seconds through all pipeline stages, at the bound."""
        parts = [(self.work if stage is self.grid.own else stage.work(self.tile), often) for stage, often in self.grid.through]
        return sum((work["bound"] * often for work, often in parts[1:]), start=parts[0][0]["bound"] * parts[0][1])

    @cached_property
    def floor(self) -> Expr:
        """Return the seconds of the fullest stage that nothing beats."""
        return self.grid.own.floor(self.tile)

    @cached_property
    def floor_through(self) -> Expr:
        """Return the seconds through all stages that nothing beats."""
        by_stage = [(self.floor if stage is self.grid.own else stage.floor(self.tile)) * n for stage, n in self.grid.through]
        return sum(by_stage[1:], start=by_stage[0])

    @cached_property
    def time(self) -> Interval:
        """Return the estimated seconds of the fullest stage with what the engine adds; NaN where no kernels were measured.
        NB: its low
        end is not yet held at the floor, which not every column needs.
        """
        return self._with_engine([(self.grid.own, 1)], self.work["bound"])

    @cached_property
    def whole(self) -> Interval:
        """Return the estimated seconds through all stages with what the engine adds; NaN where no kernels were measured."""
        alone = self.grid.through == [(self.grid.own, 1)]
        return self.time if alone else self._with_engine(self.grid.through, self.through)

    def _with_engine(self, parts: list[tuple[StageGrid, int]], bound: Expr) -> Interval:
        request = self.grid.request
        if not request.estimator.applies:
            return Interval(nan, nan, nan)
        kernels = together(stage.interval(self.tile) * often for stage, often in parts)
        stages = sum(often for _, often in parts)
        return at_least(with_engine(request, kernels, cut(self.grid.replica, self.tile), stages), bound, 0.0)

    @cached_property
    def held(self) -> list[tuple[Expr, Expr, Expr]]:
        """Return for each stage the bytes that caches need, the bytes left for them, and those of all else."""
        return [part.held(self.tile) for part in self.grid.memory]

    @property
    def produced(self) -> Expr:
        """Return the tokens that the step produces in the whole deployment."""
        return cut(self.grid.produced, self.tile)

    @property
    def devices(self) -> int:
        """Return the devices of the whole deployment."""
        return self.grid.request.deployment.devices


@dataclass(frozen=True, slots=True)
class Column:
    """One quantity at every point."""

    of: Callable[[Piece], Expr]
    meaning: str
    needs: tuple[str, ...]
    """The sums over operators, or the memory, that it is computed from."""
    dtype: str = "float64"
    estimated: bool = False


def _binding_resource(piece: Piece) -> Array:
    import numpy as np

    compute, memory, link = (piece.work[kind] for kind in RESOURCES)
    by_two = np.where(np.asarray(memory) > compute, 1, 0)
    return np.where(np.asarray(link) > maximum(compute, memory), 2, by_two)


def _memory_of_tightest(piece: Piece) -> Expr:
    """The bytes of the stage with the least memory left, which need not be the one with most where activations are beside an
    engine's share."""
    import numpy as np

    (needed, usable, others), *rest = piece.held
    held, missing = needed + others, needed - usable
    for needed, usable, others in rest:
        held = np.where(needed - usable > missing, needed + others, held)
        missing = maximum(missing, needed - usable)
    return held


def _estimated(of: Callable[[Piece], Expr], meaning: str, needs: tuple[str, ...] = ()) -> Column:
    return Column(of, meaning, needs, estimated=True)


_STAGE = "seconds of a step on the fullest pipeline stage"
_STEP = "seconds of a step through all pipeline stages"
_MEASURED = "at the efficiency of measured kernels, with what the engine adds"
_INTERVAL = "of the 80 % interval of such a step, in seconds"
_INTERVAL_OF_ALL = "of the 80 % interval of a step through all stages, in seconds"
_MEMORY = "weights, allocated cache and state, activations and reserve of a device of the stage with the least memory left"

COLUMNS: dict[str, Column] = {
    "time_floor_s": Column(lambda at: at.floor, f"{_STAGE}, with all operators and links overlapped: nothing is faster", PARTS),
    "time_bound_s": Column(lambda at: at.work["bound"], f"{_STAGE}, with perfect overlap", ("bound",)),
    "time_sum_s": Column(lambda at: at.work["sum"], f"{_STAGE}, with no overlap", ("sum",)),
    "time_estimate_s": _estimated(lambda at: at.time.seconds, f"{_STAGE}, {_MEASURED}"),
    "time_low_s": _estimated(lambda at: maximum(at.time.low, at.floor), f"lower end {_INTERVAL}", PARTS),
    "time_high_s": _estimated(lambda at: at.time.high, f"upper end {_INTERVAL}"),
    "step_floor_s": Column(
        lambda at: at.floor_through, f"{_STEP}, with all operators and links of a stage overlapped: nothing is faster", PARTS
    ),
    "step_bound_s": Column(lambda at: at.through, f"{_STEP}, with perfect overlap", ("bound",)),
    "step_estimate_s": _estimated(lambda at: at.whole.seconds, f"{_STEP}, {_MEASURED}"),
    "step_low_s": _estimated(lambda at: maximum(at.whole.low, at.floor_through), f"lower end {_INTERVAL_OF_ALL}", PARTS),
    "step_high_s": _estimated(lambda at: at.whole.high, f"upper end {_INTERVAL_OF_ALL}"),
    "flops": Column(lambda at: at.work["flops"], "FLOP of a device of the fullest pipeline stage", ("flops",)),
    "bytes": Column(lambda at: at.work["bytes"], "bytes that cross the memory bus of such a device", ("bytes",)),
    "arithmetic_intensity": Column(
        lambda at: at.work["flops"] / at.work["bytes"], "FLOP per byte of such a device", ("flops", "bytes")
    ),
    "bound_by": Column(_binding_resource, "the resource with the largest share of the bound", RESOURCES, "int8"),
    "memory_bytes": Column(_memory_of_tightest, _MEMORY, ("memory",)),
    "fits": Column(
        lambda at: reduce(_both, (needed <= usable for needed, usable, _ in at.held)),
        "whether the devices of every stage hold it",
        ("memory",),
        "bool",
    ),
    "tokens_per_s": Column(
        lambda at: at.produced / at.through, "tokens per second of the whole deployment, at the bound", ("bound",)
    ),
    "tokens_per_s_estimate": _estimated(
        lambda at: at.produced / at.whole.seconds, "tokens per second of the whole deployment, as estimated"
    ),
    "tokens_per_s_per_device": Column(
        lambda at: at.produced / at.through / at.devices, "tokens per second of one device, at the bound", ("bound",)
    ),
    "tokens_per_s_per_device_estimate": _estimated(
        lambda at: at.produced / at.whole.seconds / at.devices, "tokens per second of one device, as estimated"
    ),
}
"""What can be computed at every point of a grid, by name."""


def _both(one: Expr, other: Expr) -> Expr:
    return one & other


def column(name: str) -> Column:
    """Return a column by its name in `COLUMNS`.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in COLUMNS:
        raise UnknownNameError("column", name, list(COLUMNS), list_all=True)
    return COLUMNS[name]
