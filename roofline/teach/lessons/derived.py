"""A formula of the toolkit: in symbols, with numbers put in, its value; what the symbols mean, and where it is from."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from roofline.blocks.model import Model
from roofline.errors import UnknownNameError
from roofline.formulas.mathml import spaced, symbol_mathml
from roofline.predict.explain import Explanation, explain
from roofline.predict.explain.totals import DERIVED, meaning
from roofline.report.html import escape
from roofline.specs.hardware import Hardware
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.numbers import amount
from roofline.teach.lessons.prose import checked, inline_of

TITLES = {
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
    """An explanation, shown."""

    def __init__(self, found: Explanation, title: str, *, legend: bool) -> None:
        self.found, self.title, self.legend = found, checked(title), legend

    def html(self, ids: Ids) -> str:
        """Three lines of MathML: symbols, numbers, value. What does not fit scrolls."""
        name, found = ids.fresh("formula"), self.found
        lines = [found.substituted_mathml] if found.subject in DERIVED else [found.mathml, found.substituted_mathml]
        if found.formula.isdigit():
            lines = []
        equal = "".join(f"<p>{equation(line)}</p>\n" for line in dict.fromkeys(lines))
        value = "no limit" if found.value is None else escape(amount(found.value, found.unit))
        data = "" if found.value is None else f' data-value="{found.value!r}"'
        title = f'<p class="title" id="{name}">{inline_of(self.title)}</p>\n' if self.title else ""
        named = f'aria-labelledby="{name}"' if self.title else 'aria-label="Formula"'
        return (
            f'<div class="equation">\n{title}<div class="lines scroll" role="group" tabindex="0" {named}>\n{equal}'
            f'<p class="value"{data}>= {value}</p>\n</div>\n{self._legend()}</div>\n'
        )

    def _legend(self) -> str:
        if not self.legend or not self.found.legend:
            return ""
        rows = "".join(
            f'<tr><td>{symbol_mathml(shown)}</td><td class="number">{spaced(value)}</td><td>{escape(about)}</td></tr>\n'
            for shown, value, about in self.found.legend
        )
        heads = '<th scope="col">Symbol</th><th scope="col" class="number">Value</th><th scope="col">Meaning [unit]</th>'
        source = f'<p class="note">Source: {escape(self.found.source)}</p>\n' if self.found.source else ""
        return (
            "<details>\n<summary>What the symbols mean</summary>\n"
            '<div class="scroll" role="group" tabindex="0" aria-label="Symbols">\n'
            f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n{source}</details>\n"
        )

    def markdown(self) -> str:
        """LaTeX between double dollars, the symbols in details."""
        found = self.found
        value = "no limit" if found.value is None else amount(found.value, found.unit)
        lines = [rf"\begin{{aligned}} &{found.latex} \\ = \; &{found.substituted_latex} \end{{aligned}}"]
        rows = "\n".join(f"| `{shown}` | {spaced(value)} | {about} |" for shown, value, about in found.legend)
        legend = (
            f"\n\n<details><summary>What the symbols mean</summary>\n\n| symbol | value | meaning |\n|---|---:|---|\n{rows}\n\n"
            f"Source: {found.source}\n\n</details>"
            if self.legend and rows
            else ""
        )
        title = f"**{self.title}**\n\n" if self.title else ""
        return f"{title}$${lines[0]}$$\n\n= **{value}**{legend}"

    def plain(self) -> str:
        """Three lines of text."""
        found = self.found
        value = "no limit" if found.value is None else amount(found.value, found.unit)
        return f"{self.title}\n  = {found.formula}\n  = {found.substituted}\n  = {value}"


def equation(math: str) -> str:
    """A formula after a sign of equality, a piece of MathML for each term of its sum, so that a line can end between them.

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
    """A formula as `roofline.explain` gives it, which takes subject, model, hardware and options; or one that is explained.

    `part` picks one of its parts: a block of `parameters`, `matrix_flops` or `weight_bytes` of an operator.

    Raises:
        UnknownNameError: it has no such part.
    """
    if isinstance(subject, Explanation):
        found = subject
    else:
        if model is None:
            raise UnknownNameError("model", "none", ())
        found = explain(model, subject, hardware, **options)
    whole = found.subject
    if part:
        parts = {entry.subject: entry for entry in found.parts}
        if part not in parts:
            raise UnknownNameError(f"part of {whole}", part, parts)
        found = parts[part]
    return Formula(found, title or title_of(whole, part), legend=legend)


def title_of(whole: str, part: str = "") -> str:
    """What a formula is called: a quantity, or a part of one or of an operator."""
    if not part:
        return TITLES.get(whole, whole)
    try:
        return f"{meaning(part)}: `{whole}`"
    except KeyError:
        return f"{TITLES.get(whole, whole)}: `{part}`"
