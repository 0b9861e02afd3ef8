"""One deployment, many workloads: a function from arrays of batches and lengths to arrays of answers.

The graph is number-agnostic, so it is built once with arrays for the batch and the lengths, each on its own axis.
Linear operators depend on the token count alone and are therefore evaluated on the batch axis only; nothing is
broadcast to the whole grid before it has to be. Numbers are those of `analyze`, point by point.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from roofline.errors import InputError, UnknownNameError
from roofline.graph import Stage, build, stages
from roofline.numeric import Expr, maximum
from roofline.predict.bounds import Times, times
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.request import Request, prepare
from roofline.specs.hardware import Hardware
from roofline.specs.model import Model
from roofline.specs.workload import Segment, Step
from roofline.units import MAX_COUNT, parse_count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

Phase = Literal["prefill", "decode"]
PHASES = ("prefill", "decode")
_KINDS = ("compute", "memory", "link")
# Options of `analyze` that say what is run, not on what: here they are the arguments of the compiled function.
_WORKLOAD = ("batch", "input_len", "context", "output_len", "segments", "ignore_capacity")


def compile(model: str | Model, hardware: str | Hardware, phase: Phase = "decode", **deployment: Any) -> Compiled:
    """A function of batch and lengths for a model on hardware.

    `deployment` takes the options of `roofline analyze` that describe the deployment, its conventions and overrides of
    the hardware's figures (`tp=2`, `kv_cache_dtype="fp8"`, `mask="full"`, `bandwidth="2 TB/s"`, ...).

    >>> step = compile("llama-3.1-8b", "a100-sxm-80gb")
    >>> step(batch=[[1], [64]], context=[1024, 8192])["bytes"].shape
    (2, 2)
    """
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES)
    if clash := [name for name in _WORKLOAD if deployment.get(name) is not None]:
        msg = f"{clash[0]} is not part of a deployment: give batch, input_len and context to the compiled function"
        raise InputError(msg)
    # Asked for the shortest workload, so that limits on length are checked where lengths are known: at the call.
    cached = parse_count(deployment.get("shared_prefix") or 0, "shared-prefix")
    request = prepare(model, hardware, **{**deployment, "batch": 1, "input_len": 1, "context": cached, "phase": phase})
    compiled = Compiled(request, phase)
    compiled(batch=1, input_len=1, context=cached)  # what can be refused without a workload is refused here
    return compiled


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model on hardware in one phase, ready to be asked about many points at once."""

    request: Request
    phase: Phase

    def __call__(
        self, *, batch: ArrayLike = 1, input_len: ArrayLike = 1024, context: ArrayLike | None = None, estimate: bool = False
    ) -> dict[str, Array]:
        """Answers at every point of the broadcast arguments, as arrays of that shape.

        `batch` sequences of the whole deployment; `context` tokens cached before the step (decode: `input_len` unless
        given; prefill: none unless given); `input_len` new tokens a sequence (prefill).

        Per device, of the fullest pipeline stage: `time_bound_s` (perfect overlap), `time_sum_s` (none),
        `time_estimate_s` (if asked; NaN where no fitted efficiencies apply), `flops`, `bytes`, `arithmetic_intensity`,
        `bound_by` (compute, memory or link: the largest share of the bound), `memory_bytes` (weights, allocated KV
        cache, activations, reserve) and `fits`. Of the whole deployment: `tokens_per_s` at the bound. Times are given
        also where the step does not fit.
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
        step = self._step(axes)
        self._check(step)
        memory = self.request.memory
        own = self._sums(step, memory.stage)
        through = own["bound"]
        if self.request.deployment.pipeline_parallel_size > 1:
            every = stages(self.request.model, self.request.deployment.pipeline_parallel_size)
            through = sum((self._sums(step, stage)["bound"] for stage in every), start=np.zeros(()))
        held = [(part.needed_bytes(step), part.usable_bytes(step)) for part in memory.stages]
        shares = np.stack(np.broadcast_arrays(*(own[kind] for kind in _KINDS)))
        (segment,) = step
        produced = segment.count if self.phase == "decode" else segment.tokens
        answers = {
            "time_bound_s": own["bound"],
            "time_sum_s": own["sum"],
            "flops": own["flops"],
            "bytes": own["bytes"],
            "arithmetic_intensity": own["flops"] / own["bytes"],
            "bound_by": np.array(_KINDS)[np.argmax(shares, axis=0)],
            # of the stage that has least room, as in `analyze`
            "memory_bytes": reduce(maximum, (memory.budget_bytes - usable + needed for needed, usable in held)),
            "fits": reduce(np.logical_and, (needed <= usable for needed, usable in held)),
            "tokens_per_s": produced / through,
        }
        if estimate:
            answers["time_estimate_s"] = self._estimate(step, memory.stage, self.request.estimator)[0]
        return {name: np.array(np.broadcast_to(value, shape)) for name, value in answers.items()}

    def _step(self, axes: dict[str, Array]) -> Step:
        if self.phase == "decode":
            return (Segment(axes["batch"], 1, axes.get("context", axes["input_len"]), decode=True),)
        # NB: `analyze` knows prompts with nothing cached; a context makes this the next chunk of a longer one.
        return (Segment(axes["batch"], axes["input_len"], axes.get("context", 0)),)

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
        shared = deployment.conventions.shared_prefix
        if segment.decode and shared > np.min(cached):
            msg = f"shared_prefix {shared} is more than the {int(np.min(cached))} cached tokens of a sequence"
            raise InputError(msg)

    def times(self, step: Step) -> tuple[Array, Array, Array]:
        """Seconds of a step of any segments through all pipeline stages: at the bound, of its kernels as if each ran alone,
        and of their launches. Nobody asks whether it fits. Counts and lengths may be arrays."""
        import numpy as np

        bound = estimate = launches = np.zeros(())
        alone = replace(self.request.estimator, hidden=0.0)
        for stage in stages(self.request.model, self.request.deployment.pipeline_parallel_size):
            total, launch = self._estimate(step, stage, alone)
            bound, estimate, launches = bound + self._sums(step, stage)["bound"], estimate + total, launches + launch
        return bound, estimate, launches

    def _estimate(self, step: Step, stage: Stage, estimator: Estimator) -> tuple[Array, Array]:
        """The estimate of a stage's kernels, and of that the launches; NaN where no kernels were measured."""
        import numpy as np

        request, total, launches = self.request, _Sum(), _Sum()
        if not estimator.applies:
            return np.array(np.nan), np.array(np.nan)
        for kernel in kernels(build(request.model, request.deployment, request.precision, step, stage)):
            terms = estimator.terms(kernel)
            total.add(terms["total"] * kernel.repeat)
            launches.add(terms.get("launch", 0.0) * kernel.repeat)
        return total.total(), launches.total()

    def _sums(self, step: Step, stage: Stage) -> dict[str, Array]:
        """Work, times and shares of the bound, summed over the operators of a stage."""
        sums = {name: _Sum() for name in ("flops", "bytes", "bound", "sum", *_KINDS)}
        request = self.request
        for operator, repeat in build(request.model, request.deployment, request.precision, step, stage).values():
            cost = operator.cost() * repeat
            busy = times(operator, cost, request.hardware)
            bound = busy.bound
            for name, value in (("flops", cost.flops), ("bytes", cost.bytes), ("bound", bound), ("sum", busy.sum)):
                sums[name].add(value)
            for kind, value in _shares(busy, bound).items():
                sums[kind].add(value)
        return {name: total.total() for name, total in sums.items()}


def _shares(busy: Times, bound: Expr) -> dict[str, Expr]:
    """The bound, under the name of the resource that sets it; of equal ones memory, as in `Times.bound_by`."""
    compute = maximum(busy.matrix, busy.vector)
    memory_binds = (busy.memory >= compute) & (busy.memory >= busy.link)
    compute_binds = (compute > busy.memory) & (compute >= busy.link)
    shares = {"memory": bound * memory_binds, "compute": bound * compute_binds}
    if not isinstance(busy.link, float) or busy.link:
        shares["link"] = bound * ((busy.link > busy.memory) & (busy.link > compute))
    return shares


@dataclass(slots=True)
class _Sum:
    """A sum of arrays that adds like shapes first, so that the small ones stay small."""

    parts: dict[tuple[int, ...], Array] = field(default_factory=dict)

    def add(self, value: Expr) -> None:
        import numpy as np

        array = np.asarray(value, dtype=np.float64)
        if array.shape in self.parts:
            self.parts[array.shape] = self.parts[array.shape] + array
        else:
            self.parts[array.shape] = array

    def total(self) -> Array:
        import numpy as np

        return sum(self.parts.values(), start=np.zeros(()))


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
