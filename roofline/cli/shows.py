"""One piece of hardware, shown whole, and the formats in which one thing is shown."""

from __future__ import annotations

from typing import Any

from roofline import formatting
from roofline.cli.lists import by_name
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.cli.page import print_table
from roofline.errors import UnknownNameError
from roofline.predict.result import dump_json
from roofline.report.summary import Table
from roofline.specs.hardware import Hardware, facts
from roofline.specs.library import find, load_hardware, text_of
from roofline.text import clean
from roofline.version import envelope

FORMATS = ("text", "yaml", "json")


def formatted(answer: Answer, name: str) -> Answer:
    """An answer whose page is in the format of that name."""
    if name not in FORMATS:
        raise UnknownNameError("format", name, FORMATS, list_all=True)
    shows = {
        "text": answer.show,
        "yaml": lambda: write_stdout(str(answer.formats[".yaml"]())),
        "json": lambda: write_stdout(dump_json(answer.whole)),
    }
    return Answer(answer.whole, answer.rows, shows[name], answer.formats)


def _file(kind: Any, name: str) -> str:
    return text_of(find(kind, name))


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
        computed, stated = (formatting.quantity(value, "FLOP/s", 6) for value in checked)
        _lines([f"Check: units x clock x FMA x 2 = {computed}, stated {stated}"])
    if loaded.node is not None:
        inside = loaded.accelerator
        _lines([f"{loaded.node.count} x {inside.title}: see `roofline hardware show {inside.name}`"])
    _lines(f"Note: {text}" for text in spec.notes)
    _lines(["Grades: A two independent sources agree, B one source, C recalled and to be checked before use"])


def _amount(value: float, unit: str, path: str) -> str:
    if unit == "byte":
        return f"{value / 1e9:g} GB" if path.endswith("label") else formatting.binary(value, 6)
    symbol = {"byte/s": "B/s"}.get(unit, unit)
    return f"{value:,.0f}" if not unit else formatting.quantity(value, symbol, 6)


def _source(source: Any) -> str:
    return " ".join(filter(None, [source.title, source.url, f"({source.read})" if source.read else ""]))
