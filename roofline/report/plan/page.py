"""The page of a capacity plan: one file with the answer, the candidates, and controls for the rate and the prices.

What the controls change is computed in the page by the functions of `roofline.report.plan.scaling`, translated: replicas,
devices and money. Without candidates there is nothing to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.formulas.javascript import translated
from roofline.predict.engine_command import shell_line
from roofline.report.cells import table, text_cell
from roofline.report.controls import FIRST_STATE, Control, PageState, values_of, with_state
from roofline.report.figure import Command, Figure, Section, Table, View
from roofline.report.page import live_page, static_page
from roofline.report.page_program import OF_A_RESULT, page_script, view_program
from roofline.report.plan import figures, tables
from roofline.report.plan.load import PLAN_DATA, Planned, Price, planned
from roofline.report.plan.scaling import Scaled, Values, first_values, ordered
from roofline.report.plan.tables import infeasible, searched, sentences, subtitle, title, verdict

if TYPE_CHECKING:
    from roofline.formulas.javascript import Program
    from roofline.serving.planning.result import Plan


def plan_page(plan: Plan, line: str = "") -> str:
    """The page of a plan as a complete HTML document; `line` is the command that writes it again."""
    return saved_plan_page(plan.to_dict(), line=line)


def first_view(plan: Plan) -> View:
    """What the page shows before a control is moved."""
    return saved_plan_view(plan.to_dict())


def saved_plan_view(result: Mapping[str, Any], path: Path | None = None) -> View:
    """What the page of a plan's JSON shows before a control is moved; arguments and errors are those of `saved_plan_page`."""
    plan = planned(result, path)
    return view(plan, first_values(plan))


def saved_plan_page(result: Mapping[str, Any], path: Path | None = None, line: str = "") -> str:
    """The page of a plan's JSON as a complete HTML document.

    Args:
        result: what `roofline plan --json` gives.
        path: file that it was read from, for messages and for the command that writes the page again.
        line: that command, if it is another.

    Raises:
        SpecError: it is no plan.
    """
    plan = planned(result, path)
    reproduce = line or shell_line(
        ("roofline", "report", "--from", "plan.json" if path is None else path.name, "--output", "plan.html")
    )
    return page_of(plan, reproduce)


def page_of(plan: Planned, line: str, opened: PageState = FIRST_STATE) -> str:
    """The page of a plan as a complete HTML document.

    Args:
        plan: what it shows.
        line: the command that writes it again.
        opened: what its controls are set to, where they have another state than the plan's.

    Raises:
        ValueError: a control cannot be set so.
    """
    settings = with_state(controls(plan) if plan.feasible else (), opened.state)
    if not settings:
        return static_page(view(plan, first_values(plan)), line)
    program, data = translated(_program, lambda into: {"page": into.encode(plan)})
    return live_page(
        view(plan, values_of(settings)), settings, page_script(program, OF_A_RESULT), data, line,
        settings_title="What if", saved={"kind": "plan"}, pinned=opened.pinned,
    )  # fmt: skip


def _program() -> Program:
    """What counts in the page."""
    return view_program(view, PLAN_DATA)


# The view

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
    """Everything that the page shows of a plan at the rate and prices in `values`."""
    if not planned.feasible:
        return _refusal(planned)
    candidates = ordered(planned, values)
    best = candidates[0]
    return View(
        title=title(planned),
        subtitle=subtitle(planned),
        answer=(*sentences(planned, values), *_counts(planned)),
        fits=best.beyond == "",
        error="",
        tiles=tables.tiles(planned, values, best),
        commands=_commands(best),
        sections=tuple(_sections(planned, values, candidates)),
        assumptions=tables.assumptions(planned),
        not_modelled=(*_NOT_MODELLED, *_ELSEWHERE) if planned.rate is not None else _NOT_MODELLED,
        verdict=verdict(planned, values),
    )


def _counts(planned: Planned) -> tuple[str, ...]:
    text = searched(planned)
    return (text,) if text else ()


def _commands(best: Scaled) -> tuple[Command, ...]:
    """What starts the replicas of the first candidate, pool by pool."""
    commands = []
    for pool, count in zip(best.of.pools, best.replicas, strict=True):
        role = "" if pool.role == "both" else f"{pool.role} "
        each = "the replica" if count == 1 else f"each of {count:,} replicas"
        commands += [
            Command(label=f"{command.engine}, {role}pool, {each}" if role else f"{command.engine}, {each}", text=command.line)
            for command in pool.commands
        ]
    return tuple(commands)


