"""Models: sizes, what they keep of a token, and where their numbers are from."""

from __future__ import annotations

from typing import Any

from generate.docstring import prose
from generate.hardware import cited
from generate.table import table
from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.cli.library import model_rows
from roofline.report.summary import format_count

_HEAD = """\
# Models

Parameters are those of the language model, tied weights once, and are counted from the operators; *active* are those that a
token meets, where they are fewer. *KV a token* is what one more token adds to the cache at two bytes an element, below every
window; *window* the smallest sliding window; *state* what a sequence keeps however long it is. Any `config.json` of more than
80 families is [read](../configs.md) too, and one of your own is [one file](../extending.md#a-model).
"""


def pages() -> dict[str, str]:
    """One page."""
    rows, _ = model_rows()
    head = ["model", "parameters", "active", "layers", "width", "context", "KV a token", "window", "state"]
    used = len(head) if any(row["state_bytes_per_sequence"] for row in rows) else len(head) - 1
    sources = [part for row in rows for part in _sources(row["id"], load_model(row["id"])[0])]
    parts = [_HEAD, table(head[:used], [_row(row)[:used] for row in rows], right=range(1, used)), "## Sources", *sources]
    return {"models.md": "\n\n".join(parts) + "\n"}


def _row(row: dict[str, Any]) -> list[str]:
    return [
        f"[{row['title']}](#{_anchor(row['id'])}) `{row['id']}`",
        format_count(row["parameters"]),
        "" if row["active"] == row["parameters"] else format_count(row["active"]),
        str(row["layers"]),
        f"{row['hidden_size']:,}",
        f"{row['context_length']:,}",
        formatting.binary(row["kv_bytes_per_token"]),
        f"{row['window']:,}" if row["window"] else "",
        formatting.binary(row["state_bytes_per_sequence"]) if row["state_bytes_per_sequence"] else "",
    ]


def _anchor(name: str) -> str:
    """The anchor of a heading: points are left out."""
    return name.replace(".", "")


def _sources(name: str, model: Any) -> list[str]:
    lines = [f"* {cited(source)}" for source in model.sources.values()]
    notes = [f"* {prose(note)}" for note in model.notes]
    apart = [f"* not counted, {prose(what)}: {number:,} parameters" for what, number in model.apart.items()]
    return [f"### {name}", "\n".join([*lines, *notes, *apart])]
