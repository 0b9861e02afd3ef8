"""`roofline limits`: up to which batch, over contexts, and why no further."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import typer

from roofline import formatting
from roofline.cli.options import HardwareOption, ModelArgument, Options, TpotLimit, TtftLimit, changed, given, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import markdown_described, print_described
from roofline.formatting import plural
from roofline.predict.options import DEPLOYMENT, SPECULATION
from roofline.text import Table

if TYPE_CHECKING:
    from roofline.predict.limits import Limits, Row
    from roofline.predict.slo import Allowed

_COMPARED = 4  # contexts of the comparison


def register(app: typer.Typer) -> None:
    """Add the command."""
    contexts = changed(
        "context", help="Tokens cached before the decode step: 1k,4k,32k.", metavar="LIST", default="1k to the model's longest"
    )
    app.command(name="limits")(takes((*DEPLOYMENT, SPECULATION), without=("ignore_capacity",), changed=(contexts,))(limits))


def limits(
    model: ModelArgument,
    hardware: HardwareOption,
    ttft: TtftLimit = None,
    tpot: TpotLimit = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Batch limits over contexts: what memory holds, where compute limits, what an SLO allows, and which comes first.

    Exit code 1 when at no context a sequence fits and is quick enough. Example:
    roofline limits llama-3.1-8b --hardware a100-sxm-80gb --tpot "50 ms"
    """
    from roofline.predict.limits import limits as compute

    result = compute(model, hardware, **given({"ttft": ttft, "tpot": tpot, **options}))
    lines, tables = _sentences(result), [table for table in (_limits_table(result), _variants_table(result)) if table]
    formats = {".md": lambda: markdown_described(result, lines, tables), ".html": lambda: _html(result, lines, tables)}
    out.emit(Result(result.to_dict(), result.flat, lambda: print_described(result, lines, tables), formats))
    if result.possible:
        return 0
    out.verdict(lines[0])
    return 1


def _sentences(result: Limits) -> list[str]:
    """Which limit is reached first, context by context; and why compute is never."""
    lines = []
    for (first, some), group in groupby(result.rows, key=lambda row: (row.first, bool(row.batch))):
        rows = list(group)
        if first is None:
            lines.append(f"{_where(rows, result)} nothing limits the batch.")
        elif not some:
            lines.append(_none(rows, result))
        else:
            name = {"memory": "memory", "compute": "compute", "slo": "the SLO"}[first]
            batches = [row.batch or 0 for row in rows]
            to = plural(batches[-1], "sequence")
            if batches[0] != batches[-1]:
                to = f"{batches[0]:,} to {to}"
            lines.append(f"{_where(rows, result)} {name} is reached first: {to}.")
    never = [row.context for row in result.rows if row.critical_batch is None]
    if never:
        where = "" if len(never) == len(result.rows) else f" from {never[0]:,} cached tokens on"
        lines.append(f"Memory-bound at every batch size{where}: {result.critical_batch_why}.")
    return lines


def _where(rows: list[Row], result: Limits) -> str:
    """The contexts of a group, as the beginning of a sentence."""
    first, last = rows[0].context, rows[-1].context
    if len(rows) == len(result.rows) > 1:
        return "At every context"
    if len(rows) == 1:
        return f"At {first:,} cached tokens"
    return f"From {first:,} to {last:,} cached tokens"


def _none(rows: list[Row], result: Limits) -> str:
    """Why not one sequence is possible, and what would be, where nothing fits at all."""
    from roofline.report import summary

    where, row = _where(rows, result), rows[0]
    if row.max_batch_memory == 0:
        return f"{where} not even one sequence fits. {summary.verdict(result.unfit) if result.unfit else ''}".rstrip()
    span, limit = (row.ttft, row.slo.ttft) if row.late else (row.tpot, row.slo.tpot)
    what = f"a prompt of {row.context:,} tokens alone takes"
    if not row.late:
        what = f"a step of one sequence at {row.context:,} cached tokens takes"
    took = formatting.quantity((span.best if span is not None else None) or 0.0, "s", 3)
    return f"{where} no batch meets the SLO: {what} {took}, and {formatting.seconds(limit or 0.0)} are allowed."


