"""Translated programs in the user's cache folder: translating takes longer than all else that a page is made of.

An entry is named by a hash of every source of this package, of the runtime and of what runs them. So a changed line, another
Python or another release never reads an old translation. Where operators or schedulers of other packages are installed,
nothing is kept: their sources have no part in the hash. A folder that is absent, full or read-only costs time, nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from roofline import files
from roofline.errors import RooflineError
from roofline.formulas.javascript.program import Program
from roofline.formulas.javascript.values import Encoder

T = TypeVar("T")
_HOME = Path(__file__).resolve().parents[2]
_MAX_BYTES = 16 * 2**20
_MAX_ENTRIES = 24
"""Older ones are deleted: each release and each edited checkout leaves some."""
_DIGEST = 32
_LOADED: dict[str, Translation] = {}


class NotTranslatedError(LookupError):
    """A class or a function is not part of a translation."""


@dataclass(frozen=True, slots=True)
class Translation:
    """A program that has been translated.

    Args:
        script: as of `Program.source`.
        names: what classes and functions of the script are called there, by `module:qualname`, as far as data may name them.
    """

    script: str
    names: Mapping[str, str]

    def refer(self, value: Any) -> str:
        """Return the name of a class or function in the script.

        Raises:
            NotTranslatedError: the script does not have it.
        """
        try:
            return self.names[_key(value)]
        except KeyError:
            raise NotTranslatedError(_key(value)) from None

    def constant(self, value: object) -> str:
        """Objects that hold functions are part of a program alone."""
        raise NotTranslatedError(repr(value))

    def encode(self, value: Any) -> Any:
        """Data as JSON that the runtime's `revive` makes into what it is.

        Raises:
            NotTranslatedError: it has a class or a function that the script lacks.
        """
        return Encoder(self).encode(value)


def translated(make: Callable[[], Program], data: Callable[[Program | Translation], T]) -> tuple[str, T]:
    """Return the script of a program, and data for it.

    Args:
        make: makes the program: a function of this package without arguments, whose result depends on sources alone.
        data: encodes what the page holds with the `encode` of its argument. It may be called twice.

    Raises:
        TypeError: Python that cannot be translated, or data that JavaScript does not have.
    """
    base = _base(make)
    with suppress(NotTranslatedError):
        return base.script, data(base)
    program = make()
    program.source()  # what all pages have gets its names first
    encoded = data(program)
    return program.source(), encoded


def _base(make: Callable[[], Program]) -> Translation:
    name = f"{make.__module__}.{make.__qualname__}"
    if name not in _LOADED:
        path = _path(name)
        _LOADED[name] = (path and _read(path)) or _translate(make, path)
    return _LOADED[name]


def _translate(make: Callable[[], Program], path: Path | None) -> Translation:
    program = make()
    script = program.source()
    made = Translation(script, {_key(value): name for value, name in program.named()})
    if path is not None:
        _write(path, made)
    return made


def _key(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


# Files


def _path(name: str) -> Path | None:
    """Where a translation is kept; None where it is not."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(home) if os.path.isabs(home) else Path.home() / ".cache"  # noqa: PTH117 - "" is no path
    except RuntimeError:  # no home
        return None
    if _extended():
        return None
    return folder / "roofline" / "javascript" / f"{name}-{_sources()[:_DIGEST]}"


def _extended() -> bool:
    """Whether another package adds something to this one."""
    from importlib.metadata import entry_points

    return any(group.startswith("roofline.") for group in entry_points().groups)


@cache
def _sources() -> str:
    """A hash of all that a translation is made from."""
    digest = sha256(f"{sys.version} pydantic {pydantic.VERSION}\n".encode())
    for path in sorted(path for path in _HOME.rglob("*") if path.suffix in (".py", ".js")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_HOME).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _read(path: Path) -> Translation | None:
    """A translation from its file; None where there is none that is whole."""
    try:
        packed = files.read_bytes(path, _MAX_BYTES, "a cached translation", is_input=False)
        if sha256(packed[_DIGEST:]).digest() != packed[:_DIGEST]:
            return None
        content = json.loads(zlib.decompress(packed[_DIGEST:]))
        return Translation(content["script"], content["names"])
    except (RooflineError, OSError, ValueError, KeyError, TypeError, zlib.error):
        return None


def _write(path: Path, made: Translation) -> None:
    """Keep a translation where that can be done."""
    packed = zlib.compress(json.dumps({"script": made.script, "names": dict(made.names)}).encode(), 1)
    with suppress(RooflineError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, sha256(packed).digest() + packed)
        entries = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for old in entries[_MAX_ENTRIES:]:
            old.unlink(missing_ok=True)
