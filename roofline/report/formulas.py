"""Formulas of every operator of a step as an HTML fragment: in symbols, with numbers put in, value, source.

Readable without scripts and on paper. What operators share is written once: a legend of the symbols, the definitions of
intensity and time, a list of sources; and, if a page would grow too large, formulas that differ in the names of symbols alone.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from roofline import formatting
from roofline.errors import InputError
from roofline.formulas.latex import name, named
from roofline.formulas.mathml import mathml, spaced, symbol_mathml
from roofline.formulas.mathml import written as in_formula
from roofline.formulas.symbolic import described
from roofline.predict.explain import Explanation, explain_step
from roofline.predict.explain.explanation import DERIVED, derived, meaning, total, unit_of
from roofline.predict.request import ResolvedRequest
from roofline.report.cells import op_key
from roofline.report.controls import written
from roofline.report.html import escape
from roofline.report.page import LARGEST_FORMULAS

_PREFIXED = {"FLOP": "FLOP", "bytes": "B"}
"""Units of counts that are shown with an SI prefix too."""
_LARGE = 1e5
"""From here on."""
_LINK = re.compile(r"https://[\w./~%#?=&+-]*[\w/]|arXiv:\d{4}\.\d{4,5}", re.ASCII)


def formulas(request: ResolvedRequest) -> str:
    """The formulas of every operator of a request's steps, as an HTML fragment; a note with the reason if there are none.

    Each operator is a `details` element with the id `op-KEY`; KEY is the key of its point in the figures (`cells.op_key`).
    """
    try:
        explained = [Explained(phase, explanation) for phase, explanation in explain_step(request)]
    except InputError as refused:
        return f'<p class="note">{escape(str(refused))}</p>\n'
    for sharing in get_args(Sharing):
        html = listed(explained, models(explained, sharing))
        if len(html.encode(errors="replace")) <= LARGEST_FORMULAS:
            return html
    return listed(explained, models(explained, "names"))  # which is packed


def listed(operators: Sequence[Explained], written_at: Mapping[str, Explained]) -> str:
    """An HTML fragment: a legend, the formulas of each phase, sources.

    `written_at` names for the key of each operator the one whose formulas are written out for it, as `models` does. Of
    operators whose formulas are written elsewhere, every value that differs is listed.
    """
    linked = {model.key for key, model in written_at.items() if model.key != key}
    sources = _Sources()
    phases: dict[str, str] = {}
    for operator in operators:
        model = written_at[operator.key]
        is_linked = operator.key in linked
        inside = _own(operator, sources, is_linked=is_linked) if model is operator else _shared(operator, model)
        path, phase = escape(operator.explanation.subject), escape(operator.phase)
        phases[operator.phase] = phases.get(operator.phase, "") + (
            f'<details class="formula" id="op-{operator.key}">\n<summary>{path} <span class="note">{phase}</span></summary>\n'
            f"{inside}</details>\n"
        )
    note = (
        "Of one device, all layers of a kind together. Numbers are of the settings that the page was written with. "
        "Printed are those that are open."
    )
    body = "".join(
        f'<div class="formulas">\n<h3>{escape(phase.capitalize())}</h3>\n{html}</div>\n' for phase, html in phases.items()
    )
    return f'<p class="note">{note}</p>\n{_common(operators)}{body}{sources.html()}'


def _own(operator: Explained, sources: _Sources, *, is_linked: bool) -> str:
    """The formulas of an operator."""
    rows = "".join(map(_row, operator.explanation.parts))
    cited = dict.fromkeys(part.source for part in operator.explanation.parts if part.source)
    foot = f'<p class="note">Sources: {" ".join(map(sources.refer, cited))}</p>\n' if cited else ""
    # NB: a link to what is inside opens the details
    target = f' id="in-{operator.key}"' if is_linked else ""
    return _box("Formulas", f"<dl>\n{rows}</dl>", target) + foot


def _box(label: str, inside: str, attributes: str = "") -> str:
    """What is wide scrolls in a box of its own."""
    return f'<div class="wide" role="group" tabindex="0" aria-label="{label}"{attributes}>\n{inside}\n</div>\n'


def _row(part: Explanation) -> str:
    """One quantity: what it is and its symbol; then the formula, the numbers put in, and the value, a line each."""
    lines = [part.substituted_mathml] if part.subject in DERIVED else [part.mathml, part.substituted_mathml]
    if part.formula.isdigit():
        lines = []  # the value says it
    equal = "".join(map(_equal, dict.fromkeys(lines)))
    return (
        f"<dt>{escape(meaning(part.subject))} {mathml(total(part.subject))}\n<dd>{equal}<p{_data(part)}>= {_value(part)}</p>\n"
    )


def _shared(operator: Explained, model: Explained) -> str:
    """Where the formulas of an operator stand, which symbols take the place of others there, and the values that differ."""
    differences = [
        symbol_mathml(own).replace("</math>", f"<mo>=</mo><mn>{in_formula(value, operator.unit(own))}</mn></math>")
        + (f" instead of {symbol_mathml(other)}" if own != other else "")
        for own, value, other in operator.differences(model)
    ]
    title = escape(f"{model.explanation.subject}, {model.phase}")
    changed = ", with " + ", ".join(differences) if differences else ""
    rows = "".join(
        f"<dt>{escape(meaning(part.subject))}<dd{_data(part)}>{_value(part)}\n"
        for part, other in zip(operator.explanation.parts, model.explanation.parts, strict=True)
        if part.value != other.value
    )
    values = f"<dl>\n{rows}</dl>\n" if rows else ""
    return f'<p>As <a href="#in-{model.key}">{title}</a>{changed}.</p>\n{values}'


def _equal(math: str) -> str:
    return math.replace("<math>", "<math><mo>=</mo>", 1)


def _data(part: Explanation) -> str:
    return "" if part.value is None else f' data-value="{written(part.value)}"'


def _value(part: Explanation) -> str:
    if part.value is None:
        return "no limit"
    if part.unit == "s":
        return formatting.quantity(part.value, "s")
    about = (
        f" ≈ {formatting.quantity(part.value, _PREFIXED[part.unit])}" if part.unit in _PREFIXED and part.value >= _LARGE else ""
    )
    return f"{spaced(part.value)} {escape(part.unit)}{about}"


def _common(operators: Sequence[Explained]) -> str:
    """What all operators have in common: what their symbols stand for, and what follows from work and traffic."""
    subjects = {part.subject for operator in operators for part in operator.explanation.parts}
    rows = "".join(
        f"<dt>{escape(meaning(subject))} {mathml(total(subject))}\n<dd>{_equal(mathml(expr))}\n"
        for subject, expr in derived(subjects).items()
        if subject in subjects
    )
    boxes = _box("Symbols", _legend(operators)) + _box("Intensity and time", f"<dl>\n{rows}</dl>")
    head = '<details class="formula" id="symbols" open>\n<summary>Symbols, intensity and time</summary>\n'
    return f"{head}{boxes}</details>\n"


def _legend(operators: Sequence[Explained]) -> str:
    """Every symbol once, with the values that it has among operators."""
    values_of: dict[tuple[str, str], dict[float, None]] = {}
    for operator in operators:
        for symbol, (value, about) in operator.legend.items():
            values_of.setdefault((symbol, about), {})[value] = None
    rows = "".join(
        f'<tr><td>{symbol_mathml(symbol)}</td><td class="number">'
        + " or ".join(f'<span data-value="{written(value)}">{in_formula(value, unit_of(about))}</span>' for value in values)
        + f"</td><td>{escape(about)}</td></tr>\n"
        for (symbol, about), values in sorted(
            values_of.items(), key=lambda entry: (described(named(entry[0][0])).order, entry[0])
        )
    )
    heads = '<th scope="col">Symbol</th><th scope="col" class="number">Value</th><th scope="col">Meaning [unit]</th>'
    return f"<table>\n<caption>Symbols</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"


@dataclass
class _Sources:
    """Sources that are cited, numbered by first use."""

    numbers: dict[str, int] = field(default_factory=dict)

    def refer(self, source: str) -> str:
        """A link to a source in the list, which it joins if it is new, as an HTML fragment."""
        number = self.numbers.setdefault(source, len(self.numbers) + 1)
        return f'<a href="#source-{number}">[{number}]</a>'

    def html(self) -> str:
        """The list of sources as an HTML fragment; "" if nothing is cited."""
        entries = "".join(f'<li id="source-{number}">{_linked(text)}</li>\n' for text, number in self.numbers.items())
        return f'<h3>Sources of the formulas</h3>\n<ol class="sources">\n{entries}</ol>\n' if entries else ""


def _linked(text: str) -> str:
    """A source whose addresses, and numbers of arXiv, are links."""
    parts, end = [], 0
    for match in _LINK.finditer(text):
        address = match[0].replace("arXiv:", "https://arxiv.org/abs/")
        parts += [escape(text[end : match.start()]), f'<a href="{escape(address)}" rel="noreferrer">{escape(match[0])}</a>']
        end = match.end()
    return "".join((*parts, escape(text[end:])))


# Which operators can share their formulas: those that differ in the names of symbols alone, or in S_q = 1 too

Sharing = Literal["none", "names", "lengths"]
"""What operators that share their formulas may differ in: nothing is shared; symbols; symbols, and S_q = 1."""
NEW = "S_q"
_TOKEN = re.compile(r"[^\s·()⌈⌉⌊⌋,^/√]+")
_FACTOR = re.compile(rf"(?<!\w){NEW}·|·{NEW}(?!\w)")


@dataclass(frozen=True)
class Explained:
    """An operator of a phase with its explanation."""

    phase: str
    explanation: Explanation

    @cached_property
    def key(self) -> str:
        """Key of the operator, from which the ids of its elements are made."""
        return op_key(self.phase, self.explanation.subject)

    @cached_property
    def legend(self) -> dict[str, tuple[float, str]]:
        """Value (in the unit that the meaning names) and meaning of every symbol except those that are explained here."""
        own = {name(total(part.subject)) for part in self.explanation.parts}
        return {symbol: (value, about) for symbol, value, about in self.explanation.legend if symbol not in own}

    def unit(self, symbol: str) -> str:
        """The unit of a symbol of the legend; "1" for another."""
        return unit_of(self.legend[symbol][1]) if symbol in self.legend else "1"

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the legend except S_q, in the order in which the formulas use them."""
        tokens = (token for part in self.explanation.parts for token in _TOKEN.findall(part.formula))
        return tuple(dict.fromkeys(token for token in tokens if token in self.legend and token != NEW))

    def shape(self, sharing: Sharing) -> Hashable:
        """A key that is equal for operators that can share their formulas."""
        if sharing == "none":
            return self.key
        places = {symbol: f"{self.legend[symbol][1].rpartition('[')[2]}{place}" for place, symbol in enumerate(self.symbols)}
        return tuple(
            (part.subject, part.source, _TOKEN.sub(lambda token: places.get(token[0], token[0]), formula))
            for part, formula in zip(self.explanation.parts, self._formulas(sharing), strict=True)
        )

    def _formulas(self, sharing: Sharing) -> list[str]:
        written = [part.formula for part in self.explanation.parts]
        # NB: where S_q is nothing but a factor, a formula without it is that of S_q = 1
        short = [_FACTOR.sub("", formula) for formula in written]
        return written if sharing == "names" or any(NEW in _TOKEN.findall(formula) for formula in short) else short

    @cached_property
    def _weight(self) -> tuple[bool, float]:
        """The general case stands for the special one, and what takes long for what does not."""
        times = (part.value or 0 for part in self.explanation.parts if part.subject == "time_bound")
        return NEW in self.legend, max(times, default=0)

    def differences(self, model: Explained) -> list[tuple[str, float, str]]:
        """How to read the formulas of `model` for this operator: symbol, its value, and the symbol of `model` it replaces."""
        changed = [(NEW, 1.0, NEW)] if NEW in model.legend and NEW not in self.legend else []
        for own, other in zip(self.symbols, model.symbols, strict=True):
            value = self.legend[own][0]
            if own != other or value != model.legend[other][0]:
                changed.append((own, value, other))
        return changed


def models(operators: Sequence[Explained], sharing: Sharing) -> dict[str, Explained]:
    """For the key of each operator, the operator whose formulas are written out for it: itself, or one that shares them."""
    chosen: dict[Hashable, Explained] = {}
    shapes = {operator.key: operator.shape(sharing) for operator in operators}
    for operator in operators:
        known = chosen.get(shapes[operator.key])
        if known is None or operator._weight > known._weight:  # noqa: SLF001 - of the same class
            chosen[shapes[operator.key]] = operator
    return {key: chosen[shape] for key, shape in shapes.items()}
