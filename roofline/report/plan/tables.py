"""Tables, tiles and sentences of a plan's page."""

from __future__ import annotations

from collections.abc import Callable

from roofline import formatting
from roofline.formatting import about_range, duration, money, number, percent, plural, seconds
from roofline.report.cells import NOTHING, about_time, share, table, text_cell, whole
from roofline.report.cells import seconds as seconds_cell
from roofline.report.figure import Cell, Table, Tile
from roofline.report.plan.load import Class, Offer, Planned, Pool, Refused, Relax, Times
from roofline.report.plan.scaling import Scaled, Values, as_planned, on_front, ordered, same_rate, total_cost

_REASONS, _INPUTS = 40, 60


def _money(value: float | None) -> Cell:
    return NOTHING if value is None else Cell(text=money(value), value=value)


def _number(value: float | None) -> Cell:
    return NOTHING if value is None else Cell(text=number(value), value=value)


def tiles(planned: Planned, values: Values, best: Scaled) -> tuple[Tile, ...]:
    """Headline numbers of the first candidate: devices, cost, TTFT, TPOT, power, headroom."""
    then = "" if same_rate(planned, values) or planned.rate is None else f" at {number(planned.rate)} requests/s"
    what = " + ".join([_counted(pool, count) for pool, count in zip(best.of.pools, best.replicas, strict=True)])
    if best.of.watts is not None:  # of the devices of the plan, without hosts
        drawn = best.of.watts * best.devices / sum([pool.devices * pool.replicas for pool in best.of.pools]) / 1000
        what += f"; TDP {number(drawn, 3)} kW"
    tiles = [Tile(label="Devices", cell=whole(best.devices), note=what)]
    if best.per_hour is not None:
        spread = "" if best.low is None or best.high is None or best.low == best.high else (
            f"{money(best.low)} to {money(best.high)}"
        )  # fmt: skip
        tiles.append(Tile(label=f"{planned.currency} per hour", cell=_money(best.per_hour), note=spread))
        parts = ""
        if best.million_input is not None and best.million_output is not None:
            parts = f"input {money(best.million_input)}, output {money(best.million_output)}"
        tiles.append(Tile(label=f"{planned.currency} per million tokens", cell=_money(best.million), note=parts))
    finish = best.of.finish
    if finish is not None and finish.mean is not None:
        tiles.append(Tile(label="Finish", cell=_lasts(finish.mean), note=_finish_note(planned, finish)))
        if (cost := total_cost(best)) is not None:
            tiles.append(Tile(label=f"{planned.currency} in total", cell=_money(cost), note="until the last request has ended"))
    waits = () if finish is not None else (("TTFT", best.of.ttft),)
    for name, times in (*waits, ("TPOT", best.of.tpot)):
        tiles.append(Tile(label=f"{name}, {_percentile(planned)}{then}", cell=_time(best, times.at), note=_band(best, times)))
    if best.headroom is not None:
        what = _BINDS.get(best.binds, best.binds)
        tiles.append(Tile(label="Headroom", cell=_headroom(best.headroom), note=f"of the rate; then {what} limits it"))
    return tuple(tiles)


def _lasts(value: float | None) -> Cell:
    return NOTHING if value is None else Cell(text=duration(value), value=value)


def _finish_note(planned: Planned, finish: Times) -> str:
    """The interval of a finish time, and the deadline."""
    between = "" if finish.low is None or finish.high is None else (
        f"80 % interval {duration(finish.low)} to {duration(finish.high)}"
    )  # fmt: skip
    limit = "" if planned.batch is None else f"deadline {duration(planned.batch.deadline)}"
    return "; ".join([part for part in (between, limit) if part])


def _percentile(planned: Planned) -> str:
    return f"p{number(planned.percentile * 100)}"


def _time(one: Scaled, value: float | None) -> Cell:
    """A time of a candidate: an estimate with two or three digits, a bound with three."""
    return about_time(value) if one.of.basis == "estimate" else seconds_cell(value)


