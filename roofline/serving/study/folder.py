"""A study as a folder: a file per finished run, and a manifest that says of what study they are.

A file is written beside its place and then renamed, so that every run that is there is whole. So a study that was stopped,
however, goes on where it was, and gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline import files
from roofline.documents import dump_json, migrated
from roofline.errors import InputError, SpecError
from roofline.serving.study.spec import Point, Study

MANIFEST, RESULT, RUNS = "_manifest.json", "study.json", "runs"
_MAX_BYTES = 2**28
_NAMED = {
    "schema_version": "written by another version",
    "tool_version": "written by another version",
    "data_version": "written with other data files",
    "inputs": "written when its files were different",
    "options": "with other options",
    "policies": "of other policies",
    "deployments": "of other deployments",
    "rates": "of other rates",
    "seeds": "of other seeds",
    "price": "with other prices",
}


def is_study_folder(path: Path) -> bool:
    """Return whether a folder holds a study."""
    manifest = path / MANIFEST
    if not files.exists(manifest):
        return False
    try:
        return bool(json.loads(_text(manifest)).get("kind") == "study")
    except (ValueError, AttributeError, SpecError):
        return False


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a study's runs."""

    path: Path
    study: Study

    def prepare(self) -> None:
        """Make the folder and its manifest, or make sure that what is there belongs to this study.

        Raises:
            InputError: a folder that holds something else, or another study; that cannot be made or written.
        """
        if files.exists(self.path) and not files.is_folder(self.path):
            raise InputError(f"{self.path} is a file; the runs of a study are written into a folder")
        manifest = self.path / MANIFEST
        if files.exists(manifest):
            self._check(manifest)
        elif files.exists(self.path) and any(self.path.iterdir()):
            raise InputError(f"{self.path} is not empty and has no {MANIFEST}: name a folder of the study's own")
        try:
            (self.path / RUNS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {self.path}: {error.strerror}") from None
        if not files.exists(manifest):
            content = {"kind": "study", "digest": self.study.digest, "study": self.study.describe()}
            self.write(MANIFEST, dump_json(content) + "\n")

    def _check(self, manifest: Path) -> None:
        try:
            content = json.loads(_text(manifest))
            kind, written = content["kind"], content["study"]
        except (ValueError, KeyError, TypeError, SpecError):
            kind, written = "", {}
        if kind != "study" or not isinstance(written, dict):
            raise InputError(f"{manifest} is no manifest of a study: name another folder") from None
        wanted = self.study.describe()
        # of several differences the one that was most likely meant
        for name in ("policies", "deployments", "rates", "seeds", "options", "price", *wanted):
            if written.get(name) != wanted.get(name):
                what, where = _NAMED.get(name, f"with another {name}"), _difference(name, written.get(name), wanted.get(name))
                raise InputError(f"{self.path} holds a study {what} ({where}): name another folder, or remove this one")

    def place(self, index: int) -> Path:
        """Return the path of a run."""
        return self.path / RUNS / f"{index:06}.json"

    def finished(self, points: Iterable[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
        """Yield every point with its run; None where that is not there, or not whole."""
        for point in points:
            yield point, self._read(point)

    def _read(self, point: Point) -> dict[str, Any] | None:
        path = self.place(point.index)
        if not files.exists(path):
            return None
        try:
            run = json.loads(_text(path))
        except (ValueError, SpecError):
            return None  # it is run again
        ours = isinstance(run, dict) and run.get("study") == self.study.digest and run.get("index") == point.index
        return run if ours else None

    def put(self, index: int, text: str) -> None:
        """Write a run.

        Raises:
            InputError: it cannot be written.
        """
        self.write(f"{RUNS}/{index:06}.json", text)

    def write(self, name: str, content: str) -> None:
        """Write a file of the folder, whole or not at all.

        Raises:
            InputError: it cannot be written.
        """
        try:
            files.write_whole(self.path / name, content.encode())
        except InputError as error:
            raise InputError(f"{error}; runs that are there are whole, and the same command goes on with them") from None

    def tidy(self) -> None:
        """Remove what a process that was killed while it wrote has left."""
        files.remove_stale(self.path / RUNS, "*.json")
        files.remove_stale(self.path, "*")


def load_result(path: Path) -> dict[str, Any]:
    """Return the result in a folder, as plain data.

    Raises:
        InputError: no study, or one that is not finished.
    """
    if not is_study_folder(path):
        raise InputError(f"{path} holds no study: there is no {MANIFEST} of one")
    if not files.exists(path / RESULT):
        raise InputError(f"the study in {path} is not finished: run the command that began it again")
    try:
        content = json.loads(_text(path / RESULT))
    except (ValueError, SpecError) as error:
        raise InputError(f"{path / RESULT} cannot be read: {error}") from None
    result: dict[str, Any] = migrated(content, path / RESULT)
    return result


def _text(path: Path) -> str:
    """A file that a study goes on with, and writes again."""
    return files.read_text(path, _MAX_BYTES, "a file of a study", is_input=False)


def _difference(where: str, old: Any, new: Any) -> str:
    """The first place in which two values differ, with both."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*new, *old]:
            if name not in old:
                return f"{where}.{name} is new"
            if name not in new:
                return f"{where}.{name} is gone"
            if old[name] != new[name]:
                return _difference(f"{where}.{name}", old[name], new[name])
    return f"{where}: {_short(old)} there, {_short(new)} here"


def _short(value: Any) -> str:
    return json.dumps(value)[:60]
