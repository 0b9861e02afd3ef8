"""Templates: found by walking the package, drawn until the problem is a good one."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

from roofline.errors import UnknownNameError
from roofline.teach.worksheets.problem import FORMAT, Mistake, Problem, Topic
from roofline.teach.worksheets.rng import Rng

TOPICS: tuple[str, ...] = get_args(Topic)
_HOME = "roofline.teach.worksheets.templates"
_TRIES = 200
# A mistake has to be so many tolerances from the answer, so that what is rounded is never taken for it.
_CLEAR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A problem apart from its numbers. Of the templates of a topic those of lower `order` come first."""

    id: str
    topic: Topic
    minutes: int
    draw: Callable[[Rng], Problem | None]
    order: int = 50


@cache
def registry() -> dict[str, Template]:
    """All templates by id, in the order of topics, and of the templates in them."""
    home = importlib.import_module(_HOME)
    found: list[Template] = []
    for module in pkgutil.iter_modules(home.__path__):
        template = importlib.import_module(f"{_HOME}.{module.name}").TEMPLATE
        if template.id.replace("-", "_") != module.name or not template.id.startswith(f"{template.topic}-"):
            msg = f"{module.name}: the id {template.id!r} must be the file's name, and begin with the topic"
            raise TypeError(msg)
        found.append(template)
    found.sort(key=lambda one: (TOPICS.index(one.topic), one.order, one.id))
    return {one.id: one for one in found}


def by_topic(topic: str) -> list[Template]:
    """The templates of a topic in the order of a sheet.

    Raises:
        UnknownNameError: no such topic.
    """
    if topic not in TOPICS:
        raise UnknownNameError("topic", topic, TOPICS, list_all=True)
    return [one for one in registry().values() if one.topic == topic]


def make(template: Template, seed: int) -> Problem:
    """The problem of a seed: drawn anew until every mistake is clearly another number than the answer.

    Mistakes that give the same number become one, with both hints.
    """
    for attempt in range(_TRIES):
        problem = template.draw(Rng(FORMAT, template.id, seed, attempt))
        if problem is not None and (good := checked(problem)) is not None:
            return good
    msg = f"template {template.id}: no good problem for seed {seed} in {_TRIES} draws"
    raise ValueError(msg)


def checked(problem: Problem) -> Problem | None:
    """The problem with each wrong number once; None where one of them would pass as right, or a number is none."""
    answer = problem.answer
    numbers = [answer.value, *(mistake.value for mistake in problem.mistakes)]
    if not all(math.isfinite(number) for number in numbers):
        return None
    if answer.kind == "choice":
        good = all(mistake.value != answer.value for mistake in problem.mistakes)
        return problem if good else None
    if answer.value <= 0:
        return None
    room = _CLEAR * answer.tolerance
    kept: list[Mistake] = []
    for mistake in problem.mistakes:
        if same(mistake.value, answer.value, room):
            return None
        if mistake.value <= 0:
            continue
        place = next((place for place, other in enumerate(kept) if same(mistake.value, other.value, room)), None)
        if place is None:
            kept.append(mistake)
        else:
            kept[place] = _either(kept[place], mistake)
    return replace(problem, mistakes=tuple(kept))


def _either(first: Mistake, second: Mistake) -> Mistake:
    """One mistake for two that give the same number."""
    return replace(first, name=f"{first.name}, or {second.name}", hint=f"{first.hint} Or: {second.hint}")


def same(value: float, other: float, tolerance: float) -> bool:
    """Whether a number is another one, up to a share of the latter.

    >>> same(1.009, 1.0, 0.01), same(1.011, 1.0, 0.01), same(113, 113, 0)
    (True, False, True)
    """
    return abs(value - other) <= max(tolerance, 1e-9) * abs(other)
