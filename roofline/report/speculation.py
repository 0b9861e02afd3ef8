"""Speculative decoding in words and in a table: a round, what it gives, and when it pays."""

from __future__ import annotations

from roofline import formatting
from roofline.formatting import percent, plural
from roofline.predict.result import Duration
from roofline.predict.speculative.result import Speculative
from roofline.report.summary import Table


def sentence(found: Speculative) -> str:
    """What a round gives, and what a token then takes."""
    drafts = f"{found.draft} drafts {plural(found.num_speculative_tokens, 'token')} a round"
    if found.method == "ngram":
        drafts = f"{plural(found.num_speculative_tokens, 'token')} a round are looked up in the text"
    text = (
        f"With speculative decoding {drafts}, each accepted with probability {found.acceptance:g}: a round gives "
        f"{found.tokens_per_round:.3g} tokens a sequence"
    )
    speedup = found.speedup(found.basis)
    if found.tpot.bound is None or speedup is None:
        return f"{text}."
    least = formatting.quantity(found.tpot.bound, "s")
    took = f"TPOT is at least {least}"
    if found.tpot.estimate is not None and found.tpot.low is not None and found.tpot.high is not None:
        between = f"{formatting.seconds(found.tpot.low)} to {formatting.seconds(found.tpot.high)}"
        took = f"TPOT is about {formatting.quantity(found.tpot.estimate, 's')} ({between}; at least {least})"
    pays = f"{speedup:.3g} times as fast as without" if speedup >= 1 else f"{1 / speedup:.3g} times as slow as without"
    return f"{text}, and {took}, {pays}; {_even(found)}."


def _even(found: Speculative) -> str:
    if found.num_speculative_tokens == 0:
        return "nothing is drafted"
    if found.break_even_acceptance is None:
        return "at this batch it would not pay if every token were accepted"
    return f"at this batch it pays from an acceptance of {found.break_even_acceptance:.2f} on"


def table(found: Speculative) -> Table:
    """Times of the parts of a round, and of a token with it and without."""
    drafted = f"draft, {plural(found.num_speculative_tokens, 'step')}" if found.method != "ngram" else "draft"
    rows = (
        (drafted, *_cells(found.drafting)),
        (f"verification of {plural(found.num_speculative_tokens + 1, 'token')}", *_cells(found.verifying)),
        ("round", *_cells(found.round)),
        (f"TPOT: round / {found.tokens_per_round:.4g}", *_cells(found.tpot)),
        ("TPOT without a draft", *_cells(found.plain)),
    )
    note = f"{plural(found.batch, 'sequence')}, {found.context:,} cached tokens a sequence"
    if found.accepted_share is not None:
        note += f"; of the drafted tokens {percent(found.accepted_share, 1)} are accepted, which is the rate that engines log"
    return Table("Speculative decoding", note, ("", "bound", "estimate", "from", "to"), (False, True, True, True, True), rows)


def _cells(span: Duration) -> tuple[str, ...]:
    values = (span.bound, span.estimate, span.low, span.high)
    return tuple("-" if value is None else formatting.seconds(value) for value in values)
