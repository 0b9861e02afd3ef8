"""Where results go: stdout as text or JSON, or a file whose suffix decides the format; progress goes to stderr."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.documents import DATA_VERSION, __version__, dump_json
from roofline.errors import InputError, MissingExtraError, UnknownNameError
from roofline.text import clean, csv_cell, markdown_cell

if TYPE_CHECKING:
    from roofline.specs.library import Input

Rows = list[dict[str, Any]]
FIGURE_SUFFIXES = (".svg", ".png", ".pdf")
"""Formats of a figure; all but the first need an extra."""

TABLES = (".csv", ".md", ".parquet")
"""Formats of a result that has rows."""
_EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Result:
    """A result in all its forms.

    Args:
        document: one JSON object.
        rows: makes the rows of CSV, Markdown and Parquet; None if the result has none.
        show: prints what a person reads.
        formats: writers of further file formats, by suffix.
        figures: returns what its figures are made of: a result of the Python API, a sweep or a page; None if it has none.
        line: the command that gives the same result, in its JSON as `reproduce`; "" if a page cannot be made of it again.
    """

    document: dict[str, Any]
    rows: Callable[[], Rows] | None
    show: Callable[[], None]
    formats: Mapping[str, Callable[[], str | bytes]] = field(default_factory=dict)
    figures: Callable[[], Any] | None = None
    line: str = ""

    @property
    def json(self) -> str:
        """The result as JSON text."""
        return dump_json({**self.document, **({"reproduce": self.line} if self.line else {})})


_CHECK: ContextVar[Callable[[Mapping[str, Any]], None] | None] = ContextVar("check", default=None)


@contextmanager
def checked_by(check: Callable[[Mapping[str, Any]], None]) -> Iterator[None]:
    """Results that are written inside are given to `check` first, as their documents."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


@dataclass(frozen=True, slots=True)
class Output:
    """The flags `--json`, `--output`, `--quiet`, `--verbose` and `--figure` of a command."""

    json: bool
    file: Path | None
    quiet: bool
    verbosity: int = 0
    """0: an answer on one screen; 1: its tables in full; 2: every assumption as well."""
    figure: str | None = None
    """The name of the figure to write; None: the first."""

    def emit(self, result: Result) -> None:
        """Write a result in the form that the flags name: a file, JSON, or text.

        Raises:
            InputError: a suffix of no format, or a place that cannot be written.
        """
        if (check := _CHECK.get()) is not None:
            check(result.document)
        if self.file is not None:
            formats = {".json": lambda: result.json + "\n", **result.formats}
            write_file(self.file, formats | self.figure_writers(result), result.rows)
            self.note(f"wrote {self.file}")
        if self.json:
            write_json(result.json)
        elif self.file is None:
            result.show()

    def figure_writers(self, result: Result) -> dict[str, Callable[[], bytes]]:
        """Return writers of the figure that `--figure` names, by suffix; none of a result without figures."""
        if result.figures is None:
            return {}
        source = result.figures

        def content(suffix: str) -> bytes:
            from roofline.report.figure_files import figure_file
            from roofline.report.figures import figures_of

            figures = figures_of(source())
            return figure_file(figures.make(self.figure), suffix, figures.about)

        return {suffix: partial(content, suffix) for suffix in FIGURE_SUFFIXES}

    def check_figure(self, names: Sequence[str]) -> None:
        """Refuse what no figure can be written from, before the work is done.

        Args:
            names: of the figures of the command; one that ends in `*` stands for several.

        Raises:
            InputError: `--figure` without a file for a picture.
            UnknownNameError: no figure of the command has this name.
            MissingExtraError: PNG or PDF without the extra.
        """
        pictures = ", ".join(f"FILE{suffix}" for suffix in FIGURE_SUFFIXES[:-1]) + f" or FILE{FIGURE_SUFFIXES[-1]}"
        if self.figure is not None and not self.has_suffix(*FIGURE_SUFFIXES):
            raise InputError(f"--figure writes a picture: add -o {pictures}")
        if self.figure is not None and not any(fnmatchcase(self.figure, name) for name in names):
            raise UnknownNameError("figure", self.figure, names, list_all=True)
        if self.has_suffix(*FIGURE_SUFFIXES[1:]):
            from roofline.report.figure_files import check_extra

            check_extra()

    def note(self, text: str) -> None:
        """Write a message to stderr, unless `--quiet`."""
        if not self.quiet:
            sys.stderr.write(f"{clean(text)}\n")

    def verdict(self, text: str) -> None:
        """Write a message to stderr if the result is not printed as text, whose first line it is, and not `--quiet`."""
        if self.json or self.file is not None:
            self.note(text)

    def has_suffix(self, *suffixes: str) -> bool:
        """Whether the result goes to a file with one of these suffixes."""
        return self.file is not None and self.file.suffix.lower() in suffixes

    def check_suffix(self, allowed: Iterable[str], otherwise: str = "") -> None:
        """Refuse a file of a format that is not allowed, before the work is done.

        Raises:
            InputError: the suffix is not allowed; the message lists those that are.
        """
        if self.file is not None and not self.has_suffix(*allowed):
            listed = f"must be one of {', '.join(allowed)}{otherwise}"
            raise InputError(f"cannot write {self.file}: the suffix says the format, and {listed}")


