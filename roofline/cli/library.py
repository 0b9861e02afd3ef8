"""What the commands `models` and `hardware` share: rows of their lists, checks of files, formats of one entry."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files
from roofline.blocks.model_files import is_gguf, load_model
from roofline.cli.output import Output, Result, Rows, write_json, write_stdout
from roofline.cli.tables import print_answer
from roofline.documents import dump_json, envelope
from roofline.errors import RooflineError, SpecError, UnknownNameError
from roofline.formatting import plural
from roofline.predict.parameters import count_parameters, kv_bytes_per_token, state_bytes_per_sequence, windows
from roofline.specs.library import Input, ids, load_hardware
from roofline.text import NO_BREAK, Answer, Table, clean

if TYPE_CHECKING:
    from roofline.blocks.model import Model
    from roofline.specs.library import Input, Kind

_FORMATS = ("text", "yaml", "json")
_PRINTED, _LISTED = 5, 100
"""Names of tensors that do not match, of each kind, on the terminal and in JSON."""


def show_as(result: Result, name: str, out: Output) -> None:
    """Write a result in the format `name`, or as the output flags say.

    Raises:
        UnknownNameError: `name` is not text, yaml or json.
    """
    if name not in _FORMATS:
        raise UnknownNameError("format", name, _FORMATS, list_all=True)
    shows = {
        "text": result.show,
        "yaml": lambda: write_stdout(str(result.formats[".yaml"]())),
        "json": lambda: write_json(dump_json(result.document)),
    }
    out.emit(Result(result.document, result.rows, shows[name], result.formats))


SearchOption = Annotated[
    str | None,
    typer.Option("--search", metavar="TEXT", help="List only entries whose id or title contains TEXT.", show_default=False),
]


SortOption = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        help="Sort by a column (parameters, context, kv; bandwidth, memory, ridge; any key of --json), largest first.",
        show_default=False,
    ),
]


def ordered(rows: Rows, sort: str | None, short: dict[str, str]) -> Rows:
    """Return the rows by a column, numbers from the largest on and rows without one last; as they are for None.

    Args:
        rows: of a list.
        sort: a key of the rows.
        short: short names of keys.

    Raises:
        UnknownNameError: no such key.
    """
    if sort is None:
        return rows
    known = [key for key in (rows[0] if rows else {}) if key != "title"]
    wanted = sort.strip().lower().replace("-", "_")
    key = short.get(wanted, wanted)
    if rows and key not in known:
        raise UnknownNameError("column", sort, [*short, *known], list_all=True)
    if key == "id":
        return sorted(rows, key=lambda row: row["id"])
    return sorted(rows, key=lambda row: (row[key] is None, -(row[key] or 0), row["id"]))


def matching(rows: Rows, search: str | None) -> Rows:
    """Return the rows whose id or title has a text, whatever its case; all rows for None."""
    text = (search or "").lower()
    return [row for row in rows if text in row["id"].lower() or text in row["title"].lower()]


def print_list(
    kind: Kind,
    groups: list[tuple[str, str]],
    table: Table,
    notes: list[str],
    search: str | None,
    verbosity: int,
    *,
    sort: str | None = None,
) -> None:
    """Print what is known of a kind: names in groups, or the table of figures.

    Args:
        kind: models or hardware.
        groups: group and name of each entry.
        table: figures of each entry.
        notes: sentences that come last.
        search: the text that all names have: the table is shown where it fits on a screen.
        verbosity: above 0, the table is shown in any case.
        sort: the column that the rows are sorted by: the table is shown, in that order.
    """
    one, several = _NOUNS[kind]
    head = f"{len(groups):,} {one if len(groups) == 1 else several}"
    by_group: dict[str, list[str]] = {}
    for group, name in groups:
        by_group.setdefault(group, []).append(name.replace(" ", NO_BREAK))
    names = tuple((group, ", ".join(by_group[group])) for group in sorted(by_group, key=str.lower))
    short = sort is not None or (search is not None and len(table.rows) <= _FITTING)
    more = [] if short else [f"Figures: -v{'' if search else ' or --search TEXT'}"]
    answer = Answer(
        title=head if search is None else f"{head} with {search!r} in the name",
        brief=(table if short else names,),
        details=(table,),
        notes=tuple(("Note", note) for note in notes),
        hint="    ".join([*more, f"Show one: roofline {kind} show ID"]),
    )
    print_answer(answer, verbosity)


_NOUNS = {"models": ("model", "models"), "hardware": ("accelerator or node", "accelerators and nodes")}
_FITTING = 20
"""Rows of a table of figures that fit on a screen."""


def shadowing(inputs: Iterable[Input]) -> list[str]:
    """A note that names the shipped ids replaced by files of the user's own; an empty list if there are none."""
    from roofline.specs.library import shadowed

    listed = [f"{entry.name} is {entry.path}" for entry in inputs if shadowed(entry.path) is not None]
    return [f"instead of shipped files, by ROOFLINE_PATH: {', '.join(listed)}"] if listed else []


