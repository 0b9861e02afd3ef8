"""A plan's figures: cost against latency, and cost against the rate."""

from __future__ import annotations

from itertools import pairwise

from roofline.formatting import about, duration, money, number, seconds
from roofline.report.cells import about_time, table, text_cell, whole
from roofline.report.cells import seconds as seconds_cell
from roofline.report.figure import Axis, Cell, Figure, Mark, Series, Table
from roofline.report.plan.load import Planned, Times
from roofline.report.plan.scaling import Scaled, Values, cost_per_hour, on_front, price_of, replicas, same_rate, total_cost
from roofline.report.plan.tables import deployed

_HUES, _LINES = 5, 4
_RANGE = 4.0
"""How far from the planned rate the steps are drawn, as a factor."""
_STEPS = 200


def _times(one: Scaled, name: str) -> Times:
    return one.of.ttft if name == "TTFT" else one.of.tpot


def _height(planned: Planned, one: Scaled, by_devices: bool) -> float | None:
    return float(one.devices) if by_devices else one.per_hour


def _up(planned: Planned, by_devices: bool) -> Axis:
    title = "devices" if by_devices else "cost per hour"
    return Axis(title=title, scale="linear", unit="" if by_devices else planned.currency)


def _by_devices(candidates: list[Scaled]) -> bool:
    """Devices stand for money where a price is not known."""
    return any(one.per_hour is None for one in candidates)


def pareto(planned: Planned, values: Values, candidates: list[Scaled], name: str) -> Figure | None:
    """Point plot of cost per hour against mean TTFT or TPOT in seconds; None if fewer than two candidates have it.

    `name` is "TTFT" or "TPOT". Devices take the place of cost if some price is unknown.
    """
    timed = [one for one in candidates if _times(one, name).mean is not None]
    if len(timed) < 2:
        return None
    by_devices, front = _by_devices(timed), on_front(planned, values, candidates)
    kinds = [price.hardware for price in planned.prices][:_HUES]
    series = []
    for variant, kind in enumerate(kinds):
        filled = [one for one in timed if one.of.hardware == kind and one.of.number in front]
        hollow = [one for one in timed if one.of.hardware == kind and one.of.number not in front]
        if filled:
            series.append(_dots(planned, filled, timed, name, kind, "estimate", variant, by_devices))
        if hollow:
            series.append(_dots(planned, hollow, timed, name, kind, "bound", variant, by_devices))
    others = [one for one in timed if one.of.hardware not in kinds]
    if others:
        series.append(_dots(planned, others, timed, name, "other hardware", "free", 0, by_devices))
    line = _line(planned, timed, name, by_devices)
    xs = tuple([_times(one, name).mean or 0.0 for one in line])
    ys = tuple([_height(planned, one, by_devices) or 0.0 for one in line])
    series.insert(
        0, Series(name=f"front of {'devices' if by_devices else 'cost'} and {name}", kind="line", role="roof", x=xs, y=ys)
    )
    note = "Numbers are those of the table. Filled: on the front of cost, TTFT and TPOT together."
    if by_devices:
        note += " Devices stand for cost, since not every price is known."
    if not same_rate(planned, values) and planned.rate is not None:
        note += f" Times are those at the planned {number(planned.rate)} requests/s."
    return Figure(
        key=f"cost-{name.lower()}",
        title=f"{'Devices' if by_devices else 'Cost'} against {name}",
        note=note,
        x=Axis(title=f"mean {name}", scale="log", unit="s"),
        y=_up(planned, by_devices),
        series=tuple(series),
        table=_points(planned, timed, name, front, by_devices),
    )


def finish(planned: Planned, values: Values, candidates: list[Scaled]) -> Figure | None:
    """Point plot of what offline work costs against when it is done; None of other work, or of fewer than two candidates.

    Devices take the place of cost if some price is unknown.
    """
    timed = [one for one in candidates if one.of.finish is not None and one.of.finish.mean is not None]
    if len(timed) < 2 or planned.batch is None:
        return None
    by_devices, front = _by_devices(timed), on_front(planned, values, candidates)
    deadline = planned.batch.deadline
    length, unit = (3600.0, "h") if deadline >= 3600 else (1.0, "s")
    series, rows = [], []
    kinds = [price.hardware for price in planned.prices][:_HUES]
    for variant, kind in enumerate([*kinds, "other hardware"]):
        ones = [one for one in timed if one.of.hardware == kind or (variant == len(kinds) and one.of.hardware not in kinds)]
        for role in ("estimate", "bound"):
            dots = [one for one in ones if (one.of.number in front) == (role == "estimate")]
            if dots:
                series.append(Series(
                    name=kind,
                    kind="points",
                    role=role,
                    x=tuple([_finish(one) / length for one in dots]),
                    y=tuple([_paid(one, by_devices) for one in dots]),
                    labels=tuple([_finish_label(planned, one) for one in dots]),
                    short=tuple([f"{one.of.number}" for one in dots]),
                    variant=variant,
                ))  # fmt: skip
    for one in timed:
        cost = whole(one.devices) if by_devices else Cell(text=money(_paid(one, by_devices)), value=_paid(one, by_devices))
        rows.append((
            text_cell(f"{one.of.number}"),
            text_cell(one.of.hardware),
            cost,
            Cell(text=duration(_finish(one)), value=_finish(one)),
            text_cell("yes" if one.of.number in front else "no"),
        ))  # fmt: skip
    head = "devices" if by_devices else f"{planned.currency} in total"
    return Figure(
        key="finish",
        title=f"{'Devices' if by_devices else 'Cost'} against the finish time",
        note="Numbers are those of the table. Filled: none listed is cheaper and done earlier.",
        x=Axis(title="finish time", scale="log", unit=unit),
        y=Axis(title="devices" if by_devices else "cost in total", scale="linear", unit="" if by_devices else planned.currency),
        series=tuple(series),
        marks=(Mark(text=f"deadline: {duration(deadline)}", x=deadline / length, role="slo"),),
        table=table("finish-rows", "Points", "", ("no.", "hardware", head, "finish time", "on the front"), rows),
    )


