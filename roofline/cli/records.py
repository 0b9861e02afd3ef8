"""What a folder of records holds, as a person sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files, formatting
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.measure.records.read import read
from roofline.measure.records.row_groups import group_rows, operators_of
from roofline.report.summary import Table
from roofline.text import clean
from roofline.version import envelope

if TYPE_CHECKING:
    import pandas as pd


_MOST_BYTES = 2**26


def answer(folder: Path) -> Answer:
    """A summary of the records of a folder, and its environment."""
    if not files.is_folder(folder):
        msg = f"{folder}: no such folder"
        raise InputError(msg)
    found = read([folder])
    environment = _environment(folder)
    rows = _rows(found.frame)
    refusals = [str(refusal) for refusal in found.refusals] + [f"passed by: {text}" for text in found.passed_by]
    whole = {
        **envelope({}), "folder": str(folder), "records": len(found.frame), "refused": found.refused, "refusals": refusals,
        "environment": environment, "ops": rows,
    }  # fmt: skip
    return Answer(whole, lambda: rows, lambda: _show(whole))


def _environment(folder: Path) -> dict[str, Any]:
    """The environment.json of a folder; empty where there is none."""
    path = folder / "environment.json"
    if not files.exists(path):
        return {}
    try:
        found = json.loads(files.read_text(path, _MOST_BYTES, "the environment of a run"))
    except ValueError as error:
        msg = f"{path}: cannot be read as JSON: {error}"
        raise InputError(msg) from None
    return _keys(found)


def _keys(value: Any) -> dict[str, Any]:
    """A part of the environment that has keys. What was written by hand may be anything."""
    return value if isinstance(value, dict) else {}


def _rows(frame: pd.DataFrame) -> Rows:
    """One row an op, dtype, backend and cache: how many, how long, the best rates by the median time of a point."""
    from roofline.cost import ZERO

    rows: Rows = []
    keys = ["op", "dtype", "backend", "cache"]
    for names, group in frame.groupby(keys, sort=True) if len(frame) else []:
        rates: dict[str, float] = {"flops": 0.0, "bytes": 0.0, "link": 0.0}
        for part in group_rows(group):
            cost = sum((operator.cost() * repeat for operator, repeat in operators_of(part).values()), ZERO)
            seconds = part["latency_us"].to_numpy() * 1e-6
            for name, value in (("flops", cost.matrix_flops), ("bytes", cost.bytes), ("link", cost.link_bytes)):
                rates[name] = max(rates[name], float((value / seconds).max()))
        spread = (group["latency_p90_us"] - group["latency_p10_us"]) / group["latency_us"]
        rows.append(
            {
                **dict(zip(keys, names, strict=True)), "n": len(group),
                "latency_min_us": group["latency_us"].min(), "latency_max_us": group["latency_us"].max(),
                "spread": spread.median() if spread.notna().any() else None,
                "best_flops_per_s": rates["flops"] or None, "best_bytes_per_s": rates["bytes"] or None,
                "best_link_bytes_per_s": rates["link"] or None,
            }
        )  # fmt: skip
    return rows


def _show(whole: dict[str, Any]) -> None:
    environment = whole["environment"]
    device, libraries = _keys(environment.get("device")), _keys(environment.get("libraries"))
    parts = [
        device.get("name"),
        *(f"{word} {value}" for word, value in (("torch", libraries.get("torch")), ("CUDA", device.get("cuda"))) if value),
        *([f"driver {device['driver']}"] if device.get("driver") else []),
        plural(whole["records"], "record"),
        *([f"{whole['refused']} refused"] if whole["refused"] else []),
    ]
    write_stdout(clean(" · ".join(str(part) for part in parts if part)))
    runs = environment.get("runs")
    for run in runs if isinstance(runs, list) else []:
        write_stdout(clean(_run(_keys(run))))
    for refusal in whole["refusals"]:
        write_stdout(f"refused: {clean(refusal)}")
    write_stdout("")
    print_table(_table(whole["ops"]))


def _run(run: dict[str, Any]) -> str:
    """When a run was, what it did, and how the device was after it."""
    after, suites = _keys(run.get("after")), run.get("suites")
    heat = [
        f"{word}{after[name]:,.0f}{unit}"
        for name, word, unit in (("clock_sm_mhz", "SM ", " MHz"), ("power_w", "", " W"), ("temperature_c", "", " °C"))
        if isinstance(after.get(name), (int, float))
    ]
    throttled = after.get("throttle_reasons")
    named = ", ".join(map(str, suites)) if isinstance(suites, list) else "?"
    said = f"{run.get('started')}  {named}: {run.get('records')} records, {run.get('outcome')}"
    return "  ".join([said, *heat, *(map(str, throttled) if isinstance(throttled, list) else [])])


def _table(rows: Rows) -> Table:
    def rate(value: float | None, unit: str) -> str:
        return "" if value is None else formatting.quantity(value, unit, 3)

    linked = any(row["best_link_bytes_per_s"] for row in rows)
    cells = tuple(
        (
            row["op"],
            f"{row['dtype']} {row['backend']}",
            row["cache"],
            f"{row['n']:,}",
            formatting.seconds(row["latency_min_us"] * 1e-6),
            formatting.seconds(row["latency_max_us"] * 1e-6),
            "" if row["spread"] is None else f"{percent(row['spread'], 0)}",
            rate(row["best_flops_per_s"], "FLOP/s"),
            rate(row["best_bytes_per_s"], "B/s"),
            *([rate(row["best_link_bytes_per_s"], "B/s")] if linked else []),
        )
        for row in rows
    )
    columns = ("op", "kernels", "cache", "n", "fastest", "slowest", "spread", "matrix", "memory", *(["link"] if linked else []))
    note = "best rates by predicted FLOP and compulsory bytes over the median; spread: p10 to p90 of a point's samples"
    return Table("Records", note, columns, (False, False, False, *([True] * (len(columns) - 3))), cells)
