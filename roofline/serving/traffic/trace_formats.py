"""Formats of traces: CSV, Parquet and Mooncake's JSON lines. Each yields the cells of known columns as text, in batches."""

from __future__ import annotations

import hashlib
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from roofline import files
from roofline.errors import SpecError, UnknownNameError
from roofline.serving.traffic.tables import BATCH_ROWS, batched, hashing, read_batches, read_bytes
from roofline.text import clean


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a trace: its name, the names that public traces have for it (in lower case), and what it holds."""

    name: str
    aliases: tuple[str, ...]
    meaning: str


# Azure's LLM inference traces of 2023 and 2024 (https://github.com/Azure/AzurePublicDataset): TIMESTAMP, ContextTokens,
# GeneratedTokens.
# BurstGPT (https://github.com/HPMLL/BurstGPT): Timestamp, Request tokens, Response tokens.
# Mooncake (https://github.com/kvcache-ai/Mooncake): JSON lines with timestamp (milliseconds), input_length, output_length,
# hash_ids (`_Mooncake`).
ARRIVED = Column("arrived_at", ("timestamp",), "seconds, or dates with times")
PROMPT = Column("num_prefill_tokens", ("contexttokens", "request tokens"), "tokens of the prompt")
OUTPUT = Column("num_decode_tokens", ("generatedtokens", "response tokens"), "tokens of the output")
SESSION = Column("session_id", ("session", "conversation_id"), "the conversation that a request is a turn of")
HASHES = Column("hash_ids", (), "numbers of the prompt's blocks of 512 tokens, apart by spaces; equal ones hold the same")
COLUMNS = (ARRIVED, PROMPT, OUTPUT)
_TEXTS = (SESSION, HASHES)
"""Columns that say what prompts have in common."""
_NEEDED = (PROMPT, OUTPUT)


@dataclass(frozen=True, slots=True)
class Cells:
    """A batch of rows: the cells of the known columns, by column, with the line of each row, and rows with too few or too many
    cells, by index."""

    values: dict[str, Any]
    texts: dict[str, Any]
    lines: Sequence[int]
    broken: dict[int, str] = field(default_factory=dict)


class Source(ABC):
    """A file of a kind. Notes and the hash are complete when all batches were read."""

    unit: ClassVar[str] = "line"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256 = ""
        self.notes: tuple[str, ...] = ()

    @abstractmethod
    def batches(self) -> Iterator[Cells]:
        """Rows in their order."""


_MOONCAKE = {"timestamp": ARRIVED.name, "input_length": PROMPT.name, "output_length": OUTPUT.name}


class _Mooncake(Source):
    """JSON lines as Mooncake's traces have them; times are milliseconds."""

    def batches(self) -> Iterator[Cells]:
        self.notes = ("timestamps are milliseconds, as in Mooncake's traces",)
        with hashing(self.path) as (file, sha256):
            hashed: bool | None = None
            for lines in batched((number, line) for number, line in enumerate(file, 1) if line.strip()):
                rows = [_mooncake_row(line) for _, line in lines]
                hashed = any(row is not None and row[-1] for row in rows) if hashed is None else hashed
                names = (*_MOONCAKE.values(), *((HASHES.name,) if hashed else ()))
                broken = {index: _NO_MOONCAKE for index, row in enumerate(rows) if row is None}
                if not hashed:
                    broken |= {index: _NO_HASHES for index, row in enumerate(rows) if row is not None and row[-1]}
                columns = zip(*(row or ("", "", "", "") for row in rows), strict=True)
                numbers, texts = _numbers_and_texts(dict(zip(names, columns, strict=False)))
                yield Cells(numbers, texts, [number for number, _ in lines], broken)
            if hashed is None:
                raise SpecError("the file is empty", path=self.path)
            self.sha256 = sha256()


_NO_MOONCAKE = "must be an object with timestamp (milliseconds), input_length, output_length, hash_ids"
_NO_HASHES = "has hash_ids, which the first requests do not have"


def _mooncake_row(line: bytes) -> tuple[str, str, str, str] | None:
    """The cells of a line; None if it is not of the form."""
    try:
        entry = json.loads(line)
        blocks = " ".join(map(str, entry.get("hash_ids", ())))
        return str(float(entry["timestamp"]) / 1e3), str(entry["input_length"]), str(entry["output_length"]), blocks
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


