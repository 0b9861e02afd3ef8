"""What a phrase of a claim is: a pattern, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from roofline.audit.claims.claim import Claim
from roofline.errors import InputError

NUMBER = r"(?:\d[\d_]*(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+)"
COUNT = rf"(?:{NUMBER}\s?[km]?)(?!\w|\.\d)"
IS = r"\s*(?:of|=|:|is|at|was)?\s*(?:an?\s+|about\s+|~\s*)?"
A_SECOND = r"(?:\s*/\s*|\s+(?:per|a|each|every)\s+|\s*p\s*)(?:s|secs?|seconds?)(?!\w|\.\d)"


@dataclass
class Reading:
    """What was read so far."""

    said: dict[str, Any] = field(default_factory=dict)
    """Options of the setting, by the names of `Statement`."""
    claims: list[Claim] = field(default_factory=list)
    numbers: list[tuple[float, str]] = field(default_factory=list)
    """Numbers that still wait for their unit, as written."""
    times: list[tuple[float, str]] = field(default_factory=list)
    """Times that still wait for a name."""
    labels: list[str] = field(default_factory=list)
    """Names of times that still wait for one."""
    lengths: list[tuple[int, str]] = field(default_factory=list)
    """Tokens that are a prompt's or a context's, as the claim will show."""
    scope: str | None = None
    phase: str | None = None
    sparse: bool = False

    def say(self, name: str, value: Any, text: str) -> None:
        """Put an option on record; the same one twice with different values is an error."""
        if self.said.get(name, value) != value:
            flag = name.replace("_", " ")
            raise InputError(
                f"the claim says two things of its {flag}: {self.said[name]!r} and {value!r} (in {text.strip()!r})"
            )
        self.said[name] = value


@dataclass(frozen=True, slots=True)
class Phrase:
    """A way to say something. `usage` shows it in the grammar; phrases without one are variants of others."""

    name: str
    pattern: re.Pattern[str]
    read: Callable[[Reading, re.Match[str]], None]
    usage: str = ""


def phrase(name: str, pattern: str, read: Callable[[Reading, re.Match[str]], None], usage: str = "") -> Phrase:
    """A phrase from a pattern without regard to case."""
    return Phrase(name, re.compile(pattern, re.IGNORECASE), read, usage)


def number(text: str, scale: str | None = None) -> float:
    """A number as people write it: 3,500 or 3.5k; k, M and G are decimal here."""
    factor = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[(scale or "").strip().lower()]
    return float(text.replace(",", "").replace("_", "")) * factor


def rounding(text: str) -> float:
    """Half a unit of the last digit that is given, as a share of the number. Zeros at the end of a whole number may be
    given or not: they count as not, and then for 2 % at most.

    >>> rounding("4"), rounding("1.98"), rounding("4,000")
    (0.125, 0.0025252525252525255, 0.02)
    """
    plain = text.replace(",", "").replace("_", "").lower().partition("e")[0]
    whole, _, after = plain.partition(".")
    value = float(plain)
    if not value:
        return 0.0
    if after or len(whole) == 1 or not whole.endswith("0"):
        return 0.5 * 10.0 ** -len(after) / value
    return min(0.5 * 10.0 ** (len(whole) - len(whole.rstrip("0"))) / value, 0.02)


def rate_number(text: str, scale: str | None = None) -> float:
    """A rate's number. One such as 10.000 is ten thousand to some and ten to others.

    Raises:
        InputError: a number that may be read in both ways.
    """
    if not scale and re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", text):
        whole = text.replace(".", ",")
        raise InputError(f"{text!r} may be {whole} or {float(text):g}: write {whole}, or {float(text):g}")
    return number(text, scale)


def option(name: str, convert: Callable[[str], Any]) -> Callable[[Reading, re.Match[str]], None]:
    """A reader that puts the phrase's `n` on record."""

    def read(reading: Reading, match: re.Match[str]) -> None:
        reading.say(name, convert(match["n"]), match[0])

    return read
