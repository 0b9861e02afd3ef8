"""An engine's log: memory, cache and arguments of its last start, whatever is around the lines."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from roofline import files
from roofline.audit.engine_logs.log_formats import (
    ARGUMENTS,
    CAPACITY,
    LOG_FORMATS,
    MAX_OVER_RANKS,
    MIN_OVER_RANKS,
    LinePattern,
    LogFormat,
    parse_line,
)
from roofline.errors import InputError
from roofline.formatting import plural

_RANK = re.compile(r"\(((?:EngineCore|Worker|VllmWorker)[^)]*)\)|\[[^\]]*?\b((?:DP\d+ )?(?:PP\d+ )?TP\d+)\b[^\]]*\]")


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """A number (in base units) or a name in a log, and the number of its line."""

    value: float | str
    line: int


@dataclass(frozen=True, slots=True)
class EngineLog:
    """What one start of an engine printed.

    Attributes:
        path: of the log.
        sha256: of the log, in hex.
        format: the format that its lines fit best.
        facts: what the lines measured, by name: bytes, tokens, blocks, and names such as the version.
        arguments: of the engine, as text, under our names.
        notes: on what was ignored.
    """

    path: Path
    sha256: str
    format: LogFormat
    facts: dict[str, LoggedValue]
    arguments: dict[str, LoggedValue]
    notes: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """`vllm`, `sglang`, `trtllm` or `llama.cpp`."""
        return self.format.engine

    @property
    def version(self) -> str | None:
        """Version of the engine as printed; None where the log does not name it."""
        return self.text("version")

    @property
    def release(self) -> tuple[int, ...] | None:
        """The version as numbers that can be compared, such as (0, 9, 2); None where it is not known."""
        return None if self.version is None else _version(self.version)

    def text(self, name: str) -> str | None:
        """The text of a fact; None where the log does not have it."""
        fact = self.facts.get(name)
        return None if fact is None else str(fact.value)

    def number(self, name: str) -> float | None:
        """The value of a fact that is a number, in base units (bytes, tokens, blocks); None where the log does not have it."""
        fact = self.facts.get(name)
        return float(fact.value) if fact is not None and not isinstance(fact.value, str) else None

    def argument(self, name: str) -> str | None:
        """The text of an argument under our name for it; None where the log does not print it."""
        argument = self.arguments.get(name)
        return None if argument is None else str(argument.value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data under `engine_log` in `roofline compare --json`: every fact and argument with its line."""
        return {
            "path": str(self.path),
            "engine": self.engine,
            "version": self.version,
            "format": self.format.title,
            "facts": {name: {"value": fact.value, "line": fact.line} for name, fact in self.facts.items()},
            "arguments": {name: {"value": fact.value, "line": fact.line} for name, fact in self.arguments.items()},
            "notes": list(self.notes),
        }


@dataclass
class _Start:
    """The lines of one start so far: facts with the rank that printed them, and lines of arguments."""

    first: int
    hits: list[tuple[LinePattern, int, str, dict[str, float | str]]] = field(default_factory=list)
    settings: list[tuple[str, int, str]] = field(default_factory=list)
    begun: set[tuple[str, str]] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return any(name in self.seen for name in CAPACITY)


def read(path: str | Path) -> EngineLog:
    """Read the last start in a log that got as far as its KV cache; without one, the last that printed anything.

    Raises:
        SpecError: no such file, or one of more than 2 GiB.
        InputError: no start-up lines of a known format; the message lists the formats.
    """
    known = list(dict.fromkeys(line for form in LOG_FORMATS.values() for line in form.lines))
    begins = tuple(dict.fromkeys(needle for form in LOG_FORMATS.values() for needle in form.start))
    settings = tuple(dict.fromkeys(needle for form in LOG_FORMATS.values() for needle in form.settings))
    needles = tuple(dict.fromkeys([*begins, *settings, *(line.needle for line in known)]))
    lines = LogLines(Path(path), needles)
    starts = [_Start(1)]
    for number, text in lines:
        rank = _rank(text)
        for needle in begins:
            if needle in text:
                if starts[-1].complete or (needle, rank) in starts[-1].begun:
                    starts.append(_Start(number))
                starts[-1].begun.add((needle, rank))
        start = starts[-1]
        start.settings += [(needle, number, text) for needle in settings if needle in text]
        for line in known:
            if line.needle in text and (values := parse_line(line, text)):
                start.hits.append((line, number, rank, values))
                start.seen |= values.keys()
    return _best(lines, starts)


def _rank(text: str) -> str:
    match = _RANK.search(text)
    return "" if match is None else re.sub(r"\s*pid=\d+", "", match[1] or match[2])


