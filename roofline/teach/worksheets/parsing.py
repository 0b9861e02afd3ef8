"""Answers as students write them, as numbers in base units. Pages run a translation of this module: no regular expressions.

A number may be `131072`, `131,072`, `131 072`, `131_072`, `1.3e5`, `1.31 x 10^5`, `2^17`, `2*32*8*128*2` or `1/156`; a unit may
follow. Units that `roofline.units` reads give the same number here (a test compares the two). There are more spellings here,
since people write into a field and not into a file: bits, words, and no unit at all, which means the base unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.units import SECONDS

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}  # two code points look like micro
_COUNT = {"": 1.0, "k": 2.0**10, "K": 2.0**10, "m": 2.0**20, "M": 2.0**20}
_WORDS = {"thousand": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}


def _spellings(prefixes: dict[str, float], *units: str, scale: float = 1.0) -> dict[str, float]:
    return {prefix + unit: size * scale for unit in units for prefix, size in prefixes.items()}


_BYTES = ("B", "byte", "bytes", "Byte", "Bytes")
_BITS = ("b", "bit", "bits")
_FLOP = ("FLOP", "FLOPs", "flop", "flops")
_PER_S = ("/s", "/sec", "/second")

UNITS: dict[str, dict[str, float]] = {
    "bytes": {
        **_spellings({**_SI, **_BINARY}, *_BYTES),
        **_spellings({**_SI, **_BINARY}, *_BITS, scale=0.125),
    },
    "flop": {**_spellings(_SI, *_FLOP), **{word + unit: size for word, size in _WORDS.items() for unit in ("", *_FLOP)}},
    "flop/s": _spellings(_SI, "FLOPS", "OP/s", "OPS", *(unit + per for unit in _FLOP for per in _PER_S)),
    "bytes/s": {
        **_spellings({**_SI, **_BINARY}, *(unit + per for unit in _BYTES for per in _PER_S)),
        **_spellings({**_SI, **_BINARY}, *(unit + per for unit in _BITS for per in _PER_S), scale=0.125),
    },
    "flop/byte": _spellings({"": 1.0}, *(f"{above}/{below}" for above in (*_FLOP, "OP", "OPs") for below in _BYTES)),
    "s": {**_spellings(_SMALL, "s"), **{name: float(size) for name, size in SECONDS.items()}},
    "tokens": _spellings(_COUNT, "", "token", "tokens", "tok"),
    "tokens/s": _spellings(_SI, *(unit + per for unit in ("token", "tokens", "tok", "") for per in _PER_S), "tps", ""),
    "requests/s": _spellings(_SI, *(unit + per for unit in ("request", "requests", "req", "") for per in _PER_S)),
    "sequences": _spellings(_COUNT, "", "sequence", "sequences", "seq", "seqs", "request", "requests", "user", "users"),
    "parameters": {
        **_spellings({**_SI, "B": 1e9, "b": 1e9, "m": 1e6}, "", "parameter", "parameters", "params", "weights"),
        **{word + unit: size for word, size in _WORDS.items() for unit in ("", "parameters", "params")},
    },
    "devices": _spellings({"": 1.0}, "", "device", "devices", "GPU", "GPUs", "gpu", "gpus"),
    "usd": _spellings({"": 1.0}, "$", "USD", "usd", "dollar", "dollars") | {"cent": 0.01, "cents": 0.01, "¢": 0.01},
    "joules": _spellings({"m": 1e-3, **_SI}, "J", "joule", "joules") | _spellings(_SI, "Wh", scale=3600.0),
    "share": {"": 1.0, "%": 0.01, "percent": 0.01},
    "ratio": {"": 1.0, "%": 0.01, "percent": 0.01, "x": 1.0, "X": 1.0, "×": 1.0, "times": 1.0, "fold": 1.0,
              "token": 1.0, "tokens": 1.0, "expert": 1.0, "experts": 1.0},
}  # fmt: skip

BASE: dict[str, str] = {
    "bytes": "B", "flop": "FLOP", "flop/s": "FLOP/s", "bytes/s": "B/s", "flop/byte": "FLOP/byte", "s": "s", "tokens": "tokens",
    "tokens/s": "tokens/s", "requests/s": "requests/s", "sequences": "sequences", "parameters": "parameters",
    "devices": "devices", "usd": "USD", "joules": "J", "share": "", "ratio": "",
}  # fmt: skip
"""The unit of a number that is written without one, by the kind of answer."""

MEANING: dict[str, str] = {
    "bytes": "an amount of memory", "flop": "an amount of work", "flop/s": "a rate of work", "bytes/s": "a bandwidth",
    "flop/byte": "an arithmetic intensity", "s": "a time", "tokens": "a number of tokens", "tokens/s": "a rate of tokens",
    "requests/s": "a rate of requests", "sequences": "a number of sequences", "parameters": "a number of parameters",
    "devices": "a number of devices", "usd": "an amount of money", "joules": "an amount of energy",
    "share": "a share", "ratio": "a plain number",
}  # fmt: skip

EXAMPLES: dict[str, str] = {
    "bytes": "320 KiB, 1.5 GB or 2e9", "flop": "12 GFLOP or 1.2e10", "flop/s": "90 TFLOP/s", "bytes/s": "900 GB/s",
    "flop/byte": "42 or 42 FLOP/byte", "s": "12 ms or 0.012", "tokens": "4096 or 4k", "tokens/s": "850 or 850 tokens/s",
    "requests/s": "2.5 or 2.5 requests/s", "sequences": "48 or 48 sequences", "parameters": "6.7e9 or 6.7 B",
    "devices": "4 or 4 devices", "usd": "0.35 or $0.35",
    "joules": "2.5 kWh, 0.35 J or 9e6", "share": "12 % or 0.12", "ratio": "3.5 or 3.5 times",
}  # fmt: skip

_DIGITS = "0123456789"
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SPACES = " \u00a0\u2007\u2009\u202f\t"
_SEPARATORS = ",'" + _SPACES
# Signs people put before a number, which say nothing about it.
_BEFORE = "=~≈$"
_TIMES = "*×·⋅"
# "per token" and the like after a unit change nothing.
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
_BEYOND = "That number is far too large or too small."


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The number in base units, or a sentence why there is none. `bits`: its unit counted bits; `alone`: it has no unit."""

    value: float
    problem: str = ""
    bits: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class ParsedNumber:
    """A number inside a text, and where it ends; `exists` is False if there is none."""

    value: float
    end: int
    exists: bool = True
    problem: str = ""


