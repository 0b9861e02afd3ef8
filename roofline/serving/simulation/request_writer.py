"""A file with a row per request that has ended, in the order of their end, written while the server runs."""

from __future__ import annotations

import csv
import io
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from roofline import files
from roofline.errors import InputError, MissingExtraError
from roofline.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

COLUMNS = (
    "request", "class", "replica", "arrived_at", "num_prefill_tokens", "num_decode_tokens", "ttft_s", "tpot_s", "e2e_s",
    "finished_at", "preemptions", "num_cached_tokens",
)  # fmt: skip
SUFFIXES = (".csv", ".parquet")


class RequestWriter:
    """A CSV or Parquet file, whole at the end, removed when something fails (`files.writing`).

    Args:
        path: where; the suffix says the format.
        names: names of the classes of requests.

    Raises:
        InputError: another suffix, a path that cannot be written to.
        MissingExtraError: Parquet without pyarrow.
    """

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(f"cannot write rows to {path}: the suffix must be one of {', '.join(SUFFIXES)}")
        self.path = path
        # NB: a spreadsheet takes text that begins so for a formula
        self._names = [f"'{name}" if name.startswith(("=", "+", "-", "@")) else name for name in map(clean, names)]
        self._parquet = path.suffix.lower() == ".parquet"
        self._writer: Any = None
        if self._parquet:
            _pyarrow()
        self._open = ExitStack()
        self._file = self._open.enter_context(files.writing(path))
        if not self._parquet:
            self._file.write((",".join(COLUMNS) + "\n").encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._open.pop_all() as closing:
            if kind is not None:
                with suppress(Exception):  # the file is removed
                    self._close()
                closing.__exit__(kind, error, trace)
                return
            self._close()

    def _close(self) -> None:
        """End a Parquet file, which has its table of contents there."""
        if (writer := self._writer) is not None:
            self._writer = None
            try:
                writer.close()
            finally:
                writer.is_open = False  # or it would try once more when it is thrown away

    def write(self, ended: dict[str, Array]) -> None:
        """Write a row per request that has ended.

        Args:
            ended: columns of `step_log.END`, each float64 of shape (requests,).
        """
        values = _columns(ended)
        names = [self._names[index] for index in values["class"]]
        if not self._parquet:
            self._file.write(_csv({**values, "class": names}).encode())
            return
        pa, pq = _pyarrow()
        table = pa.table({name: names if name == "class" else values[name] for name in COLUMNS})
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)


def _columns(ended: dict[str, Array]) -> dict[str, Array]:
    """Return the columns of the file; `tpot_s` is NaN for outputs of one token."""
    import numpy as np

    at, output = ended["ended"], ended["output"]
    whole = {
        "request": ended["index"], "class": ended["class"], "replica": ended["replica"], "num_prefill_tokens": ended["prompt"],
        "num_decode_tokens": output, "preemptions": ended["preemptions"], "num_cached_tokens": ended["cached"],
    }  # fmt: skip
    return {
        **{name: values.astype(np.int64) for name, values in whole.items()},
        "arrived_at": ended["arrived"],
        "ttft_s": ended["first"] - ended["arrived"],
        "tpot_s": (at - ended["first"]) / np.where(output > 1, output - 1, np.nan),
        "e2e_s": at - ended["arrived"],
        "finished_at": at,
    }


def _csv(columns: dict[str, Any]) -> str:
    out = io.StringIO()
    cells = [values if isinstance(values, list) else values.tolist() for values in (columns[name] for name in COLUMNS)]
    tpot = COLUMNS.index("tpot_s")
    cells[tpot] = ["" if value != value else value for value in cells[tpot]]  # noqa: PLR0124 - a NaN is no number
    csv.writer(out, lineterminator="\n").writerows(zip(*cells, strict=True))
    return out.getvalue()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("writing Parquet", "parquet") from None
    return pa, pq
