"""Showing lists, single files and checks of models and hardware."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofline.cli.output import Rows, envelope, write_file, write_stdout
from roofline.cli.page import print_table
from roofline.errors import RooflineError, SpecError, UnknownNameError
from roofline.predict.result import dump_json
from roofline.report.summary import Table, format_count
from roofline.specs.library import Input, Kind, find, ids, load_hardware, load_model
from roofline.text import clean
from roofline.units import format_bytes_binary, format_si

FORMATS = ("text", "yaml", "json")


def _inputs(inputs: list[Input]) -> dict[str, Any]:
    return {entry.name: {"role": entry.role, "path": entry.path, "sha256": entry.sha256} for entry in inputs}


def emit_rows(kind: Kind, rows: Rows, inputs: list[Input], *, json: bool, output: Path | None) -> None:
    """A list, in the form that was asked for."""
    whole = {**envelope(_inputs(inputs)), kind: rows}
    if output is not None:
        write_file(output, {".json": lambda: dump_json(whole) + "\n"}, lambda: rows)
    if json:
        write_stdout(dump_json(whole))
    elif output is None:
        print_table(_models(rows) if kind == "models" else _hardware(rows))


def _models(rows: Rows) -> Table:
    cells = tuple(
        (
            row["id"], format_count(row["parameters"]),
            "" if row["active"] == row["parameters"] else format_count(row["active"]),
            str(row["layers"]), f"{row['context_length']:,}", format_bytes_binary(row["kv_bytes_per_token"]),
            f"{row['window']:,}" if row["window"] else "",
        )
        for row in rows
    )  # fmt: skip
    return Table(
        "", "", ("id", "parameters", "active", "layers", "context", "KV a token", "window"), (False, *([True] * 6)), cells
    )


def _hardware(rows: Rows) -> Table:
    def rate(value: float | None) -> str:
        return "" if value is None else format_si(value, "FLOP/s")

    cells = tuple(
        (
            row["id"], row["title"], rate(row["peak_flops_16bit"]), rate(row["peak_flops_fp8"]),
            format_si(row["bandwidth"], "B/s"), format_bytes_binary(row["memory_bytes"]),
            "" if row["ridge_point"] is None else f"{row['ridge_point']:.4g}",
        )
        for row in rows
    )  # fmt: skip
    return Table(
        "",
        "dense peaks of one accelerator",
        ("id", "", "16 bit", "fp8", "bandwidth", "memory", "ridge"),
        (False, False, *([True] * 5)),
        cells,
    )


def check_files(kind: Kind, names: list[str], *, json: bool) -> int:
    """Load each file; say which are wrong, and where. 1 when one is."""
    load: Callable[[str], object] = load_model if kind == "models" else load_hardware
    found = [(name, find(kind, name)) for name in names] or [(name, path) for name, path in ids(kind).items()]
    rows = []
    for name, path in found:
        if not path.exists():
            raise SpecError("no such file", path=path)
        try:
            load(str(path))
            rows.append({"name": name, "path": str(path), "ok": True, "error": None})
        except RooflineError as error:
            rows.append({"name": name, "path": str(path), "ok": False, "error": str(error)})
    wrong = [row for row in rows if not row["ok"]]
    if json:
        write_stdout(dump_json({**envelope({}), "checked": rows}))
    else:
        write_stdout(f"{len(rows) - len(wrong)} of {len(rows)} {kind} files are right")
        for row in wrong:
            sys.stderr.write(f"error: {clean(row['error'], keep_lines=True)}\n")
    return 1 if wrong else 0


def _format(name: str) -> str:
    if name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS, list_all=True)
    return name


def show_model(name: str, format: str) -> None:
    """A model by its parts, or its file."""
    from roofline.predict.catalogue import kv_bytes_per_token, parameters_by_path, windows
    from roofline.predict.parameters import count_parameters

    if _format(format) == "yaml":
        load_model(name)
        write_stdout(find("models", name).read_text(encoding="utf-8"))
        return
    model, read = load_model(name)
    counted = count_parameters(model)
    if format == "json":
        parts = {path: {"parameters": size, "repeat": repeat} for path, (size, repeat) in parameters_by_path(model).items()}
        summary = {
            "parameters": {
                "total": counted.total,
                "active": counted.active,
                "embedding": counted.embedding,
                "apart": counted.apart,
            },
            "kv_bytes_per_token": kv_bytes_per_token(model),
            "operators": parts,
        }
        write_stdout(dump_json({**envelope(_inputs([read])), "model": {**model.model_dump(mode="json"), **summary}}))
        return
    window = f", sliding windows of {', '.join(f'{w:,}' for w in windows(model))} tokens" if windows(model) else ""
    note = (
        f"{counted.total:,} parameters, {counted.active:,} active; {model.num_hidden_layers} layers, "
        f"context {model.max_position_embeddings:,}; KV cache {format_bytes_binary(kv_bytes_per_token(model))} a token "
        f"at 2 bytes an element{window}"
    )
    if counted.apart:
        note += "; apart: " + ", ".join(f"{part} {size:,}" for part, size in counted.apart.items())
    rows = tuple(
        (path, f"{size:,}", str(repeat), f"{size * repeat:,}", f"{size * repeat / counted.total:.1%}")
        for path, (size, repeat) in parameters_by_path(model).items()
    )
    print_table(
        Table(model.title, note, ("holds parameters", "each", "x", "in all", "share"), (False, True, True, True, True), rows)
    )
    extra = [
        *(f"Note: {text}" for text in model.notes),
        *(f"Source: {s.title} {s.url}".rstrip() for s in model.sources.values()),
    ]
    _lines(extra)


def _lines(lines: list[str]) -> None:
    for line in lines:
        write_stdout(clean(line))


def show_hardware(name: str, format: str) -> None:
    """Every number of an accelerator or node with its source, or its file."""
    from roofline.specs.hardware import facts

    hardware, inputs = load_hardware(name)
    if _format(format) == "yaml":
        write_stdout(find("hardware", name).read_text(encoding="utf-8"))
        return
    spec = hardware.node or hardware.accelerator
    if format == "json":
        document = {"hardware": spec.model_dump(mode="json")}
        if hardware.node is not None:
            document["accelerator"] = hardware.accelerator.model_dump(mode="json")
        write_stdout(dump_json({**envelope(_inputs(inputs)), **document}))
        return
    rows = tuple(
        (path, _amount(fact.value, fact.unit, path), fact.grade, _source(spec.sources[fact.source]), fact.note)
        for path, fact in facts(spec)
    )
    print_table(Table(spec.title, "", ("fact", "value", "grade", "source", "note"), (False, True, False, False, False), rows))
    checked = None if hardware.node else hardware.accelerator.self_check()
    if checked:
        computed, stated = checked
        _lines(
            [f"Check: units x clock x FMA x 2 = {format_si(computed, 'FLOP/s', 6)}, stated {format_si(stated, 'FLOP/s', 6)}"]
        )
    if hardware.node is not None:
        _lines(
            [f"{hardware.node.count} x {hardware.accelerator.title}: see `roofline hardware show {hardware.accelerator.name}`"]
        )
    _lines([f"Note: {text}" for text in spec.notes])
    _lines(["Grades: A two independent sources agree, B one source, C recalled and to be checked before use"])


def _amount(value: float, unit: str, path: str) -> str:
    if unit == "byte":
        decimal = path.endswith("label")
        return f"{value / 1e9:g} GB" if decimal else format_bytes_binary(value, 6)
    symbol = {"byte/s": "B/s", "": ""}.get(unit, unit)
    return f"{value:,.0f}" if not unit else format_si(value, symbol, 6)


def _source(source: Any) -> str:
    return " ".join(filter(None, [source.title, source.url, f"({source.read})" if source.read else ""]))
