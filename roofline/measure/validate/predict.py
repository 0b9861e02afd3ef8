"""The predicted bound of each record, many at once: rows of one structure are one call on arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, RooflineError
from roofline.measure.records.ops import Operators
from roofline.measure.records.read import Refusal, merged
from roofline.measure.records.row_groups import conditions, group_rows, operators_of
from roofline.predict.bounds import times
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import Fits
from roofline.predict.efficiency.forms import forms_by_op
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, by_driver_name, find, load_hardware

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True)
class Predicted:
    """Records with the columns of `bounds` and the estimates, in seconds; and the rows that have no prediction."""

    frame: pd.DataFrame
    refusals: list[Refusal]
    inputs: list[Input]
    of_others: dict[str, int] = field(default_factory=dict)
    """The number of rows of hardware that was not named, by their `gpu`."""


class Library:
    """Hardware by the id that a record carries: shipped, named by the user, or in the hardware.yaml next to the record.

    Args:
        given: ids or files of hardware. If there are any, rows of all other hardware are left out.

    Raises:
        UnknownNameError: if one of them is not known.
        InputError: if one of the files is not hardware.
    """

    def __init__(self, given: tuple[str, ...] = ()) -> None:
        self.inputs: dict[str, Input] = {}
        self._local: dict[Path, Hardware | RooflineError | None] = {}
        self._shipped: dict[str, Hardware | RooflineError] = {}
        self._estimators: dict[tuple[str, str], Estimator] = {}
        self.only = [self._load(name) for name in given]
        self.given = {name: hardware for hardware in self.only for name in _names(hardware)}

    def estimator(self, hardware: Hardware, backend: str) -> Estimator:
        """The estimator of a backend's kernels; a backend without a fit has the hardware's default one.

        Args:
            hardware: what the kernels ran on.
            backend: the name of a backend, or the path of a fit file; empty: the default.
        """
        key = (hardware.name, backend)
        if key not in self._estimators:
            self._estimators[key] = Estimator(Fits(hardware, backend or None, self.inputs), own_host=True)
        return self._estimators[key]

    def _load(self, name: str | Path) -> Hardware:
        hardware, inputs = load_hardware(name)
        self.inputs |= {entry.name: entry for entry in inputs}
        return hardware

    def of(self, gpu: str, file: Path) -> Hardware | None:
        """The hardware of a record; None if the user named other hardware only.

        Args:
            gpu: the column `gpu` of the record. Empty: the only hardware that the user named.
            file: the table of the record, next to which a hardware.yaml may be.

        Raises:
            InputError: if `gpu` is empty or unknown, or the hardware.yaml is wrong.
        """
        if self.only:
            return self.only[0] if not gpu and len(self.only) == 1 else self.given.get(gpu)
        if not gpu:
            raise InputError("gpu is empty: name the hardware there, or with --hardware")
        local = self._in(file.parent)
        if isinstance(local, Hardware) and local.name == gpu:
            return local
        shipped = self._of_id(gpu)
        if isinstance(shipped, Hardware):
            return shipped
        if isinstance(local, RooflineError):
            raise InputError(f"gpu {gpu!r}, of the hardware.yaml beside it: {local}")
        hint = ""
        if local is None and "unknown" in str(shipped):
            hint = " Nor is there a hardware.yaml beside the records, which `roofline bench run --suite ceilings` writes."
        raise InputError(f"gpu: {shipped}{hint}")

    def _in(self, folder: Path) -> Hardware | RooflineError | None:
        """What a folder's hardware.yaml holds, or what is wrong with it."""
        if folder not in self._local:
            path = folder / "hardware.yaml"
            try:
                self._local[folder] = self._load(path) if files.is_file(path) else None
            except RooflineError as error:
                self._local[folder] = error
        return self._local[folder]

    def _of_id(self, gpu: str) -> Hardware | RooflineError:
        if gpu not in self._shipped:
            try:
                name = by_driver_name(gpu) or gpu
                find("hardware", name, abbreviated=False)  # a record of an "h800" need not be of the card whose id begins so
                self._shipped[gpu] = self._load(name)
            except RooflineError as error:
                self._shipped[gpu] = error
        return self._shipped[gpu]


def _names(hardware: Hardware) -> tuple[str, ...]:
    node = (hardware.node.name, *hardware.node.aliases) if hardware.node else ()
    accelerator = hardware.accelerator
    return (*node, accelerator.name, *accelerator.aliases, *accelerator.driver_names)


