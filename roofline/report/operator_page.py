"""One operator on one device, for people: its answer on one screen, its figures, and its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from roofline import formatting
from roofline.formatting import about, about_range, fixed, percent
from roofline.predict.efficiency.estimate import BASIS_TEXTS
from roofline.predict.efficiency.form import WorkGrid
from roofline.predict.op import OpPoint, OpResult, OpSweep, term_texts
from roofline.report import summary
from roofline.report.analysis.view import time_tile
from roofline.report.cells import amount, number_cell, seconds, table, text_cell, whole
from roofline.report.figure import Axis, Cell, Column, Command, Figure, Mark, Section, Series, Tile, View
from roofline.report.figure import Table as PageTable
from roofline.report.page import static_page
from roofline.text import NO_BREAK, Answer, Table

if TYPE_CHECKING:
    from roofline.predict.explain.explanation import Explanation

_ROWS = 14
"""Of a sweep that are listed on a screen."""
_OVERLAP, _MISSING = 1.02, 0.95
"""Parts of an estimate whose sum is more than that many times the whole overlap; of less than that some have no name."""
_POINT = 0.15
"""Area of a single point."""
_EDGE = 0.995
"""Share of a tile's outputs that exist, below which the rest is worth a word."""
_MARGIN, _SLOPE = 3.0, 30.0
"""By so much a roof goes on beyond the outermost point, and at least below the ridge point, so that its slope is seen."""
_CONTENT = {
    "weight_bytes": "weights", "activation_bytes": "activations", "kv_read_bytes": "KV read", "kv_write_bytes": "KV written",
    "state_read_bytes": "state read", "state_write_bytes": "state written",
}  # fmt: skip
_NAMES = {
    "matrix_flops": "matrix FLOP", "vector_flops": "vector FLOP", "weight_bytes": "weights", "activation_bytes": "activations",
    "kv_read_bytes": "KV read", "kv_write_bytes": "KV written", "state_read_bytes": "state read",
    "state_write_bytes": "state written", "link_bytes": "link bytes", "messages": "messages", "bytes": "bytes",
    "matrix_intensity": "intensity", "arithmetic_intensity": "intensity", "time_bound": "bound",
}  # fmt: skip
NOT_MODELLED = (
    "What other kernels leave in the caches, and what they do to clocks.",
    "Fusion with the operators before and after.",
)


def answer(result: OpResult) -> Answer:
    """Return the answer of `roofline op`: of one shape its times and what limits them, of a sweep the curve."""
    notes = tuple((note.name, str(note.value), note.origin, note.why) for note in result.assumptions)
    listed = Table("Assumptions", "", ("name", "value", "origin", "why"), (False,) * 4, notes)
    if result.sweep is not None:
        return Answer(
            title=title(result), settings=settings(result), verdict=" ".join(sweep_sentences(result)),
            parts=(sweep_table(result.sweep),), details=(sweep_table(result.sweep, None),),
            notes=(("Estimate", basis(result)),), assumptions=listed,
        )  # fmt: skip
    return Answer(
        title=title(result),
        settings=settings(result),
        parts=(times_table(result), tuple(lines(result))),
        details=(tuple(formula_lines(result)),),
        assumptions=listed,
    )


def title(result: OpResult) -> str:
    """Return the title line: the operator, its dimensions, the device."""
    return f"{shape_text(result)} on {result.hardware['title']}"


def shape_text(result: OpResult) -> str:
    """Return the operator and the dimensions that were given, but for the one that is swept."""
    left_out = {"context", *result.unstated}
    if result.sweep is not None:
        left_out |= {result.sweep.dimension, *(["kv_len"] if result.sweep.dimension == "context" else [])}
    dims = (f"{name}={_count(value)}" for name, value in result.dims.items() if name not in left_out)
    return " ".join([result.operator, *dims])


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def settings(result: OpResult) -> str:
    """Return the formats and whose kernels, in one line."""
    formats = result.formats
    kv = f", {formats['kv']} KV cache" if result.cost.kv_read_bytes else ""
    weights = f"{formats['weight']} weights, " if result.cost.weight_bytes else ""
    product = f" · products in {result.dtype}" if result.cost.matrix_flops else ""
    return f"{weights}{formats['activation']} activations{kv}{product}"


