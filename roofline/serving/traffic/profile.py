"""How load moves over a day: relative weights of equal parts of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.serving.traffic.scalars import number
from roofline.serving.traffic.tables import read_table
from roofline.specs.base import Spec
from roofline.specs.library import Input
from roofline.specs.yaml_file import read_yaml
from roofline.text import clean

DAY = 86400.0
"""Seconds."""
_MOST = 86400
_COLUMNS = ("weight", "load", "rate", "requests")
_ALLOWED = "weights of the parts of a day, such as 1,1,2,4,3,1, or a .yaml or .csv file of them"


@dataclass(frozen=True, slots=True)
class Paid:
    """Devices that are needed in each part of a day, and the seconds before that from which they are paid."""

    needed: tuple[int, ...]
    lead: float

    def most(self, first: int, ahead: int) -> int:
        """Maximum from a part of the day to the one `ahead` parts later."""
        parts = len(self.needed)
        return max(self.needed[(first + index) % parts] for index in range(min(ahead, parts - 1) + 1))


@dataclass(frozen=True, slots=True)
class Profile:
    """Load over a day that repeats: `factors` of the mean load in equal parts of the day, from midnight, with a mean of 1."""

    name: str
    factors: tuple[float, ...]
    source: Input | None = None

    @property
    def peak_factor(self) -> float:
        """Peak load over mean load."""
        return max(self.factors)

    @property
    def part(self) -> float:
        """Length of a part of the day, s."""
        return DAY / len(self.factors)

    def mean_paid(self, pools: Sequence[Paid], cost: Callable[[int], float] = float) -> float:
        """Mean cost over a day of devices that are paid from `lead` seconds before they are needed until they are not.

        With parts of length p and lead = k p + r, a part pays the maximum over it and the next k, in its last r seconds over
        the next k + 1.

        Args:
            pools: devices that are needed in each part of the day, and their lead.
            cost: of a number of devices of all pools together; by default, the number itself.

        >>> Profile("", (1.0,) * 4).mean_paid([Paid((1, 1, 3, 1), 3 * 3600)])  # two more for a part and a half of four
        1.75
        """
        leads = [divmod(pool.lead / self.part, 1) for pool in pools]
        changes = sorted({0.0, 1.0, *(1 - rest for _, rest in leads)})
        total, parts = 0.0, len(self.factors)
        for part in range(parts):
            for start, end in pairwise(changes):
                ahead = [int(whole) + (start >= 1 - rest) for whole, rest in leads]
                total += (end - start) * cost(sum(map(Paid.most, pools, (part,) * len(pools), ahead)))
        return total / parts

    def at(self, seconds: float) -> float:
        """Load over mean load at a time in seconds after midnight, of any day."""
        return self.factors[int(seconds % DAY / self.part) % len(self.factors)]


class ProfileFile(Spec):
    """The keys of a profile's file."""

    schema_version: Literal[1] = 1
    kind: Literal["profile"] = "profile"
    name: str = ""
    weights: tuple[float, ...]


def parse_profile(value: object, folder: Path | None = None) -> Profile:
    """Parse a profile from weights in a list, in a text (`h0,h1,...`), or in a file.

    A .yaml file holds `weights: [...]`; a .csv file one weight per line, or a column `weight`. There may be any number of
    parts, 24 for hours; weights are scaled to a mean of 1.

    Args:
        value: a profile, weights, or a path.
        folder: the folder that paths are relative to; None: the working directory.

    Raises:
        InputError: a weight is no number or negative, all are zero, there are fewer than 2 or more than 86,400.
        SpecError: no such file, or one of these in a file, with the line.
    """
    if isinstance(value, Profile):
        return value
    if isinstance(value, (list, tuple)):
        return _profile("given", value)
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise InputError(f"must be {_ALLOWED}, not {str(value)[:60]!r}")
    text = str(value).strip()
    path = (folder or Path()) / text
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        file = read_yaml(path)
        content = file.validate(ProfileFile)
        source = Input("profile", clean(path.name), str(path), file.sha256)
        line = file.marks.get(("weights",), (1, 1))[0]
        return _of_file(path, line, content.name or clean(path.stem), content.weights, source)
    if suffix in (".csv", ".txt"):
        return _csv(path)
    if "," not in text:
        raise InputError(f"must be {_ALLOWED}, not {text[:60]!r}")
    return _profile(text, text.split(","))


def _csv(path: Path) -> Profile:
    table = read_table(path, "a profile of the load")
    header = [cell.strip() for cell in table.rows[0]]
    try:
        for cell in header:
            number(cell, "a weight")
        first, column = 0, 0
    except InputError:
        lower = [name.lower() for name in header]
        columns = [lower.index(name) for name in _COLUMNS if name in lower] or ([0] if len(header) == 1 else [])
        if not columns:
            unknown = UnknownNameError("columns", clean(", ".join(header)), ["weight"], "A column weight is needed.")
            raise SpecError(str(unknown), path=path, line=table.lines[0]) from None
        first, column = 1, columns[0]
    if len(header) > 1 and first == 0:
        raise SpecError(f"has {len(header)} columns and no header: give one weight per line", path=path, line=table.lines[0])
    weights = []
    for line, row in zip(table.lines[first:], table.rows[first:], strict=True):
        try:
            weights.append(_weight(row[column] if column < len(row) else ""))
        except InputError as error:
            raise SpecError(str(error), path=path, line=line) from None
    return _of_file(path, None, clean(path.stem), weights, Input("profile", clean(path.name), str(path), table.sha256))


def _of_file(path: Path, line: int | None, name: str, weights: Iterable[object], source: Input) -> Profile:
    try:
        return _profile(name, weights, source)
    except InputError as error:
        raise SpecError(f"weights: {error}", path=path, line=line) from None


def _weight(value: object) -> float:
    weight = number(value.strip() if isinstance(value, str) else value, "a weight, 0 or more")
    if weight < 0:
        raise InputError(f"a weight must be 0 or more, not {str(value)[:60]}")
    return weight


def _profile(name: str, values: Iterable[object], source: Input | None = None) -> Profile:
    weights = [_weight(value) for value in values]
    if not 2 <= len(weights) <= _MOST:
        raise InputError(f"a profile has 2 to {_MOST:,} parts of a day, not {len(weights):,}: 24 for hours")
    mean = sum(weights) / len(weights)
    if mean == 0:
        raise InputError("all weights are 0: at least one part of the day must have load")
    return Profile(name, tuple(weight / mean for weight in weights), source)