def check_files(kind: Kind, names: list[str], out: Output) -> int:
    """Load each file (default: all that are known), and compare a config with the checkpoint beside it, if there is one.

    Returns:
        The exit code: 1 when something is wrong.
    """
    from roofline.specs.library import bare_checkpoint, find, ids

    bare = {name: folder for name in names if kind == "models" and (folder := bare_checkpoint(name)) is not None}
    checked = [(name, bare.get(name) or find(kind, name)) for name in names] or list(ids(kind).items())
    rows: Rows = []
    for name, path in checked:
        if not files.exists(path):
            raise SpecError("no such file", path=path)
        rows.append(_checked(kind, name, path))
    wrong = [row for row in rows if not row["ok"]]

    def show() -> None:
        write_stdout(_verdict_of_files(kind, rows))
        for row in rows:
            if "checkpoint" in row:
                write_stdout(clean(_comparison(row), keep_lines=True))
            if "stored" in row:
                write_stdout(clean(stored_lines(row["name"], row["stored"]), keep_lines=True))
            if "gguf" in row:
                write_stdout(clean(_gguf_comparison(row), keep_lines=True))
        for row in wrong:
            sys.stderr.write(f"error: {clean(row['error'], keep_lines=True)}\n")

    def flat() -> Rows:
        apart = ("checkpoint", "gguf", "stored", "not_compared")
        return [{key: value for key, value in row.items() if key not in apart} for row in rows]

    out.emit(Result({**envelope({}), "checked": rows}, flat, show))
    return 1 if wrong else 0


def _verdict_of_files(kind: Kind, rows: Rows) -> str:
    """How many files are valid, and how many of models were compared with their tensors: to be valid says nothing of those."""
    bare = [row for row in rows if "stored" in row]
    rows = [row for row in rows if "stored" not in row]
    if bare and not rows:
        return f"{plural(len(bare), 'folder')} without a config.json: sizes alone, no model to check"
    valid = sum(row["ok"] for row in rows)
    text = f"{valid} of {len(rows)} {'model' if kind == 'models' else kind} file{'s are' if len(rows) != 1 else ' is'} valid"
    if kind != "models":
        return text
    compared = sum(row.get("checkpoint", row.get("gguf")) is not None for row in rows)
    return f"{text}; {compared or 'none'} compared with the tensors of a checkpoint"


def _checked(kind: Kind, name: str, path: Path) -> dict[str, Any]:
    """The row of one file: whether it loads, and how it compares with the tensors that belong to it."""
    row: dict[str, Any] = {"name": name, "path": str(path), "ok": True, "error": None}
    try:
        if kind == "hardware":
            load_hardware(str(path))
            return row
        if files.is_folder(path):
            row["not_compared"] = ["the tensors with a model: there is no config.json, which says what they are"]
            return row | {"stored": stored(path)}
        model = load_model(str(path))[0]
        row["not_compared"] = []
        if path.name == "config.json":
            row |= _against_checkpoint(path)
            row["not_compared"] = _not_compared(model, row["checkpoint"])
        elif is_gguf(path):
            row |= _against_gguf(path)
        else:
            row["not_compared"] = ["a file of numbers: no checkpoint stands beside it"]
    except RooflineError as error:
        row |= {"ok": False, "error": str(error)}
    return row


def stored(folder: Path) -> dict[str, Any]:
    """The sizes of the checkpoint in a folder without a config.json, as plain data.

    Raises:
        SpecError: a file of it cannot be read.
    """
    from roofline.specs.huggingface.safetensors import read_checkpoint, stored_sizes

    checkpoint = read_checkpoint(folder)
    if checkpoint is None:
        raise SpecError("holds an index of another name than model.safetensors.index.json, and no file beside it", path=folder)
    sizes = asdict(stored_sizes(checkpoint))
    keys = ("tensors", "elements", "bytes")
    return {**sizes, "dtypes": {name: dict(zip(keys, counts, strict=True)) for name, counts in sizes["dtypes"].items()}}


