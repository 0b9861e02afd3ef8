"""Copies between a device and its host: a time per call, and bytes at the rate that large copies reach.

A transfer of chunks c_1, c_2, ... by one call each takes

    sum_i (a + c_i/B) = n a + D/B        n calls, D bytes

so that chunks of c bytes move at c/(a + c/B): half of B at c = a B, which is 128 kB at 5 us and 26 GB/s. `a` and B are fitted
to records of the `transfers` suite if there are any (the form `host_copy`), else the typical values of
`hardware/_host_copies.yaml`, listed as assumed.

Source: the linear model of a message, Hockney 1994, "The communication challenge for MPP", Parallel Computing 20(3).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from roofline import files, formatting
from roofline.errors import InputError, SpecError
from roofline.numeric import Expr
from roofline.predict.efficiency.fits import Fits, Fitted
from roofline.predict.options import read_quantity
from roofline.predict.request import ResolvedRequest
from roofline.specs.base import Spec
from roofline.specs.fit import Value
from roofline.specs.library import Input, folders, shipped
from roofline.specs.source import Assumption, Origin, Source
from roofline.specs.yaml_file import read_yaml
from roofline.units import parse_count

Basis = Literal["estimate", "assumed"]
_OUT, _IN = "copy_d2h", "copy_h2d"


@dataclass(frozen=True, slots=True)
class Curve:
    """The linear model of a copy: `call` seconds per call, and its bytes at `rate` bytes/s.

    >>> curve = Curve(5e-6, 25e9)
    >>> f"{curve.seconds(2**20, 32):.4g}", f"{curve.attained(125000):.4g}"  # 32*5 us + 1 MiB/25 GB/s; half of the rate
    ('0.0002019', '1.25e+10')
    """

    call: float
    rate: float

    def seconds(self, size: Expr, calls: Expr) -> Expr:
        """Seconds to copy `size` bytes in `calls` calls, one after another. Numbers or arrays that broadcast."""
        return calls * self.call + size / self.rate

    def attained(self, chunk: Expr) -> Expr:
        """Achieved bytes/s of calls of `chunk` bytes each. A number or an array."""
        return chunk / (self.call + chunk / self.rate)


@dataclass(frozen=True, slots=True)
class SwapCurves:
    """Curves of a swap: out of the device to the host, and back in."""

    out: Curve
    back: Curve

    @property
    def rate(self) -> float:
        """Rate of large copies out and back, one after the other: the harmonic mean of both, bytes/s."""
        return 2 / (1 / self.out.rate + 1 / self.back.rate)

    def shared(self, devices: int) -> SwapCurves:
        """The curves of each of `devices` devices that copy over one link at the same time: calls as before, rates divided."""
        return SwapCurves(Curve(self.out.call, self.out.rate / devices), Curve(self.back.call, self.back.rate / devices))


@dataclass(frozen=True, slots=True)
class Copies:
    """Model of the copies between one device and its host.

    Args:
        curves: the expected ones.
        fast: the fast end of their interval.
        slow: the slow end.
        peak: the link's rate in one direction, bytes/s, which no copy beats.
        basis: fitted ("estimate") or typical ("assumed").
        notes: assumptions.
        inputs: files that were read.
    """

    curves: SwapCurves
    fast: SwapCurves
    slow: SwapCurves
    peak: float
    basis: Basis
    notes: tuple[Assumption, ...] = ()
    inputs: tuple[Input, ...] = field(default=())


def copies(request: ResolvedRequest, *, pinned: bool = True, host_link: float | None = None, share: int = 1) -> Copies:
    """Model the copies of one device of a deployment.

    Args:
        request: the deployment; its hardware has the link, its fits what was measured of it.
        pinned: whether the host's memory is page-locked.
        host_link: bytes/s that large pinned copies reach in one direction, instead of the link's fit or file.
        share: devices that copy over one link at the same time.

    Raises:
        InputError: the link is unknown, and no `host_link` is given.
        SpecError: the file of typical values is missing or invalid.
    """
    typical, used = load_typical()
    peak = host_link if host_link is not None else _link_rate(request)
    measured = _measured(request.estimator.fits) if pinned else None
    if measured is not None:
        ends, notes = _fitted_curves(measured, peak, given=host_link is not None), _fit_notes(measured)
    else:
        ends = _typical_curves(typical, peak, pinned=pinned, given=host_link is not None)
        notes = _typical_notes(typical, pinned=pinned)
    if host_link is not None:
        why = "bytes/s of large copies in one direction, in place of the link's file"
        notes = [Assumption("host_link", host_link, "given", why), *(note for note in notes if note.name != "host_copy.link")]
    expected, fast, slow = (each.shared(share) for each in ends)
    inputs = () if measured is not None else (used,)
    return Copies(expected, fast, slow, peak / share, "assumed" if measured is None else "estimate", tuple(notes), inputs)


def _link_rate(request: ResolvedRequest) -> float:
    """The link's rate in its file, bytes/s."""
    try:
        return float(1 / request.hardware.to_host().seconds(1.0, 0, 2))
    except InputError as error:
        msg = f"{error}: give what large copies reach with --host-link"
        raise InputError(msg) from None


