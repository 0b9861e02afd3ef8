"""Functional forms: the time of one kernel as a closed formula with a few parameters that mean something.

A *kernel* is what an engine launches as one call and what a measured record times: one operator, or a few (the routed
experts of a layer). A form is ordinary arithmetic over the operators' dimensions, the chip's datasheet figures and its
parameters, so that the same lines serve single answers (Python floats), sweeps and fits (NumPy arrays).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roofline.numeric import Expr, maximum
from roofline.operators.base import Operator
from roofline.predict.bounds import matrix_dtype, times
from roofline.specs.hardware import Connection, Hardware

Operators = Mapping[str, Operator]
Values = Mapping[str, Expr]

COLD = math.inf


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a kernel's time depends on besides its operators.

    `weights` and `kv` say how warm the caches are: between two uses of the same bytes, how many times as many of the kind
    are read, themselves included. In serving a layer's weights and a sequence's keys come back after everything else:
    infinitely many, so that nothing of them is left in L2 (`COLD`). A benchmark that reads the same buffer again has 1, one
    that goes round six copies 6.

    `routing` is the exponent of the power law by which experts are chosen (0: balanced, every expert the same number of
    rows; None: uniform at random). `gathered`: what a token picked of another rank's experts was multiplied here, by the
    first expert; a way to measure one rank, never to serve.

    `sent`: the tokens came by an all-to-all that leaves out those without an expert here, and lie side by side by expert
    (DeepEP). Where engines gather all tokens instead, each device runs over all of their rows.

    `popularity`: Zipf's exponent of the popularity of experts in serving, of an operator that has none of its own.

    `fused`: activations of 8-bit products come in 8 bits from the norm, activation or attention before them, with which
    engines fuse their quantisation; a product measured alone quantises its own.
    """

    weights: float = COLD
    kv: float = COLD
    routing: float | None = None
    gathered: bool = False
    sent: bool = False
    fused: bool = False
    popularity: float = 0.0