def stored_lines(name: str, sizes: dict[str, Any]) -> str:
    """Those sizes in a few lines."""
    parameters = sizes["parameters"]
    unread = ""
    if sizes["unread"]:
        some = f"of which {sizes['unread']:,} are in files that are not there"
        unread = ", none of whose files is there" if sizes["unread"] == sizes["tensors"] else f", {some}"
    lines = [f"{name}: {plural(sizes['tensors'], 'tensor')}{unread}; no config.json"]
    if parameters is not None:
        lines.append(f"  {parameters:,} parameters")
    elif not sizes["unread"]:
        lines.append("  parameters: not known, for the headers do not say how many are packed into a number")
    if sizes["tensors"] > sizes["unread"]:
        lines.append(f"  {sizes['bytes']:,} bytes in tensors")
    if sizes["total_size"] is not None:
        lines.append(f"  {sizes['total_size']:,} bytes by the index")
    for dtype, held in sizes["dtypes"].items():
        lines.append(f"  {dtype}: {plural(held['tensors'], 'tensor')}, {held['bytes']:,} bytes")
    lines += [f"  packed: {plural(count, 'tensor')} with {what}" for what, count in sizes["packed"].items()]
    if sizes["beside"]:
        lines.append(f"  no weights: {plural(sizes['beside'], 'tensor')} of scales and the like")
    return "\n".join(lines)


def _against_checkpoint(config: Path) -> dict[str, Any]:
    """The comparison of a model with the tensors in the folder of its config; null where there are none."""
    from roofline.predict.checkpoint import compare
    from roofline.specs.huggingface.safetensors import read_checkpoint

    checkpoint = read_checkpoint(config.parent)
    if checkpoint is None:
        return {"checkpoint": None}
    comparison = compare(load_model(config)[0], checkpoint)
    lists = ("missing", "extra", "wrong_shape")
    counts = {f"{name}_count": len(getattr(comparison, name)) for name in lists}
    examples = {name: list(getattr(comparison, name)[:_LISTED]) for name in lists}
    document = {"tensors": len(checkpoint.tensors), "complete": checkpoint.complete, **asdict(comparison), **counts, **examples}
    error = None if comparison.ok else f"{config.parent}: {'; '.join(comparison.problems)}"
    return {"ok": comparison.ok, "error": error, "checkpoint": document}


def _not_compared(model: Model, checkpoint: dict[str, Any] | None) -> list[str]:
    """What a comparison says nothing about: files that are not there, unknown names, parts beside the language model."""
    left: list[str] = []
    if checkpoint is None:
        left.append("names, shapes and bytes: there are no safetensors and no index beside the config")
    else:
        if not checkpoint["known"]:
            left.append("names and shapes: those of this family are not known")
        if not checkpoint["complete"]:
            left.append("shapes and bytes of tensors whose files are not there")
        if checkpoint["total_size"] is None:
            left.append("a published total: there is no index that names one")
        elif checkpoint["apart"] and not checkpoint["complete"]:
            left.append("the index's total: it counts what stands apart as well")
        left += [f"names and shapes of {plural(count, 'tensor')} of {what}" for what, count in checkpoint["apart"].items()]
    if model.towers and checkpoint is None:
        left.append(f"parameters of the {' and the '.join(name.replace('_', ' ') for name in model.towers)}")
    parts = [choice.why.removeprefix("not counted: ") for choice in model.assumptions if choice.name == "parts"]
    return [*left, *parts]


def _against_gguf(path: Path) -> dict[str, Any]:
    """The comparison of a GGUF file with its model: every tensor is a weight of it, or the file would not be read."""
    from roofline.predict.checkpoint import compare_gguf
    from roofline.specs.gguf.header import read_gguf

    comparison = compare_gguf(load_model(path)[0], read_gguf(path))
    error = None if comparison.ok else f"{path}: {'; '.join(comparison.problems)}"
    return {"ok": comparison.ok, "error": error, "gguf": asdict(comparison)}


