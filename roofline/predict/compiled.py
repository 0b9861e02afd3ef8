"""One deployment, many workloads: a function from arrays of batches and lengths to arrays of answers.

The graph is number-agnostic, so it is built once with arrays for the batch and the lengths, each on its own axis.
Linear operators depend on the token count alone and are therefore evaluated on the batch axis only; what every axis moves
is evaluated a tile at a time (`tiles.py`). A list of decode points is a grid of its distinct batches and contexts, of which
only the points listed are evaluated. Numbers are those of `analyze`, point by point.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

from roofline.blocks.model import Model
from roofline.errors import InputError, UnknownNameError
from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, stages
from roofline.numeric import ceil_div, maximum, minimum
from roofline.operators.collectives import Collective
from roofline.predict.bounds import times
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.grid import COLUMNS, RESOURCES, Grid, column
from roofline.predict.options import DEPLOYMENT, PREFIX, DeploymentOptions, keywords
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.tiles import POINTS, Sum, listed, tiles
from roofline.predict.timing import HIDDEN, overlapped, second_reading
from roofline.specs.hardware import Hardware
from roofline.specs.workload import Segment, Step, sequences
from roofline.units import MAX_COUNT, parse_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

Phase = Literal["prefill", "decode"]
PHASES = ("prefill", "decode")
PLAIN = (
    "time_floor_s", "time_bound_s", "time_sum_s", "flops", "bytes", "arithmetic_intensity", "bound_by", "memory_bytes", "fits",
    "tokens_per_s",
)  # fmt: skip
ESTIMATED = ("time_estimate_s", "time_low_s", "time_high_s", "tokens_per_s_estimate")
# Options of `analyze` that say what is run, not on what: here they are the arguments of the compiled function.
_WORKLOAD = ("batch", "input_len", "context", *PREFIX, "output_len", "segments", "ignore_capacity")


@keywords(*DEPLOYMENT)
def compile(
    model: str | Model, hardware: str | Hardware, phase: Phase = "decode", **deployment: Unpack[DeploymentOptions]
) -> Compiled:
    """Compile a model on hardware into a function of batch and lengths.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware.
        phase: "decode" or "prefill".
        **deployment: the options of `roofline analyze` that describe the deployment, its conventions and overrides of the
            hardware's figures (`tp=2`, `kv_cache_dtype="fp8"`, `mask="full"`, `bandwidth="2 TB/s"`, ...).

    Returns:
        A function of scalars or broadcastable arrays; see `Compiled.__call__`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a deployment that cannot be.

    >>> step = compile("llama-3.1-8b", "a100-sxm-80gb")
    >>> step(batch=[[1], [64]], context=[1024, 8192])["bytes"].shape
    (2, 2)
    """
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES)
    if clash := [name for name in _WORKLOAD if deployment.get(name) is not None]:
        msg = f"{clash[0]} is not part of a deployment: give batch, input_len and context to the compiled function"
        raise InputError(msg)
    # Prepared with the shortest workload, so that limits on length are checked where lengths are known: at the call.
    cached = parse_count(deployment.get("shared_prefix") or 0, "shared-prefix")
    request = prepare(model, hardware, **{**deployment, "batch": 1, "input_len": 1, "context": cached, "phase": phase})
    compiled = Compiled(request, phase)
    compiled(batch=1, input_len=1, context=cached)  # what can be refused without a workload is refused here
    return compiled


class StepTimes(NamedTuple):
    """Seconds of a step, arrays that broadcast against each other.

    `bound`: with perfect overlap. `kernels`: the estimate of its kernels within the step. `alone`: of the same as if each ran
    alone. `launches`: the part of `alone` that is launches. The last three are NaN where no kernels were measured.
    """

    bound: Array
    kernels: Array
    alone: Array
    launches: Array


@dataclass(frozen=True)
class Compiled:
    """A model on hardware in one phase, as a function that is evaluated at many points at once."""

    request: ResolvedRequest
    phase: Phase

    def __call__(
        self,
        *,
        batch: ArrayLike = 1,
        input_len: ArrayLike = 1024,
        context: ArrayLike | None = None,
        estimate: bool = False,
        columns: Iterable[str] | None = None,
    ) -> dict[str, Array]:
        """Evaluate every point of the broadcast arguments.

        Args:
            batch: sequences of the whole deployment.
            input_len: new tokens per sequence (prefill).
            context: tokens cached before the step; default: `input_len` in decode, none in prefill.
            estimate: add the estimate of the times, with its interval.
            columns: the names of columns that are wanted instead, from `roofline.predict.grid.COLUMNS`: the fewer the faster.

        Returns:
            Arrays of the broadcast shape, by name. Per device, of the fullest pipeline stage: `time_floor_s` (all
            operators overlapped; nothing is faster), `time_bound_s` (operators in sequence, perfect overlap within each),
            `time_sum_s` (none), `flops`, `bytes`, `arithmetic_intensity`, `bound_by` (compute, memory or link: the largest
            share of the bound), `memory_bytes` (weights, allocated KV cache, activations, reserve) and `fits`. Of the whole
            deployment: `tokens_per_s` at the bound. With `estimate` also `time_estimate_s`, `time_low_s`, `time_high_s` and
            `tokens_per_s_estimate`; NaN where no fitted efficiencies apply. Times are given also where the step does not fit.

        Raises:
            InputError: numbers that are out of range, or do not broadcast.
        """
        import numpy as np

        answers = self.points(batch=batch, input_len=input_len, context=context, columns=_columns(columns, estimate))
        if "bound_by" in answers:
            answers["bound_by"] = np.array(RESOURCES)[answers["bound_by"]]
        return answers

    def points(
        self, *, batch: ArrayLike, input_len: ArrayLike, context: ArrayLike | None, columns: tuple[str, ...]
    ) -> dict[str, Array]:
        """Return the same as `__call__` for columns by name, with `bound_by` as an index into `RESOURCES` (int8).

        Args:
            batch: sequences of the whole deployment.
            input_len: new tokens per sequence (prefill).
            context: tokens cached before the step; None: `input_len` in decode, none in prefill.
            columns: names from `roofline.predict.grid.COLUMNS`.

        Raises:
            InputError: numbers that are out of range, or do not broadcast.
        """
        import numpy as np

        axes = {"batch": _axis("batch", batch, 1), "input_len": _axis("input_len", input_len, 1)}
        if context is not None:
            axes["context"] = _axis("context", context, 0)
        try:
            shape = np.broadcast_shapes(*(axis.shape for axis in axes.values()))
        except ValueError:
            shapes = ", ".join(f"{name} {axis.shape}" for name, axis in axes.items())
            msg = f"these shapes do not broadcast against each other: {shapes}"
            raise InputError(msg) from None
        if context is not None and self._differs_without_past and 0 < np.count_nonzero(axes["context"]) < axes["context"].size:
            past, without = (
                self.points(batch=batch, input_len=input_len, context=cached, columns=columns)
                for cached in (np.maximum(axes["context"], 1), np.zeros_like(axes["context"]))
            )
            return {name: np.where(axes["context"] > 0, past[name], without[name]) for name in columns}
        every = {name: axis.reshape((1,) * (len(shape) - axis.ndim) + axis.shape) for name, axis in axes.items()}
        step = self._step(every)
        self._check(step)
        answers = {name: np.empty(shape, COLUMNS[name].dtype) for name in columns}
        if not prod(shape):
            return answers
        most = POINTS // (len(columns) + 1)
        if (parts := self._listed(every, shape)) is not None:
            axes, points = parts
            step = self._step(axes)
            grid = Grid(self.request, step, (axes["batch"].size, axes["context"].size), step[0].count, columns)
            for at in range(0, prod(shape), most):
                for name, values in grid.at(tuple(index[at : at + most] for index in points)).items():
                    answers[name].reshape(-1)[at : at + most] = values
            return answers
        (segment,) = step
        grid = Grid(self.request, step, shape, segment.count if self.phase == "decode" else segment.tokens, columns)
        for tile in tiles(shape, most):
            for name, values in grid.at(tile).items():
                answers[name][tile] = values
        return answers

    def _listed(self, axes: dict[str, Array], shape: tuple[int, ...]) -> tuple[dict[str, Array], tuple[Array, ...]] | None:
        """Decode points in a list, as points of the grid of their distinct batches and contexts. NB: not prompts, whose tokens
        are a product of both."""
        size, name = prod(shape), "context" if "context" in axes else "input_len"
        if self.phase != "decode" or axes["batch"].size != size or axes[name].size != size:
            return None
        if (parts := listed(axes["batch"].reshape(-1), axes[name].reshape(-1))) is None:
            return None
        (batches, contexts), points = parts
        return {"batch": batches, "input_len": contexts, "context": contexts}, points

    def _step(self, axes: dict[str, Array]) -> Step:
        cached: Array | int = axes.get("context", axes["input_len"]) if self.phase == "decode" else axes.get("context", 0)
        if not isinstance(cached, int) and cached.size and not cached.any():
            cached = 0  # with which a graph leaves out what fetches or gathers a past
        if self.phase == "decode":
            return (Segment(axes["batch"], 1, cached, decode=True),)
        return (Segment(axes["batch"], axes["input_len"], cached),)

    @cached_property
    def _differs_without_past(self) -> bool:
        """Whether a step with nothing cached has other operators, so that an array of contexts would be of two graphs."""
        one, decode = (1, True) if self.phase == "decode" else (2, False)
        without, past = ((Segment(1, one, cached, decode=decode),) for cached in (0, 1))
        every = stages(self.request.model, self.request.deployment.pipeline_parallel_size)
        return any(self._graph(without, stage).keys() != self._graph(past, stage).keys() for stage in every)

    def _check(self, step: Step) -> None:
        """The refusals of `analyze` that depend on the workload."""
        import numpy as np

        (segment,), deployment = step, self.request.deployment
        if not np.size(segment.count) or not np.size(segment.cached) or not np.size(segment.new):
            return
        batch, cached = int(np.max(segment.count)), np.asarray(segment.cached)
        if deployment.max_num_seqs is not None and batch > deployment.max_num_seqs * deployment.data_parallel_size:
            seqs = deployment.max_num_seqs * deployment.data_parallel_size
            msg = f"a batch of {batch} is more than max_num_seqs allows at once ({seqs} in the whole deployment)"
            raise InputError(msg)
        longest = int(np.max(cached + segment.new))
        if deployment.max_model_len is not None and longest > deployment.max_model_len:
            msg = f"a sequence of {longest:,} tokens is longer than max_model_len {deployment.max_model_len:,}"
            raise InputError(msg)
        shared, cached = deployment.conventions.shared_prefix, cached if segment.decode else cached[cached > 0]
        if cached.size and shared > np.min(cached):
            msg = f"shared_prefix {shared} is more than the {int(np.min(cached))} cached tokens of a sequence"
            raise InputError(msg)

    def times(self, step: Step) -> StepTimes:
        """Return the seconds of a step through all pipeline stages, whether it fits or not.

        Args:
            step: segments of any kind, counts of the whole deployment; counts and lengths may be arrays that broadcast.
        """
        import numpy as np

        total = StepTimes(*(np.zeros(()) for _ in range(4)))
        for stage in stages(self.request.model, self.request.deployment.pipeline_parallel_size):
            kernels, alone, launches = self._estimate(step, stage)
            total = StepTimes(
                total.bound + self._bound(step, stage), total.kernels + kernels, total.alone + alone, total.launches + launches
            )
        return total

    def _estimate(self, step: Step, stage: Stage) -> tuple[Array, Array, Array]:
        """The estimate of a stage's kernels, of the same as if each ran alone, and of that the launches that
        could be hidden; NaN where no kernels were measured."""
        import numpy as np

        request, sums = self.request, (Sum(), Sum(), Sum())
        hidden, estimator = request.estimator.hidden, replace(request.estimator, hidden=0.0)
        if not estimator.applies:
            return np.array(np.nan), np.array(np.nan), np.array(np.nan)
        links, again = (Sum(), Sum()), Sum()
        overlap = request.deployment.microbatch_overlap
        for kernel in kernels(self._graph(step, stage)):
            terms = estimator.terms(kernel)
            launch = estimator.hideable(kernel, terms)
            behind = maximum(terms["total"] - hidden * launch, terms["bound"])
            exchanged = overlap and kernel.collective
            into = (*links, sums[2]) if exchanged else sums
            for each, seconds in zip(into, (behind, terms["total"], launch), strict=True):
                each.add(seconds * kernel.repeat)
            for operator in kernel.operators.values() if overlap else ():
                again.add(second_reading(operator, request.hardware) * kernel.repeat)
        whole, alone, launches = (each.total() for each in sums)
        if overlap and links[0].parts:
            more = again.total() * (minimum(ceil_div(sequences(step), request.deployment.data_parallel_size), 2) - 1)
            whole, alone = (
                overlapped(request, step, time + more, sent.total(), HIDDEN)
                for time, sent in zip((whole, alone), links, strict=True)
            )
        return whole, alone, launches

    def _graph(self, step: Step, stage: Stage) -> Graph:
        """The operators of a stage in a step."""
        request = self.request
        return build(request.model, request.deployment, request.precision, step, stage)

    def _bound(self, step: Step, stage: Stage) -> Array:
        request, total, links = self.request, Sum(), Sum()
        for operator, repeat in self._graph(step, stage).values():
            into = links if request.deployment.microbatch_overlap and isinstance(operator, Collective) else total
            into.add(times(operator, operator.cost(), request.hardware).bound * repeat)
        bound = total.total()
        return bound if not links.parts else overlapped(request, step, bound, links.total())


def _columns(wanted: Iterable[str] | None, estimate: bool) -> tuple[str, ...]:
    """Names of columns, checked."""
    if wanted is None:
        return (*PLAIN, *ESTIMATED) if estimate else PLAIN
    names = tuple(dict.fromkeys([wanted] if isinstance(wanted, str) else wanted))
    for name in names:
        column(name)
    return names


def _axis(name: str, value: ArrayLike, minimum: int) -> Array:
    """An argument as float64: whole numbers up to 2^53, which int64 products would overflow and floats hold exactly."""
    import numpy as np

    if isinstance(value, str):
        value = parse_count(value, name, minimum)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"{name} must be a whole number or an array of whole numbers, not {value!r}"
        raise InputError(msg) from None
    if array.size and not (np.all(array >= minimum) and np.all(array <= MAX_COUNT) and np.all(array == np.floor(array))):
        msg = f"{name} must hold whole numbers from {minimum} to 2^53"
        raise InputError(msg)
    return array
