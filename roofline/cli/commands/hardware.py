"""`roofline hardware`: the accelerators and nodes that are known, one of them with the source of every number, checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.library import check_files, print_lines, shadowing, show_as
from roofline.cli.options import complete_hardware, takes
from roofline.cli.output import Output, Result, Rows, by_name
from roofline.cli.tables import print_table
from roofline.documents import envelope
from roofline.text import Table

if TYPE_CHECKING:
    from roofline.specs.hardware import Hardware


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="The accelerators and nodes that are known.", no_args_is_help=True)
    group.command(name="list")(takes()(list_hardware))
    group.command(name="show")(takes()(show))
    group.command(name="check")(takes()(check))
    app.add_typer(group, name="hardware")


def list_hardware(*, out: Output) -> None:
    """Every accelerator and node with its headline figures."""
    from roofline.cli.library import hardware_rows

    rows, inputs = hardware_rows()
    document = {**envelope(by_name(inputs)), "hardware": rows}
    out.emit(Result(document, lambda: rows, lambda: print_table(_list_table(rows, shadowing(inputs)))))


def _list_table(rows: Rows, notes: list[str]) -> Table:
    def rate(value: float | None) -> str:
        return "" if value is None else formatting.quantity(value, "FLOP/s")

    cells = tuple(
        (
            row["id"],
            row["title"],
            rate(row["peak_flops_16bit"]),
            rate(row["peak_flops_fp8"]),
            formatting.quantity(row["bandwidth"], "B/s"),
            formatting.binary(row["memory_bytes"]),
            "" if row["ridge_point"] is None else f"{row['ridge_point']:.4g}",
        )
        for row in rows
    )
    columns = ("id", "", "16 bit", "fp8", "bandwidth", "memory", "ridge")
    return Table("", "; ".join(["dense peaks of one accelerator", *notes]), columns, (False, False, *([True] * 5)), cells)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id or YAML file.", autocompletion=complete_hardware)],
    format: Annotated[str, typer.Option("--format", help="text, yaml or json.")] = "text",
    *,
    out: Output,
) -> None:
    """One accelerator or node: every number with its source."""
    from roofline.specs.hardware import facts
    from roofline.specs.library import find, load_hardware, text_of

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
    document = {**envelope(by_name(inputs)), "hardware": spec.model_dump(mode="json"), "facts": rows}
    if loaded.node is not None:
        document["accelerator"] = loaded.accelerator.model_dump(mode="json")
    yaml = {".yaml": lambda: text_of(find("hardware", name))}
    show_as(Result(document, lambda: rows, lambda: _show(loaded, rows), yaml), format, out)


def _show(loaded: Hardware, rows: Rows) -> None:
    spec = loaded.node or loaded.accelerator
    cells = tuple(
        (row["fact"], _amount(row["value"], row["unit"], row["fact"]), row["grade"], row["source"], row["note"]) for row in rows
    )
    columns = ("fact", "value", "grade", "source", "note")
    print_table(Table(spec.title, "", columns, (False, True, False, False, False), cells))
    checked = None if loaded.node else loaded.accelerator.self_check()
    if checked:
        computed, stated = (formatting.quantity(value, "FLOP/s", 6) for value in checked)
        print_lines([f"Check: units x clock x FMA x 2 = {computed}, stated {stated}"])
    if loaded.node is not None:
        inside = loaded.accelerator
        print_lines([f"{loaded.node.count} x {inside.title}: see `roofline hardware show {inside.name}`"])
    print_lines(f"Note: {text}" for text in spec.notes)
    print_lines(["Grades: A two independent sources agree, B one source, C recalled and to be checked before use"])


def _amount(value: float, unit: str, path: str) -> str:
    if unit == "byte":
        return f"{value / 1e9:g} GB" if path.endswith("label") else formatting.binary(value, 6)
    symbol = {"byte/s": "B/s"}.get(unit, unit)
    return f"{value:,.0f}" if not unit else formatting.quantity(value, symbol, 6)


def _source(source: Any) -> str:
    return " ".join(filter(None, [source.title, source.url, f"({source.read})" if source.read else ""]))


def check(
    files: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Default: all that are known.")] = None,
    *,
    out: Output,
) -> int:
    """Check hardware files: keys, units, sources, and the peak against units x clock. Exit code 1 when one is wrong."""
    return check_files("hardware", files or [], out)
