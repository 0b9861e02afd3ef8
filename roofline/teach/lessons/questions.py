"""Questions of a lesson: predictions before the answer is visible, worked problems, exercises.

A page judges answers by the translation of `roofline.teach.worksheets.feedback`: a number may be written with any unit, and
usual mistakes get a hint. The key is on the page, so this is for learning, not for marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from roofline.errors import InputError, UnknownNameError
from roofline.report.page import as_json
from roofline.teach.lessons.formula import Formula
from roofline.teach.lessons.items import Item
from roofline.teach.markdown import Ids, checked, html_of, inline_of
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.feedback import AnswerKey, KnownMistake
from roofline.teach.worksheets.parsing import EXAMPLES
from roofline.teach.worksheets.problem import AnswerKind, Worked

Part = str | Item
_GUESS = 0.1
"""The tolerance of a prediction, as a share of the answer."""


def _html_of_parts(parts: Sequence[Part], ids: Ids) -> str:
    """Render texts and items as HTML."""
    return "".join(html_of(part) if isinstance(part, str) else part.html(ids) for part in parts)


def _markdown_of_parts(parts: Sequence[Part]) -> str:
    """Render texts and items as Markdown."""
    return "\n\n".join(part if isinstance(part, str) else part.markdown() for part in parts)


class Question(Item):
    """A question whose answer is judged, and the explanation that follows; an exercise has a template of the worksheets."""

    def __init__(self, kind: str, title: str, text: str, key: AnswerKey, after: Sequence[Part], template: str = "") -> None:
        if kind not in _NAMES:
            raise UnknownNameError("kind of question", kind, _NAMES)
        self.kind, self.title, self.text, self.key, self.after = kind, title, checked(text), key, tuple(after)
        self.template = template
        for part in (*self.after, *key.choices, *(mistake.hint for mistake in key.mistakes)):
            if isinstance(part, str):
                checked(part)

    def html(self, ids: Ids) -> str:
        """A form; without scripts a list of the choices, and the answer to open."""
        name = ids.fresh(self.kind)
        heading, button, answer = _NAMES[self.kind]
        title = f"{heading}: {inline_of(self.title)}" if self.title else heading
        data = as_json(asdict(self.key))
        skip = '<button type="button" class="skip-it">Go on without an answer</button>\n' if self.kind == "predict" else ""
        return (
            f'<div role="group" class="ask {self.kind}" data-ask="{self.kind}" id="{name}" aria-labelledby="{name}-title">\n'
            f'<p class="kind" id="{name}-title">{title}</p>\n{html_of(self.text)}'
            f'<form class="live" autocomplete="off" novalidate>\n{self._entry(name)}'
            f'<button type="submit">{button}</button>\n{skip}<p class="feedback" role="status"></p>\n</form>\n{self._listed()}'
            f'<script type="application/json">{data}</script>\n'
            f'<details class="answer">\n<summary>{answer}</summary>\n<p><strong>{inline_of(self.right)}</strong></p>\n'
            f"{_html_of_parts(self.after, ids)}</details>\n</div>\n"
        )

    @property
    def right(self) -> str:
        """The answer in words."""
        key = self.key
        return key.choices[int(key.value)] if key.choices else format_answer(key.value, key.kind)

    @property
    def wrong_answers(self) -> list[tuple[str, str]]:
        """The usual wrong answers in words, each with its hint."""
        key = self.key
        return [
            (key.choices[int(known.value)] if key.choices else format_answer(known.value, key.kind), known.hint)
            for known in key.mistakes
        ]

    def _entry(self, name: str) -> str:
        if self.key.choices:
            rows = "".join(
                f'<label><input type="radio" name="{name}" value="{at}"> <span>{inline_of(text)}</span></label>\n'
                for at, text in enumerate(self.key.choices)
            )
            return f'<fieldset>\n<legend class="unseen">Choose one</legend>\n{rows}</fieldset>\n'
        return (
            f'<label class="entry" for="{name}-entry"><span>Your answer</span> '
            f'<input id="{name}-entry" name="{name}" type="text" maxlength="80" spellcheck="false" '
            f'placeholder="{EXAMPLES[self.key.kind]}"></label>\n'
        )

    def _listed(self) -> str:
        """The choices, for pages without scripts."""
        entries = "".join(f"<li>{inline_of(text)}</li>\n" for text in self.key.choices)
        return f'<ol class="choices">\n{entries}</ol>\n' if entries else ""

    def markdown(self) -> str:
        """The question and its choices; the answer in `details`."""
        heading, _, answer = _NAMES[self.kind]
        title = f"{heading}: {self.title}" if self.title else heading
        choices = "\n".join(f"{at}. {text}" for at, text in enumerate(self.key.choices, 1))
        return (
            f"**{title}**\n\n{self.text}\n\n{choices}\n\n<details><summary>{answer}</summary>\n\n**{self.right}**\n\n"
            f"{_markdown_of_parts(self.after)}\n\n</details>"
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
    kind: AnswerKind = "ratio",
    tolerance: float = _GUESS,
    hints: Mapping[float, str] | None = None,
) -> Question:
    """Return a question to answer before the page shows the right answer, and why it is right.

    Args:
        question: its text.
        choices: texts to choose from, or hints for them by text.
        answer: one of the choices; without choices a number in the base unit of its `kind`.
        why: the explanation that follows.
        kind: what the number measures.
        tolerance: how near a number has to be, as a share of the answer.
        hints: hints by usual wrong number.

    Raises:
        InputError: the answer is none of the choices, or a text instead of a number; or a text has a formula that is typed,
            or an unknown symbol.
    """
    after = [why] if isinstance(why, str | Item) else list(why)
    if choices:
        texts = list(choices)
        if answer not in texts:
            raise InputError(f"predict: the answer {answer!r} is none of the choices")
        by_text = choices if isinstance(choices, Mapping) else {}
        known = tuple(
            KnownMistake(value=at, hint=by_text[text]) for at, text in enumerate(texts) if text != answer and by_text.get(text)
        )
        key = AnswerKey(kind="choice", value=texts.index(str(answer)), tolerance=0, choices=tuple(texts), mistakes=known)
    else:
        if isinstance(answer, str):
            raise InputError(f"predict: give choices, or a number instead of {answer!r}")
        known = tuple(KnownMistake(value=value, hint=hint) for value, hint in (hints or {}).items())
        key = AnswerKey(kind=kind, value=answer, tolerance=tolerance, choices=(), mistakes=known)
    return Question("predict", "", question, key, after)


class WorkedProblem(Item):
    """A worked problem, with its solution to open."""

    def __init__(self, title: str, problem: Sequence[Part], solution: Sequence[Part]) -> None:
        for part in (title, *problem, *solution):
            if isinstance(part, str):
                checked(part)
        self.title, self.problem, self.solution = title, tuple(problem), tuple(solution)

    def html(self, ids: Ids) -> str:
        """A box with the solution in `details`."""
        name = ids.fresh("worked")
        return (
            f'<div role="group" class="worked" id="{name}" aria-labelledby="{name}-title">\n'
            f'<p class="kind" id="{name}-title">Worked problem: {inline_of(self.title)}</p>\n'
            f"{_html_of_parts(self.problem, ids)}"
            f'<details class="answer">\n<summary>Solution</summary>\n{_html_of_parts(self.solution, ids)}</details>\n</div>\n'
        )

    def markdown(self) -> str:
        """The problem, with the solution in `details`."""
        return (
            f"**Worked problem: {self.title}**\n\n{_markdown_of_parts(self.problem)}\n\n"
            f"<details><summary>Solution</summary>\n\n{_markdown_of_parts(self.solution)}\n\n</details>"
        )


def worked(title: str, problem: Part | Sequence[Part], *solution: Part) -> WorkedProblem:
    """Return a worked problem, whose solution (texts and items) is hidden until a click.

    Raises:
        InputError: a text has a formula that is typed, or an unknown symbol.
    """
    return WorkedProblem(title, [problem] if isinstance(problem, str | Item) else problem, solution)


def exercise(template: str, seed: int = 1) -> Question:
    """Return a problem of the worksheets as a question, by its template and the seed of its numbers.

    Raises:
        UnknownNameError: there is no such template.
    """
    problem = make(TEMPLATES[template], seed)
    solution = [part for step in problem.solution for part in _step(step)]
    return Question("exercise", problem.title, problem.text, problem.key, solution, template)


def _step(step: str | Worked) -> list[Part]:
    if isinstance(step, str):
        return [step]
    return [step.lead, Formula(step.make(), "", legend=False)]
