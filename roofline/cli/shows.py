"""One model or one piece of hardware, shown whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline.cli.lists import by_name
from roofline.cli.output import Answer, Rows, envelope, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError, UnknownNameError
from roofline.predict.catalogue import kv_bytes_per_token, parameters_by_path, state_bytes_per_sequence, windows
from roofline.predict.parameters import count_parameters
from roofline.predict.result import dump_json
from roofline.report.summary import Table
from roofline.specs.hardware import Hardware, facts
from roofline.specs.library import find, load_hardware, load_model
from roofline.specs.model import Model
from roofline.text import clean
from roofline.units import format_bytes_binary, format_si

FORMATS = ("text", "yaml", "json")


def formatted(answer: Answer, name: str) -> Answer:
    """An answer whose page is in the format of that name."""
    if name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS, list_all=True)
    shows = {
        "text": answer.show,
        "yaml": lambda: write_stdout(answer.formats[".yaml"]()),
        "json": lambda: write_stdout(dump_json(answer.whole)),
    }
    return Answer(answer.whole, answer.rows, shows[name], answer.formats)


def model(name: str, assume: str | None = None) -> Answer:
    """A model: its parameters by the operators that hold them, its cache, its file."""
    loaded, read = load_model(name, assume)
    counted = count_parameters(loaded)
    rows: Rows = [
        {"path": path, "parameters": size, "repeat": repeat, "total": size * repeat}
        for path, (size, repeat) in parameters_by_path(loaded).items()
    ]
    parameters = {name: getattr(counted, name) for name in ("total", "active", "embedding", "apart")}
    summary = {
        "parameters": parameters,
        "kv_bytes_per_token": kv_bytes_per_token(loaded),
        "state_bytes_per_sequence": state_bytes_per_sequence(loaded),
        "operators": rows,
    }
    whole = {**envelope(by_name([read])), "model": {**loaded.model_dump(mode="json"), **summary}}
    return Answer(whole, lambda: rows, lambda: _show_model(loaded, rows), {".yaml": lambda: _model_file(name, loaded)})


def _model_file(name: str, loaded: Model) -> str:
    """The file that it was loaded from; a config.json as such a file."""
    from roofline.specs.model_yaml import model_yaml

    return model_yaml(loaded) if find("models", name).suffix == ".json" else _file("models", name)


def imported(config: str, assume: str | None, name: str | None, output: Path | None) -> Answer:
    """What stands in a config.json, as a model's file."""
    from roofline.specs.model_yaml import model_yaml

    path = find("models", config)
    if path.suffix != ".json":
        raise InputError(f"{config} is a model's file already: import reads a config.json")
    loaded, read = load_model(path, assume, name)
    if output is not None and output.resolve() == path.resolve():
        raise InputError(f"-o {output} would write over the config that is read")
    text = model_yaml(loaded)
    whole = {**envelope(by_name([read])), "model": loaded.model_dump(mode="json")}
    return Answer(whole, None, lambda: write_stdout(text), {".yaml": lambda: text, ".yml": lambda: text})


def _file(kind: Any, name: str) -> str:
    return find(kind, name).read_text(encoding="utf-8")


def _value(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _show_model(loaded: Model, rows: Rows) -> None:
    counted = count_parameters(loaded)
    window = f", sliding windows of {', '.join(f'{w:,}' for w in windows(loaded))} tokens" if windows(loaded) else ""
    note = (
        f"{counted.total:,} parameters, {counted.active:,} active; {loaded.num_hidden_layers} layers, "
        f"context {loaded.max_position_embeddings:,}; KV cache {format_bytes_binary(kv_bytes_per_token(loaded))} a token "
        f"at 2 bytes an element{window}"
    )
    if state := state_bytes_per_sequence(loaded):
        note += f"; recurrent state {format_bytes_binary(state)} a sequence, in fp32"
    if counted.apart:
        note += "; apart: " + ", ".join(f"{part} {size:,}" for part, size in counted.apart.items())
    cells = tuple(
        (
            row["path"],
            f"{row['parameters']:,}",
            str(row["repeat"]),
            f"{row['total']:,}",
            f"{row['total'] / counted.total:.1%}",
        )
        for row in rows
    )
    columns = ("holds parameters", "each", "x", "in all", "share")
    print_table(Table(loaded.title, note, columns, (False, True, True, True, True), cells))
    _lines(
        f"{choice.origin.capitalize()}: {choice.name} = {_value(choice.value)} ({choice.why})" for choice in loaded.assumptions
    )
    _lines(f"Note: {text}" for text in loaded.notes)
    _lines(f"Source: {source.title} {source.url}".rstrip() for source in loaded.sources.values())


def _lines(lines: Any) -> None:
    for line in lines:
        write_stdout(clean(line))


def hardware(name: str) -> Answer:
    """An accelerator or node: every number with its source."""
    loaded, inputs = load_hardware(name)
    spec = loaded.node or loaded.accelerator
    rows: Rows = [
        {
            "fact": path,
            "value": fact.value,
            "unit": fact.unit,
            "grade": fact.grade,
            "source": _source(spec.sources[fact.source]),
            "note": fact.note,
        }
        for path, fact in facts(spec)
    ]
    whole = {**envelope(by_name(inputs)), "hardware": spec.model_dump(mode="json"), "facts": rows}
    if loaded.node is not None:
        whole["accelerator"] = loaded.accelerator.model_dump(mode="json")
    return Answer(whole, lambda: rows, lambda: _show_hardware(loaded, rows), {".yaml": lambda: _file("hardware", name)})


def _show_hardware(loaded: Hardware, rows: Rows) -> None:
    spec = loaded.node or loaded.accelerator
    cells = tuple(
        (row["fact"], _amount(row["value"], row["unit"], row["fact"]), row["grade"], row["source"], row["note"]) for row in rows
    )
    columns = ("fact", "value", "grade", "source", "note")
    print_table(Table(spec.title, "", columns, (False, True, False, False, False), cells))
    checked = None if loaded.node else loaded.accelerator.self_check()
    if checked:
        computed, stated = (format_si(value, "FLOP/s", 6) for value in checked)
        _lines([f"Check: units x clock x FMA x 2 = {computed}, stated {stated}"])
    if loaded.node is not None:
        inside = loaded.accelerator
        _lines([f"{loaded.node.count} x {inside.title}: see `roofline hardware show {inside.name}`"])
    _lines(f"Note: {text}" for text in spec.notes)
    _lines(["Grades: A two independent sources agree, B one source, C recalled and to be checked before use"])


def _amount(value: float, unit: str, path: str) -> str:
    if unit == "byte":
        return f"{value / 1e9:g} GB" if path.endswith("label") else format_bytes_binary(value, 6)
    symbol = {"byte/s": "B/s"}.get(unit, unit)
    return f"{value:,.0f}" if not unit else format_si(value, symbol, 6)


def _source(source: Any) -> str:
    return " ".join(filter(None, [source.title, source.url, f"({source.read})" if source.read else ""]))