def _finish(one: Scaled) -> float:
    return 0.0 if one.of.finish is None else one.of.finish.mean or 0.0


def _paid(one: Scaled, by_devices: bool) -> float:
    return float(one.devices) if by_devices else total_cost(one) or 0.0


def _finish_label(planned: Planned, one: Scaled) -> str:
    parts = [deployed(pool, count) for pool, count in zip(one.of.pools, one.replicas, strict=True)]
    cost = total_cost(one)
    paid = "" if cost is None else f", {money(cost)} {planned.currency}"
    after = f", done after {duration(_finish(one))}"
    return f"{one.of.number}: {one.of.hardware}, {' and '.join(parts)}, {one.of.precision}{paid}{after}"


def _line(planned: Planned, timed: list[Scaled], name: str, by_devices: bool) -> list[Scaled]:
    """Those that nothing beats in these two, from left to right."""
    front: list[Scaled] = []
    least = float("inf")
    for one in sorted(timed, key=lambda each: (_times(each, name).mean or 0.0, _height(planned, each, by_devices) or 0.0)):
        height = _height(planned, one, by_devices) or 0.0
        if height < least - 1e-9:
            front.append(one)
            least = height
    return front


def _dots(
    planned: Planned, ones: list[Scaled], timed: list[Scaled], name: str, called: str, role: str, variant: int, by_devices: bool
) -> Series:
    return Series(
        name=called,
        kind="points",
        role=role,
        x=tuple([_times(one, name).mean or 0.0 for one in ones]),
        y=tuple([_height(planned, one, by_devices) or 0.0 for one in ones]),
        labels=tuple([_label(planned, one) for one in ones]),
        short=tuple([_numbers(planned, one, timed, name, by_devices) for one in ones]),
        variant=variant,
    )


_NEAR = 1.03
"""A ratio of times up to which points of one height cover each other."""


def _numbers(planned: Planned, one: Scaled, timed: list[Scaled], name: str, by_devices: bool) -> str:
    """The number of a candidate, with those that its point hides; none for a point that another names."""
    at, height = _times(one, name).mean or 0.0, _height(planned, one, by_devices)
    same = []
    for other in timed:
        mean = _times(other, name).mean or 0.0
        if _height(planned, other, by_devices) == height and max(mean, at) <= _NEAR * min(mean, at):
            same.append(other.of.number)
    return ", ".join([f"{number}" for number in sorted(same)]) if one.of.number == min(same) else ""


def _label(planned: Planned, one: Scaled) -> str:
    parts = [deployed(pool, count) for pool, count in zip(one.of.pools, one.replicas, strict=True)]
    cost = "" if one.per_hour is None else f", {money(one.per_hour)} {planned.currency} per hour"
    form = about if one.of.basis == "estimate" else seconds
    times = ", ".join([
        f"{name} {form(mean)}" for name, mean in (("TTFT", one.of.ttft.mean), ("TPOT", one.of.tpot.mean)) if mean is not None
    ])  # fmt: skip
    return f"{one.of.number}: {one.of.hardware}, {' and '.join(parts)}, {one.of.precision}{cost}, {times}"


def _points(planned: Planned, timed: list[Scaled], name: str, front: list[int], by_devices: bool) -> Table:
    rows = []
    for one in timed:
        height = _height(planned, one, by_devices)
        cost = whole(one.devices) if by_devices or height is None else Cell(text=money(height), value=height)
        kind = "yes" if one.of.number in front else "no"
        rows.append(
            (
                text_cell(f"{one.of.number}"),
                text_cell(one.of.hardware),
                cost,
                (about_time if one.of.basis == "estimate" else seconds_cell)(_times(one, name).mean),
                text_cell(kind),
            )
        )
    head = "devices" if by_devices else f"{planned.currency} per hour"
    return table(f"cost-{name.lower()}-rows", "Points", "", ("no.", "hardware", head, f"mean {name}", "on the front"), rows)


