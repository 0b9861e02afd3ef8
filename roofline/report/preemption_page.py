"""The page of `roofline preempt`: one file without controls, with figures as still pictures and the numbers in tables."""

from __future__ import annotations

from dataclasses import replace

from roofline import formatting
from roofline.formatting import about_range, plural
from roofline.report import preemption_summary, summary
from roofline.report.answer import settings_line
from roofline.report.cells import about_time, amount, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Table, Tile, View
from roofline.report.page import static_page
from roofline.report.preemption_summary import rate as rate_of
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
    return static_page(view(result, line), f"{line} --output preempt.html")


def view(result: Preempted, line: str) -> View:
    """Everything that the page shows; `line` is the command that writes it again."""
    comparison = result.comparison
    return View(
        title=f"Recompute or swap: {summary.headline(result)}",
        subtitle=settings_line(result, *preemption_summary.workload(result)),
        answer=(*(text for _, text in preemption_summary.remarks(result)), f"{summary.subtitle(result)}."),
        fits=result.fits,
        error="",
        tiles=() if comparison is None else _tiles(comparison),
        commands=(Command(label="Reproduce in a terminal", text=line),),
        sections=() if comparison is None else _sections(result, comparison),
        assumptions=_cells("assumptions", summary.assumptions_table(result)),
        not_modelled=_NOT_MODELLED,
        verdict=preemption_summary.verdict(result),
    )


def _tiles(comparison: Comparison) -> tuple[Tile, ...]:
    swap, recompute = comparison.swap, comparison.recompute
    interval = (
        "" if recompute.high is None else f"80 % interval {about_range(recompute.low or recompute.bound, recompute.high)}"
    )
    copied = f"{formatting.about(swap.out_s)} out, {formatting.about(swap.in_s)} in"
    return (
        Tile(label="Recompute", cell=about_time(recompute.seconds), note=interval or plural(recompute.steps, "step")),
        Tile(label="Swap", cell=about_time(swap.seconds), note=copied),
        Tile(
            label="Cheaper",
            cell=text_cell(comparison.cheaper),
            note="beyond both intervals" if comparison.certain else "uncertain: the intervals overlap",
        ),
        Tile(
            label="Break-even rate",
            cell=amount(_break_even(comparison), "B/s"),
            note="" if not swap.calls else f"these copies reach {rate_of(swap.attained)}",
            meaning="of copies, above which a swap is faster",
        ),
    )


def _break_even(comparison: Comparison) -> float:
    """Bytes/s that copies have to reach, calls included, for a swap to take as long as recomputing."""
    return 2 * comparison.swap.bytes / comparison.recompute.seconds


def _sections(result: Preempted, comparison: Comparison) -> tuple[Section, ...]:
    ways, changed = preemption_summary.costs(result, comparison), preemption_summary.variants(result, comparison)
    figures = [_costs(result, comparison), *([] if result.query.coalesced else [_heat(comparison)]),
               _chunks(result, comparison)]  # fmt: skip
    halves = [Section(key=one.key, title=one.title, note="", figure=one, tables=(), half=True) for one in figures]
    listed = Section(
        key="ways", title="Methods", note="", figure=None, tables=(_cells("ways", ways),), half=len(halves) % 2 == 1
    )
    more = Section(
        key="variants",
        title="What if",
        note="",
        figure=None,
        tables=(_cells("changed", replace(changed, title="One change at a time")),),
    )
    return (*halves, listed, more)


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
        *([] if result.query.coalesced else [("swap, coalesced", "gathered", [point.coalesced_s for point in points])]),
        ("both at once", "split", [point.partial_s for point in points]),
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
                f"{name}, {tokens:,} tokens: {formatting.about(took)}" for tokens, took in zip(x, values, strict=True)
            ),
        )
        for name, role, values in lines
    )
    marks = [Mark(text=f"{result.query.tokens:,} tokens", x=float(result.query.tokens), role="pinned")]
    marks += [Mark(text=f"even at {at:,}", x=float(at), role="critical") for at in comparison.crossover_tokens]
    rows: list[tuple[Cell, ...]] = [
        (whole(tokens), *(about_time(values[index]) for _, _, values in lines)) for index, tokens in enumerate(x)
    ]
    names = ("tokens", *(name for name, _, _ in lines))
    return Figure(
        key="costs",
        title="Time to restore a sequence, by length",
        note="Recomputing a short sequence costs a pass over the weights, a long one attention on top; copies grow by blocks.",
        x=Axis(title="evicted tokens", scale="log", unit="tokens"),
        y=Axis(title="time", scale="log", unit="s"),
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
        name="copies of this size",
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
                name="blocks, by their tokens",
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
    needed = _break_even(comparison)
    return Figure(
        key="chunks",
        title="Transfer rate, by the size of a copy",
        note=f"Each call takes {formatting.seconds(swap.curve[0])} besides its bytes. Above the dashed line a swap is faster.",
        x=Axis(title="size of a copy", scale="log", unit="B"),
        y=Axis(title="rate", scale="log", unit="B/s"),
        series=tuple(series),
        marks=(Mark(text=f"break-even: {rate_of(needed)}", y=needed, role="limit"),),
        table=table(
            "chunks-rows", "Copies by the tokens of a block", "", ("tokens in a block", "size of a copy", "rate"), rows
        ),
    )


def _heat(comparison: Comparison) -> Figure:
    """Heat map of recompute time over swap time, by evicted tokens and tokens per block, each block copied by itself."""
    grid = comparison.heat
    series = Series(
        name="recompute over swap:",
        kind="heat",
        role="estimate",
        x=tuple(f"{block:,}" for block in grid.blocks),
        y=tuple(f"{tokens:,}" for tokens in grid.tokens),
        z=grid.ratios,
        texts=tuple(tuple(formatting.in_cell(value) for value in line) for line in grid.ratios),
        hatched=tuple(tuple(value < 1 for value in line) for line in grid.ratios),
        hatched_name="recomputing is faster",
        labels=tuple(
            f"{tokens:,} tokens, blocks of {block:,}: recomputing takes {formatting.in_cell(value)} times as long as a swap"
            for tokens, line in zip(grid.tokens, grid.ratios, strict=True)
            for block, value in zip(grid.blocks, line, strict=True)
        ),
    )
    rows = [
        (whole(tokens), *(Cell(text=formatting.in_cell(value), value=value) for value in line))
        for tokens, line in zip(grid.tokens, grid.ratios, strict=True)
    ]
    return Figure(
        key="blocks",
        title="Recompute time over swap time",
        note="Above 1 swapping is faster. Copies block by block.",
        x=Axis(title="tokens in a block", scale="category"),
        y=Axis(title="evicted tokens", scale="category"),
        series=(series,),
        table=table("blocks-rows", "Recompute over swap", "", ("tokens", *(f"{block:,}" for block in grid.blocks)), rows),
    )
