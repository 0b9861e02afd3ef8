"""An explanation as people read it: text of one screen, LaTeX, and HTML for notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from html import escape
from typing import Literal

from roofline import formatting
from roofline.formulas.latex import number, with_units
from roofline.formulas.mathml import symbol_mathml, written
from roofline.predict.explain.explanation import Explanation, symbol_of, unit_of
from roofline.specs.source import Assumption

WIDTH, LINES = 100, 30
"""Columns, and lines that a formula takes on a terminal unless all of it is wanted."""
_MOST = 3
"""Lines of one formula."""
_NOTE = 2
"""Lines of one assumption."""
_BYTES = ("memory", "reserve", "allocated")
_COUNTS = {"bytes": "B", "FLOP": "FLOP"}
_LARGE = 1e5
_MIN_LEGEND = 6
"""Lines of symbols that are listed before formulas are cut."""
Density = Literal["full", "compact", "brief"]
_NOTED = ("fit", "engine_steps", "allocated", "experts", "links", "efficiency", "basis", "step")
"""Assumptions that are listed whatever their origin: those of the formula itself."""


def amount(value: float | None, unit: str, *, estimated: bool = False) -> str:
    """Return a value with its unit as people write it: counts in full, estimates in the digits that they deserve.

    >>> amount(131072, "bytes"), amount(0.00452403, "s"), amount(0.0062825, "s", estimated=True), amount(None, "tokens")
    ('131,072 bytes (131.1 kB)', '4.52 ms', '~6.3 ms', 'no limit')
    >>> amount(295.343, "sequences"), amount(3.4567, "USD"), amount(0.25, "1"), amount(7.8e11, "bytes/s")
    ('295.3 sequences', '3.46 USD', '0.25', '780 GB/s')
    """
    if value is None:
        return "no limit"
    if unit == "s":
        return f"~{formatting.about(value)}" if estimated else formatting.seconds(value)
    if unit.endswith("/s") and unit.removesuffix("/s") in _COUNTS:
        return formatting.in_formula(value, unit)
    if len(unit) == 3 and unit.isupper():
        return f"{formatting.money(value)} {unit}"
    whole = float(value).is_integer()
    text = f"{int(value):,}" if whole else formatting.number(value)
    if unit in _COUNTS and abs(value) >= _LARGE:
        short = formatting.quantity(value, _COUNTS[unit])
        return f"{text} {unit} ({short})" if whole else short
    return text if unit in ("1", "") else f"{text} {unit}"


def text(result: Explanation, *, everything: bool = False) -> str:
    """Return an explanation as lines of text.

    Args:
        result: the explanation.
        everything: every line of every formula, symbol and assumption; otherwise what fits on a screen.
    """
    legend = _legend(result)
    foot = _wrapped(f"source: {result.source}", "  ") if result.source else []
    foot += _notes(result.assumptions, everything=everything)
    lines: list[str] = []
    num_lines = LINES - len(foot) - min(len(legend), _MIN_LEGEND) - 1
    for density in ("full", "compact", "brief"):
        blocks = _blocks(result, density, everything=everything)
        lines = [line for block in blocks for line in block]
        parts = len(blocks) + bool(legend)
        if density == "full" and (everything or len(lines) + len(legend) + len(foot) + parts + 1 <= LINES):
            spaced = [line for block in blocks for line in (*block, "")]
            return "\n".join([*spaced, *(["where", *legend, ""] if legend else []), *foot]).rstrip()
        if len(lines) <= num_lines:
            break
    lines = lines[:num_lines]
    left = LINES - len(lines) - len(foot) - 1
    if len(legend) > left:
        cut = max(left - 1, 0)
        legend = [*legend[:cut], f"  {len(legend) - cut} more symbols with -v"]
    return "\n".join([*lines, *(["where", *legend] if legend else []), *foot])


def _blocks(result: Explanation, density: Density, *, everything: bool) -> list[list[str]]:
    """The main formula, then those of its parts: three lines each, or two, or of the parts the values alone."""
    head = f"{result.subject}: {result.about}" if result.about else result.subject
    main = [] if _is_part(result) else _equations(result, "  ", everything=everything)
    blocks = [[*_wrapped(head, "  "), *main]]
    symbols = {(value, unit_of(about)): name for name, value, about in result.legend}
    for part in result.parts:
        timed = part.unit == "s" and " " in part.subject
        name = part.subject if timed or "/" in part.subject else part.subject.replace("_", " ")
        named = None if part.value is None else _own_symbol(part, result) or symbols.get((part.value, part.unit))
        title = f"  {named}, {name}" if named and named != name else f"  {name}"
        short = f"{title} = {part.formula}"
        if density == "brief":
            blocks.append([_cut(f"{title} = {_valued(part)}")])
        elif density == "compact" and len(short) <= WIDTH:
            below = f"    = {part.substituted} = {_valued(part)}"
            blocks.append([short, *(_wrapped(below, "      ") if len(below) <= _MOST * WIDTH else [f"    = {_valued(part)}"])])
        else:
            about = f": {part.about.rpartition('; ')[2]}" if part.about else ""
            blocks.append([_cut(title + about), *_equations(part, "    ", everything=everything)])
    return blocks


def _own_symbol(part: Explanation, whole: Explanation) -> str | None:
    """The symbol of a field of the cost, or of what is derived from the fields, if the whole speaks of it: two of them may
    have one value."""
    name = symbol_of(part.subject)
    return name if name in [entry[0] for entry in whole.legend] else None


def _equations(part: Explanation, indent: str, *, everything: bool) -> list[str]:
    """A formula in symbols, with numbers, and its value, each after an equals sign."""
    lines: list[str] = []
    for written_out in dict.fromkeys((part.formula, part.substituted)):
        if written_out in (str(part.value), ""):
            continue
        formula = _wrapped(f"= {written_out}", f"{indent}  ", indent)
        if len(formula) > _MOST and not everything:
            formula = [*formula[: _MOST - 1], f"{formula[_MOST - 1][: WIDTH - 12].rstrip()} ... (-v)"]
        lines += formula
    return [*lines, f"{indent}= {_valued(part)}"]


def _valued(part: Explanation) -> str:
    if part.low is None or part.high is None or part.low == part.high:
        return amount(part.value, part.unit, estimated=part.low is not None)
    return f"{amount(part.value, part.unit, estimated=True)} (80 % interval {formatting.about_range(part.low, part.high)})"


def _legend(result: Explanation) -> list[str]:
    """A line for each symbol: what it stands for, and what it is."""
    explained = {(part.value, part.unit) for part in result.parts}
    rows = []
    for name, value, about in result.legend:
        unit = unit_of(about)
        if (value, unit) in explained:  # the part says it
            continue
        number_text = formatting.in_formula(value, unit) or (
            f"{int(value):,}" if float(value).is_integer() else formatting.number(value)
        )
        meaning = about.removesuffix(f" [{unit}]")
        rows.append((name, number_text, meaning))
    if not rows:
        return []
    wide, right = max(len(name) for name, _, _ in rows), max(len(value) for _, value, _ in rows)
    return [_cut(f"  {name:<{wide}}  {value:>{right}}  {meaning}") for name, value, meaning in rows]


def _notes(notes: Iterable[Assumption], *, everything: bool) -> list[str]:
    """What the number rests on besides the source: of defaults only what is of the formula itself."""
    selected = [
        note for note in notes
        if everything or note.origin in ("assumed", "transferred") or note.name.split(".")[0] in _NOTED
    ]  # fmt: skip
    lines: list[str] = []
    for note in selected:
        name = note.name if "." in note.name else note.name.replace("_", " ")
        line = f"{note.origin}: {name} = " if note.origin in ("assumed", "transferred") else f"{name}: "
        line += f"{_plain(note)}{f' ({note.why})' if note.why else ''}"
        wrapped = _wrapped(line, "  ")
        lines += (
            wrapped
            if everything or len(wrapped) <= _NOTE
            else [*wrapped[: _NOTE - 1], f"{wrapped[_NOTE - 1][: WIDTH - 4]} ..."]
        )
    return lines


def _plain(note: Assumption) -> str:
    """The value of an assumption for people."""
    value = note.value
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, float | int):
        return str(value)
    if note.name in _BYTES:
        return formatting.quantity(value, "B")
    return f"{int(value):,}" if float(value).is_integer() else formatting.number(value)


def _wrapped(line: str, indent: str, first: str = "") -> list[str]:
    """A line in lines of at most `WIDTH` columns; a long word is broken."""
    return textwrap.wrap(line, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False) or [first]


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3].rstrip()}..."


def equation(result: Explanation) -> str:
    """Return an explanation as one equation in LaTeX: its name, the formula, the numbers put in, the value."""
    name = result.subject.replace("_", r"\_")
    value = "" if result.value is None else f" = {_latex_value(result.value, result.unit)}"
    return rf"\text{{{name}}} = {result.latex} = {result.substituted_latex}{value}"


def _latex_value(value: float, unit: str) -> str:
    """A value in LaTeX: counts in full, times and rates with a prefix, others to four digits."""
    whole = float(value).is_integer()
    if not whole and (amount_text := formatting.in_formula(value, unit)):
        return with_units(amount_text)
    number_text = f"{int(value):,}".replace(",", "{,}") if whole else number(float(f"{value:.4g}"), as_latex=True)
    return number_text if unit in ("", "1") else rf"{number_text}\,\text{{{unit}}}"


def listed(result: Explanation) -> list[Explanation]:
    """Return the main formula, then those of its parts. An operator's main formula is one of its parts already."""
    if _is_part(result):
        return list(result.parts)
    return [result, *result.parts]


