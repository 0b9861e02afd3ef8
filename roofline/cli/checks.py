"""Checks of files: is each what it should be, and if not, what is wrong and where."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roofline import files
from roofline.blocks.model_files import load_model
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.errors import RooflineError, SpecError
from roofline.specs.library import Kind, find, ids, load_hardware
from roofline.text import clean
from roofline.version import envelope

# So many names of tensors that do not match are told, of each kind: on the terminal, and in JSON.
_TOLD, _LISTED = 5, 100


def check_files(kind: Kind, names: list[str]) -> tuple[Answer, int]:
    """Load each file (default: all that are known); where a config has its checkpoint beside it, compare the two. The exit
    code is 1 when something is wrong."""
    load: Callable[[str], object] = load_model if kind == "models" else load_hardware
    found = [(name, find(kind, name)) for name in names] or list(ids(kind).items())
    rows: Rows = []
    for name, path in found:
        if not files.exists(path):
            raise SpecError("no such file", path=path)
        row: dict[str, Any] = {"name": name, "path": str(path), "ok": True, "error": None}
        try:
            load(str(path))
            if kind == "models" and path.name == "config.json":
                row |= _against_checkpoint(path)
        except RooflineError as error:
            row |= {"ok": False, "error": str(error)}
        rows.append(row)
    wrong = [row for row in rows if not row["ok"]]

    def show() -> None:
        noun = "model" if kind == "models" else kind
        write_stdout(f"{len(rows) - len(wrong)} of {len(rows)} {noun} file{'s are' if len(rows) != 1 else ' is'} right")
        for row in rows:
            if "checkpoint" in row:
                write_stdout(clean(_told(row), keep_lines=True))
        for row in wrong:
            sys.stderr.write(f"error: {clean(row['error'], keep_lines=True)}\n")

    def flat() -> Rows:
        return [{key: value for key, value in row.items() if key != "checkpoint"} for row in rows]

    return Answer({**envelope({}), "checked": rows}, flat, show), 1 if wrong else 0


def _against_checkpoint(config: Path) -> dict[str, Any]:
    """The comparison of a model with the tensors in the folder of its config; null where there are none."""
    from roofline.predict.checkpoint import compare
    from roofline.specs.huggingface.safetensors import read_checkpoint

    checkpoint = read_checkpoint(config.parent)
    if checkpoint is None:
        return {"checkpoint": None}
    found = compare(load_model(config)[0], checkpoint)
    lists = ("missing", "extra", "wrong_shape")
    counts = {f"{name}_count": len(getattr(found, name)) for name in lists}
    shown = {name: list(getattr(found, name)[:_LISTED]) for name in lists}
    whole = {"tensors": len(checkpoint.tensors), "complete": checkpoint.complete, **asdict(found), **counts, **shown}
    error = None if found.ok else f"{config.parent}: {'; '.join(found.problems)}"
    return {"ok": found.ok, "error": error, "checkpoint": whole}


def _told(row: dict[str, Any]) -> str:
    """A comparison in a few lines."""
    if (found := row["checkpoint"]) is None:
        return f"{row['name']}: the config is read; there are no safetensors beside it, so that no tensor is compared"
    if found["known"]:
        parts = [f"{found['matched'] + found['packed']:,} match"]
        parts += [f"{found['packed']:,} of them packed"] if found["packed"] else []
        parts += [f"{found['beside']:,} scales and the like"] if found["beside"] else []
        parts += [f"{found[f'{name}_count']:,} {word}" for name, word in _WORDS.items()]
    else:
        parts = ["the names of this family are not known: totals are compared"]
    parts += [f"{count:,} {what}" for what, count in found["apart"].items()]
    lines = [f"{row['name']}: {found['tensors']:,} tensors: {', '.join(parts)}"]
    lines += [f"  {found[key]:,.0f} bytes {word}" for key, word in _SIZES.items() if found[key] is not None]
    lines += [f"  {count:,} tensors are {dtype} and not as the model says" for dtype, count in found["other_dtypes"].items()]
    if not found["complete"]:
        lines.append("  not all of its files are there: names are compared, and shapes of what is there")
        if found["apart"] and found["total_size"] is not None:
            lines.append("  the index counts what stands apart as well, so that its total is not compared")
    for name in ("missing", "extra"):
        lines += [f"  {_WORDS[name]}: {tensor}" for tensor in found[name][:_TOLD]]
    for name, wanted, stored in found["wrong_shape"][:_TOLD]:
        lines.append(f"  {_WORDS['wrong_shape']}: {name} is {_shape(stored)}, the model has {_shape(wanted)}")
    return "\n".join(lines)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


_WORDS = {"missing": "missing", "extra": "extra", "wrong_shape": "of another shape"}
_SIZES = {"predicted_bytes": "predicted", "stored_bytes": "in tensors of the language model", "total_size": "by the index"}
