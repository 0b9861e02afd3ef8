"""Limits of the batch as sentences, text tables, figures and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from roofline import formatting
from roofline.formatting import about, about_number, plural
from roofline.predict.limits import BatchLimits, Row
from roofline.predict.memory import UNLIMITED
from roofline.predict.slo import Allowed, Slo
from roofline.report import summary
from roofline.report.analysis.batch_figures import limit_line
from roofline.report.analysis.view import NOT_MODELLED
from roofline.report.answer import provenance, settings_line
from roofline.report.cells import about_count, about_time, number_cell, table, text_cell, text_table, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Section, Series, Tile, View, Zone
from roofline.report.figure import Table as PageTable
from roofline.report.page import static_page
from roofline.text import Answer, Table

_T = TypeVar("_T")
_COMPARED = 4
"""Contexts of the comparison."""
_ROWS = 8
"""Contexts in the table of one screen."""


def answer(result: BatchLimits) -> Answer:
    """Return the answer of `roofline limits`."""
    objectives = [_objectives(result.slo)] if result.slo.given else []
    compute = _compute(result)
    reason = [("Compute", f"{compute[0].upper()}{compute[1:]}.")] if compute else []
    lines = [("Columns", _legend(result)), ("KV cache", _cache(result)), *reason, *_what_if(result)]
    listed = _limits_table(result)
    return Answer(
        title=summary.headline(result),
        settings=settings_line(result, *objectives),
        verdict=" ".join(_limited(result)),
        passed=result.possible,
        brief=(replace(listed, title="", note="", rows=_some(listed.rows, _ROWS)), tuple(lines)),
        details=tuple(filter(None, (listed, _variants_table(result), tuple(reason)))),
        notes=tuple(provenance(result, result.estimate_basis)),
        assumptions=summary.assumptions_table(result),
        hint="-v: full tables and what-if variants    -vv: all assumptions",
    )


def _some(rows: Sequence[_T], number: int) -> tuple[_T, ...]:
    """At most a number of rows, the first and the last among them, the others at equal distances."""
    if len(rows) <= number:
        return tuple(rows)
    return tuple(rows[round(index * (len(rows) - 1) / (number - 1))] for index in range(number))


def _cache(result: BatchLimits) -> str:
    """What a sequence holds at the shortest and the longest context."""
    ends = dict.fromkeys((result.rows[0], result.rows[-1]))
    texts = [
        f"{formatting.binary(row.kv_bytes_per_sequence + row.state_bytes_per_sequence, 3)} at {row.context:,} tokens"
        for row in ends
    ]
    device = " and device" if result.hardware["devices"] > 1 else ""
    return f"per sequence{device}: {', '.join(texts)}"


def _what_if(result: BatchLimits) -> list[tuple[str, str]]:
    """The batch that memory holds with the first change of the comparison, at its ends; nothing without changes."""
    ends = dict.fromkeys((result.rows[0].context, result.rows[-1].context))
    names = list(dict.fromkeys(row.variant for row in result.variants))[1:]
    if not names:
        return []
    held = {row.context: _limit(row.max_batch_memory) for row in result.variants if row.variant == names[0]}
    first, *last = (f"{held[context]}{{}} at {context:,}{{}}" for context in ends)
    batches = ", ".join([first.format(" sequences", " tokens"), *(one.format("", "") for one in last)])
    return [("What if", f"With {names[0]}, memory holds {batches}.")]


def sentences(result: BatchLimits) -> list[str]:
    """Which limit is reached first, context by context; and why compute is never."""
    compute = _compute(result)
    return [*_limited(result), *([f"{compute[0].upper()}{compute[1:]}."] if compute else [])]


def _limited(result: BatchLimits) -> list[str]:
    """What limits the batch, and to how many sequences, in a sentence for each range of contexts."""
    lines = []
    for (first, some), group in groupby(result.rows, key=lambda row: (row.first, bool(row.batch))):
        rows = list(group)
        if first is None:
            lines.append(f"{_where(rows, result)}, nothing limits the batch.")
        elif not some:
            lines.append(_none(rows, result))
        else:
            batches = [row.batch or 0 for row in rows]
            if first == "compute":
                from_batch = f"{batches[0]:,}" if batches[0] == batches[-1] else f"{batches[0]:,} to {batches[-1]:,}"
                lines.append(f"{_where(rows, result)}, a decode step becomes compute-bound at batch {from_batch}.")
                continue
            name = {"memory": "memory limits", "slo": "the SLO limits"}[first]
            if batches[0] == batches[-1]:
                lines.append(f"{_where(rows, result)}, {name} the batch to {plural(batches[-1], 'sequence')}.")
                continue
            ends = f"between {min(batches):,} and {max(batches):,} sequences"
            lines.append(f"{_where(rows, result)}, {name} the batch to {ends}.")
    return lines


def _compute(result: BatchLimits) -> str:
    """Where a decode step is memory-bound at every batch size, and why; empty where it is nowhere."""
    never = [row.context for row in result.rows if row.critical_batch is None]
    if not never:
        return ""
    where = "" if len(never) == len(result.rows) else f" from a context of {never[0]:,} tokens"
    return f"decode is memory-bound at every batch size{where}: {result.critical_batch_why}"


def _where(rows: list[Row], result: BatchLimits) -> str:
    """The contexts of a group."""
    first, last = rows[0].context, rows[-1].context
    if len(rows) == 1:
        return f"At a context of {first:,} tokens"
    return f"From {first:,} to {last:,} tokens of context"


def _none(rows: list[Row], result: BatchLimits) -> str:
    """Why not one sequence is possible, and what would be, where nothing fits at all."""
    where, row = _where(rows, result), rows[0]
    if row.max_batch_memory == 0:
        needed = summary.verdict(result.unfit).replace("Does not fit: needs", "The deployment needs") if result.unfit else ""
        return f"{where}, not even one sequence fits. {needed}".rstrip()
    span, limit = (row.ttft, row.slo.ttft) if row.late else (row.tpot, row.slo.tpot)
    took = formatting.quantity((span.best if span is not None else None) or 0.0, "s", 3)
    alone = f"one prompt of {row.context:,} tokens takes {took}"
    if not row.late:
        alone = f"a decode step of one sequence takes {took} at a context of {row.context:,} tokens"
    return f"{where}, no batch meets the SLO: {alone} (limit {formatting.seconds(limit or 0.0)})."


def _limits_table(result: BatchLimits) -> Table:
    """The limits, a row per context."""
    objectives, estimated = result.slo.given, result.basis == "estimate"
    columns = ["context", "in memory", "compute-bound"]
    if objectives:
        columns += ["SLO", *(["80 % interval", "at the bound"] if estimated else [])]
    columns += ["limit", "TPOT", "tok/s"]
    rows = []
    for row in result.rows:
        cells = [f"{row.context:,}", _limit(row.max_batch_memory), _limit(row.critical_batch, "never")]
        allowed = row.allowed
        if objectives:
            cells.append(_limit(allowed.batch))
            if estimated:
                cells += [_between(allowed), _limit(allowed.bound)]
        took = row.tpot.best if row.tpot is not None and row.batch else None
        rate = row.rate("bound") if row.rate("estimate") is None else row.rate("estimate")
        form = about if row.rate("estimate") is not None else formatting.seconds
        cells += [
            {"slo": "SLO", None: "none"}.get(row.first, str(row.first)),
            formatting.ABSENT if took is None else form(took),
            formatting.ABSENT if rate is None else about_number(rate),
        ]
        rows.append(tuple(cells))
    right = tuple(name != "limit" for name in columns)
    return Table("Largest batch by context", _note(result), tuple(columns), right, tuple(rows))


def _legend(result: BatchLimits) -> str:
    """What the columns are, in sentences for one screen."""
    batches = "Batches: largest in memory, smallest compute-bound"
    if result.slo.given:
        batches += ", largest within the SLO" + (" (at the bound: if kernels reached it)" if result.basis == "estimate" else "")
    return f"Context: cached tokens per sequence. {batches}. TPOT, tok/s: at the limit."


def _note(result: BatchLimits) -> str:
    """What the columns are."""
    parts = ["batch sizes of the whole deployment", "in memory: the largest that fits", "compute-bound: the smallest that is"]
    if result.slo.given:
        objectives = [
            f"{name} {formatting.seconds(value)}"
            for name, value in (("TTFT of a prompt alone", result.slo.ttft), ("TPOT", result.slo.tpot))
            if value is not None
        ]
        parts.append(f"SLO: {' and '.join(objectives)}, by the {result.basis}")
        if result.basis == "estimate":
            parts.append("80 % interval: of that batch; at the bound: the batch if kernels reached the roofline bound")
    parts.append("limit: the one that is reached first, with its TPOT and tok/s")
    return "; ".join(parts)


def _between(allowed: Allowed) -> str:
    """What the ends of the interval allow."""
    if allowed.low == allowed.high:
        return "" if allowed.low is None else f"{allowed.low:,}"
    return f"{_limit(allowed.low)} to {_limit(allowed.high)}"


def _limit(value: int | None, without: str = "no limit") -> str:
    """A limit in a cell."""
    return without if value is None else f"{value:,}"


def _variants_table(result: BatchLimits) -> Table | None:
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


def tables(result: BatchLimits) -> list[Table]:
    """Return the limits by context, and those of what-if variants."""
    return [listed for listed in (_limits_table(result), _variants_table(result)) if listed is not None]


def figure(result: BatchLimits) -> Figure:
    """Return the line plot of the limits against context: memory, compute and, with objectives, the SLO."""
    lines = (
        ("memory", "memory holds", [row.max_batch_memory for row in result.rows]),
        ("compute", "compute-bound from", [row.critical_batch for row in result.rows]),
        ("slo", f"{_objectives(result.slo)} allow", [row.allowed.batch for row in result.rows] if result.slo.given else []),
    )
    contexts = [row.context for row in result.rows]
    unfit = next((row.context for row in result.rows if row.max_batch_memory == 0), None)
    late = next((row.context for row in result.rows if row.allowed.batch == 0 and row.max_batch_memory != 0), None)
    zones = [Zone(text=f"no batch meets {_objectives(result.slo)}", role="limit", x0=late, x1=unfit)] if late else []
    zones += [Zone(text="not one sequence fits", role="limit", x0=unfit)] if unfit else []
    return Figure(
        key="batch-limits",
        title="Batch limits",
        note="The lowest line is reached first as the batch grows.",
        x=Axis(title="cached tokens", scale="log", unit="tokens"),
        y=Axis(title="largest batch, sequences", scale="log", unit="sequences"),
        series=tuple(limit_line(*line[:2], contexts, line[2]) for line in lines if any(line[2])),
        zones=tuple(zones),
        table=table(
            "batch-limits-rows",
            "Batch limits",
            "in sequences of the whole deployment",
            ("cached tokens", "memory", "compute", "SLO", "reached first"),
            [
                (
                    whole(row.context),
                    whole(row.max_batch_memory),
                    whole(row.critical_batch),
                    whole(row.allowed.batch),
                    text_cell(row.first or "none"),
                )
                for row in result.rows
            ],
        ),
    )


def _objectives(slo: Slo) -> str:
    """The objectives, such as "TTFT 1 s and TPOT 50 ms"."""
    named = (("TTFT", slo.ttft), ("TPOT", slo.tpot))
    return " and ".join(f"{name} {formatting.seconds(limit)}" for name, limit in named if limit is not None)


# The page


def limits_page(result: BatchLimits, line: str) -> str:
    """Return the page of `roofline limits` as a complete HTML document; `line` is the command that prints the same."""
    return static_page(view(result, line), f"{line} --output limits.html")


def view(result: BatchLimits, line: str) -> View:
    """Return everything that the page shows."""
    drawn = [figure(result), rate_figure(result)] if result.possible else []
    varied = variants_figure(result) if result.possible else None
    sections = [Section(key=one.key, title=one.title, note="", figure=one, tables=(), half=True) for one in drawn if one]
    if varied is not None:
        sections.append(Section(key="variants", title=varied.title, note="", figure=varied, tables=(_reasons_table(result),)))
    for key, listed in (("limits", _limits_table(result)), ("what-if", _variants_table(result))):
        if listed is not None and not (key == "what-if" and varied is not None):
            tables = (text_table(f"{key}-rows", replace(listed, title="Rows")),)
            sections.append(Section(key=key, title=listed.title, note="", figure=None, tables=tables, folded=True))
    return View(
        title=f"Batch limits: {summary.headline(result)}",
        subtitle=answer(result).settings,
        answer=(*sentences(result), summary.subtitle(result)),
        fits=result.possible,
        error="",
        tiles=_tiles(result),
        commands=(Command(label="Reproduce in a terminal", text=line),),
        sections=tuple(sections),
        assumptions=text_table("assumptions", replace(summary.assumptions_table(result), title="What is assumed")),
        not_modelled=NOT_MODELLED,
        verdict=" ".join(_limited(result)[:_VERDICT]),
    )


_VERDICT = 2
"""Sentences of the verdict, at most; all are among the words."""


def _tiles(result: BatchLimits) -> tuple[Tile, ...]:
    """The largest batch at the shortest, a middle and the longest context; where compute limits; the cache of a sequence."""
    rows = _some(result.rows, 3)
    tiles = [
        Tile(label=f"Max batch at {_short(row.context)}", meaning="cached tokens", cell=_usable(row), note=_at(row))
        for row in dict.fromkeys(rows)
    ]
    linear = result.critical_batch_linear
    step = "the whole decode step: never"
    if critical := [row for row in result.rows if row.critical_batch is not None]:
        step = f"the whole decode step from {critical[-1].critical_batch:,} at {_short(critical[-1].context)}"
    tiles.append(
        Tile(
            label="Compute-bound from",
            meaning="batch, linear layers",
            cell=text_cell("never") if linear is None else whole(linear),
            note=step,
        )
    )
    longest = result.rows[-1]
    held = longest.kv_bytes_per_sequence + longest.state_bytes_per_sequence
    device = " per device" if result.hardware["devices"] > 1 else ""
    tiles.append(
        Tile(
            label="KV cache",
            meaning="of a sequence",
            cell=Cell(text=formatting.binary(held, 3), value=held),
            note=f"at {longest.context:,} cached tokens{device}",
        )
    )
    return tuple(tiles)


def _short(context: int) -> str:
    return f"{context // 1024:,}k" if context % 1024 == 0 else f"{context:,}"


def _usable(row: Row) -> Cell:
    return text_cell("no limit") if row.usable >= UNLIMITED else whole(row.usable)


def _at(row: Row) -> str:
    """What limits that batch, and what a step of it takes."""
    held, allowed = row.max_batch_memory, row.allowed.batch
    if held is None and allowed is None:
        return "nothing limits it"
    by = "memory" if allowed is None or (held is not None and held <= allowed) else _objectives(row.slo)
    if not row.usable or row.usable != row.batch or row.tpot is None or row.tpot.best is None:
        return f"limited by {by}"
    rate = row.rate("bound") if row.rate("estimate") is None else row.rate("estimate")
    return f"limited by {by}; TPOT {about(row.tpot.best)}, {about_number(rate or 0.0)} tok/s"


def rate_figure(result: BatchLimits) -> Figure | None:
    """Return the line plot of tokens/s at the limiting batch against context; None without times."""
    timed = [row for row in result.rows if row.rate("bound") is not None]
    if not timed:
        return None
    contexts = tuple(row.context for row in timed)
    lines = [("bound", "bare-bound"), *([("estimate", "tpot")] if result.basis == "estimate" else [])]
    series = [
        Series(
            name=name,
            kind="line",
            role=role,
            x=contexts,
            y=tuple(row.rate(name) for row in timed),
            labels=tuple(
                f"{row.context:,} cached tokens, batch {row.batch or 0:,}: {name} {about_number(row.rate(name) or 0.0)} tok/s"
                for row in timed
            ),
        )
        for name, role in lines
    ]
    if result.basis == "estimate":
        low, high = (tuple(row.rate(end) or 0.0 for row in timed) for end in ("high", "low"))
        likely = tuple(row.rate("estimate") for row in timed)
        series.insert(1, Series(name="80 % interval", kind="band", role="tpot", x=contexts, y=likely, low=low, high=high))
    rows = [
        (
            whole(row.context),
            whole(row.batch),
            about_time(row.tpot.estimate if row.tpot is not None else None),
            about_count(row.rate("estimate")),
            about_count(row.rate("high")),
            about_count(row.rate("low")),
            number_cell(row.rate("bound")),
        )
        for row in timed
    ]
    names = ("cached tokens", "batch", "TPOT", "tok/s", "from", "to", "bound")
    return Figure(
        key="limit-rates",
        title="Throughput at the limit",
        note="Decode at the batch of the limit that is reached first.",
        x=Axis(title="cached tokens", scale="log", unit="tokens"),
        y=Axis(title="tok/s", scale="log"),
        series=tuple(series),
        table=table("limit-rates-rows", "Throughput at the limit", "", names, rows),
    )


def _reasons_table(result: BatchLimits) -> PageTable:
    """What each variant changes, and the KV cache of a sequence with it."""
    longest = max(row.context for row in result.variants)
    rows = [
        (text_cell(row.variant), Cell(text=formatting.binary(row.kv_bytes_per_sequence, 3), value=row.kv_bytes_per_sequence),
         text_cell(row.why))
        for row in result.variants
        if row.context == longest
    ]  # fmt: skip
    note = f"KV: of a sequence of {longest:,} cached tokens, per device"
    return table("variants-why", "Variants", note, ("variant", "KV", "what changes"), rows)


def variants_figure(result: BatchLimits) -> Figure | None:
    """Return the line plot of what memory holds against context, a line per what-if variant; None without any."""
    names = list(dict.fromkeys(row.variant for row in result.variants))
    if len(names) < 2:
        return None
    contexts = [row.context for row in result.rows]
    held = {(row.variant, row.context): row.max_batch_memory for row in result.variants}
    lines = [limit_line("estimate", name, contexts, [held[name, context] for context in contexts]) for name in names]
    rows = [(whole(context), *(whole(held[name, context]) for name in names)) for context in contexts]
    return Figure(
        key="variants",
        title="What if: one change at a time",
        note="The largest batch that memory holds.",
        x=Axis(title="cached tokens", scale="log", unit="tokens"),
        y=Axis(title="largest batch, sequences", scale="log", unit="sequences"),
        series=tuple(replace(line, variant=at, short=()) for at, line in enumerate(lines) if line.x),
        table=table("variants-rows", "Largest batch by variant", "", ("cached tokens", *names), rows),
    )