SERVING = Conditions()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A fitted number: what it means, where a fit starts, and between which values it is believed."""

    name: str
    unit: str
    """Of the value: `s`, `1` (a fraction of a datasheet figure), `byte/s`, `FLOP/s`, `byte`."""
    meaning: str
    start: float
    low: float
    high: float
    choices: tuple[float, ...] = ()
    """Of a switch the values that it has (which kernel a backend launches): a fit tries each and keeps the best."""
    neutral: float | None = None
    """The value at which its term is gone, for ablations; None: the form means nothing without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelForm:
    """A functional form: the time of one kind of kernel as a closed formula with a few fitted parameters.

    `terms` returns its parts in seconds by name; they show what the time is made of and need not add up (a smooth maximum); the
    last is `total`, the estimate.
    """

    name: str
    ops: tuple[str, ...]
    """The ops of records that it predicts; each is a family of its own, with its own values."""
    about: str
    """One sentence: what is timed and how it is modelled."""
    parameters: tuple[Parameter, ...]
    terms: Callable[[Operators, Chip, Conditions, Values], dict[str, Expr]]
    overlapping: tuple[str, ...] = ()
    """Terms that run at the same time, or of which one is chosen; `total` is the sum of the others and of what these take
    together."""
    transfer: Callable[[Values, Chip, Chip], dict[str, float]] | None = None
    """From the values of one chip to those of another of which nothing was measured; None: as they are."""
    formats: tuple[str, ...] = ()
    """Formats that it is for, where there are other forms for others: words of a family's key (`fp8`); empty: all."""
    elsewhere: Callable[[Chip], str] | None = None
    """The form of the kernel that the same backend launches on another chip, by name; None: the same."""

    def applies_to(self, key: str) -> bool:
        """Return whether the form is for the formats of a family, by its key such as "gemm/fp8"."""
        return not self.formats or any(word in self.formats for word in key.split("/")[1:])

    def seconds(self, operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> Expr:
        """Return the estimate of one call in seconds.

        Args:
            operators: those of the kernel, by name; dimensions may be arrays.
            chip: the device's datasheet figures.
            conditions: how warm the caches are, and how experts are chosen.
            values: of the form's parameters.
        """
        return self.terms(operators, chip, conditions, values)["total"]

    def starts(self) -> dict[str, float]:
        """Return the value of each parameter from which a fit starts."""
        return {parameter.name: parameter.start for parameter in self.parameters}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkGrid:
    """How a form takes a kernel's work to be dealt out to the compute units. Plain numbers."""

    kind: str
    """`tiles` of a product's outputs, or `thread blocks` of attention."""
    rows: float
    """Of a tile; of a thread block query rows."""
    columns: float
    """Of a tile; of a thread block keys that it goes through."""
    count: float
    """All of them, parts of a split included."""
    split: float = 1
    """Parts into which the length of the dot products (tiles) or the keys of a sequence (thread blocks) are divided."""
    units: float
    """Compute units: SMs, CUs, cores."""
    used: float = 1.0
    """Share of the rows and columns of all tiles that are outputs: the rest lies beyond the edges."""

    @property
    def waves(self) -> float:
        """Tiles or blocks per compute unit."""
        return self.count / self.units


# chip: The datasheet figures that forms use, in base units.


_FP4 = ("mxfp4", "nvfp4", "fp4")


@dataclass(frozen=True, slots=True)
class Chip:
    """The datasheet figures of one device, in base units. Missing ones have values that change nothing (see `chip`)."""

    hardware: Hardware
    architecture: str
    peaks: Mapping[str, float]
    """Dense matrix peak by dtype, FLOP/s."""
    vector: float
    """FLOP/s outside the matrix units."""
    bandwidth: float
    """Device memory, bytes/s."""
    units: float
    """SMs, CUs, cores."""
    l2: float
    """Last shared cache, bytes."""

    def peak(self, operator: Operator) -> float:
        """Return the matrix peak at the format in which an operator multiplies, in FLOP/s."""
        return self.hardware.peak(matrix_dtype(operator, self.hardware))

    def widens(self, operator: Operator) -> bool:
        """Return whether an operator's weights are widened to the activations' format before they are multiplied.

        Weights of fp4 are multiplied as they are where matrix units take fp4: engines then narrow the activations.
        """
        weight = operator.dtypes.weight
        return operator.dtypes.weight_only and not (weight.name in _FP4 and "fp4" in self.peaks)

    @property
    def sixteen_bit(self) -> float:
        """Return the matrix peak of 16-bit floats in FLOP/s, by which chips are compared."""
        return next(self.peaks[dtype] for dtype in ("bf16", "fp16", *self.peaks) if dtype in self.peaks)

    def link(self, devices: int) -> Connection | None:
        """Return the connection that joins a number of devices; None for one device."""
        return self.hardware.connection(devices)


def chip(hardware: Hardware) -> Chip:
    """Return the datasheet figures of hardware, in base units.

    Where the file has no count of compute units it is 1, no vector peak infinity, and no size of the L2 cache 0.
    """
    accelerator = hardware.accelerator
    return Chip(
        hardware=hardware,
        architecture=accelerator.architecture,
        peaks=hardware.peaks,
        vector=hardware.vector_peak or float("inf"),
        bandwidth=hardware.bandwidth,
        units=accelerator.compute_units.value if accelerator.compute_units else 1.0,
        l2=accelerator.l2.value if accelerator.l2 else 0.0,
    )


def _ceiling_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    each = [times(operator, operator.cost(), chip.hardware) for operator in operators.values()]
    compute = sum(time.matrix for time in each) / values["compute"]
    memory = maximum(sum(time.memory for time in each), sum(time.link for time in each)) / values["memory"]
    return {
        "launch": values["launch"],
        "compute": compute,
        "memory": memory,
        "total": values["launch"] + maximum(compute, memory),
    }


def _share_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    each = [times(operator, operator.cost(), chip.hardware) for operator in operators.values()]
    compute = sum(time.matrix for time in each) / values["compute"]
    memory = maximum(sum(time.memory for time in each) / values["memory"], sum(time.link for time in each) / values["link"])
    return {
        "launch": values["launch"],
        "wait": values["wait"],
        "compute": compute,
        "memory": memory,
        "total": values["launch"] + values["wait"] + maximum(compute, memory),
    }


SHARES = KernelForm(
    name="shares",
    ops=(),
    about="a launch, a wait, and the slowest of matrix units, memory and link, each at a share of its peak",
    parameters=(
        Parameter("launch", "s", "time of an empty call, which a graph of kernels hides", 2e-6, 1e-8, 1e-3),
        Parameter("wait", "s", "of a call besides, whatever its size", 2e-6, 1e-8, 1e-3),
        Parameter("compute", "1", "fraction of the matrix peak", 0.7, 0.1, 1.0),
        Parameter("memory", "1", "fraction of the memory bandwidth", 0.7, 0.1, 1.0),
        Parameter("link", "1", "fraction of the link's bandwidth", 0.7, 0.05, 1.0),
    ),
    terms=_share_terms,
    overlapping=("compute", "memory"),
)
"""The prior of what no fit is of: shares that kernels of measured cards reach. They say nothing of tiles or compute units."""


def _widening_terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    terms = _share_terms(operators, chip, conditions, values)
    weights = sum(operator.parameters for operator in operators.values() if chip.widens(operator))
    widen = values["widen"] * weights / chip.vector
    slowest = maximum(maximum(terms["compute"], terms["memory"]), widen)
    return {
        "launch": terms["launch"],
        "wait": terms["wait"],
        "compute": terms["compute"],
        "memory": terms["memory"],
        "widen": widen,
        "total": terms["launch"] + terms["wait"] + slowest,
    }


SHARES_WIDENING = KernelForm(
    name="shares_widening",
    ops=(),
    about="as `shares`; the vector units that widen quantized weights may be the slowest",
    parameters=(
        *SHARES.parameters,
        Parameter("widen", "FLOP", "work of the vector units for each weight that is widened", 20, 0, 200),
    ),
    terms=_widening_terms,
    overlapping=("compute", "memory", "widen"),
)
"""Of a vendor whose products were timed in whole steps alone, some of them with quantized weights."""


CEILINGS = KernelForm(
    name="ceilings",
    ops=(),
    about="a launch, and the slower of two ceilings",
    parameters=(
        Parameter("launch", "s", "time of an empty call", 3e-6, 1e-7, 1e-3),
        Parameter("compute", "1", "fraction of the matrix peak", 0.7, 0.01, 1.5),
        Parameter("memory", "1", "fraction of the bandwidth of memory or link", 0.7, 0.01, 1.5),
    ),
    terms=_ceiling_terms,
    overlapping=("compute", "memory"),
)
"""The three-parameter roofline: a launch, and ceilings that are fractions of the datasheet's. Other forms have to beat it."""