def predict(frame: pd.DataFrame, library: Library, fit: str | None = None) -> Predicted:
    """Predict records: the bound of every row, and the estimate where a fit applies.

    Args:
        frame: records with the columns of `roofline.measure.records.read`.
        library: finds the hardware of each row.
        fit: a fit file by which all rows are estimated. None: the fit of each row's backend.

    Returns:
        The rows that have a prediction, in the order of `frame`; rows that cannot be predicted are among the refusals.
    """
    import pandas as pd

    parts: list[pd.DataFrame] = []
    predicted = Predicted(frame.iloc[:0], [], [])
    for rows in group_rows(frame):
        first = rows.iloc[0]
        path = Path(first["file"])
        try:
            hardware = library.of(first["gpu"], path)
            if hardware is None:
                predicted.of_others[first["gpu"]] = predicted.of_others.get(first["gpu"], 0) + len(rows)
                continue
            operators = operators_of(rows)
            estimator = library.estimator(hardware, fit or str(first["backend"]))
            parts.append(rows.assign(**bounds(rows, operators, hardware), **_estimates(rows, operators, estimator)))
        except RooflineError as error:
            predicted.refusals.append(Refusal(path, int(first["line"]), str(error), str(error), len(rows)))
    predicted.inputs = list(library.inputs.values())
    predicted.refusals = merged(predicted.refusals)
    if parts:
        predicted.frame = pd.concat(parts).sort_index()
    return predicted


def _sums_in_switch(rows: pd.DataFrame, hardware: Hardware) -> bool:
    """Whether what joins the ranks is a switch that can add what passes it (NVLink SHARP)."""
    world = rows["world"].iloc[0]
    joined = hardware.connection(int(world)) if world > 1 else None
    link = joined.inside if joined is not None else None
    return link is not None and link.name.startswith("NVLink") and link.per_peer is None


def _estimates(rows: pd.DataFrame, operators: Operators, estimator: Estimator) -> dict[str, Any]:
    """The estimate of each row with its interval and the fit it is based on. NaN where no fit is known."""
    import numpy as np

    first, nothing = rows.iloc[0], np.full(len(rows), np.nan)
    op = str(first["op"])
    under = replace(estimator, conditions=conditions(rows))
    if op in forms_by_op():
        whole = {name: operator for name, (operator, _) in operators.items()}
        launched = [Kernel(op, whole, tuple(whole), 1)]
    else:
        launched = kernels(operators)
    stands = [entry for kernel in launched if (entry := under.fitted(kernel)) is not None]
    if not stands:
        return {"estimate_s": nothing, "low_s": nothing, "high_s": nothing, "stands_on": ""}
    whole_row, _ = under.step(launched)
    return {
        "estimate_s": whole_row.seconds + np.zeros(len(rows)),
        "low_s": whole_row.low + np.zeros(len(rows)),
        "high_s": whole_row.high + np.zeros(len(rows)),
        "stands_on": "; ".join(sorted({f"{entry.source} ({entry.origin})" for entry in stands})),
    }


def bounds(rows: pd.DataFrame, operators: Operators, hardware: Hardware) -> dict[str, Any]:
    """The bound of each row of one structure, summed over its operators.

    Args:
        rows: records of one structure (`roofline.measure.records.row_groups.group_rows`).
        operators: theirs (`roofline.measure.records.row_groups.operators_of`).
        hardware: what they were measured on.

    Returns:
        Columns by name, arrays of shape [rows] or one value for all: `bound_s` and `measured_s` in seconds; `floor_s`, the
        bound if activations between operators never reach device memory; `flops` (matrix FLOP), `bytes_moved`, `l2_bytes`;
        `binds`, the resource that binds most of the time (compute, memory or link); `hardware`; `sums_in_switch`.

    Raises:
        RooflineError: if the hardware has no rate for an operator.
    """
    import numpy as np

    shares = {"compute": np.zeros(len(rows)), "memory": np.zeros(len(rows)), "link": np.zeros(len(rows))}
    bound, floor, flops, moved = (np.zeros(len(rows)) for _ in range(4))
    for operator, repeat in operators.values():
        cost = operator.cost() * repeat
        limits = times(operator, cost, hardware)
        longest = limits.bound + np.zeros(len(rows))
        bound += longest
        floor += times(operator, replace(cost, activation_bytes=0), hardware).bound
        flops += cost.matrix_flops
        moved += cost.bytes
        compute = np.maximum(limits.matrix, limits.vector)
        shares["memory"] += np.where(limits.memory >= longest, longest, 0)
        shares["link"] += np.where((limits.link >= longest) & (limits.memory < longest), longest, 0)
        shares["compute"] += np.where((compute >= longest) & (limits.memory < longest) & (limits.link < longest), longest, 0)
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