def write_stdout(text: str) -> None:
    """Write text to stdout, with a final newline."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_json(text: str) -> None:
    """Write JSON to stdout: where that is not Unicode, as in a pipe of Windows, in ASCII, which says the same."""
    if not (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf"):
        text = re.sub(r"[^\x00-\x7f]", lambda sign: json.dumps(sign[0])[1:-1], text)
    write_stdout(text)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout, without control characters."""
    write_stdout(clean("\n".join(lines), keep_lines=True))


def by_role(inputs: Iterable[Input]) -> dict[str, Any]:
    """Files that a result was computed from, for its JSON, keyed by role."""
    return {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in inputs}


def by_name(inputs: Iterable[Input]) -> dict[str, Any]:
    """Files that a result was computed from, for its JSON, keyed by name, where several have one role."""
    return {entry.name: {"role": entry.role, "path": entry.path, "sha256": entry.sha256} for entry in inputs}


def as_csv(rows: Rows) -> str:
    """Rows as CSV text; the keys of the first row are the columns."""
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
    """Rows as a Markdown table; the keys of the first row are the columns. "" without rows."""
    if not rows:
        return ""
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([markdown_cell(_plain(row[name])) for name in columns] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def write_file(path: Path, formats: Mapping[str, Callable[[], str | bytes]], rows: Callable[[], Rows] | None) -> None:
    """Write a result in the format of the file's suffix, whole or not at all.

    Args:
        path: of the file.
        formats: writers by suffix.
        rows: for `.csv`, `.md` and `.parquet`, if `formats` has none of its own; None if the result has no rows.

    Raises:
        InputError: a suffix of no format, or a place that cannot be written.
        MissingExtraError: Parquet without its extra.
    """
    files.check_target(path)
    suffix = path.suffix.lower()
    writers: dict[str, Callable[[], str | bytes]] = {}
    if rows is not None:
        writers = {
            ".csv": lambda: as_csv(rows()),
            ".md": lambda: as_markdown(rows()),
            ".parquet": lambda: _parquet(rows()),
        }
    writers |= formats
    if suffix not in writers:
        msg = f"cannot write {path}: the suffix says the format, and must be one of {', '.join(sorted(writers))}"
        raise InputError(msg)
    content = writers[suffix]()
    files.write_whole(path, content.encode() if isinstance(content, str) else content)


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


@contextmanager
def progress(unit: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A context manager that yields a function to report progress with: the number done, and of all (None: unknown).

    On a terminal one line on stderr is rewritten; elsewhere a line is written at most every ten seconds.
    """
    if quiet:
        yield lambda done, of: None
        return
    start, last, first = time.monotonic(), time.monotonic(), -1
    terminal = sys.stderr.isatty()

    def report(done: int, of: int | None) -> None:
        nonlocal last, first
        first = done if first < 0 else first
        now = time.monotonic()
        if now - last < (0.2 if terminal else _EVERY) and (of is None or done < of):
            return
        last = now
        rate = (done - first) / max(now - start, 1e-9)
        left = f", {_duration((of - done) / rate)} left" if of is not None and rate and done < of else ""
        count = f"{done:,}" if of is None else f"{done:,} of {of:,}"
        line = f"{count} {unit}, {rate:,.0f} per second{left}"
        if terminal:
            sys.stderr.write(f"\r\x1b[2K{line}")
        elif now - start > _EVERY:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    try:
        yield report
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[2K")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
