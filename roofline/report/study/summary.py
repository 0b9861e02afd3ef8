"""A study as sentences and text tables, for terminals, Markdown and pages."""

from __future__ import annotations

from typing import Any

from roofline.formatting import ABSENT, about, about_number, number, percent, plural
from roofline.serving.study.result import Row, StudyResult
from roofline.text import Answer, Table

_ROWS = 16
"""Rows of the comparison on one screen."""


def label(row: Row, result: StudyResult) -> str:
    """What a row is of: its policy, with its deployment where there are several."""
    several = len(result.study["deployments"]) > 1
    return f"{row['policy']} on {row['deployment']}" if several else str(row["policy"])


def has_slo(result: StudyResult) -> bool:
    """Whether the requests have objectives."""
    return any(row["goodput"] is not None for row in result.comparison)


def headline(result: StudyResult) -> str:
    """Title line: what was studied."""
    study = result.study
    options = study["options"]
    on = " on ".join(str(options[name]) for name in ("model", "hardware") if name in options)
    return f"Study{f' of {on}' if on else ''}"


def settings(result: StudyResult) -> str:
    """How many policies, deployments, rates and seeds, and on what traffic."""
    study = result.study
    parts = [_counted(len(study["policies"]), "policy", "policies")]
    parts += [plural(len(study["deployments"]), "deployment")] if len(study["deployments"]) > 1 else []
    parts += [plural(len(study["rates"]), "rate"), plural(len(study["seeds"]), "seed"), plural(result.runs, "run")]
    options = study["options"]
    names = [str(options[name]).rsplit("/", maxsplit=1)[-1] for name in ("trace", "workload") if options.get(name) is not None]
    objectives = [f"{name.upper()} {options[name]}" for name in ("ttft", "tpot") if name in options]
    return " · ".join([*parts, *names, *([f"SLO {', '.join(objectives)}"] if objectives else [])])


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def verdict(result: StudyResult) -> str:
    """Sentences: the highest goodput, and what failed."""
    texts = []
    known = [row for row in result.best if row["mean"] is not None]
    if known:
        best = max(known, key=lambda row: float(row["mean"]))
        what = "goodput" if best["figure"] == "goodput" else "throughput"
        unit = "req/s" if best["figure"] == "goodput" else "output tok/s"
        rate = "" if best["rate"] is None else f" at {number(best['rate'], 3)} req/s"
        between = _interval(best, 3)
        texts.append(f"Highest {what}: {label(best, result)}, {number(best['mean'], 3)} {unit}{between}{rate}.")
        rivals = [row for row in known if (behind := row["difference"]) is not None and behind["low"] <= 0]
        if rivals:
            seeds = plural(len(result.study["seeds"]), "seed")
            texts.append(f"By {seeds}, pair by pair, it is not told apart from {_names(rivals, result)}.")
    if failed := [row for row in result.table if row["failed"]]:
        texts.append(f"{plural(len(failed), 'run')} failed, such as {label(failed[0], result)}: {failed[0]['failed']}.")
    return " ".join(texts)


def _names(rows: list[Row], result: StudyResult) -> str:
    names = [label(row, result) for row in rows]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _interval(one: Row, digits: int) -> str:
    """The interval of a rate in brackets, after a space; "" without one."""
    low, high = one["low"], one["high"]
    return "" if low is None or high is None else f" ({number(low, digits)} to {number(high, digits)})"


def comparison_table(result: StudyResult, rows: tuple[Row, ...] | None = None) -> Table:
    """Text table of means over the seeds: goodput, share within the SLO, latencies, tokens/s, fairness, cost."""
    selected = result.comparison if rows is None else rows
    slo, costs = has_slo(result), any(row["cost_per_million_tokens"] for row in result.comparison)
    fair = any(row["fairness"] for row in result.comparison)
    columns = [
        "policy", "req/s", *(["goodput", "in SLO"] if slo else []), "TTFT p99", "TPOT p99", "E2E mean", "tok/s",
        *(["fairness"] if fair else []), *(["cost/Mtok"] if costs else []), "",
    ]  # fmt: skip
    cells = [
        (
            label(row, result), ABSENT if row["rate"] is None else number(row["rate"], 3),
            *([_number(row["goodput"]), _percent(row["within_slo"])] if slo else []),
            *(_time(row[name]) for name in ("ttft_s.p99", "tpot_s.p99", "e2e_s.mean")),
            _number(row["output_tokens_per_s"], about_it=True),
            *([_number(row["fairness"])] if fair else []),
            *([_number(row["cost_per_million_tokens"])] if costs else []),
            _state(row),
        )
        for row in selected
    ]  # fmt: skip
    note = f"means over {plural(len(result.study['seeds']), 'seed')}; cost: of a million output tokens" if costs else ""
    right = (False, *[True] * (len(columns) - 2), False)
    return Table("Comparison", note, tuple(columns), right, tuple(cells))