def _band(one: Scaled, times: Times) -> str:
    if times.mean is None:
        return ""
    between = "" if times.low is None or times.high is None else f", 80 % interval {about_range(times.low, times.high)}"
    return f"mean {_time(one, times.mean).text}{between}"


def _headroom(value: float | None) -> Cell:
    return NOTHING if value is None else Cell(text=percent(value, 0, sign=True), value=value)


def candidates(planned: Planned, values: Values, listed: list[Scaled]) -> Table:
    """Table of all candidates, best first: what they are, what they cost, how far they are from their limit."""
    at, front = _percentile(planned), on_front(planned, values, listed)
    limited, offline = any(one.beyond != "" for one in listed), planned.batch is not None
    currency = planned.currency or "cost"
    first = ["finish", f"{currency} in total"] if offline else [f"TTFT, {at}"]
    names = [
        "no.", "hardware", "replicas", "precision", "devices", f"{currency}/h", f"{currency}/M tokens",
        *first, f"TPOT, {at}", *([] if planned.rate is None else ["headroom"]), "limited by", "Pareto",
        *(["beyond the limits"] if limited else []),
    ]  # fmt: skip
    rows = []
    for one in listed:
        cells = [
            text_cell(f"{one.of.number}"),
            text_cell(one.of.hardware),
            text_cell(" + ".join([_counted(pool, count) for pool, count in zip(one.of.pools, one.replicas, strict=True)])),
            text_cell(one.of.precision),
            whole(one.devices),
            _money(one.per_hour),
            _money(one.million),
        ]
        if offline:
            cells += [_lasts(None if one.of.finish is None else one.of.finish.mean), _money(total_cost(one))]
        else:
            cells.append(_time(one, one.of.ttft.at))
        cells.append(_time(one, one.of.tpot.at))
        if planned.rate is not None:
            cells.append(_headroom(one.headroom))
        cells += [
            text_cell(_BINDS.get(one.binds, one.binds)),
            text_cell("front" if one.of.number in front else "–"),
        ]
        rows.append((*cells, text_cell(one.beyond)) if limited else tuple(cells))
    by = {
        "cost": "Cheapest first",
        "token-cost": "Cheapest per token first",
        "gpus": "Fewest devices first",
        "latency": "Lowest latency first",
    }
    measures = "cost and finish time" if offline else "cost, TTFT and TPOT"
    note = f"Front: no other candidate is better in {measures} together. "
    if planned.rate is not None:
        note += f"Times are those at the planned {number(planned.rate)} requests/s. Headroom: over the rate, without spares."
    return table("candidates", by.get(planned.rank, planned.rank), note, tuple(names), rows)


def details(planned: Planned, values: Values, listed: list[Scaled]) -> Table:
    """Table of what `candidates` leaves out: mean times, utilization, the rate at which a candidate is full."""
    names = [
        "no.",
        "hardware",
        "TTFT, mean",
        "TPOT, mean",
        "utilization",
        *([] if planned.rate is None else ["capacity, requests/s"]),
    ]
    rows = []
    for one in listed:
        cells = [
            text_cell(f"{one.of.number}"),
            text_cell(one.of.hardware),
            _time(one, one.of.ttft.mean),
            _time(one, one.of.tpot.mean),
            share(one.utilisation),
        ]
        rows.append((*cells, _number(one.breaks_at)) if planned.rate is not None else tuple(cells))
    note = "Utilization: of the rate that saturates, the fuller pool's."
    if not as_planned(planned, values) and any(one.utilisation is None for one in listed):
        note += " Where two pools share the work, their utilization is known at the planned rate alone."
    return table("details", "Mean times and utilization", note, tuple(names), rows)


