"""What a student wrote, as a number in base units. Pages run a translation of this module: plain strings, no patterns.

A number may be `131072`, `131,072`, `131 072`, `131_072`, `1.3e5`, `1.31 x 10^5`, `2^17`, `2*32*8*128*2`, `1/156`; a unit may
follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.teach.worksheets.units import BASE, EXAMPLES, MEANING, UNITS

_DIGITS = "0123456789"
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SPACES = " \u00a0\u2007\u2009\u202f\t"
_SEPARATORS = ",'" + _SPACES
# Signs people put before a number, which say nothing about it.
_BEFORE = "=~≈$"
_TIMES = "*×·⋅"
# What an amount is of: said after a unit, it changes nothing.
_OF = (
    "/tokens",
    "/token",
    "/tok",
    "/layers",
    "/layer",
    "/step",
    "/sequence",
    "/seq",
    "/user",
    "/device",
    "/GPU",
    "/hour",
    "/h",
)
_LONGEST = 80
_LARGEST = 40
_BEYOND = "That number is beyond anything asked here."


@dataclass(frozen=True, slots=True)
class Read:
    """The number, or why there is none. `bits` says that the unit counted bits."""

    value: float
    problem: str = ""
    bits: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A number inside a text, and where it ends; `found` is False where there is none."""

    value: float
    end: int
    found: bool = True
    problem: str = ""


def read(text: str, kind: str) -> Read:
    """A text as an answer of a kind.

    >>> [read(text, "bytes").value for text in ("131072", "128 KiB", "0.131 MB", "2^17", "2*32*8*128*2 B")]
    [131072.0, 131072.0, 131000.0, 131072.0, 131072.0]
    >>> read("5 GFLOP", "bytes").problem
    '“GFLOP” is a unit of an amount of work. Asked for is an amount of memory, such as 320 KiB, 1.5 GB or 2e9.'
    """
    said = text.strip()
    while said != "" and said[0] in _BEFORE:
        said = said[1:].strip()
    if len(said) > _LONGEST:
        return Read(0.0, f"That is too long for a number. Write one such as {EXAMPLES[kind]}.")
    if said[:1] in ("-", "−"):
        return Read(0.0, f"Below zero it cannot be: it is {MEANING[kind]}.")
    part = _product(said)
    if part.problem != "":
        return Read(0.0, part.problem)
    if not part.found:
        return Read(0.0, f"That is not read as a number. Write one such as {EXAMPLES[kind]}.")
    unit = said[part.end :].strip()
    if unit[:1] in (",", "."):
        return Read(0.0, "A comma stands between thousands, three digits each; a point before decimals: 1,234.5.")
    return _in_unit(part.value, unit, kind)


def _product(text: str) -> Part:
    """Factors with times signs, and divisors, from the start of a text."""
    part = _power(text, 0)
    if not part.found or part.problem != "":
        return part
    value, end = part.value, part.end
    while True:
        at = _skip(text, end)
        sign = text[at : at + 1]
        if sign == "" or (sign not in _TIMES and sign not in ("x", "X", "/")):
            return Part(value, end)
        following = _power(text, _skip(text, at + 1))
        if not following.found:
            return Part(value, end)
        if following.problem != "":
            return following
        if sign == "/" and following.value == 0:
            return Part(0.0, end, True, "That divides by zero.")
        value = value / following.value if sign == "/" else value * following.value
        end = following.end


def _power(text: str, start: int) -> Part:
    """A number, raised if a power follows: 2^17, 2**17, 10⁹."""
    base = _number(text, start)
    if not base.found or base.problem != "":
        return base
    at = _skip(text, base.end)
    raised = ""
    end = base.end
    if text[at : at + 1] == "^" or text[at : at + 2] == "**":
        at = _skip(text, at + (1 if text[at] == "^" else 2))
        sign = "-" if text[at : at + 1] in ("-", "−") else ""
        raised = _digits(text, at + len(sign))
        end = at + len(sign) + len(raised)
        if raised == "":
            return Part(0.0, end, True, "After ^ a whole number is read, as in 2^10.")
        raised = "-" + raised if sign != "" else raised
    else:
        while end < len(text) and text[end] in _SUPERSCRIPTS:
            raised += _DIGITS[_SUPERSCRIPTS.index(text[end])]
            end += 1
    if raised == "":
        return base
    if base.value == 0:
        return Part(0.0, end, True, "A power of zero is nothing that is asked here.")
    if len(raised) > 4 or abs(int(raised) * math.log10(base.value)) > _LARGEST:
        return Part(0.0, end, True, _BEYOND)
    return Part(base.value ** int(raised), end)


