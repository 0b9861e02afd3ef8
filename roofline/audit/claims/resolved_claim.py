"""A claim with its model and hardware loaded, and what it is judged by: a ceiling, and what is achievable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from roofline.audit.claims.claim import Claim, Statement
from roofline.audit.claims.deployments import MemoryNeed, Split, device_count, joined, splits
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph.sharding import check_parallel, communication_groups, stages
from roofline.predict.drafts import read_options
from roofline.predict.floor import NO_OVERRIDES, Floor, Overrides
from roofline.predict.options import OPTIONS
from roofline.predict.request import SHORT, ResolvedRequest, cached_prefix, prepare
from roofline.predict.speculation import Speculation
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Step, prefill

SLACK = 1.005
"""Figures are rounded, on datasheets as in claims: only what is this much beyond the ceiling is beyond it."""
_CACHE_MATTERS = 0.01
"""A cache of a smaller share of memory is no reason why something does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The best figure that a claim of its kind could state, and everything that it was computed from.

    Attributes:
        value: in the claim's unit (`Claim.unit`); None where the model does not fit in memory.
        devices: number of devices of the whole deployment.
        split: how the model is divided over them.
        request: the deployment; None of a peak.
        step: the step that the figure comes from.
        floors: of that step, one for each pipeline stage.
        seconds: the time from which the value follows: latency through all stages, or the interval between steps; of whole
            requests the time of a batch of them.
        alone: of whole requests, seconds of one from its prompt to its last token.
        batch: number of sequences of the step.
        length: tokens cached before a decode step, or tokens of a prompt.
        need: what the fullest device has to hold; None of a peak.
        dtype: of a peak; None of a step.
        encoder: of a prompt's images, before the step; None without images.
        engine_fits: whether the step also fits by the engine's own rules.
    """

    value: float | None
    devices: int
    split: Split = field(default_factory=dict)
    request: ResolvedRequest | None = None
    step: Step = ()
    floors: tuple[Floor, ...] = ()
    seconds: float | None = None
    alone: float | None = None
    batch: int = 1
    length: int = 0
    need: MemoryNeed | None = None
    dtype: str | None = None
    encoder: Floor | None = None
    engine_fits: bool = True


@dataclass(frozen=True, slots=True)
class Achievable:
    """What kernels and engines are known to achieve, in the claim's unit; None where there is no such figure.

    Attributes:
        bound: with the step time that `analyze` gives as its bound, operators one after another.
        estimate: with its estimated step time.
        best: with the least step time that such estimates were seen to miss.
    """

    bound: float | None = None
    estimate: float | None = None
    best: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedClaim:
    """A claim, its statement, and the specs that it is about.

    Attributes:
        claim: what is judged.
        statement: the setting.
        model: None of a peak.
        hardware: the card or node.
        overrides: assumptions of another reading.
        ignore_memory: whether a ceiling is computed even for what does not fit.
        by_engine: whether only the engine's use of memory speaks against the claim: a reading that explains it has to satisfy
            that too.
        attained_share: the share of a ceiling that is known to be reached, for a claim that is possible and yet too good.
        options: further options of `analyze`.
        prepared: requests that were prepared already, shared by all readings of a claim.
        speculations: their speculative decoding, if any, by the identity of the request.
    """

    claim: Claim
    statement: Statement
    model: Model | None
    hardware: Hardware
    overrides: Overrides = NO_OVERRIDES
    ignore_memory: bool = False
    by_engine: bool = False
    attained_share: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)
    prepared: dict[Any, ResolvedRequest] = field(default_factory=dict, compare=False)
    speculations: dict[int, Speculation] = field(default_factory=dict, compare=False)

    @property
    def devices(self) -> int:
        """Number of devices of the claim."""
        return device_count(self.statement, self.hardware)

    @property
    def whole_requests(self) -> bool:
        """Whether the claim is a rate of generated tokens of requests with prompts: both lengths are stated.

        What one user sees is the rate at which its tokens come, as TPOT is.
        """
        claim, statement = self.claim, self.statement
        rate = claim.kind == "tokens_per_s" and claim.phase == "decode" and claim.scope != "user"
        return rate and statement.context is None and None not in (statement.input_len, statement.output_len)

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of a prompt and of an output, at least 1."""
        return self.statement.input_len or 1, self.statement.output_len or 1

    def cached_prefix(self, length: int) -> int:
        """Tokens of a prompt of `length` tokens that are in the prefix cache.

        Raises:
            InputError: no token is left to compute.
        """
        if self.overrides.reuse:
            return length - 1
        return cached_prefix(length, self.statement.prefix_hit, self.statement.cached_prefix)

    def prompts(self, count: int, length: int) -> Step:
        """The step that computes `count` prompts of `length` tokens, but for what is cached of them."""
        return prefill(count, length, self.cached_prefix(length))

    def cache_matters(self, ceiling: Ceiling) -> bool:
        """Whether another size of the KV cache could change the verdict.

        Always, unless memory refutes the claim; then only where cache and state take more than 1 % of memory.
        """
        if ceiling.need is None or not (self.by_engine or ceiling.value is None or not ceiling.need.fits):
            return True
        return ceiling.need.bytes - ceiling.need.weights > _CACHE_MATTERS * ceiling.need.capacity

    def ratio(self, figure: float, claimed: float | None = None) -> float:
        """How far the claim exceeds a figure: above 1 it claims a higher rate or a shorter time.

        The figure is first multiplied by `attained_share` (of a time: divided).

        Args:
            figure: in the claim's unit.
            claimed: used instead of the claim's value; without either the ratio is 0.
        """
        value = self.claim.value if claimed is None else claimed
        if value is None:
            return 0.0
        return (figure / value if self.claim.is_time else value / figure) / self.attained_share

    def better(self, figure: float, than: float) -> bool:
        """Whether one figure is better than another, both in the claim's unit: a shorter time, a higher rate."""
        return figure < than if self.claim.is_time else figure > than

    def requests(self) -> Iterator[tuple[Split, ResolvedRequest]]:
        """Yield every possible way to divide the model, with the deployment that it gives.

        Raises:
            InputError: no model, no way to divide it, or no connection that joins that many devices.
        """
        if self.model is None:
            raise InputError("a claim about a model needs one: name it, such as llama-3.1-8b")
        refused: InputError | None = None
        possible = False
        for split in splits(self.statement, self.model, self.hardware):
            try:
                request = self._drafted(_divided(self._request(), split, self._with_sizes))
            except InputError as error:
                refused = error
                continue
            possible = True
            yield split, request
        if not possible and refused is not None:
            raise refused

    def speculation(self, request: ResolvedRequest) -> Speculation | None:
        """The speculative decoding of one of the requests; None if there is none."""
        return self.speculations.get(id(request))

    def _drafted(self, request: ResolvedRequest) -> ResolvedRequest:
        """A request with the draft that the options name, if they do."""
        speculative, rest = read_options(self.options)
        if speculative is None:
            return request
        speculation = Speculation.of(request, speculative, rest)
        self.speculations[id(speculation.request)] = speculation
        return speculation.request

    @property
    def _with_sizes(self) -> dict[str, Any]:
        """The options that one device cannot have, as fields of a deployment."""
        given = {name: value for name in _WITH_SIZES if (value := self.options.get(name)) is not None}
        return {name: OPTIONS[name].read(value) if OPTIONS[name].kind == "count" else value for name, value in given.items()}

    def _request(self) -> ResolvedRequest:
        """The request on one device, prepared once for all ways to divide it."""
        options = {
            "dtype": self.statement.dtype,
            "kv_cache_dtype": self.statement.kv_cache_dtype,
            "quantization": self.statement.quantization,
            **{name: value for name, value in read_options(self.options)[1].items() if name not in _WITH_SIZES},
        }
        hardware = joined(self.hardware, self.statement)
        key = (id(self.hardware), hardware is self.hardware, *options.items())
        if key not in self.prepared:
            assert self.model is not None  # noqa: S101 - narrows the type: requests() has looked
            length = self.options.get("shared_prefix", 1)
            self.prepared[key] = prepare(self.model, hardware, batch=1, input_len=1, context=length, **options)
        return self.prepared[key]


