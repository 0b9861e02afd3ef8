"""Questions: what is predicted before it is shown, what is worked out, what is exercised.

A page judges answers by the translation of `roofline.teach.worksheets.feedback`: a number may be written with any unit, and
usual mistakes are told what they are. The key is on the page, so this is for learning, not for marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from roofline.errors import InputError, UnknownNameError
from roofline.report.page import as_json
from roofline.teach.lessons.derived import Formula
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.prose import checked, html_of, inline_of
from roofline.teach.worksheets import make, registry
from roofline.teach.worksheets.feedback import Asked, Known
from roofline.teach.worksheets.problem import Kind, Problem, Worked
from roofline.teach.worksheets.shown import shown
from roofline.teach.worksheets.units import EXAMPLES

Part = str | Item
_GUESS = 0.1
"""A prediction is right that is so near, as a share of the answer."""


def html_of_parts(parts: Sequence[Part], ids: Ids) -> str:
    """Texts and items as HTML."""
    return "".join(html_of(part) if isinstance(part, str) else part.html(ids) for part in parts)


def markdown_of_parts(parts: Sequence[Part]) -> str:
    """Texts and items as Markdown."""
    return "\n\n".join(part if isinstance(part, str) else part.markdown() for part in parts)


class Question(Item):
    """A question with an answer that is judged, and what is shown after it."""

    def __init__(self, kind: str, title: str, text: str, asked: Asked, after: Sequence[Part]) -> None:
        if kind not in _NAMES:
            raise UnknownNameError("kind of question", kind, _NAMES)
        self.kind, self.title, self.text, self.asked, self.after = kind, title, checked(text), asked, tuple(after)
        for part in (*self.after, *asked.choices, *(known.hint for known in asked.mistakes)):
            if isinstance(part, str):
                checked(part)

    def html(self, ids: Ids) -> str:
        """A form; without the script the choices as a list, and the answer to be opened."""
        name = ids.fresh(self.kind)
        heading, button, answer = _NAMES[self.kind]
        title = f"{heading}: {inline_of(self.title)}" if self.title else heading
        data = as_json(asdict(self.asked))
        skip = '<button type="button" class="skip-it">Go on without</button>\n' if self.kind == "predict" else ""
        return (
            f'<div role="group" class="ask {self.kind}" data-ask="{self.kind}" id="{name}" aria-labelledby="{name}-title">\n'
            f'<p class="kind" id="{name}-title">{title}</p>\n{html_of(self.text)}'
            f'<form class="live" autocomplete="off" novalidate>\n{self._entry(name)}'
            f'<button type="submit">{button}</button>\n{skip}<p class="said" role="status"></p>\n</form>\n{self._listed()}'
            f'<script type="application/json">{data}</script>\n'
            f'<details class="answer">\n<summary>{answer}</summary>\n<p><strong>{inline_of(self.right)}</strong></p>\n'
            f"{html_of_parts(self.after, ids)}</details>\n</div>\n"
        )

    @property
    def right(self) -> str:
        """The answer in words."""
        asked = self.asked
        return asked.choices[int(asked.value)] if asked.choices else shown(asked.value, asked.kind)

    def _entry(self, name: str) -> str:
        if self.asked.choices:
            rows = "".join(
                f'<label><input type="radio" name="{name}" value="{at}"> <span>{inline_of(text)}</span></label>\n'
                for at, text in enumerate(self.asked.choices)
            )
            return f'<fieldset>\n<legend class="unseen">Choose one</legend>\n{rows}</fieldset>\n'
        return (
            f'<label class="entry" for="{name}-entry"><span>Your answer</span> '
            f'<input id="{name}-entry" name="{name}" type="text" maxlength="80" spellcheck="false" '
            f'placeholder="{EXAMPLES[self.asked.kind]}"></label>\n'
        )

    def _listed(self) -> str:
        """The choices where there is no form."""
        entries = "".join(f"<li>{inline_of(text)}</li>\n" for text in self.asked.choices)
        return f'<ol class="choices">\n{entries}</ol>\n' if entries else ""

    def markdown(self) -> str:
        """The question, its choices, and the answer in details."""
        heading, _, answer = _NAMES[self.kind]
        title = f"{heading}: {self.title}" if self.title else heading
        choices = "\n".join(f"{at}. {text}" for at, text in enumerate(self.asked.choices, 1))
        return (
            f"**{title}**\n\n{self.text}\n\n{choices}\n\n<details><summary>{answer}</summary>\n\n**{self.right}**\n\n"
            f"{markdown_of_parts(self.after)}\n\n</details>"
        )


_NAMES = {
    "predict": ("Predict first", "Commit", "Answer"),
    "exercise": ("Exercise", "Check", "Solution"),
}


def predict(
    question: str,
    choices: Mapping[str, str] | Sequence[str] = (),
    *,
    answer: float | str,
    why: Part | Sequence[Part],
    kind: Kind = "ratio",
    tolerance: float = _GUESS,
    hints: Mapping[float, str] | None = None,
) -> Question:
    """A question that has to be answered before the page shows what is right, and why.

    Either `choices`, texts or texts with what is said to those who choose them, of which `answer` is one; or `answer` is a
    number of a `kind` of `roofline.teach.worksheets`, in base units, right within `tolerance` of it, with `hints` for usual
    wrong numbers.

    Raises:
        InputError: the answer is none of the choices, or a text where a number is asked.
    """
    after = [why] if isinstance(why, str | Item) else list(why)
    if choices:
        texts = list(choices)
        if answer not in texts:
            raise InputError(f"predict: the answer {answer!r} is none of the choices")
        said = choices if isinstance(choices, Mapping) else {}
        known = tuple(Known(value=at, hint=said[text]) for at, text in enumerate(texts) if text != answer and said.get(text))
        asked = Asked(
            kind="choice", value=texts.index(str(answer)), tolerance=0, choices=tuple(texts), mistakes=known
        )  # fmt: skip
    else:
        if isinstance(answer, str):
            raise InputError(f"predict: give choices, or a number in the place of {answer!r}")
        known = tuple(Known(value=value, hint=hint) for value, hint in (hints or {}).items())
        asked = Asked(kind=kind, value=answer, tolerance=tolerance, choices=(), mistakes=known)
    return Question("predict", "", question, asked, after)


class Solved(Item):
    """A worked problem: its solution is opened."""

    def __init__(self, title: str, problem: Sequence[Part], solution: Sequence[Part]) -> None:
        for part in (title, *problem, *solution):
            if isinstance(part, str):
                checked(part)
        self.title, self.problem, self.solution = title, tuple(problem), tuple(solution)

    def html(self, ids: Ids) -> str:
        """A section of its own."""
        name = ids.fresh("worked")
        return (
            f'<div role="group" class="worked" id="{name}" aria-labelledby="{name}-title">\n'
            f'<p class="kind" id="{name}-title">Worked problem: {inline_of(self.title)}</p>\n'
            f"{html_of_parts(self.problem, ids)}"
            f'<details class="answer">\n<summary>Solution</summary>\n{html_of_parts(self.solution, ids)}</details>\n</div>\n'
        )

    def markdown(self) -> str:
        """The solution in details."""
        return (
            f"**Worked problem: {self.title}**\n\n{markdown_of_parts(self.problem)}\n\n<details><summary>Solution</summary>\n\n"
            f"{markdown_of_parts(self.solution)}\n\n</details>"
        )


def worked(title: str, problem: Part | Sequence[Part], *solution: Part) -> Solved:
    """A problem, and its solution behind a click."""
    return Solved(title, [problem] if isinstance(problem, str | Item) else problem, solution)


def exercise(template: str, seed: int = 1) -> Question:
    """A problem of the worksheets, by its template and the seed of its numbers.

    Raises:
        UnknownNameError: there is no such template.
    """
    known = registry()
    if template not in known:
        raise UnknownNameError("exercise", template, known)
    return of_problem(make(known[template], seed))


def of_problem(problem: Problem) -> Question:
    """A problem as a question of a lesson."""
    answer = problem.answer
    asked = Asked(
        kind=answer.kind,
        value=answer.value,
        tolerance=answer.tolerance,
        choices=answer.choices,
        mistakes=tuple(Known(value=mistake.value, hint=mistake.hint) for mistake in problem.mistakes),
    )
    return Question("exercise", problem.title, problem.text, asked, [part for step in problem.solution for part in _step(step)])


def _step(step: str | Worked) -> list[Part]:
    if isinstance(step, str):
        return [step]
    return [step.lead, Formula(step.make(), "", legend=False)]
