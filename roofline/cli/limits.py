"""The answer of `roofline limits`, in sentences and tables."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from roofline import formatting
from roofline.cli.output import Answer, as_markdown, emit, write_stdout
from roofline.cli.page import print_assumptions, print_table
from roofline.cli.text import clean, markdown_cell
from roofline.formatting import plural
from roofline.predict.limits import Limits, Row, limits
from roofline.predict.slo import Allowed
from roofline.report import html, summary
from roofline.report.summary import Table

_SHOWN = 4  # contexts of the comparison


def answer(model: str, hardware: str, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """Give the limits in the form that was asked for; the exit code."""
    result = limits(model, hardware, **given)
    formats = {".md": lambda: _markdown(result), ".html": lambda: _html(result)}
    emit(Answer(result.to_dict(), result.flat, lambda: _show(result), formats), json=json, output=output, quiet=quiet)
    if result.possible:
        return 0
    if not quiet and (json or output is not None):
        sys.stderr.write(clean(f"{sentences(result)[0]}\n"))
    return 1


def sentences(result: Limits) -> list[str]:
    """Which limit is reached first, context by context; and why compute is never."""
    found = []
    for (first, some), group in groupby(result.rows, key=lambda row: (row.first, bool(row.batch))):
        rows = list(group)
        if first is None:
            found.append(f"{_where(rows, result)} nothing limits the batch.")
        elif not some:
            found.append(_none(rows, result))
        else:
            name = {"memory": "memory", "compute": "compute", "slo": "the SLO"}[first]
            batches = [row.batch or 0 for row in rows]
            to = plural(batches[-1], "sequence")
            if batches[0] != batches[-1]:
                to = f"{batches[0]:,} to {to}"
            found.append(f"{_where(rows, result)} {name} is reached first: {to}.")
    never = [row.context for row in result.rows if row.critical_batch is None]
    if never:
        where = "Compute" if len(never) == len(result.rows) else f"From {never[0]:,} cached tokens on compute"
        found.append(f"{where} binds at no batch: {result.critical_batch_why}.")
    return found


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
    where, row = _where(rows, result), rows[0]
    if row.max_batch_memory == 0:
        return f"{where} not even one sequence fits. {summary.verdict(result.unfit) if result.unfit else ''}".rstrip()
    span, limit = (row.ttft, row.slo.ttft) if row.late else (row.tpot, row.slo.tpot)
    what = f"a prompt of {row.context:,} tokens alone takes"
    if not row.late:
        what = f"a step of one sequence at {row.context:,} cached tokens takes"
    took = formatting.quantity((span.best if span is not None else None) or 0.0, "s", 3)
    return f"{where} no batch meets the SLO: {what} {took}, and {formatting.seconds(limit or 0.0)} are allowed."


def limits_table(result: Limits) -> Table:
    """The limits, a row a context."""
    asked, estimated = result.slo.given, result.basis == "estimate"
    columns = ["context", "memory", "compute"]
    if asked:
        columns += ["SLO", *(["8 of 10", "at most"] if estimated else [])]
    columns += ["first", "TPOT", "tokens/s"]
    rows = []
    for row in result.rows:
        cells = [f"{row.context:,}", _limit(row.max_batch_memory), _limit(row.critical_batch)]
        allowed = row.allowed
        if asked:
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
    parts = ["sequences of the whole deployment", "compute: from so many on, compute takes the larger share of a decode step"]
    if result.slo.given:
        asked = [
            f"{name} {formatting.seconds(value)}"
            for name, value in (("TTFT of a prompt alone", result.slo.ttft), ("TPOT", result.slo.tpot))
            if value is not None
        ]
        parts.append(f"SLO: {' and '.join(asked)}, by the {result.basis}")
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


def variants_table(result: Limits) -> Table | None:
    """What memory would hold with one thing another way; None where there is nothing to compare."""
    names = list(dict.fromkeys(row.variant for row in result.variants))
    if len(names) < 2:
        return None
    contexts = [row.context for row in result.rows]
    if len(contexts) > _SHOWN:
        contexts = [contexts[round(index * (len(contexts) - 1) / (_SHOWN - 1))] for index in range(_SHOWN)]
    found = {(row.variant, row.context): row for row in result.variants}
    rows = tuple(
        (
            name,
            formatting.binary(found[name, contexts[-1]].kv_bytes_per_sequence, 3),
            *(_limit(found[name, context].max_batch_memory) for context in contexts),
            found[name, contexts[-1]].why,
        )
        for name in names
    )
    note = f"the largest batch that memory holds; KV: of a sequence of {contexts[-1]:,} cached tokens, a device"
    columns = ("variant", "KV", *(f"{context:,}" for context in contexts), "why")
    return Table("With one thing another way", note, columns, (False, *([True] * (len(contexts) + 1)), False), rows)


def _tables(result: Limits) -> list[Table]:
    return [table for table in (limits_table(result), variants_table(result)) if table is not None]


def _show(result: Limits) -> None:
    """Print to stdout; on a terminal the defaults among the assumptions are left to files and pipes."""
    terminal = sys.stdout.isatty()
    write_stdout(
        clean("\n".join([summary.headline(result), summary.subtitle(result), "", *sentences(result), ""]), keep_lines=True)
    )
    for table in _tables(result):
        print_table(table)
        if not terminal:
            write_stdout("\n")
    print_assumptions(summary.assumptions_table(result))


def _markdown(result: Limits) -> str:
    parts = [
        f"# {markdown_cell(summary.headline(result))}",
        markdown_cell(summary.subtitle(result)),
        *map(markdown_cell, sentences(result)),
    ]
    for table in [*_tables(result), summary.assumptions_table(result)]:
        parts += [f"## {table.title}", *([markdown_cell(table.note)] if table.note else [])]
        parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _html(result: Limits) -> str:
    said = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in sentences(result))
    head = f'<h1>{html.escape(summary.headline(result))}</h1>\n<p class="note">{html.escape(summary.subtitle(result))}</p>\n'
    tables = "".join(html.table(table) for table in [*_tables(result), summary.assumptions_table(result)])
    return html.document(summary.headline(result), head + said + tables)
