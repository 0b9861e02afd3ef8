"""What `roofline sweep` has written, read again: a folder of parts, or one file."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, SpecError
from roofline.predict.columns import COLUMNS
from roofline.predict.compiled import PHASES
from roofline.predict.sweeps.evaluate import MOST_ROWS
from roofline.predict.sweeps.folder import MANIFEST, arrow, read
from roofline.report.sweep.swept import COUNTED, Swept

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet")
"""Suffixes of files that hold rows alone."""
_MOST_BYTES = 2 * 2**30
_NUMBERS = ("batch", "input_len", "context", "devices", *COUNTED[1:])
_LESS = "reduce it (--reduce best, pareto or histogram), or sweep fewer values"


def load_folder(path: Path) -> Swept:
    """A folder of parts.

    Raises:
        InputError: no manifest, a sweep that is not complete, parts that are gone, more rows than a page can be made of.
    """
    manifest = path / MANIFEST
    if not files.is_file(manifest):
        raise InputError(
            f"{path} is a folder without {MANIFEST}: of a sweep, name the folder that `roofline sweep` has written"
        )
    frame, found = read(path)
    if found.get("kind") != "sweep" or not isinstance(found.get("sweep"), dict):
        raise SpecError("is no manifest of a sweep", path=manifest)
    return _swept(path, frame, found)


def load_json(path: Path, found: dict[str, Any]) -> Swept:
    """A JSON object of the command.

    Raises:
        SpecError: rows that are none.
    """
    import pandas as pd

    if path.name == MANIFEST and "parts" in found:
        return load_folder(path.parent)
    rows, described = found.get("rows"), found.get("sweep")
    if "parts" in found and not isinstance(rows, list):
        raise SpecError("has the manifest alone: name the folder that the sweep was written into", path=path)
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows) and isinstance(described, dict)):
        raise SpecError("is no sweep: `sweep` must be an object and `rows` a list of objects", path=path)
    frame = pd.DataFrame(rows)
    for name, edge in (("low", -float("inf")), ("high", float("inf"))):
        if set(COUNTED) <= set(frame.columns):
            frame[name] = pd.to_numeric(frame[name], errors="coerce").fillna(edge)  # JSON has no infinity
    return _swept(path, frame, found)


def load_table(path: Path) -> Swept:
    """Rows alone, as CSV or Parquet.

    Raises:
        SpecError: a file that cannot be read, or holds something else.
        MissingExtraError: Parquet without its extra.
    """
    with files.open_input(path, _MOST_BYTES, "the rows of a sweep") as file:
        frame = _parquet(path, file) if path.suffix.lower() == ".parquet" else _csv(path, file)
    return _swept(path, frame, {})


def _parquet(path: Path, file: IO[bytes]) -> pd.DataFrame:
    pa, pq = arrow()
    try:
        if pq.read_metadata(file).num_rows > MOST_ROWS:
            raise SpecError(f"has more than {MOST_ROWS:,} rows: {_LESS}", path=path)
        frame: pd.DataFrame = pq.read_table(file).to_pandas()
    except pa.ArrowInvalid as error:
        raise SpecError(f"is no Parquet: {error}", path=path) from None
    return frame


def _csv(path: Path, file: IO[bytes]) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(file, keep_default_na=False, na_values=[""], low_memory=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError, ValueError) as error:
        raise SpecError(f"is no CSV: {str(error).strip()}", path=path) from None


def _swept(path: Path, frame: pd.DataFrame, found: dict[str, Any]) -> Swept:
    """Rows with the right columns and types, and what is said of them."""
    described = found.get("sweep")
    if described is not None and not isinstance(described.get("grid"), dict):
        raise SpecError("sweep.grid must be an object", path=path)
    refused = found.get("refused")
    if len(frame):  # of none there are no columns
        frame = _typed(frame.copy(deep=False), path)
    elif described is None:
        raise SpecError("has no rows", path=path)
    return Swept(
        name=path.name or path.resolve().name,
        frame=frame,
        described=described,
        refused=tuple(entry for entry in refused if isinstance(entry, dict)) if isinstance(refused, list) else (),
        points=found["points"] if isinstance(found.get("points"), int) else None,
    )


def _typed(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Check what every sweep has; numbers as numbers, and yes and no as such."""
    counted = set(COUNTED) <= set(frame.columns)
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
