"""A plan as sentences and text tables, for terminals, Markdown and notebooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roofline import formatting
from roofline.formatting import about_range, money, percent, plural
from roofline.predict.engine_command import start_line
from roofline.report import summary
from roofline.report.answer import provenance_of
from roofline.report.plan import tables
from roofline.report.plan.load import planned
from roofline.report.plan.scaling import first_values, ordered
from roofline.serving.planning.prefix_cache import KVCacheUse
from roofline.serving.planning.result import Candidate, Plan, Pool
from roofline.text import WIDTH, Answer, Table, shell_lines, wrapped

_TIMES = ("ttft", "tpot")


def bullets(texts: list[str], width: int = WIDTH) -> list[str]:
    """Return texts as lines of a list, wrapped at a width in columns."""
    return [line for text in texts for line in wrapped(f"* {text}", width, 2, 4)]


_RANKS = {
    "cost": "Cheapest", "token-cost": "Cheapest per token", "gpus": "Fewest devices", "latency": "Lowest latency",
}  # fmt: skip
_FIRST, _FIRST_OF_TWO = 5, 3
"""Candidates on one screen; fewer where the first has two pools, each with a command."""


def answer(result: Plan, width: int = WIDTH) -> Answer:
    """Return the answer of `roofline plan`, its commands broken at a width in columns."""
    state, best = planned(result.to_dict()), result.best
    title, settings = tables.title(state), " · ".join(load(result))
    assumptions = summary.assumptions_table(result)
    if best is None:
        first, *others = tables.infeasible(state)
        return Answer(
            title=title, settings=settings, verdict=first, passed=False, parts=("\n".join(bullets(others, width)),),
            assumptions=assumptions, hint="-vv: all assumptions",
        )  # fmt: skip
    listed, times = candidates_table(result), (*_times(result, best), *_checks(result, best))
    names, cost = listed.columns, best.cost
    priced = cost.per_hour is not None
    two = len(best.pools) > 1
    costs = names[10:12] if priced else ()
    of_all = (names[1], *(() if two else names[2:3]), *names[3:5])
    what = (*of_all, names[6], names[8], *costs, *(() if two else names[12:13]))
    if result.traffic["batch"] is not None:
        what = (*of_all, "finish", *(("total", names[11]) if priced else ()), names[9])
    if result.simulation is not None:
        columns_of_times = (
            ("finish", "simulated") if result.traffic["batch"] is not None else (names[6], "sim. TTFT", names[8], "sim. TPOT")
        )
        what = (*of_all, *columns_of_times, *costs, "holds")
    brief = columns(listed, what)
    starts = [(label, shell_lines(line, width, 4)) for label, line in commands(result)]
    starters = [f"  Start one replica of the first candidate ({label.replace('@', ' ')}):\n{lines}" for label, lines in starts]
    engines = max(len(starters) // len(best.pools), 1)
    rows = brief.rows[: _FIRST_OF_TWO if two else _FIRST]
    number = f"all {len(result.candidates)} candidates, other" if len(result.candidates) > 1 else "other"
    return Answer(
        title=title,
        settings=settings,
        verdict=" ".join([*unmet(result), _best(result, best), *tables.capacity(ordered(state, first_values(state))[0])]),
        passed=not unmet(result),
        brief=(
            replace(brief, title="", note="", rows=rows),
            (*times, *_notes(best)[:1]),
            "\n".join(starters[::engines]),
        ),
        details=(*_halves(listed), (*times, *_notes(best)), "\n".join(starters)),
        notes=tuple(provenance_of(result.assumptions, best.estimate_basis, where=best.hardware)),
        assumptions=assumptions,
        hint=f"-v: {number} engines    -vv: all assumptions    -o page.html: interactive page",
    )


def _best(result: Plan, best: Candidate) -> str:
    """The best candidate and its cost, in a sentence."""
    cost = best.cost
    priced = cost.per_hour is not None and cost.total is not None
    lead = "Best" if result.rank in ("cost", "token-cost") and not priced else _RANKS.get(result.rank, "Best")
    pools = " and ".join(_deployed(pool) for pool in best.pools)
    text = f"{lead}: {best.devices:,} x {best.title}, {best.precision} ({pools})"
    if best.finish_s is not None:
        text += f", done after {formatting.duration(best.finish_s.mean)}"
    if cost.per_hour is None or cost.total is None:
        return f"{text}."
    each = f"{_money(cost.total)} {cost.currency} per million tokens (input and output)"
    if best.finish_s is not None and best.finish_s.per_million_output is not None:
        of_outputs = f"{_money(best.finish_s.per_million_output)} per million output tokens with their prompts"
        return f"{text}: {_money(best.finish_s.cost)} {cost.currency} in total, {each}, {of_outputs}."
    return f"{text}: {_money(cost.per_hour)} {cost.currency}/h, {each}."


def unmet(result: Plan) -> list[str]:
    """The sentence that no simulated candidate holds; none otherwise."""
    if result.simulation is None or not result.simulation["candidates"] or result.simulation["holds"]:
        return []
    what = "ends in time" if result.traffic["batch"] is not None else "meets the objectives"
    return [f"By simulation, none of {plural(result.simulation['candidates'], 'candidate')} {what}."]


def _checks(result: Plan, best: Candidate) -> list[tuple[str, str]]:
    """Labels and texts: the cost of a fleet that follows the day, what was simulated, and which pools were passed over."""
    lines = []
    if best.kv_cache is not None:
        lines.append(("KV cache", _kv_cache(best.kv_cache)))
    if (hour := best.cost.scaled_per_hour) is not None:
        lines.append(("Autoscaled", f"over the day {_money(hour)} {best.cost.currency}/h on average"))
    if result.simulation is not None:
        seen = result.simulation
        text = f"{seen['holds']:,} of {plural(seen['candidates'], 'candidate')} hold"
        text += f"; {plural(seen['runs'], 'run')} of {seen['requests']:,} requests"
        if best.simulated is not None and best.simulated.replicas not in (None, best.simulated.planned_replicas):
            text += f"; {plural(best.simulated.planned_replicas, 'replica')} planned, {best.simulated.replicas:,} simulated"
        if seen["skipped"]:
            why = next(one.simulated.why for one in result.candidates if one.simulated is not None and one.simulated.why)
            text += f"; {seen['skipped']:,} skipped: {why}"
        lines.append(("Simulation", text))
    better = [one for one in result.passed_over if one["saves"] > 0]
    if better:
        most = max(better, key=lambda one: one["saves"])
        margin = percent(result.limits["allow_disaggregated"])
        text = f"prefill and decode pools on {most['hardware']}, {percent(most['saves'])} better by {result.rank}: "
        lines.append(("Passed over", f"{text}less than the margin of {margin} (--allow-disaggregated)"))
    return lines


def _kv_cache(use: KVCacheUse) -> str:
    """What the KV cache of a replica holds: GiB of its parts, conversations, cached tokens."""

    def size(tokens: float) -> str:
        return formatting.binary(tokens * use.bytes_per_token, 3)

    parts = [f"running {size(use.running_tokens)}"]
    if use.shared_tokens:
        parts.append(f"system prompts {size(use.shared_tokens)}")
    if use.idle_sessions:
        sessions = f"{use.retained_sessions:,.0f} of {use.idle_sessions:,.0f}"
        parts.append(f"idle conversations {size(use.idle_tokens)} ({sessions})")
    parts.append(f"ended requests {size(use.ended_tokens)}")
    text = f"{formatting.binary(use.capacity_bytes, 3)} per replica: {', '.join(parts)}"
    text += f"; {percent(use.hit_rate, digits=3)} of prompt tokens cached"
    if not use.given:
        return text
    if use.needed_tokens is None:
        return f"{text}, as given, but turns have {percent(use.max_hit_rate, digits=3)} in common"
    needs = f"needs {size(use.needed_tokens)} ({use.needed_tokens:,.0f} tokens) retained"
    return f"{text}, as given, {needs}; memory is enough for {percent(use.achievable_hit_rate, digits=3)}"


def _deployed(pool: Pool) -> str:
    """`3 replicas of TP2 (1 spare)`."""
    role = "" if pool.role == "both" else f"{pool.role} "
    spare = f" ({pool.spare:,} spare)" if pool.spare else ""
    return f"{plural(pool.replicas, f'{role}replica')} of {_layout(pool)}{spare}"


def load(result: Plan) -> list[str]:
    """Lengths and objectives of the traffic, where it has one class of requests; else the number of classes."""
    classes = result.traffic["classes"]
    if len(classes) > 1:
        return [f"{len(classes)} classes of requests"]
    one = classes[0]
    given = {name: one[f"{name}_s"] for name in _TIMES if one[f"{name}_s"] is not None}
    work = result.traffic["batch"]
    requests = [] if work is None else [f"{work['requests']:,} requests"]
    limits = [f"{name.upper()} {formatting.seconds(value)}" for name, value in given.items()]
    objectives = [f"{' and '.join(limits)} for {percent(one['percentile'])} of requests"] if limits else []
    shared = one["conversation"] or {}
    prompt = f"prompt {one['input_len']}"
    if shared.get("system_prompt"):
        prompt += f" after {shared['system_prompt']:,} shared"
        prompt += "" if shared["system_prompts"] == 1 else f" ({shared['system_prompts']:,} system prompts)"
    turns = (
        [] if not shared.get("turns") else [f"{shared['turns']} turns, {formatting.seconds(shared['think_s'])} between them"]
    )
    return [f"{prompt}, output {one['output_len']}", *turns, *requests, *objectives]


def _times(result: Plan, best: Candidate) -> list[tuple[str, str]]:
    """Labels and texts: TTFT and TPOT of the best candidate, with interval and objective."""
    one = result.traffic["classes"][0] if len(result.traffic["classes"]) == 1 else {}
    lines = []
    if (finish := best.finish_s) is not None:
        between = ""
        if finish.low is not None and finish.high is not None:
            between = f" (80 % interval: {formatting.duration(finish.low, 2)} to {formatting.duration(finish.high, 2)})"
        seen = "" if best.simulated is None or best.simulated.finish_s is None else (
            f"; simulated {formatting.duration(best.simulated.finish_s)}"
        )  # fmt: skip
        deadline = formatting.duration(result.traffic["batch"]["deadline_s"])
        lines.append(("Finish", f"{formatting.duration(finish.mean)}{between}, deadline {deadline}{seen}"))
    for name, stats in (("TTFT", best.performance.ttft), ("TPOT", best.performance.tpot)):
        if stats.mean is None or (best.finish_s is not None and name == "TTFT"):
            continue
        form = formatting.about if best.basis == "estimate" else formatting.seconds
        between = ""
        if stats.low is not None and stats.high is not None:
            between = f" (80 % interval of the mean: {about_range(stats.low, stats.high)})"
        limit = one.get(f"{name.lower()}_s")
        wanted = "" if limit is None else f" (objective {formatting.seconds(limit)})"
        at = "" if stats.at is None else f"p{stats.percentile * 100:g} {form(stats.at)}{wanted}, "
        late = "" if limit is None or stats.high is None or stats.high <= limit else "; its upper end misses the objective"
        lines.append((name, f"{at}mean {form(stats.mean)}{between}{late}{_simulated(best, name)}"))
    return lines


def _simulated(best: Candidate, name: str) -> str:
    """`; simulated p95 84 ms (95 % confidence interval 80 to 90 ms)`."""
    if best.simulated is None:
        return ""
    share = best.performance.ttft.percentile
    at, low, high = best.simulated.latency(name.lower(), share)
    if at is None:
        return ""
    between = "" if low is None or high is None else f" (95 % confidence interval {about_range(low, high)})"
    return f"; simulated p{share * 100:g} {formatting.about(at)}{between}"


def _notes(best: Candidate) -> tuple[tuple[str, str], ...]:
    return tuple(("Note", f"{note[0].upper()}{note[1:]}.") for note in best.notes)


def _layout(pool: Pool) -> str:
    """`TP2 PP2`, or `one device`."""
    names = (("tensor", "TP"), ("pipeline", "PP"), ("data", "DP"), ("expert", "EP"), ("context", "CP"))
    sizes = [f"{short}{size}" for long, short in names if (size := pool.deployment[f"{long}_parallel"]) > 1]
    return " ".join(sizes) or "1 device"


def _counted(pool: Pool) -> str:
    """`2 x TP2`, or `2` of one device each, with the role of a pool that has only one phase."""
    layout = _layout(pool)
    count = f"{pool.replicas:,}" if layout == "1 device" else f"{pool.replicas:,} x {layout}"
    return count if pool.role == "both" else f"{count} {pool.role}"


def _seconds(value: float | None) -> str:
    return formatting.ABSENT if value is None else formatting.about(value)


def _money(value: float | None) -> str:
    """Money as prices are known: from 100 without cents; below 1 with three decimals, so that a column lines up."""
    if value is None:
        return formatting.ABSENT
    if value < 1:
        return f"{value:.3f}"
    return money(value) if value < 100 else f"{value:,.0f}"


def _headroom(share: float | None) -> str:
    """`39 %`, or `+176x` where it is many times the rate."""
    return f"+{formatting.number(share, 3)}x" if share is not None and share >= 10 else percent(share, 0)


def candidates_table(result: Plan) -> Table:
    """The candidates, best first."""
    at = f"p{result.candidates[0].performance.ttft.percentile * 100:g}"
    currency = next((one.cost.currency for one in result.candidates if one.cost.currency), None) or "cost"
    more: dict[str, Callable[[Candidate], str]] = {}
    if result.traffic["batch"] is not None:
        more = {
            "finish": lambda one: formatting.ABSENT if one.finish_s is None else formatting.duration(one.finish_s.mean),
            "total": lambda one: formatting.ABSENT if one.finish_s is None else _money(one.finish_s.cost),
        }
    if result.simulation is not None:
        if result.traffic["batch"] is not None:
            more["simulated"] = lambda one: _simulated_time(one, "ttft")
        else:
            more |= {
                "sim. TTFT": lambda one: _simulated_time(one, "ttft"),
                "sim. TPOT": lambda one: _simulated_time(one, "tpot"),
            }
        more["holds"] = _holds
    heads = (
        "", "hardware", "devices", "replicas", "weights", "TTFT", f"{at} TTFT", "TPOT", f"{at} TPOT", "utilization",
        f"{currency}/h", f"{currency}/M tok", "headroom", "limited by", *more,
    )  # fmt: skip
    rows = []
    for index, one in enumerate(result.candidates):
        cost = one.cost
        rows.append((
            "*" if index in result.pareto else "", one.hardware, f"{one.devices:,}", " + ".join(map(_counted, one.pools)),
            one.precision, _seconds(one.performance.ttft.mean), _seconds(one.performance.ttft.at),
            _seconds(one.performance.tpot.mean), _seconds(one.performance.tpot.at), percent(one.performance.utilisation, 0),
            _money(cost.per_hour), _money(cost.total),
            _headroom(one.headroom), _LIMITS.get(one.binds, one.binds), *(text(one) for text in more.values()),
        ))  # fmt: skip
    right = (False, False, True, False, False, True, True, True, True, True, True, True, True, False, *(True for _ in more))
    note = (
        "* Pareto front of cost, TTFT and TPOT; replicas of one device unless sizes are given; headroom over the planned rate"
    )
    return Table("Candidates", note, heads, right, tuple(rows))


def _simulated_time(one: Candidate, name: str) -> str:
    """A simulated time at the percentile of the objectives; of offline work, when it is done."""
    if one.simulated is None:
        return ""
    if one.finish_s is not None:
        return "" if one.simulated.finish_s is None else formatting.duration(one.simulated.finish_s)
    return _seconds(one.simulated.latency(name, one.performance.ttft.percentile)[0])


def _holds(one: Candidate) -> str:
    """Whether the objectives hold by simulation."""
    return "" if one.simulated is None else {True: "yes", False: "no", None: "skipped"}[one.simulated.holds]


_LIMITS = {"ttft": "TTFT", "tpot": "TPOT"}


def _halves(table: Table) -> tuple[Table, Table]:
    """The columns of a wide table in two: what and cost; times and use."""
    numbered = replace(table, rows=tuple((f"{at}{row[0]}", *row[1:]) for at, row in enumerate(table.rows, 1)))
    names = table.columns
    return (
        columns(numbered, (*names[:5], *names[10:12])),
        replace(columns(numbered, (names[0], *names[5:10], *names[12:])), title="Latencies and use", note=""),
    )


def columns(table: Table, names: tuple[str, ...]) -> Table:
    """Some columns of a table."""
    at = [table.columns.index(name) for name in names]
    rows = tuple(tuple(row[place] for place in at) for row in table.rows)
    return replace(table, columns=names, right=tuple(table.right[place] for place in at), rows=rows)


def commands(result: Plan) -> list[tuple[str, str]]:
    """What starts a replica of the best candidate: engine and pool, and the line."""
    if result.best is None:
        return []
    return [
        (label if pool.role == "both" else f"{label}, {pool.role}", start_line(tuple(line), pool.engine_files.get(label, {})))
        for pool in result.best.pools for label, line in pool.engine_flags.items()
    ]  # fmt: skip
