"""The predicted bound of each record, many at once: rows of one structure are one call on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, RooflineError
from roofline.predict.bounds import times
from roofline.records.check import Refusal, merged
from roofline.records.columns import COLUMNS
from roofline.records.formats import dtypes
from roofline.records.ops import Call, registry
from roofline.records.ops.base import Operators
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, by_driver_name, load_hardware

if TYPE_CHECKING:
    import pandas as pd

# What is structure in a formula: the same for all rows of a call.
_STRUCTURE = ["file", "gpu", "op", "dtype", "kv_dtype", "distribution", "kernel", "world"]
_COUNTS = tuple(name for name, column in COLUMNS.items() if column.kind == "count")
# Columns that a rule looks at where they are filled: rows with and without one are calls of their own.
_OPTIONAL = sorted({name for rule in registry().values() for name in rule.optional})


@dataclass(slots=True)
class Predicted:
    """Records with their predictions: `bound_s`, `flops`, `bytes_moved`, `binds`, `l2_bytes`; rows that have none."""

    frame: pd.DataFrame
    refusals: list[Refusal]
    inputs: list[Input]
    of_others: dict[str, int] = field(default_factory=dict)
    """Rows of hardware that was not asked for, by their `gpu`."""


class Library:
    """Hardware by the id that a record carries: shipped, given by the user, or in the hardware.yaml beside the record."""

    def __init__(self, given: tuple[str, ...] = ()) -> None:
        self.inputs: dict[str, Input] = {}
        self._beside: dict[Path, Hardware | RooflineError | None] = {}
        self._shipped: dict[str, Hardware | RooflineError] = {}
        self.only = [self._load(name) for name in given]
        self.given = {name: hardware for hardware in self.only for name in _names(hardware)}

    def _load(self, name: str | Path) -> Hardware:
        hardware, inputs = load_hardware(name)
        self.inputs |= {entry.name: entry for entry in inputs}
        return hardware

    def of(self, gpu: str, file: Path) -> Hardware | None:
        """Hardware of that id; None where the user named other hardware only. One that was named stands for rows that name
        none."""
        if self.only:
            return self.only[0] if not gpu and len(self.only) == 1 else self.given.get(gpu)
        if not gpu:
            raise InputError("gpu is empty: name the hardware there, or with --hardware")
        beside = self._in(file.parent)
        if isinstance(beside, Hardware) and beside.name == gpu:
            return beside
        shipped = self._of_id(gpu)
        if isinstance(shipped, Hardware):
            return shipped
        if isinstance(beside, RooflineError):
            raise InputError(f"gpu {gpu!r}, of the hardware.yaml beside it: {beside}")
        hint = ""
        if beside is None and "unknown" in str(shipped):
            hint = " Nor is there a hardware.yaml beside the records, which `roofline bench run --suite ceilings` writes."
        raise InputError(f"gpu: {shipped}{hint}")

    def _in(self, folder: Path) -> Hardware | RooflineError | None:
        """What a folder's hardware.yaml holds, or what is wrong with it."""
        if folder not in self._beside:
            path = folder / "hardware.yaml"
            try:
                self._beside[folder] = self._load(path) if path.is_file() else None
            except RooflineError as error:
                self._beside[folder] = error
        return self._beside[folder]

    def _of_id(self, gpu: str) -> Hardware | RooflineError:
        if gpu not in self._shipped:
            try:
                self._shipped[gpu] = self._load(by_driver_name(gpu) or gpu)
            except RooflineError as error:
                self._shipped[gpu] = error
        return self._shipped[gpu]


def _names(hardware: Hardware) -> tuple[str, ...]:
    node = (hardware.node.name, *hardware.node.aliases) if hardware.node else ()
    accelerator = hardware.accelerator
    return (*node, accelerator.name, *accelerator.aliases, *accelerator.driver_names)


