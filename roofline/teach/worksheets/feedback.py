"""What is said to an answer: right; a usual mistake, by its hint; or what kind of thing is off. Pages run a "
"translation of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline.teach.worksheets.reading import read
from roofline.teach.worksheets.shown import shown

Status = Literal["right", "hint", "off", "empty", "unread"]

_EXACT = 1e-9
# A factor is taken for one of these where it is so near; a prefix is a sharper thing than a forgotten term.
_NEAR, _SHARP = 0.012, 0.004
_CLOSE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A wrong answer that people give, and what is said to it."""

    value: float
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is needed to judge an answer."""

    kind: str
    value: float
    tolerance: float
    choices: tuple[str, ...]
    mistakes: tuple[Known, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The judgement, and the sentences that go with it."""

    status: Status
    text: str


def judge(asked: Asked, text: str) -> Said:
    """What is said to a written answer; of a choice the text is its place, from 0."""
    if text.strip() == "":
        if asked.choices:
            return Said(status="empty", text="Choose one, even if you are not sure: a wrong one has something to say too.")
        return Said(status="empty", text="Nothing here yet. Have a guess: a wrong one is told what is off.")
    if asked.choices:
        return _of_choice(asked, text)
    found = read(text, asked.kind)
    if found.problem != "":
        return Said(status="unread", text=found.problem)
    if is_near(found.value, asked.value, asked.tolerance):
        return Said(status="right", text=f"Right: {shown(asked.value, asked.kind)}.")
    if found.bits and is_near(found.value * 8, asked.value, _CLOSE):
        return Said(status="off", text="A small b is a bit, and eight of them are a byte. Write a capital B for bytes.")
    nearest = _nearest(asked, found.value)
    if nearest is not None:
        return Said(status="hint", text=nearest.hint)
    return Said(status="off", text=f"Not yet. {_what_is_off(found.value, asked)}")


def _of_choice(asked: Asked, text: str) -> Said:
    chosen = float(text)
    if chosen == asked.value:
        return Said(status="right", text=f"Right: {asked.choices[int(asked.value)]}.")
    hints = [known.hint for known in asked.mistakes if known.value == chosen]
    if hints:
        return Said(status="hint", text=hints[0])
    return Said(status="off", text="Not this one. Put the numbers in before you choose again.")


def _nearest(asked: Asked, value: float) -> Known | None:
    """The usual mistake that gives this number, up to the tolerance; the nearest of several."""
    room = max(asked.tolerance, 0.005 if asked.tolerance > 0 else _EXACT)
    found = None
    for known in asked.mistakes:
        nearer = found is None or abs(value - known.value) < abs(value - found.value)
        if is_near(value, known.value, room) and nearer:
            found = known
    return found


def is_near(value: float, right: float, tolerance: float) -> bool:
    """Whether a number is another one, up to a share of the latter.

    >>> is_near(131000, 131072, 0.01), is_near(128000, 131072, 0.01), is_near(113, 113, 0)
    (True, False, True)
    """
    return abs(value - right) <= max(tolerance, _EXACT) * abs(right)


def _what_is_off(value: float, asked: Asked) -> str:
    """The kind of thing that a factor between the answer and the right one points to."""
    if value == 0:
        return "It is not zero."
    ratio = value / asked.value
    side = "large" if ratio > 1 else "small"
    factor = ratio if ratio > 1 else 1 / ratio
    for power in range(1, 6):
        if is_near(factor, 1.024**power, _SHARP):
            return "You are off by what lies between decimal and binary prefixes: 1 KiB is 1024 B, 1 kB is 1000 B."
        if is_near(factor, 1000.0**power, _NEAR) or is_near(factor, 1024.0**power, _NEAR):
            return f"It is too {side} by a prefix (k, M, G): check the unit."
    if is_near(factor, 8, _NEAR):
        return f"It is too {side} by a factor of 8: bits and bytes?"
    if is_near(factor, 100, _NEAR) and asked.kind in ("share", "ratio"):
        return f"It is too {side} by a factor of 100: a fraction, or percent? Write the sign %."
    if is_near(factor, 2, _NEAR):
        of_two = "two bytes an element, K and V, a product and its sum are two FLOP"
        return f"It is too {side} by a factor of 2: {of_two}."
    if factor < 1 + _CLOSE:
        return f"It is within 10 %, a little too {side}: more than rounding. Is a small term missing, or one too many?"
    whole = is_near(factor, round(factor), _NEAR) and factor < 1000
    if whole:
        return f"It is too {side} by a factor of {round(factor)}."
    return f"It is too {side}, {'by more than a factor of ten' if factor > 10 else 'but by less than a factor of ten'}."
