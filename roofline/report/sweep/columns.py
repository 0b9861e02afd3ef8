"""What a column is called on a page, how its values are written, and which of them a figure stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.report.figure import Cell
from roofline.report.sweep.swept import LENGTH, Swept, absent, written
from roofline.report.view.cells import NOTHING, amount, figure, gibibytes, seconds, whole, words

if TYPE_CHECKING:
    import pandas as pd

TIME = {"prefill": "TTFT", "decode": "TPOT"}
LENGTHS = {"prefill": "prompt tokens", "decode": "cached tokens"}
LETTERS = {"compute": "C", "memory": "M", "link": "L"}
_NAMES = {
    "tokens_per_s": "tokens/s at the bound",
    "tokens_per_s_estimate": "tokens/s",
    "tokens_per_s_per_device": "tokens/s a device at the bound",
    "tokens_per_s_per_device_estimate": "tokens/s a device",
    "arithmetic_intensity": "FLOP/byte",
    "memory_bytes": "memory of a device",
    "bytes": "bytes a step moves",
    "flops": "FLOP of a step",
    "fits": "fits",
    "bound_by": "binds",
    "weight_dtype": "weights",
    "activation_dtype": "activations",
    "kv_dtype": "KV",
    "batch": "batch",
    "input_len": "prompt tokens",
    "context": "cached tokens",
    "devices": "devices",
}
_TIMES = {
    "time_bound_s": "stage bound",
    "time_sum_s": "stage without overlap",
    "time_estimate_s": "stage",
    "time_low_s": "stage from",
    "time_high_s": "stage to",
    "step_bound_s": "bound",
    "step_estimate_s": "",
    "step_low_s": "from",
    "step_high_s": "to",
}
_ESTIMATES = (("step_estimate_s", "step_low_s", "step_high_s"), ("time_estimate_s", "time_low_s", "time_high_s"))
_BOUNDS = ("step_bound_s", "time_bound_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The columns of a time and a rate that some rows have an answer in; a column that is not there is None."""

    name: str
    """`estimate` or `bound`."""
    title: str
    """TPOT or TTFT, or that it is the time of a stage."""
    time: str
    low: str | None
    high: str | None


def basis(swept: Swept, phase: str, rows: pd.DataFrame) -> Basis | None:
    """The estimate where every row that has a time has one, else the bound; None of rows without times."""
    bound = next((name for name in _BOUNDS if name in rows.columns and rows[name].notna().any()), None)
    for time, low, high in _ESTIMATES:
        if time not in rows.columns or not rows[time].notna().any():
            continue
        if bound is None or not (rows[time].isna() & rows[bound].notna()).any():
            edges = (low, high) if low in rows.columns and high in rows.columns else (None, None)
            return Basis(name="estimate", title=_title(swept, phase, time), time=time, low=edges[0], high=edges[1])
    if bound is None:
        return None
    return Basis(name="bound", title=_title(swept, phase, bound), time=bound, low=None, high=None)


def _title(swept: Swept, phase: str, time: str) -> str:
    return f"{TIME[phase]} (fullest stage)" if swept.staged and time.startswith("time_") else TIME[phase]


def rates(rows: pd.DataFrame, phase: str, found: Basis) -> pd.Series[float] | None:
    """Tokens a second of one device, by the same basis; None where columns are missing."""
    ending = "_estimate" if found.name == "estimate" else ""
    for name, share in ((f"tokens_per_s_per_device{ending}", False), (f"tokens_per_s{ending}", True)):
        if name in rows.columns and (not share or "devices" in rows.columns):
            return rows[name] / rows["devices"] if share else rows[name]
    if "devices" not in rows.columns or "(" in found.title:
        return None
    produced = rows["batch"]
    if phase == "prefill":
        if LENGTH[phase] not in rows.columns:
            return None
        produced = produced * rows[LENGTH[phase]].astype("float64")
    return produced / rows[found.time] / rows["devices"]


def fitting(rows: pd.DataFrame) -> pd.Series[bool]:
    """Which rows fit; without the column that says so, those that have an answer."""
    if "fits" in rows.columns:
        return rows["fits"].astype(bool)
    times = [name for name in (*_BOUNDS, *(names[0] for names in _ESTIMATES)) if name in rows.columns]
    return rows[times].notna().any(axis=1) if times else rows["batch"].notna()


def called(column: str, phase: str, *, staged: bool = False, head: bool = False) -> str:
    """A column in words; as the `head` of a table with the unit of its cells.

    >>> called("time_low_s", "decode"), called("tokens_per_s_per_device_estimate", "decode"), called("tp", "decode")
    ('TPOT from', 'tokens/s a device', 'tp')
    """
    if column in _TIMES:
        words = _TIMES[column] if staged else _TIMES[column].removeprefix("stage").strip()
        return f"{TIME[phase]} {words}".strip()
    if column == "memory_bytes":
        return f"{_NAMES[column]}, GiB" if head else _NAMES[column]
    return _NAMES.get(column, column.replace("_", "-"))


def unit(column: str) -> str:
    """The unit of a column's axis."""
    if column.endswith("_s") and "per_s" not in column:
        return "s"
    if column.startswith("tokens_per_s"):
        return "tokens/s"
    return {"memory_bytes": "B", "bytes": "B", "flops": "FLOP", "arithmetic_intensity": "FLOP/byte"}.get(column, "")


def cell(column: str, value: Any) -> Cell:
    """A value as a cell."""
    if absent(value):
        return NOTHING
    if column == "fits":
        return words("yes" if value else "no")
    if isinstance(value, str):
        return words(value)
    if column == "memory_bytes":
        return gibibytes(float(value))
    if column in ("bytes", "flops"):
        return amount(float(value), unit(column))
    if unit(column) == "s":
        return seconds(float(value))
    if column in ("batch", "devices", *LENGTH.values()):
        return whole(float(value))
    return figure(float(value)) if isinstance(value, float) else words(written(value))
