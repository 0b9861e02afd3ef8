"""Checks of files: is each what it should be, and if not, what is wrong and where."""

from __future__ import annotations

import sys
from collections.abc import Callable

from roofline.cli.output import Answer, Rows, envelope, write_stdout
from roofline.errors import RooflineError, SpecError
from roofline.specs.library import Kind, find, ids, load_hardware, load_model
from roofline.text import clean


def check_files(kind: Kind, names: list[str]) -> tuple[Answer, int]:
    """Load each file (default: all that are known). The exit code is 1 when one is wrong."""
    load: Callable[[str], object] = load_model if kind == "models" else load_hardware
    found = [(name, find(kind, name)) for name in names] or list(ids(kind).items())
    rows: Rows = []
    for name, path in found:
        if not path.exists():
            raise SpecError("no such file", path=path)
        row = {"name": name, "path": str(path), "ok": True, "error": None}
        try:
            load(str(path))
        except RooflineError as error:
            row |= {"ok": False, "error": str(error)}
        rows.append(row)
    wrong = [row for row in rows if not row["ok"]]

    def show() -> None:
        noun = "model" if kind == "models" else kind
        write_stdout(f"{len(rows) - len(wrong)} of {len(rows)} {noun} file{'s are' if len(rows) != 1 else ' is'} right")
        for row in wrong:
            sys.stderr.write(f"error: {clean(row['error'], keep_lines=True)}\n")

    return Answer({**envelope({}), "checked": rows}, lambda: rows, show), 1 if wrong else 0
