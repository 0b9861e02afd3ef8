"""`roofline models`: the models that are known, one of them shown whole, a config.json as a model's file, checks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.help import OUTPUT
from roofline.cli.library import (
    SearchOption,
    SortOption,
    check_files,
    matching,
    ordered,
    print_list,
    shadowing,
    show_as,
    stored,
    stored_lines,
)
from roofline.cli.options import Options, model_argument, takes
from roofline.cli.output import Output, Result, Rows, by_name, write_stdout
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.predict.options import READING
from roofline.text import Answer, Table, clean

if TYPE_CHECKING:
    from roofline.blocks.model import Model
    from roofline.predict.parameters import LayerKind, Parameters, Part

_COLUMNS = {"context": "context_length", "kv": "kv_bytes_per_token", "state": "state_bytes_per_sequence"}
"""Short names of columns to sort by."""


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="List, show, import and check models.", no_args_is_help=True)
    group.command(name="list")(takes()(list_models))
    group.command(name="show")(takes((READING,), formats=[".yaml"])(show))
    group.command(name="import")(takes((READING,), formats=[".yaml", ".yml"], tables=False)(import_config))
    group.command(name="check")(takes()(check))
    app.add_typer(group, name="models")


def list_models(search: SearchOption = None, sort: SortOption = None, *, out: Output) -> None:
    """List models with their sizes."""
    from roofline.cli.library import model_rows

    rows, inputs = model_rows()
    rows = matching(ordered(rows, sort, _COLUMNS), search)
    document = {**envelope(by_name(inputs)), "models": rows}

    def screen() -> None:
        print_list("models", _groups(rows), _list_table(rows), shadowing(inputs), search, out.verbosity, sort=sort)

    out.emit(Result(document, lambda: rows, screen))


def _groups(rows: Rows) -> list[tuple[str, str]]:
    """The series of each model, which is the word that its id begins with, and its id; in a long list short series stand
    together at the end. Few models have their sizes too: the ids of most say them."""
    from roofline.report.summary import format_count

    listed = []
    for row in rows:
        series = re.match("[a-z]*", row["id"].lower())
        size = format_count(row["parameters"], 3)
        if row["active"] != row["parameters"]:
            size += f", {format_count(row['active'], 3)} active"
        listed.append((series[0] if series else "", f"{row['id']} ({size})" if len(rows) <= _SIZED else row["id"]))
    if len(rows) <= _SIZED:
        return listed
    lengths = Counter(series for series, _ in listed)
    long = [(series, text) for series, text in listed if lengths[series] > _SHORT]
    return long + [("others", text) for series, text in listed if lengths[series] <= _SHORT]


_SIZED = 40
"""Models whose ids and sizes fit on a screen."""
_SHORT = 2
"""Models of a series that has no line of its own in a long list."""


def _list_table(rows: Rows) -> Table:
    from roofline.report.summary import format_count

    recurrent = any(row["state_bytes_per_sequence"] for row in rows)
    cells = tuple(
        (
            row["id"],
            format_count(row["parameters"]),
            "" if row["active"] == row["parameters"] else format_count(row["active"]),
            str(row["layers"]),
            f"{row['context_length']:,}",
            formatting.binary(row["kv_bytes_per_token"]),
            f"{row['window']:,}" if row["window"] else "",
            *((_bytes(row["state_bytes_per_sequence"]),) if recurrent else ()),
        )
        for row in rows
    )
    columns = ("id", "parameters", "active", "layers", "context", "KV per token", "window", *(("state",) if recurrent else ()))
    return Table("", "", columns, (False, *([True] * (len(columns) - 1))), cells)


def _bytes(size: float) -> str:
    """A size; nothing for 0."""
    return formatting.binary(size) if size else ""


def show(
    name: Annotated[str, model_argument(metavar="NAME")],
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Output format: text, yaml or json.", rich_help_panel=OUTPUT)
    ] = "text",
    *,
    options: Options,
    out: Output,
) -> None:
    """Show the layers, parameters, KV cache size and file of a model.

    Of a folder with safetensors files and no config.json: the sizes in their headers.
    """
    from roofline.specs.library import bare_checkpoint

    if (folder := bare_checkpoint(name)) is not None:
        _show_stored(name, folder, format, out)
        return
    from roofline.blocks.model_files import load_model
    from roofline.predict.parameters import (
        count_parameters,
        kv_bytes_per_token,
        layer_kinds,
        layer_pattern,
        parameters_by_part,
        parameters_by_path,
        state_bytes_per_sequence,
    )

    loaded, read = load_model(name, options.get("assume"))
    counted, parts, kinds = count_parameters(loaded), parameters_by_part(loaded), layer_kinds(loaded)
    rows: Rows = [
        {"path": path, "parameters": size, "repeat": repeat, "total": size * repeat}
        for path, (size, repeat) in parameters_by_path(loaded).items()
    ]
    parameters = {name: getattr(counted, name) for name in ("total", "active", "embedding", "apart")}
    summary = {
        "parameters": parameters,
        "parts": [{**asdict(part), "share": part.parameters / counted.total} for part in parts],
        "layer_pattern": layer_pattern(loaded),
        "layer_kinds": [asdict(kind) for kind in kinds],
        "kv_bytes_per_token": kv_bytes_per_token(loaded),
        "state_bytes_per_sequence": state_bytes_per_sequence(loaded),
        "operators": rows,
    }
    document = {**envelope(by_name([read])), "model": {**loaded.model_dump(mode="json"), **summary}}
    yaml = {".yaml": lambda: _model_file(name, loaded)}
    show_as(
        Result(document, lambda: rows, lambda: print_answer(_answer(loaded, counted, parts, kinds, rows), out.verbosity), yaml),
        format,
        out,
    )


def _show_stored(name: str, folder: Path, format: str, out: Output) -> None:
    """The sizes of a checkpoint without a config.json, of which there is no model to show."""
    if format == "yaml" or (out.file is not None and out.file.suffix == ".yaml"):
        raise InputError(f"{folder}: there is no config.json, and so no model to write as YAML")
    sizes = stored(folder)
    rows = [{"dtype": dtype, **held} for dtype, held in sizes["dtypes"].items()]
    text = clean(stored_lines(name, sizes), keep_lines=True)
    show_as(Result({**envelope({}), "stored": sizes}, lambda: rows, lambda: write_stdout(text)), format, out)


def _model_file(name: str, loaded: Model) -> str:
    """The file that it was loaded from; a config.json as such a file."""
    from roofline.blocks.model_files import is_config, is_gguf, model_yaml
    from roofline.specs.library import find, text_of

    path = find("models", name)
    return model_yaml(loaded) if is_gguf(path) or is_config(path) else text_of(path)


def _answer(loaded: Model, counted: Parameters, parts: list[Part], kinds: list[LayerKind], rows: Rows) -> Answer:
    from roofline.predict.parameters import kv_bytes_per_token, state_bytes_per_sequence

    active = "" if counted.active == counted.total else f", {counted.active:,} active"
    cache = f"{formatting.binary(kv_bytes_per_token(loaded))} per token at 2 bytes per element"
    if any(kind.windows for kind in kinds):
        cache += ", below every window"
    sizes = [("KV cache", cache)]
    if state := state_bytes_per_sequence(loaded):
        sizes.append(("Recurrent state", f"{formatting.binary(state)} per sequence, in fp32"))
    if counted.apart:
        sizes.append(("Not counted", ", ".join(f"{_label(part)} {size:,}" for part, size in counted.apart.items())))
    cells = tuple((row["path"], f"{row['parameters']:,}", str(row["repeat"]), f"{row['total']:,}") for row in rows)
    choices = [(choice, f"{choice.name} = {_value(choice.value)}") for choice in loaded.assumptions]
    notes = f", {plural(len(loaded.notes), 'note')}" if loaded.notes else ""
    return Answer(
        title=loaded.title,
        verdict=f"{counted.total:,} parameters{active}; context length {loaded.max_position_embeddings:,}",
        parts=(tuple(sizes), _parts_table(loaded, counted, parts), _kinds_table(loaded, kinds)),
        brief=(tuple((choice.origin.capitalize(), text) for choice, text in choices),),
        details=(
            Table("", "", ("operator", "parameters", "x", "total"), (False, True, True, True), cells),
            (
                *((choice.origin.capitalize(), f"{text} ({choice.why})") for choice, text in choices),
                *(("Note", text) for text in loaded.notes),
                *(("Source", f"{source.title} {source.url}".rstrip()) for source in loaded.sources.values()),
            ),
        ),
        hint=f"-v: operators{notes}, sources    File: roofline models show {loaded.name} --format yaml",
    )


def _parts_table(loaded: Model, counted: Parameters, parts: list[Part]) -> Table:
    """Where the parameters are; the active ones beside them where a token does not use all."""
    sparse = counted.active != counted.total
    cells = [
        (
            _label(part.name),
            f"{part.parameters:,}",
            f"{percent(part.parameters / counted.total, 1)}",
            *((f"{part.active:,}", f"{percent(part.active / counted.active, 1)}") if sparse else ()),
        )
        for part in parts
    ]
    if loaded.tie_word_embeddings:
        cells.append(("LM head", "tied to the embedding", "", *(("", "") if sparse else ())))
    columns = ("part", "parameters", "share", *(("active", "share") if sparse else ()))
    return Table("", "", columns, (False, *([True] * (len(columns) - 1))), tuple(cells))


def _label(part: str) -> str:
    """The name of a part in words."""
    return {"mlp": "MLP", "moe": "MoE", "lm_head": "LM head"}.get(part, part.replace("_", " "))


def _kinds_table(loaded: Model, kinds: list[LayerKind]) -> Table:
    """The pattern of the layers, and its legend. A column that all layers leave empty is left out."""
    from roofline.predict.parameters import layer_pattern

    head = ("", "layer", "x", "mixer", "feed-forward", "parameters each", "KV per token", "window", "tokens per entry", "state")
    right = (False, False, True, False, False, True, True, True, True, True)
    rows = [
        (
            kind.letter,
            kind.name,
            str(kind.count),
            kind.mixer,
            kind.mlp,
            f"{kind.parameters:,}",
            _bytes(kind.kv_bytes_per_token),
            ", ".join(f"{window:,}" for window in kind.windows),
            ", ".join(map(str, kind.ratios)),
            _bytes(kind.state_bytes),
        )
        for kind in kinds
    ]
    columns = [index for index in range(len(head)) if any(row[index] for row in rows)]

    def filled(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[index] for index in columns)

    title = f"{loaded.num_hidden_layers} layers: {layer_pattern(loaded)}"
    return Table(title, "", filled(head), filled(right), tuple(map(filled, rows)))


def _value(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def import_config(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="config.json, its folder, a GGUF file, or a Hugging Face repository (org/name)."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name for the model: an id, a title, or org/name.")
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """Convert a config.json or a GGUF file to a model file.

    Example: roofline models import ./config.json --name my-org/My-Model-7B -o my-model-7b.yaml
    """
    from roofline.blocks.model_files import is_config, is_gguf, load_model, model_yaml
    from roofline.specs.library import find

    path = find("models", config)
    if not (is_gguf(path) or is_config(path)):
        raise InputError(f"{config} is a model's file already: import reads a config.json or a GGUF file")
    loaded, read = load_model(path, options.get("assume"), name)
    text = model_yaml(loaded)
    document = {**envelope(by_name([read])), "model": loaded.model_dump(mode="json")}
    out.emit(Result(document, None, lambda: write_stdout(text), {".yaml": lambda: text, ".yml": lambda: text}))


def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE|FOLDER]...", help="Ids, YAML files or folders. Default: all.")
    ] = None,
    *,
    out: Output,
) -> int:
    """Check model files.

    Compares a GGUF file, and a folder that has a config.json and safetensors files or their index, tensor by tensor; of a
    folder without a config.json it gives the sizes in the headers. Exits with code 1 if a file is invalid.
    """
    return check_files("models", files or [], out)
