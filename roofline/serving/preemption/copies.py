"""How long a copy between a device and its host takes: a call, and its bytes at the rate that large copies reach.

A transfer of many chunks c_1, c_2, ... by one call each takes

    sum_i (a + c_i/B) = n a + D/B        n calls, D bytes

so that chunks of c bytes move at c/(a + c/B): half of B at c = a B, which is 128 kB at 5 us and 26 GB/s. `a` and B are fitted
to records of the `transfers` suite where there are any (the form `host_copy`), else typical, and said to be assumed.

Source: the linear model of a message, Hockney 1994, "The communication challenge for MPP", Parallel Computing 20(3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from roofline import formatting
from roofline.errors import InputError
from roofline.numeric import Expr
from roofline.predict.efficiency.fits import Fits, Fitted
from roofline.predict.request import Request
from roofline.serving.preemption.typical import Figure, HostCopies, load
from roofline.specs.library import Input
from roofline.specs.source import Assumption, Origin

Basis = Literal["estimate", "assumed"]
_OUT, _IN = "copy_d2h", "copy_h2d"


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of a call, and bytes/s of its bytes.

    >>> curve = Curve(5e-6, 25e9)
    >>> f"{curve.seconds(2**20, 32):.4g}", f"{curve.attained(125000):.4g}"  # 32*5 us + 1 MiB/25 GB/s; half of the rate
    ('0.0002019', '1.25e+10')
    """

    call: float
    rate: float

    def seconds(self, size: Expr, calls: Expr) -> Expr:
        """Of so many bytes by so many calls, one after another. Numbers, or arrays."""
        return calls * self.call + size / self.rate

    def attained(self, chunk: Expr) -> Expr:
        """Bytes/s of calls of `chunk` bytes each."""
        return chunk / (self.call + chunk / self.rate)


@dataclass(frozen=True, slots=True)
class Ways:
    """Out of the device, and back."""

    out: Curve
    back: Curve

    @property
    def rate(self) -> float:
        """The rate of large copies, out and back one after the other: the harmonic mean."""
        return 2 / (1 / self.out.rate + 1 / self.back.rate)

    def shared(self, devices: int) -> Ways:
        """What each of several devices has that copy over one link at a time."""
        return Ways(Curve(self.out.call, self.out.rate / devices), Curve(self.back.call, self.back.rate / devices))


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of one device: as they are expected, and between what they are likely to lie."""

    ways: Ways
    quick: Ways
    slow: Ways
    peak: float
    """The link's own rate in one direction, bytes/s, which no copy beats."""
    basis: Basis
    notes: tuple[Assumption, ...] = ()
    inputs: tuple[Input, ...] = field(default=())


def copies(request: Request, *, pinned: bool = True, host_link: float | None = None, share: int = 1) -> Copies:
    """Copies of one device of a deployment.

    Args:
        request: the deployment; its hardware has the link, its fits what was measured of it.
        pinned: whether the host's memory is page-locked.
        host_link: bytes/s that large pinned copies reach in one direction, in the place of what is known of the link.
        share: devices that copy over one link at the same time.

    Raises:
        InputError: nothing is known of the link, and no `host_link` is given.
    """
    typical, used = load()
    peak = host_link if host_link is not None else _of_link(request)
    measured = _measured(request.estimator.fits) if pinned else None
    if measured is not None:
        found, notes = _fitted(measured, peak, given=host_link is not None), _of_fits(measured)
    else:
        found, notes = _typical(typical, peak, pinned=pinned, given=host_link is not None), _cited(typical, pinned=pinned)
    if host_link is not None:
        why = "bytes/s of large copies in one direction, in place of the link's file"
        notes = [Assumption("host_link", host_link, "given", why), *(note for note in notes if note.name != "host_copy.link")]
    middle, quick, slow = (ways.shared(share) for ways in found)
    inputs = () if measured is not None else (used,)
    return Copies(middle, quick, slow, peak / share, "assumed" if measured is None else "estimate", tuple(notes), inputs)


def _of_link(request: Request) -> float:
    """The rate of the link in its file, bytes/s."""
    try:
        return float(1 / request.hardware.to_host().seconds(1.0, 0, 2))
    except InputError as error:
        msg = f"{error}: give what large copies reach with --host-link"
        raise InputError(msg) from None


def _measured(fits: Fits) -> tuple[Fitted, Fitted] | None:
    """The fits of copies out and in; None where nothing was measured."""
    out, back = fits.find(_OUT), fits.find(_IN)
    known = out is not None and back is not None and "assumed" not in (out.origin, back.origin)
    return (out, back) if known and out is not None and back is not None else None


def _fitted(measured: tuple[Fitted, Fitted], peak: float, *, given: bool) -> tuple[Ways, Ways, Ways]:
    """By the fits, and the ends of their bands."""
    found = []
    for end in (None, 0, 1):  # of a band: measured over estimated
        curves = []
        for fit in measured:
            factor = 1.0 if end is None else fit.family.bands.get("all", (0.5, 2.0))[end]
            reached = peak * (1.0 if given else float(fit.values["link"]))
            curves.append(Curve(float(fit.values["call"]) * factor, min(reached / factor, peak)))
        found.append(Ways(*curves))
    return found[0], found[1], found[2]


def _typical(typical: HostCopies, peak: float, *, pinned: bool, given: bool) -> tuple[Ways, Ways, Ways]:
    """By the typical values, and the ends of what others measured."""

    def curve(call: str, speed: str) -> Curve:
        kind = typical.pinned if pinned else typical.pageable
        if pinned:
            rate = peak if given else peak * float(getattr(typical.pinned.link, speed))
        else:
            rate = min(peak, float(getattr(typical.pageable.rate, speed)))
        return Curve(float(getattr(kind.call, call)), rate)

    ends = (("value", "value"), ("low", "high"), ("high", "low"))  # a call is quick where it is short
    middle, quick, slow = (Ways(made, made) for made in (curve(*end) for end in ends))
    return middle, quick, slow


def _of_fits(measured: tuple[Fitted, Fitted]) -> list[Assumption]:
    """What the fits are of."""
    notes = []
    for name, fit in zip(("copy_out", "copy_in"), measured, strict=True):
        origin: Origin = "transferred" if fit.origin == "transferred" else "default"
        call = formatting.seconds(float(fit.values["call"]))
        why = f"{call} a call and {fit.values['link']:.3g} of the link's rate, fitted to {fit.family.rows} records"
        notes.append(Assumption(name, fit.source, origin, why))
    return notes


def _cited(typical: HostCopies, *, pinned: bool) -> list[Assumption]:
    """Typical values with their sources."""
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
    """Between what it lies, and who says so."""
    low, high = (formatting.quantity(end, unit, 3).strip() if unit else f"{end:g}" for end in (figure.low, figure.high))
    said = ", ".join(typical.sources[name].title.partition(":")[0] for name in figure.sources)
    note = f" ({figure.note})" if figure.note else ""
    return f"nothing was measured on this accelerator; elsewhere {low} to {high}{note}: {said}"