def simulated(planned: Planned, listed: list[Scaled]) -> Table | None:
    """Table of what was predicted beside what simulations show; None where none was simulated."""
    ones = [one for one in listed if one.of.simulated is not None]
    if not ones:
        return None
    at, rows = _percentile(planned), []
    for one in ones:
        simulation = one.of.simulated
        if simulation is None:
            continue
        if planned.batch is not None:
            times = [_lasts(None if one.of.finish is None else one.of.finish.mean), _lasts(simulation.finish)]
        else:
            times = [_time(one, one.of.ttft.at), _between(simulation.ttft)]
        replicas = "–" if simulation.replicas is None else f"{simulation.replicas:,}"
        rows.append((
            text_cell(f"{one.of.number}"),
            text_cell(one.of.hardware),
            text_cell(f"{simulation.verdict}: {simulation.why}" if simulation.why else simulation.verdict),
            whole(simulation.planned_replicas),
            text_cell(replicas),
            *times,
            _time(one, one.of.tpot.at),
            _between(simulation.tpot),
            share(simulation.within),
            whole(simulation.requests),
        ))  # fmt: skip
    first = ("finish", "finish, simulated") if planned.batch is not None else (f"TTFT, {at}", f"TTFT, {at}, simulated")
    names = (
        "no.", "hardware", "simulation", "replicas planned", "replicas that hold", *first, f"TPOT, {at}",
        f"TPOT, {at}, simulated", "within all objectives", "requests",
    )  # fmt: skip
    note = "Both of the replicas that hold, spares not counted. In brackets the 95 % confidence interval of the simulation."
    return table("simulated", "Predicted and simulated", note, names, rows)


def _between(times: Times) -> Cell:
    """A simulated time with its confidence interval."""
    if times.at is None:
        return NOTHING
    interval = "" if times.low is None or times.high is None else f" ({about_range(times.low, times.high)})"
    return Cell(text=f"{formatting.about(times.at)}{interval}", value=times.at)


def pools(planned: Planned, candidates: list[Scaled]) -> Table:
    """Table of each pool's replicas, and the rate and limit that they follow from."""
    rows = []
    for one in candidates:
        for pool, count in zip(one.of.pools, one.replicas, strict=True):
            role = "" if pool.role == "both" else f", {pool.role}"
            rows.append((
                text_cell(f"{one.of.number}"),
                text_cell(f"{one.of.hardware}, {one.of.precision}, {pool.layout}{role}"),
                _number(pool.max_rate),
                text_cell(_BINDS.get(pool.binds, pool.binds)),
                whole(pool.spare),
                whole(pool.replicas),
                whole(count),
                whole(pool.devices),
                whole(count * pool.devices),
                text_cell(pool.settings),
            ))  # fmt: skip
    closed = planned.rate is None
    names = (
        "no.", "replica", "one serves, requests/s", "limit", "spare", "replicas planned", "replicas now", "devices each",
        "devices now", "settings",
    )  # fmt: skip
    note = (
        "Replicas that share the requests; what one serves is at full load."
        if planned.batch is not None
        else "Replicas that the clients are spread over; what one serves is under random arrivals within the objectives."
        if closed
        else "Replicas = the rate over what one serves within the objectives, rounded up, and the spares."
    )
    return table("pools", "Replicas", note, names, rows)


def prices(planned: Planned, values: Values) -> Table:
    """Table of the price of a device per hour, by hardware."""
    rows = [
        (
            text_cell(one.hardware),
            _money(None if one.offers else values[one.key] or None),
            text_cell(_offers(one.offers) if one.offers else one.price),
        )
        for one in planned.prices
    ]
    name = f"{planned.currency} per hour" if planned.currency else "cost per hour"
    return table("prices", "Prices of a device", "", ("hardware", name, "the plan's price, with its source"), rows)


def _offers(offers: tuple[Offer, ...]) -> str:
    return ", then ".join(
        [f"any number at {one.hour:,.2f}" if one.count is None else f"{one.count:,} at {one.hour:,.2f}" for one in offers]
    )


