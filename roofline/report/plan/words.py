"""The answer of a plan in sentences."""

from __future__ import annotations

from collections.abc import Callable

from roofline import formatting
from roofline.formatting import money, number, percent, plural, seconds
from roofline.report.plan.planned import Class, Planned, Pool, Relax
from roofline.report.plan.scaled import Scaled, Values, as_planned, ordered, same_rate

_ROLES = {"both": "replica", "prefill": "prefill replica", "decode": "decode replica"}
BREAKS = {
    "ttft": "first tokens are late",
    "tpot": "later tokens are late",
    "memory": "memory has no room for more requests at a time",
    "throughput": "replicas are as busy as may be planned with",
}
BINDS = {"ttft": "TTFT", "tpot": "TPOT"}


def load(planned: Planned, values: Values) -> str:
    """`50 requests/s`, or `64 clients`."""
    if planned.rate is None:
        return plural(planned.clients or 0, "client")
    return f"{number(values['rate'])} {'request' if values['rate'] == 1 else 'requests'}/s"


def deployed(pool: Pool, count: int) -> str:
    """`3 replicas of tp=2 (1 spare)`."""
    spare = f" ({pool.spare:,} spare)" if pool.spare else ""
    return f"{plural(count, _ROLES[pool.role])} of {pool.layout}{spare}"


def counted(pool: Pool, count: int) -> str:
    """The same for a table: `3 x tp=2`, `2 x one device (prefill)`."""
    notes = [*([] if pool.role == "both" else [pool.role]), *([f"{pool.spare:,} spare"] if pool.spare else [])]
    return f"{count:,} x {pool.layout}" + (f" ({', '.join(notes)})" if notes else "")


def title(planned: Planned) -> str:
    """What is planned."""
    return f"{planned.model} for {load(planned, {'rate': planned.rate})}"


def subtitle(planned: Planned) -> str:
    """How much was looked at."""
    seen = planned.considered
    parts = [f"{plural(seen['deployments'], 'deployment')} looked at"] if "deployments" in seen else []
    parts += [f"{seen['fit']:,} fit in memory"] if "fit" in seen else []
    parts += [f"{seen['meet']:,} ways meet the objectives"] if "meet" in seen else []
    parts += [f"{seen['within_limits']:,} within the limits"] if "within_limits" in seen else []
    return " · ".join(["Capacity plan", *parts, f"data {planned.data_version}"])


def sentences(planned: Planned, values: Values) -> list[str]:
    """What to buy, what it costs, what users see, what breaks first."""
    best = ordered(planned, values)[0]
    moved = "" if as_planned(planned, values) else "What if: "
    pools = [deployed(pool, count) for pool, count in zip(best.of.pools, best.replicas, strict=True)]
    peak = " at the peak" if planned.peak_factor > 1 else ""
    verb = "serves" if best.devices == 1 else "serve"
    what = (
        f"{best.devices:,} x {best.of.title} {verb} {load(planned, values)}{peak}: {' and '.join(pools)}, {best.of.precision}"
    )
    found = [f"{moved}{what}{_cost(planned, best)}."]
    if best.beyond:
        found.append(f"No candidate is within the limits: this one takes {best.beyond}.")
    found += _seen(planned, values, best)
    if best.breaks_at is not None and best.headroom is not None:
        spare = " without its spares" if any(pool.spare for pool in best.of.pools) else ""
        more = f" ({percent(best.headroom, 0)} more)" if best.headroom >= 0.005 else ""
        found.append(
            f"It holds up to {number(best.breaks_at)} requests/s{more}{spare}; then {BREAKS.get(best.binds, best.binds)}."
        )
    if best.of.following is not None and as_planned(planned, values):
        found.append(f"With replicas that follow the day, an hour is {money(best.of.following)} {planned.currency} on average.")
    return found


def _cost(planned: Planned, best: Scaled) -> str:
    if best.per_hour is None or best.million is None:
        return ""
    spread = ""
    if best.low is not None and best.high is not None and best.low < best.high:
        spread = f" ({money(best.low)} to {money(best.high)} within the range of the price)"
    hour = f"{money(best.per_hour)} {planned.currency} an hour{spread}"
    return f", for {hour}, {money(best.million)} {planned.currency} a million tokens, prompts and answers"


def _seen(planned: Planned, values: Values, best: Scaled) -> list[str]:
    """What users see: at the planned rate, whatever the rate is."""
    at = percent(planned.percentile, digits=6)
    one = planned.classes[0] if len(planned.classes) == 1 else None
    parts = []
    for name, times, asked in (
        ("TTFT", best.of.ttft, None if one is None else one.ttft),
        ("TPOT", best.of.tpot, None if one is None else one.tpot),
    ):
        if times.mean is None:
            continue
        wanted = "" if asked is None else f" (asked for: {seconds(asked)})"
        parts.append(f"{name} is {seconds(times.mean)} on average, and at most {seconds(times.at)} for {at}{wanted}")
    said = "; ".join(parts)
    if same_rate(planned, values) or planned.rate is None:
        return [f"{said}."]
    return [
        f"At the planned {number(planned.rate)} requests/s {said}.",
        "At this rate they are others, within the objectives: no replica has more than it can serve so.",
    ]


def objectives(one: Class) -> str:
    """What is asked for, in words."""
    parts = [f"{name} {seconds(asked)}" for name, asked in (("TTFT", one.ttft), ("TPOT", one.tpot)) if asked is not None]
    return f"{' and '.join(parts)} for {percent(one.percentile, digits=6)}" if parts else "as long as it takes"


_FORMS: dict[str, Callable[[float], str]] = {
    "ttft": seconds,
    "tpot": seconds,
    "memory": lambda size: f"{formatting.binary(size, 3)} a device",
}


def infeasible(planned: Planned) -> list[str]:
    """Why there is no answer, and what to relax."""
    if planned.considered.get("fit", 1) == 0:
        why = "fits in memory" if planned.considered.get("deployments", 0) else "could be looked at"
        found = [f"No deployment {why}."]
    elif planned.considered.get("meet", 0) == 0:
        found = [f"No deployment that was looked at serves {load(planned, {'rate': planned.rate})} within the objectives."]
    else:
        found = [f"The objectives can be met for {load(planned, {'rate': planned.rate})}, but not within the limits."]
    return [*found, *(f"Relax {_called(one.constraint)}{_change(one)}: {one.why}." for one in planned.relax)]


def _called(constraint: str) -> str:
    return BINDS.get(constraint, constraint.replace("_", "-"))


def _change(one: Relax) -> str:
    if one.to is None:
        return ""
    form = _FORMS.get(one.constraint, number)
    ends = [None if value is None else form(value) for value in (one.was, one.to)]
    return f" to {ends[1]}" if ends[0] is None else f" from {ends[0]} to {ends[1]}"
