"""Formulas of the toolkit as items of a lesson: in symbols, with numbers, their value, and the meaning of the symbols."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from roofline.blocks.model import Model
from roofline.errors import UnknownNameError
from roofline.formulas.mathml import symbol_mathml, written
from roofline.predict.explain import Explanation, explain
from roofline.predict.explain.explanation import DERIVED, meaning, unit_of
from roofline.report.html import escape
from roofline.specs.hardware import Hardware
from roofline.teach.lessons.items import Item
from roofline.teach.markdown import Ids, checked, inline_of
from roofline.teach.quantities import amount

_TITLES = {
    "parameters": "parameters",
    "kv_bytes_per_token": "KV cache of one more token",
    "kv_bytes_per_sequence": "KV cache of one sequence",
    "arithmetic_intensity": "arithmetic intensity",
    "ridge_point": "ridge point",
    "critical_batch": "critical batch of the linear layers",
    "decode_floor": "shortest decode step",
    "max_batch": "largest batch",
    "max_context": "longest context",
    "break_even_link": "break-even link",
}


class Formula(Item):
    """A formula of the toolkit: in symbols, with numbers, its value, and the meaning of the symbols."""

    def __init__(self, explanation: Explanation, title: str, *, legend: bool) -> None:
        self.explanation, self.title, self.legend = explanation, checked(title), legend

    @property
    def lines(self) -> list[str]:
        """MathML of what the value is equal to: in symbols, then with numbers; of a plain number nothing."""
        explained = self.explanation
        if explained.formula.isdigit():
            return []
        lines = (
            [explained.substituted_mathml] if explained.subject in DERIVED else [explained.mathml, explained.substituted_mathml]
        )
        return list(dict.fromkeys(lines))

    @property
    def value(self) -> str:
        """The value with its unit."""
        explained = self.explanation
        return "no limit" if explained.value is None else amount(explained.value, explained.unit)

    def html(self, ids: Ids) -> str:
        """Three lines of MathML: symbols, numbers, value. Long ones scroll."""
        name = ids.fresh("formula")
        equal = "".join(f"<p>{equation(line)}</p>\n" for line in self.lines)
        data = "" if self.explanation.value is None else f' data-value="{self.explanation.value!r}"'
        title = f'<p class="title" id="{name}">{inline_of(self.title)}</p>\n' if self.title else ""
        named = f'aria-labelledby="{name}"' if self.title else 'aria-label="Formula"'
        return (
            f'<div class="equation">\n{title}<div class="lines scroll" role="group" tabindex="0" {named}>\n{equal}'
            f'<p class="value"{data}>= {escape(self.value)}</p>\n</div>\n{self._legend()}</div>\n'
        )

    def _legend(self) -> str:
        if not self.legend or not self.explanation.legend:
            return ""
        return (
            "<details>\n<summary>What the symbols mean</summary>\n"
            f'<div class="scroll" role="group" tabindex="0" aria-label="Symbols">\n{self.symbols()}</div>\n'
            f"{self.source()}</details>\n"
        )

    def symbols(self) -> str:
        """The table of what the symbols mean."""
        rows = "".join(
            f'<tr><td>{symbol_mathml(name)}</td><td class="number">{written(value, unit_of(about))}</td>'
            f"<td>{escape(about)}</td></tr>\n"
            for name, value, about in self.explanation.legend
        )
        heads = '<th scope="col">Symbol</th><th scope="col" class="number">Value</th><th scope="col">Meaning [unit]</th>'
        return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"

    def source(self) -> str:
        """A line that says where the formula is from; "" if it is not known."""
        return f'<p class="note">Source: {escape(self.explanation.source)}</p>\n' if self.explanation.source else ""

    def markdown(self) -> str:
        """LaTeX between double dollars, the symbols in details."""
        explained = self.explanation
        lines = [rf"\begin{{aligned}} &{explained.latex} \\ = \; &{explained.substituted_latex} \end{{aligned}}"]
        rows = "\n".join(
            f"| `{name}` | {written(value, unit_of(about))} | {about} |" for name, value, about in explained.legend
        )
        legend = (
            f"\n\n<details><summary>What the symbols mean</summary>\n\n| symbol | value | meaning |\n|---|---:|---|\n{rows}\n\n"
            f"Source: {explained.source}\n\n</details>"
            if self.legend and rows
            else ""
        )
        title = f"**{self.title}**\n\n" if self.title else ""
        return f"{title}$${lines[0]}$$\n\n= **{self.value}**{legend}"

    def plain(self) -> str:
        """Three lines of text."""
        explained = self.explanation
        return f"{self.title}\n  = {explained.formula}\n  = {explained.substituted}\n  = {self.value}"


def equation(math: str) -> str:
    """Return a formula after an equals sign, with MathML of its own for each term of a sum, so that lines can break there.

    >>> equation("<math><mi>a</mi><mo>+</mo><mi>b</mi></math>")
    '<math><mo form="prefix">=</mo><mi>a</mi></math> <math><mo form="prefix">+</mo><mi>b</mi></math>'
    """
    root = ET.fromstring(math)  # noqa: S314 - made by our own `mathml`
    pieces: list[str] = []
    sign, inside = "=", ""
    for child in root:
        if child.tag == "mo" and child.text in ("+", "\u2212") and inside:
            pieces.append(_piece(sign, inside))
            sign, inside = child.text, ""
        else:
            inside += ET.tostring(child, encoding="unicode", short_empty_elements=False)
    return " ".join([*pieces, _piece(sign, inside)])


def _piece(sign: str, inside: str) -> str:
    return f'<math><mo form="prefix">{sign}</mo>{inside}</math>'


def formula(
    subject: str | Explanation,
    model: str | Model | None = None,
    hardware: str | Hardware | None = None,
    *,
    part: str = "",
    title: str = "",
    legend: bool = True,
    **options: Any,
) -> Formula:
    """Return a formula as an item of a lesson.

    Args:
        subject: what `roofline.explain` explains, for this model, hardware and options; or an explanation.
        model: its model, unless an explanation is given.
        hardware: its hardware, if the formula needs one.
        part: one of its parts: a block of `parameters`, or `matrix_flops`, `weight_bytes`, ... of an operator.
        title: a caption instead of the usual one.
        legend: whether to list what the symbols mean.
        **options: those of `roofline.explain`.

    Raises:
        UnknownNameError: there is no such quantity, part, model or hardware, or no model is named.
        InputError: the options contradict each other or the model.
    """
    if isinstance(subject, Explanation):
        explanation = subject
    else:
        if model is None:
            raise UnknownNameError("model", "none", ())
        explanation = explain(model, subject, hardware, **options)
    name = explanation.subject
    if part:
        parts = {entry.subject: entry for entry in explanation.parts}
        if part not in parts:
            raise UnknownNameError(f"part of {name}", part, parts)
        explanation = parts[part]
    return Formula(explanation, title or title_of(name, part), legend=legend)


def title_of(name: str, part: str = "") -> str:
    """Return the caption of a formula: a quantity, or a part of one or of an operator."""
    if not part:
        return _TITLES.get(name, name)
    try:
        return f"{meaning(part)}: `{name}`"
    except KeyError:
        return f"{_TITLES.get(name, name)}: `{part}`"