def traffic(planned: Planned) -> Table:
    """Table of the classes of requests, a column each, with their objectives."""
    closed, listed, batch = planned.rate is None, planned.classes, planned.batch
    rows = [
        (text_cell("requests"), *(text_cell("" if batch is None else f"{batch.requests:,}") for one in listed))
        if batch is not None
        else (text_cell("clients"), *(text_cell(f"{one.clients:,}") for one in listed))
        if closed
        else (text_cell("requests/s, mean"), *(text_cell(number(one.rate or 0.0)) for one in listed)),
        (text_cell("prompt, tokens"), *(text_cell(one.input_len) for one in listed)),
        (text_cell("mean of it"), *(text_cell(number(one.mean_input)) for one in listed)),
        (text_cell("output, tokens"), *(text_cell(one.output_len) for one in listed)),
        (text_cell("mean of it"), *(text_cell(number(one.mean_output)) for one in listed)),
        (text_cell("cached of a prompt"), *(text_cell(percent(one.prefix_hit)) for one in listed)),
        (text_cell("objectives"), *(text_cell(_objectives(one)) for one in listed)),
    ]
    if not closed:
        rows.append((text_cell("burstiness of arrivals"), *(text_cell(number(one.burstiness)) for one in listed)))
    return table("traffic", "Traffic", "", ("what", *(one.name for one in listed)), rows)


def load(planned: Planned) -> Table:
    """Table of what is planned for, and within which limits."""
    limits = planned.limits
    rows = [] if planned.rate is None else [(text_cell("planned for"), text_cell(f"{number(planned.rate)} requests/s"))]
    if planned.batch is not None:
        work = f"{planned.batch.output_tokens:,} output tokens in {duration(planned.batch.deadline)}"
        rows.append((text_cell("planned for"), text_cell(work)))
    if planned.clients is not None:
        rows.append((text_cell("planned for"), text_cell(f"{planned.clients:,} clients, each with one request under way")))
    if planned.mean_rate is not None and planned.peak_factor != 1:
        peak = f"{number(planned.mean_rate)} requests/s on average, {number(planned.peak_factor)} times as many at the peak"
        rows.append((text_cell("over a day"), text_cell(f"{peak}; tokens are priced at the average")))
    rows += [(text_cell("spare replicas"), text_cell(f"{limits.spare:,} of each pool"))]
    if limits.max_gpus is not None:
        rows.append((text_cell("devices at most"), text_cell(f"{limits.max_gpus:,}")))
    if limits.max_cost is not None:
        rows.append((text_cell("max cost per hour"), text_cell(f"{money(limits.max_cost)} {planned.currency}")))
    if limits.inventory is not None:
        rows.append(
            (text_cell("there are"), text_cell(", ".join([f"{count:,} x {name}" for name, count in limits.inventory.items()])))
        )
    rows.append((text_cell("ways of serving"), text_cell(", ".join(limits.modes))))
    rows.append((text_cell("ranked by"), text_cell(planned.rank)))
    return table("load", "Query", "", ("what", "value"), rows)


def classes(planned: Planned, best: Scaled) -> Table | None:
    """Table of the latencies that each class has with a candidate; None if there is one class alone."""
    if len(planned.classes) < 2:
        return None
    by_name = {one.name: one for one in planned.classes}
    rows = []
    for one in best.of.classes:
        wanted = by_name.get(one.name)
        rows.append((
            text_cell(one.name),
            text_cell("" if wanted is None else percent(wanted.percentile)),
            seconds_cell(one.ttft.mean),
            seconds_cell(one.ttft.at),
            _objective(wanted, "ttft"),
            seconds_cell(one.tpot.mean),
            seconds_cell(one.tpot.at),
            _objective(wanted, "tpot"),
        ))  # fmt: skip
    names = (
        "class", "share of requests", "TTFT, mean", "TTFT, of the share", "TTFT objective", "TPOT, mean", "TPOT, of the share",
        "TPOT objective",
    )  # fmt: skip
    return table("classes", f"What each class sees of no. {best.of.number}", "At the planned rate.", names, rows)


def kv_cache(listed: list[Scaled]) -> Table | None:
    """Table of what the KV cache of a replica holds; None where no candidate retains prefixes."""
    rows = [
        (text_cell(f"{one.of.number}"), *(text_cell(part) for part in one.of.kv_cache)) for one in listed if one.of.kv_cache
    ]
    if not rows:
        return None
    names = (
        "no.", "capacity", "running", "system prompts", "idle conversations", "ended", "evicted after", "conversations cached",
        "prompt tokens cached", "a given share needs",
    )  # fmt: skip
    return table("kv-cache", "KV cache of a replica", "At the planned rate.", names, rows)