def times_table(result: OpResult) -> Table:
    """Return the table of times: alone, and in an engine's step."""
    rows = []
    for label, time, alone in (("isolated call", result.time, True), ("within a step", result.in_step, False)):
        if not alone and (time.estimate is None or time.estimate == result.time.estimate):
            continue  # nothing of it passes in the background
        likely = formatting.ABSENT if time.estimate is None else about(time.estimate)
        between = "" if time.low is None or time.high is None or time.low == time.high else about_range(time.low, time.high)
        ends = [fixed(time.bound or 0.0, "s", 3), fixed(time.floor, "s", 3) if time.floor else formatting.ABSENT]
        rest = (*ends, result.limited_by, _reached(result)) if alone else ("",) * 4
        rows.append((label, likely, between, *rest))
    columns = ("", "estimate", "80 % interval", "bound", "floor", "limited by", "achieved")
    return Table("", "", columns, (False, True, True, True, True, False, True), tuple(rows))


def _reached(point: OpPoint) -> str:
    """The rate at which it does what it is for: sends, multiplies, or moves bytes."""
    best, cost = point.time.best, point.cost
    if not best:
        return formatting.ABSENT
    if cost.link_bytes:
        return about(cost.link_bytes / best, "B/s")
    return about(cost.matrix_flops / best, "FLOP/s") if cost.matrix_flops else about(cost.bytes / best, "B/s")


def lines(result: OpResult) -> list[tuple[str, str]]:
    """Return labels and texts: FLOP, bytes, intensity, what limits, tiles, and what the estimate rests on."""
    cost = result.cost
    kinds = (("matrix", cost.matrix_flops), ("vector", cost.vector_flops))
    flops = ", ".join(f"{kind} {formatting.quantity(count, 'FLOP', 4)}" for kind, count in kinds if count)
    held = content(result)
    parts = ", ".join(f"{name} {formatting.quantity(size, 'B')}" for name, size in held)
    listed = [
        *([("FLOP", flops)] if flops else []),
        ("Bytes", formatting.quantity(cost.bytes, "B") + (f": {parts}" if len(held) > 1 else "")),
    ]
    if cost.link_bytes:
        messages = f", in {formatting.plural(cost.messages, 'message')}" if cost.messages > 1 else ""
        sent = formatting.quantity(cost.link_bytes, "B")
        listed.append(("Link", f"{sent} sent per device over {result.hardware['link']}{messages}"))
    else:
        listed.append(("Intensity", _intensity(result)))
    if (terms := term_texts(result.terms)) and len(terms) > 1:
        total, whole_time = sum(value for _, value in terms), result.time.best or 0.0
        rest = [("other overhead", whole_time - total)] if total < _MISSING * whole_time else []
        overlap = (
            f"; the estimate is less than their sum, {about(total)}, as they overlap" if total > _OVERLAP * whole_time else ""
        )
        listed.append(("Parts", ", ".join(f"{name} {about(value)}" for name, value in [*terms[:4], *rest]) + overlap))
    shares = (("MFU", result.mfu), ("MBU", result.mbu), ("link", result.link_share))
    listed.append(("Utilization", ", ".join(f"{name} {percent(share, digits=2)}" for name, share in shares if share)))
    if result.grid is not None:
        listed.append((result.grid.kind.capitalize(), grid_text(result.grid)))
    listed.append(("Estimate", basis(result)))
    if result.in_step.estimate is not None and result.in_step.estimate != result.time.estimate:
        listed.append(("Within a step", "the preceding kernel hides part of the launch"))
    return listed


def content(result: OpResult) -> list[tuple[str, float]]:
    """Return the bytes of device memory by what they hold, none of 0."""
    return [(name, getattr(result.cost, field)) for field, name in _CONTENT.items() if getattr(result.cost, field)]


def _intensity(result: OpResult) -> str:
    ridge = result.hardware["ridge_point"]
    if result.intensity is None:
        return "no bytes"
    kind = "" if result.cost.matrix_flops else "vector "
    text = f"{formatting.number(result.intensity, 3)} {kind}FLOP/byte"
    if ridge:
        text += f" (ridge point {formatting.number(ridge, 3)})"
    text += f": {_BINDS[result.bound_by]}"
    if result.compute_bound_from is None:
        return text
    name, start = result.compute_bound_from
    if not start:
        return f"{text} at every {name}"
    return (
        f"{text} (from {name} = {start:,})"
        if result.bound_by == "compute"
        else f"{text} (compute-bound from {name} = {start:,})"
    )