_WITH_SIZES = ("sequence_parallel", "moe_tp", "num_redundant_experts", "decode_context_parallel_size")
"""Options that are refused on one device."""


_SIZES = {**SHORT, "redundant": "num_redundant_experts"}


def _divided(request: ResolvedRequest, split: Split, more: dict[str, Any]) -> ResolvedRequest:
    """A request on several devices, with further fields of the deployment."""
    sizes = {_SIZES[name]: size for name, size in split.items()}
    deployment = request.deployment.model_copy(update={**sizes, **more})
    check_parallel(request.model, deployment)
    stages(request.model, deployment.pipeline_parallel_size)  # raises where there are more stages than layers
    for group in communication_groups(deployment):
        request.hardware.connection(group)  # raises where no connection joins that many devices
    return replace(request, deployment=deployment, memory=replace(request.memory, deployment=deployment))


def _nothing_known(claim: ResolvedClaim) -> Achievable:
    """Of some kinds there is no estimate."""
    del claim
    return Achievable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How one kind of claim is judged.

    Attributes:
        ceiling: the best figure that is possible.
        derive: lines that say where a ceiling comes from.
        assume: what was assumed where the claim says nothing.
        achievable: what is known to be achieved.
    """

    ceiling: Callable[[ResolvedClaim], Ceiling]
    derive: Callable[[ResolvedClaim, Ceiling], list[str]]
    assume: Callable[[ResolvedClaim, Ceiling], list[Assumption]]
    achievable: Callable[[ResolvedClaim], Achievable] = _nothing_known