def _best(lines: LogLines, starts: list[_Start]) -> EngineLog:
    """The last complete start, else the last that says anything, in the format that it says most in."""
    informative = [start for start in starts if start.seen - (ARGUMENTS | {"version", "device_name", "context", "kv_unified"})]
    if not informative:
        raise InputError(_nothing(lines.path, starts))
    start = next((start for start in reversed(informative) if start.complete), informative[-1])
    version = next((_version(str(values["version"])) for *_, values in start.hits if "version" in values), ())
    form = max(
        LOG_FORMATS.values(),
        key=lambda form: (_fact_count(form, start), form.covers(version) * form.since[1], -len(form.lines)),
    )
    known, ranks = _facts(form, start)
    notes = []
    begun = [entry for entry in starts if entry.begun or entry.seen]
    if len(begun) > 1:
        which = "last" if start is begun[-1] else "last that got as far as its cache"
        notes.append(f"the log holds {len(begun)} starts; the {which}, from line {start.first}, is taken")
    if ranks > 1:
        notes.append(f"{ranks} ranks report: least free memory and KV cache, most memory in use")
    if lines.cut:
        notes.append(f"{plural(lines.cut, 'line')} of more than 256 KiB: only the start was looked at")
    if absent := _absent(form, known):
        notes.append(f"the log was cut, or the start failed: there is no line with {absent}, and nothing to compare with it")
    return EngineLog(lines.path, lines.sha256, form, known, _arguments(form, start), tuple(notes))


def _absent(form: LogFormat, known: dict[str, LoggedValue]) -> str:
    """The needles of lines that a whole start has and this one has not."""
    missing = [name for name in form.expects if name not in known]
    needles = dict.fromkeys(next(line.needle.strip() for line in form.lines if line.has(name)) for name in missing)
    return " or ".join(f'"{needle}"' for needle in needles)


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a release.

    >>> _version("0.19.2rc1.dev8+g4b7f5ea1a"), _version("0.8.5")
    ((0, 19, 2), (0, 8, 5))
    """
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"(?<=\d)[a-z+]|\.dev", text)[0])[:3])


def _nothing(path: Path, starts: list[_Start]) -> str:
    listed = ", ".join(form.title for form in LOG_FORMATS.values())
    if any(start.begun for start in starts):
        return (
            f"{path}: an engine starts here, but none of its lines about memory or cache is there: "
            "the start failed before them, or the log level hides them (they are of level INFO)"
        )
    return f"{path}: no start-up lines of vLLM, SGLang, TensorRT-LLM or llama.cpp in it. Known formats: {listed}."


def _fact_count(form: LogFormat, start: _Start) -> int:
    """Number of facts that a format reads out of a start."""
    own = set(form.lines)
    return len({name for line, _, _, values in start.hits if line in own for name in values})


def _facts(form: LogFormat, start: _Start) -> tuple[dict[str, LoggedValue], int]:
    """Facts over all ranks, and how many ranks there are."""
    own = set(form.lines)
    by_rank: dict[tuple[str, str], LoggedValue] = {}
    for line, number, rank, values in start.hits:
        if line not in own:
            continue
        for name, value in values.items():
            held = by_rank.get((name, rank))
            if held is None:
                by_rank[name, rank] = LoggedValue(value, number)
            elif name in form.repeated:
                by_rank[name, rank] = _repeated(form.repeated[name], held, LoggedValue(value, number))
            elif name in CAPACITY and float(value) < float(held.value):
                by_rank[name, rank] = LoggedValue(value, number)
    whole: dict[str, LoggedValue] = {}
    for (name, _), fact in by_rank.items():
        held = whole.get(name)
        if held is None:
            whole[name] = fact
        elif name in MIN_OVER_RANKS | MAX_OVER_RANKS:
            pick = min if name in MIN_OVER_RANKS else max
            whole[name] = pick(held, fact, key=lambda entry: float(entry.value))
    counts = [sum(other == name for other, _ in by_rank) for name in MIN_OVER_RANKS | MAX_OVER_RANKS]
    return whole, max(counts, default=0)


def _repeated(counts: str, held: LoggedValue, other: LoggedValue) -> LoggedValue:
    """What counts of a fact that stands in two lines (`LogFormat.repeated`)."""
    if counts == "sum":
        return LoggedValue(float(held.value) + float(other.value), held.line)
    return other if counts == "last" else max(held, other, key=lambda entry: float(entry.value))


def _arguments(form: LogFormat, start: _Start) -> dict[str, LoggedValue]:
    """Arguments, the most trusted line first; a number that a line of its own gives fills a gap."""
    known: dict[str, LoggedValue] = {}
    for needle in form.settings:
        for wanted, number, text in start.settings:
            if wanted == needle:
                tail = text[text.index(needle) :]
                for name, value in arguments(tail, form.names).items():
                    known.setdefault(name, LoggedValue(value, number))
    for line, number, _, facts_of_line in start.hits:
        for name in ARGUMENTS & facts_of_line.keys() if line in form.lines else ():
            fact = facts_of_line[name]
            text = fact if isinstance(fact, str) else f"{fact:.0f}"
            if form.repeated.get(name) == "last":
                known[name] = LoggedValue(text, number)
            else:
                known.setdefault(name, LoggedValue(text, number))
    return known


# Lines of a log.

_CHUNK_BYTES, _MAX_BYTES = 2**20, 2**31
_MAX_LINE_BYTES = 2**18
"""Bytes of a line that are looked at: an engine's arguments take some 20 kB; a line of megabytes is none of its own."""
_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07)")
_LINE_KEYS = ("log", "message", "msg")
"""Under which containers' logs in JSON hold the line."""