def _objective(one: Class | None, name: str) -> Cell:
    if one is None:
        return NOTHING
    return seconds_cell(one.ttft if name == "ttft" else one.tpot)


def assumptions(planned: Planned) -> Table:
    """Table of the plan's assumptions."""
    rows = [(text_cell(one.name), text_cell(one.value), text_cell(one.origin), text_cell(one.why)) for one in planned.notes]
    return table("assumptions", "Assumptions", "", ("name", "value", "origin", "why"), rows)


def remarks(candidates: list[Scaled]) -> Table | None:
    """Table of notes on single candidates; None without any."""
    numbers_of: dict[str, list[str]] = {}
    for one in candidates:
        for note in one.of.notes:
            numbers_of.setdefault(note, []).append(f"{one.of.number}")
        if one.of.basis != "estimate":
            numbers_of.setdefault("times are lower bounds", []).append(f"{one.of.number}")
    rows = [(text_cell(note), text_cell(", ".join(numbers))) for note, numbers in numbers_of.items()]
    return table("remarks", "Remarks", "", ("remark", "candidates"), rows) if rows else None


def refused(planned: Planned) -> Table | None:
    """Table of deployments that cannot hold a single request, by reason; None without any."""
    if not planned.refused:
        return None
    reasons: dict[str, list[Refused]] = {}
    for one in planned.refused:
        reasons.setdefault(one.why, []).append(one)
    rows = [
        (text_cell(why), text_cell("; ".join([f"{one.hardware}, {one.precision}, {one.layout}" for one in ones])))
        for why, ones in list(reasons.items())[:_REASONS]
    ]
    more = f"The first {_REASONS} of {len(reasons):,} reasons." if len(reasons) > _REASONS else ""
    return table("refused", "Refused", more, ("why", "deployments"), rows)


def inputs(planned: Planned) -> Table:
    """Table of the files that the plan is computed from."""
    rows = [(text_cell(one.role), text_cell(one.name), text_cell(one.sha256[:16])) for one in planned.files[:_INPUTS]]
    note = f"roofline {planned.version}, data {planned.data_version}."
    return table("inputs", "Inputs", note, ("what", "name", "SHA-256, its start"), rows)


# Sentences

_ROLES = {"both": "replica", "prefill": "prefill replica", "decode": "decode replica"}
_BREAKS = {
    "ttft": "the TTFT objective is missed first",
    "tpot": "the TPOT objective is missed first",
    "memory": "the KV cache fills up first",
    "throughput": "the replicas exceed the utilization that a plan allows",
}
_BINDS = {"ttft": "TTFT", "tpot": "TPOT"}


def _load_text(planned: Planned, values: Values) -> str:
    """The load as text: `50 requests/s`, or `64 clients`."""
    if planned.batch is not None:
        return f"{planned.batch.output_tokens:,} output tokens in {duration(planned.batch.deadline)}"
    if planned.rate is None:
        return plural(planned.clients or 0, "client")
    return f"{number(values['rate'])} {'request' if values['rate'] == 1 else 'requests'}/s"


def deployed(pool: Pool, count: int) -> str:
    """A pool as text: `3 replicas of tp=2 (1 spare)`."""
    spare = f" ({pool.spare:,} spare)" if pool.spare else ""
    return f"{plural(count, _ROLES[pool.role])} of {pool.layout}{spare}"


def _counted(pool: Pool, count: int) -> str:
    """A pool as text for a table: `3 x tp=2`, `2 x one device (prefill)`."""
    notes = [*([] if pool.role == "both" else [pool.role]), *([f"{pool.spare:,} spare"] if pool.spare else [])]
    return f"{count:,} x {pool.layout}" + (f" ({', '.join(notes)})" if notes else "")


def title(planned: Planned) -> str:
    """Title of the page: model and load."""
    return f"{planned.model} for {_load_text(planned, {'rate': planned.rate})}"


