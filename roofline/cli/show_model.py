"""One model, shown whole: its layers, where its parameters are, what it keeps of a token; and its file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roofline import formatting
from roofline.blocks.model import Model
from roofline.blocks.model_files import is_config, load_model
from roofline.cli.lists import by_name
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError
from roofline.formatting import percent
from roofline.predict.parameters import (
    LayerKind,
    Parameters,
    Part,
    count_parameters,
    kv_bytes_per_token,
    layer_kinds,
    layer_pattern,
    parameters_by_part,
    parameters_by_path,
    state_bytes_per_sequence,
)
from roofline.report.summary import Table
from roofline.specs.library import find, text_of
from roofline.text import clean
from roofline.version import envelope


def model(name: str, assume: str | None = None) -> Answer:
    """A model: its layers, its parameters by part and by operator, its cache, its file."""
    loaded, read = load_model(name, assume)
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
    whole = {**envelope(by_name([read])), "model": {**loaded.model_dump(mode="json"), **summary}}
    yaml = {".yaml": lambda: _model_file(name, loaded)}
    return Answer(whole, lambda: rows, lambda: _show(loaded, counted, parts, kinds), yaml)


def _model_file(name: str, loaded: Model) -> str:
    """The file that it was loaded from; a config.json as such a file."""
    from roofline.blocks.model_files import model_yaml

    path = find("models", name)
    return model_yaml(loaded) if is_config(path) else text_of(path)


def _show(loaded: Model, counted: Parameters, parts: list[Part], kinds: list[LayerKind]) -> None:
    note = f"{counted.total:,} parameters, {counted.active:,} active; context {loaded.max_position_embeddings:,}"
    note += f"; KV cache {formatting.binary(kv_bytes_per_token(loaded))} a token at 2 bytes an element"
    if any(kind.windows for kind in kinds):
        note += ", below every window"
    if state := state_bytes_per_sequence(loaded):
        note += f"; recurrent state {formatting.binary(state)} a sequence, in fp32"
    if counted.apart:
        note += "; apart: " + ", ".join(f"{part} {size:,}" for part, size in counted.apart.items())
    print_table(_parts_table(loaded, note, counted, parts))
    write_stdout("")
    print_table(_kinds_table(loaded, kinds))
    write_stdout("")
    _lines(
        f"{choice.origin.capitalize()}: {choice.name} = {_value(choice.value)} ({choice.why})" for choice in loaded.assumptions
    )
    _lines(f"Note: {text}" for text in loaded.notes)
    _lines(f"Source: {source.title} {source.url}".rstrip() for source in loaded.sources.values())


def _parts_table(loaded: Model, note: str, counted: Parameters, parts: list[Part]) -> Table:
    """Where the parameters are; the active ones beside them where a token does not use all."""
    sparse = counted.active != counted.total
    cells = [
        (
            part.name,
            f"{part.parameters:,}",
            f"{percent(part.parameters / counted.total, 1)}",
            *((f"{part.active:,}", f"{percent(part.active / counted.active, 1)}") if sparse else ()),
        )
        for part in parts
    ]
    if loaded.tie_word_embeddings:
        cells.append(("lm_head", "tied to the embedding", "", *(("", "") if sparse else ())))
    columns = ("part", "parameters", "share", *(("active", "share") if sparse else ()))
    return Table(loaded.title, note, columns, (False, *([True] * (len(columns) - 1))), tuple(cells))


def _kinds_table(loaded: Model, kinds: list[LayerKind]) -> Table:
    """The pattern of the layers, and its legend. A column that all layers leave empty is left out."""
    head = ("", "layer", "x", "mixer", "feed-forward", "parameters each", "KV a token", "window", "tokens an entry", "state")
    right = (False, False, True, False, False, True, True, True, True, True)
    rows = [
        (
            kind.letter,
            kind.name,
            str(kind.count),
            kind.mixer,
            kind.mlp,
            f"{kind.parameters:,}",
            formatting.binary(kind.kv_bytes_per_token) if kind.kv_bytes_per_token else "",
            ", ".join(f"{window:,}" for window in kind.windows),
            ", ".join(map(str, kind.ratios)),
            formatting.binary(kind.state_bytes) if kind.state_bytes else "",
        )
        for kind in kinds
    ]
    kept = [index for index in range(len(head)) if any(row[index] for row in rows)]

    def of(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[index] for index in kept)

    title = f"{loaded.num_hidden_layers} layers: {layer_pattern(loaded)}"
    return Table(title, "", of(head), of(right), tuple(map(of, rows)))


def _lines(lines: Any) -> None:
    for line in lines:
        write_stdout(clean(line))


def _value(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def imported(config: str, assume: str | None, name: str | None) -> Answer:
    """What stands in a config.json, as a model's file."""
    from roofline.blocks.model_files import model_yaml

    path = find("models", config)
    if not is_config(path):
        raise InputError(f"{config} is a model's file already: import reads a config.json")
    loaded, read = load_model(path, assume, name)
    text = model_yaml(loaded)
    whole = {**envelope(by_name([read])), "model": loaded.model_dump(mode="json")}
    return Answer(whole, None, lambda: write_stdout(text), {".yaml": lambda: text, ".yml": lambda: text})
