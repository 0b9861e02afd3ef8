"""A sweep as a folder: parts in Parquet, and a manifest that says what they are.

A part is written beside its place and then renamed, so that every part that is there is whole; it names the question that it
answers. So a sweep that was stopped, however, goes on where it was, and gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.documents import migrated
from roofline.errors import InputError, MissingExtraError, SpecError
from roofline.predict.sweeps.evaluate import MOST_ROWS, Evaluated, Refused, check_any, refusals
from roofline.predict.sweeps.spec import Part, Sweep

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "_manifest.json"
"""Readers of folders of Parquet pass over names that begin so."""
_MOST_BYTES, _MOST_PART_BYTES = 2**28, 2**40
_OURS = b"roofline.part"
_NAMED = {
    "schema_version": "written by another version",
    "tool_version": "written by another version",
    "data_version": "written with other data files",
    "inputs": "written when its model or hardware files were different",
    "grid": "of another grid",
    "columns": "with other columns",
    "part_rows": "in parts of another size",
    "ignore_capacity": "with another --ignore-capacity",
    "reduce": "reduced in another way",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A part as Parquet bytes, as it is sent to the process that writes it; counts are of points."""

    index: int
    data: bytes
    points: int
    refused: int


def encode(sweep: Sweep, part: Part, evaluated: Evaluated) -> Written:
    """Return a part as Parquet, with what was refused in its metadata.

    Raises:
        MissingExtraError: PyArrow is not installed.
    """
    pa, pq = arrow()
    refused = refusals(evaluated.refused)
    about = {"sweep": sweep.digest, "part": part.index, "points": evaluated.points, "refused": refused}
    table = pa.Table.from_pandas(evaluated.frame, preserve_index=False) if len(evaluated.frame.columns) else pa.table({})
    table = table.replace_schema_metadata({_OURS: json.dumps(about, default=str)})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", write_statistics=True)
    return Written(part.index, sink.getvalue(), evaluated.points, sum(entry.points for entry in evaluated.refused))


def decode(written: Written) -> Evaluated:
    """Return the part that `encode` made bytes of.

    Raises:
        MissingExtraError: PyArrow is not installed.
    """
    pa, pq = arrow()
    table = pq.read_table(pa.BufferReader(written.data))
    about = json.loads(table.schema.metadata[_OURS])
    refused = tuple(Refused(entry["points"], entry["configuration"], entry["why"]) for entry in about["refused"])
    return Evaluated(table.to_pandas(), about["points"], refused)


