"""A form: the time of one kernel as a closed formula with a few parameters that mean something.

A *kernel* is what an engine launches as one call and what a measured record times: one operator, or a few (the routed
experts of a layer). A form is ordinary arithmetic over the operators' dimensions, the chip's datasheet figures and its
parameters, so that the same lines serve single answers (Python floats), sweeps and fits (NumPy arrays).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.predict.efficiency.chip import Chip

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
    """

    weights: float = COLD
    kv: float = COLD
    routing: float | None = None
    gathered: bool = False


SERVING = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
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
class Form:
    """A closed form. `terms` gives its parts in seconds by name; they tell what the time is made of and need not add up
    (a smooth maximum); the last is `total`, the estimate."""

    name: str
    ops: tuple[str, ...]
    """The ops of records that it predicts; each is a family of its own, with its own values."""
    about: str
    """One sentence: what is timed and how it is modelled."""
    parameters: tuple[Parameter, ...]
    terms: Callable[[Operators, Chip, Conditions, Values], dict[str, Expr]]
    transfer: Callable[[Values, Chip, Chip], dict[str, float]] | None = None
    """From the values of one chip to those of another of which nothing was measured; None: as they are."""
    formats: tuple[str, ...] = ()
    """Formats that it is for, where there are other forms for others: words of a family's key (`fp8`); empty: all."""
    elsewhere: Callable[[Chip], str] | None = None
    """The form of the kernel that the same backend launches on another chip, by name; None: the same."""

    def suits(self, key: str) -> bool:
        """Whether it is for the formats of a family."""
        return not self.formats or any(word in self.formats for word in key.split("/")[1:])

    def seconds(self, operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> Expr:
        """The estimate."""
        return self.terms(operators, chip, conditions, values)["total"]

    def starts(self) -> dict[str, float]:
        """Where a fit starts."""
        return {parameter.name: parameter.start for parameter in self.parameters}