def _is_part(result: Explanation) -> bool:
    return any((part.formula, part.value) == (result.formula, result.value) for part in result.parts)


def html(result: Explanation) -> str:
    """Return an explanation as an HTML fragment: the formulas in MathML, values, and a table of the symbols."""
    rows = "".join(
        f"<p><strong>{escape(part.subject)}</strong>{f': {escape(part.about)}' if part.about else ''}</p>\n"
        f"{_line(part.mathml)}{_line(part.substituted_mathml)}<div {_INDENT}>= {escape(_valued(part))}</div>\n"
        for part in listed(result)
    )
    legend = "".join(map(_html_row, result.legend))
    symbols = f"<details><summary>Symbols</summary>\n<table>\n{legend}</table>\n</details>\n" if legend else ""
    source = f"<p><small>Source: {escape(result.source)}</small></p>\n" if result.source else ""
    return f"<div>\n{rows}{symbols}{source}</div>\n"


def _html_row(entry: tuple[str, float, str]) -> str:
    """A symbol with its value and its meaning, as a row of a table."""
    name, value, about = entry
    unit = unit_of(about)
    right, left = 'style="text-align: right; padding: 0 1em"', 'style="text-align: left"'
    number_text, meaning = escape(written(value, unit)), escape(about.removesuffix(f" [{unit}]"))
    return f"<tr><td>{symbol_mathml(name)}</td><td {right}>{number_text}</td><td {left}>{meaning}</td></tr>\n"


_INDENT = 'style="margin: 0.4em 1.5em"'


def _line(math: str) -> str:
    """A formula after an equals sign, in a line of its own."""
    begun = math.replace("<math>", '<math displaystyle="true"><mo>=</mo>', 1)
    return f"<div {_INDENT}>{begun}</div>\n"
