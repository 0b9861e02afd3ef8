"""Solutions written out: what every face shows of a step."""

from __future__ import annotations

from roofline.teach.worksheets.problem import Problem, Worked
from roofline.teach.worksheets.shown import shown


def right_answer(problem: Problem) -> str:
    """The answer as it is shown, with its unit.

    >>> from roofline.teach.worksheets import make, registry
    >>> right_answer(make(registry()["kv-cache-per-token"], 1))
    '128 KiB (131,072 B)'
    """
    answer = problem.answer
    return answer.choices[int(answer.value)] if answer.choices else shown(answer.value, answer.kind)


def wrong_answers(problem: Problem) -> list[tuple[str, str]]:
    """The usual mistakes: what they give, and what is said to them."""
    answer = problem.answer
    return [
        (answer.choices[int(mistake.value)] if answer.choices else shown(mistake.value, answer.kind), mistake.hint)
        for mistake in problem.mistakes
    ]


def tolerance(problem: Problem) -> str:
    """How near an answer has to be, in words; nothing of a choice."""
    answer = problem.answer
    if answer.choices:
        return ""
    return "the exact number" if answer.tolerance == 0 else f"within {answer.tolerance * 100:g} %"


def latex(step: Worked) -> str:
    """A formula in symbols, with numbers, and its value, in LaTeX."""
    from roofline.formulas.latex import number

    found = step.make()
    unit = "" if found.unit == "1" else rf"\ \text{{{found.unit}}}"
    parts = [found.latex, found.substituted_latex, number(found.value, as_latex=True) + unit]
    return " = ".join(parts)
