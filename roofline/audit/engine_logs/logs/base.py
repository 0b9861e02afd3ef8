"""What a format of start-up lines is: patterns whose groups are named after the facts that they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

GIB = 2**30

LEAST = frozenset({"available_kv_bytes", "kv_tokens", "kv_blocks", "begin_bytes", "end_bytes", "total_bytes"})
"""Facts of which the least of all ranks counts: the cache is as large as the rank with least room allows."""
MOST = frozenset({"weights_bytes", "peak_bytes", "non_torch_bytes", "graph_bytes", "consumed_bytes"})
"""Facts of which the most of all ranks counts. Of all others the first line does."""
TEXTS = frozenset({"version", "device_name"})
CAPACITY = ("kv_tokens", "kv_blocks", "available_kv_bytes")
"""What says that a start got as far as its cache."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that tells something: `needle` is in each such line, `pattern` has a group a fact.

    Facts that end in `_bytes` are printed in GiB, whatever the line calls them (SGLang and older vLLM write GB).
    """

    needle: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The start-up lines of an engine over some versions.

    `settings` are the needles of lines that print arguments, the most trusted first, and `names` the engine's names of
    those that matter, with ours; `start` are the needles of lines with which a start begins.
    """

    engine: str
    versions: str
    since: tuple[int, ...]
    """The first version that prints so."""
    source: str
    lines: tuple[Line, ...]
    start: tuple[str, ...]
    settings: tuple[str, ...]
    expects: tuple[str, ...] = ()
    """Facts that every whole start prints: a log without them was cut, or failed on its way."""
    names: dict[str, str] = field(default_factory=dict)

    def covers(self, version: tuple[int, ...]) -> bool:
        """Whether a version of the engine is not older than this format."""
        return version >= self.since

    @property
    def title(self) -> str:
        """The name that messages use."""
        return f"{self.engine} {self.versions}"


def facts(line: Line, text: str) -> dict[str, float | str]:
    r"""What a line says, in bytes and counts; nothing where it only looks alike.

    >>> facts(Line("Available KV", r"Available KV cache memory: (?P<available_kv_bytes>-?[\d.]+) GiB"),
    ...       "INFO Available KV cache memory: 5.50 GiB")
    {'available_kv_bytes': 5905580032.0}
    """
    match = re.search(line.pattern, text)
    found: dict[str, float | str] = {}
    for name, value in (match.groupdict() if match else {}).items():
        if value is None:
            continue
        if name in TEXTS:
            found[name] = value
            continue
        try:
            number = float(value.replace(",", "").rstrip("."))
        except ValueError:
            continue
        found[name] = number * GIB if name.endswith("_bytes") else number
    return found
