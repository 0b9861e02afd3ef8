"""Where results go: stdout as text or JSON, or a file whose suffix says the format."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roofline import files
from roofline.cli.text import csv_cell, markdown_cell
from roofline.errors import InputError, MissingExtraError
from roofline.text import clean
from roofline.version import DATA_VERSION, __version__

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A result in every form that it has: one JSON object, rows (or none), what a person reads, and further file formats."""

    whole: dict[str, Any]
    rows: Callable[[], Rows] | None
    show: Callable[[], None]
    formats: Mapping[str, Callable[[], str | bytes]] = field(default_factory=dict)


def emit(answer: Answer, *, json: bool, output: Path | None, quiet: bool) -> None:
    """Give an answer in the form that was asked for: a file, JSON, or a page to read."""
    from roofline.predict.result import dump_json

    if output is not None:
        formats = {".json": lambda: dump_json(answer.whole) + "\n", **answer.formats}
        write_file(output, formats, answer.rows)
        if not quiet:
            sys.stderr.write(f"wrote {clean(output)}\n")
    if json:
        write_stdout(dump_json(answer.whole))
    elif output is None:
        answer.show()


def write_stdout(text: str) -> None:
    """A result, with its final newline."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def as_csv(rows: Rows) -> str:
    """Rows as CSV; the keys of the first are the columns."""
    import csv

    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(_plain(value)) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _plain(value: Any) -> Any:
    """A whole number without a fraction, nothing for None."""
    if value is None:
        return ""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_markdown(rows: Rows) -> str:
    """Rows as a Markdown table."""
    if not rows:
        return ""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([markdown_cell(_plain(row[name])) for name in columns] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def write_file(path: Path, formats: Mapping[str, Callable[[], str | bytes]], rows: Callable[[], Rows] | None) -> None:
    """Write a result in the format of the file's suffix: `.csv`, `.md` and `.parquet` from `rows`, if there are any, others
    from `formats`.

    The file is written beside its place and then renamed, so that there is never half a file.
    """
    files.check_target(path)
    suffix = path.suffix.lower()
    tables: dict[str, Callable[[], bytes]] = {}
    if rows is not None:
        tables = {
            ".csv": lambda: as_csv(rows()).encode(),
            ".md": lambda: as_markdown(rows()).encode(),
            ".parquet": lambda: _parquet(rows()),
        }
    writers = tables | {name: (lambda made=made: _bytes(made())) for name, made in formats.items()}
    allowed = sorted(writers)
    if suffix not in writers:
        msg = f"cannot write {path}: the suffix says the format, and must be one of {', '.join(allowed)}"
        raise InputError(msg)
    files.write_whole(path, writers[suffix]())


def _bytes(made: str | bytes) -> bytes:
    return made.encode() if isinstance(made, str) else made


def _parquet(rows: Rows) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("writing Parquet", "parquet") from None
    metadata = {"roofline.tool_version": __version__, "roofline.data_version": DATA_VERSION}
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows).replace_schema_metadata(metadata), sink)
    return sink.getvalue()