def _measured(fits: Fits) -> tuple[Fitted, Fitted] | None:
    """The fits of copies out and in; None if nothing was measured."""
    out, back = fits.find(_OUT), fits.find(_IN)
    known = out is not None and back is not None and "assumed" not in (out.origin, back.origin)
    return (out, back) if known and out is not None and back is not None else None


def _fitted_curves(measured: tuple[Fitted, Fitted], peak: float, *, given: bool) -> tuple[SwapCurves, SwapCurves, SwapCurves]:
    """Curves of the fits, and of the ends of their bands."""
    every = []
    for end in (None, 0, 1):  # of a band: measured over estimated
        curves = []
        for fit in measured:
            factor = 1.0 if end is None else fit.family.bands.get("all", (0.5, 2.0))[end]
            reached = peak * (1.0 if given else float(fit.values["link"]))
            curves.append(Curve(float(fit.values["call"]) * factor, min(reached / factor, peak)))
        every.append(SwapCurves(*curves))
    return every[0], every[1], every[2]


def _typical_curves(
    typical: HostCopies, peak: float, *, pinned: bool, given: bool
) -> tuple[SwapCurves, SwapCurves, SwapCurves]:
    """Curves of the typical values, and of the ends of what others measured."""

    def curve(call: str, speed: str) -> Curve:
        kind = typical.pinned if pinned else typical.pageable
        if pinned:
            rate = peak if given else peak * float(getattr(typical.pinned.link, speed))
        else:
            rate = min(peak, float(getattr(typical.pageable.rate, speed)))
        return Curve(float(getattr(kind.call, call)), rate)

    ends = (("value", "value"), ("low", "high"), ("high", "low"))  # a call is quick where it is short
    expected, fast, slow = (SwapCurves(made, made) for made in (curve(*end) for end in ends))
    return expected, fast, slow


def _fit_notes(measured: tuple[Fitted, Fitted]) -> list[Assumption]:
    """Assumptions of the fits."""
    notes = []
    for name, fit in zip(("copy_out", "copy_in"), measured, strict=True):
        origin: Origin = "transferred" if fit.origin == "transferred" else "default"
        call = formatting.seconds(float(fit.values["call"]))
        why = f"{call} per call and {fit.values['link']:.3g} of the link's rate, fitted to {fit.family.rows} records"
        notes.append(Assumption(name, fit.source, origin, why))
    return notes


def _typical_notes(typical: HostCopies, *, pinned: bool) -> list[Assumption]:
    """Assumptions of the typical values, with their sources."""
    call = typical.pinned.call if pinned else typical.pageable.call
    notes = [Assumption("host_copy.call", formatting.seconds(call.value), "assumed", _why(call, typical, "s"))]
    if pinned:
        link = typical.pinned.link
        notes.append(Assumption("host_copy.link", link.value, "assumed", _why(link, typical, "")))
    else:
        rate = typical.pageable.rate
        notes.append(
            Assumption("host_copy.rate", formatting.quantity(rate.value, "B/s", 3), "assumed", _why(rate, typical, "B/s"))
        )
    return notes


def _why(figure: Figure, typical: HostCopies, unit: str) -> str:
    """The range of a value, and its sources."""
    low, high = (formatting.quantity(end, unit, 3).strip() if unit else f"{end:g}" for end in (figure.low, figure.high))
    titles = ", ".join(typical.sources[name].title.partition(":")[0] for name in figure.sources)
    note = f" ({figure.note})" if figure.note else ""
    return f"nothing was measured on this accelerator; elsewhere {low} to {high}{note}: {titles}"


