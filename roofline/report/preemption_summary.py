"""Recompute against swap, as sentences and text tables for terminals, Markdown and pages."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import interval, plural, seconds
from roofline.report import summary
from roofline.serving.preemption.preempt import Comparison, Preempted
from roofline.text import Table

_WORTH = 0.99
"""A split has to take less than this share of the better way alone to be spoken of."""


def sentences(result: Preempted) -> list[str]:
    """The answer in sentences: which way is cheaper, why, and where it would be the other."""
    comparison = result.comparison
    if comparison is None or result.unfit is not None:
        texts = [f"The device cannot hold the sequence. {summary.verdict(result.unfit)}"] if result.unfit else []
        return texts if comparison is None else [*texts, *_answered(result, comparison)]
    return _answered(result, comparison)


def _answered(result: Preempted, comparison: Comparison) -> list[str]:
    parts = [
        _cheaper(result, comparison),
        _copies(result, comparison),
        _link(result, comparison),
        _tokens(result, comparison),
        _block(result, comparison),
    ]
    return [part for part in (*parts, _both(comparison), _others(result, comparison), _host(comparison)) if part]


def rate(value: float | None) -> str:
    """A rate in bytes/s as text with three significant digits; "none" for None."""
    return "none" if value is None else formatting.quantity(value, "B/s", 3)


def _cheaper(result: Preempted, comparison: Comparison) -> str:
    swap, recompute, query = comparison.swap, comparison.recompute, result.query
    copied = f"about {seconds(swap.seconds)} out and in{interval(swap.low_s, swap.high_s)}"
    least = "a roofline bound of " if result.basis == "bound" else "about "
    alongside = f" beside {plural(query.batch, 'sequence')}" if query.batch else ""
    again = f"{least}{seconds(recompute.seconds)} to compute {plural(query.tokens, 'token')} again{alongside}"
    again += interval(recompute.low, recompute.high)
    if not comparison.host.fits:
        return f"Recomputing is the only way, as host memory is too small: {again}; copies would take {copied}."
    ratio = max(comparison.ratio, 1 / comparison.ratio)
    close = "" if comparison.certain else " The intervals overlap: it is close, or depends on what was assumed."
    if comparison.cheaper == "swap":
        return f"Swapping is cheaper by a factor of {ratio:.3g}: {copied}, against {again}.{close}"
    return f"Recomputing is cheaper by a factor of {ratio:.3g}: {again}, against {copied}.{close}"


def _copies(result: Preempted, comparison: Comparison) -> str:
    swap = comparison.swap
    calls = f"{swap.calls:,} calls of {formatting.quantity(swap.chunk_bytes, 'B', 3)}" if swap.calls > 1 else "one call"
    text = f"Each way {formatting.quantity(swap.bytes, 'B', 3)} cross in {calls}, at {rate(swap.attained)}"
    if result.query.gpus_per_link > 1:
        text += f" per device, {result.query.gpus_per_link} on one link"
    text += f"; large copies reach {rate(swap.link)}."
    other = next((row for row in comparison.variants if row.variant == "coalesced"), None)
    return f"{text} Gathered into one call it would be {seconds(other.swap_s)}." if other else text


def _link(result: Preempted, comparison: Comparison) -> str:
    swap = comparison.swap
    if comparison.break_even_link is None:
        if swap.calls == 0:
            return ""
        return "No link is fast enough for these copies: their calls alone take longer than recomputing."
    reached = rate(comparison.break_even_link)
    text = f"Break-even: a link on which large copies reach {reached}; over a faster one swapping wins."
    bare = 2 * swap.bytes * result.query.gpus_per_link / comparison.recompute.seconds
    return f"{text} Without calls it would be {rate(bare)}." if swap.calls > 1 else text


_VERB = {True: "swapping", False: "recomputing"}


def _tokens(result: Preempted, comparison: Comparison) -> str:
    """Which way is the cheaper over lengths."""
    first, last = comparison.curves[0], comparison.curves[-1]
    at = comparison.crossover_tokens
    alongside = f" beside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    if not at:
        same = comparison.cheaper == "swap"
        return f"At every length to {last.tokens:,} tokens {_VERB[same]} is the cheaper{alongside}."
    if len(at) == 2:
        # between both it is the one that it is not at the ends
        inside = next((point for point in comparison.curves if at[0] <= point.tokens < at[1]), None)
        swap = inside.swap_s <= inside.recompute_s if inside is not None else not last.swap_s <= last.recompute_s
        between = f"Between {at[0]:,} and {at[1]:,} tokens {_VERB[swap]} is the cheaper"
        return f"{between}, below and above {_VERB[not swap]}{alongside}."
    swap = last.swap_s <= last.recompute_s
    if first.tokens >= at[0]:
        return f"From {at[0]:,} tokens on {_VERB[swap]} is the cheaper{alongside}."
    return f"Below {at[0]:,} tokens {_VERB[not swap]} is the cheaper, from there on {_VERB[swap]}{alongside}."


def _block(result: Preempted, comparison: Comparison) -> str:
    size = comparison.crossover_block_size
    if size is None:
        return ""
    return f"With blocks of {plural(size, 'token')} or more swapping is cheaper; they have {result.query.block_size}."


def _both(comparison: Comparison) -> str:
    one = comparison.partial[0]
    if not 0 < one.recomputed < one.recomputed + one.swapped or not comparison.host.fits:
        return ""
    if one.seconds > _WORTH * min(comparison.recompute.seconds, comparison.swap.seconds):
        return ""
    what = "recomputing the first" if one.order == "recompute the first" else "recomputing the last"
    moved = "copied out before" if one.out_s else "copied out beside other work"
    return (
        f"Both at once takes {seconds(one.seconds)}: {what} {plural(one.recomputed, 'token')} while the other "
        f"{one.swapped:,}, {moved}, come back."
    )


def _others(result: Preempted, comparison: Comparison) -> str:
    stolen = comparison.stolen
    if stolen.recompute_tokens is None or stolen.swap_tokens is None:
        if not result.query.overlapped:
            return ""
        return f"Beside the kernels of others the copies take {seconds(stolen.swap_s)} of the device from them."
    return (
        f"Meanwhile the {plural(result.query.batch, 'other sequence')} would have had {stolen.recompute_tokens:,.0f} "
        f"tokens in the time that recomputing takes from them, and {stolen.swap_tokens:,.0f} in that of the copies."
    )


def _host(comparison: Comparison) -> str:
    host = comparison.host
    if host.sequences is None:
        return ""
    taken = f"{formatting.binary(host.bytes, 3)} each"
    return f"Host memory holds {plural(host.sequences, 'such sequence')} per replica, {taken}."


# Tables


def tables(result: Preempted) -> list[Table]:
    """All text tables except the assumptions; none without a comparison."""
    comparison = result.comparison
    if comparison is None:
        return []
    return [costs(result, comparison), variants(result, comparison), _by_tokens(result, comparison)]


def costs(result: Preempted, comparison: Comparison) -> Table:
    """Text table of the seconds of each way: estimate, interval, and the least that it takes."""
    swap, query, share = comparison.swap, result.query, comparison.partial[0]
    rows = []
    kind = "estimate" if result.basis == "estimate" else "bound"
    whole = ("recompute", comparison.recompute) if not query.batch else ("recompute, beside the batch", comparison.recompute)
    for name, one in (whole, *((("recompute, alone", comparison.alone),) if query.batch else ())):
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
    note = f"{plural(query.tokens, 'token')}"
    note += f" after {query.prefix:,} that stay" if query.prefix else ""
    note += f"; blocks of {query.block_size}; from, to: 8 of 10 estimates, or what others measured of copies"
    columns = ("way", "seconds", "from", "to", "at least", "how")
    return Table("Costs", note, columns, (False, True, True, True, True, False), tuple(rows))


def variants(result: Preempted, comparison: Comparison) -> Table:
    """Text table of what changes with one thing different at a time: bytes, seconds of a swap, break-even link, cheaper way."""
    rows = tuple(
        (
            row.variant,
            formatting.quantity(row.bytes, "B", 3),
            seconds(row.swap_s),
            rate(row.break_even_link),
            row.cheaper,
            row.why,
        )
        for row in comparison.variants
    )
    note = f"against the same recomputation, {seconds(comparison.recompute.seconds)}; bytes of a device, one way"
    if result.hardware["devices"] == 1:
        note = note.replace(" of a device", "")
    columns = ("variant", "bytes", "swap", "break-even link", "cheaper", "why")
    return Table("With one thing another way", note, columns, (False, True, True, True, False, False), rows)


def _by_tokens(result: Preempted, comparison: Comparison) -> Table:
    """Text table of the seconds of each way by number of evicted tokens."""
    rows = tuple(
        (
            f"{point.tokens:,}",
            seconds(point.recompute_s),
            seconds(point.swap_s),
            seconds(point.coalesced_s),
            seconds(point.partial_s),
            "swap" if point.swap_s <= point.recompute_s else "recompute",
        )
        for point in comparison.curves
    )
    alongside = f"; recomputed beside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    columns = ("tokens", "recompute", "swap", "coalesced", "both at once", "cheaper")
    right = (True, True, True, True, True, False)
    return Table("By length", f"coalesced: blocks gathered, one call each way{alongside}", columns, right, rows)
