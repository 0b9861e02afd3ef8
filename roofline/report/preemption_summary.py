"""Recompute against swap, as sentences and text tables for terminals, Markdown and pages."""

from __future__ import annotations

from dataclasses import replace

from roofline import formatting
from roofline.formatting import about, about_number, about_range, number, percent, plural, seconds
from roofline.report import summary
from roofline.report.answer import provenance, settings_line
from roofline.serving.preemption.preempt import Comparison, Preempted
from roofline.text import Answer, Table

_WORTH = 0.99
"""A split has to take less than this share of the better way alone to be spoken of."""


_CLOSE = 1.2
"""A ratio below this one is given in percent."""


def sentences(result: Preempted) -> list[str]:
    """The answer in sentences: which way is cheaper, why, and where it would be the other."""
    return [verdict(result), *(text for _, text in remarks(result))]


def verdict(result: Preempted) -> str:
    """Which way is cheaper, in a sentence; or that the device cannot hold the sequence, and what would fit."""
    unfit = f"The device cannot hold the sequence. {summary.verdict(result.unfit)}" if result.unfit else ""
    return " ".join(filter(None, (unfit, _cheaper(result, result.comparison) if result.comparison else "")))


def remarks(result: Preempted) -> list[tuple[str, str]]:
    """Labels and sentences: copies, break-even link, lengths and blocks, both ways at once, other sequences, host memory."""
    comparison = result.comparison
    if comparison is None:
        return []
    texts = {
        "Copies": _copies(result, comparison),
        "Break-even": _link(result, comparison),
        "Length": _tokens(result, comparison),
        "Block size": _block(result, comparison),
        "Split": _both(comparison),
        "Meanwhile": _others(result, comparison),
        "Host": _host(comparison),
    }
    return [(label, text) for label, text in texts.items() if text]


def workload(result: Preempted) -> list[str]:
    """Parts of the settings line: tokens, blocks and copies, and what runs meanwhile."""
    query = result.query
    parts = [f"{query.tokens:,} tokens evicted" + (f" after a prefix of {query.prefix:,}" if query.prefix else "")]
    parts.append(f"blocks of {query.block_size}{', gathered' if query.coalesced else ''}")
    parts += [] if query.pinned else ["pageable host memory"]
    return [*parts, *([f"alongside {plural(query.batch, 'sequence')} of {query.context:,}"] if query.batch else [])]


def rate(value: float | None) -> str:
    """A rate in bytes/s as text with three significant digits; "none" for None."""
    return "none" if value is None else formatting.quantity(value, "B/s", 3)


def _cheaper(result: Preempted, comparison: Comparison) -> str:
    swap, recompute = comparison.swap, comparison.recompute
    copied = f"~{about(swap.seconds)} for the copies out and back"
    again = f"~{about(recompute.seconds)} to recompute"
    if result.basis == "bound":
        again = f"{seconds(recompute.seconds)} to recompute at the roofline bound"
    if not comparison.host.fits:
        return f"Recomputing is the only way, as host memory is too small: {again}; swapping would take {copied}."
    ratio, fastest = max(comparison.ratio, 1 / comparison.ratio), _fastest(comparison)
    by = f"{number(ratio, 2)} times as fast as" if ratio >= _CLOSE else f"{percent(ratio - 1, digits=2)} faster than"
    close = "" if comparison.certain else " This is uncertain: the intervals overlap."
    swapping = _swapping(comparison)
    if comparison.cheaper == "swap":
        text = f"{swapping.capitalize()} is {by} recomputing: {copied}, against {again}.{close}"
    else:
        text = f"Recomputing is {by} {swapping}: {again}, against {copied}.{close}"
    return f"{fastest} Otherwise, {text[0].lower()}{text[1:]}" if fastest else text


def _fastest(comparison: Comparison) -> str:
    """The way that is faster than both recomputing and swapping as configured, in a sentence; empty if none is."""
    ways = [(comparison.partial[0].seconds, "recomputing a part while swapping the rest")] if _split(comparison) else []
    ways += [
        (row.swap_s, "swapping with one gathered copy in each direction (--coalesced)")
        for row in comparison.variants
        if row.variant == "coalesced"
    ]
    took, way = min(ways, default=(float("inf"), ""))
    if took > _WORTH * min(comparison.recompute.seconds, comparison.swap.seconds):
        return ""
    return f"Fastest: {way}, ~{about(took)}."


