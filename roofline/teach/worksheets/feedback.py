"""Feedback on a student's answer: right, a usual mistake with its hint, or what it may be off by. Pages run a translation
of this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline import formatting
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets.parsing import BASE, MEANING, parse_answer

Status = Literal["right", "hint", "off", "empty", "unread"]

_EXACT = 1e-9
# How near a ratio has to be to a known factor; more exactly for a prefix than for a forgotten term.
_NEAR, _SHARP = 0.012, 0.004
_CLOSE = 0.1
# How near a factor has to be to quantities of the problem, and how many of these are named: more of them are no help.
_OF_QUANTITY = 0.006
_MAX_IDEAS = 3
# Kinds whose unit has prefixes, and the factor beyond which a number without one was meant in another unit.
_WITH_PREFIXES = ("bytes", "flop", "flop/s", "bytes/s", "s", "parameters")
_FORGOTTEN = 100.0
# What a factor of two comes from, by the kind of the answer.
_OF_TWO = {
    "bytes": "Two bytes an element? Keys and values? There and back?",
    "flop": "A product and its sum are two FLOP.",
    "flop/s": "A product and its sum are two FLOP.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMistake:
    """A usual wrong answer in base units, and the hint for it."""

    value: float
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuantity:
    """A number that the answer is computed from, in base units, and what it is, such as "the number of layers"."""

    value: float
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerKey:
    """What is needed to judge an answer: the right one in base units, its tolerance, and the usual mistakes.

    `quantities` are what it is computed from: feedback on an answer that is off by the value of one names it.
    """

    kind: str
    value: float
    tolerance: float
    choices: tuple[str, ...]
    mistakes: tuple[KnownMistake, ...]
    quantities: tuple[KnownQuantity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The status of an answer, and a sentence for the student: right, a hint, off without one, empty, or not read."""

    status: Status
    text: str


def judge(key: AnswerKey, text: str) -> Feedback:
    """Judge an answer as it was written, with any unit of its kind.

    Args:
        key: the right answer and the usual mistakes.
        text: what the student wrote; for a choice its index, from 0.

    Raises:
        ValueError: the text for a choice is not a number.
    """
    if text.strip() == "":
        if key.choices:
            return Feedback(status="empty", text="Choose one, even if you are not sure: a wrong one has something to say too.")
        return Feedback(status="empty", text="Nothing here yet. Have a guess: a wrong one gets a hint.")
    if key.choices:
        return _judge_choice(key, text)
    answer = parse_answer(text, key.kind)
    if answer.problem != "":
        return Feedback(status="unread", text=answer.problem)
    if is_near(answer.value, key.value, key.tolerance):
        return Feedback(status="right", text=f"Right: {format_answer(key.value, key.kind)}.")
    if answer.bits and is_near(answer.value * 8, key.value, _CLOSE):
        return Feedback(status="off", text="A small b is a bit, and eight of them are a byte. Write a capital B for bytes.")
    mistake = _nearest(key, answer.value)
    if mistake is not None:
        return Feedback(status="hint", text=mistake.hint)
    if answer.alone and _needs_unit(answer.value, key):
        return Feedback(
            status="unread", text=f"Write the unit: a number alone is in {BASE[key.kind]}. The answer is {MEANING[key.kind]}."
        )
    return Feedback(status="off", text=_what_is_off(answer.value, key))


def _needs_unit(value: float, key: AnswerKey) -> bool:
    """Whether a number without a unit was rather meant in another: it is off by more than a factor of a hundred."""
    return key.kind in _WITH_PREFIXES and value > 0 and not 1 / _FORGOTTEN < value / key.value < _FORGOTTEN


def _judge_choice(key: AnswerKey, text: str) -> Feedback:
    chosen = float(text)
    if chosen == key.value:
        return Feedback(status="right", text=f"Right: {key.choices[int(key.value)]}.")
    hints = [mistake.hint for mistake in key.mistakes if mistake.value == chosen]
    if hints:
        return Feedback(status="hint", text=hints[0])
    return Feedback(status="off", text="Not this one. Put the numbers in before you choose again.")


def _nearest(key: AnswerKey, value: float) -> KnownMistake | None:
    """The usual mistake that gives this number, up to the tolerance; the nearest of several."""
    tolerance = max(key.tolerance, 0.005 if key.tolerance > 0 else _EXACT)
    nearest = None
    for mistake in key.mistakes:
        nearer = nearest is None or abs(value - mistake.value) < abs(value - nearest.value)
        if is_near(value, mistake.value, tolerance) and nearer:
            nearest = mistake
    return nearest