def predict(frame: pd.DataFrame, library: Library) -> Predicted:
    """The bound of every row that has one."""
    import pandas as pd

    parts: list[pd.DataFrame] = []
    found = Predicted(frame.iloc[:0], [], [])
    for rows in alike(frame):
        first = rows.iloc[0]
        path = Path(first["file"])
        try:
            hardware = library.of(first["gpu"], path)
            if hardware is None:
                found.of_others[first["gpu"]] = found.of_others.get(first["gpu"], 0) + len(rows)
                continue
            parts.append(rows.assign(**bounds(rows, hardware)))
        except RooflineError as error:
            found.refusals.append(Refusal(path, int(first["line"]), str(error), str(error), len(rows)))
    found.inputs = list(library.inputs.values())
    found.refusals = merged(found.refusals)
    if parts:
        found.frame = pd.concat(parts).sort_index()
    return found


def alike(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Rows of one structure."""
    keys: list[Any] = [frame[name] for name in _STRUCTURE] + [(frame["window"] > 0).rename("windowed")]
    keys += [frame[name].notna().rename(f"has_{name}") for name in _OPTIONAL]
    for _, rows in frame.groupby(keys, dropna=False, sort=False, observed=True):
        yield rows


def call(rows: pd.DataFrame) -> Call:
    """What a rule sees of rows of one structure: arrays of the columns that are filled in all of them."""
    first = rows.iloc[0]
    filled = [name for name in _COUNTS if rows[name].notna().all()]
    numbers: dict[str, Any] = {name: rows[name].to_numpy() for name in filled}
    if "world" in numbers:
        numbers["world"] = int(first["world"])
    if not first["window"] > 0:
        numbers.pop("window", None)
    texts = {name: str(first[name]) for name in ("distribution", "kernel")}
    return Call(dtypes(first["dtype"], first["kv_dtype"]), numbers, texts)


def _sums_in_switch(rows: pd.DataFrame, hardware: Hardware) -> bool:
    """Whether what joins the ranks is a switch that can add what passes it (NVLink SHARP)."""
    world = rows["world"].iloc[0]
    joined = hardware.connection(int(world)) if world > 1 else None
    link = joined.inside if joined is not None else None
    return link is not None and link.name.startswith("NVLink") and link.per_peer is None


def of_rows(rows: pd.DataFrame) -> Operators:
    """The operators of rows of one structure."""
    return registry()[str(rows["op"].iloc[0])].operators(call(rows))


def bounds(rows: pd.DataFrame, hardware: Hardware) -> dict[str, Any]:
    """Sums over the operators of each row: seconds at least (`floor_s`: also if activations between operators never reach
    device memory), FLOP, bytes, and the resource that binds most of the time."""
    import numpy as np

    operators = of_rows(rows)
    shares = {"compute": np.zeros(len(rows)), "memory": np.zeros(len(rows)), "link": np.zeros(len(rows))}
    bound, floor, flops, moved = (np.zeros(len(rows)) for _ in range(4))
    for operator, repeat in operators.values():
        cost = operator.cost() * repeat
        busy = times(operator, cost, hardware)
        longest = busy.bound + np.zeros(len(rows))
        bound += longest
        floor += times(operator, replace(cost, activation_bytes=0), hardware).bound
        flops += cost.matrix_flops
        moved += cost.bytes
        compute = np.maximum(busy.matrix, busy.vector)
        shares["memory"] += np.where(busy.memory >= longest, longest, 0)
        shares["link"] += np.where((busy.link >= longest) & (busy.memory < longest), longest, 0)
        shares["compute"] += np.where((compute >= longest) & (busy.memory < longest) & (busy.link < longest), longest, 0)
    names = np.array(list(shares))
    l2 = hardware.accelerator.l2
    return {
        "hardware": hardware.name,
        "bound_s": bound,
        "floor_s": floor if len(operators) > 1 else bound,
        "flops": flops,
        "bytes_moved": moved,
        "binds": names[np.argmax(np.stack(list(shares.values())), axis=0)],
        "l2_bytes": l2.value if l2 else float("nan"),
        "sums_in_switch": _sums_in_switch(rows, hardware),
        "measured_s": rows["latency_us"].to_numpy() * 1e-6,
    }
