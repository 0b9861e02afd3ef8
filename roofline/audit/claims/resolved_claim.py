"""A claim with its model and hardware loaded, and what it is judged by: a ceiling, and what is achievable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from roofline.audit.claims.claim import Claim, Statement
from roofline.audit.claims.deployments import MemoryNeed, Split, device_count, splits
from roofline.audit.claims.floor import NO_OVERRIDES, Floor, Overrides
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph.sharding import check_parallel, communicating
from roofline.predict.request import SHORT, ResolvedRequest, prepare
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Step

SLACK = 1.005
"""Figures are rounded, on datasheets as in claims: only what is this much beyond the ceiling is beyond it."""
_CACHE_MATTERS = 0.01
"""A cache of a smaller share of memory is no reason why something does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The best figure that a claim of its kind could state, and everything that it was computed from.

    Attributes:
        value: in the claim's unit; None where nothing fits in memory.
        devices: of the whole deployment.
        split: how the model is divided over them.
        request: the deployment; None of a peak.
        step: the step that the figure comes from.
        floors: of that step, one for each pipeline stage.
        seconds: of the step.
        batch: sequences of the step.
        length: tokens cached before a decode step, or tokens of a prompt.
        need: what the fullest device has to hold; None of a peak.
        dtype: of a peak.
        engine_fits: whether it also fits by the engine's own rules.
    """

    value: float | None
    devices: int
    split: Split = field(default_factory=dict)
    request: ResolvedRequest | None = None
    step: Step = ()
    floors: tuple[Floor, ...] = ()
    seconds: float | None = None
    batch: int = 1
    length: int = 0
    need: MemoryNeed | None = None
    dtype: str | None = None
    engine_fits: bool = True


@dataclass(frozen=True, slots=True)
class Achievable:
    """What kernels and engines are known to achieve, in the claim's unit; None where there is no such figure.

    Attributes:
        bound: at the bound of `analyze`, operators one after another.
        estimate: at its estimate.
        best: at the better end of the estimate's interval.
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
        ignore_memory: whether what does not fit is priced all the same.
        by_engine: whether only the engine's use of memory speaks against the claim: a reading that explains it has to satisfy
            that too.
        attained_share: the share of a ceiling that is known to be reached, for a claim that is possible and yet too good.
        options: further options of `analyze`.
        prepared: requests that were prepared already, shared by all readings of a claim.
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

    @property
    def devices(self) -> int:
        """Devices of the claim."""
        return device_count(self.statement, self.hardware)

    def cache_matters(self, ceiling: Ceiling) -> bool:
        """Whether the cache could make the difference, where memory speaks against the claim: it is more than rounding."""
        if ceiling.need is None or not (self.by_engine or ceiling.value is None or not ceiling.need.fits):
            return True
        return ceiling.need.bytes - ceiling.need.weights > _CACHE_MATTERS * ceiling.need.capacity

    def ratio(self, figure: float, claimed: float | None = None) -> float:
        """How far the claim goes beyond a figure of its kind (or the share of it that is attained): above 1, it claims more."""
        value = self.claim.value if claimed is None else claimed
        if value is None:
            return 0.0
        return (figure / value if self.claim.is_time else value / figure) / self.attained_share

    def better(self, figure: float, than: float) -> bool:
        """Whether of two figures the first is the better one: a shorter time, a higher rate."""
        return figure < than if self.claim.is_time else figure > than

    def requests(self) -> Iterator[tuple[Split, ResolvedRequest]]:
        """The deployment of the claim, divided in every way that is possible.

        Raises:
            InputError: no model, or no way to divide it.
        """
        if self.model is None:
            raise InputError("a claim about a model needs one: name it, such as llama-3.1-8b")
        refused: InputError | None = None
        possible = False
        for split in splits(self.statement, self.model, self.hardware):
            try:
                request = _divided(self._request(), split)
            except InputError as error:
                refused = error
                continue
            possible = True
            yield split, request
        if not possible and refused is not None:
            raise refused

    def _request(self) -> ResolvedRequest:
        """The request on one device, prepared once for all ways to divide it."""
        options = {
            "dtype": self.statement.dtype,
            "kv_cache_dtype": self.statement.kv_cache_dtype,
            "quantization": self.statement.quantization,
            **self.options,
        }
        key = (id(self.hardware), *options.items())
        if key not in self.prepared:
            assert self.model is not None  # noqa: S101 - narrows the type: requests() has looked
            length = self.options.get("shared_prefix", 1)
            self.prepared[key] = prepare(self.model, self.hardware, batch=1, input_len=1, context=length, **options)
        return self.prepared[key]


def _divided(request: ResolvedRequest, split: Split) -> ResolvedRequest:
    """A request on several devices."""
    sizes = {SHORT[name]: size for name, size in split.items()}
    deployment = request.deployment.model_copy(update=sizes)
    check_parallel(request.model, deployment)
    for group in communicating(deployment):
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