def grid_text(grid: WorkGrid) -> str:
    """Return tiles or thread blocks and their waves as text."""
    waves = f"{formatting.number(grid.waves, 3)} {'wave' if grid.waves == 1 else 'waves'} on {grid.units:,.0f} SMs"
    if grid.kind == "tiles":
        text = f"{grid.count / grid.split:,.0f} of {grid.rows:,.0f} x {grid.columns:,.0f} outputs"
        split = f", k split in {grid.split:,.0f}" if grid.split > 1 else ""
        edge = f"; {percent(1 - grid.used, 0)} beyond the edges" if grid.used < _EDGE else ""
        return f"{text}{split}: {waves}{edge}"
    split = f", keys split in {grid.split:,.3g}" if grid.split > 1 else ""
    return f"{grid.count:,.0f} of {grid.rows:,.0f} query rows x {grid.columns:,.0f} keys{split}: {waves}"


def basis(result: OpResult) -> str:
    """Return what the estimate rests on, with its error."""
    if result.estimate_basis is None:
        return "none: no measured kernels apply to this hardware"
    text = BASIS_TEXTS.get(result.estimate_basis, "from kernels measured on this accelerator")
    if result.estimate_basis == "given":
        return text
    named = result.estimate_source and result.estimate_basis not in ("prior", "published")
    source = f" ({result.estimate_source})" if named else ""
    error = (
        "" if result.median_error is None else f"; median error {percent(result.median_error, 0)}".replace(" %", f"{NO_BREAK}%")
    )
    if not result.estimate_source:
        return "no similar kernel was measured: launch time plus the time of each resource; within a factor of 3"
    return f"{text}{source}{error}"


def formula_lines(result: OpResult) -> list[tuple[str, str]]:
    """Return the formulas by name, with numbers put in, as `explain` writes them; of the bound with the times themselves."""
    listed = []
    for part in result.formulas:
        numbers = part.substituted
        if part.subject == "time_bound":
            times = (result.times.matrix, result.times.memory, result.times.vector)
            each = [formatting.seconds(value) for value in times if value]
            numbers = f"max({', '.join(each)})" if len(each) > 1 else "".join(each)
        value = _evaluated(part)
        result_text = f" = {value}" if value and value != numbers else ""
        listed.append((_NAMES.get(part.subject, part.subject), f"{part.formula} = {numbers}{result_text}"))
    return listed


def _evaluated(part: Explanation) -> str:
    """The value of a formula; "" without one."""
    if part.value is None:
        return ""
    if part.unit == "s":
        return formatting.seconds(part.value)
    unit = "" if part.unit in ("1", "messages") else f" {part.unit}"
    return formatting.in_formula(part.value, part.unit) or f"{formatting.number(part.value, 3)}{unit}"


def sweep_table(sweep: OpSweep, most: int | None = _ROWS) -> Table:
    """Return the curve as a table; of more points than `most` (None: any number) evenly chosen ones."""
    points, note = list(sweep.points), ""
    if most is not None and len(points) > most:
        chosen = sorted({round(at * (len(points) - 1) / (most - 1)) for at in range(most)})
        note = f"{len(chosen)} of {len(points)} points; all: -v, or -o FILE.csv"
        points = [points[at] for at in chosen]
    matrix = ["FLOP/byte"] if points[0].cost.matrix_flops else []
    columns = (sweep.dimension, *matrix, "bound", "estimate", "80 % interval", "bound by", "limited by", "achieved")
    rows = tuple(_sweep_row(sweep.dimension, point) for point in points)
    return Table("", note, columns, tuple(not name.endswith(" by") for name in columns), rows)


def _sweep_row(dimension: str, point: OpPoint) -> tuple[str, ...]:
    time = point.time
    between = "" if time.low is None or time.high is None else about_range(time.low, time.high)
    return (
        _count(point.dims[dimension]),
        *([formatting.number(point.intensity or 0.0, 3)] if point.cost.matrix_flops else []),
        fixed(time.bound or 0.0, "s", 3),
        formatting.ABSENT if time.estimate is None else about(time.estimate),
        between,
        point.bound_by,
        point.limited_by,
        _reached(point),
    )


_BINDS = {"compute": "compute-bound", "memory": "memory-bound", "link": "link-bound"}


