"""The page of an evicted sequence: one file without controls, with figures as still pictures and the numbers beside them."""

from __future__ import annotations

from roofline.formatting import plural
from roofline.report import summary
from roofline.report.figure import Command, Section, Table, Tile, View
from roofline.report.page import still
from roofline.report.preemption import figures, tables
from roofline.report.preemption.figures import words_of
from roofline.report.preemption.words import sentences
from roofline.report.view.cells import amount, seconds, table, words
from roofline.serving.preemption.result import Answer, Preempted

_NOT_MODELLED = (
    "Queues: when a sequence is evicted, and how long it waits for room, is a matter of the whole traffic.",
    "Batched calls (cuMemcpyBatchAsync), which take less a block than one call each.",
    "What the memory of the host can do: several links may ask for more than it has.",
)


def page(result: Preempted, line: str) -> str:
    """The whole file; `line` is the command that makes it again."""
    return still(view(result, line), line)


def view(result: Preempted, line: str) -> View:
    """Everything that it shows."""
    found = result.answer
    return View(
        title=f"Recompute or swap: {summary.headline(result)}",
        subtitle=summary.subtitle(result),
        answer=tuple(sentences(result)),
        fits=result.fits,
        error="",
        tiles=() if found is None else _tiles(found),
        commands=(Command(label="The same in a terminal", text=line),),
        sections=() if found is None else _sections(result, found),
        assumptions=_cells("assumptions", summary.assumptions_table(result)),
        not_modelled=_NOT_MODELLED,
    )


def _tiles(found: Answer) -> tuple[Tile, ...]:
    swap = found.swap
    return (
        Tile(label="recompute", cell=seconds(found.recompute.seconds), note=plural(found.recompute.steps, "step")),
        Tile(label="swap", cell=seconds(swap.seconds), note=f"{seconds(swap.out_s).text} out, {seconds(swap.in_s).text} in"),
        Tile(label="cheaper", cell=words(found.cheaper), note="surely" if found.certain else "intervals overlap"),
        Tile(label="break-even link", cell=amount(found.break_even_link, "B/s"), note="that large copies reach"),
    )


def _sections(result: Preempted, found: Answer) -> tuple[Section, ...]:
    costs, changed = tables.costs(result, found), tables.variants(result, found)
    return (
        Section(key="costs", title="By length", note="", figure=figures.costs(result, found), tables=(_cells("ways", costs),)),
        Section(key="blocks", title="By length and block", note="", figure=figures.heat(result, found), tables=()),
        Section(key="chunks", title="By the size of a copy", note="", figure=figures.chunks(result, found), tables=()),
        Section(
            key="variants",
            title="What heads, windows, formats and copies do",
            note="",
            figure=None,
            tables=(_cells("changed", changed),),
        ),
    )


def _cells(key: str, shown: summary.Table) -> Table:
    """A table of texts as one of cells."""
    return table(key, shown.title, shown.note, shown.columns, words_of(shown.rows))