def subtitle(planned: Planned) -> str:
    """One line of text: the traffic and its objectives."""
    if len(planned.classes) > 1:
        return f"{len(planned.classes)} classes of requests"
    one = planned.classes[0]
    lengths = f"prompt {one.input_len}, output {one.output_len}"
    return lengths if one.ttft is None and one.tpot is None else f"{lengths} · {_objectives(one)} of requests"


def searched(planned: Planned) -> str:
    """How many deployments were searched, and how many remained after each step, in a sentence."""
    seen = planned.considered
    if "deployments" not in seen:
        return ""
    parts = [f"{plural(seen['deployments'], 'combination')} of hardware, precision and parallelism searched"]
    parts += [f"{seen['fit']:,} fit in memory"] if "fit" in seen else []
    if "meet" in seen:
        pools = " (as one pool, or paired as prefill and decode pools)" if "disaggregated" in planned.limits.modes else ""
        parts.append(f"{plural(seen['meet'], 'deployment')} of them{pools} meet the objectives")
    parts += [f"{seen['within_limits']:,} are within the limits"] if "within_limits" in seen else []
    return f"{'; '.join(parts)}."


def verdict(planned: Planned, values: Values) -> str:
    """The best candidate, its cost and its capacity; or that no candidate is within the limits."""
    best = ordered(planned, values)[0]
    cost = "" if best.per_hour is None else f" for {money(best.per_hour)} {planned.currency} per hour"
    capacity_at = "" if best.breaks_at is None else f" Capacity {number(best.breaks_at, 3)} req/s."
    return f"{_deployment(planned, values, best, cost)}.{capacity_at}{_excess(best)}"


def sentences(planned: Planned, values: Values) -> list[str]:
    """The best candidate in sentences: deployment, cost, latencies, capacity and what fails beyond it."""
    best = ordered(planned, values)[0]
    return [*_best(planned, values, best), *_remarks_on(planned, values, best), *capacity(best)]


def _best(planned: Planned, values: Values, best: Scaled) -> list[str]:
    """The first candidate in a sentence, and whether it is beyond the limits."""
    text = f"{_deployment(planned, values, best, '')}{_cost(planned, best)}."
    return [text, *([_excess(best).strip()] if best.beyond else [])]


def _deployment(planned: Planned, values: Values, best: Scaled, cost: str) -> str:
    """Devices, load and replicas, with the cost between them."""
    moved = "" if as_planned(planned, values) else "What if: "
    pools = [deployed(pool, count) for pool, count in zip(best.of.pools, best.replicas, strict=True)]
    peak = " at the peak" if planned.peak_factor > 1 else ""
    verb = "serves" if best.devices == 1 else "serve"
    if planned.batch is not None:
        verb = "generates" if best.devices == 1 else "generate"
    devices = f"{best.devices:,} x {best.of.title} {verb} {_load_text(planned, values)}{peak}{cost}"
    return f"{moved}{devices}: {' and '.join(pools)}, {best.of.precision}"


def _excess(best: Scaled) -> str:
    return f" No candidate is within the limits: this one takes {best.beyond}." if best.beyond else ""


def _remarks_on(planned: Planned, values: Values, best: Scaled) -> list[str]:
    """Latencies of the best candidate, and its cost when replicas follow the day."""
    texts = _seen(planned, values, best)
    if best.of.following is not None and as_planned(planned, values):
        texts.append(f"Autoscaled over the day: {money(best.of.following)} {planned.currency} per hour on average.")
    return texts


_FACTOR = 10
"""Headroom from which on it is a factor, not a percentage."""


def capacity(best: Scaled) -> list[str]:
    """The rate up to which a candidate meets the objectives, and what fails beyond it; none of closed loops."""
    if best.breaks_at is None or best.headroom is None:
        return []
    simulation = best.of.simulated
    if simulation is not None and simulation.replicas is not None and simulation.replicas != simulation.planned_replicas:
        return ["Its replicas hold by simulation at this rate; how much more they serve is not known."]
    spare = " without its spares" if any(pool.spare for pool in best.of.pools) else ""
    more = f" ({percent(best.headroom, 0)} headroom)" if best.headroom >= 0.005 else ""
    if best.headroom >= _FACTOR:
        more = f" ({number(best.headroom + 1, 3)} times the planned rate)"
    fails = _BREAKS.get(best.binds, best.binds)
    return [f"Capacity{spare} {number(best.breaks_at, 3)} req/s{more}. Beyond it, {fails}."]


