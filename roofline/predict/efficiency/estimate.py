"""The estimate of a kernel and of a step: what measured kernels take, with an interval.

The ends of the interval are measured quantiles of the fit's own error: `low` and `high` hold 80 % of the measurements of shapes
that the fit had not seen, in the regime of the estimate. An estimate that rests on measurements of something else (other
formats, another backend, another accelerator), or lies beyond the measured range, has an allowance added: logarithms of the
factors add in squares, as independent errors do.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from roofline.numeric import Expr, log2, maximum, minimum
from roofline.predict.bounds import times
from roofline.predict.efficiency.fits import LINKED, Fits, Fitted
from roofline.predict.efficiency.form import COLD, SERVING, Conditions, Operators
from roofline.predict.efficiency.kernels import Kernel, is_widened, kernel_family
from roofline.specs.fit import Allowance, Regime, Spread
from roofline.specs.hardware import IN_A_SERVER

Basis = Literal["measured", "transferred", "published", "prior", "given"]
"""What an estimate rests on: fits on this card, on another of the vendor, published speeds of the vendor's machines, what other
cards reach, or the user's figures."""
CERTAINTY: tuple[Basis, ...] = ("given", "prior", "published", "transferred", "measured")
"""From what says least about a card to what says most."""
BASIS_TEXTS = {
    "given": "from the given MFU and MBU",
    "published": "from published speeds of this vendor's machines (llama.cpp); no kernels of it were measured",
    "prior": "from typical efficiencies of other vendors' accelerators; no accelerator of this vendor was measured",
    "transferred": "transferred from kernels measured on other accelerators",
}
"""What is said of an estimate that does not rest on measurements of this accelerator."""
_LAUNCHED_LIKE = "rmsnorm"
"""The family whose launch stands for that of a kernel that was not measured: a small one."""
MOST_HIDDEN = 2e-6
"""Seconds of a launch that the kernel before can hide: the launch of a matrix product (1.7 to 2.1 us on Hopper). What forms of
experts and of attention call a launch (8 to 30 us) is several kernels in sequence, of which only the first can start early."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds: an estimate, and the ends between which 80 % of measurements lie. Numbers, or arrays."""

    seconds: Expr
    low: Expr
    high: Expr

    def __mul__(self, times: Expr) -> Interval:
        return Interval(self.seconds * times, self.low * times, self.high * times)


def at_least(interval: Interval, bound: Expr, floor: Expr) -> Interval:
    """Return an interval with its estimate and high end raised to at least `bound` seconds, its low end to `floor` seconds."""
    return Interval(maximum(interval.seconds, bound), maximum(interval.low, floor), maximum(interval.high, bound))


NOTHING = Interval(0.0, 0.0, 0.0)


def together(parts: Iterable[Interval]) -> Interval:
    """Return the sum of intervals whose errors go in the same direction: kernels of one family. Ends add up."""
    total = NOTHING
    for part in parts:
        total = Interval(total.seconds + part.seconds, total.low + part.low, total.high + part.high)
    return total


def independent(parts: Iterable[Interval]) -> Interval:
    """Return the sum of intervals with independent errors: kernels of different families. Distances to the ends add in
    squares.
    """
    seconds: Expr = 0.0
    below: Expr = 0.0
    above: Expr = 0.0
    for part in parts:
        seconds = seconds + part.seconds
        below = below + (part.seconds - part.low) ** 2
        above = above + (part.high - part.seconds) ** 2
    return Interval(seconds, seconds - below**0.5, seconds + above**0.5)