def _copies(result: Preempted, comparison: Comparison) -> str:
    swap = comparison.swap
    calls = f"{swap.calls:,} calls of {formatting.quantity(swap.chunk_bytes, 'B', 3)}" if swap.calls > 1 else "one call"
    text = f"{formatting.quantity(swap.bytes, 'B', 3)} each way in {calls}, at {rate(swap.attained)}"
    if result.query.gpus_per_link > 1:
        text += f" per device, {result.query.gpus_per_link} on one link"
    text += f"; one large copy reaches {rate(swap.link)}."
    other = next((row for row in comparison.variants if row.variant == "coalesced"), None)
    return f"{text} Gathered into one copy each way: {about(other.swap_s)} out and in." if other else text


def _link(result: Preempted, comparison: Comparison) -> str:
    swap = comparison.swap
    if comparison.break_even_link is None:
        if swap.calls == 0:
            return ""
        return (
            f"Even with the fastest link, {_swapping(comparison)} is slower: the copy calls alone take longer than recomputing."
        )
    even = rate(comparison.break_even_link)
    text = f"{_swapping(comparison).capitalize()} is faster if the link moves large copies at more than {even}"
    bare = 2 * swap.bytes * result.query.gpus_per_link / comparison.recompute.seconds
    return f"{text} ({rate(bare)} if calls took no time)." if swap.calls > 1 else f"{text}."


def _swapping(comparison: Comparison) -> str:
    """The way of swapping that is compared."""
    return "swapping block by block" if comparison.swap.calls > 1 else "swapping"


def _tokens(result: Preempted, comparison: Comparison) -> str:
    """Which way is faster over lengths."""
    first, last = comparison.curves[0], comparison.curves[-1]
    at = comparison.crossover_tokens
    alongside = f", alongside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    verb = {True: _swapping(comparison), False: "recomputing"}
    if not at:
        same = comparison.cheaper == "swap"
        return f"{verb[same].capitalize()} is faster at every length up to {last.tokens:,} tokens{alongside}."
    if len(at) == 2:
        # between both it is the one that it is not at the ends
        inside = next((point for point in comparison.curves if at[0] <= point.tokens < at[1]), None)
        swap = inside.swap_s <= inside.recompute_s if inside is not None else not last.swap_s <= last.recompute_s
        between = f"{verb[swap].capitalize()} is faster between {at[0]:,} and {at[1]:,} tokens"
        return f"{between}{alongside}; {verb[not swap]} is faster outside that range."
    swap = last.swap_s <= last.recompute_s
    if first.tokens >= at[0]:
        return f"{verb[swap].capitalize()} is faster from {at[0]:,} tokens on{alongside}."
    return f"{verb[not swap].capitalize()} is faster below {at[0]:,} tokens, {verb[swap]} from there on{alongside}."


def _block(result: Preempted, comparison: Comparison) -> str:
    size = comparison.crossover_block_size
    if size is None:
        return ""
    held = plural(result.query.block_size, "token")
    larger = plural(size, "token")
    return f"{_swapping(comparison).capitalize()} is faster with blocks of at least {larger}; the block size is {held}."


def _both(comparison: Comparison) -> str:
    if not _split(comparison):
        return ""
    one = comparison.partial[0]
    what = "recompute the first" if one.order == "recompute the first" else "recompute the last"
    moved = "after copying those out" if one.out_s else "which were copied out while other work ran"
    return (
        f"Doing both at once takes {about(one.seconds)}: {what} {plural(one.recomputed, 'token')} while swapping the other "
        f"{one.swapped:,} back in, {moved}."
    )


def _split(comparison: Comparison) -> bool:
    """Whether recomputing a part while the rest is swapped is worth a word."""
    one = comparison.partial[0]
    if not 0 < one.recomputed < one.recomputed + one.swapped or not comparison.host.fits:
        return False
    return one.seconds <= _WORTH * min(comparison.recompute.seconds, comparison.swap.seconds)


