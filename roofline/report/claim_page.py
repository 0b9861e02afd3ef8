"""The page of `roofline claim`: each claimed value on the scale of what is possible and expected, and why."""

from __future__ import annotations

from dataclasses import replace

from roofline.audit.claims.result import ClaimJudgement, Judgement
from roofline.formatting import about_digits, percent
from roofline.report import summary
from roofline.report.cells import table, text_cell, text_table
from roofline.report.figure import Axis, Cell, Command, Figure, Mark, Section, Series, Tile, View, Zone
from roofline.report.page import static_page

_WIDE = 6.0
"""Ratio of the largest to the smallest value from which on the scale is logarithmic."""
_MARGIN = 1.4
"""By so much the scale goes on beyond the outermost values."""
_SIDE = 0.2
"""Share of a logarithmic scale that it goes on beyond them, at the least."""
_SIZE = 0.15
"""Area of a point."""
_GIB = 2.0**30
_NOT_MODELLED = (
    "Queues and load: the ceiling is that of one server that does nothing else.",
    "What the claim leaves open is chosen in its favor, so that a possible number need not be a likely one.",
    "Whether the number was measured: a possible one may still be wrong.",
)


def claim_page(judgement: Judgement, text: str | None, line: str) -> str:
    """The page as a complete HTML document.

    Args:
        judgement: of the claims.
        text: the claim in the user's words, if it was given in words.
        line: the command that prints the same.
    """
    return static_page(view(judgement, text, line), f"{line} --output claim.html")


def view(judgement: Judgement, text: str | None, line: str) -> View:
    """Everything that the page shows; the arguments are as for `claim_page`."""
    worst, claims = judgement.worst, judgement.claims
    sections = [section for at, one in enumerate(claims) for section in _sections(one, at, several=len(claims) > 1)]
    notes = replace(summary.assumptions_table(worst), title="What is assumed")
    return View(
        title=f"Claim: {', '.join(one.claim.title for one in claims)}",
        subtitle=settings(worst),
        answer=tuple(f"{one.verdict.capitalize()}: {one.headline}." for one in claims),
        fits=judgement.verdict != "impossible",
        error="",
        tiles=_tiles(worst, text),
        commands=(Command(label="Reproduce in a terminal", text=line, repeats=True),),
        sections=tuple(sections),
        assumptions=text_table("assumptions", notes),
        not_modelled=_NOT_MODELLED,
        verdict=f"{worst.verdict.capitalize()}: {worst.headline}.",
    )


_STATED = {
    "dtype": "{}",
    "parallelism": "{}",
    "batch": "batch {}",
    "requests": "{}",
    "input_len": "prompt {}",
    "context": "context {}",
}
"""Settings of a claim that its line of settings has, by the name of their assumption."""


def settings(one: ClaimJudgement) -> str:
    """Model and hardware, the data type, and what the claim states of its workload, in one line."""
    notes = {note.name: note for note in one.assumptions}
    texts = [
        form.replace("{}", f"{notes[name].value:,}" if isinstance(notes[name].value, int) else str(notes[name].value))
        for name, form in _STATED.items()
        if name in notes and (name == "dtype" or notes[name].origin == "given")
    ]
    return " · ".join([one.about, *texts])


def _limit(one: ClaimJudgement) -> str:
    return "floor" if one.claim.is_time else "memory" if one.claim.kind == "fits" else "ceiling"


def _claimed(one: ClaimJudgement) -> str:
    return "needed" if one.claim.kind == "fits" else "claimed"


def _value(one: ClaimJudgement, value: float) -> Cell:
    return Cell(text=one.claim.format_value(value), value=value)


def _about(one: ClaimJudgement, value: float) -> Cell:
    """An estimated value, with the digits of an estimate."""
    return Cell(text=one.claim.format_value(float(f"{value:.{about_digits(value) - 1}e}")), value=value)


def _tiles(one: ClaimJudgement, text: str | None) -> tuple[Tile, ...]:
    """The claimed value, with the claim's words if it has any, the best that is possible, their ratio, and what is expected."""
    if one.claimed is None:
        return ()
    tiles = [
        Tile(label=_claimed(one).capitalize(), cell=_value(one, one.claimed), note=f"“{text}”" if text else "by the options")
    ]
    if one.ceiling is not None:
        what = {"floor": "no time is below it", "ceiling": "no rate is above it", "memory": "of a device"}[_limit(one)]
        tiles.append(Tile(label=_limit(one).capitalize(), cell=_value(one, one.ceiling), note=what))
    if one.ratio:
        times = (
            f"{one.ratio:,.0f} x"
            if one.ratio >= 1000
            else f"{one.ratio:.3g} x"
            if one.ratio > 1
            else percent(one.ratio, digits=2)
        )
        note = "beyond it" if one.ratio > 1 else "within it"
        tiles.append(Tile(label=f"Of the {_limit(one)}", cell=Cell(text=times, value=one.ratio), note=note))
    if one.estimate is not None:
        note = "" if one.best is None else f"at best {_about(one, one.best).text}"
        tiles.append(Tile(label="Expected", cell=_about(one, one.estimate), note=note))
    return tuple(tiles)


