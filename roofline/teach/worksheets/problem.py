"""Problems of worksheets: text, answer, usual mistakes, solution; and the templates that draw them from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from roofline.teach.quantities import format_answer
from roofline.teach.worksheets.feedback import AnswerKey, KnownMistake, KnownQuantity, is_near

if TYPE_CHECKING:
    from roofline.predict.explain.explanation import Explanation

FORMAT = 1
"""Version of how problems are drawn. Raise it if a change gives other problems for the same seed."""

Topic = Literal[
    "transformer", "kv-cache", "roofline", "batching", "measured", "memory-hierarchy", "moe", "preemption", "serving",
    "quantization", "speculation", "prefix-caching", "disaggregation", "energy", "scaling-book",
]  # fmt: skip
TOPICS: tuple[str, ...] = get_args(Topic)
AnswerKind = Literal[
    "bytes", "flop", "flop/s", "bytes/s", "flop/byte", "s", "tokens", "tokens/s", "requests/s", "sequences", "parameters",
    "devices", "usd", "joules", "share", "ratio", "choice",
]  # fmt: skip
"""The quantity of an answer. A `share` is a fraction, printed in percent; a `ratio` a plain number; the value of a `choice` is
the index of the right one."""

_TOLERANCE = 0.01
"""How far an answer may be from the right one, as a share of it: far less than mistakes differ by."""

_MAX_DRAWS = 200
_MISTAKE_DISTANCE = 2.0
"""Tolerances between a mistake and the answer at least, so that rounding never confuses them."""

_T = TypeVar("_T")


class Rng:
    """Random choices that are the same on every machine and with every version of Python: SHA-256 of a key and a counter.

    `random.Random` promises that for its `random()` alone, not for choices made of it.

    Args:
        key: whatever the choices depend on.

    >>> Rng("a", 7).below(100)  # `printf a/7#0 | sha256sum`, modulo 100
    35
    """

    def __init__(self, *key: object) -> None:
        self._key = "/".join(map(str, key))
        self._drawn = 0

    def below(self, end: int) -> int:
        """Draw an integer from 0 to `end` - 1, all equally likely (to one in 2^200)."""
        digest = sha256(f"{self._key}#{self._drawn}".encode()).digest()
        self._drawn += 1
        return int.from_bytes(digest, "big") % end

    def choice(self, items: Sequence[_T]) -> _T:
        """Draw one of several items.

        Raises:
            ZeroDivisionError: there are none.
        """
        return items[self.below(len(items))]

    def integer(self, low: int, high: int, step: int = 1) -> int:
        """Draw one of low, low + step, ... up to `high`."""
        return low + step * self.below((high - low) // step + 1)

    def shuffled(self, items: Sequence[_T]) -> list[_T]:
        """Draw an order of all items."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The right answer, in base units (byte, FLOP, second, ...)."""

    value: float
    kind: AnswerKind
    tolerance: float = _TOLERANCE
    """0: the exact number, as for a count of a few things."""
    choices: tuple[str, ...] = ()

    def format(self, value: float) -> str:
        """Format a value in base units of this answer's kind with its unit; for choices the text of that index."""
        return self.choices[int(value)] if self.choices else format_answer(value, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A usual wrong answer, in the base unit of the answer, and the hint for it."""

    name: str
    value: float
    hint: str


@dataclass(frozen=True, slots=True)
class Worked:
    """A step of a solution: a formula in symbols, with numbers, and its value.

    `make` is called only where the step is printed: symbolic formulas are slow to build.
    """

    lead: str
    make: Callable[[], Explanation]
    inputs: tuple[KnownQuantity, ...] = ()
    """What the formula is computed from, as far as it is known before it is written."""

    def latex(self) -> str:
        """The formula in symbols, with numbers, and its value, in LaTeX."""
        from roofline.formulas.latex import number

        formula = self.make()
        unit = "" if formula.unit == "1" else rf"\ \text{{{formula.unit}}}"
        return " = ".join([formula.latex, formula.substituted_latex, number(formula.value, as_latex=True) + unit])


_DIMENSIONS = ("layers", "hidden size", "query heads", "KV heads", "head width")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem with its numbers. Texts are Markdown, with `$n_kv$` for a symbol of the nomenclature."""

    title: str
    text: str
    answer: Answer
    mistakes: tuple[Mistake, ...]
    solution: tuple[str | Worked, ...]
    source: str = ""
    """Where the problem, or a figure in it, is from."""

    @property
    def right_answer(self) -> str:
        """The right answer as it is printed, with its unit.

        >>> from roofline.teach.worksheets import TEMPLATES, make
        >>> make(TEMPLATES["kv-cache-per-token"], 1).right_answer
        '128 KiB (131,072 B)'
        """
        return self.answer.format(self.answer.value)

    @property
    def wrong_answers(self) -> list[tuple[str, str]]:
        """The usual wrong answers as they are printed, each with its hint."""
        return [(self.answer.format(mistake.value), mistake.hint) for mistake in self.mistakes]

    @property
    def quantities(self) -> tuple[KnownQuantity, ...]:
        """What the formulas of the solution are computed from, as far as the text gives it, but nothing that is 0 or 1."""
        steps = [step for step in self.solution if isinstance(step, Worked)]
        given = (one for step in steps for one in step.inputs if one.value > 0 and one.value != 1)
        return tuple(dict.fromkeys(one for one in given if self._gives(one.name)))

    def _gives(self, name: str) -> bool:
        """Whether the text has a quantity; those that are no dimensions of a model are taken for given."""
        dimension = name.removeprefix("the ").removeprefix("number of ")
        return dimension not in _DIMENSIONS or dimension in self.text

    @property
    def hints(self) -> tuple[tuple[str | Worked, ...], ...]:
        """Hints to open one after the other: the idea, of whose formulas symbols are printed, then what is put in.

        They are made of the solution, without its end: what a choice comes to, or the value of the last formula. Texts with
        numbers come second; those beside the formulas of a choice, which argue for one, are left out.
        """
        steps = self.solution
        formulas = [at for at, step in enumerate(steps) if isinstance(step, Worked)]
        before = steps[: formulas[-1] + 1] if formulas else steps[:-1]
        if self.answer.choices and formulas:
            before = tuple(step for step in before if isinstance(step, Worked))
        before = tuple(step if isinstance(step, Worked) else self._without_answer(step) for step in before)
        idea = tuple(step for step in before if isinstance(step, Worked) or (step and not _has_number(step)))
        numbers = tuple(step for step in before if isinstance(step, Worked) or _has_number(step))
        return tuple(hint for hint in (idea, numbers) if hint)

    def _without_answer(self, text: str) -> str:
        """A text as far as it does not have the answer: what comes before the colon of a list, or nothing."""
        if self.right_answer not in text:
            return text
        before, colon, _ = text.partition(":")
        return f"{before}." if colon and self.right_answer not in before else ""

    @property
    def key(self) -> AnswerKey:
        """The right answer and the usual mistakes, as `feedback.judge` needs them."""
        answer = self.answer
        return AnswerKey(
            kind=answer.kind,
            value=float(answer.value),
            tolerance=answer.tolerance,
            choices=answer.choices,
            mistakes=tuple(KnownMistake(value=float(mistake.value), hint=mistake.hint) for mistake in self.mistakes),
            quantities=() if answer.choices else self.quantities,
        )

    @property
    def tolerance(self) -> str:
        """How near an answer has to be, in words; empty for a choice."""
        if self.answer.choices:
            return ""
        return "the exact number" if self.answer.tolerance == 0 else f"within {self.answer.tolerance * 100:g} %"


def _has_number(text: str) -> bool:
    return any(letter.isdecimal() for letter in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A problem on a sheet."""

    number: int
    template: str
    minutes: int
    problem: Problem


_EASY_MINUTES, _MEDIUM_MINUTES = 3, 4
LEVELS = {"easy": "up to 3 minutes", "medium": "4 minutes", "hard": "5 minutes or more"}
"""Difficulties by the minutes that a problem is expected to take, which grow with the steps of its solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A problem without its numbers; `draw` chooses them, and returns None if they make no good problem.

    Raises:
        TypeError: the id does not begin with the topic.
    """

    id: str
    topic: Topic
    minutes: int
    draw: Callable[[Rng], Problem | None]

    def __post_init__(self) -> None:
        if self.topic not in TOPICS or not self.id.startswith(f"{self.topic}-"):
            msg = f"worksheet template {self.id!r}: the id begins with the topic, one of {', '.join(TOPICS)}"
            raise TypeError(msg)

    @property
    def level(self) -> str:
        """The difficulty: one of `LEVELS`."""
        easy, medium, hard = LEVELS
        return easy if self.minutes <= _EASY_MINUTES else medium if self.minutes <= _MEDIUM_MINUTES else hard


def make(template: Template, seed: int) -> Problem:
    """Draw the problem of a seed, again until every mistake is clearly another number than the answer.

    Mistakes that give the same number become one, with both hints.

    Raises:
        ValueError: no draw made a good problem; the template is too strict.
    """
    for attempt in range(_MAX_DRAWS):
        problem = template.draw(Rng(FORMAT, template.id, seed, attempt))
        if problem is not None and (good := checked(problem)) is not None:
            return good
    msg = f"template {template.id}: no good problem for seed {seed} in {_MAX_DRAWS} draws"
    raise ValueError(msg)


def checked(problem: Problem) -> Problem | None:
    """Return the problem with equal mistakes merged; None if a mistake would pass as right, or a number is not finite."""
    answer = problem.answer
    if not all(math.isfinite(value) for value in [answer.value, *(mistake.value for mistake in problem.mistakes)]):
        return None
    if answer.kind == "choice":
        return None if any(mistake.value == answer.value for mistake in problem.mistakes) else problem
    if answer.value <= 0:
        return None
    tolerance = _MISTAKE_DISTANCE * answer.tolerance
    mistakes: list[Mistake] = []
    for mistake in problem.mistakes:
        if is_near(mistake.value, answer.value, tolerance):
            return None
        if mistake.value <= 0:
            continue
        at = next((at for at, other in enumerate(mistakes) if is_near(mistake.value, other.value, tolerance)), None)
        if at is None:
            mistakes.append(mistake)
        else:
            first = mistakes[at]
            mistakes[at] = replace(first, name=f"{first.name}, or {mistake.name}", hint=f"{first.hint} Or: {mistake.hint}")
    return replace(problem, mistakes=tuple(mistakes))
