"""Measured records against predictions: how far off, and which were faster than should be possible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.formatting import about_percent, percent
from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.read import Refusal, read
from roofline.measure.validate.predict import Library, predict
from roofline.specs.library import Input, load_fit

if TYPE_CHECKING:
    import pandas as pd

GROUP = ("hardware", "op", "dtype", "backend", "regime")
_REGIMES = ("<15 us", "15-100 us", ">100 us", "m<=64", "m 65-512", "m>512")
_MAX_LISTED = 1000  # of those beneath the bound that are listed one by one
_NUM_WORST = 20


@dataclass(slots=True)
class Validation:
    """Records joined with predictions, and what was left out.

    Attributes:
        frame: one row per record: its columns (`roofline.measure.records.read`), `measured_s`, `bound_s`, `floor_s`,
            `estimate_s`, `low_s`, `high_s` in seconds (NaN where no fit applies), `flops`, `bytes_moved`, `binds`, `regime`,
            and `why`, the reason why it was faster than its bound (empty if it was not).
        refusals: rows with something wrong, by file and line.
        inputs: the files of hardware and fits that predictions are based on.
        files: the tables that were read.
        ignored_columns: names of columns that are not known.
        passed_by: why files in a folder hold no records, a sentence each.
        other_hardware: the number of rows of hardware that was not named, by their `gpu`.
        other_backend: the number of rows of other backends, by backend.
    """

    frame: pd.DataFrame
    refusals: list[Refusal]
    inputs: list[Input]
    files: list[Path]
    ignored_columns: list[str]
    passed_by: list[str]
    other_hardware: dict[str, int]
    other_backend: dict[str, int]

    @property
    def refused(self) -> int:
        """The number of rows that were not used because something is wrong with them."""
        return sum(refusal.rows for refusal in self.refusals)


def validate(
    paths: Iterable[str | Path], hardware: tuple[str, ...] = (), backend: str | None = None, fit: str | None = None
) -> Validation:
    """Join the records of files and folders with their predictions.

    Args:
        paths: tables of records (.csv, .parquet), or folders of them.
        hardware: ids or files of hardware; only its rows are used. Empty: every row, by the id in its column `gpu`.
        backend: only its rows are used. None: rows of every backend.
        fit: a fit file by which all rows are estimated. None: the shipped fit of the row's hardware and backend.

    Raises:
        InputError: if a path holds no records, the fit or hardware file is wrong, or no row is left to compare.
        UnknownNameError: if hardware is not known.
        MissingExtraError: if reading Parquet needs a package that is not installed.
    """
    if fit is not None:
        load_fit(Path(fit))  # what is wrong with it is said at once, not row by row
    records = read(paths)
    library = Library(hardware)
    frame, other_backend = records.frame, dict[str, int]()
    if backend is not None and len(frame):
        chosen = frame["backend"] == backend
        other_backend = {str(name): int(count) for name, count in frame[~chosen]["backend"].value_counts().items()}
        frame = frame[chosen]
    prediction = predict(frame, library, fit) if len(frame) else None
    refusals = records.refusals + (prediction.refusals if prediction else [])
    other_hardware = prediction.of_others if prediction else {}
    if prediction is None or not len(prediction.frame):
        raise InputError(_nothing(records.files, refusals, other_hardware, other_backend))
    joined = prediction.frame.assign(regime=_regimes(prediction.frame))
    joined = joined.assign(why=reasons(joined))
    return Validation(
        joined, refusals, prediction.inputs, records.files, records.ignored_columns, records.passed_by, other_hardware,
    other_backend )  # fmt: skip


def _nothing(files: list[Path], refusals: list[Refusal], hardware: dict[str, int], backend: dict[str, int]) -> str:
    """Why no record is left."""
    why = [
        f"{sum(others.values()):,} rows are of other {what} ({', '.join(list(others)[:5])})"
        for what, others in (("hardware", hardware), ("backends", backend))
        if others
    ]
    if not why and not refusals:
        why = [f"{', '.join(map(str, files[:5]))} has no rows"]
    return "\n  ".join([f"no record is left to compare{': ' + '; '.join(why) if why else ''}", *map(str, refusals[:10])])


def _regimes(frame: pd.DataFrame) -> Any:
    """The regime of each row: GEMMs by m, all else by the measured time. Short kernels are bound by launches and latencies."""
    import numpy as np
    import pandas as pd

    microseconds = frame["latency_us"]
    by_time = np.select([microseconds < 15, microseconds <= 100], _REGIMES[:2], _REGIMES[2])
    by_rows = np.select([frame["m"] <= 64, frame["m"] <= 512], _REGIMES[3:5], _REGIMES[5])
    return pd.Categorical(np.where(frame["op"] == "gemm", by_rows, by_time), _REGIMES, ordered=True)


def errors(rows: pd.DataFrame, predicted: str = "bound_s") -> dict[str, float | None]:
    """The relative errors of a prediction, as fractions of the measured time.

    Args:
        rows: a `Validation.frame`, or rows of it.
        predicted: the column with the predicted seconds; rows where it is NaN are left out.

    Returns:
        `median_ape` and `mape`, the median and mean absolute error, and `bias`, the median of the signed error; None
        where no row has a prediction.
    """
    relative = (rows[predicted] / rows["measured_s"] - 1).dropna()
    if relative.empty:
        return {"median_ape": None, "mape": None, "bias": None}
    absolute = relative.abs()
    return {"median_ape": float(absolute.median()), "mape": float(absolute.mean()), "bias": float(relative.median())}


def _coverage(rows: pd.DataFrame) -> float | None:
    """The share of points inside the interval of their estimate."""
    known = rows[rows["estimate_s"].notna()]
    if known.empty:
        return None
    return float(((known["measured_s"] >= known["low_s"]) & (known["measured_s"] <= known["high_s"])).mean())


def _figures(rows: pd.DataFrame) -> dict[str, Any]:
    """Errors and shares of a group of rows. NB: where no fit applies there is no estimate, and no interval to cover."""
    ratio = rows["measured_s"] / rows["bound_s"]
    return {
        "n": len(rows),
        "bound": errors(rows),
        "estimate": errors(rows, "estimate_s"),
        "coverage": _coverage(rows),
        "bound_s": float(rows["bound_s"].median()),
        "measured_s": float(rows["measured_s"].median()),
        "ratio": float(ratio.median()),
        "within_10_percent": float((ratio <= 1.1).mean()),
        "within_25_percent": float((ratio <= 1.25).mean()),
        "beneath_bound": float((ratio < 1).mean()),
        "unexplained": int((rows["why"] == UNEXPLAINED).sum()),
    }


def sentences(figures: dict[str, Any]) -> list[str]:
    """Return how far the estimates and the bounds of a group of rows are off, a sentence each.

    Args:
        figures: `overall` of a validation's document, or one of its groups.
    """
    estimate, bound = figures["estimate"], figures["bound"]
    lines = []
    if estimate["median_ape"] is not None:
        mean, bias = about_percent(estimate["mape"]), about_percent(estimate["bias"], sign=True)
        lines.append(
            f"Median error of the estimate: {about_percent(estimate['median_ape'])} (mean {mean}, bias {bias}); "
            f"{about_percent(figures['coverage'])} of the measurements lie in its 80 % interval."
        )
    return [*lines, f"Median error of the bound: {about_percent(bound['median_ape'])}."]


def groups(frame: pd.DataFrame, by: Sequence[str] = GROUP) -> list[dict[str, Any]]:
    """The figures of each group of rows with the same hardware, op, dtype, backend and regime.

    Args:
        frame: a `Validation.frame`.
        by: columns whose values a group has in common.

    Returns:
        One dictionary per group: the names, `n` rows, errors of bound and estimate (`errors`), the `coverage` of the
        estimate's interval, the medians `bound_s` and `measured_s` in seconds and of their `ratio` (measured over bound),
        the share of rows within 10 and 25 % of the bound and beneath it, and the number of `unexplained` rows.
    """
    return [
        {**dict(zip(by, keys, strict=True)), **_figures(rows), "kv_dtypes": sorted(set(rows["kv_dtype"]) - {""})}
        for keys, rows in frame.groupby(list(by), sort=True, observed=True)
    ]


def _faster_than_bound(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The reasons for which points were faster than their bound: how many, how fast the fastest was, and where it stands."""
    fast = frame[frame["why"] != ""]
    fast = fast.assign(ratio=fast["measured_s"] / fast["bound_s"])
    listed = []
    for (op, why), rows in fast.groupby(["op", "why"], sort=False, observed=True):
        first = rows.sort_values("ratio").iloc[0]
        listed.append(
            {"op": op, "why": why, "n": len(rows), "fastest": first["ratio"], "at": f"{first['file']}:{first['line']}"}
        )
    return sorted(listed, key=lambda entry: (entry["why"] != UNEXPLAINED, -entry["n"]))