def steps(planned: Planned, values: Values, candidates: list[Scaled]) -> Figure | None:
    """Step plot of cost per hour against requests/s, since each further replica is a step; None for a closed loop."""
    if planned.rate is None:
        return None
    low, high = planned.rate / _RANGE, planned.rate * _RANGE
    chosen, by_devices = _cheapest(planned, values, candidates, low, high)
    series, rows = [], []
    drawn: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
    names: list[str] = []
    for one in chosen:
        edges = _edges(one, low, high)
        xs, ys = [], []
        for start, end in pairwise(edges):
            height = _paid_at(planned, values, one, end, by_devices)
            xs += [start, end]
            ys += [height, height]
        line = (tuple(xs), tuple(ys))
        if line in drawn:  # as many devices of the same price at every rate
            names[drawn.index(line)] = f"{one.of.number} and {names[drawn.index(line)]}"
        else:
            drawn.append(line)
            names.append(f"{one.of.number}: {one.of.hardware}, {one.of.precision}, {_layouts(one)}")
        at = [planned.rate / 2, planned.rate, planned.rate * 2, values["rate"]]
        costs = [_paid_at(planned, values, one, rate, by_devices) for rate in at]
        cells = [whole(cost) if by_devices else Cell(text=money(cost), value=cost) for cost in costs]
        rows.append((text_cell(f"{one.of.number}"), text_cell(one.of.hardware), *cells))
    for index, (xs_drawn, ys_drawn) in enumerate(drawn):
        series.append(Series(name=names[index], kind="line", role="roof", x=xs_drawn, y=ys_drawn, variant=index))
    heads = [f"at {number(rate)} requests/s" for rate in (planned.rate / 2, planned.rate, planned.rate * 2)]
    marks = [Mark(text=f"planned: {number(planned.rate)} requests/s", x=planned.rate, role="slo")]
    if not same_rate(planned, values) and low <= values["rate"] <= high:
        marks.append(Mark(text=f"{number(values['rate'])} requests/s", x=values["rate"], role="critical"))
    note = (
        "Spares included. Only candidates of the plan are drawn, those that are cheapest somewhere first: at rates far from "
        "the planned one, a deployment that is not on this page may be better."
    )
    return Figure(
        key="steps",
        title="Devices against the rate" if by_devices else "Cost against the rate",
        note=note,
        x=Axis(title="rate", scale="log", low=low, high=high, unit="requests/s"),
        y=_up(planned, by_devices),
        series=tuple(series),
        marks=tuple(marks),
        table=table("steps-rows", "Devices" if by_devices else "Cost per hour", "",
                    ("no.", "hardware", *heads, "at the rate that is set"), rows),
    )  # fmt: skip


def _layouts(one: Scaled) -> str:
    return " and ".join([pool.layout if pool.role == "both" else f"{pool.role} {pool.layout}" for pool in one.of.pools])


def _devices(one: Scaled, rate: float) -> int:
    return sum([pool.devices * replicas(pool, rate) for pool in one.of.pools])


def _edges(one: Scaled, low: float, high: float) -> list[float]:
    """Rates at which a replica more is needed, and both ends."""
    edges = [low, high]
    for pool in one.of.pools:
        first = int(low / pool.max_rate) + 1
        for count in range(first, min(int(high / pool.max_rate) + 1, first + _STEPS)):
            edge = count * pool.max_rate
            if low < edge < high:
                edges.append(edge)
    return sorted(set(edges))


def _paid_at(planned: Planned, values: Values, one: Scaled, rate: float, by_devices: bool) -> float:
    """Devices that a candidate takes at a rate, or their cost per hour."""
    devices = _devices(one, rate)
    return float(devices) if by_devices else cost_per_hour(price_of(planned, one.of), devices, values)


def _cheapest(planned: Planned, values: Values, candidates: list[Scaled], low: float, high: float) -> tuple[list[Scaled], bool]:
    """Some candidates: those that cost least at one of the rates, most often first, then those ranked first."""
    by_devices = _by_devices(candidates)
    wins = {one.of.number: 0 for one in candidates}
    for step in range(65):
        rate = low * (high / low) ** (step / 64)
        costs = [(_paid_at(planned, values, one, rate, by_devices), index) for index, one in enumerate(candidates)]
        least = min([cost for cost, _ in costs])
        winner = next(candidates[index].of.number for cost, index in costs if cost <= least + 1e-9)
        wins[winner] += 1
    best = sorted(candidates, key=lambda one: -wins[one.of.number])
    winners = [one for one in best if wins[one.of.number] > 0]
    others = [one for one in candidates if wins[one.of.number] == 0]
    return [*winners, *others][:_LINES], by_devices