class _Csv(Source):
    def batches(self) -> Iterator[Cells]:
        header: list[str] = []
        for table in read_batches(self.path):
            rows, lines = table.rows, table.lines
            if not header:
                header = [name.strip() for name in rows[0]]
                indices, self.notes = _locate(self.path, header, lines[0])
                rows, lines = rows[1:], lines[1:]
            width = len(header)
            broken = {index: _wrong_width(len(row), width) for index, row in enumerate(rows) if len(row) != width}
            if broken:
                rows = [row if len(row) == width else [""] * width for row in rows]
            columns = list(zip(*rows, strict=True)) or [()] * width
            cells = {name: columns[index] for name, index in indices.items()}
            yield Cells(*_numbers_and_texts(cells), lines, broken)
            self.sha256 = table.sha256


def _wrong_width(cells: int, width: int) -> str:
    return f"{cells} cells, and the header has {width}" + (" (is the file cut off?)" if cells < width else "")


class _Parquet(Source):
    unit = "row"

    def batches(self) -> Iterator[Cells]:
        raw = read_bytes(self.path)
        self.sha256 = hashlib.sha256(raw).hexdigest()
        table = files.read_parquet(io.BytesIO(raw), self.path)
        indices, self.notes = _locate(self.path, list(table.column_names), None)
        for start in range(0, table.num_rows, BATCH_ROWS):
            part = table.slice(start, BATCH_ROWS)
            cells = {
                name: ["" if cell is None else str(cell) for cell in part.column(index).to_pylist()]
                for name, index in indices.items()
            }
            yield Cells(*_numbers_and_texts(cells), range(start + 1, start + 1 + part.num_rows))


def _numbers_and_texts(cells: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Cells of numbers, and of texts, by column."""
    texts = {column.name: cells.pop(column.name) for column in _TEXTS if column.name in cells}
    return cells, texts


def _locate(path: Path, header: list[str], line: int | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """The index of each known column, and notes on those under other names.

    Raises:
        SpecError: a required column is missing or is there twice.
    """
    lower = [name.lower() for name in header]
    indices: dict[str, int] = {}
    notes = []
    for column in (*COLUMNS, *_TEXTS):
        matches = [index for index, name in enumerate(header) if name == column.name] or [
            index for index, name in enumerate(lower) if name == column.name or name in column.aliases
        ]
        if len(matches) > 1:
            names = " and ".join(clean(header[index]) for index in matches)
            raise SpecError(f"{names}: column {column.name} is there more than once", path=path, line=line)
        if matches:
            indices[column.name] = matches[0]
            if header[matches[0]] != column.name:
                notes.append(f"column {clean(header[matches[0]])} is read as {column.name}")
    if missing := [column for column in _NEEDED if column.name not in indices]:
        raise SpecError(_missing(missing, header), path=path, line=line)
    return indices, tuple(notes)


def _missing(missing: list[Column], header: list[str]) -> str:
    what = f"column{'s' if len(missing) > 1 else ''} {' and '.join(column.name for column in missing)}"
    what += " are missing" if len(missing) > 1 else " is missing"
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            return f"{what}: the cells are separated by {word}, and have to be by commas"
    if all(re.fullmatch(r"[\s\d.eE+-]*", name) for name in header):
        needed = ",".join(column.name for column in COLUMNS)
        return f"{what}: the first line holds numbers; it has to name the columns, such as {needed}"
    known = {column.name for column in COLUMNS}
    near = [text for name in header if name not in known and (text := _did_you_mean(name, missing))]
    there = f"the file has {clean(', '.join(header))[:300]}"
    return f"{what}; {there}." + (f" {near[0]}" if near else "")


def _did_you_mean(name: str, missing: list[Column]) -> str:
    text = str(UnknownNameError("column", clean(name), [column.name for column in missing]))
    return (
        f"{text.partition('. ')[2].partition('?')[0].replace('Did you mean', f'Is {clean(name)} meant to be')}?"
        if "?" in text
        else ""
    )


def source(path: Path) -> Source:
    """The reader of a file, by its suffix: `.parquet`, `.jsonl`, any other is CSV."""
    kinds: dict[str, type[Source]] = {".parquet": _Parquet, ".jsonl": _Mooncake}
    return kinds.get(path.suffix.lower(), _Csv)(path)