def _described(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows one by one: where they stand, what they are, and the two times."""
    listed = []
    for row in rows.to_dict("records"):
        dims = {
            name: int(row[name])
            for name, column in COLUMNS.items()
            if column.kind == "count" and not math.isnan(row.get(name, math.nan))
        }
        listed.append(
            {
                "file": row["file"], "line": int(row["line"]),
                **{name: row[name] for name in ("hardware", "op", "dtype", "backend", "kernel", "regime", "cache")},
                "dims": dims, "bound_s": row["bound_s"], "measured_s": row["measured_s"],
                "ratio": row["measured_s"] / row["bound_s"], "why": row["why"],
                **{name: None if math.isnan(row[name]) else row[name] for name in ("estimate_s", "low_s", "high_s")},
                "stands_on": row["stands_on"],
            }
        )  # fmt: skip
    return listed


def _worst(frame: pd.DataFrame) -> pd.Index[Any]:
    """The points that are furthest off, as a factor: from their estimates, or from their bounds where there are none."""
    import numpy as np
    import pandas as pd

    predicted = frame["estimate_s"].where(frame["estimate_s"].notna(), frame["bound_s"])
    off = pd.Series(np.abs(np.log(frame["measured_s"] / predicted)), index=frame.index)
    return off.nlargest(_NUM_WORST).index


def _counters(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Counted bytes and FLOP against predicted ones, where the records have counters."""
    listed = []
    for (hardware, op, backend), rows in frame.groupby(["hardware", "op", "backend"], sort=True, observed=True):
        counted = rows["counters_dram_bytes"] / rows["bytes_moved"]
        worked = (rows["counters_flops"] / rows["flops"])[rows["flops"] > 0]
        if not (counted.notna().any() or worked.notna().any()):
            continue
        listed.append(
            {
                "hardware": hardware, "op": op, "backend": backend, "n": int(max(counted.notna().sum(), worked.notna().sum())),
                "bytes_ratio": counted.median() if counted.notna().any() else None,
                "flops_ratio": worked.median() if worked.notna().any() else None,
            }
        )  # fmt: skip
    return listed


def to_dict(result: Validation) -> dict[str, Any]:
    """The JSON document of a validation: counts, errors overall and by group, rows beneath their bound, rows furthest off.

    Times are in seconds, errors and shares are fractions.
    """
    frame = result.frame
    fast = frame[frame["why"] != ""]
    order = (fast["why"] != UNEXPLAINED).sort_values(kind="stable").index
    return {
        "rows": len(frame),
        "refused": result.refused,
        "refusals": [
            {"file": str(entry.path), "line": entry.line, "rows": entry.rows, "why": entry.why} for entry in result.refusals
        ],
        "other_hardware": result.other_hardware,
        "other_backend": result.other_backend,
        "ignored_columns": result.ignored_columns,
        "passed_by": result.passed_by,
        "overall": _figures(frame),
        "groups": groups(frame),
        "beneath_bound_reasons": _faster_than_bound(frame),
        "beneath_bound": _described(fast.loc[order[:_MAX_LISTED]]),
        "worst": _described(frame.loc[_worst(frame)]),
        "counters": _counters(frame),
    }


# Points that were faster than their bound, each with the likeliest reason. A bound that is beaten is a wrong count,
# unit or peak, or a measurement of something else than the record says, most often of a cache. A reason is tried in turn, the
# most certain first; what none explains is called unexplained.

UNEXPLAINED = "unexplained"
_NOISE = 0.05
# The share of the weights of gated experts that experts without a gate have; how far fewer may be met than is said.
_WITHOUT_A_GATE, _FEWER = 2 / 3, 0.1
# So many times faster than possible is no cache but another unit: milliseconds are a thousand.
_OTHER_UNIT = 100


def reasons(frame: pd.DataFrame) -> pd.Series:
    """Why each row may have been faster than its bound: a sentence, or "" where it was not.

    Args:
        frame: records with the columns of `bounds` (`roofline.measure.validate.predict`).

    Returns:
        A series of texts with the index of `frame`.
    """
    import numpy as np
    import pandas as pd

    ratio = frame["measured_s"] / frame["bound_s"]
    share = frame["bytes_moved"] / frame["l2_bytes"]
    from_memory = (frame["binds"] == "memory") & (frame["cache"] != "cold")
    # A ring sends 2(n-1)/n of the tensor, to a switch that sums a device sends it once: of two ranks no less.
    switched = (frame["op"] == "all_reduce") & (frame["binds"] == "link") & frame["sums_in_switch"]
    in_switch = switched & (ratio >= frame["world"] / (2 * (frame["world"] - 1)))
    composed = frame["floor_s"] < frame["bound_s"]
    cases: list[tuple[Any, str]] = [
        (ratio >= 1, ""),
        (ratio < 1 / _OTHER_UNIT, "over 100 times too fast: latency_us or a dimension in another unit"),
        (from_memory & (share <= 1), "all bytes of the record fit in the L2 cache, which was not flushed"),
        (from_memory & (share <= 4), "a part of the record's bytes fits in the L2 cache, which was not flushed"),
        (composed & (frame["measured_s"] >= frame["floor_s"]), "activations stayed in a cache from one operator to the next"),
        (in_switch, "a switch that sums what passes it sends less than a ring"),
        (
            (frame["op"] == "moe") & (ratio >= _WITHOUT_A_GATE * (1 - _FEWER)),
            "experts without a gate (two matrices of three), or fewer of them met than their routing says",
        ),
        (ratio >= 1 - _NOISE, f"within {percent(_NOISE, 0)}: noise of clocks and timing"),
    ]
    conditions = [np.asarray(case, dtype=bool) for case, _ in cases]
    return pd.Series(np.select(conditions, [text for _, text in cases], default=UNEXPLAINED), index=frame.index)