def _sections(one: ClaimJudgement, at: int, *, several: bool) -> list[Section]:
    """The scale of a claim, why it is judged so, and the mistakes that would give its number."""
    name = f": {one.claim.title}" if several else ""
    drawn = scale_figure(one, f"scale-{at}", f"On the scale{name}")
    made = [] if drawn is None else [Section(key=drawn.key, title=drawn.title, note="", figure=drawn, tables=(), half=True)]
    steps = [(text_cell(line),) for line in one.derivation]
    mistakes = [(text_cell(mistake.name), text_cell(mistake.why)) for mistake in one.likely_mistakes]
    tables = (
        *([table(f"why-{at}", "Derivation", "", ("step",), steps)] if steps else []),
        *([table(f"mistakes-{at}", "Possible mistakes", "", ("mistake", "what it would be"), mistakes)] if mistakes else []),
    )
    if tables:
        made.append(Section(key=f"reasons-{at}", title=f"Why{name}", note="", figure=None, tables=tables, half=bool(made)))
    return made


def scale_figure(one: ClaimJudgement, key: str = "scale", title: str = "On the scale") -> Figure | None:
    """The claimed value among the limit, the bound, the estimate, and the limits under likely mistakes, a row each.

    None where the claim has no numbers. Shaded is what is impossible, and what is beyond the estimate's better end; the line
    is the claimed value, which has a row of its own.
    """
    if one.claimed is None or one.ceiling is None:
        return None
    unit = _GIB if one.claim.kind == "fits" else 1.0
    unit_text = {"tokens_per_s": one.claim.format_value(1).partition(" ")[2], "fits": "GiB"}.get(one.claim.kind, "")
    changed = _claimed(one) if one.claim.kind == "fits" else _limit(one)
    groups: list[tuple[str, str, list[tuple[str, float | None]]]] = [
        (_claimed(one), "measured", [(_claimed(one), one.claimed)]),
        (_limit(one), "limit", [(_limit(one), one.ceiling)]),
        ("bound, operator by operator", "bound", [("bound", one.bound)]),
        ("expected", "estimate", [("at best", one.best), ("expected", one.estimate)]),
        (
            f"{changed} with a mistake",
            "less",
            [(mistake.name, mistake.figure) for mistake in one.likely_mistakes],
        ),
    ]
    series, rows, values = [], [], []
    for name, role, entries in groups:
        known = [(label, value) for label, value in entries if value]
        texts = [(_about if role == "estimate" else _value)(one, value).text for _, value in known]
        values += [value / unit for _, value in known]
        rows += [(text_cell(label), Cell(text=text, value=value)) for (label, value), text in zip(known, texts, strict=True)]
        series.append(
            Series(
                name=name,
                kind="points",
                role=role,
                x=tuple(value / unit for _, value in known),
                y=tuple(label for label, _ in known),
                size=tuple(_SIZE for _ in known),
                labels=tuple(f"{label}: {text}" for (label, _), text in zip(known, texts, strict=True)),
                short=tuple(text.removesuffix(f" {unit_text}") for text in texts),
            )
        )
    low, high = min(values), max(values)
    log = high > _WIDE * low
    beyond = "below" if one.claim.is_time else "more than" if one.claim.kind == "fits" else "above"
    likely = f" Grey: implausible, {beyond} what kernels and engines are expected to reach at best." if one.best else ""
    return Figure(
        key=key,
        title=title,
        note=f"Red: impossible, {beyond} the {_limit(one)}.{likely}",
        x=Axis(
            title=unit_text or ("peak" if one.claim.kind == "peak_flops" else "time"),
            scale="log" if log else "linear",
            low=low / max(_MARGIN**2, (high / low) ** _SIDE) if log else 0.0,
            high=high * max(_MARGIN, (high / low) ** _SIDE if log else 0.0),
            unit=one.claim.unit if one.claim.unit in ("s", "FLOP/s") else "",
        ),
        y=Axis(title="", scale="category"),
        series=tuple(one for one in series if one.x),
        marks=(
            Mark(text="", x=one.claimed / unit, role="critical"),
            Mark(text="← impossible" if one.claim.is_time else "impossible →", x=one.ceiling / unit, role="limit"),
        ),
        zones=tuple(_zones(one, unit)),
        table=table(f"{key}-rows", "On the scale", "", ("what", "value"), rows),
    )


def _zones(one: ClaimJudgement, unit: float) -> list[Zone]:
    """What is impossible, and what is implausible."""
    limit, best = (one.ceiling or 0.0) / unit, None if one.best is None else one.best / unit
    ends = ("x1", "x0") if one.claim.is_time else ("x0", "x1")
    zones = [Zone(text="", role="limit", **{ends[0]: limit})]
    if best is not None:
        zones.append(Zone(text="", role="less", **{ends[0]: best, ends[1]: limit}))
    return zones