def _state(row: Row) -> str:
    """What is wrong with a row, in a word."""
    if row["failed"]:
        return "failed"
    if not row["saturated"]:
        return ""
    return "saturated" if row["saturated"] == row["runs"] else f"saturated {row['saturated']} of {row['runs']}"


def _number(one: Row | None, *, about_it: bool = False) -> str:
    return ABSENT if one is None else about_number(one["mean"]) if about_it else number(one["mean"], 3)


def _percent(one: Row | None) -> str:
    return ABSENT if one is None else percent(one["mean"], digits=3)


def _time(one: Row | None) -> str:
    return ABSENT if one is None else about(one["mean"])


def interval_table(result: StudyResult) -> Table | None:
    """Text table of the intervals of goodput and tails; None without any."""
    columns = ["policy", "req/s", *(["goodput"] if has_slo(result) else []), "TTFT p99", "TPOT p99", "E2E mean"]
    rows = [
        (
            label(row, result), ABSENT if row["rate"] is None else number(row["rate"], 3),
            *([_ends(row["goodput"], lambda value: number(value, 3))] if has_slo(result) else []),
            *(_ends(row[name], about) for name in ("ttft_s.p99", "tpot_s.p99", "e2e_s.mean")),
        )
        for row in result.comparison
    ]  # fmt: skip
    if not any(cell != ABSENT for row in rows for cell in row[2:]):
        return None
    seeds = len(result.study["seeds"])
    how = f"over {plural(seeds, 'seed')}" if seeds > 1 else "from batches of the run"
    note = f"{percent(result.comparison[0]['level'], 0)} confidence, {how}"
    return Table("Intervals", note, tuple(columns), (False, *[True] * (len(columns) - 1)), tuple(rows))


def _ends(one: Row | None, text: Any) -> str:
    if one is None or one["low"] is None or one["high"] is None:
        return ABSENT
    return f"{text(one['low'])} to {text(one['high'])}"


def options_table(result: StudyResult) -> Table:
    """Text table of the options of policies and deployments, and those that all have."""
    study = result.study
    rows = [("all runs", "", _listed(study["options"]))]
    rows += [("policy", name, _listed(options)) for name, options in study["policies"].items()]
    rows += [("deployment", name, _listed(options)) for name, options in study["deployments"].items() if name]
    rows += [("seeds", "", ", ".join(map(str, study["seeds"])))]
    return Table("Options", "", ("of", "name", "options"), (False, False, False), tuple(rows))


def _listed(options: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items()) or ABSENT


def answer(result: StudyResult) -> Answer:
    """Return the answer of `roofline study`."""
    whole = result.comparison
    selected = whole if len(whole) <= _ROWS else _best_rows(result)
    brief = comparison_table(result, selected)
    more = (
        () if selected is whole else ((("Rows", f"of each policy the rate with its highest goodput; all {len(whole)}: -v"),),)
    )
    details = [comparison_table(result), interval_table(result), options_table(result)]
    return Answer(
        title=headline(result),
        settings=settings(result),
        verdict=verdict(result),
        brief=(Table("", "", brief.columns, brief.right, brief.rows), *more),
        details=tuple(table for table in details if table is not None),
        hint="-v: all tables    FOLDER/comparison.html: figures    FOLDER/table.csv: each run",
    )


def _best_rows(result: StudyResult) -> tuple[Row, ...]:
    """Of each policy and deployment the row of its highest goodput."""
    best = {(row["deployment"], row["policy"]): row["rate"] for row in result.best}
    return tuple(row for row in result.comparison if best[row["deployment"], row["policy"]] == row["rate"])