def _gguf_comparison(row: dict[str, Any]) -> str:
    """The comparison of a GGUF file in a few lines."""
    sizes = row["gguf"]
    apart = "".join(f", {count:,} of {what.replace('_', ' ')}" for what, count in sizes["apart"].items())
    parts = f" in {sizes['parts']} files" if sizes["parts"] > 1 else ""
    return (
        f"{row['name']}: {sizes['tensors']:,} tensors{parts}: {sizes['matched']:,} match{apart}\n"
        f"  {sizes['predicted_bytes']:,.0f} bytes predicted\n  {sizes['stored_bytes']:,} bytes in tensors of the language model"
    )


def _comparison(row: dict[str, Any]) -> str:
    """A comparison in a few lines."""
    if (checkpoint := row["checkpoint"]) is None:
        return "\n".join([f"{row['name']}: the config is read", *_left_out(row)])
    if checkpoint["known"]:
        parts = [f"{checkpoint['matched'] + checkpoint['packed']:,} match"]
        parts += [f"{checkpoint['packed']:,} of them packed"] if checkpoint["packed"] else []
        parts += [f"{checkpoint['beside']:,} scales and the like"] if checkpoint["beside"] else []
        parts += [f"{checkpoint[f'{name}_count']:,} {word}" for name, word in _WORDS.items()]
    else:
        parts = ["the names of this family are not known: totals are compared"]
    parts += [f"{count:,} {what}" for what, count in checkpoint["apart"].items()]
    lines = [f"{row['name']}: {checkpoint['tensors']:,} tensors: {', '.join(parts)}"]
    lines += [f"  {checkpoint[key]:,.0f} bytes {word}" for key, word in _SIZES.items() if checkpoint[key] is not None]
    lines += [
        f"  {count:,} tensors are {dtype} and not as the model says" for dtype, count in checkpoint["other_dtypes"].items()
    ]
    for name in ("missing", "extra"):
        lines += [f"  {_WORDS[name]}: {tensor}" for tensor in checkpoint[name][:_PRINTED]]
    for name, wanted, stored in checkpoint["wrong_shape"][:_PRINTED]:
        lines.append(f"  {_WORDS['wrong_shape']}: {name} is {_shape(stored)}, the model has {_shape(wanted)}")
    return "\n".join([*lines, *_left_out(row)])


def _left_out(row: dict[str, Any]) -> list[str]:
    return [f"  not compared: {what}" for what in row["not_compared"]]


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


_WORDS = {"missing": "missing", "extra": "extra", "wrong_shape": "of another shape"}
_SIZES = {"predicted_bytes": "predicted", "stored_bytes": "in tensors of the language model", "total_size": "by the index"}


def model_rows() -> tuple[list[dict[str, Any]], list[Input]]:
    """A row per known model: parameters, sizes in bytes, lengths in tokens; and the files that were read."""
    rows, inputs = [], []
    for name, path in ids("models").items():
        model, read = load_model(str(path))
        inputs.append(read)
        counted = count_parameters(model)
        rows.append(
            {
                "id": name, "title": model.title, "parameters": counted.total, "active": counted.active,
                "layers": model.num_hidden_layers,
                "hidden_size": model.hidden_size, "context_length": model.max_position_embeddings,
                "kv_bytes_per_token": kv_bytes_per_token(model), "window": windows(model)[0] if windows(model) else None,
                "state_bytes_per_sequence": state_bytes_per_sequence(model),
            }
        )  # fmt: skip
    return rows, inputs


def hardware_rows() -> tuple[list[dict[str, Any]], list[Input]]:
    """A row per known accelerator and node: FLOP/s, byte/s, bytes, FLOP/byte; and the files that were read."""
    rows, inputs = [], []
    for name, path in ids("hardware").items():
        hardware, read = load_hardware(str(path))
        inputs.append(read[0])
        sixteen = next((dtype for dtype in ("bf16", "fp16") if dtype in hardware.peaks), None)
        rows.append(
            {
                "id": name, "title": hardware.title, "devices": hardware.node.count if hardware.node else 1,
                "peak_flops_16bit": hardware.peaks[sixteen] if sixteen else None, "peak_flops_fp8": hardware.peaks.get("fp8"),
                "bandwidth": hardware.bandwidth, "memory_bytes": hardware.memory_bytes,
                "ridge_point": hardware.peaks[sixteen] / hardware.bandwidth if sixteen else None,
            }
        )  # fmt: skip
    return rows, inputs
