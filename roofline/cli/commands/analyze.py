"""`roofline analyze`: one model on one hardware at one workload, on one screen, in full tables, or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.options import HardwareOption, ModelArgument, Options, command_line, takes
from roofline.cli.output import Output, Result, as_markdown, write_lines
from roofline.cli.tables import (
    markdown_document,
    markdown_tables,
    print_assumptions,
    print_table,
    screen_width,
    write,
    write_labelled,
)  # fmt: skip
from roofline.predict.options import ALL
from roofline.text import Table, markdown_cell

if TYPE_CHECKING:
    from roofline.predict.result import Analysis, Phase

_Formulas = list[dict[str, Any]]
FIGURES = (
    "roofline", "explorer", "time-encoder", "time-prefill", "time-decode", "time-mixed", "device", "memory", "batch-limits",
    "ttft", "sensitivity", "heatmap",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="analyze")(takes(ALL, figures=FIGURES, formats=[".html"])(analyze))


def analyze(
    model: ModelArgument,
    hardware: HardwareOption,
    options: Options,
    explain: Annotated[bool, typer.Option("--explain", help="Show the formulas of each operator.")] = False,
    n_gpu_layers: Annotated[
        int | None,
        typer.Option("--n-gpu-layers", metavar="N", help="llama.cpp: layers on the GPU, others on --host.", show_default=False),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HARDWARE", help="Processor that has the other layers.", show_default=False)
    ] = None,
    *,
    out: Output,
) -> int:
    """Predict memory use, latency and throughput, and what limits them.

    Exits with code 1 if the model does not fit in memory.

    Example: roofline analyze llama-3.1-8b --hardware a100-sxm-80gb --batch 32 --context 4k
    """  # fmt: skip
    from roofline.predict.analyze import answer
    from roofline.predict.result import operator_rows

    if n_gpu_layers is not None or host is not None:
        return _split(model, hardware, host, n_gpu_layers, options, out)
    request, result = answer(model, hardware, **options)
    formulas: _Formulas = []
    if explain:
        from roofline.cli.commands.explain import operator_formulas

        formulas = operator_formulas(request)
    document = {**result.to_dict(), **({"formulas": formulas} if explain else {})}
    formats = {".html": result.to_html, ".md": lambda: _markdown(result)}
    why = command_line("explain", model, hardware, options).replace(" --hardware ", " tpot -H ", 1)

    def show() -> None:
        _show(result, formulas, why, out.verbosity)

    out.emit(Result(document, lambda: operator_rows(result), show, formats, lambda: result))
    if result.memory.fits or request.ignore_capacity:
        return 0
    from roofline.report.summary import verdict

    out.verdict(verdict(result))
    return 1


def _split(model: str, hardware: str, host: str | None, n_gpu_layers: int | None, options: dict[str, Any], out: Output) -> int:
    """Answer for a model of which some layers are on the host."""
    from roofline.cli.tables import print_answer
    from roofline.documents import envelope
    from roofline.errors import InputError
    from roofline.predict.offload import offload
    from roofline.report.offload import offload_answer

    if n_gpu_layers is None or host is None:
        raise InputError(
            "--n-gpu-layers and --host go together: how many layers the GPU has, and the processor that has the others"
        )
    result = offload(model, hardware, host, n_gpu_layers, **options)
    document = {**envelope({}), "offload": result.to_dict()}
    out.emit(Result(document, None, lambda: print_answer(offload_answer(result), out.verbosity)))
    return 0 if result.fits else 1


def _show(result: Analysis, formulas: _Formulas, why: str, verbosity: int) -> None:
    """Print the answer on one screen; with the tables, the roofline and the assumptions as the verbosity wants them."""
    from roofline.report import answer, summary

    write(answer.title(result), "bold")
    write(answer.settings(result), "dim")
    write("")
    write(summary.verdict(result), "good" if result.memory.fits else "bad")
    if (times := answer.times_table(result)).rows:
        write("")
        print_table(times)
    if result.speculative is not None:
        write("")
        write(summary.speculative_sentence(result.speculative), indent=2)
    write("")
    write_labelled(answer.memory_lines(result))
    if verbosity == 0:
        if (largest := answer.largest_operators(result)).rows:
            write("")
            print_table(largest)
    else:
        _details(result)
    _write_formulas(formulas)
    write("")
    write_labelled(answer.basis_lines(result))
    if verbosity:
        print_assumptions(summary.assumptions_table(result), verbosity)
    else:
        write("")
        if result.decode is not None and result.decode.time.bound is not None:
            write(f"Why this TPOT: {why}", "dim", indent=2, hanging=6)
        write("-v: all operators    -vv: all assumptions    -o page.html: interactive page", "dim", indent=2)


def _details(result: Analysis) -> None:
    """Print the roofline in characters, and the tables of operators and of limits."""
    plot, marks = _roofline_plot(result, screen_width())
    if plot:
        write("")
        write("Roofline: the operators that take longest, marked in the tables: A prefill, a decode", "bold")
        write_lines(plot)
    for phase, table in zip(result.steps, _tables(result), strict=False):
        write("")
        of_phase = marks.get(phase.name)
        print_table(table if of_phase is None else _marked(table, of_phase))
    for table in _limits(result):
        write("")
        print_table(table)


def _marked(table: Table, marks: dict[str, str]) -> Table:
    """A table whose rows begin with the mark of their operator in the roofline."""
    rows = tuple((f"{marks.get(row[0], ' ')} {row[0]}", *row[1:]) for row in table.rows)
    return replace(table, columns=(f"  {table.columns[0]}", *table.columns[1:]), rows=rows)


def _tables(result: Analysis) -> list[Table]:
    from roofline.report import summary

    return [*(summary.phase_table(result, phase) for phase in result.steps), *_limits(result)]


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


def _write_formulas(formulas: _Formulas) -> None:
    if formulas:
        write("")
        write("Formulas", "bold")
    for entry in formulas:
        write(entry["path"], indent=2)
        for part in entry["parts"]:
            write(f"{part['name']} = {part['formula']} = {part['substituted']}", indent=4, hanging=8)


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
