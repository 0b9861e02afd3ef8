"""A claim in its setting: the ceiling, also under another reading of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from roofline.audit.claims import kinds
from roofline.audit.claims.claim import Claim, Statement
from roofline.audit.claims.floor import PLAIN, Twist
from roofline.audit.claims.roof import Reach, Roof
from roofline.audit.claims.splits import Split, count, splits
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph import check_parallel, communicating
from roofline.predict.flags import SHORT
from roofline.predict.request import Request, prepare
from roofline.specs.hardware import Hardware

# Figures are rounded, on datasheets as in claims: only what is this much beyond the ceiling is beyond it.
SLACK = 1.005
# A mistaken figure explains a claim that is at most so far below it: nobody reaches less and boasts of it.
NEAR = 0.4
# A cache of a smaller share of memory is no reason why something does not fit.
CACHE_MATTERS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A claim, what was said beside it, and the specs that it is about."""

    claim: Claim
    statement: Statement
    model: Model | None
    hardware: Hardware
    twist: Twist = PLAIN
    ignore_memory: bool = False
    by_engine: bool = False
    """Whether the engine's use of memory speaks against the claim: a reading that explains it has to satisfy that too."""
    reached: float = 1.0
    """The share of a ceiling that is known to be reached, for a claim that is possible and yet too good."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further options of `analyze`."""
    prepared: dict[Any, Request] = field(default_factory=dict, compare=False)
    """Requests that were prepared already, shared by all readings of a claim."""

    @property
    def devices(self) -> int:
        """Devices of the claim."""
        return count(self.statement, self.hardware)

    def roof(self) -> Roof:
        """The ceiling."""
        return kinds.of(self.claim).roof(self)

    def reach(self) -> Reach:
        """What is known to be reached."""
        return kinds.of(self.claim).reach(self)

    def read_as(self, *, twist: Twist = PLAIN, options: dict[str, Any] | None = None, **changes: Any) -> Roof | None:
        """The ceiling under another reading of what was said; None where that makes no sense or does not fit."""
        claim = {name: changes.pop(name) for name in ("scope", "phase", "sparse") if name in changes}
        other = replace(
            self,
            claim=replace(self.claim, **claim),
            statement=replace(self.statement, **changes),
            twist=twist,
            options=self.options | (options or {}),
        )
        try:
            found = other.roof()
        except InputError:
            return None
        unfit = found.need is not None and not found.need.fits and self.claim.kind == "fits"
        return None if unfit or found.value is None or (self.by_engine and not found.engine_fits) else found

    def cache_matters(self, found: Roof) -> bool:
        """Whether the cache could make the difference, where memory speaks against the claim: it is more than rounding."""
        if found.need is None or not (self.by_engine or found.value is None or not found.need.fits):
            return True
        return found.need.bytes - found.need.weights > CACHE_MATTERS * found.need.capacity

    def ratio(self, figure: float, claimed: float | None = None) -> float:
        """How far a claim goes beyond a ceiling of its kind (or what is reached of it): above 1, it is bolder."""
        value = self.claim.value if claimed is None else claimed
        if value is None:
            return 0.0
        return (figure / value if self.claim.is_time else value / figure) / self.reached

    def bolder(self, figure: float, than: float) -> bool:
        """Whether of two figures the first is the bolder one."""
        return figure < than if self.claim.is_time else figure > than

    def requests(self) -> Iterator[tuple[Split, Request]]:
        """The claim's deployment, divided in every way that is possible; raises where none is."""
        if self.model is None:
            raise InputError("a claim about a model needs one: name it, such as llama-3.1-8b")
        refused: InputError | None = None
        found = False
        for split in splits(self.statement, self.model, self.hardware):
            try:
                request = _divided(self._request(), split)
            except InputError as error:
                refused = error
                continue
            found = True
            yield split, request
        if not found and refused is not None:
            raise refused

    def _request(self) -> Request:
        """The request on one device, prepared once for all ways to divide it."""
        said = self.statement
        options = {
            "dtype": said.dtype,
            "kv_cache_dtype": said.kv_cache_dtype,
            "quantization": said.quantization,
            **self.options,
        }
        key = (id(self.hardware), *options.items())
        if key not in self.prepared:
            assert self.model is not None  # noqa: S101 - narrows the type: requests() has looked
            length = self.options.get("shared_prefix", 1)
            self.prepared[key] = prepare(self.model, self.hardware, batch=1, input_len=1, context=length, **options)
        return self.prepared[key]


def _divided(request: Request, split: Split) -> Request:
    """A request on several devices."""
    sizes = {SHORT[name]: size for name, size in split.items()}
    deployment = request.deployment.model_copy(update=sizes)
    check_parallel(request.model, deployment)
    for group in communicating(deployment):
        request.hardware.connection(group)  # raises where nothing joins so many
    return replace(request, deployment=deployment, memory=replace(request.memory, deployment=deployment))