def _limits_table(result: Limits) -> Table:
    """The limits, a row per context."""
    objectives, estimated = result.slo.given, result.basis == "estimate"
    columns = ["context", "memory", "compute"]
    if objectives:
        columns += ["SLO", *(["8 of 10", "at most"] if estimated else [])]
    columns += ["first", "TPOT", "tokens/s"]
    rows = []
    for row in result.rows:
        cells = [f"{row.context:,}", _limit(row.max_batch_memory), _limit(row.critical_batch)]
        allowed = row.allowed
        if objectives:
            cells.append(_limit(allowed.batch))
            if estimated:
                cells += [_between(allowed), _limit(allowed.bound)]
        took = row.tpot.best if row.tpot is not None and row.batch else None
        rate = row.rate("bound") if row.rate("estimate") is None else row.rate("estimate")
        cells += [
            {"slo": "SLO", None: "none"}.get(row.first, str(row.first)),
            "-" if took is None else formatting.seconds(took),
            "-" if rate is None else f"{rate:,.4g}" if rate < 1e4 else f"{rate:,.0f}",
        ]
        rows.append(tuple(cells))
    right = tuple(name != "first" for name in columns)
    return Table("Largest batch by context", _note(result), tuple(columns), right, tuple(rows))


def _note(result: Limits) -> str:
    """What the columns are."""
    parts = ["sequences of the whole deployment", "compute: from this many on, compute takes the larger share of a decode step"]
    if result.slo.given:
        objectives = [
            f"{name} {formatting.seconds(value)}"
            for name, value in (("TTFT of a prompt alone", result.slo.ttft), ("TPOT", result.slo.tpot))
            if value is not None
        ]
        parts.append(f"SLO: {' and '.join(objectives)}, by the {result.basis}")
        if result.basis == "estimate":
            parts.append("8 of 10: by the ends of its interval; at most: by the bound, which no kernel beats")
    parts.append("TPOT and tokens/s at the limit that is reached first")
    return "; ".join(parts)


def _between(allowed: Allowed) -> str:
    """What the ends of the interval allow."""
    if allowed.low == allowed.high:
        return "" if allowed.low is None else f"{allowed.low:,}"
    return f"{_limit(allowed.low)}-{_limit(allowed.high)}"


def _limit(value: int | None) -> str:
    """A limit in a cell."""
    return "none" if value is None else f"{value:,}"


def _variants_table(result: Limits) -> Table | None:
    """What memory would hold with one change at a time; None if there is nothing to compare."""
    names = list(dict.fromkeys(row.variant for row in result.variants))
    if len(names) < 2:
        return None
    contexts = [row.context for row in result.rows]
    if len(contexts) > _COMPARED:
        contexts = [contexts[round(index * (len(contexts) - 1) / (_COMPARED - 1))] for index in range(_COMPARED)]
    cells = {(row.variant, row.context): row for row in result.variants}
    rows = tuple(
        (
            name,
            formatting.binary(cells[name, contexts[-1]].kv_bytes_per_sequence, 3),
            *(_limit(cells[name, context].max_batch_memory) for context in contexts),
            cells[name, contexts[-1]].why,
        )
        for name in names
    )
    note = f"the largest batch that memory holds; KV: of a sequence of {contexts[-1]:,} cached tokens, per device"
    columns = ("variant", "KV", *(f"{context:,}" for context in contexts), "why")
    return Table("What if: one change at a time", note, columns, (False, *([True] * (len(contexts) + 1)), False), rows)


def _html(result: Limits, sentences: list[str], tables: list[Table]) -> str:
    from roofline.report import html, summary

    head = f'<h1>{html.escape(summary.headline(result))}</h1>\n<p class="note">{html.escape(summary.subtitle(result))}</p>\n'
    paragraphs = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in sentences)
    drawn = "".join(html.table(table) for table in [*tables, summary.assumptions_table(result)])
    return html.document(summary.headline(result), head + paragraphs + drawn)
