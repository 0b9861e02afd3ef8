"""The result of a study: a row per run, and the runs of all seeds taken together."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from roofline.documents import dump_json, envelope
from roofline.registry import Displayed
from roofline.serving.simulation.confidence import CONFIDENCE
from roofline.serving.simulation.result import intervals
from roofline.serving.study.spec import Study
from roofline.text import csv_cell

if TYPE_CHECKING:
    import pandas as pd

LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
PERCENTILES = ("mean", "p50", "p90", "p95", "p99")
FIGURES = (
    "goodput", "within_slo", "requests_per_s", "output_tokens_per_s", "fairness", "cost_per_million_tokens", "preemptions",
    *(f"{latency}.{name}" for latency in LATENCIES for name in PERCENTILES),
)  # fmt: skip
"""Figures of a comparison."""
_POINT = ("deployment", "policy", "rate")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StudyResult(Displayed):
    """Simulations of policies and deployments at several rates, side by side.

    Attributes:
        study: what was simulated: options, policies, deployments, rates, seeds.
        runs: number of runs.
        table: a row per run: `deployment`, `policy`, `rate`, `seed`, `goodput`, latencies with their percentiles and intervals,
            and so on; base units; `failed` says why a run gave nothing.
        comparison: a row per deployment, policy and rate: of each figure its mean over the seeds with its interval (`mean`,
            `low`, `high`); of one seed the run's own interval, where it has one.
        best: of each deployment and policy the highest goodput, the rate at which it was, and how far it is behind the highest
            of all, seed by seed (`difference`).
        inputs: files that were read.
    """

    study: dict[str, Any]
    runs: int
    table: tuple[Row, ...]
    comparison: tuple[Row, ...]
    best: tuple[Row, ...]
    inputs: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in the layout of `roofline study --json`, in base units."""
        return {
            **envelope(self.inputs), "kind": "study", "study": self.study, "runs": self.runs, "table": list(self.table),
            "comparison": list(self.comparison), "best": list(self.best),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> StudyResult:
        """Return the result of which `to_dict` gave this.

        Raises:
            KeyError: a key is missing.
        """
        rows = {name: tuple(content[name]) for name in ("table", "comparison", "best")}
        return cls(study=content["study"], runs=content["runs"], inputs=content["inputs"], **rows)

    def to_json(self, indent: int | None = 2) -> str:
        """Return JSON text of `to_dict`; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas frame, a row per run; latencies are columns such as `ttft_s.p99`, `ttft_s.p99.low`."""
        import pandas as pd

        return pd.DataFrame([flat(row) for row in self.table])


def compare(study: Study, runs: Sequence[Row]) -> StudyResult:
    """Return the result of a study.

    Args:
        study: what was simulated.
        runs: in the order of its points, as their files have them.
    """
    table = tuple(_row(run) for run in runs)
    described = study.describe()
    inputs = described.pop("inputs")
    comparison = tuple(_together(list(rows)) for _, rows in groupby(table, key=lambda row: tuple(row[name] for name in _POINT)))
    best = [_best(list(rows)) for _, rows in groupby(comparison, key=lambda row: (row["deployment"], row["policy"]))]
    _compare_best(best, table)
    content = {name: described[name] for name in ("options", "policies", "deployments", "rates", "seeds")}
    return StudyResult(study=content, runs=len(table), table=table, comparison=comparison, best=tuple(best), inputs=inputs)


def _row(run: Row) -> Row:
    """The row of a run."""
    row: Row = {name: run[name] for name in (*_POINT, "seed")}
    failed = run["failed"] or run["unfit"]
    if failed:
        return row | {"failed": failed}
    tokens = run["throughput"]["output_tokens_per_s"]
    cost = run["cost_per_hour"]
    row |= {
        "goodput": run["goodput"], "within_slo": run["within_slo"], "confidence": run["confidence"],
        "saturated": run["saturated"], **run["throughput"],
        "completed": run["requests"]["completed"], "refused": run["requests"]["refused"],
        "shed": run["requests"].get("shed", 0),  # NB: not in runs of earlier versions
        "preemptions": run["requests"]["preemptions"], "warm_up": run["warm_up"]["requests"],
        **{name: run[name] for name in LATENCIES},
        "utilisation": run["utilisation"], "classes": run["classes"], "fairness": run["fairness"],
        "hardware": run["hardware"], "devices": run["devices"], "cost_per_hour": cost,
        "cost_per_million_tokens": cost / (tokens * 3600) * 1e6 if cost is not None and tokens else None,
        "estimate_basis": run["estimate_basis"], "failed": None,
    }  # fmt: skip
    return row


def figure(row: Row, name: str) -> float | None:
    """Return a figure of a row of the table, such as `goodput` or `ttft_s.p99`, in base units; None where it has none."""
    latency, _, percentile = name.partition(".")
    value = row.get(latency)
    if percentile:
        value = (value or {}).get(percentile)
    return None if value is None else float(value)


def _together(rows: list[Row]) -> Row:
    """The runs of all seeds at one point."""
    completed = [row for row in rows if not row["failed"]]
    whole: Row = {name: rows[0][name] for name in _POINT}
    whole |= {"runs": len(completed), "saturated": sum(row["saturated"] for row in completed)}
    whole["failed"] = rows[0]["failed"] if not completed else None
    figures = [{name: figure(row, name) for name in FIGURES} for row in completed]
    if len(completed) > 1:
        known = intervals(figures)["figures"]
        for name, one in known.items():  # none of them is less than nothing
            one["low"] = max(one["low"], 0.0)
            one["high"] = min(one["high"], 1.0) if name in ("within_slo", "fairness") else one["high"]
        return whole | {"level": CONFIDENCE, **{name: known.get(name) for name in FIGURES}}
    of_one = {name: _own(completed[0], name, figures[0][name]) if completed else None for name in FIGURES}
    return whole | {"level": CONFIDENCE, **of_one}


def _own(row: Row, name: str, value: float | None) -> dict[str, float | None] | None:
    """A figure of one run with the interval that the run has of it."""
    if value is None:
        return None
    latency, _, percentile = name.partition(".")
    interval: Any = (row["confidence"] or {}).get(name)
    if percentile:
        interval = ((row[latency] or {}).get("confidence") or {}).get(percentile)
    low, high = ((interval or {}).get(end) for end in ("low", "high"))
    return {"mean": value, "low": low, "high": high}


def _best(rows: list[Row]) -> Row:
    """The highest goodput of a policy on a deployment (without an SLO: the most output tokens/s), and where it was."""
    point = {name: rows[0][name] for name in _POINT[:2]}
    for name in ("goodput", "output_tokens_per_s"):
        known = [row for row in rows if row[name] is not None]
        if known:
            best = max(known, key=lambda row: row[name]["mean"])
            return point | {"figure": name, "rate": best["rate"], **best[name]}
    return point | {"figure": None, "rate": None, "mean": None, "low": None, "high": None}


def _compare_best(best: list[Row], table: Sequence[Row]) -> None:
    """Add how far each is behind the highest: the mean of the differences seed by seed, whose runs have the same arrivals and
    lengths, and its interval. None of the highest itself, and of one seed."""
    known = [row for row in best if row["mean"] is not None]
    highest = max(known, key=lambda row: float(row["mean"]), default=None)
    for row in best:
        row["difference"] = None
        if highest is None or row is highest or row["figure"] != highest["figure"]:
            continue
        of_seeds = [_by_seed(one, table) for one in (highest, row)]
        both = [seed for seed in of_seeds[0] if seed in of_seeds[1]]
        if len(both) > 1:
            gaps: list[dict[str, float | None]] = [{"gap": of_seeds[0][seed] - of_seeds[1][seed]} for seed in both]
            row["difference"] = intervals(gaps)["figures"]["gap"]


def _by_seed(best: Row, table: Sequence[Row]) -> dict[int, float]:
    """Of the runs of a row of `best` its figure, by seed."""
    values = {}
    for row in table:
        if all(row[name] == best[name] for name in _POINT) and (value := figure(row, best["figure"])) is not None:
            values[row["seed"]] = value
    return values


def flat(row: Row) -> Row:
    """Return a row of the table with one value per column: `ttft_s.p99`, `ttft_s.p99.low`, ..."""
    columns: Row = {name: row[name] for name in (*_POINT, "seed")}
    names = ("goodput", "within_slo")
    for name in names:
        columns[name] = row.get(name)
        interval = (row.get("confidence") or {}).get(name) or {}
        columns |= {f"{name}.{end}": interval.get(end) for end in ("low", "high")}
    for name in (
        "saturated", "requests_per_s", "output_tokens_per_s", "prompt_tokens_per_s", "completed", "refused", "shed",
        "preemptions", "warm_up", "fairness", "devices", "cost_per_hour", "cost_per_million_tokens",
    ):  # fmt: skip
        columns[name] = row.get(name)
    for latency in LATENCIES:
        one = row.get(latency) or {}
        for percentile in PERCENTILES:
            columns[f"{latency}.{percentile}"] = one.get(percentile)
            interval = (one.get("confidence") or {}).get(percentile) or {}
            columns |= {f"{latency}.{percentile}.{end}": interval.get(end) for end in ("low", "high")}
    for name in ("compute", "memory", "kv"):
        columns[f"utilisation.{name}"] = (row.get("utilisation") or {}).get(name)
    return columns | {"failed": row.get("failed")}


def table_csv(result: StudyResult) -> str:
    """Return the table as CSV text, a row per run in the columns of `flat`."""
    rows = [flat(row) for row in result.table]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell("" if value is None else value) for name, value in row.items()} for row in rows)
    return out.getvalue()
