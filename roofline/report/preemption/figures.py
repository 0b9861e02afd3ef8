"""Recompute against swap, drawn: over tokens, over the size of a copy, over tokens and blocks."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import plural
from roofline.report.figure import Axis, Cell, Figure, Mark, Series
from roofline.report.preemption.words import rate as rate_of
from roofline.report.view.cells import amount, seconds, table, whole, words
from roofline.serving.preemption.copies import Curve
from roofline.serving.preemption.result import Answer, Preempted

_SMALLEST, _LARGEST = 2**10, 2**30


def costs(result: Preempted, found: Answer) -> Figure:
    """Seconds by tokens, a line a way."""
    points = found.curves
    beside = f" beside {plural(result.asked.batch, 'sequence')}" if result.asked.batch else ""
    lines = [
        ("recompute" + beside, "compute", [point.recompute_s for point in points]),
        ("swap, coalesced" if result.asked.coalesced else "swap, block by block", "link", [point.swap_s for point in points]),
        *([] if result.asked.coalesced else [("swap, coalesced", "memory", [point.coalesced_s for point in points])]),
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
    marks = [Mark(text=f"{result.asked.tokens:,} tokens", x=float(result.asked.tokens), role="limit")]
    marks += [Mark(text=f"even at {at:,}", x=float(at), role="critical") for at in found.crossover_tokens]
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


def chunks(result: Preempted, found: Answer) -> Figure:
    """Bytes/s by the bytes of a copy, with the rate that a swap needs to be the cheaper."""
    swap, asked = found.swap, result.asked
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
    if not asked.coalesced:
        blocks = [(block, swap.chunk_bytes * block / asked.block_size) for block in found.heat.blocks]
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
    needed = 2 * swap.bytes / found.recompute.seconds
    return Figure(
        key="chunks",
        title="What copies reach, by their size",
        note=f"A call takes {formatting.seconds(swap.curve[0])} besides its bytes. Above the line a swap is the cheaper.",
        x=Axis(title="bytes of a copy", scale="log", unit="B"),
        y=Axis(title="bytes a second", scale="log", unit="B/s"),
        series=tuple(series),
        marks=(Mark(text=f"needed: {rate_of(needed)}", y=needed, role="limit"),),
        table=table(
            "chunks-rows", "Copies by the tokens of a block", "", ("tokens in a block", "bytes of a copy", "rate"), rows
        ),
    )


def heat(result: Preempted, found: Answer) -> Figure:
    """Recompute over swap, by tokens and block."""
    shown = found.heat
    series = Series(
        name="recompute over swap:",
        kind="heat",
        role="estimate",
        x=tuple(f"{block:,}" for block in shown.blocks),
        y=tuple(f"{tokens:,}" for tokens in shown.tokens),
        z=shown.ratios,
        texts=tuple(tuple(_ratio(value) for value in line) for line in shown.ratios),
        hatched=tuple(tuple(value < 1 for value in line) for line in shown.ratios),
        hatched_name="recomputing is the cheaper",
        labels=tuple(
            f"{tokens:,} tokens, blocks of {block:,}: recomputing takes {_ratio(value)} times a swap"
            for tokens, line in zip(shown.tokens, shown.ratios, strict=True)
            for block, value in zip(shown.blocks, line, strict=True)
        ),
    )
    rows = [
        (whole(tokens), *(Cell(text=_ratio(value), value=value) for value in line))
        for tokens, line in zip(shown.tokens, shown.ratios, strict=True)
    ]
    how = "coalesced: the block decides over what is left empty in the last one" if result.asked.coalesced else "block by block"
    return Figure(
        key="blocks",
        title="Recompute over swap, by tokens and block",
        note=f"Above 1 a swap is the cheaper. Copies {how}.",
        x=Axis(title="tokens in a block", scale="category"),
        y=Axis(title="evicted tokens", scale="category"),
        series=(series,),
        table=table("blocks-rows", "Recompute over swap", "", ("tokens", *(f"{block:,}" for block in shown.blocks)), rows),
    )


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2f}"


def words_of(table_rows: tuple[tuple[str, ...], ...]) -> list[tuple[Cell, ...]]:
    """Rows of text as cells."""
    return [tuple(words(text) for text in row) for row in table_rows]