def _number(text: str, start: int) -> Part:
    """Digits with separators of thousands, decimals and an exponent of ten."""
    digits, at = "", start
    while at < len(text):
        letter = text[at]
        if letter in _DIGITS:
            digits += letter
        elif digits == "" or not (letter == "_" or _thousands(text, at, digits)):
            break
        at += 1
    decimals = ""
    if text[at : at + 1] == "." and (digits != "" or text[at + 1 : at + 2] in _DIGITS):
        decimals = _digits(text, at + 1)
        at += 1 + len(decimals)
    if digits == "" and decimals == "":
        return Part(0.0, start, False)
    power = _exponent(text, at)
    at += len(power)
    if len(digits) + len(decimals) > _LARGEST or len(power) > 5 or abs(int(power[1:] or "0")) > _LARGEST:
        return Part(0.0, at, True, _BEYOND)
    return Part(float(f"{digits or '0'}.{decimals or '0'}{power}"), at)


def _digits(text: str, start: int) -> str:
    """The digits from here on."""
    end = start
    while end < len(text) and text[end] in _DIGITS:
        end += 1
    return text[start:end]


def _exponent(text: str, at: int) -> str:
    """An exponent of ten with its letter; nothing where no digits follow."""
    if text[at : at + 1] not in ("e", "E"):
        return ""
    sign = text[at + 1 : at + 2] if text[at + 1 : at + 2] in ("+", "-") else ""
    power = _digits(text, at + 1 + len(sign))
    return text[at : at + 1 + len(sign) + len(power)] if power != "" else ""


def _thousands(text: str, at: int, digits: str) -> bool:
    """Whether a separator stands here, before exactly three digits, and after one to three or after another separator."""
    if text[at] not in _SEPARATORS or digits[0] == "0":
        return False
    following = text[at + 1 : at + 4]
    if len(following) < 3 or any(letter not in _DIGITS for letter in following) or (text[at + 4 : at + 5] or " ") in _DIGITS:
        return False
    return len(digits) <= 3 or text[at - 4 : at - 3] in _SEPARATORS


def _skip(text: str, at: int) -> int:
    """The place of the next sign that is no space."""
    while at < len(text) and text[at] in _SPACES:
        at += 1
    return at


def _in_unit(value: float, unit: str, kind: str) -> Read:
    """A number in the unit that was written after it; without one it is in base units."""
    plain = _spelled(unit)
    own = UNITS[kind]
    if plain == "":
        return Read(value)
    for spelling in (plain, _without_of(plain)):
        if spelling in own:
            return Read(value * own[spelling], "", kind.startswith("bytes") and _in_bits(spelling))
    for other, spellings in UNITS.items():
        if plain in spellings and MEANING[other] != MEANING[kind]:
            return Read(
                0.0, f"“{plain}” is a unit of {MEANING[other]}. Asked for is {MEANING[kind]}, such as {EXAMPLES[kind]}."
            )
    sizes = {size: spelling for spelling, size in own.items() if spelling.lower() == plain.lower()}
    if len(sizes) == 1:
        return Read(value * next(iter(sizes)))
    if len(sizes) > 1:
        said = " or ".join(sizes.values())
        return Read(0.0, f"“{plain}” could be {said}: capital and small letters matter in units.")
    base = f", or a number alone, in {BASE[kind]}" if BASE[kind] != "" else ""
    return Read(0.0, f"The unit “{plain}” is not known here. Write {EXAMPLES[kind]}{base}.")


def _spelled(unit: str) -> str:
    """A unit without spaces, with a stroke for "per"."""
    words = [("/" if word == "per" else word) for word in unit.split()]
    return "".join(words).rstrip(".")


def _without_of(unit: str) -> str:
    for ending in _OF:
        if unit.endswith(ending):
            return unit.removesuffix(ending)
    return unit


def _in_bits(spelling: str) -> bool:
    """Whether a spelling of bytes counts bits."""
    return spelling.partition("/")[0].endswith(("b", "bit", "bits"))