def _sections(planned: Planned, values: Values, candidates: list[Scaled]) -> list[Section]:
    made = []
    made += _drawn(figures.finish(planned, values, candidates))
    for name in ("TPOT", "TTFT") if planned.batch is None else ():
        made += _drawn(figures.pareto(planned, values, candidates, name))
    made.append(Section(key="candidates", title="Candidates", note="", figure=None, tables=_some(
        tables.candidates(planned, values, candidates), tables.simulated(planned, candidates),
        tables.remarks(candidates))))  # fmt: skip
    rates = _drawn(figures.steps(planned, values, candidates))
    made += rates
    made.append(Section(key="prices", title="Prices", note=_how(planned), figure=None,
                        tables=(tables.prices(planned, values),), half=len(rates) > 0))  # fmt: skip
    made.append(Section(key="pools", title="Candidates in detail", note="", figure=None, tables=_some(
        tables.details(planned, values, candidates), tables.pools(planned, candidates), tables.kv_cache(candidates),
    ), folded=True))  # fmt: skip
    made.append(Section(key="traffic", title="Traffic and objectives", note="", figure=None, tables=_some(
        tables.traffic(planned), tables.load(planned), tables.classes(planned, candidates[0])), folded=True))  # fmt: skip
    made.append(_inputs(planned))
    return made


def _how(planned: Planned) -> str:
    single = [price for price in planned.prices if not price.offers]
    moved = " and ".join([*(["the rate"] if planned.rate is not None else []), *(["the prices"] if single else [])])
    text = f"{moved[:1].upper()}{moved[1:]} can be set on the page: candidates are counted and ranked again. " if moved else ""
    if planned.batch is not None:
        return f"{text}Replicas and finish times stay as planned."
    if planned.rate is None:
        return f"{text}A closed loop has no rate of its own: replicas stay as planned."
    return f"{text}What a replica serves holds for any number of replicas; times are those of the planned rate."


def _drawn(figure: Figure | None) -> list[Section]:
    if figure is None:
        return []
    return [Section(key=figure.key, title=figure.title, note="", figure=figure, tables=(), half=True)]


def _some(*listed: Table | None) -> tuple[Table, ...]:
    return tuple([one for one in listed if one is not None])


def _inputs(planned: Planned) -> Section:
    listed = _some(tables.refused(planned), tables.inputs(planned))
    return Section(key="inputs", title="Inputs", note="", figure=None, tables=listed, folded=True)


def _refusal(planned: Planned) -> View:
    """Why there is no answer."""
    rows = [(text_cell(one.name), text_cell(one.value)) for one in planned.nearest]
    nearest = table("nearest", "Nearest to it", "", ("what", "value"), rows) if rows else None
    sections = (
        [Section(key="nearest", title="What comes nearest", note="", figure=None, tables=_some(nearest))] if nearest else []
    )
    traffic = Section(key="traffic", title="Traffic and objectives", note="", figure=None,
                    tables=_some(tables.traffic(planned), tables.load(planned)))  # fmt: skip
    return View(
        title=title(planned),
        subtitle=subtitle(planned),
        answer=(*infeasible(planned)[1:], *_counts(planned)),
        fits=False,
        error="",
        tiles=(),
        commands=(),
        sections=(*sections, traffic, _inputs(planned)),
        assumptions=tables.assumptions(planned),
        not_modelled=_NOT_MODELLED,
        verdict=infeasible(planned)[0],
    )


# Controls

_RATES = 10.0
"""How far the rate can be moved, as a factor."""
_CENT = 0.01


def controls(planned: Planned) -> tuple[Control, ...]:
    """Controls for the rate, which a closed loop does not have, and for the price of each hardware that has a single one."""
    settings = [] if planned.rate is None else [_rate(planned.rate)]
    return (*settings, *(_price(price, planned.currency) for price in planned.prices if not price.offers))


def _rate(rate: float) -> Control:
    return Control(
        key="rate", label="Rate", kind="number", value=rate, low=rate / _RATES, high=rate * _RATES, log=True,
        unit="requests/s", group="Traffic", help="at the peak; times stay those of the planned rate",
    )  # fmt: skip


def _price(price: Price, currency: str) -> Control:
    """In steps of a hundredth, where the price is one of them. NB: without a price, a control stands at 0 and says so."""
    value = 0.0 if price.hour is None else price.hour
    low = 0.0 if price.hour is None else min(_CENT, value)
    high = 10.0 if price.hour is None else max(3 * value, 2 * (price.high or 0.0), 1.0)
    even = abs(value / _CENT - round(value / _CENT)) < 1e-6 and value >= _CENT
    return Control(
        key=price.key, label=price.hardware, kind="number", value=value, low=low, high=round(high, 2) if even else high,
        step=_CENT if even or price.hour is None else None, unit=f"{currency}/h",
        zero="not known" if price.hour is None else "", group="Price of a device", help=_range(price),
    )  # fmt: skip


def _range(price: Price) -> str:
    if price.hour is None:
        return "the plan has none; 0: not known"
    if price.low is None or price.high is None or price.low == price.high:
        return ""
    return f"price range: {price.low:,.2f} to {price.high:,.2f}"
