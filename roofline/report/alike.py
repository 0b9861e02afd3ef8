"""Which operators can share their formulas: those that differ in the names of symbols alone, or in S_q = 1 too."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from roofline.formulas.latex import name
from roofline.predict.explain import Explanation
from roofline.predict.explain.totals import total
from roofline.report.keys import op_key

Sharing = Literal["none", "names", "lengths"]
"""What operators that share their formulas may differ in: nothing is shared; symbols; symbols, and one new token a sequence."""
NEW = "S_q"
_TOKEN = re.compile(r"[^\s·()⌈⌉⌊⌋,^/√]+")
_FACTOR = re.compile(rf"(?<!\w){NEW}·|·{NEW}(?!\w)")


@dataclass(frozen=True)
class Explained:
    """One operator of a phase."""

    phase: str
    found: Explanation

    @cached_property
    def key(self) -> str:
        """What the ids of its elements are made of."""
        return op_key(self.phase, self.found.subject)

    @cached_property
    def legend(self) -> dict[str, tuple[float, str]]:
        """Every symbol but those of what is explained here: value, and meaning with unit."""
        own = {name(total(part.subject)) for part in self.found.parts}
        return {shown: (value, about) for shown, value, about in self.found.legend if shown not in own}

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Those of the legend but S_q, in the order in which the formulas have them."""
        tokens = (token for part in self.found.parts for token in _TOKEN.findall(part.formula))
        return tuple(dict.fromkeys(token for token in tokens if token in self.legend and token != NEW))

    def shape(self, sharing: Sharing) -> Hashable:
        """Equal for operators that can share their formulas."""
        if sharing == "none":
            return self.key
        places = {shown: f"{self.legend[shown][1].rpartition('[')[2]}{place}" for place, shown in enumerate(self.symbols)}
        return tuple(
            (part.subject, part.source, _TOKEN.sub(lambda token: places.get(token[0], token[0]), formula))
            for part, formula in zip(self.found.parts, self._formulas(sharing), strict=True)
        )

    def _formulas(self, sharing: Sharing) -> list[str]:
        written = [part.formula for part in self.found.parts]
        # NB: where S_q is nothing but a factor, a formula without it is that of S_q = 1
        short = [_FACTOR.sub("", formula) for formula in written]
        return written if sharing == "names" or any(NEW in _TOKEN.findall(formula) for formula in short) else short

    @cached_property
    def _weight(self) -> tuple[bool, float]:
        """The general case stands for the special one, and what takes long for what does not."""
        times = (part.value or 0 for part in self.found.parts if part.subject == "time_bound")
        return NEW in self.legend, max(times, default=0)

    def differences(self, model: Explained) -> list[tuple[str, float, str]]:
        """With what to read the formulas of another: a symbol, its value here, and the symbol in whose place it stands."""
        found = [(NEW, 1.0, NEW)] if NEW in model.legend and NEW not in self.legend else []
        for own, other in zip(self.symbols, model.symbols, strict=True):
            value = self.legend[own][0]
            if own != other or value != model.legend[other][0]:
                found.append((own, value, other))
        return found


def models(operators: Sequence[Explained], sharing: Sharing) -> dict[str, Explained]:
    """For the key of each operator the one whose formulas are written out for it."""
    found: dict[Hashable, Explained] = {}
    shapes = {operator.key: operator.shape(sharing) for operator in operators}
    for operator in operators:
        known = found.get(shapes[operator.key])
        if known is None or operator._weight > known._weight:  # noqa: SLF001 - of the same class
            found[shapes[operator.key]] = operator
    return {key: found[shape] for key, shape in shapes.items()}