@dataclass
class Estimator:
    """Estimates on one accelerator with the kernels of one backend."""

    fits: Fits
    conditions: Conditions = SERVING
    hidden: float = 0.0
    """Share of what `hideable` says that passes behind the kernel before; none of kernels alone."""
    own_host: bool = False
    """Whether communication over PCIe is that of the host on which it was measured."""
    wanted: bool = True
    """Whether estimates are wanted; without, there is the bound alone."""
    _known: dict[Hashable, tuple[Interval, Expr, str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Interval, bound and family of kernels: most kernels of a step are those of the step before, a token earlier."""

    @cached_property
    def applies(self) -> bool:
        """Return whether estimates are wanted, and the user gave shares or matrix products were measured anywhere."""
        return self.wanted and (self.given is not None or self.fits.find("gemm/bf16") is not None)

    @property
    def given(self) -> tuple[float, float] | None:
        """The shares of matrix peak and bandwidth that the user gave."""
        return self.fits.hardware.given_shares

    def fitted(self, kernel: Kernel) -> Fitted | None:
        """Return the fitted family that the estimate of a kernel uses; None where none applies."""
        if not kernel.op or self.given is not None:
            return None
        return self.fits.find(kernel_family(kernel.op, kernel.operators), over_host=self.over_host(kernel))

    def over_host(self, kernel: Kernel) -> bool:
        """Return whether a kernel is communication between devices that reach each other over the host's PCIe."""
        if kernel.op not in LINKED:
            return False
        joined = self.fits.chip.link(getattr(next(iter(kernel.operators.values())), "span", 2))
        return joined is not None and joined.over_host

    def family(self, kernel: Kernel) -> str:
        """Return the name of the group of kernels that share their errors with this one: where nothing was measured all do."""
        fitted = self.fitted(kernel)
        if fitted is None:
            return f"unmeasured {kernel.op}"
        return "prior" if fitted.origin == "prior" else fitted.key

    def basis(self, kernels: Iterable[Kernel]) -> Basis:
        """Return what the estimate of kernels rests on: the least certain of what makes up a tenth of it or more."""
        if self.given is not None:
            return "given"
        parts: dict[str, float] = {"prior": 0.0, "published": 0.0, "transferred": 0.0, "measured": 0.0}
        for kernel in kernels:
            parts[self._basis(kernel)] += float(self._of(kernel)[0].seconds * kernel.repeat)
        total = sum(parts.values())
        if parts["prior"] > NOTABLE * total:
            return "prior"
        if parts["published"] > NOTABLE * total:
            return "published"
        return "transferred" if parts["transferred"] > NOTABLE * total else "measured"

    def _basis(self, kernel: Kernel) -> str:
        if self._given_bandwidth(kernel) is not None:
            return "measured"
        fitted = self.fitted(kernel)
        if fitted is not None and fitted.published:
            return "published"
        if fitted is None or fitted.origin in ("prior", "assumed"):
            return "prior"
        return "transferred" if fitted.origin == "transferred" or self.another_host(kernel, fitted) else "measured"

    def another_host(self, kernel: Kernel, fitted: Fitted) -> bool:
        """Return whether an estimate is of communication over PCIe, measured on a host of which there are others."""
        of_host = kernel.op in LINKED and fitted.origin != "prior" and not self.own_host and not self.fits.of_user(fitted)
        return of_host and self.over_host(kernel)

    def seconds(self, kernel: Kernel) -> Expr:
        """Return the estimate of one call in seconds. Dimensions may be arrays."""
        return self.terms(kernel)["total"]

    def terms(self, kernel: Kernel) -> dict[str, Expr]:
        """Return the parts of the estimate of one call in seconds, by name.

        Besides those of the form there is `bound`, the roofline bound of the call; the last is `total`, the estimate.
        """
        fitted, bound = self.fitted(kernel), self.bound(kernel)
        if self.given is not None:
            terms = self._at_given_shares(kernel, self.given)
        elif fitted is None:
            terms = self._unmeasured(kernel)
        else:
            values = fitted.values
            if "shared" in values and self.another_host(kernel, fitted):
                values = {**values, "shared": 0.0}  # as where devices have a way of their own to their peers
            if values.get("absorbed") and self.conditions.kv == COLD:
                # SGLang's records are of prompts in the latent form, which it takes for short cached prefixes alone
                values = {**values, "absorbed": 0.0}
            terms = fitted.form.terms(kernel.timed, self.fits.chip, self.conditions_of(kernel), values)
        reached = self._given_bandwidth(kernel)
        if reached is not None:
            link = sum(operator.cost().link_bytes for operator in kernel.operators.values()) / reached
            latency = terms.get("latency", terms.get("launch", 0.0) + terms.get("wait", 0.0))
            terms = {"latency": latency, "link": link, "total": latency + link}
        if self.hidden and "launch" in terms:
            behind = self.hidden * self.hideable(kernel, terms)
            name = "beside" if kernel.beside else "launch"
            terms = {**terms, name: terms.get(name, 0.0) - behind, "total": terms["total"] - behind}
        return {**terms, "bound": bound, "total": maximum(terms["total"], bound)}

    def conditions_of(self, kernel: Kernel) -> Conditions:
        """Return those of all kernels; of experts also whether their tokens came from further than a server's eight devices:
        engines gather all tokens within one, and send none in vain beyond.
        """
        if kernel.dispatch is None:
            return self.conditions
        joined = self.fits.chip.link(kernel.dispatch.span)
        return replace(self.conditions, sent=joined is not None and kernel.dispatch.span > min(joined.together, IN_A_SERVER))

    def hideable(self, kernel: Kernel, terms: dict[str, Expr]) -> Expr:
        """Return the seconds of a launch that can pass behind the kernel before it: at most `MOST_HIDDEN`, all of a prior's.

        Of a shared expert it is all but the bound: engines run it beside the routed experts, in a stream of its own (vLLM,
        TensorRT-LLM) or as one expert more (SGLang), so that its bytes and FLOP remain.

        That launches of experts and of attention are several kernels in sequence is known of the measured kernels only. On a
        card without measurements a launch is what a graph of kernels hides, and what such a card waits for in any case is the
        prior's `wait`.

        Args:
            kernel: the call.
            terms: its parts, as `terms` gives them.
        """
        launch, fitted = terms.get("launch", 0.0), self.fitted(kernel)
        if kernel.beside and not (fitted is not None and fitted.origin == "prior"):
            return terms["total"] - self.bound(kernel)
        return launch if fitted is not None and fitted.origin == "prior" else minimum(launch, MOST_HIDDEN)

    def bound(self, kernel: Kernel) -> Expr:
        """Return the roofline seconds of one call: the bounds of its operators, one after another. Dimensions may be arrays.

        It is 0 in a benchmark that finds in a cache what it has just used: the bound takes it from device memory. `validate`
        reports
        such rows as measured below their bound.
        """
        if self.conditions.weights != COLD or self.conditions.kv != COLD:
            return 0.0
        bound: Expr = 0.0
        for operator in kernel.operators.values():
            bound = bound + times(operator, operator.cost(), self.fits.chip.hardware).bound
        return bound

    def interval(self, kernel: Kernel) -> Interval:
        """Return the estimate of one call with its interval, in seconds. Dimensions may be arrays.

        Its low end may lie below the bound: bands of a step were measured with the bands of its kernels as they are, so that
        kernel by kernel nothing is cut off; the step's low end is held at its floor, that of each part shown at its bound.
        """
        terms, fitted = self.terms(kernel), self.fitted(kernel)
        seconds = terms["total"]
        if self.given is not None or self._given_bandwidth(kernel) is not None:
            low, high = 1.0, 1.0
        elif fitted is None:
            low, high = UNKNOWN_FACTORS
        else:
            any_backend = self.fits.backend is None and fitted.origin == "fitted"
            own_link = "link_bandwidth" in self.fits.hardware.overrides
            hosts = math.log(HOSTS) if self.another_host(kernel, fitted) and not own_link else 0.0
            low, high = interval_factors(
                kernel.op, fitted, kernel.timed, seconds, self.fits.spread, other_backends=any_backend, hosts=hosts
            )
        return Interval(seconds, seconds * minimum(low, 1.0), seconds * maximum(high, 1.0))

    def _given_bandwidth(self, kernel: Kernel) -> float | None:
        """The bus bandwidth that the user gave for collectives of this kind, bytes/s."""
        return self.fits.hardware.overrides.get("allreduce_bandwidth") if kernel.op in REDUCING else None

    def _at_given_shares(self, kernel: Kernel, given: tuple[float, float]) -> dict[str, Expr]:
        """The parts of a kernel at the shares that the user gave: of each operator what takes longest."""
        mfu, mbu = given
        total: Expr = 0.0
        for operator in kernel.operators.values():
            resources = times(operator, operator.cost(), self.fits.chip.hardware)
            longest = maximum(resources.matrix / mfu, resources.memory / mbu)
            total = total + maximum(maximum(longest, resources.vector), resources.link)
        return {"total": total}

    def _unmeasured(self, kernel: Kernel) -> dict[str, Expr]:
        """The parts of a kernel like none that was measured: a launch, and its four resources one after another."""
        launches = self.fits.find(_LAUNCHED_LIKE)
        launch = launches.values.get("launch", 0.0) if launches else 0.0
        terms: dict[str, Expr] = {"launch": launch, "matrix": 0.0, "vector": 0.0, "memory": 0.0, "link": 0.0}
        for operator in kernel.operators.values():
            resources = times(operator, operator.cost(), self.fits.chip.hardware)
            for name in ("matrix", "vector", "memory", "link"):
                terms[name] = terms[name] + getattr(resources, name)
        return {**terms, "total": sum(terms.values())}

    def step(self, kernels: Iterable[Kernel]) -> tuple[Interval, dict[tuple[str, ...], Interval]]:
        """Return the seconds of a step's kernels one after another, and of each kernel (all repeats, held at its bound) by
        its paths.
        """
        parts: dict[tuple[str, ...], Interval] = {}
        families: dict[str, list[Interval]] = {}
        for kernel in kernels:
            interval, least, family = self._of(kernel)
            part, bound = interval * kernel.repeat, least * kernel.repeat
            parts[kernel.paths] = at_least(part, bound, bound)
            families.setdefault(family, []).append(part)
        return independent(together(members) for members in families.values()), parts

    def _of(self, kernel: Kernel) -> tuple[Interval, Expr, str]:
        """The interval and the bound of one call, and the kernel's family, each computed once."""
        key = (kernel.op, *kernel.operators.items(), kernel.dispatch, kernel.beside)
        try:
            known = self._known.get(key)
        except TypeError:  # dimensions are arrays
            return self.interval(kernel), self.bound(kernel), self.family(kernel)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = self.interval(kernel), self.bound(kernel), self.family(kernel)
        return known


UNKNOWN_FACTORS = (1 / 3, 3.0)
"""Of an estimate of what was never measured: from a third to three times."""
MOST_DOUBLINGS = 10
"""Doublings from the measured range beyond which the interval stops growing."""
HOSTS = 5.0
"""Factor between hosts in communication over PCIe. The estimate is that of devices with a way of their own to their peers,
which published figures of whole servers need; without access to peers, or past the other socket, they share one."""
REDUCING = ("all_reduce", "all_gather", "reduce_scatter")
"""Ops to which a bus bandwidth of the user's applies: the collectives of tensor parallelism."""
MOST_KNOWN = 10_000
"""Kernels whose estimates are remembered: those of a simulation of days would fill the memory."""
NOTABLE = 0.1
"""Share of an estimate from which it matters what a part of it rests on."""


WEIGHTS_ALONE = {"gemm": (0.3, 0.4), "bmm": (0.3, 0.4), "moe": (0.5, 0.9)}
"""By how much products of weights that are widened first are faster and slower than estimated, as logarithms of factors, by op.
No such kernel is in the records. Experts: the time per output token of gpt-oss-120b on Hopper (vLLM, TensorRT-LLM), and the
throughput that NVIDIA publishes of it, which engines have doubled since; others: what kernels for AWQ and GPTQ differ by."""


def regime_shares(op: str, operators: Operators, seconds: Expr) -> dict[Regime, Expr]:
    """Return for each regime whether an estimate is in it. Matrix products have regimes by rows m, other kernels by time.

    Args:
        op: of measured records.
        operators: of the kernel; the first one has the rows.
        seconds: the estimate; a number or an array.

    >>> regime_shares("add", {}, 2e-5)
    {'<15 us': False, '15-100 us': True, '>100 us': False}
    """
    names: tuple[Regime, Regime, Regime] = ("<15 us", "15-100 us", ">100 us")
    value, first, second = seconds, 15e-6, 100e-6
    if op in ("gemm", "bmm"):
        names, value, first, second = ("m<=64", "m 65-512", "m>512"), next(iter(operators.values())).dims()["m"], 64, 512
    below = (value <= first) if op in ("gemm", "bmm") else (value < first)
    return {names[0]: below, names[1]: (value <= second) * (1 - below) == 1, names[2]: value > second}


def beyond(fitted: Fitted, operators: Operators) -> dict[str, Expr]:
    """Return by dimension the doublings by which a kernel lies outside the measured range; 0: inside."""
    dims = next(iter(operators.values())).dims()
    doublings: dict[str, Expr] = {}
    for name, (low, high) in fitted.family.range.items():
        if (value := dims.get(name)) is not None:
            outside = maximum(maximum(max(low, 1) / maximum(value, 1), maximum(value, 1) / max(high, 1)), 1)
            doublings[name] = log2(outside)
    return doublings


def from_measured_world(fitted: Fitted, operators: Operators) -> Expr:
    """Return the doublings between a collective's number of ranks and the nearest one that was measured; 0: measured."""
    world, nearest = next(iter(operators.values())).dims().get("world"), None
    if world is None or not fitted.family.worlds:
        return 0
    for measured in fitted.family.worlds:
        away = log2(maximum(world / measured, measured / world))
        nearest = away if nearest is None else minimum(nearest, away)
    return nearest


def interval_factors(
    op: str, fitted: Fitted, operators: Operators, seconds: Expr, spread: Spread, *, other_backends: bool, hosts: float = 0.0
) -> tuple[Expr, Expr]:
    """Return the factors on an estimate at the low and the high end of its interval.

    Args:
        op: of measured records.
        fitted: the family that the estimate is from.
        operators: of the kernel.
        seconds: the estimate; a number or an array.
        spread: allowances for what was not measured.
        other_backends: whether the interval is to contain the kernels of all backends.
        hosts: logarithm of the factor by which other hosts are slower than the estimate's.
    """
    bands = fitted.family.bands
    all_of_them = bands.get("all") or next(iter(bands.values()))
    inside = regime_shares(op, operators, seconds)
    low = sum(math.log(bands.get(name, all_of_them)[0]) * share for name, share in inside.items())
    high = sum(math.log(bands.get(name, all_of_them)[1]) * share for name, share in inside.items())
    allowance = spread.allowances.get(op) or spread.allowances["all"]
    doublings = minimum(sum(beyond(fitted, operators).values()), MOST_DOUBLINGS)
    faster, slower = weights_alone(op, fitted, operators)
    origin = 0.0 if slower and fitted.origin == "other formats" else _origin(fitted, allowance)
    extra = origin**2 + (spread.doubling * doublings) ** 2
    extra = extra + (fitted.family.per_doubling * minimum(from_measured_world(fitted, operators), MOST_DOUBLINGS)) ** 2
    if other_backends:
        extra = extra + allowance.backend**2
    return math.e ** -_widened(-low, extra + faster**2), math.e ** _widened(high, extra + slower**2 + hosts**2)


def weights_alone(op: str, fitted: Fitted, operators: Operators) -> tuple[float, float]:
    """Return by how much a product with weights that are widened first may be faster and slower than its estimate from products
    with weights of 16 bits, as logarithms of factors; (0, 0) for other kernels, and where such products were measured.
    """
    first = next(iter(operators.values()))
    seen = is_widened(fitted.key) or "widen" in fitted.values
    if not (first.multiplies_weights and first.dtypes.weight_only) or seen:
        return 0.0, 0.0
    return WEIGHTS_ALONE.get(op, (0.0, 0.0))


def _widened(side: Expr, extra: Expr) -> Expr:
    """One side of the band with more in squares; a side on the wrong side of 1 keeps its place and has the more beside it."""
    right = maximum(side, 0)
    return (right * right + extra) ** 0.5 + minimum(side, 0)


def _origin(fitted: Fitted, allowance: Allowance) -> float:
    if fitted.origin == "transferred":
        return allowance.architecture if fitted.same_architecture else allowance.accelerator
    return {
        "fitted": 0.0,
        "assumed": 0.0,
        "prior": 0.0,
        "other formats": allowance.formats,
        "other backend": allowance.backend,
    }[fitted.origin]
