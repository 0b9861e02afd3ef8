"""The whole page of a plan, from a state of its controls."""

from __future__ import annotations

from roofline.report.figure import Command, Figure, Section, Table, View
from roofline.report.plan import figures, tables
from roofline.report.plan.planned import Planned
from roofline.report.plan.scaled import Scaled, Values, ordered
from roofline.report.plan.words import infeasible, sentences, subtitle, title
from roofline.report.view.cells import table, words

_NOT_MODELLED = (
    "Routers: requests go to replicas evenly and at random. Routing by caches or queues does better.",
    "Failures beyond the spare replicas; starting, draining and updating replicas.",
    "Hosts, networks, storage and staff, as far as the price of a device does not have them.",
    "Several kinds of hardware side by side: each candidate is of one.",
    "The quality of answers in other formats than those of the model's file.",
)
_ELSEWHERE = (
    "Deployments that are not among the candidates of the planned rate, and may be better at another.",
    "Times at another rate than the planned one: what is known of them is that they are within the objectives.",
)


def view(planned: Planned, values: Values) -> View:
    """Everything that the page shows."""
    if not planned.feasible:
        return _refusal(planned)
    found = ordered(planned, values)
    best = found[0]
    return View(
        title=title(planned),
        subtitle=subtitle(planned),
        answer=tuple(sentences(planned, values)),
        fits=best.beyond == "",
        error="",
        tiles=tables.tiles(planned, values, best),
        commands=_commands(best),
        sections=tuple(_sections(planned, values, found)),
        assumptions=tables.assumptions(planned),
        not_modelled=(*_NOT_MODELLED, *_ELSEWHERE) if planned.rate is not None else _NOT_MODELLED,
    )


def _commands(best: Scaled) -> tuple[Command, ...]:
    """What starts the replicas of the first candidate, pool by pool."""
    found = []
    for pool, count in zip(best.of.pools, best.replicas, strict=True):
        role = "" if pool.role == "both" else f"{pool.role} "
        each = "the replica" if count == 1 else f"each of {count:,} replicas"
        found += [
            Command(label=f"{command.engine}, {role}pool, {each}" if role else f"{command.engine}, {each}", text=command.line)
            for command in pool.commands
        ]
    return tuple(found)


def _sections(planned: Planned, values: Values, found: list[Scaled]) -> list[Section]:
    made = [Section(key="candidates", title="Candidates", note="", figure=None, tables=_some(
        tables.candidates(planned, values, found), tables.remarks(found)))]  # fmt: skip
    for name in ("TPOT", "TTFT"):
        made += _drawn(figures.pareto(planned, values, found, name))
    made += _drawn(figures.steps(planned, values, found))
    what = "What if the rate or a price were another" if planned.rate is not None else "What if a price were another"
    made.append(Section(key="pools", title=what, note=_how(planned), figure=None, tables=_some(
        tables.pools(planned, found), tables.prices(planned, values))))  # fmt: skip
    made.append(Section(key="traffic", title="Traffic and objectives", note="", figure=None, tables=_some(
        tables.traffic(planned), tables.load(planned), tables.classes(planned, found[0]))))  # fmt: skip
    made.append(_inputs(planned))
    return made


def _how(planned: Planned) -> str:
    moved = "The rate and the prices" if planned.rate is not None else "The prices"
    said = f"{moved} can be set on the page; the candidates are counted again and ranked anew. "
    if planned.rate is None:
        return f"{said}A closed loop has no rate of its own: replicas stay as planned."
    return f"{said}What a replica serves within the objectives holds for any number of them; times are shown of the plan alone."


def _drawn(figure: Figure | None) -> list[Section]:
    if figure is None:
        return []
    return [Section(key=figure.key, title=figure.title, note="", figure=figure, tables=())]


def _some(*listed: Table | None) -> tuple[Table, ...]:
    return tuple([one for one in listed if one is not None])


def _inputs(planned: Planned) -> Section:
    shown = _some(tables.refused(planned), tables.inputs(planned))
    return Section(key="inputs", title="What it stands on", note="", figure=None, tables=shown)


def _refusal(planned: Planned) -> View:
    """Why there is no answer."""
    rows = [(words(one.name), words(one.value)) for one in planned.nearest]
    nearest = table("nearest", "Nearest to it", "", ("what", "value"), rows) if rows else None
    sections = (
        [Section(key="nearest", title="What comes nearest", note="", figure=None, tables=_some(nearest))] if nearest else []
    )
    asked = Section(key="traffic", title="Traffic and objectives", note="", figure=None,
                    tables=_some(tables.traffic(planned), tables.load(planned)))  # fmt: skip
    return View(
        title=title(planned),
        subtitle=subtitle(planned),
        answer=tuple(infeasible(planned)),
        fits=False,
        error="",
        tiles=(),
        commands=(),
        sections=(*sections, asked, _inputs(planned)),
        assumptions=tables.assumptions(planned),
        not_modelled=_NOT_MODELLED,
    )