@dataclass(frozen=True, slots=True)
class HostCopyOptions:
    """Options of copies to the host; None: as the hardware's files say.

    Args:
        host_link: bytes/s that large copies reach in one direction.
        pinned: whether the host's memory is page-locked.
        coalesced: blocks are gathered and copied in one call each way, not in one per block, layer and tensor.
        gpus_per_link: devices that share one link to the host.
        host_memory: bytes for the evicted sequences of a replica.
    """

    host_link: float | None = None
    pinned: bool = True
    coalesced: bool = False
    gpus_per_link: int = 1
    host_memory: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `Preemption.of`."""
        return asdict(self)

    @property
    def given(self) -> list[str]:
        """Flags of the options that differ from their defaults."""
        default = HostCopyOptions().options
        changed = [name for name, value in self.options.items() if value != default[name]]
        return ["--pageable" if name == "pinned" else f"--{name.replace('_', '-')}" for name in changed]


def parse_host_copy(
    *, host_link: str | float | None = None, pinned: bool = True, coalesced: bool = False,
    gpus_per_link: int | str | None = None, host_memory: str | float | None = None,
) -> HostCopyOptions:  # fmt: skip
    """Parse the options of copies to the host from flags or Python values.

    Args:
        host_link: bytes/s, or a text with a unit; None: as the hardware's files say.
        pinned: whether the host's memory is page-locked.
        coalesced: whether blocks are gathered and copied in one call each way.
        gpus_per_link: devices that share one link to the host; None: 1.
        host_memory: bytes, or a text with a unit; None: the replica's share of the node's.

    Raises:
        InputError: a wrong value, by its flag.
    """
    return HostCopyOptions(
        host_link=None if host_link is None else read_quantity("host_link", host_link, "byte/s"),
        pinned=pinned,
        coalesced=coalesced,
        gpus_per_link=1 if gpus_per_link is None else parse_count(gpus_per_link, "gpus-per-link", minimum=1),
        host_memory=None if host_memory is None else read_quantity("host_memory", host_memory, "byte"),
    )


_Share = Annotated[float, Field(gt=0, le=1)]


class Figure(Spec):
    """A typical value with the range that others measured, and their sources."""

    value: Value
    low: Value
    high: Value
    sources: tuple[str, ...] = Field(min_length=1, description="keys of `sources`")
    note: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Figure:
        if not 0 < self.low <= self.value <= self.high:
            msg = f"the value {self.value:g} must lie between low {self.low:g} and high {self.high:g}, all above 0"
            raise ValueError(msg)
        return self


class Pinned(Spec):
    """Copies from and to page-locked memory."""

    call: Figure = Field(description="seconds per call besides its bytes")
    link: Figure = Field(description="share of the link's rate that large copies reach")


class Pageable(Spec):
    """Copies from and to any other memory."""

    call: Figure = Field(description="seconds per call besides its bytes")
    rate: Figure = Field(description="bytes/s through the host's buffer, where the link could do more")


class HostCopies(Spec):
    """The file of typical values."""

    schema_version: Literal[1]
    kind: Literal["host_copies"]
    read: date
    pinned: Pinned
    pageable: Pageable
    sources: dict[str, Source]

    @model_validator(mode="after")
    def _sources_exist(self) -> HostCopies:
        for figure in (self.pinned.call, self.pinned.link, self.pageable.call, self.pageable.rate):
            for name in figure.sources:
                if name not in self.sources:
                    msg = f"source {name!r} is not a key of sources ({', '.join(self.sources)})"
                    raise ValueError(msg)
        return self


def load_typical() -> tuple[HostCopies, Input]:
    """Load the typical values of copies, from the first hardware folder with a `_host_copies.yaml`, and that file as an input.

    Raises:
        SpecError: there is none, or it is invalid.
    """
    for folder in folders("hardware"):
        if files.is_file(path := folder / "_host_copies.yaml"):
            file = read_yaml(path)
            ours = path.is_relative_to(shipped("hardware"))
            used = Input("host copies", "typical host copies", "shipped" if ours else str(path), file.sha256)
            return file.validate(HostCopies), used
    msg = "the installation is broken: no _host_copies.yaml in the folders of hardware"
    raise SpecError(msg)