def sweep_sentences(result: OpResult) -> list[str]:
    """Return where what binds changes, and up to where launches and latency take most of the time, in sentences."""
    sweep = result.sweep
    if sweep is None:
        return []
    name, points = sweep.dimension, sweep.points
    sentences = [
        f"{_BINDS[after].capitalize()} from {name} = {at:,}; below that, {_BINDS[before]}."
        for at, before, after in sweep.crossovers
    ]
    if not sentences:
        low, high = points[0].dims[name], points[-1].dims[name]
        text = f"{_BINDS[points[0].bound_by].capitalize()} from {name} = {low:,} to {high:,}"
        ridge = result.hardware["ridge_point"]
        if points[0].bound_by == "memory" and ridge and result.cost.matrix_flops:
            most = max(point.intensity or 0.0 for point in points)
            text += f": at most {formatting.number(most, 3)} FLOP/byte, ridge point {formatting.number(ridge, 3)}"
        sentences = [f"{text}."]
    small = [point.dims[name] for point in points if point.limited_by == "overhead"]
    if small:
        sentences.append(f"Launch and latency are the largest part of the estimate up to {name} = {max(small):,}.")
    return sentences


# Figures


def figures(result: OpResult) -> dict[str, Callable[[], Figure]]:
    """Return functions that make the figures, by name: the roofline, the curve of a sweep, what each resource does."""
    made: dict[str, Callable[[], Figure]] = {}
    if result.cost.matrix_flops:
        made["roofline"] = partial(roofline_figure, result)
    if result.sweep is not None:
        made["curve"] = partial(curve_figure, result, result.sweep)
    made["resources"] = partial(resources_figure, result)
    return made


def roofline_figure(result: OpResult) -> Figure:
    """Return the roofline plot: matrix FLOP/s against matrix FLOP/byte of the operator, or of all points of its sweep."""
    points = result.sweep.points if result.sweep is not None else (result,)
    drawn = [(point, point.intensity, point.time.best) for point in points if point.intensity and point.time.best]
    low = min(min(at for _, at, _ in drawn) / _MARGIN, result.hardware["ridge_point"] / _SLOPE)
    high = max(*(at for _, at, _ in drawn), result.hardware["ridge_point"]) * _MARGIN
    peak, bandwidth = result.hardware["peak_flops"], result.hardware["bandwidth"]
    edge = peak / bandwidth
    xs = sorted({low, min(max(edge, low), high), high})
    ceiling = f"{result.dtype} datasheet"
    rates = f"{formatting.quantity(peak, 'FLOP/s', 3)}, {formatting.quantity(bandwidth, 'B/s', 3)}"
    basis = "estimate" if result.time.estimate is not None else "bound"
    series = [
        Series(
            name=f"{result.hardware['title']}, {result.dtype}: {rates}",
            kind="line",
            role="roof",
            x=tuple(xs),
            y=tuple(min(peak, bandwidth * x) for x in xs),
            short=(*("" for _ in xs[1:]), ceiling),
        ),
        Series(
            name=f"{shape_text(result)}: {basis}",
            kind="points" if result.sweep is None else "line",
            role="estimate",
            x=tuple(at for _, at, _ in drawn),
            y=tuple(point.cost.matrix_flops / took for point, _, took in drawn),
            size=tuple(_POINT for _ in drawn) if result.sweep is None else (),
            labels=tuple(_label(result, point) for point, _, _ in drawn),
            short=tuple(_short(result, point) for point, _, _ in drawn),
        ),
    ]
    name = result.sweep.dimension if result.sweep is not None else result.operator
    rows = [
        (
            text_cell(_short(result, point)),
            number_cell(at),
            amount(point.cost.matrix_flops / took, "FLOP/s"),
            seconds(point.time.bound),
            seconds(took),
            text_cell(point.bound_by),
        )
        for point, at, took in drawn
    ]
    return Figure(
        key="roofline",
        title="Roofline",
        note="Matrix FLOP per byte of device memory against the FLOP/s reached. Left of the ridge point the operator waits for "
        "memory, right of it for the matrix units.",
        x=Axis(title="arithmetic intensity", scale="log", low=low, high=high, unit="FLOP/byte"),
        y=Axis(title="attained FLOP/s", scale="log", unit="FLOP/s"),
        series=tuple(series),
        marks=(Mark(text=f"ridge point {formatting.number(edge, 3)}", x=edge, role="critical"),),
        table=table("roofline-points", "Points", "", (name, "FLOP/byte", "reached", "bound", "time", "bound by"), rows),
    )


def _short(result: OpResult, point: OpPoint) -> str:
    return f"{point.dims[result.sweep.dimension]:,}" if result.sweep is not None else result.operator


def _label(result: OpResult, point: OpPoint) -> str:
    name = f"{result.sweep.dimension} = " if result.sweep is not None else ""
    reached = formatting.quantity(point.cost.matrix_flops / (point.time.best or 1.0), "FLOP/s", 3)
    return f"{name}{_short(result, point)}: {reached}, {formatting.seconds(point.time.best)}, bound by {point.bound_by}"