def parse_answer(text: str, kind: str) -> ParsedAnswer:
    """Parse a text as an answer of a kind (a key of `UNITS`), in the base unit of the kind; `problem` says why not.

    >>> [parse_answer(text, "bytes").value for text in ("131072", "128 KiB", "0.131 MB", "2^17", "2*32*8*128*2 B")]
    [131072.0, 131072.0, 131000.0, 131072.0, 131072.0]
    >>> parse_answer("5 GFLOP", "bytes").problem
    '“GFLOP” is a unit of an amount of work. The answer is an amount of memory, such as 320 KiB, 1.5 GB or 2e9.'
    """
    written = text.strip()
    while written != "" and written[0] in _BEFORE:
        written = written[1:].strip()
    if len(written) > _LONGEST:
        return ParsedAnswer(0.0, f"That is too long for a number. Write one such as {EXAMPLES[kind]}.")
    if written[:1] in ("-", "−"):
        return ParsedAnswer(0.0, f"Below zero it cannot be: it is {MEANING[kind]}.")
    part = _product(written)
    if part.problem != "":
        return ParsedAnswer(0.0, part.problem)
    if not part.exists:
        return ParsedAnswer(0.0, f"That is not read as a number. Write one such as {EXAMPLES[kind]}.")
    unit = written[part.end :].strip()
    if unit[:1] in (",", "."):
        return ParsedAnswer(0.0, "A comma stands between thousands, three digits each; a point before decimals: 1,234.5.")
    if unit[:1] != "" and unit[0] in "+-−()*×·⋅":
        return ParsedAnswer(
            0.0, "Numbers are multiplied and divided here, as in 2*32/8, but not added, and brackets are not read."
        )
    return _in_unit(part.value, unit, kind)


