"""The records of a folder: appended one by one, each on the disk before the next is measured."""

from __future__ import annotations

import csv
import io
import os
from contextlib import suppress
from pathlib import Path

from roofline import files
from roofline.errors import InputError
from roofline.measure.bench.point import PACKAGES
from roofline.measure.records.columns import COLUMNS, RESULTS

RECORDS_FILE = "records.csv"
_IDENTITY = tuple(name for name in COLUMNS if name not in RESULTS)


class RecordsFile:
    """The `records.csv` of a folder, open to append records, and locked against other runs.

    Opening it reads what was measured before; a last line without an end is cut away.

    Args:
        folder: is made if it does not exist.

    Attributes:
        path: of the file.
        done: the latencies of the records in it, in microseconds as they are written, by identity.
        gpus: the values of their column `gpu`.
        versions: of torch: the values of their column `version`, but for backends that are packages.
        cut_off: whether a last line was cut away.

    Raises:
        InputError: if it cannot be written, is no table of records, or another run writes to it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORDS_FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b", buffering=0)  # nothing is left to write when it is closed
        except OSError as error:
            msg = f"{self.path}: cannot be written: {error.strerror}"
            raise InputError(msg) from None
        self.done: dict[tuple[str, ...], str] = {}
        self.gpus: set[str] = set()
        self.versions: set[str] = set()
        try:
            _lock(self._file.fileno(), self.path)
            self.cut_off = self._read()
        except InputError:
            self.close()
            raise

    def _read(self) -> bool:
        """Take in the records there are. A last line without an end was being written when its run died."""
        self._file.seek(0)
        content = self._file.readall()
        header = f"{','.join(COLUMNS)}\n".encode()
        if not header.startswith(content[: len(header) + 1].replace(b"\r\n", b"\n")[: len(header)]):
            msg = f"{self.path}:1: is no table of records, or one of another version; name another folder"
            raise InputError(msg)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        if not whole:
            self._append(list(COLUMNS))
        reader = csv.reader(io.StringIO(whole.decode("utf-8", errors="replace")))
        next(reader, None)
        for cells in reader:
            if len(cells) == len(COLUMNS):  # `validate` says what is wrong with the others
                row = dict(zip(COLUMNS, cells, strict=True))
                self.done[self._identity(row)] = row["latency_us"]
                self.gpus.add(row["gpu"])
                self.versions |= {row["version"]} if row["backend"] not in PACKAGES else set()
        return len(whole) < len(content)

    def __contains__(self, columns: dict[str, str]) -> bool:
        return self._identity(columns) in self.done

    def seconds(self, columns: dict[str, str]) -> float | None:
        """The seconds of a call in the record with this identity; None where there is no record, or no time in it."""
        with suppress(KeyError, ValueError):
            return float(self.done[self._identity(columns)]) * 1e-6
        return None

    @staticmethod
    def _identity(columns: dict[str, str]) -> tuple[str, ...]:
        return tuple(columns[name] for name in _IDENTITY)

    def add(self, columns: dict[str, str]) -> None:
        """Append a record, cells as text by column, and wait until it is on the disk."""
        self._append([columns.get(name, "") for name in COLUMNS])
        self.done[self._identity(columns)] = columns["latency_us"]

    def _append(self, cells: list[str]) -> None:
        """Write a line and wait until it is on the disk; a part of it is cut away again.

        Raises:
            InputError: the disk is full, or refuses otherwise.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        left = memoryview(text.getvalue().encode())
        before = self._file.seek(0, os.SEEK_END)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            more = "the records in it are whole, and the same command goes on with them"
            raise InputError(f"cannot write {self.path}: {error.strerror or error}; {more}") from None
        finally:
            if left:
                self._file.truncate(before)

    def close(self) -> None:
        """Close the file, so that another run can write to it."""
        self._file.close()


def _lock(descriptor: int, path: Path) -> None:
    try:
        files.lock(descriptor)
    except BlockingIOError:
        msg = f"{path}: another run is writing to it; wait for it, or name another folder"
        raise InputError(msg) from None
    except OSError:  # a file system without locks: two runs into one folder are the user's to avoid
        return
