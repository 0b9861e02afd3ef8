"""The lines of a log as the engine wrote them: without colours, without what a container runtime puts around them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from roofline import files

_CHUNK, _MOST_BYTES = 2**20, 2**31
_LONGEST = 2**18
"""Bytes of a line that are looked at: an engine's arguments take some 20 kB; a line of megabytes is none of its own."""
_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07)")
_KEYS = ("log", "message", "msg")
"""Under which containers' logs in JSON hold the line."""


@dataclass
class Lines:
    """The numbered lines of a file that hold one of some words. The file is read once and never held as a whole; its hash
    is known when all is read."""

    path: Path
    words: tuple[str, ...]
    sha256: str = ""
    cut: int = 0
    """Lines of which only the start was looked at."""
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        words = [word.encode() for word in self.words]
        first = 1
        for block in self._blocks():
            # a server's log is mostly of what came after its start: whole blocks are passed by
            if any(word in block for word in words):
                for number, raw in enumerate(block.split(b"\n"), first):
                    if any(word in raw for word in words):
                        self.cut += len(raw) > _LONGEST
                        yield number, _plain(raw[:_LONGEST].decode("utf-8", errors="replace"))
            first += block.count(b"\n") + 1
        self.sha256 = self._hash.hexdigest()

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines, about a chunk of them at a time, without the last end. Of a line that is longer than a chunk only
        the start is kept."""
        with files.open_input(self.path, _MOST_BYTES, "the log of an engine") as file:
            held, skipping = b"", False
            while chunk := file.read(_CHUNK):
                self._hash.update(chunk)
                whole, end, rest = chunk.rpartition(b"\n")
                if not end:
                    held, skipping = (held, True) if len(held) > _LONGEST else (held + chunk, skipping)
                    continue
                if skipping:
                    yield held
                    _, more, after = whole.partition(b"\n")
                    if more:
                        yield after
                    skipping = False
                else:
                    yield held + whole
                held = rest
            if held:
                yield held


def _plain(line: str) -> str:
    r"""A line without colours and without its wrapping.

    >>> _plain('{"log":"\\u001b[36mINFO\\u001b[0m ready\\n","stream":"stderr"}')
    'INFO ready'
    """
    if line.startswith("{"):
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict):
            line = next((data[key] for key in _KEYS if isinstance(data.get(key), str)), line)
    return _COLOUR.sub("", line).strip()