def curve_figure(result: OpResult, sweep: OpSweep) -> Figure:
    """Return the line plot of seconds against the swept dimension: bound, estimate and its interval."""
    x = tuple(float(point.dims[sweep.dimension]) for point in sweep.points)
    bound = tuple(point.time.bound for point in sweep.points)
    series = [Series(name="bound", kind="line", role="bound", x=x, y=bound, labels=_times(sweep, "bound"))]
    if all(point.time.estimate is not None for point in sweep.points):
        likely = tuple(point.time.estimate for point in sweep.points)
        series = [
            Series(
                name="80 % interval", kind="band", role="estimate", x=x, y=likely,
                low=tuple(point.time.low or 0.0 for point in sweep.points),
                high=tuple(point.time.high or 0.0 for point in sweep.points),
            ),
            Series(name="estimate", kind="line", role="estimate", x=x, y=likely, labels=_times(sweep, "estimate")),
            *series,
        ]  # fmt: skip
    marks = tuple(Mark(text=f"{after}-bound from {at:,}", x=float(at), role="critical") for at, _, after in sweep.crossovers)
    rows: list[tuple[Cell, ...]] = [
        (
            whole(point.dims[sweep.dimension]),
            number_cell(point.intensity),
            seconds(point.time.bound),
            seconds(point.time.estimate),
            seconds(point.time.low),
            seconds(point.time.high),
            text_cell(point.bound_by),
            text_cell(point.limited_by),
        )
        for point in sweep.points
    ]
    names = (sweep.dimension, "FLOP/byte", "bound", "estimate", "low", "high", "bound by", "limited by")
    return Figure(
        key="curve",
        title=f"Time against {sweep.dimension}",
        note="The bound at the datasheet's rates, and the estimate with its interval.",
        x=Axis(title=sweep.dimension, scale="log" if len(x) > 1 and x[-1] > 8 * x[0] else "linear"),
        y=Axis(title="time", scale="log", unit="s"),
        series=tuple(series),
        marks=marks,
        table=table("curve-rows", "Curve", "", names, rows),
    )


def _times(sweep: OpSweep, name: str) -> tuple[str, ...]:
    return tuple(
        f"{sweep.dimension} = {point.dims[sweep.dimension]:,}: {name} {formatting.seconds(getattr(point.time, name))}"
        for point in sweep.points
    )


