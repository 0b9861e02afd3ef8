"""`roofline hardware`: the accelerators and nodes that are known, one of them with the source of every number, checks."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.help import OUTPUT
from roofline.cli.library import SearchOption, SortOption, check_files, matching, ordered, print_list, shadowing, show_as
from roofline.cli.options import complete_hardware, takes
from roofline.cli.output import Output, Result, Rows, by_name
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.text import Answer, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofline.specs.hardware import Accelerator, Hardware, Node
    from roofline.specs.source import Fact

    _Facts = Sequence[tuple[str, Fact]]

_LARGE = 25
"""Accelerators of a vendor from which on they are listed by architecture."""
_COLUMNS = {"16bit": "peak_flops_16bit", "fp8": "peak_flops_fp8", "memory": "memory_bytes", "ridge": "ridge_point"}
"""Short names of columns to sort by."""


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="List, show and check accelerators and nodes.", no_args_is_help=True)
    group.command(name="list")(takes()(list_hardware))
    group.command(name="show")(takes(formats=[".yaml"])(show))
    group.command(name="check")(takes()(check))
    app.add_typer(group, name="hardware")


def list_hardware(search: SearchOption = None, sort: SortOption = None, *, out: Output) -> None:
    """List accelerators and nodes with their main specifications."""
    from roofline.cli.library import hardware_rows

    rows, inputs = hardware_rows()
    rows = matching(ordered(rows, sort, _COLUMNS), search)
    document = {**envelope(by_name(inputs)), "hardware": rows}

    def screen() -> None:
        print_list("hardware", _groups(rows), _list_table(rows), shadowing(inputs), search, out.verbosity, sort=sort)

    out.emit(Result(document, lambda: rows, screen))


def _groups(rows: Rows) -> list[tuple[str, str]]:
    """The vendor and, of those with many, the architecture of each accelerator, and its id; nodes are a group of their own."""
    from roofline.specs.library import load_hardware

    loaded = [load_hardware(row["id"])[0] for row in rows]
    vendors = Counter(one.accelerator.vendor for one in loaded if one.node is None)
    listed = []
    for row, one in zip(rows, loaded, strict=True):
        accelerator = one.accelerator
        first = accelerator.title.split(" ")[0]
        vendor = first if first.lower() == accelerator.vendor else accelerator.vendor
        if vendors[accelerator.vendor] > _LARGE:
            vendor += f" {accelerator.architecture.capitalize()}"
        listed.append(("nodes" if one.node else vendor, row["id"]))
    return listed


def _list_table(rows: Rows) -> Table:
    def rate(value: float | None) -> str:
        return "" if value is None else formatting.number(value / 1e12, 3)

    cells = tuple(
        (
            row["id"],
            row["title"],
            rate(row["peak_flops_16bit"]),
            rate(row["peak_flops_fp8"]),
            formatting.number(row["bandwidth"] / 1e9, 3),
            formatting.number(row["memory_bytes"] / 2**30, 3),
            "" if row["ridge_point"] is None else formatting.number(row["ridge_point"], 3),
        )
        for row in rows
    )
    columns = ("id", "title", "16 bit", "fp8", "GB/s", "GiB", "ridge")
    note = "dense TFLOP/s of one accelerator in 16-bit formats and in fp8; ridge point in FLOP per byte, in 16-bit formats"
    return Table("", note, columns, (False, False, *([True] * 5)), cells)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id or YAML file.", autocompletion=complete_hardware)],
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Output format: text, yaml or json.", rich_help_panel=OUTPUT)
    ] = "text",
    *,
    out: Output,
) -> None:
    """Show every number of an accelerator or node, with its source."""
    from roofline.specs.hardware import facts
    from roofline.specs.library import find, load_hardware, text_of

    loaded, inputs = load_hardware(name)
    spec = loaded.node or loaded.accelerator
    numbers = facts(spec)
    rows: Rows = [
        {
            "fact": path,
            "value": fact.value,
            "unit": fact.unit,
            "grade": fact.grade,
            "source": _source(spec.sources[fact.source]),
            "note": fact.note,
        }
        for path, fact in numbers
    ]
    document = {**envelope(by_name(inputs)), "hardware": spec.model_dump(mode="json"), "facts": rows}
    if loaded.node is not None:
        document["accelerator"] = loaded.accelerator.model_dump(mode="json")
    yaml = {".yaml": lambda: text_of(find("hardware", name))}
    show_as(Result(document, lambda: rows, lambda: print_answer(_answer(loaded, numbers), out.verbosity), yaml), format, out)


def _answer(loaded: Hardware, numbers: _Facts) -> Answer:
    spec = loaded.node or loaded.accelerator
    checked = None if loaded.node else loaded.accelerator.self_check()
    notes = []
    if checked:
        computed, stated = (formatting.quantity(value, "FLOP/s", 4) for value in checked)
        notes.append(("Check", f"compute units x clock x FMA per clock x 2 FLOP = {computed}; stated: {stated}"))
    if loaded.node is not None:
        inside = loaded.accelerator
        notes.append(("Inside", f"{loaded.node.count} x {inside.title}: roofline hardware show {inside.name}"))
    notes.append(("Grades", "A: two independent sources agree; B: one source; C: from memory, not checked against a source"))
    sources = tuple((key, _source(spec.sources[key])) for key in dict.fromkeys(fact.source for _, fact in numbers))
    return Answer(
        title=spec.title,
        verdict=_headline(loaded),
        brief=(_facts_table(spec, numbers, full=False),),
        details=(_facts_table(spec, numbers, full=True), sources, tuple(("Note", text) for text in spec.notes)),
        notes=tuple(notes),
        hint=f"-v: notes and sources    File: roofline hardware show {spec.name} --format yaml",
    )


def _headline(loaded: Hardware) -> str:
    """What decides predictions: the peak, bandwidth, memory, and the ridge point of one accelerator."""
    dtype = next((dtype for dtype in ("bf16", "fp16") if dtype in loaded.peaks), None)
    parts = []
    if dtype is not None:
        parts.append(f"{formatting.quantity(loaded.peaks[dtype], 'FLOP/s', 3)} {dtype} dense")
    parts += [formatting.quantity(loaded.bandwidth, "B/s", 3), formatting.binary(loaded.memory_bytes, 3)]
    if dtype is not None:
        parts.append(f"ridge point {formatting.number(loaded.peaks[dtype] / loaded.bandwidth, 3)} FLOP/byte")
    return ("" if loaded.node is None else f"{loaded.node.count} accelerators, each ") + ", ".join(parts)


def _facts_table(spec: Accelerator | Node, numbers: _Facts, *, full: bool) -> Table:
    """Every number with its grade and the first words of its source; in full: with the key of its source, and its note."""
    cells = []
    for path, fact in numbers:
        cell = (path if full else _label(path, spec), amount(path, fact, 6 if full else 4), fact.grade)
        short = re.split(r"[,:(]", spec.sources[fact.source].title)[0].strip()
        cells.append((*cell, fact.source, fact.note) if full else (*cell, short))
    columns = ("property", "value", "grade", "source", *(("note",) if full else ()))
    return Table("", "", columns, tuple(name == "value" for name in columns), tuple(cells))


_LABELS = {
    "vector_flops": "vector peak, fp32", "best_matmul": "fastest matrix product measured", "memory.label": "memory, as sold",
    "memory.reported": "memory, as the driver reports it", "memory.bandwidth": "memory bandwidth", "l2": "L2 cache",
    "l2_bandwidth": "L2 bandwidth, reads", "compute_units": "compute units", "registers": "registers per compute unit",
    "shared_memory": "shared memory per compute unit", "boost_clock": "boost clock",
    "tensor_clock": "clock of the matrix units", "power": "power limit", "host.memory": "host memory",
    "per_direction": "bandwidth per direction", "per_peer": "bandwidth to each peer", "latency": "latency",
    "host_link": "host link", "network": "network",
}  # fmt: skip
"""Properties in words; `-v` and the file have the keys."""


def _label(path: str, spec: Accelerator | Node) -> str:
    """A property in words: `peak_flops.bf16` is "dense peak, bf16", `l2` is "L2 cache"."""
    first, *rest = path.split(".")
    if first == "peak_flops":
        return f"dense peak, {rest[0]}"
    if path in _LABELS or not rest:
        return _LABELS.get(path, path.replace("_", " "))
    owner = spec.links[int(rest[0])].name if first == "links" else _LABELS.get(first, first.replace("_", " "))
    return f"{owner}, {_LABELS.get(rest[-1], rest[-1].replace('_', ' '))}"


def amount(path: str, fact: Fact, digits: int) -> str:
    """Return a number of a hardware file with its unit: capacities in GiB, a capacity as it is sold as its label has it.

    Args:
        path: keys of the number, joined by dots, such as `memory.label`.
        fact: the number.
        digits: significant digits.
    """
    if fact.unit == "byte":
        decimal = path.endswith("label") and fact.value % 2**30
        return f"{fact.value / 1e9:g} GB" if decimal else formatting.binary(fact.value, digits)
    symbol = {"byte/s": "B/s"}.get(fact.unit, fact.unit)
    return formatting.quantity(fact.value, symbol, digits) if fact.unit else f"{fact.value:,.0f}"


def _source(source: Any) -> str:
    return " ".join(filter(None, [source.title, source.url, f"({source.read})" if source.read else ""]))


def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME|FILE]...", help="Ids or YAML files. Default: all.")
    ] = None,
    *,
    out: Output,
) -> int:
    """Check hardware files.

    Checks keys, units and sources, and the peak against units x clock. Exits with code 1 if a file is invalid.
    """
    return check_files("hardware", files or [], out)