def arrow() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        MissingExtraError: PyArrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("writing Parquet", "parquet") from None
    return pa, pq


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a sweep's parts."""

    path: Path
    sweep: Sweep

    def prepare(self) -> None:
        """Make the folder and its manifest, or make sure that what is there belongs to this sweep.

        Raises:
            InputError: a folder that holds something else, that cannot be made or written.
        """
        manifest = self.path / MANIFEST
        if files.exists(self.path) and not files.is_folder(self.path):
            raise InputError(f"{self.path} is a file; parts are written into a folder")
        if files.exists(manifest):
            self._check(manifest)
            return
        if files.exists(self.path) and any(self.path.iterdir()):
            raise InputError(f"{self.path} is not empty and has no {MANIFEST}: name a folder of the sweep's own")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {self.path}: {error.strerror}") from None
        self._write(manifest, self._manifest(complete=False, parts=[], refused=[]))

    def _check(self, manifest: Path) -> None:
        wanted = self.sweep.describe()
        try:
            written = json.loads(_text(manifest))
            given = written["sweep"]
        except (ValueError, KeyError, TypeError, SpecError):
            raise InputError(f"{manifest} is no manifest of a sweep: name another folder") from None
        wanted = {"grid": wanted["grid"], **wanted}  # of several differences the one that was most likely meant
        for name, value in json.loads(json.dumps(wanted)).items():
            if given.get(name) != value:
                what = _NAMED.get(name, f"with another {name}")
                more = _differing(given.get(name), value)
                raise InputError(f"{self.path} holds a sweep {what}{more}: name another folder, or remove this one")

    def _manifest(self, *, complete: bool, parts: list[dict[str, Any]], refused: list[dict[str, object]]) -> bytes:
        manifest = {
            "kind": "sweep",
            "complete": complete,
            "digest": self.sweep.digest,
            "sweep": self.sweep.describe(),
            "points": self.sweep.points,
            "rows": sum(part["rows"] for part in parts),
            "parts": parts,
            "refused": refused,
        }
        return (json.dumps(manifest, indent=1, default=str) + "\n").encode()

    def _write(self, path: Path, data: bytes) -> None:
        try:
            files.write_whole(path, data)
        except InputError as error:
            more = "the parts that are there are whole, and the same command goes on with them"
            raise InputError(f"{error}; {more}") from None

    def place(self, index: int) -> Path:
        """Return the path of a part."""
        return self.path / f"part-{index:06}.parquet"

    def missing(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Return the parts that are not written yet."""
        return (part for part in parts if self._about(part.index) is None)

    def _about(self, index: int) -> dict[str, Any] | None:
        """What a part says of itself; None where it is not there, or not ours."""
        path = self.place(index)
        if not files.exists(path):
            return None
        _, pq = arrow()
        try:
            with _part(path) as file:
                about: dict[str, Any] = json.loads(pq.read_schema(file).metadata[_OURS])
        except (SpecError, ValueError, KeyError, TypeError):
            return None  # it is written again
        return about if about.get("sweep") == self.sweep.digest and about.get("part") == index else None

    def put(self, written: Written) -> None:
        """Write a part.

        Raises:
            InputError: it cannot be written.
        """
        self._write(self.place(written.index), written.data)

    def finish(self, count: int) -> dict[str, Any]:
        """Write the manifest of all parts, and return it.

        Args:
            count: number of parts.

        Raises:
            InputError: a part is missing or was changed, or no point of the sweep can be.
        """
        _, pq = arrow()
        parts, refused = [], []
        for index in range(count):
            path, about = self.place(index), self._about(index)
            if about is None:
                raise InputError(f"{path} was there and is gone, or was changed: run the same command again")
            with _part(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                rows = pq.read_metadata(file).num_rows
            parts.append({"file": path.name, "rows": rows, "points": about["points"], "sha256": digest})
            refused += [Refused(entry["points"], entry["configuration"], entry["why"]) for entry in about["refused"]]
        listed = refusals(refused)
        check_any(self.sweep, listed)
        files.remove_stale(self.path, "part-*.parquet")
        files.remove_stale(self.path, MANIFEST)
        data = self._manifest(complete=True, parts=parts, refused=listed)
        self._write(self.path / MANIFEST, data)
        manifest: dict[str, Any] = json.loads(data)
        return manifest


def _text(manifest: Path) -> str:
    """A manifest, which the sweep goes on with, and writes again."""
    return files.read_text(manifest, _MOST_BYTES, "the manifest of a sweep", is_input=False)


def _part(path: Path) -> AbstractContextManager[io.BufferedReader]:
    """A part, likewise."""
    return files.open_input(path, _MOST_PART_BYTES, "a part of a sweep", is_input=False)


def _differing(old: Any, new: Any) -> str:
    """The first axis in which two grids differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*new, *old]:
            if old.get(name) != new.get(name):
                return f" ({name})"
    return ""


def read(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a folder, and its manifest.

    Raises:
        InputError: no manifest, a sweep that is not complete, more rows than one table holds, parts that cannot be read.
        MissingExtraError: PyArrow is not installed.
    """
    try:
        manifest = json.loads(_text(path / MANIFEST))
        parts, complete = manifest["parts"], manifest["complete"]
    except (SpecError, ValueError, KeyError, TypeError):
        raise InputError(f"{path} holds no sweep: there is no {MANIFEST} that can be read") from None
    migrated(manifest.get("sweep"), path / MANIFEST)
    if not complete:
        raise InputError(f"the sweep in {path} is not complete: run the command that began it again")
    pa, _ = arrow()
    tables: list[Any] = []
    try:
        if not all(isinstance(part["file"], str) and Path(part["file"]).name == part["file"] for part in parts):
            raise InputError(f"{path / MANIFEST}: `file` of each part must be the name of a file in this folder")
        if (rows := sum(int(part["rows"]) for part in parts)) > MOST_ROWS:
            more = (
                f"more than the {MOST_ROWS:,} that one table holds: reduce the sweep (--reduce), or read its parts one by one"
            )
            raise InputError(f"the sweep in {path} has {rows:,} rows, {more}")
        for part in parts:
            with _part(path / part["file"]) as file:
                tables.append(files.read_parquet(file, path / part["file"], max_rows=int(part["rows"])))
    except SpecError as error:
        raise InputError(f"a part of the sweep in {path} cannot be read: {error}") from None
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path / MANIFEST}: each part must have `file`, a name, and `rows`, a number") from None
    some = [table for table in tables if table.num_rows]
    whole = pa.concat_tables(some, promote_options="permissive").unify_dictionaries() if some else pa.table({})
    return whole.to_pandas(), manifest