@dataclass
class LogLines:
    """Iterates over (line number, text) of the lines of a file that hold one of some words.

    Lines come without colours and without the JSON that a container runtime puts around them. The file is read once and never
    held as a whole.

    Attributes:
        path: of the file.
        words: case-sensitive.
        sha256: of the file, in hex; empty until the last line has been read.
        cut: number of lines so far of which only the first 256 KiB were looked at.
    """

    path: Path
    words: tuple[str, ...]
    sha256: str = ""
    cut: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        words = [word.encode() for word in self.words]
        first = 1
        for block in self._blocks():
            # a server's log is mostly of what came after its start: whole blocks are passed by
            if any(word in block for word in words):
                for number, raw in enumerate(block.split(b"\n"), first):
                    if any(word in raw for word in words):
                        self.cut += len(raw) > _MAX_LINE_BYTES
                        yield number, _plain(raw[:_MAX_LINE_BYTES].decode("utf-8", errors="replace"))
            first += block.count(b"\n") + 1
        self.sha256 = self._hash.hexdigest()

    def _blocks(self) -> Iterator[bytes]:
        """Whole lines, about a chunk of them at a time, without the last end. Of a line that is longer than a chunk only
        the start is returned."""
        with files.open_input(self.path, _MAX_BYTES, "the log of an engine") as file:
            pending, skipping = b"", False
            while chunk := file.read(_CHUNK_BYTES):
                self._hash.update(chunk)
                whole, end, rest = chunk.rpartition(b"\n")
                if not end:
                    pending, skipping = (pending, True) if len(pending) > _MAX_LINE_BYTES else (pending + chunk, skipping)
                    continue
                if skipping:
                    yield pending
                    _, more, after = whole.partition(b"\n")
                    if more:
                        yield after
                    skipping = False
                else:
                    yield pending + whole
                pending = rest
            if pending:
                yield pending


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
            line = next((data[key] for key in _LINE_KEYS if isinstance(data.get(key), str)), line)
    return _COLOUR.sub("", line).strip()


# Arguments in the line in which an engine prints them.

_NO_VALUE = ("None", "null", "")


def arguments(line: str, names: dict[str, str]) -> dict[str, str]:
    """The arguments that a line prints, as text by our names (`names`: the engine's name to ours).

    Engines print them as `name=value` (of a data class, a namespace) or as `'name': value` (of a dict). Of a name that is
    printed more than once the first value counts: nested settings of a draft model come later. None values are left out.

    >>> arguments("config: model='org/a', dtype=torch.bfloat16, seed=None)", {"model": "model", "dtype": "dtype", "seed": "s"})
    {'model': 'org/a', 'dtype': 'torch.bfloat16'}
    >>> arguments("{'model': 'org/a', 'max_num_seqs': 64}", {"max_num_seqs": "max_num_seqs"})
    {'max_num_seqs': '64'}
    """
    values: dict[str, str] = {}
    for name, ours in names.items():
        match = _argument_pattern(name).search(line)
        if match is None or ours in values:
            continue
        value = next(group for group in match.groups() if group is not None).strip()
        if value not in _NO_VALUE:
            values[ours] = value
    return values


@cache
def _argument_pattern(name: str) -> re.Pattern[str]:
    value = r"""(?:'([^']*)'|"([^"]*)"|([^,\s)}\]]+))"""
    return re.compile(rf"""(?<![\w'"-])(?:['"]{name}['"]\s*:|{name}\s*=)\s*{value}""")


def flag(value: str | None) -> bool:
    """Whether the text of an argument is `true` or `1`, in any case; False for None."""
    return value is not None and value.lower() in ("true", "1")
