"""The page of `roofline preempt`: one file without controls, with figures as still pictures and the numbers in tables."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import plural
from roofline.report import preemption_summary, summary
from roofline.report.cells import amount, seconds, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Table, Tile, View
from roofline.report.page import static_page
from roofline.report.preemption_summary import rate as rate_of
from roofline.report.preemption_summary import sentences
from roofline.serving.preemption.copies import Curve
from roofline.serving.preemption.preempt import Comparison, Preempted
from roofline.text import Table as TextTable

_NOT_MODELLED = (
    "Queues: when a sequence is evicted, and how long it waits for KV blocks, is a matter of the whole traffic.",
    "Batched calls (cuMemcpyBatchAsync), which take less a block than one call each.",
    "What the memory of the host can do: several links may ask for more than it has.",
)


def preemption_page(result: Preempted, line: str) -> str:
    """The page of `roofline preempt` as a complete HTML document; `line` is the command that writes it again."""
    return static_page(view(result, line), line)


def view(result: Preempted, line: str) -> View:
    """Everything that the page shows; `line` is the command that writes it again."""
    comparison = result.comparison
    return View(
        title=f"Recompute or swap: {summary.headline(result)}",
        subtitle=summary.subtitle(result),
        answer=tuple(sentences(result)),
        fits=result.fits,
        error="",
        tiles=() if comparison is None else _tiles(comparison),
        commands=(Command(label="The same in a terminal", text=line),),
        sections=() if comparison is None else _sections(result, comparison),
        assumptions=_cells("assumptions", summary.assumptions_table(result)),
        not_modelled=_NOT_MODELLED,
    )


def _tiles(comparison: Comparison) -> tuple[Tile, ...]:
    swap = comparison.swap
    return (
        Tile(label="recompute", cell=seconds(comparison.recompute.seconds), note=plural(comparison.recompute.steps, "step")),
        Tile(label="swap", cell=seconds(swap.seconds), note=f"{seconds(swap.out_s).text} out, {seconds(swap.in_s).text} in"),
        Tile(label="cheaper", cell=text_cell(comparison.cheaper), note="surely" if comparison.certain else "intervals overlap"),
        Tile(label="break-even link", cell=amount(comparison.break_even_link, "B/s"), note="that large copies reach"),
    )


def _sections(result: Preempted, comparison: Comparison) -> tuple[Section, ...]:
    ways, changed = preemption_summary.costs(result, comparison), preemption_summary.variants(result, comparison)
    return (
        Section(key="costs", title="By length", note="", figure=_costs(result, comparison), tables=(_cells("ways", ways),)),
        Section(key="blocks", title="By length and block", note="", figure=_heat(result, comparison), tables=()),
        Section(key="chunks", title="By the size of a copy", note="", figure=_chunks(result, comparison), tables=()),
        Section(
            key="variants",
            title="What heads, windows, formats and copies do",
            note="",
            figure=None,
            tables=(_cells("changed", changed),),
        ),
    )


def _cells(key: str, listed: TextTable) -> Table:
    """A table of texts as one of cells."""
    return table(key, listed.title, listed.note, listed.columns, [tuple(map(text_cell, row)) for row in listed.rows])


_SMALLEST, _LARGEST = 2**10, 2**30


def _costs(result: Preempted, comparison: Comparison) -> Figure:
    """Line plot of the seconds that each way takes, against evicted tokens."""
    points = comparison.curves
    alongside = f" beside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    lines = [
        ("recompute" + alongside, "compute", [point.recompute_s for point in points]),
        ("swap, coalesced" if result.query.coalesced else "swap, block by block", "link", [point.swap_s for point in points]),
        *([] if result.query.coalesced else [("swap, coalesced", "memory", [point.coalesced_s for point in points])]),
        ("both at once", "sum", [point.partial_s for point in points]),
    ]
    x = tuple(point.tokens for point in points)
    series = tuple(
        Series(
            name=name,
            kind="line",
            role=role,
            x=x,
            y=tuple(values),
            labels=tuple(
                f"{name}, {tokens:,} tokens: {formatting.seconds(took)}" for tokens, took in zip(x, values, strict=True)
            ),
        )
        for name, role, values in lines
    )
    marks = [Mark(text=f"{result.query.tokens:,} tokens", x=float(result.query.tokens), role="limit")]
    marks += [Mark(text=f"even at {at:,}", x=float(at), role="critical") for at in comparison.crossover_tokens]
    rows: list[tuple[Cell, ...]] = [
        (whole(tokens), *(seconds(values[index]) for _, _, values in lines)) for index, tokens in enumerate(x)
    ]
    names = ("tokens", *(name for name, _, _ in lines))
    return Figure(
        key="costs",
        title="What bringing a sequence back takes",
        note="Recomputing a short sequence costs a pass over the weights, a long one attention on top; copies grow by blocks.",
        x=Axis(title="evicted tokens", scale="log", unit="tokens"),
        y=Axis(title="seconds", scale="log", unit="s"),
        series=series,
        marks=tuple(marks),
        table=table("costs-rows", "By length", "", names, rows),
    )


def _chunks(result: Preempted, comparison: Comparison) -> Figure:
    """Line plot of the transfer rate in bytes/s against bytes per copy, with the rate at which a swap is cheaper marked."""
    swap, query = comparison.swap, result.query
    curve = Curve(*swap.curve)
    sizes = [float(_SMALLEST)]
    while sizes[-1] < _LARGEST:
        sizes.append(sizes[-1] * 2)
    line = Series(
        name="copies of one size",
        kind="line",
        role="roof",
        x=tuple(sizes),
        y=tuple(float(curve.attained(size)) for size in sizes),
        labels=tuple(f"{formatting.quantity(size, 'B', 3)}: {rate_of(float(curve.attained(size)))}" for size in sizes),
    )
    series, rows = [line], []
    if not query.coalesced:
        blocks = [(block, swap.chunk_bytes * block / query.block_size) for block in comparison.heat.blocks]
        series.append(
            Series(
                name="a block",
                kind="points",
                role="link",
                x=tuple(size for _, size in blocks),
                y=tuple(float(curve.attained(size)) for _, size in blocks),
                labels=tuple(
                    f"blocks of {block:,}: {formatting.quantity(size, 'B', 3)}, {rate_of(float(curve.attained(size)))}"
                    for block, size in blocks
                ),
                short=tuple(f"{block:,}" for block, _ in blocks),
            )
        )
        rows = [(whole(block), amount(size, "B"), amount(float(curve.attained(size)), "B/s")) for block, size in blocks]
    needed = 2 * swap.bytes / comparison.recompute.seconds
    return Figure(
        key="chunks",
        title="What copies reach, by their size",
        note=f"A call takes {formatting.seconds(swap.curve[0])} besides its bytes. Above the line a swap is the cheaper.",
        x=Axis(title="bytes of a copy", scale="log", unit="B"),
        y=Axis(title="bytes/s", scale="log", unit="B/s"),
        series=tuple(series),
        marks=(Mark(text=f"needed: {rate_of(needed)}", y=needed, role="limit"),),
        table=table(
            "chunks-rows", "Copies by the tokens of a block", "", ("tokens in a block", "bytes of a copy", "rate"), rows
        ),
    )


def _heat(result: Preempted, comparison: Comparison) -> Figure:
    """Heat map of recompute time over swap time, by evicted tokens and tokens per block."""
    grid = comparison.heat
    series = Series(
        name="recompute over swap:",
        kind="heat",
        role="estimate",
        x=tuple(f"{block:,}" for block in grid.blocks),
        y=tuple(f"{tokens:,}" for tokens in grid.tokens),
        z=grid.ratios,
        texts=tuple(tuple(_ratio(value) for value in line) for line in grid.ratios),
        hatched=tuple(tuple(value < 1 for value in line) for line in grid.ratios),
        hatched_name="recomputing is the cheaper",
        labels=tuple(
            f"{tokens:,} tokens, blocks of {block:,}: recomputing takes {_ratio(value)} times a swap"
            for tokens, line in zip(grid.tokens, grid.ratios, strict=True)
            for block, value in zip(grid.blocks, line, strict=True)
        ),
    )
    rows = [
        (whole(tokens), *(Cell(text=_ratio(value), value=value) for value in line))
        for tokens, line in zip(grid.tokens, grid.ratios, strict=True)
    ]
    how = "coalesced: the block decides over what is left empty in the last one" if result.query.coalesced else "block by block"
    return Figure(
        key="blocks",
        title="Recompute over swap, by tokens and block",
        note=f"Above 1 a swap is the cheaper. Copies {how}.",
        x=Axis(title="tokens in a block", scale="category"),
        y=Axis(title="evicted tokens", scale="category"),
        series=(series,),
        table=table("blocks-rows", "Recompute over swap", "", ("tokens", *(f"{block:,}" for block in grid.blocks)), rows),
    )


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2f}"
