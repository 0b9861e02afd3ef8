"""Recompute against swap, in tables for terminals, Markdown and pages."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import plural, seconds
from roofline.report.preemption.words import rate
from roofline.report.summary import Table
from roofline.serving.preemption.result import Answer, Preempted


def tables(result: Preempted) -> list[Table]:
    """All but the assumptions."""
    found = result.answer
    return [] if found is None else [costs(result, found), variants(result, found), by_tokens(result, found)]


def costs(result: Preempted, found: Answer) -> Table:
    """Every way, with its interval and its bound."""
    swap, asked, share = found.swap, result.asked, found.partial[0]
    rows = []
    kind = "estimate" if result.basis == "estimate" else "bound"
    whole = ("recompute", found.recompute) if not asked.batch else ("recompute, beside the batch", found.recompute)
    for name, one in (whole, *((("recompute, alone", found.alone),) if asked.batch else ())):
        steps = plural(one.steps, "step")
        rows.append((name, seconds(one.seconds), seconds(one.low), seconds(one.high), seconds(one.bound), f"{kind}, {steps}"))
    curve = f"{formatting.seconds(swap.curve[0])} a call, {rate(swap.curve[1])}"
    rows.append(
        (
            "swap",
            seconds(swap.seconds),
            seconds(swap.low_s),
            seconds(swap.high_s),
            seconds(swap.bound_s),
            f"{swap.basis}: {curve}",
        )
    )
    for name, value in (("  out", swap.out_s), ("  in", swap.in_s)):
        rows.append((name, seconds(value), "", "", "", f"{swap.calls:,} x {formatting.quantity(swap.chunk_bytes, 'B', 3)}"))
    split = f"{share.recomputed:,} recomputed ({seconds(share.recompute_s)}), {share.swapped:,} swapped"
    rows.append(("both at once", seconds(share.seconds), "", "", "", f"{share.order}: {split}"))
    note = f"{plural(asked.tokens, 'token')}"
    note += f" after {asked.prefix:,} that stay" if asked.prefix else ""
    note += f"; blocks of {asked.block_size}; from, to: 8 of 10 estimates, or what others measured of copies"
    columns = ("way", "seconds", "from", "to", "at least", "how")
    return Table("Costs", note, columns, (False, True, True, True, True, False), tuple(rows))


def variants(result: Preempted, found: Answer) -> Table:
    """With one thing another way."""
    rows = tuple(
        (
            row.variant,
            formatting.quantity(row.bytes, "B", 3),
            seconds(row.swap_s),
            rate(row.break_even_link),
            row.cheaper,
            row.why,
        )
        for row in found.variants
    )
    note = f"against the same recomputation, {seconds(found.recompute.seconds)}; bytes of a device, one way"
    if result.hardware["devices"] == 1:
        note = note.replace(" of a device", "")
    columns = ("variant", "bytes", "swap", "break-even link", "cheaper", "why")
    return Table("With one thing another way", note, columns, (False, True, True, True, False, False), rows)


def by_tokens(result: Preempted, found: Answer) -> Table:
    """Over lengths."""
    rows = tuple(
        (
            f"{point.tokens:,}",
            seconds(point.recompute_s),
            seconds(point.swap_s),
            seconds(point.coalesced_s),
            seconds(point.partial_s),
            "swap" if point.swap_s <= point.recompute_s else "recompute",
        )
        for point in found.curves
    )
    beside = f"; recomputed beside {plural(result.asked.batch, 'sequence')}" if result.asked.batch else ""
    columns = ("tokens", "recompute", "swap", "coalesced", "both at once", "cheaper")
    right = (True, True, True, True, True, False)
    return Table("By length", f"coalesced: blocks gathered, one call each way{beside}", columns, right, rows)
