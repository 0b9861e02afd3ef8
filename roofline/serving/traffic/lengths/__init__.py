"""Distributions of lengths, in tokens: `1024`, `uniform:128:2k`, `lognormal:1155:900`, `file:lengths.txt`, ..."""

from __future__ import annotations

import re
from pathlib import Path

from roofline.errors import InputError, UnknownNameError
from roofline.registry import Registry
from roofline.serving.traffic.lengths.base import DistributionFamily, Lengths
from roofline.serving.traffic.lengths.continuous import GAMMA, LOGNORMAL
from roofline.serving.traffic.lengths.discrete import FILE, FIXED, UNIFORM

__all__ = ["DISTRIBUTIONS", "DistributionFamily", "Lengths", "around", "forms", "parse_lengths", "parse_range"]


_RANGE = re.compile(r"(\d+\.?\d*|\.\d+)\s*-\s*(\d+\.?\d*|\.\d+)")
_MAX_SHARE = 100.0
_ROUNDOFF = 1e-9

DISTRIBUTIONS = Registry(
    "distribution",
    (FIXED, FILE, GAMMA, LOGNORMAL, UNIFORM),
    group="roofline.lengths",
    accepts=DistributionFamily,
)


def parse_lengths(text: object, what: str = "length", folder: Path | None = None) -> Lengths:
    """Parse a distribution of lengths in tokens: `1024`, `8k`, `uniform:LO:HI`, `lognormal:MEAN:SD[:MAX]`, ...

    Args:
        text: as above; a whole number is that length each time.
        what: what the length is of, for messages; "": the caller says it.
        folder: the folder that paths are relative to; None: the working directory.

    Raises:
        InputError: no length, an unknown distribution, wrong arguments.
        SpecError: an invalid file of lengths.

    >>> parse_lengths("8k").mean, parse_lengths("uniform:1:4").variance
    (8192.0, 1.25)
    """
    if isinstance(text, Lengths):
        return text
    written = "" if text is None or isinstance(text, bool) else str(text).strip()
    name, colon, arguments = written.partition(":")
    kind = DISTRIBUTIONS.get(name.strip().lower() if colon else "")
    problem = _problem(text, written, name if colon else None)
    if problem is None and kind is not None:
        try:
            distribution: Lengths = kind.read(arguments if colon else written, folder)
        except InputError as error:
            problem = str(error)
        else:
            return distribution
    raise InputError(f"{what}: {problem}" if what else str(problem))


def _problem(text: object, written: str, word: str | None) -> str | None:
    """What is wrong with a text before its arguments are read."""
    if word is not None:
        choices = [each for each in DISTRIBUTIONS if each]
        known = word.strip().lower() in choices
        return None if known else str(UnknownNameError("distribution", word, choices, f"Write {forms()}."))
    if written and written.lower() in DISTRIBUTIONS:
        kind = DISTRIBUTIONS[written.lower()]
        return f"{written} alone says nothing: write {kind.syntax}, such as {kind.example}"
    return None if any(letter.isdigit() for letter in written) else f"{str(text)[:60]!r} is no length. Write {forms()}."


def forms() -> str:
    """The syntax of every distribution, separated by commas, for messages.

    >>> forms().startswith("1024, ")
    True
    """
    return ", ".join(kind.syntax for kind in DISTRIBUTIONS.values())


def parse_range(value: object) -> tuple[float, float]:
    """Parse the shares of a nominal length between which lengths are drawn: `0.8-1` is (0.8, 1.0).

    Load generators have a range ratio R, one number of two meanings: `R-1` in SGLang's `bench_serving`, `(1-R)-(1+R)` in
    `vllm bench serve` (older copies of `benchmark_serving.py` have the first).

    Raises:
        InputError: no such pair, the higher one first, above 100, or both 0.

    >>> parse_range("0.8-1")
    (0.8, 1.0)
    """
    allowed = "two shares of the lengths between which they are drawn, such as 0.8-1 or 0.9-1.1"
    match = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InputError(f"must be {allowed}, not {str(value)[:60]!r}")
    low, high = float(match[1]), float(match[2])
    if not low <= high <= _MAX_SHARE or not high:
        raise InputError(f"must be {allowed}, the lower one first, not {str(value)[:60]!r}")
    return low, high


def around(nominal: Lengths, shares: tuple[float, float]) -> Lengths:
    """The uniform distribution between two shares of a nominal length, in whole tokens of at least 1.

    Raises:
        InputError: the nominal length is already a distribution.

    >>> str(around(parse_lengths("1024"), (0.8, 1.0)))
    'uniform:819:1024'
    """
    length = nominal.minimum
    if nominal.maximum != length:
        raise InputError(f"{nominal} has a spread of its own: give one length, such as 1024")
    low, high = (max(int(length * share + _ROUNDOFF), 1) for share in shares)
    return parse_lengths(low if low == high else f"uniform:{low}:{high}")
