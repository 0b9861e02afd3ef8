"""Everything that follows from the controls of a lesson, as plain data. Pages run a translation of this module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.formulas.mathml import spaced
from roofline.report.figure import Table, Tile
from roofline.report.svg import svg
from roofline.teach.lessons.live.edits import Values
from roofline.teach.lessons.live.pictures import picture
from roofline.teach.lessons.live.quantities import operator_value, quantity, tile
from roofline.teach.lessons.live.run import Run, ran, shape, symbols
from roofline.teach.lessons.numbers import amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A formula: which it is, what its symbols stand for, as texts, and what it comes to."""

    key: str
    symbols: tuple[tuple[str, str], ...]
    text: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture and its numbers."""

    key: str
    title: str
    note: str
    svg: str
    table: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a page shows of a state. `shape` says which form of each formula; `note` what a reader has to know first."""

    shape: str
    note: str
    tiles: tuple[Tile, ...]
    formulas: tuple[Filled, ...]
    pictures: tuple[Picture, ...]


def shown(values: Values, block: dict[str, Any]) -> Shown:
    """What follows from the controls; `block` names the tiles, formulas and pictures."""
    run = ran(values)
    memory = run.result.memory
    note = "" if memory.fits else "Does not fit into the memory of the device; the numbers are counted all the same."
    return Shown(
        shape=shape(run),
        note=note,
        tiles=tuple(tile(name, run) for name in block["tiles"]),
        formulas=tuple(filled(key, run) for key in block["formulas"]),
        pictures=tuple(_drawn(name, run) for name in block["pictures"]),
    )


def filled(key: str, run: Run) -> Filled:
    """A formula by its key: a quantity, or `path:part` of an operator of the decode step."""
    found = symbols(run)
    path, _, part = key.partition(":")
    if part != "":
        cost = run.operator(path).cost
        found = {
            **found,
            "F_matrix": cost.matrix_flops,
            "F_vector": cost.vector_flops,
            "D_weights": cost.weight_bytes,
            "D_activations": cost.activation_bytes,
            "D_kv_read": cost.kv_read_bytes,
            "D_kv_write": cost.kv_write_bytes,
            "D": cost.bytes,
        }
        value: float | None = operator_value(part, path, run)
        unit = "FLOP/byte" if part == "arithmetic_intensity" else "FLOP" if part.endswith("flops") else "bytes"
    else:
        known = quantity(key)
        value, unit = known.value(run), known.unit
    text = "no limit" if value is None else amount(value, unit)
    return Filled(key=key, symbols=tuple((name, spaced(number)) for name, number in found.items()), text=text, value=value)


def _drawn(name: str, run: Run) -> Picture:
    made = picture(name, run)
    return Picture(key=made.key, title=made.title, note=made.note, svg=svg(made), table=made.table)
