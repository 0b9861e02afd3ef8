"""Results of `roofline sweep` read from a folder of parts or one file; names and formats of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, SpecError
from roofline.predict.compiled import PHASES
from roofline.predict.grid import COLUMNS
from roofline.predict.sweeps.axes import WORKLOAD
from roofline.predict.sweeps.evaluate import FORMATS, MOST_ROWS
from roofline.predict.sweeps.folder import MANIFEST, read
from roofline.predict.sweeps.reduce import Objective
from roofline.report.axes import evenly_spaced
from roofline.report.cells import NOTHING, amount, gibibytes, number_cell, seconds, text_cell, whole
from roofline.report.figure import Cell

if TYPE_CHECKING:
    import pandas as pd

_COUNTED = ("column", "low", "high", "count")
"""Columns of a histogram."""
LENGTH = {"prefill": "input_len", "decode": "context"}
"""The column that says how long sequences are."""

TABLES = (".csv", ".parquet")
"""Suffixes of files that hold rows alone."""
_MOST_BYTES = 2 * 2**30
_NUMBERS = ("batch", "input_len", "context", "devices", *_COUNTED[1:])
_LESS = "reduce it (--reduce best, pareto or histogram), or sweep fewer values"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepData:
    """Rows as of `roofline.predict.sweeps.folder.read`, and the description as of `Sweep.describe`."""

    name: str
    """Of the file or the folder; empty for a sweep that comes from none."""
    frame: pd.DataFrame
    described: dict[str, Any] | None = None
    """None of a file that holds rows alone."""
    refused: tuple[dict[str, Any], ...] = ()
    points: int | None = None
    """Of the whole grid."""
    grid: dict[str, list[Any]] = field(init=False)
    """Values by axis; of rows alone those that they have."""

    def __post_init__(self) -> None:
        given = (self.described or {}).get("grid")
        object.__setattr__(self, "grid", dict(given) if given else self._values())

    def _values(self) -> dict[str, list[Any]]:
        known = {*COLUMNS, *FORMATS, *_COUNTED, "devices"}
        return {
            str(name): list(self.frame[name].dropna().drop_duplicates()) for name in self.frame.columns if name not in known
        }

    @property
    def rule(self) -> str:
        """The rule of the reduction ("best", "pareto", "histogram"); "" if all points were kept."""
        reduced = (self.described or {}).get("reduce")
        if reduced:
            return str(reduced["rule"])
        return "histogram" if set(_COUNTED) <= set(self.frame.columns) else ""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Objectives of the reduction."""
        reduced = (self.described or {}).get("reduce") or {}
        parts = (str(text).rpartition(":") for text in reduced.get("objectives", ()))
        return tuple(Objective(column, way == "max") for column, _, way in parts)

    @property
    def by(self) -> tuple[str, ...]:
        """Axes that the reduction groups by: one result per value."""
        reduced = (self.described or {}).get("reduce") or {}
        listed = [str(name) for name in reduced.get("by", ()) if name != "phase"]
        if not listed and self.rule == "histogram":
            listed = [str(name) for name in self.frame.columns if name not in ("phase", *_COUNTED)]
        return tuple(name for name in listed if name in self.frame.columns)

    @property
    def phases(self) -> list[tuple[str, pd.DataFrame]]:
        """Name and rows of each phase that has rows."""
        groups = ((phase, self.frame[self.frame["phase"] == phase]) for phase in PHASES)
        return [(phase, rows) for phase, rows in groups if len(rows)]

    @property
    def outer(self) -> list[str]:
        """Names of the axes of models, hardware and deployments: those before the workload's, except the phase."""
        return [name for name in self.grid if name not in (*WORKLOAD, "phase") and name in self.frame.columns]

    @property
    def varied(self) -> list[str]:
        """Names of the outer axes that have several values."""
        return [name for name in self.outer if len(self.grid[name]) > 1]

    @property
    def staged(self) -> bool:
        """Whether there are pipelines, so that a step takes longer than its fullest stage."""
        return any(value not in (None, 1) for value in self.grid.get("pp", ()))

    def configurations(self, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
        """Name and rows of each combination of values of the outer axes, in the order of the grid."""
        return [
            (self.called(dict(zip(self.outer, values, strict=True))), group)
            for values, group in rows.groupby(self.outer, sort=False, observed=True, dropna=False)
        ]

    def grouped(self, rows: pd.DataFrame, axes: list[str]) -> list[tuple[str, pd.DataFrame]]:
        """Name and rows of each combination of values of `axes`; all rows as one group if there are none."""
        if not axes:
            return [(self.called(rows.iloc[0].to_dict()) if self.outer else "all", rows)]
        return [
            (", ".join(phrase(axis, value) for axis, value in zip(axes, values, strict=True)), group)
            for values, group in rows.groupby(axes, sort=False, observed=True, dropna=False)
        ]

    def called(self, values: Mapping[Any, Any]) -> str:
        """A configuration as text: what varies, else model and hardware. `values` are by axis, such as a row."""
        names = self.varied or [name for name in ("model", "hardware") if name in self.outer]
        return ", ".join(phrase(name, values[name]) for name in names)


def thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most `most` rows, evenly spaced, with the first and the last."""
    return rows.iloc[evenly_spaced(list(range(len(rows))), most)]


def phrase(axis: str, value: Any) -> str:
    """An axis and its value as text.

    >>> phrase("tp", 2), phrase("hardware", "h100-sxm"), phrase("kv_cache_dtype", None)
    ('tp 2', 'h100-sxm', 'default kv-cache-dtype')
    """
    name = axis.replace("_", "-")
    if absent(value):
        return f"default {name}"
    return written(value) if axis in ("model", "hardware", "phase") else f"{name} {written(value)}"


def absent(value: Any) -> bool:
    """Whether a value is None, NaN or NA: the default of an axis, or no result."""
    return value is None or str(value) in ("nan", "<NA>")


def written(value: Any) -> str:
    """A value of an axis as text."""
    if absent(value):
        return "default"
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of numbers of which one is absent
    return str(value) if isinstance(value, str | bool | float) else f"{value:,}" if _whole(value) else str(value)


def _whole(value: Any) -> bool:
    return hasattr(value, "bit_length") or type(value).__name__.startswith(("int", "uint"))


# Reading


def load_folder(path: Path) -> SweepData:
    """A sweep from the folder of parts that `roofline sweep` writes.

    Raises:
        InputError: no manifest, an incomplete sweep, missing parts, or more rows than a page can be made of.
        SpecError: the manifest is not of a sweep.
    """
    manifest = path / MANIFEST
    if not files.is_file(manifest):
        raise InputError(
            f"{path} is a folder without {MANIFEST}: of a sweep, name the folder that `roofline sweep` has written"
        )
    frame, manifest_data = read(path)
    if manifest_data.get("kind") != "sweep" or not isinstance(manifest_data.get("sweep"), dict):
        raise SpecError("is no manifest of a sweep", path=manifest)
    return _sweep_data(path, frame, manifest_data)


def load_json(path: Path, result: dict[str, Any]) -> SweepData:
    """A sweep from the JSON object `result` that `roofline sweep` writes to the file `path`.

    Raises:
        SpecError: it has no rows of a sweep.
    """
    import pandas as pd

    if path.name == MANIFEST and "parts" in result:
        return load_folder(path.parent)
    rows, described = result.get("rows"), result.get("sweep")
    if "parts" in result and not isinstance(rows, list):
        raise SpecError("has the manifest alone: name the folder that the sweep was written into", path=path)
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows) and isinstance(described, dict)):
        raise SpecError("is no sweep: `sweep` must be an object and `rows` a list of objects", path=path)
    frame = pd.DataFrame(rows)
    for name, edge in (("low", -float("inf")), ("high", float("inf"))):
        if set(_COUNTED) <= set(frame.columns):
            frame[name] = pd.to_numeric(frame[name], errors="coerce").fillna(edge)  # JSON has no infinity
    return _sweep_data(path, frame, result)


def load_table(path: Path) -> SweepData:
    """A sweep from its rows alone, as CSV or Parquet.

    Raises:
        SpecError: the file cannot be read, or holds something else.
        MissingExtraError: Parquet without its extra.
    """
    with files.open_input(path, _MOST_BYTES, "the rows of a sweep") as file:
        frame = _parquet(path, file) if path.suffix.lower() == ".parquet" else _csv(path, file)
    return _sweep_data(path, frame, {})


def _parquet(path: Path, file: IO[bytes]) -> pd.DataFrame:
    frame: pd.DataFrame = files.read_parquet(file, path, max_rows=MOST_ROWS).to_pandas()
    return frame


def _csv(path: Path, file: IO[bytes]) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(file, keep_default_na=False, na_values=[""], low_memory=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, ValueError) as error:
        raise SpecError(f"is no CSV: {str(error).strip()}", path=path) from None


def _sweep_data(path: Path, frame: pd.DataFrame, description: dict[str, Any]) -> SweepData:
    """Rows with the right columns and types, and what is said of them."""
    described = description.get("sweep")
    if described is not None and not isinstance(described.get("grid"), dict):
        raise SpecError("sweep.grid must be an object", path=path)
    refused = description.get("refused")
    if len(frame):  # of none there are no columns
        frame = _typed(frame.copy(deep=False), path)
    elif described is None:
        raise SpecError("has no rows", path=path)
    return SweepData(
        name=path.name or path.resolve().name,
        frame=frame,
        described=described,
        refused=tuple(entry for entry in refused if isinstance(entry, dict)) if isinstance(refused, list) else (),
        points=description["points"] if isinstance(description.get("points"), int) else None,
    )


def _typed(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Check what every sweep has; numbers as numbers, and yes and no as such."""
    counted = set(_COUNTED) <= set(frame.columns)
    needed = ("phase",) if counted else ("model", "hardware", "phase", "batch")
    if lacking := [name for name in needed if name not in frame.columns]:
        raise SpecError(f"is no sweep: it has no column {', '.join(lacking)}", path=path)
    if not counted and not any(name in COLUMNS for name in frame.columns):
        raise SpecError(f"is no sweep: it has none of the columns {', '.join(COLUMNS)}", path=path)
    if odd := sorted({str(value) for value in frame["phase"].drop_duplicates()} - set(PHASES)):
        raise SpecError(f"is no sweep: the phase {odd[0]!r} is none of {', '.join(PHASES)}", path=path)
    for name in map(str, frame.columns):
        answer = name in COLUMNS and COLUMNS[name].dtype == "float64"
        if answer or name in _NUMBERS:
            frame[name] = _numbers(frame[name], path)
        if answer:
            frame[name] = frame[name].where(frame[name].abs() != float("inf"))  # no answer is infinite
    if "fits" in frame.columns and frame["fits"].dtype != bool:
        fits = frame["fits"].map({True: True, False: False, "True": True, "False": False, "true": True, "false": False})
        if fits.isna().any():
            raise SpecError("is no sweep: the column fits has a value that is neither True nor False", path=path)
        frame["fits"] = fits.astype(bool)
    return frame


def _numbers(values: pd.Series[Any], path: Path) -> pd.Series[Any]:
    import pandas as pd

    if values.dtype.kind in "iuf":
        return values
    try:
        return pd.to_numeric(values).astype("float64")
    except (ValueError, TypeError):
        raise SpecError(f"is no sweep: the column {values.name} has a value that is no number", path=path) from None


TIME = {"prefill": "TTFT", "decode": "TPOT"}


LENGTHS = {"prefill": "prompt tokens", "decode": "cached tokens"}


LETTERS = {"compute": "C", "memory": "M", "link": "L"}


_NAMES = {
    "tokens_per_s": "tokens/s at the bound",
    "tokens_per_s_estimate": "tokens/s",
    "tokens_per_s_per_device": "tokens/s per device at the bound",
    "tokens_per_s_per_device_estimate": "tokens/s per device",
    "arithmetic_intensity": "FLOP/byte",
    "memory_bytes": "memory per device",
    "bytes": "bytes per step",
    "flops": "FLOP per step",
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
    "time_floor_s": "stage floor",
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
    """Which columns have the time of some rows, in seconds; a column that is not there is None."""

    name: str
    """`estimate` or `bound`."""
    title: str
    """TPOT or TTFT, or that it is the time of a stage."""
    time: str
    low: str | None
    high: str | None


def basis(sweep: SweepData, phase: str, rows: pd.DataFrame) -> Basis | None:
    """The columns of the estimate if every row with a time has one, else those of the bound; None if no row has a time."""
    bound = next((name for name in _BOUNDS if name in rows.columns and rows[name].notna().any()), None)
    for time, low, high in _ESTIMATES:
        if time not in rows.columns or not rows[time].notna().any():
            continue
        if bound is None or not (rows[time].isna() & rows[bound].notna()).any():
            edges = (low, high) if low in rows.columns and high in rows.columns else (None, None)
            return Basis(name="estimate", title=_title(sweep, phase, time), time=time, low=edges[0], high=edges[1])
    if bound is None:
        return None
    return Basis(name="bound", title=_title(sweep, phase, bound), time=bound, low=None, high=None)


def _title(sweep: SweepData, phase: str, time: str) -> str:
    return f"{TIME[phase]} (fullest stage)" if sweep.staged and time.startswith("time_") else TIME[phase]


def rates(rows: pd.DataFrame, phase: str, timing: Basis) -> pd.Series[float] | None:
    """Tokens/s per device of each row, on the basis `timing`; None if columns are missing."""
    ending = "_estimate" if timing.name == "estimate" else ""
    for name, of_all in ((f"tokens_per_s_per_device{ending}", False), (f"tokens_per_s{ending}", True)):
        if name in rows.columns and (not of_all or "devices" in rows.columns):
            return rows[name] / rows["devices"] if of_all else rows[name]
    if "devices" not in rows.columns or "(" in timing.title:
        return None
    produced = rows["batch"]
    if phase == "prefill":
        if LENGTH[phase] not in rows.columns:
            return None
        produced = produced * rows[LENGTH[phase]].astype("float64")
    return produced / rows[timing.time] / rows["devices"]


def fitting(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether each row fits in memory; without that column, whether it has a time."""
    if "fits" in rows.columns:
        return rows["fits"].astype(bool)
    times = [name for name in (*_BOUNDS, *(names[0] for names in _ESTIMATES)) if name in rows.columns]
    return rows[times].notna().any(axis=1) if times else rows["batch"].notna()


def called(column: str, phase: str, *, staged: bool = False, head: bool = False) -> str:
    """A column's name for readers; as the `head` of a table with the unit of its cells.

    >>> called("time_low_s", "decode"), called("tokens_per_s_per_device_estimate", "decode"), called("tp", "decode")
    ('TPOT from', 'tokens/s per device', 'tp')
    """
    if column in _TIMES:
        words = _TIMES[column] if staged else _TIMES[column].removeprefix("stage").strip()
        return f"{TIME[phase]} {words}".strip()
    if column == "memory_bytes":
        return f"{_NAMES[column]}, GiB" if head else _NAMES[column]
    return _NAMES.get(column, column.replace("_", "-"))


def unit(column: str) -> str:
    """The base unit of a column's axis; "" for plain numbers."""
    if column.endswith("_s") and "per_s" not in column:
        return "s"
    if column.startswith("tokens_per_s"):
        return "tokens/s"
    return {"memory_bytes": "B", "bytes": "B", "flops": "FLOP", "arithmetic_intensity": "FLOP/byte"}.get(column, "")


def cell(column: str, value: Any) -> Cell:
    """A value of a column in base units, as a cell."""
    if absent(value):
        return NOTHING
    if column == "fits":
        return text_cell("yes" if value else "no")
    if isinstance(value, str):
        return text_cell(value)
    if column == "memory_bytes":
        return gibibytes(float(value))
    if column in ("bytes", "flops"):
        return amount(float(value), unit(column))
    if unit(column) == "s":
        return seconds(float(value))
    if column in ("batch", "devices", *LENGTH.values()):
        return whole(float(value))
    return number_cell(float(value)) if isinstance(value, float) else text_cell(written(value))
