"""The head of a lesson: what it is about, what it stands on, and how its minutes are spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.errors import InputError
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.prose import checked, inline_of, slug

MINUTES = 50


@dataclass(frozen=True, eq=False, repr=False)
class Lesson(Item):
    """Number, title, one sentence; goals, prerequisites, plan."""

    number: int
    title: str
    about: str
    goals: tuple[str, ...]
    prerequisites: tuple[str, ...]
    plan: tuple[tuple[int, str], ...]
    exercises: tuple[str, ...]

    def html(self, ids: Ids) -> str:
        """Three lists; the plan's parts are links to the sections of these names."""
        del ids
        plan = "".join(
            f'<tr><td class="number">{minutes} min</td><td><a href="#{slug(part)}">{inline_of(part)}</a></td></tr>\n'
            for minutes, part in self.plan
        )
        return (
            '<div class="head">\n<div>\n<h2 class="minor" id="goals">After this lesson you can</h2>\n'
            f"{_list(self.goals)}</div>\n"
            f'<div>\n<h2 class="minor" id="prerequisites">What you need before</h2>\n{_list(self.prerequisites)}</div>\n'
            f'<div>\n<h2 class="minor" id="plan">Plan, {MINUTES} minutes</h2>\n<table>\n<thead><tr>'
            f'<th scope="col" class="number">Time</th><th scope="col">Part</th></tr></thead>\n'
            f"<tbody>\n{plan}</tbody>\n</table>\n</div>\n</div>\n"
        )

    def markdown(self) -> str:
        """The same as lists."""
        goals = "\n".join(f"* {goal}" for goal in self.goals)
        before = "\n".join(f"* {entry}" for entry in self.prerequisites)
        plan = "\n".join(f"| {minutes} min | {part} |" for minutes, part in self.plan)
        return (
            f"**After this lesson you can**\n\n{goals}\n\n**What you need before**\n\n{before}\n\n"
            f"**Plan, {MINUTES} minutes**\n\n| time | part |\n|---:|---|\n{plan}"
        )


def _list(entries: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{inline_of(entry)}</li>\n" for entry in entries) + "</ul>\n"


def lesson(
    number: int,
    title: str,
    about: str,
    *,
    goals: Sequence[str],
    prerequisites: Sequence[str],
    plan: Sequence[tuple[int, str]],
    exercises: Sequence[str] = (),
) -> Lesson:
    """The head. `plan` is (minutes, section) for the sections (`## ...`) of the lesson in their order, 50 minutes in all;
    `exercises` names the templates of worksheets that the lesson uses.

    Raises:
        InputError: the minutes are not 50.
    """
    spent = sum(minutes for minutes, _ in plan)
    if spent != MINUTES:
        raise InputError(f"lesson {number}: the plan takes {spent} minutes, not {MINUTES}")
    for text in (about, *goals, *prerequisites):
        checked(text)
    return Lesson(number, title, about, tuple(goals), tuple(prerequisites), tuple(plan), tuple(exercises))
