"""Assignments and exams, drawn from the worksheets by one seed: the same seed gives the same papers."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.teach.term.syllabus import UNITS, WEEKS, Unit
from roofline.teach.worksheets.problem import Numbered, Rng, Template, make
from roofline.teach.worksheets.sheet import Sheet, by_topic

POINTS = 4
"""Points of a problem, as in the marking scheme."""
_PROBLEMS, _REVIEW = 5, 1
"""Problems of an assignment on its lesson, and on earlier ones."""
EXAMS = {"midterm": (75, tuple(range(1, 6))), "final": (120, tuple(range(1, 13)))}
"""Minutes of the exams, and the lessons that they are on."""
_WORKING = 0.8
"""The share of an exam's minutes that its problems are expected to take."""
_SEEDS = 10**9


def assignment(week: int, seed: int) -> Sheet | None:
    """The assignment of a week: problems on its lesson and one on an earlier lesson; None where a lesson has none.

    Args:
        week: from 1.
        seed: of the term.
    """
    unit = UNITS[WEEKS[week - 1].unit - 1]
    if not unit.topics:
        return None
    chance = Rng("term", seed, "assignment", week)
    chosen = _spread([chance.shuffled(by_topic(topic)) for topic in unit.topics], _PROBLEMS)
    earlier = [template for one in UNITS[: unit.number - 1] for topic in one.topics for template in by_topic(topic)]
    if earlier:
        chosen += chance.shuffled(earlier)[:_REVIEW]
    return _sheet(f"Assignment {week}: {unit.title}", f"assignment-{week:02d}", seed, chosen, chance)


def exam(name: str, seed: int) -> Sheet:
    """An exam of as many problems as its minutes allow, every lesson in turn.

    Args:
        name: a key of `EXAMS`.
        seed: of the term.
    """
    minutes, numbers = EXAMS[name]
    chance = Rng("term", seed, name)
    units = [unit for unit in UNITS if unit.number in numbers and unit.topics]
    order = _spread([chance.shuffled(_of(unit)) for unit in units], sum(len(_of(unit)) for unit in units))
    chosen: list[Template] = []
    for template in order:
        if sum(one.minutes for one in chosen) + template.minutes <= _WORKING * minutes:
            chosen.append(template)
    place = {unit.number: at for at, unit in enumerate(units)}
    number_of = {topic: unit.number for unit in units for topic in unit.topics}
    chosen.sort(key=lambda template: place[number_of[template.topic]])
    return _sheet(f"{name.capitalize()}, {minutes} minutes", name, seed, chosen, chance)


def _of(unit: Unit) -> list[Template]:
    return [template for topic in unit.topics for template in by_topic(topic)]


def _spread(groups: Sequence[list[Template]], most: int) -> list[Template]:
    """Templates of several groups in turn, up to a number."""
    turns = max(map(len, groups), default=0)
    dealt = [group[turn] for turn in range(turns) for group in groups if turn < len(group)]
    return dealt[:most]


def _sheet(title: str, name: str, seed: int, templates: Sequence[Template], chance: Rng) -> Sheet:
    problems = tuple(
        Numbered(number=number, template=template.id, minutes=template.minutes, problem=make(template, chance.below(_SEEDS)))
        for number, template in enumerate(templates, 1)
    )
    return Sheet(topic=name, seed=seed, title=title, problems=problems)
