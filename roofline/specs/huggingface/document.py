"""A JSON file with the line and column of every key, so that an error can say where it is."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline import files
from roofline.errors import SpecError

MAX_BYTES, MAX_DEPTH = 2**23, 40

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON file: its path, content and text."""

    path: Path | str
    data: dict[str, Any]
    text: str

    @property
    def sha256(self) -> str:
        """The SHA-256 hash of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def error(self, place: Place, message: str) -> SpecError:
        """An error at the line and column of a key, or of the nearest object around it that is in the file.

        Args:
            place: keys and list indices that lead to it, from the outside.
            message: what is wrong.
        """
        marks = _marks(self.text)
        line, column = next((marks[place[:n]] for n in range(len(place), -1, -1) if place[:n] in marks), (1, 1))
        return SpecError(message, path=self.path, line=line, column=column)


def read_json(path: Path, limit: int = MAX_BYTES) -> Document:
    """The content of a file that holds one JSON object. `Infinity` and `NaN` are read as Python writes them.

    Args:
        path: of the file.
        limit: bytes; a larger file is refused.

    Raises:
        SpecError: the file cannot be read, is too large, is not JSON, has a key twice in one object, or holds no object.
    """
    return parse_json(files.read_text(path, limit, "a JSON file", encoding="utf-8-sig"), path)


def parse_json(text: str, path: Path | str) -> Document:
    """The content of a text that holds one JSON object.

    Args:
        text: of the file.
        path: of the file, for messages.

    Raises:
        SpecError: the text is not JSON, has a key twice in one object, or holds no object.
    """
    try:
        data = json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise SpecError(f"not valid JSON: {error.msg}", path=path, line=error.lineno, column=error.colno) from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not valid JSON: {error}", path=path) from None
    if not isinstance(data, dict):
        raise SpecError("must hold one JSON object with keys and values", path=path)
    return Document(path, data, text)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        msg = f"key {twice!r} stands twice in one object"
        raise ValueError(msg)
    return data


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')


def _marks(text: str) -> dict[Place, tuple[int, int]]:
    """Line and column of every key and list entry of a text that is valid JSON."""
    marks: dict[Place, tuple[int, int]] = {(): (1, 1)}
    path: list[str | int] = []
    inside: list[str] = []
    waiting, line, start = False, 1, 0  # waiting: the next string is a key
    for token in _TOKEN.finditer(text):
        line += text.count("\n", start, token.start())
        start = token.start()
        piece = token.group()
        if piece in "{[":
            inside.append(piece)
            path.append(0 if piece == "[" else "")
            waiting = piece == "{"
        elif piece in "}]":
            inside.pop()
            path.pop()
            waiting = False
        elif piece == "," and inside:
            waiting = inside[-1] == "{"
            if not waiting:
                path[-1] = int(path[-1]) + 1
        elif waiting and piece != ":":
            path[-1] = str(json.loads(piece))
            marks[tuple(path)] = line, start - text.rfind("\n", 0, start)
            waiting = False
    return marks
