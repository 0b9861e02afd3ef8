"""What an engine's log says about its start: memory, cache, and the arguments that it was started with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofline.audit.engine_logs.arguments import arguments
from roofline.audit.engine_logs.lines import Lines
from roofline.audit.engine_logs.logs import Format, formats
from roofline.audit.engine_logs.logs.base import CAPACITY, LEAST, MOST, Line, facts
from roofline.errors import InputError
from roofline.formatting import plural

_RANK = re.compile(r"\(((?:EngineCore|Worker|VllmWorker)[^)]*)\)|\[[^\]]*?\b((?:DP\d+ )?(?:PP\d+ )?TP\d+)\b[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Fact:
    """A number or a name out of a log, and the line that it stands on."""

    value: float | str
    line: int


@dataclass(frozen=True, slots=True)
class EngineLog:
    """One start of an engine. `arguments` are texts under our names; `notes` say what was passed over."""

    path: Path
    sha256: str
    format: Format
    facts: dict[str, Fact]
    arguments: dict[str, Fact]
    notes: tuple[str, ...] = ()

    @property
    def engine(self) -> str:
        """Vllm or sglang."""
        return self.format.engine

    @property
    def version(self) -> str | None:
        """The engine's own, where the log names it."""
        return self.text("version")

    @property
    def release(self) -> tuple[int, ...] | None:
        """The version as numbers that can be compared."""
        return None if self.version is None else _version(self.version)

    def text(self, name: str) -> str | None:
        """A name."""
        found = self.facts.get(name)
        return None if found is None else str(found.value)

    def number(self, name: str) -> float | None:
        """A number, in base units."""
        found = self.facts.get(name)
        return float(found.value) if found is not None and not isinstance(found.value, str) else None

    def argument(self, name: str) -> str | None:
        """An argument as it was printed; None where it was not."""
        found = self.arguments.get(name)
        return None if found is None else str(found.value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what was read, and where."""
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
    """What one start has said so far: each fact by rank, and the arguments by how much their line is trusted."""

    first: int
    hits: list[tuple[Line, int, str, dict[str, float | str]]] = field(default_factory=list)
    settings: list[tuple[str, int, str]] = field(default_factory=list)
    begun: set[tuple[str, str]] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return any(name in self.seen for name in CAPACITY)


def read(path: str | Path) -> EngineLog:
    """The last start in a log that got as far as its cache.

    Raises:
        InputError: no such file, or no start-up lines of an engine that is known; the message lists those that are.
    """
    known = list(dict.fromkeys(line for form in formats() for line in form.lines))
    begins = tuple(dict.fromkeys(needle for form in formats() for needle in form.start))
    settings = tuple(dict.fromkeys(needle for form in formats() for needle in form.settings))
    needles = tuple(dict.fromkeys([*begins, *settings, *(line.needle for line in known)]))
    lines = Lines(Path(path), needles)
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
            if line.needle in text and (found := facts(line, text)):
                start.hits.append((line, number, rank, found))
                start.seen |= found.keys()
    return _best(lines, starts)


def _rank(text: str) -> str:
    match = _RANK.search(text)
    return "" if match is None else re.sub(r"\s*pid=\d+", "", match[1] or match[2])


def _best(lines: Lines, starts: list[_Start]) -> EngineLog:
    """The last complete start, else the last that says anything, in the format that it says most in."""
    telling = [start for start in starts if start.seen - {"version", "device_name", "max_num_batched_tokens"}]
    if not telling:
        raise InputError(_nothing(lines.path, starts))
    start = next((start for start in reversed(telling) if start.complete), telling[-1])
    version = next((_version(str(found["version"])) for *_, found in start.hits if "version" in found), ())
    form = max(formats(), key=lambda form: (_told(form, start), form.covers(version) * form.since[1], -len(form.lines)))
    found, ranks = _facts(form, start)
    notes = []
    begun = [entry for entry in starts if entry.begun or entry.seen]
    if len(begun) > 1:
        which = "last" if start is begun[-1] else "last that got as far as its cache"
        notes.append(f"the log holds {len(begun)} starts; the {which}, from line {start.first}, is taken")
    if ranks > 1:
        notes.append(f"{ranks} ranks report: of free memory and of the cache the least is taken, of what is held the most")
    if lines.cut:
        notes.append(f"{plural(lines.cut, 'line')} of more than 256 KiB: only the start was looked at")
    if absent := _absent(form, found):
        notes.append(f"the log was cut, or the start failed: there is no line with {absent}, and nothing to compare with it")
    return EngineLog(lines.path, lines.sha256, form, found, _arguments(form, start), tuple(notes))


def _absent(form: Format, found: dict[str, Fact]) -> str:
    """What a whole start would have said and this one does not: the words of each line that is missing."""
    missing = [name for name in form.expects if name not in found]
    needles = dict.fromkeys(next(line.needle.strip() for line in form.lines if f"<{name}>" in line.pattern) for name in missing)
    return " or ".join(f'"{needle}"' for needle in needles)


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a release.

    >>> _version("0.19.2rc1.dev8+g4b7f5ea1a"), _version("0.8.5")
    ((0, 19, 2), (0, 8, 5))
    """
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"(?<=\d)[a-z+]|\.dev", text)[0])[:3])


def _nothing(path: Path, starts: list[_Start]) -> str:
    listed = ", ".join(form.title for form in formats())
    if any(start.begun for start in starts):
        return (
            f"{path}: an engine starts here, but none of its lines about memory or cache is there: "
            "the start failed before them, or the log level hides them (they are of level INFO)"
        )
    return f"{path}: no start-up lines of vLLM or SGLang in it. Known formats: {listed}."


def _told(form: Format, start: _Start) -> int:
    """How many facts a format reads out of a start."""
    own = set(form.lines)
    return len({name for line, _, _, found in start.hits if line in own for name in found})


def _facts(form: Format, start: _Start) -> tuple[dict[str, Fact], int]:
    """Facts over all ranks, and how many ranks there are."""
    own = set(form.lines)
    by_rank: dict[tuple[str, str], Fact] = {}
    for line, number, rank, found in start.hits:
        if line not in own:
            continue
        for name, value in found.items():
            held = by_rank.get((name, rank))
            if held is None or (name in CAPACITY and float(value) < float(held.value)):
                by_rank[name, rank] = Fact(value, number)
    whole: dict[str, Fact] = {}
    for (name, _), fact in by_rank.items():
        held = whole.get(name)
        if held is None:
            whole[name] = fact
        elif name in LEAST | MOST:
            pick = min if name in LEAST else max
            whole[name] = pick(held, fact, key=lambda entry: float(entry.value))
    counts = [sum(other == name for other, _ in by_rank) for name in LEAST | MOST]
    return whole, max(counts, default=0)


def _arguments(form: Format, start: _Start) -> dict[str, Fact]:
    """Arguments, the most trusted line first; a number that a line of its own gives fills a gap."""
    found: dict[str, Fact] = {}
    for needle in form.settings:
        for wanted, number, text in start.settings:
            if wanted == needle:
                tail = text[text.index(needle) :]
                for name, value in arguments(tail, form.names).items():
                    found.setdefault(name, Fact(value, number))
    for line, number, _, facts_of_line in start.hits:
        for name in ("max_num_batched_tokens", "max_num_seqs", "max_model_len"):
            if line in form.lines and name in facts_of_line:
                found.setdefault(name, Fact(f"{facts_of_line[name]:.0f}", number))
    return found