def _product(text: str) -> ParsedNumber:
    """Factors with times signs, and divisors, from the start of a text."""
    part = _power(text, 0)
    if not part.exists or part.problem != "":
        return part
    value, end = part.value, part.end
    while True:
        at = _skip(text, end)
        sign = text[at : at + 1]
        if sign == "" or (sign not in _TIMES and sign not in ("x", "X", "/")):
            return ParsedNumber(value, end)
        following = _power(text, _skip(text, at + 1))
        if not following.exists:
            return ParsedNumber(value, end)
        if following.problem != "":
            return following
        if sign == "/" and following.value == 0:
            return ParsedNumber(0.0, end, True, "That divides by zero.")
        value = value / following.value if sign == "/" else value * following.value
        end = following.end


def _power(text: str, start: int) -> ParsedNumber:
    """A number, raised if a power follows: 2^17, 2**17, 10⁹."""
    base = _number(text, start)
    if not base.exists or base.problem != "":
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
            return ParsedNumber(0.0, end, True, "After ^ a whole number is read, as in 2^10.")
        raised = "-" + raised if sign != "" else raised
    else:
        while end < len(text) and text[end] in _SUPERSCRIPTS:
            raised += _DIGITS[_SUPERSCRIPTS.index(text[end])]
            end += 1
    if raised == "":
        return base
    if base.value == 0:
        return ParsedNumber(0.0, end, True, "A power of zero is not a useful answer.")
    if len(raised) > 4 or abs(int(raised) * math.log10(base.value)) > _LARGEST:
        return ParsedNumber(0.0, end, True, _BEYOND)
    return ParsedNumber(base.value ** int(raised), end)


def _number(text: str, start: int) -> ParsedNumber:
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
        return ParsedNumber(0.0, start, False)
    power = _exponent(text, at)
    at += len(power)
    if len(digits) + len(decimals) > _LARGEST or len(power) > 5 or abs(int(power[1:] or "0")) > _LARGEST:
        return ParsedNumber(0.0, at, True, _BEYOND)
    return ParsedNumber(float(f"{digits or '0'}.{decimals or '0'}{power}"), at)


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


def _in_unit(value: float, unit: str, kind: str) -> ParsedAnswer:
    """A number in the unit that was written after it; without one it is in base units."""
    plain = _spelled(unit)
    own = UNITS[kind]
    if plain == "":
        return ParsedAnswer(value, alone=True)
    for spelling in (plain, _without_of(plain)):
        if spelling in own:
            return ParsedAnswer(value * own[spelling], "", kind.startswith("bytes") and _in_bits(spelling))
    for other, spellings in UNITS.items():
        if plain in spellings and MEANING[other] != MEANING[kind]:
            return ParsedAnswer(
                0.0, f"“{plain}” is a unit of {MEANING[other]}. The answer is {MEANING[kind]}, such as {EXAMPLES[kind]}."
            )
    # "kib" is 1,024 bytes: bits are counted in such units only where they are written exactly so
    others = [spelling for spelling in own if not spelling.partition("/")[0].endswith("ib")]
    sizes = {own[spelling]: spelling for spelling in others if spelling.lower() == plain.lower()}
    if len(sizes) == 1:
        return ParsedAnswer(value * next(iter(sizes)))
    if len(sizes) > 1:
        spellings_text = " or ".join(sizes.values())
        return ParsedAnswer(0.0, f"“{plain}” could be {spellings_text}: capital and small letters matter in units.")
    base = f", or a number alone, in {BASE[kind]}" if BASE[kind] != "" else ""
    return ParsedAnswer(0.0, f"The unit “{plain}” is not known here. Write {EXAMPLES[kind]}{base}.")


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