def is_near(value: float, right: float, tolerance: float) -> bool:
    """Return whether a number is `right`, up to `tolerance` as a share of it.

    >>> is_near(131000, 131072, 0.01), is_near(128000, 131072, 0.01), is_near(113, 113, 0)
    (True, False, True)
    """
    return abs(value - right) <= max(tolerance, _EXACT) * abs(right)


def _what_is_off(value: float, key: AnswerKey) -> str:
    """The kind of thing that a factor between the answer and the right one points to."""
    if value == 0:
        return "It is not zero."
    ratio = value / key.value
    side = "large" if ratio > 1 else "small"
    factor = ratio if ratio > 1 else 1 / ratio
    unit = _unit_that_is_off(factor, side, key.kind)
    if unit != "":
        return unit
    if key.kind == "share" and value > 1:
        return "A share is at most 1: write 0.25 or 25 %."
    if factor < 1 + _CLOSE:
        return f"It is within 10 %, a little too {side}: more than rounding. Is a small term missing, or one too many?"
    idea = _idea(factor, key)
    if is_near(factor, 8, _NEAR) and key.kind.startswith("bytes"):
        return f"It is too {side} by a factor of 8: bits and bytes? {idea}".rstrip()
    if is_near(factor, 2, _NEAR):
        return f"It is too {side} by a factor of 2. {_OF_TWO.get(key.kind, '')} {idea}".replace("  ", " ").rstrip()
    if idea != "":
        return f"It is too {side} by a factor of {formatting.number(factor, 3)}. {idea}"
    if is_near(factor, round(factor), _NEAR) and factor < 1000:
        return f"It is too {side} by a factor of {round(factor)}."
    return f"It is too {side}, {'by more than a factor of ten' if factor > 10 else 'but by less than a factor of ten'}."


def _unit_that_is_off(factor: float, side: str, kind: str) -> str:
    """What a factor says if it is one between units or their prefixes; else nothing."""
    for power in range(1, 6):
        if kind.startswith("bytes") and is_near(factor, 1.024**power, _SHARP):
            return "You are off by what lies between decimal and binary prefixes: 1 KiB is 1024 B, 1 kB is 1000 B."
        prefixed = kind.startswith("bytes") and is_near(factor, 1024.0**power, _NEAR)
        if prefixed or (kind in _WITH_PREFIXES and is_near(factor, 1000.0**power, _NEAR)):
            return f"It is too {side} by a prefix (k, M, G): check the unit."
    if is_near(factor, 100, _NEAR) and kind in ("share", "ratio"):
        return f"It is too {side} by a factor of 100: a fraction, or percent? Write the sign %."
    if kind in ("s", "tokens/s", "requests/s"):
        for seconds in (60, 3600):
            if is_near(factor, seconds, _SHARP):
                return f"It is too {side} by a factor of {seconds:,}: seconds, minutes or hours?"
    return ""


def _idea(factor: float, key: AnswerKey) -> str:
    """What a factor may come from: a quantity of the problem that has its value, else a product or a quotient of two.

    Nothing if none has, or more than a few: then each would be a guess.
    """
    singles = [f"{one.name} ({formatting.number(one.value)})" for one in key.quantities if _is_factor(factor, one.value)]
    if len(singles) > 0:
        return f"That is {_either(singles)}: left out, or once too often?" if len(singles) <= _MAX_IDEAS else ""
    pairs: list[str] = []
    for place, first in enumerate(key.quantities):
        for second in key.quantities[:place]:
            small, large = (first, second) if first.value < second.value else (second, first)
            numbers = (formatting.number(large.value), formatting.number(small.value))
            if _is_factor(factor, large.value * small.value):
                pairs.append(f"{large.name} times {small.name} ({numbers[0]} x {numbers[1]})")
            elif _is_factor(factor, large.value / small.value):
                pairs.append(f"{large.name} over {small.name} ({numbers[0]} / {numbers[1]})")
    return f"That is {_either(pairs)}." if 0 < len(pairs) <= _MAX_IDEAS else ""


def _either(ideas: list[str]) -> str:
    return ", or ".join(ideas)


def _is_factor(factor: float, value: float) -> bool:
    """Whether a factor, of more than one, is a value or its reciprocal."""
    return is_near(factor, value, _OF_QUANTITY) or is_near(factor * value, 1, _OF_QUANTITY)