def resources_figure(result: OpResult) -> Figure:
    """Return the bar plot of the seconds for which each resource of the device is busy, at the datasheet's rates."""
    resources = (
        ("matrix units", "compute", result.times.matrix),
        ("vector units", "overhead", result.times.vector),
        ("device memory", "memory", result.times.memory),
        ("link", "link", result.times.link),
    )
    used = [entry for entry in resources if entry[2]]
    series = [
        Series(
            name=name, kind="bars", role=role, x=(value,), y=(name,), labels=(f"{name} {formatting.seconds(value)}",),
            short=(formatting.seconds(value),),
        )
        for name, role, value in used
    ]  # fmt: skip
    marks = (
        [Mark(text=f"estimate {about(result.time.estimate)}", x=result.time.estimate, role="critical")]
        if result.time.estimate
        else []
    )
    longest = max([value for _, _, value in used] + [result.time.best or 0.0])
    rows = [(text_cell(name), seconds(value)) for name, _, value in used]
    return Figure(
        key="resources",
        title="How long each resource is busy",
        note="At the datasheet's rates, which is what the bound is of. The estimate has launches, waves and what kernels miss "
        "on top.",
        x=Axis(title="time", scale="linear", low=0.0, high=longest * 1.05 or 1.0, unit="s"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        marks=tuple(marks),
        table=table("resources-rows", "Resources", "", ("resource", "time"), rows),
    )


# The page


def operator_page(result: OpResult, line: str) -> str:
    """Return the page of `roofline op` as a complete HTML document; `line` is the command that writes it again."""
    return static_page(view(result, line), line)


def view(result: OpResult, line: str) -> View:
    """Return everything that the page shows."""
    numbers = dict(formula_lines(result))
    sweep = result.sweep
    at = "" if sweep is None else f" at {sweep.dimension} = {_count(result.dims[sweep.dimension])}"
    formulas = _cells("formulas", f"Formulas{at}", ("quantity", "formula with numbers", "value"), [
        (name, numbers[name], _value(part.value, part.unit))
        for part in result.formulas
        for name in [_NAMES.get(part.subject, part.subject)]
    ])  # fmt: skip
    answer = _cells("answer-lines", f"The operator{at}", ("", ""), lines(result))
    sections = [
        Section(key=name, title=figure.title, note="", figure=figure, tables=(answer,) if name == "resources" else ())
        for name, figure in ((name, make()) for name, make in figures(result).items())
    ]
    sections.append(Section(key="formulas", title="Where the numbers come from", note="", figure=None, tables=(formulas,)))
    return View(
        title=title(result),
        subtitle=settings(result),
        answer=tuple(sweep_sentences(result)),
        fits=True,
        error="",
        tiles=tiles(result) if sweep is None else (),
        commands=(Command(label="The same in a terminal", text=line),),
        sections=tuple(sections),
        assumptions=assumptions(result),
        not_modelled=NOT_MODELLED,
        verdict=verdict(result) if sweep is None else "",
    )


def assumptions(result: OpResult) -> PageTable:
    """Return what is assumed, as a table."""
    listed = summary.assumptions_table(result)
    return _cells("assumptions", listed.title, listed.columns, listed.rows)


def verdict(result: OpResult) -> str:
    """What limits the operator, in a sentence."""
    cost, ridge = result.cost, result.hardware["ridge_point"]
    if cost.link_bytes:
        return f"Bound by the link: {result.hardware['link']}."
    if result.intensity is None or not cost.matrix_flops or not ridge:
        return f"{_BINDS[result.bound_by].capitalize()}."
    kind, ratio = _BINDS[result.bound_by].capitalize(), formatting.number(result.intensity, 3)
    text = f"{ratio} FLOP/byte, ridge point {formatting.number(ridge, 3)}"
    if result.compute_bound_from is None or not result.compute_bound_from[1]:
        return f"{kind}: {text}."
    name, start = result.compute_bound_from
    if result.bound_by == "compute":
        return f"{kind} from {name} = {start:,}: {text}."
    return f"{kind}: {text}. Compute-bound from {name} = {start:,}."


def tiles(result: OpResult) -> tuple[Tile, ...]:
    """The numbers at the head of the page: estimate, bound, FLOP, bytes, intensity."""
    cost, time = result.cost, result.time
    floor = "" if time.floor is None else f"; floor {formatting.fixed(time.floor, 's', 3)}"
    made = [time_tile("Time", "isolated kernel", "tpot", time)]
    made.append(
        Tile(
            label="Bound", meaning="datasheet rates", cell=seconds(time.bound), note=f"set by {_SET_BY[result.bound_by]}{floor}"
        )
    )
    if cost.flops:
        both = (("matrix", cost.matrix_flops), ("vector", cost.vector_flops))
        kinds = [f"{kind} {formatting.quantity(count, 'FLOP', 3)}" for kind, count in both if count]
        made.append(Tile(label="FLOP", meaning="work", cell=amount(cost.flops, ""), note=", ".join(kinds)))
    if cost.link_bytes:
        note = f"device memory {formatting.quantity(cost.bytes, 'B', 3)}"
        made.append(Tile(label="Sent", meaning="per device", cell=amount(cost.link_bytes, "B"), note=note))
        return tuple(made)
    held = content(result)
    note = ", ".join([f"{name} {formatting.quantity(size, 'B', 3)}" for name, size in held])
    made.append(Tile(label="Bytes", meaning="device memory", cell=amount(cost.bytes, "B"), note=note))
    if result.intensity is not None:
        ridge = result.hardware["ridge_point"]
        kind = "matrix FLOP" if cost.matrix_flops else "vector FLOP"
        note = f"{kind}; ridge point {formatting.number(ridge, 3)}" if ridge and cost.matrix_flops else kind
        made.append(Tile(label="FLOP/byte", meaning="intensity", cell=number_cell(result.intensity), note=note))
    return tuple(made)


_SET_BY = {"compute": "compute", "memory": "memory bandwidth", "link": "the link"}


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return formatting.ABSENT
    if unit == "s":
        return formatting.seconds(value)
    return f"{value:,.0f} {unit}" if float(value).is_integer() else f"{formatting.number(value)} {unit}"


def _cells(key: str, name: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> PageTable:
    """A table of texts."""
    return PageTable(
        key=key,
        title=name,
        note="",
        columns=tuple(Column(name=column, number=False) for column in columns),
        rows=tuple(tuple(map(text_cell, row)) for row in rows),
    )
