"""Peaks of hardware, and that a model fits."""

from __future__ import annotations

import re

from roofline.audit.claims.claim import Claim
from roofline.audit.claims.text.phrase import NUMBER, Reading, number, phrase, rounding
from roofline.errors import AmbiguousNameError, InputError
from roofline.specs.library import ids, load_hardware

_PREFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18, "": 1.0}
_LONG = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p", "exa": "e"}
_PER_SECOND = r"(?:\s*/\s*s(?:ec(?:ond)?)?|\s+(?:per|a)\s+second)?"
_UNIT = rf"(?P<p>kilo|mega|giga|tera|peta|exa|[kmgtpe])?(?:flops?|ops?){_PER_SECOND}(?!\w|\.\d|/)"


def _scale(match: re.Match[str]) -> float:
    prefix = (match["p"] or "").lower()
    return _PREFIXES[_LONG.get(prefix, prefix)]


def _peak(reading: Reading, match: re.Match[str]) -> None:
    reading.claims.append(Claim(kind="peak_flops", value=number(match["n"]) * _scale(match), rounding=rounding(match["n"])))


def _unit_alone(reading: Reading, match: re.Match[str]) -> None:
    if not reading.numbers:
        raise InputError(f"{match[0].strip()!r} in the claim has no number before it")
    value, text = reading.numbers.pop()
    reading.claims.append(Claim(kind="peak_flops", value=value * _scale(match), rounding=rounding(text)))


def _sparse(reading: Reading, match: re.Match[str]) -> None:
    del match
    reading.sparse = True


def _nothing(reading: Reading, match: re.Match[str]) -> None:
    """Said, and so by default."""
    del reading, match


def _fits(reading: Reading, match: re.Match[str]) -> None:
    del match
    reading.claims.append(Claim(kind="fits"))


def _some_card(reading: Reading, match: re.Match[str]) -> None:
    """A card by its memory alone."""
    del reading
    size, found = float(match["n"]), []
    for name in ids("hardware"):
        hardware, _ = load_hardware(name)
        if hardware.node is None and round(hardware.accelerator.memory.label.value / 1e9) == size:
            found.append(name)
    if not found:
        raise InputError(f"{match[0].strip()!r}: no accelerator with so much memory is known; name the hardware")
    raise AmbiguousNameError("hardware", match[0].strip(), found)


PHRASES = (
    phrase("peak", rf"(?P<n>{NUMBER})\s*-?{_UNIT}", _peak, "989 dense bf16 TFLOP/s"),
    phrase("unit of a peak", _UNIT, _unit_alone),
    phrase("sparse", r"(?:with\s+)?(?:structured\s+)?(?:2:4\s+)?spars(?:e|ity)(?!\w|\.\d)", _sparse),
    phrase("dense", r"dense|(?:without|no) sparsity", _nothing),
    phrase(
        "fits",
        r"(?:it\s+)?(?:will\s+|can\s+|would\s+)?fit(?:s|ting)?(?:\s+(?:on|in|into|onto|within))?(?!\w|\.\d)",
        _fits,
        "fits on",
    ),
    phrase("some card", r"(?P<n>\d+)\s*-?gi?b\s+(?:gpu|card|device|accelerator)s?(?!\w)", _some_card),
)