def _others(result: Preempted, comparison: Comparison) -> str:
    stolen = comparison.stolen
    if stolen.recompute_tokens is None or stolen.swap_tokens is None:
        if not result.query.overlapped:
            return ""
        return f"Overlapped copies take {about(stolen.swap_s)} of device time from other sequences."
    return (
        f"Recomputing costs the {plural(result.query.batch, 'other sequence')} the time of "
        f"{about_number(stolen.recompute_tokens)} tokens, copying {about_number(stolen.swap_tokens)}."
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
    """Text table of the time of each way: estimate, interval, roofline bound, and how it is done."""
    swap, query, share = comparison.swap, result.query, comparison.partial[0]
    rows = []
    whole = ("recompute", comparison.recompute) if not query.batch else ("recompute in batch", comparison.recompute)
    for name, one in (whole, *((("recompute alone", comparison.alone),) if query.batch else ())):
        estimate = formatting.ABSENT if result.basis == "bound" else about(one.seconds)
        rows.append((name, estimate, _between(one.low, one.high), _three(one.bound), plural(one.steps, "step")))
    assumed = " (assumed)" if swap.basis == "assumed" else ""
    call = f"{formatting.seconds(swap.curve[0])} per call, {rate(swap.curve[1])}{assumed}"
    rows.append(("swap", about(swap.seconds), _between(swap.low_s, swap.high_s), _three(swap.bound_s), call))
    for name, value in (("  out", swap.out_s), ("  in", swap.in_s)):
        rows.append((name, about(value), "", "", f"{swap.calls:,} x {formatting.quantity(swap.chunk_bytes, 'B', 3)}"))
    if share.recomputed and share.swapped:
        which = share.order.removeprefix("recompute the ")
        how = f"{which} {share.recomputed:,} recomputed, {share.swapped:,} swapped"
        rows.append(("both at once", about(share.seconds), "", "", how))
    note = f"{plural(query.tokens, 'token')}"
    note += f" after {query.prefix:,} that stay" if query.prefix else ""
    note += f"; blocks of {query.block_size}; interval: 80 % of the estimate, of assumed copies the range that others measured"
    columns = ("method", "time", "80 % interval", "bound", "details")
    return Table("Costs", note, columns, (False, True, True, True, False), tuple(rows))


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else about_range(low, high)


def _three(value: float) -> str:
    return formatting.fixed(value, "s", 3)


def variants(result: Preempted, comparison: Comparison) -> Table:
    """Text table of what-if variants, one change each: bytes, seconds of a swap, break-even link, cheaper way."""
    rows = tuple(
        (
            row.variant,
            formatting.quantity(row.bytes, "B", 3),
            about(row.swap_s),
            rate(row.break_even_link),
            row.cheaper,
            row.why,
        )
        for row in comparison.variants
    )
    note = f"against the same recomputation, {about(comparison.recompute.seconds)}; bytes of a device, one way"
    if result.hardware["devices"] == 1:
        note = note.replace(" of a device", "")
    columns = ("variant", "bytes", "swap", "break-even link", "cheaper", "why")
    return Table("What if: one change at a time", note, columns, (False, True, True, True, False, False), rows)


def _by_tokens(result: Preempted, comparison: Comparison) -> Table:
    """Text table of the seconds of each way by number of evicted tokens."""
    rows = tuple(
        (
            f"{point.tokens:,}",
            *map(about, (point.recompute_s, point.swap_s, point.coalesced_s, point.partial_s)),
            "swap" if point.swap_s <= point.recompute_s else "recompute",
        )
        for point in comparison.curves
    )
    alongside = f"; recomputed alongside {plural(result.query.batch, 'sequence')}" if result.query.batch else ""
    columns = ("tokens", "recompute", "swap", "coalesced", "both at once", "cheaper")
    right = (True, True, True, True, True, False)
    return Table("By length", f"coalesced: blocks gathered, one call each way{alongside}", columns, right, rows)


def answer(result: Preempted) -> Answer:
    """Return the answer of `roofline preempt`."""
    listed = tables(result)
    basis = result.estimate_basis if result.comparison is not None and result.basis == "estimate" else None
    return Answer(
        title=summary.headline(result),
        settings=settings_line(result, *workload(result)),
        verdict=verdict(result),
        passed=None if result.comparison is not None else False,
        parts=(*(replace(table, title="", note="") for table in listed[:1]), tuple(remarks(result))),
        details=tuple(listed[1:]),
        notes=tuple(provenance(result, basis)),
        assumptions=summary.assumptions_table(result),
        hint="-v: by length, and what-if variants    -vv: all assumptions    -o page.html: interactive page",
    )
