"""Recompute against swap in sentences and tables, for terminals, Markdown and pages."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import interval, plural, seconds
from roofline.report import summary
from roofline.serving.preemption.preempt import Answer, Preempted
from roofline.text import Table

_WORTH = 0.99
"""A split has to take less than this share of the better way alone to be spoken of."""


def sentences(result: Preempted) -> list[str]:
    """The answer: which way is the cheaper, why, and where it would be the other."""
    answer = result.answer
    if answer is None or result.unfit is not None:
        texts = [f"The device cannot hold the sequence. {summary.verdict(result.unfit)}"] if result.unfit else []
        return texts if answer is None else [*texts, *_answered(result, answer)]
    return _answered(result, answer)


def _answered(result: Preempted, answer: Answer) -> list[str]:
    parts = [
        _cheaper(result, answer),
        _copies(result, answer),
        _link(result, answer),
        _tokens(result, answer),
        _block(result, answer),
    ]
    return [part for part in (*parts, _both(answer), _others(result, answer), _host(answer)) if part]


def rate(value: float | None) -> str:
    """Bytes/s in three digits."""
    return "none" if value is None else formatting.quantity(value, "B/s", 3)


def _cheaper(result: Preempted, answer: Answer) -> str:
    swap, recompute, query = answer.swap, answer.recompute, result.query
    copied = f"about {seconds(swap.seconds)} out and in{interval(swap.low_s, swap.high_s)}"
    least = "at least " if result.basis == "bound" else "about "
    alongside = f" beside {plural(query.batch, 'sequence')}" if query.batch else ""
    again = f"{least}{seconds(recompute.seconds)} to compute {plural(query.tokens, 'token')} again{alongside}"
    again += interval(recompute.low, recompute.high)
    if not answer.host.fits:
        return f"Recomputing is the only way, as host memory is too small: {again}; copies would take {copied}."
    ratio = max(answer.ratio, 1 / answer.ratio)
    close = "" if answer.certain else " The intervals overlap: it is close, or depends on what was assumed."
    if answer.cheaper == "swap":
        return f"Swapping is cheaper by a factor of {ratio:.3g}: {copied}, against {again}.{close}"
    return f"Recomputing is cheaper by a factor of {ratio:.3g}: {again}, against {copied}.{close}"


def _copies(result: Preempted, answer: Answer) -> str:
    swap = answer.swap
    calls = f"{swap.calls:,} calls of {formatting.quantity(swap.chunk_bytes, 'B', 3)}" if swap.calls > 1 else "one call"
    text = f"Each way {formatting.quantity(swap.bytes, 'B', 3)} cross in {calls}, at {rate(swap.attained)}"
    if result.query.gpus_per_link > 1:
        text += f" per device, {result.query.gpus_per_link} on one link"
    text += f"; large copies reach {rate(swap.link)}."
    other = next((row for row in answer.variants if row.variant == "coalesced"), None)
    return f"{text} Gathered into one call it would be {seconds(other.swap_s)}." if other else text


def _link(result: Preempted, answer: Answer) -> str:
    swap = answer.swap
    if answer.break_even_link is None:
        if swap.calls == 0:
            return ""
        return "No link is fast enough for these copies: their calls alone take longer than recomputing."
    text = f"Break-even: a link on which large copies reach {rate(answer.break_even_link)}; over a faster one swapping wins."
    bare = 2 * swap.bytes * result.query.gpus_per_link / answer.recompute.seconds
    return f"{text} Without calls it would be {rate(bare)}." if swap.calls > 1 else text


_VERB = {True: "swapping", False: "recomputing"}


def _tokens(result: Preempted, answer: Answer) -> str:
    """Which way is the cheaper over lengths."""
    first, last = answer.curves[0], answer.curves[-1]
    at = answer.crossover_tokens
    alongside = f" beside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    if not at:
        same = answer.cheaper == "swap"
        return f"At every length to {last.tokens:,} tokens {_VERB[same]} is the cheaper{alongside}."
    if len(at) == 2:
        # between both it is the one that it is not at the ends
        inside = next((point for point in answer.curves if at[0] <= point.tokens < at[1]), None)
        swap = inside.swap_s <= inside.recompute_s if inside is not None else not last.swap_s <= last.recompute_s
        between = f"Between {at[0]:,} and {at[1]:,} tokens {_VERB[swap]} is the cheaper"
        return f"{between}, below and above {_VERB[not swap]}{alongside}."
    swap = last.swap_s <= last.recompute_s
    if first.tokens >= at[0]:
        return f"From {at[0]:,} tokens on {_VERB[swap]} is the cheaper{alongside}."
    return f"Below {at[0]:,} tokens {_VERB[not swap]} is the cheaper, from there on {_VERB[swap]}{alongside}."


def _block(result: Preempted, answer: Answer) -> str:
    size = answer.crossover_block_size
    if size is None:
        return ""
    return f"With blocks of {plural(size, 'token')} or more swapping is cheaper; they have {result.query.block_size}."


def _both(answer: Answer) -> str:
    one = answer.partial[0]
    if not 0 < one.recomputed < one.recomputed + one.swapped or not answer.host.fits:
        return ""
    if one.seconds > _WORTH * min(answer.recompute.seconds, answer.swap.seconds):
        return ""
    what = "recomputing the first" if one.order == "recompute the first" else "recomputing the last"
    moved = "copied out before" if one.out_s else "copied out beside other work"
    return (
        f"Both at once takes {seconds(one.seconds)}: {what} {plural(one.recomputed, 'token')} while the other "
        f"{one.swapped:,}, {moved}, come back."
    )


def _others(result: Preempted, answer: Answer) -> str:
    stolen = answer.stolen
    if stolen.recompute_tokens is None or stolen.swap_tokens is None:
        if not result.query.overlapped:
            return ""
        return f"Beside the kernels of others the copies take {seconds(stolen.swap_s)} of the device from them."
    return (
        f"Meanwhile the {plural(result.query.batch, 'other sequence')} would have had {stolen.recompute_tokens:,.0f} "
        f"tokens in the time that recomputing takes from them, and {stolen.swap_tokens:,.0f} in that of the copies."
    )


def _host(answer: Answer) -> str:
    host = answer.host
    if host.sequences is None:
        return ""
    taken = f"{formatting.binary(host.bytes, 3)} each"
    return f"Host memory holds {plural(host.sequences, 'such sequence')} per replica, {taken}."


# Tables


def tables(result: Preempted) -> list[Table]:
    """All but the assumptions."""
    answer = result.answer
    return [] if answer is None else [costs(result, answer), variants(result, answer), by_tokens(result, answer)]


def costs(result: Preempted, answer: Answer) -> Table:
    """Every way, with its interval and its bound."""
    swap, query, share = answer.swap, result.query, answer.partial[0]
    rows = []
    kind = "estimate" if result.basis == "estimate" else "bound"
    whole = ("recompute", answer.recompute) if not query.batch else ("recompute, beside the batch", answer.recompute)
    for name, one in (whole, *((("recompute, alone", answer.alone),) if query.batch else ())):
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


def variants(result: Preempted, answer: Answer) -> Table:
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
        for row in answer.variants
    )
    note = f"against the same recomputation, {seconds(answer.recompute.seconds)}; bytes of a device, one way"
    if result.hardware["devices"] == 1:
        note = note.replace(" of a device", "")
    columns = ("variant", "bytes", "swap", "break-even link", "cheaper", "why")
    return Table("With one thing another way", note, columns, (False, True, True, True, False, False), rows)


def by_tokens(result: Preempted, answer: Answer) -> Table:
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
        for point in answer.curves
    )
    alongside = f"; recomputed beside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    columns = ("tokens", "recompute", "swap", "coalesced", "both at once", "cheaper")
    right = (True, True, True, True, True, False)
    return Table("By length", f"coalesced: blocks gathered, one call each way{alongside}", columns, right, rows)
