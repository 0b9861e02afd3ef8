"""A profile: the answer on one screen, the roofline with what kernels attained, a timeline, and a page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from roofline import formatting
from roofline.formatting import about, percent, plural
from roofline.measure.profile.comparison import Difference, Part
from roofline.measure.profile.operators import UNKNOWN, OperatorTime, short_name
from roofline.measure.profile.profile import Profile
from roofline.measure.profile.trace import ACTIVITIES
from roofline.predict.efficiency.estimate import BASIS_TEXTS, CERTAINTY
from roofline.report.cells import NOTHING, amount, seconds, share, table, text_cell, text_table, whole
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Tile, View
from roofline.report.page import static_page
from roofline.specs.kernel_rules import KINDS
from roofline.text import Answer, Table, clean

_KINDS, _GAINS, _PARTS, _STEPS, _UNKNOWN = 8, 5, 7, 3, 3
"""Rows on one screen."""
_NAMED = 44


def answer(result: Profile) -> Answer:
    """Return the answer of `roofline profile`."""
    gains, unknown = result.gains, result.unknown
    tables: list[Table] = [_by_kind(result, _KINDS)]
    details = [_steps(result, None), _by_kind(result, None), _details(result)]
    if result.difference is not None:
        tables.append(_difference(result.difference, _PARTS))
        details += [_difference(result.difference, None), *([_gains(result, None)] if gains else [])]
    elif gains:
        tables.append(_gains(result, _GAINS))
    if result.alignment:
        details.append(_alignment(result))
    if unknown:
        details.append(_unknown(result))
    return Answer(
        title=_title(result),
        settings=" · ".join(_settings(result)),
        verdict=" ".join(_sentences(result)),
        brief=tuple(tables),
        details=tuple(details),
        notes=tuple(_lines(result)),
        hint="Every operator, step and unknown kernel: -v. Picture: -o profile.html",
    )


def _title(result: Profile) -> str:
    on_host = set(result.trace.kernels.activity) <= {ACTIVITIES.index("cpu")}
    unnamed = "host" if on_host else "unnamed device"
    where = result.hardware.title if result.hardware is not None else next(filter(None, result.trace.device_names), unnamed)
    model = f"{result.model} on " if result.model else ""
    return f"{model}{where}: {result.trace.source} trace"


def _settings(result: Profile) -> list[str]:
    rank = [f"rank {result.trace.rank} of {result.trace.world}"] if result.trace.world > 1 else []
    steps = "one kernel at a time" if result.trace.serialized else plural(len(result.steps), "step")
    return [result.trace.path.name, plural(len(result.trace.kernels), "kernel"), steps, *rank]


def _sentences(result: Profile) -> list[str]:
    """Where the time went, what is lost most, and how much is understood."""
    gaps, time = result.gaps, result.time_s
    parts = []
    if result.operators and time:
        first = result.operators[:2]
        named = " and ".join(f"{_kind(entry.kind)} {percent(entry.time_s / time, 0)}" for entry in first)
        parts.append(f"Kernels take {formatting.seconds(time)}: {named}.")
    estimated = [entry for entry in result.details if entry.estimate_s is not None]
    if estimated and (best := sum(entry.saves_s for entry in result.gains)):
        covered = sum(entry.timed_s for entry in estimated)
        text = f"Operators with an estimate ({percent(covered / time, 0)} of the time)"
        parts.append(f"{text} would take {about(best)} less at the speed of measured kernels.")
    if gaps.span_s and gaps.idle_s > _NOTABLE * gaps.span_s:
        parts.append(f"The device is idle {percent(gaps.idle_s / gaps.span_s, 0)} of the steps' time.")
    parts.append(f"{percent(result.understood_share, 1)} of the kernels' time is understood.")
    return parts


_NOTABLE, _NOTABLE_BASIS = 0.02, 0.1


def _lines(result: Profile) -> list[tuple[str, str]]:
    """Steps, gaps, unknown kernels, and what bounds and estimates rest on."""
    lines = []
    steps = [] if result.trace.serialized else _step_texts(result)  # kernels that ran one at a time have no step's time
    for number, text in enumerate(steps[:_STEPS]):
        lines.append(("Steps" if not number else "", text))
    if (more := len(steps) - _STEPS) > 0:
        lines.append(("", f"{more} more kinds: -v"))
    gaps = result.gaps
    if gaps.span_s:
        causes = [
            (gaps.launch_bound_s - gaps.after_sync_s, "waiting for the host to launch"),
            (gaps.after_sync_s, "after the host waited for the device"),
            (gaps.queued_s, "between queued kernels"),
            (gaps.unknown_s, "of unknown cause"),
        ]
        text = ", ".join(f"{formatting.seconds(value)} {what}" for value, what in causes if value > 0)
        idle = f"{formatting.seconds(gaps.idle_s)} of {formatting.seconds(gaps.span_s)} idle"
        lines.append(("Gaps", f"{idle}{f': {text}' if text else ''}"))
    if gaps.communication_s:
        exposed = formatting.seconds(gaps.communication_exposed_s)
        lines.append(("Communication", f"{formatting.seconds(gaps.communication_s)}, of which {exposed} not hidden"))
    if result.outside_s:
        lines.append(("Outside", f"{formatting.seconds(result.outside_s)} of kernels belong to no step of the trace"))
    if unknown := result.unknown:
        names = ", ".join(short_name(next(iter(entry.names)), _NAMED) for entry in unknown[:_UNKNOWN])
        took = formatting.seconds(sum(entry.time_s for entry in unknown))
        lines.append(("Unknown", f"{took} in {plural(len(unknown), 'kernel')}: {names}"))
    if fast := [entry for entry in result.details if entry.why_faster]:
        more_of = f"; {len(fast) - 1} more: -v" if fast[1:] else ""
        lines.append(("Above roof", f"{fast[0].label}: {fast[0].why_faster}{more_of}"))
    timed: dict[str, float] = defaultdict(float)
    for entry in result.details:
        timed[entry.basis] += entry.timed_s
    notable = _NOTABLE_BASIS * sum(timed.values())
    weakest = next((basis for basis in CERTAINTY if timed[basis] > notable and basis in BASIS_TEXTS), None)
    if weakest is not None:
        lines.append(("Estimates", BASIS_TEXTS[weakest]))
    return [(label, clean(text)) for label, text in lines]


def _step_texts(result: Profile) -> list[str]:
    """Steps of one kind and size in a line."""
    lines: dict[str, list[float]] = {}
    estimates: dict[str, list[float]] = {}
    for number, step in enumerate(result.steps):
        what = {"capture": "graph capture", "": "step"}.get(step.kind, step.kind)
        size = []
        if step.batch is not None:
            size.append(plural(step.batch, "sequence"))
        if step.new_tokens is not None:
            size.append(plural(step.new_tokens, "new token"))
        if step.kind != "decode" and step.cached_tokens:
            size.append(f"{step.cached_tokens:,} cached")
        text = what + (f" of {', '.join(size)}" if size else "")
        lines.setdefault(text, []).append(step.duration_s)
        if result.step_estimates and (estimate := result.step_estimates[number][1]) is not None:
            estimates.setdefault(text, []).append(estimate)
    texts = []
    for text, times in lines.items():
        mean = formatting.seconds(sum(times) / len(times))
        predicted = f", estimate {about(sum(estimates[text]) / len(estimates[text]))}" if text in estimates else ""
        texts.append(f"{len(times)} x {text}: {mean}{' on average' if len(times) > 1 else ''}{predicted}")
    return texts


def _kind(kind: str) -> str:
    return KINDS.get(kind, kind)


_COLUMNS = ("n", "time", "share", "FLOP/s", "bytes/s", "of roof", "of estimate")


def _figures(entry: OperatorTime, total: float) -> tuple[str, ...]:
    numbers = entry.figures()

    def rate(name: str, unit: str) -> str:
        return formatting.quantity(numbers[name], unit, 3) if numbers[name] else ""

    return (
        f"{entry.n:,}",
        formatting.seconds(entry.time_s),
        percent(entry.time_s / total if total else 0.0, 1),
        rate("attained_flops", "FLOP/s"),
        rate("attained_bandwidth", "B/s"),
        "" if numbers["of_roof"] is None else percent(numbers["of_roof"], 0) + ("!" if numbers["of_roof"] > 1 else ""),
        "" if numbers["of_estimate"] is None else percent(numbers["of_estimate"], 0),
    )


def _by_kind(result: Profile, most: int | None) -> Table:
    entries = result.operators[:most]
    cells = [(_kind(entry.kind), *_figures(entry, result.time_s)) for entry in entries]
    if rest := result.operators[len(entries) :]:
        took = sum(entry.time_s for entry in rest)
        cells.append((plural(len(rest), "more kind"), f"{sum(entry.n for entry in rest):,}", formatting.seconds(took),
                      percent(took / result.time_s, 1), "", "", "", ""))  # fmt: skip
    note = "of roof: bound / time; of estimate: time of measured kernels of the kind / time; !: above the roof, see -v"
    return Table("Time by operator", note, ("operator", *_COLUMNS), (False, *(True,) * 7), tuple(cells))


def _details(result: Profile) -> Table:
    cells = tuple(
        (_kind(entry.kind), entry.label[:72], *_figures(entry, result.time_s), entry.why_faster) for entry in result.details
    )
    columns = ("kind", "operator", *_COLUMNS, "above roof because")
    return Table("Every operator", "", columns, (False, False, *(True,) * 7, False), cells)


def _gains(result: Profile, most: int | None) -> Table:
    steps = max(len(result.steps), 1)
    cells = tuple(
        (
            entry.label[:60],
            formatting.seconds(entry.timed_s / steps),
            about(entry.estimate_s / steps) if entry.estimate_s else "",
            about(entry.saves_s / steps),
        )
        for entry in result.gains[:most]
    )
    return Table(
        "If it reached its estimate", "per step", ("operator", "time", "estimate", "gain"), (False, True, True, True), cells
    )


def _steps(result: Profile, most: int | None) -> Table:
    cells = tuple(
        (
            step.kind or "?",
            "" if step.batch is None else f"{step.batch:,}",
            "" if step.new_tokens is None else f"{step.new_tokens:,}",
            "" if step.cached_tokens is None else f"{step.cached_tokens:,}",
            f"{len(step.kernels):,}",
            formatting.seconds(step.duration_s),
            (step.name or "difference by its kernels")[:48],
        )
        for step in result.steps[:most]
    )
    columns = ("step", "sequences", "new tokens", "cached", "kernels", "time", "name")
    return Table("Steps", "", columns, (False, *(True,) * 5, False), cells)


def _unknown(result: Profile) -> Table:
    cells = tuple(
        (
            f"{entry.n:,}",
            formatting.seconds(entry.time_s),
            percent(entry.time_s / result.time_s, 2),
            next(iter(entry.names))[:120],
        )
        for entry in result.unknown
    )
    return Table("Kernels that no rule knows", "", ("n", "time", "share", "name"), (True, True, True, False), cells)


_STATUS = {"fused": "in the kernel of", "missing": "no kernel of its own", "extra": "not in the model", "matched": ""}


def _alignment(result: Profile) -> Table:
    cells = tuple(
        (
            row.path,
            f"{row.planned:,}" if row.planned else "",
            f"{row.measured:,}" if row.measured else "",
            f"{row.kernels / row.measured:.3g}" if row.measured else "",
            formatting.seconds(row.time_s) if row.measured else "",
            about(row.estimate_s) if row.estimate_s else "",
            about_difference(row.time_s - row.estimate_s) if row.estimate_s and row.measured else "",
            f"{_STATUS[row.status]} {row.into}".strip(),
        )
        for row in result.alignment
    )
    columns = ("operator of the model", "planned", "ran", "kernels each", "time", "estimate", "difference", "")
    return Table("The model beside the kernels", "", columns, (False, *(True,) * 6, False), cells)


_DEVICE = {"idle": "no kernel runs", "overlap": "several kernels run at once", "steps": "between operators, in the estimate"}


def _difference(difference: Difference, most: int | None) -> Table:
    """Why a step takes longer than its estimate, the largest part first; what is left over is one row."""
    parts = [part for part in difference.parts if abs(part.difference_s) >= _NEGLIGIBLE * difference.measured_s]
    largest = parts[:most]
    rows = [(_part_name(part), part.measured_s, part.estimate_s) for part in largest]
    rest = [part for part in difference.parts if part not in largest]
    if rest:
        name = plural(len(rest), "other") if largest else "all"
        rows.append((name, sum(part.measured_s for part in rest), sum(part.estimate_s for part in rest)))
    rows.append(("step", difference.measured_s, difference.estimate_s))
    cells = tuple(
        (
            name,
            formatting.seconds(measured / difference.steps) if measured else "",
            about(estimate / difference.steps) if estimate else "",
            about_difference((measured - estimate) / difference.steps),
        )
        for name, measured, estimate in rows
    )
    columns = ("operator", "time", "estimate", "difference")
    return Table("Why it is not the estimate", "per step", columns, (False, True, True, True), cells)


_NEGLIGIBLE = 1e-6


def _part_name(part: Part) -> str:
    if part.status == "device":
        return _DEVICE[part.name]
    if part.status == "extra":
        return f"{_kind(part.name)}, not in the model"
    return {"fused": f"{part.name}, in another kernel", "missing": f"{part.name}, no kernel"}.get(part.status, part.name)


def about_difference(value: float) -> str:
    """A difference of times with its sign.

    >>> about_difference(-0.0021)
    '-2.1 ms'
    """
    return f"{'-' if value < 0 else '+'}{about(abs(value))}"


# The page


def page(result: Profile, line: str) -> str:
    """Return the page of `roofline profile` as a complete HTML document."""
    return static_page(view(result, line), f"{line} --output profile.html")


def view(result: Profile, line: str) -> View:
    """Return everything that the page shows."""
    made = (roofline_figure(result), difference_figure(result), time_figure(result), timeline_figure(result))
    drawn = [one for one in made if one is not None]
    sections = [Section(key=one.key, title=one.title, note="", figure=one, tables=()) for one in drawn]
    listed = {
        "gains": _gains(result, None) if result.gains else None,
        "steps": _steps(result, None) if result.steps else None,
        "alignment": _alignment(result) if result.alignment else None,
        "operators": _details(result),
        "unknown": _unknown(result) if result.unknown else None,
    }
    for key, one in listed.items():
        if one is not None:
            rows = text_table(f"{key}-rows", replace(one, title="Rows"))
            sections.append(
                Section(key=key, title=one.title, note=one.note, figure=None, tables=(rows,), folded=key != "gains")
            )
    return View(
        title=_title(result),
        subtitle=" · ".join(_settings(result)),
        answer=tuple(f"{label}: {text}" if label else text for label, text in _lines(result)),
        fits=True,
        error="",
        tiles=_tiles(result),
        commands=(Command(label="Reproduce in a terminal", text=line),),
        sections=tuple(sections),
        assumptions=text_table(
            "assumptions", Table("What is assumed", "", ("note",), (False,), tuple((n,) for n in result.notes))
        ),
        not_modelled=_NOT_MODELLED,
        verdict=" ".join(_sentences(result)),
    )


_NOT_MODELLED = (
    "The profiler's own cost: launches take longer while it records.",
    "Clocks and temperature during the run.",
    "Bytes of operators without a formula: their kernels have a time and a kind only.",
)


def _tiles(result: Profile) -> tuple[Tile, ...]:
    gaps, time = result.gaps, result.time_s
    known = [entry for entry in result.details if entry.bound_s is not None]
    reached = sum(entry.bound_s or 0.0 for entry in known) / (sum(entry.known_s for entry in known) or 1.0)
    kernels = plural(len(result.trace.kernels), "kernel")
    understood = share(result.understood_share)
    tiles = [
        Tile(label="Kernels", meaning="time of all", cell=seconds(time), note=kernels),
        Tile(label="Understood", meaning="share of the time", cell=understood, note="kernels that a rule knows"),
    ]
    if known:
        tiles.append(Tile(label="Of the roof", meaning="bound / time", cell=share(reached), note="operators of known shape"))
    if result.gains:
        saved = sum(entry.saves_s for entry in result.gains)
        cell = Cell(text=about(saved), value=saved)
        tiles.append(Tile(label="To gain", meaning="at measured speeds", cell=cell, note="if all reached their estimates"))
    if gaps.span_s:
        idle = share(gaps.idle_s / gaps.span_s)
        tiles.append(Tile(label="Idle", meaning="of the steps", cell=idle, note=formatting.seconds(gaps.idle_s)))
    return tuple(tiles)


def roofline_figure(result: Profile) -> Figure | None:
    """Return the roofline plot with what each operator attained, and its estimate; None without bounds or matrix FLOP."""
    hardware = result.hardware
    points = [entry for entry in result.details if entry.flops and entry.bytes and entry.bound_s and entry.known_s]
    if hardware is None or not points:
        return None
    bandwidth = hardware.bandwidth
    formats = {entry.format for entry in points}
    peaks = sorted(((name, value) for name, value in hardware.peaks.items() if name in formats), key=lambda item: item[1])
    if not peaks:
        return None
    peak = peaks[-1][1]
    intensities = [(entry.flops or 0.0) / (entry.bytes or 1.0) for entry in points]
    low = min(*intensities, peak / bandwidth) / 3
    high = max(*intensities, peak / bandwidth) * 3
    series = []
    for name, value in peaks:
        edge = value / bandwidth
        xs = sorted({low, min(max(edge, low), high), high})
        series.append(
            Series(
                name=f"{name} {formatting.quantity(value, 'FLOP/s', 3)}",
                kind="line",
                role="roof",
                x=tuple(xs),
                y=tuple(min(value, bandwidth * x) for x in xs),
                short=(*("" for _ in xs[1:]), name),
            )
        )
    longest = max(entry.time_s for entry in points)
    for kind in dict.fromkeys(entry.kind for entry in points):
        some = [entry for entry in points if entry.kind == kind]
        series.append(
            Series(
                name=_kind(kind),
                kind="points",
                role=_ROLES.get(kind, "overhead"),
                x=tuple((entry.flops or 0.0) / (entry.bytes or 1.0) for entry in some),
                y=tuple((entry.flops or 0.0) / entry.known_s for entry in some),
                size=tuple(max(entry.time_s / longest, 0.03) for entry in some),
                labels=tuple(_point(entry) for entry in some),
                short=tuple(entry.label[:28] if entry.time_s > _LABELLED * longest else "" for entry in some),
            )
        )
    estimated = [entry for entry in points if entry.estimate_s]
    if estimated:
        series.append(
            Series(
                name="estimate",
                kind="points",
                role="estimate",
                x=tuple((entry.flops or 0.0) / (entry.bytes or 1.0) for entry in estimated),
                y=tuple((entry.flops or 0.0) / (entry.estimate_s or 1.0) for entry in estimated),
                size=tuple(0.08 for _ in estimated),
                labels=tuple(f"{entry.label}: estimate {about(entry.estimate_s or 0.0)}" for entry in estimated),
            )
        )
    rows = [
        (
            text_cell(_kind(entry.kind)),
            text_cell(entry.label),
            amount((entry.flops or 0.0) / (entry.bytes or 1.0), "FLOP/byte"),
            amount((entry.flops or 0.0) / entry.known_s, "FLOP/s"),
            seconds(entry.time_s),
            share(entry.figures()["of_roof"]),
            text_cell(entry.why_faster),
        )
        for entry in points
    ]
    columns = ("kind", "operator", "FLOP/byte", "attained", "time", "of roof", "above the roof because")
    return Figure(
        key="roofline",
        title="Attained on the roofline",
        note="The area of a point is its share of the time; the distance to the roof is what the hardware would still give. "
        "A point above its roof says why in the table.",
        x=Axis(title="arithmetic intensity", scale="log", low=low, high=high, unit="FLOP/byte"),
        y=Axis(title="attained FLOP/s", scale="log", unit="FLOP/s"),
        series=tuple(series),
        marks=(Mark(text="", x=peak / bandwidth, role="critical"),),
        table=table("roofline-points", "Points", "", columns, rows),
    )


_ROLES = {"gemm": "compute", "grouped_gemm": "link", "attention": "memory", "latent_attention": "memory"}
_LABELLED = 0.15


def _point(entry: OperatorTime) -> str:
    figures = entry.figures()
    reached = formatting.quantity(figures["attained_flops"] or 0.0, "FLOP/s", 3)
    why = f"; above the roof: {entry.why_faster}" if entry.why_faster else ""
    took, part = formatting.seconds(entry.time_s), percent(figures["of_roof"], 0)
    return f"{entry.label}: {entry.n:,} in {took}, {reached}, {part} of roof{why}"


def time_figure(result: Profile) -> Figure | None:
    """Return the bars of time by kind beside its estimate and bound."""
    entries = [entry for entry in result.operators if entry.time_s][:_BARS]
    if not entries:
        return None
    names = tuple(_kind(entry.kind) for entry in entries)
    # what has no bound is counted with its own time, so that bars of one kind stay comparable
    measured = tuple(entry.time_s for entry in entries)
    series = [
        Series(
            name="measured",
            kind="bars",
            role="measured",
            x=names,
            y=measured,
            labels=tuple(f"{name}: {formatting.seconds(value)}" for name, value in zip(names, measured, strict=True)),
            short=tuple(formatting.seconds(value, 2) for value in measured),
        )
    ]
    if any(entry.estimate_s for entry in entries):
        values = tuple((entry.estimate_s or 0.0) + entry.time_s - entry.timed_s for entry in entries)
        series.append(
            Series(
                name="at its estimate",
                kind="bars",
                role="estimate",
                x=names,
                y=values,
                labels=tuple(f"{name}: {about(value)}" for name, value in zip(names, values, strict=True)),
                short=tuple(about(value) for value in values),
            )
        )
    rows = [
        (
            text_cell(name),
            whole(entry.n),
            seconds(entry.time_s),
            Cell(text=about(entry.estimate_s), value=entry.estimate_s) if entry.estimate_s else NOTHING,
            seconds(entry.bound_s) if entry.bound_s else NOTHING,
        )
        for name, entry in zip(names, entries, strict=True)
    ]
    return Figure(
        key="time",
        title="Time by operator",
        note="What has no estimate counts with its measured time.",
        x=Axis(title="", scale="category"),
        y=Axis(title="time", scale="linear", low=0.0, unit="s"),
        series=tuple(series),
        table=table("time-rows", "Time by operator", "", ("operator", "n", "time", "estimate", "bound"), rows),
    )


def difference_figure(result: Profile) -> Figure | None:
    """Return the way from a step's estimate to its measured time, a bar for each part; None without a model."""
    difference = result.difference
    if difference is None:
        return None
    largest, rest = difference.parts[:_DRAWN], difference.parts[_DRAWN:]
    steps = [(_part_name(part), part.difference_s / difference.steps) for part in largest]
    if rest:
        steps.append((plural(len(rest), "other"), sum(part.difference_s for part in rest) / difference.steps))
    steps.sort(key=lambda step: -step[1])
    estimate, measured = difference.estimate_s / difference.steps, difference.measured_s / difference.steps
    names, values = [name for name, _ in steps], [value for _, value in steps]
    before = [estimate + sum(values[:number]) for number in range(len(values))]
    whole_bars = (
        ("estimate", estimate, "estimate", about(estimate)),
        ("measured", measured, "measured", formatting.seconds(measured)),
    )
    series = [
        Series(name=name, kind="bars", role=role, x=(value,), y=(name,), labels=(f"{name}: {text}",), short=(text,))
        for name, value, role, text in whole_bars
    ]
    for name, role, sign in (("longer", "limit", 1), ("shorter", "memory", -1)):
        chosen = [number for number, value in enumerate(values) if value * sign > 0]
        if chosen:
            texts = tuple(about_difference(values[number]) for number in chosen)
            series.insert(
                -1,
                Series(
                    name=name,
                    kind="bars",
                    role=role,
                    x=tuple(abs(values[number]) for number in chosen),
                    y=tuple(names[number] for number in chosen),
                    base=tuple(min(before[number], before[number] + values[number]) for number in chosen),
                    labels=tuple(f"{names[number]}: {text}" for number, text in zip(chosen, texts, strict=True)),
                    short=texts,
                ),
            )
    drawn = _difference(difference, None)
    return Figure(
        key="difference",
        title="From the estimate to the measured step",
        note=f"Per step, {plural(difference.steps, 'step')}. Each bar begins where the one above it ends.",
        x=Axis(title="time", scale="linear", low=0.0, unit="s"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        table=text_table("difference-rows", replace(drawn, title="Parts of the difference")),
    )


_BARS, _DRAWN, _MOST_DRAWN = 12, 9, 1500


def timeline_figure(result: Profile) -> Figure | None:
    """Return kernels over time, a row per kind: of the longest step of all."""
    if not result.steps or result.trace.serialized:
        return None
    step = max(result.steps, key=lambda one: one.duration_s)
    kernels = result.trace.kernels
    chosen = sorted(step.kernels.tolist(), key=lambda at: -kernels.duration_s[at])[:_MOST_DRAWN]
    by_kind: dict[str, list[int]] = {}
    for at in sorted(chosen):
        identity = result.identities[at]
        by_kind.setdefault(identity.kind if identity is not None else UNKNOWN, []).append(at)
    if not by_kind:
        return None
    order = sorted(by_kind, key=lambda kind: -sum(kernels.duration_s[at] for at in by_kind[kind]))
    series = [
        Series(
            name=_kind(kind),
            kind="bars",
            role="measured",
            x=tuple(kernels.duration_s[at] for at in by_kind[kind]),
            y=tuple(_kind(kind) for _ in by_kind[kind]),
            base=tuple(kernels.start_s[at] - step.start_s for at in by_kind[kind]),
            labels=tuple(
                f"{short_name(kernels.names[kernels.name[at]])}: {formatting.seconds(kernels.duration_s[at])}"
                for at in by_kind[kind]
            ),
        )
        for kind in order
    ]
    rows = [
        (text_cell(_kind(kind)), whole(len(by_kind[kind])), seconds(sum(kernels.duration_s[at] for at in by_kind[kind])))
        for kind in order
    ]
    copies = ACTIVITIES.index("memcpy")
    note = f"The longest step ({step.kind or 'of unknown kind'})."
    if any(kernels.activity[at] == copies for at in chosen):
        note += " Copies run beside kernels."
    if len(step.kernels) > _MOST_DRAWN:
        note += f" The longest {_MOST_DRAWN:,} of {len(step.kernels):,} kernels."
    return Figure(
        key="timeline",
        title="Timeline",
        note=note,
        x=Axis(title="time in the step", scale="linear", low=0.0, high=step.duration_s, unit="s"),
        y=Axis(title="", scale="category"),
        series=tuple(series),
        table=table("timeline-rows", "Kernels of the step", "", ("kind", "kernels", "time"), rows),
    )
