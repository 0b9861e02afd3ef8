"""Lists of models and of hardware."""

from __future__ import annotations

from typing import Any

from roofline import formatting
from roofline.cli.output import Answer, Rows
from roofline.cli.page import print_table
from roofline.predict.catalogue import hardware_rows, model_rows
from roofline.report.summary import Table, format_count
from roofline.specs.library import Input, shadowed
from roofline.version import envelope


def by_name(inputs: list[Input]) -> dict[str, Any]:
    """The files that an answer stands on, for its JSON."""
    return {entry.name: {"role": entry.role, "path": entry.path, "sha256": entry.sha256} for entry in inputs}


def models() -> Answer:
    """Every model with its size."""
    rows, inputs = model_rows()
    whole = {**envelope(by_name(inputs)), "models": rows}
    return Answer(whole, lambda: rows, lambda: print_table(_models(rows, _shadowing(inputs))))


def hardware() -> Answer:
    """Every accelerator and node with its headline figures."""
    rows, inputs = hardware_rows()
    whole = {**envelope(by_name(inputs)), "hardware": rows}
    return Answer(whole, lambda: rows, lambda: print_table(_hardware(rows, _shadowing(inputs))))


def _shadowing(inputs: list[Input]) -> list[str]:
    """Which shipped ids are files of one's own."""
    listed = [f"{entry.name} is {entry.path}" for entry in inputs if shadowed(entry.path) is not None]
    return [f"instead of shipped files, by ROOFLINE_PATH: {', '.join(listed)}"] if listed else []


def _models(rows: Rows, notes: list[str]) -> Table:
    recurrent = any(row["state_bytes_per_sequence"] for row in rows)
    cells = tuple(
        (
            row["id"],
            format_count(row["parameters"]),
            "" if row["active"] == row["parameters"] else format_count(row["active"]),
            str(row["layers"]),
            f"{row['context_length']:,}",
            formatting.binary(row["kv_bytes_per_token"]),
            f"{row['window']:,}" if row["window"] else "",
            *((_state(row["state_bytes_per_sequence"]),) if recurrent else ()),
        )
        for row in rows
    )
    columns = ("id", "parameters", "active", "layers", "context", "KV a token", "window", *(("state",) if recurrent else ()))
    return Table("", "; ".join(notes), columns, (False, *([True] * (len(columns) - 1))), cells)


def _state(size: float) -> str:
    return formatting.binary(size) if size else ""


def _hardware(rows: Rows, notes: list[str]) -> Table:
    def rate(value: float | None) -> str:
        return "" if value is None else formatting.quantity(value, "FLOP/s")

    cells = tuple(
        (
            row["id"],
            row["title"],
            rate(row["peak_flops_16bit"]),
            rate(row["peak_flops_fp8"]),
            formatting.quantity(row["bandwidth"], "B/s"),
            formatting.binary(row["memory_bytes"]),
            "" if row["ridge_point"] is None else f"{row['ridge_point']:.4g}",
        )
        for row in rows
    )
    columns = ("id", "", "16 bit", "fp8", "bandwidth", "memory", "ridge")
    return Table("", "; ".join(["dense peaks of one accelerator", *notes]), columns, (False, False, *([True] * 5)), cells)