def _cost(planned: Planned, best: Scaled) -> str:
    if best.per_hour is None or best.million is None:
        return ""
    spread = ""
    if best.low is not None and best.high is not None and best.low < best.high:
        spread = f" ({money(best.low)} to {money(best.high)} over the price range)"
    hour = f"{money(best.per_hour)} {planned.currency} per hour{spread}"
    if (total := total_cost(best)) is not None:
        hour = f"{money(total)} {planned.currency} in total, {hour}"
    return f", for {hour}, {money(best.million)} {planned.currency} per million tokens (input and output)"


def _seen(planned: Planned, values: Values, best: Scaled) -> list[str]:
    """Times at the planned rate, whatever the rate of the controls is."""
    at = _percentile(planned)
    one = planned.classes[0] if len(planned.classes) == 1 else None
    parts = []
    finish = best.of.finish
    if finish is not None and finish.mean is not None:
        parts.append(f"Done after {duration(finish.mean)} ({_finish_note(planned, finish)})")
    for name, times, objective in (
        ("TTFT", best.of.ttft, None if one is None else one.ttft),
        ("TPOT", best.of.tpot, None if one is None else one.tpot),
    ):
        if times.mean is None or (finish is not None and name == "TTFT"):
            continue
        interval = "" if times.low is None or times.high is None else f" (80 % interval {about_range(times.low, times.high)})"
        wanted = "" if objective is None else f" (objective {seconds(objective)})"
        parts.append(f"{name} mean {_time(best, times.mean).text}{interval}, {at} {_time(best, times.at).text}{wanted}")
    text = "; ".join(parts) + (f"; {best.of.provenance}" if best.of.provenance else "")
    if same_rate(planned, values) or planned.rate is None:
        return [f"{text}."]
    return [
        f"At the planned {number(planned.rate)} requests/s: {text}.",
        "At this rate times differ, but meet the objectives: no replica is beyond its capacity.",
    ]


def _objectives(one: Class) -> str:
    """The objectives as text."""
    parts = [f"{name} {seconds(limit)}" for name, limit in (("TTFT", one.ttft), ("TPOT", one.tpot)) if limit is not None]
    return f"{' and '.join(parts)} for {percent(one.percentile, digits=6)}" if parts else "as long as it takes"


_FORMS: dict[str, Callable[[float], str]] = {
    "ttft": seconds,
    "tpot": seconds,
    "deadline": duration,
    "memory": lambda size: f"{formatting.binary(size, 3)} per device",
}


def infeasible(planned: Planned) -> list[str]:
    """Sentences: why there is no candidate, and which constraints to relax."""
    load = _load_text(planned, {"rate": planned.rate})
    if planned.considered.get("fit", 1) == 0 and [one.constraint for one in planned.relax] == ["hardware"]:
        return [f"No deployment can be evaluated. {planned.relax[0].why}."]
    if planned.considered.get("fit", 1) == 0:
        why = "fits in memory" if planned.considered.get("deployments", 0) else "could be evaluated"
        texts = [f"No deployment {why}."]
    elif planned.considered.get("meet", 0) == 0:
        texts = [f"None of the deployments searched serves {load} within the objectives."]
        if planned.batch is not None:
            texts = [f"None of the deployments searched generates {load}."]
    else:
        texts = [f"The objectives can be met for {load}, but not within the limits."]
    return [*texts, *(f"Relax {_called(one.constraint)}{_change(one)}: {one.why}." for one in planned.relax)]


def _called(constraint: str) -> str:
    return _BINDS.get(constraint, constraint.replace("_", "-"))


def _change(one: Relax) -> str:
    if one.to is None:
        return ""
    form = _FORMS.get(one.constraint, number)
    ends = [None if value is None else form(value) for value in (one.was, one.to)]
    return f" to {ends[1]}" if ends[0] is None else f" from {ends[0]} to {ends[1]}"
