"""`roofline analyze`: one model on one hardware at one workload, as a page on a terminal, plain text in a pipe, or Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.options import HardwareOption, ModelArgument, Options, takes
from roofline.cli.output import Output, Result, as_markdown, write_lines
from roofline.cli.tables import drawn, is_terminal, markdown_document, markdown_tables, min_width, plain, print_table
from roofline.predict.options import ALL
from roofline.text import Table, clean, markdown_cell

if TYPE_CHECKING:
    from roofline.predict.result import Analysis, Phase

_Formulas = list[dict[str, Any]]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="analyze")(takes(ALL)(analyze))


def analyze(
    model: ModelArgument,
    hardware: HardwareOption,
    options: Options,
    explain: Annotated[bool, typer.Option("--explain", help="Show the formula of each operator.")] = False,
    *,
    out: Output,
) -> int:
    """What a model costs on hardware: memory, time bounds operator by operator, limits, and why.

    Exit code 1 when it does not fit. Example: roofline analyze llama-3.1-8b --hardware a100-sxm-80gb --batch 32 --context 4k
    """  # fmt: skip
    from roofline.predict.analyze import answer
    from roofline.predict.result import operator_rows

    request, result = answer(model, hardware, **options)
    formulas: _Formulas = []
    if explain:
        from roofline.cli.commands.explain import operator_formulas

        formulas = operator_formulas(request)
    document = {**result.to_dict(), **({"formulas": formulas} if explain else {})}
    formats = {".html": result.to_html, ".md": lambda: _markdown(result)}
    out.emit(Result(document, lambda: operator_rows(result), lambda: _show(result, formulas), formats))
    if result.memory.fits or request.ignore_capacity:
        return 0
    from roofline.report.summary import verdict

    out.verdict(verdict(result))
    return 1


def _show(result: Analysis, formulas: _Formulas) -> None:
    if is_terminal():
        _terminal(result, formulas)
        return
    from roofline.report import summary

    lines = [summary.headline(result), summary.subtitle(result), "", *_sentences(result), ""]
    lines.append(f"Memory: {summary.memory_note(result)}")
    lines += [
        f"  {name:<12}{summary.gib(size):>10} GiB  {remark}".rstrip() for name, size, remark in summary.memory_rows(result)
    ]
    for table in [*_tables(result), summary.assumptions_table(result)]:
        lines += ["", plain(table)]
    write_lines([*lines, *_formula_lines(formulas)])


def _tables(result: Analysis) -> list[Table]:
    from roofline.report import summary

    return [*(summary.phase_table(result, phase) for phase in result.phases), *_limits(result)]


def _limits(result: Analysis) -> Iterator[Table]:
    """Rounds of speculative decoding, if it is used, and the limits of the batch."""
    from roofline.report import summary

    if result.speculative is not None:
        yield summary.speculative_table(result.speculative)
    yield summary.limits_table(result)


def _sentences(result: Analysis) -> list[str]:
    from roofline.report import summary

    rounds = [] if result.speculative is None else [summary.speculative_sentence(result.speculative)]
    return [*summary.sentences(result), *rounds]


def _formula_lines(formulas: _Formulas) -> list[str]:
    lines = ["", "Formulas"] if formulas else []
    for entry in formulas:
        lines.append(f"  {entry['path']}")
        lines += [f"    {part['name']} = {part['formula']} = {part['substituted']}" for part in entry["parts"]]
    return lines


def _markdown(result: Analysis) -> str:
    from roofline.report import summary

    memory = [{"part": n, "GiB": f"{summary.gib(size)}", "": remark} for n, size, remark in summary.memory_rows(result)]
    return markdown_document([
        f"# {markdown_cell(summary.headline(result))}",
        markdown_cell(summary.subtitle(result)),
        *map(markdown_cell, _sentences(result)),
        *("## Memory", summary.memory_note(result), as_markdown(memory)),
        *markdown_tables([*_tables(result), summary.assumptions_table(result)], note=str),
    ])  # fmt: skip


_MARK_WIDTH = 2  # of the marks before the first cell
_DISPENSABLE = ("share", "FLOP", "bytes", "x", "link")  # columns that a narrow terminal does without, first to last


def _terminal(result: Analysis, formulas: _Formulas) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from roofline.predict.assumptions import MODEL
    from roofline.report import summary

    console = Console(highlight=False, soft_wrap=False)

    def line(text: str, style: str = "", indent: int = 0) -> None:
        console.print(Padding(Text(clean(text), style=style), (0, 0, 0, indent)))

    line(summary.headline(result), "bold")
    line(summary.subtitle(result), "dim")
    console.print()
    for position, sentence in enumerate(_sentences(result)):
        line(sentence, ("green" if result.memory.fits else "red") if position == 0 else "")
    console.print()
    line(f"Memory  {summary.memory_note(result)}", "bold")
    for name, size, remark in summary.memory_rows(result):
        width = max(round(abs(size) / max(result.memory.budget_bytes, 1) * 40), 1 if size else 0)
        style = {"weights": "bright_blue", "KV cache": "cyan", "free": "dim", "missing": "red"}.get(name, "magenta")
        bar = ("░" if name == "free" else "█") * min(width, 60) + ("…" if width > 60 else "")
        console.print(
            Text.assemble(f"  {name:<12}{summary.gib(size):>9} GiB  ", (bar, style), f"  {clean(remark)}"), soft_wrap=True
        )
    plot, marks = _roofline_plot(result, min(console.width, 100))
    if plot:
        console.print()
        line("Roofline  the operators that take longest, marked in the tables: A prefill, a decode", "bold")
        for row in plot:
            console.print(Text(row), soft_wrap=True)
    for phase, table in zip(result.phases, _tables(result), strict=False):
        console.print()
        line(table.title, "bold")
        line(table.note, "dim")
        console.print(drawn(_narrowed(table, console.width - _MARK_WIDTH), marks.get(phase.name)))
    for table in _limits(result):
        line(table.title, "bold")
        line(table.note, "dim")
        console.print(drawn(_transposed(table, console.width)) if table.rows else "")
    table = summary.assumptions_table(result)
    rows = tuple(row for row in table.rows if row[2] != "default" or row[0].startswith(MODEL))
    if rows:
        print_table(replace(table, rows=rows))
    line(f"{len(result.assumptions) - len(rows)} defaults are listed with --json, with -o FILE.md and in a pipe.", "dim")
    for text in _formula_lines(formulas):
        line(text)


def _narrowed(table: Table, width: int) -> Table:
    """A table with as many columns as fit on a terminal: half a number would be a wrong one."""
    for name in _DISPENSABLE:
        if min_width(table) <= width or name not in table.columns:
            continue
        at = table.columns.index(name)
        table = replace(
            table,
            columns=(*table.columns[:at], *table.columns[at + 1 :]),
            right=(*table.right[:at], *table.right[at + 1 :]),
            rows=tuple((*row[:at], *row[at + 1 :]) for row in table.rows),
        )
    return table


def _transposed(table: Table, width: int) -> Table:
    """A two-column table lying down, if it is not wider than the terminal then; any other unchanged."""
    if len(table.columns) != 2:
        return table
    rows = tuple(zip(*table.rows, strict=True))
    needed = sum(max(len(cell) for cell in column) + 3 for column in table.rows) + max(map(len, table.columns))
    if needed > width:
        return table
    columns = (table.columns[0], *rows[0])
    return Table("", "", columns, (False, *([True] * len(rows[0]))), ((table.columns[1], *rows[1]),))


_PLOT_HEIGHT = 14
_MARKED = 5  # operators of each phase, those that take longest


def _roofline_plot(result: Analysis, width: int) -> tuple[list[str], dict[str, dict[str, str]]]:
    """A roofline in characters: FLOP/s that an operator can reach against its FLOP per byte, both in powers of ten.

    Args:
        result: of the analysis.
        width: of the terminal, in columns.

    Returns:
        Lines, and the mark of each operator that is in the plot, by phase and path: upper case prefill (or mixed), lower case
        decode. Both are empty where the terminal is too narrow.
    """
    peak = result.hardware["peak_flops"].get(result.deployment["activation_dtype"])
    bandwidth, ridge = result.hardware["bandwidth"], result.hardware["ridge_point"]
    marks = {phase.name: _marks(phase) for phase in result.phases}
    dots = [
        (op.cost.flops / op.cost.bytes, op.cost.flops / op.times.bound, marks[phase.name][op.path])
        for phase in result.phases
        for op in phase.operators
        if op.path in marks[phase.name]
    ]
    columns = width - 14
    if not dots or peak is None or columns < 40:
        return [], {}
    left = math.floor(math.log10(min(0.1, *(x for x, _, _ in dots))))
    right = math.ceil(math.log10(max(10 * ridge, *(x for x, _, _ in dots))))
    top = math.ceil(math.log10(max(peak, *(y for _, y, _ in dots))) * 2) / 2
    bottom = min(math.log10(bandwidth) + left, *(math.log10(y) for _, y, _ in dots))

    def column(intensity: float) -> int:
        return min(max(round((math.log10(intensity) - left) / (right - left) * (columns - 1)), 0), columns - 1)

    def row(rate: float) -> int:
        return min(max(round((top - math.log10(rate)) / (top - bottom) * (_PLOT_HEIGHT - 1)), 0), _PLOT_HEIGHT - 1)

    grid = [[" "] * columns for _ in range(_PLOT_HEIGHT)]
    for position in range(columns):
        intensity = 10 ** (left + position / (columns - 1) * (right - left))
        ceiling = min(peak, bandwidth * intensity)
        grid[row(ceiling)][position] = "─" if ceiling == peak else "╱"
    for intensity, rate, mark in dots:
        grid[row(rate)][column(intensity)] = mark
    lines = []
    for index, cells in enumerate(grid):
        rate = 10 ** (top - index / (_PLOT_HEIGHT - 1) * (top - bottom))
        label = f"{_power(rate)}FLOP/s" if index % 3 == 0 else ""
        lines.append(f"{label:>12} │{''.join(cells)}")
    ticks = [" "] * (columns + 8)
    for exponent in range(left, right + 1):
        text = f"{10**exponent:g}"
        at = column(10**exponent)
        ticks[at : at + len(text)] = text
    lines.append(f"{'':>12} └{'─' * columns}")
    lines.append(f"{'FLOP/byte':>12}  {''.join(ticks)}".rstrip())
    return lines, marks


def _marks(phase: Phase) -> dict[str, str]:
    counted = [op for op in phase.operators if op.cost.flops and op.cost.bytes]
    chosen = sorted(counted, key=lambda op: -op.times.bound)[:_MARKED]
    first = "a" if phase.name == "decode" else "A"
    return {op.path: chr(ord(first) + index) for index, op in enumerate(chosen)}


def _power(value: float) -> str:
    prefix, scale = next((p, s) for p, s in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("", 1.0)) if value >= s)
    return f"{value / scale:.3g} {prefix}"
