"""A sweep: a grid, its columns, and how its points are reduced; cut into parts, and as a YAML file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from roofline import files
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.documents import envelope
from roofline.errors import InputError, RooflineError, SpecError
from roofline.predict.grid import column
from roofline.predict.sweeps import axes
from roofline.predict.sweeps.axes import WORKLOAD
from roofline.predict.sweeps.reduce import Reduction
from roofline.specs.base import Spec, Whole
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_hardware, split_count
from roofline.specs.yaml_file import read_yaml

PART_ROWS = 1_000_000
"""Points that are evaluated, and written, at a time."""
PLAIN = (
    "time_floor_s", "time_bound_s", "time_estimate_s", "time_low_s", "time_high_s", "tokens_per_s", "tokens_per_s_estimate",
    "tokens_per_s_per_device_estimate", "arithmetic_intensity", "memory_bytes", "fits", "bound_by",
)  # fmt: skip
THROUGH = ("step_bound_s", "step_estimate_s", "step_low_s", "step_high_s")
"""Times through all pipeline stages, shown where there is more than one."""


@dataclass(frozen=True, slots=True)
class Box:
    """Points of one configuration: some batches with some lengths."""

    configuration: tuple[Any, ...]
    """Values of the axes before the workload's."""
    batches: tuple[int, int]
    """From and to which of the axis's values."""
    lengths: tuple[int, int]

    @property
    def points(self) -> int:
        """Return the number of points."""
        return (self.batches[1] - self.batches[0]) * (self.lengths[1] - self.lengths[0])


@dataclass(frozen=True, slots=True)
class Part:
    """Boxes that make one file."""

    index: int
    boxes: tuple[Box, ...]

    @property
    def points(self) -> int:
        """Return the number of points."""
        return sum(box.points for box in self.boxes)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A grid of points, with its files read. Plain data: it can be sent to other processes and machines."""

    axes: dict[str, tuple[Any, ...]]
    """Values by axis, in the order of the rows; models and hardware by name."""
    columns: tuple[str, ...]
    part_rows: int = PART_ROWS
    ignore_capacity: bool = False
    reduction: Reduction | None = None
    """How the points are reduced; None: all of them are kept."""
    named: bool = False
    """Whether the columns were given by name."""
    models: dict[str, Model] = field(default_factory=dict)
    hardware: dict[str, Hardware] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()

    @classmethod
    def of(
        cls,
        grid: Mapping[str, Any],
        *,
        columns: Iterable[str] | None = None,
        part_rows: int = PART_ROWS,
        ignore_capacity: bool = False,
        reduction: Reduction | None = None,
    ) -> Sweep:
        """Read a grid and the files that it names.

        Raises:
            roofline.errors.RooflineError: an unknown axis, column, model or hardware, a value that is none.
        """
        values = axes.read(grid)
        models, hardware = (
            _named_specs(values[name], load, kind)
            for name, load, kind in (("model", load_model, Model), ("hardware", load_hardware, Hardware))
        )
        named = {"model": models, "hardware": hardware}
        for name, loaded in named.items():
            values[name] = tuple(loaded)
        for phase in reduction.limits if reduction is not None else ():
            if phase not in values["phase"]:
                flag = {"prefill": "ttft", "decode": "tpot"}[phase]
                raise InputError(f"{flag} is of {phase} steps, and the grid has none: give the phase {phase}, or both")
        if part_rows < 1:
            raise InputError(f"parts of {part_rows} rows: at least 1 is needed")
        inputs: list[Input] = []
        for loaded in named.values():
            for _, read in loaded.values():
                inputs += read
        return cls(
            axes=values,
            columns=_columns(columns, values, reduction),
            part_rows=part_rows,
            ignore_capacity=ignore_capacity,
            reduction=reduction,
            named=columns is not None,
            models={name: spec for name, (spec, _) in models.items()},
            hardware={name: spec for name, (spec, _) in hardware.items()},
            inputs=tuple({(entry.role, entry.name): entry for entry in inputs}.values()),
        )

    @property
    def points(self) -> int:
        """Return the number of points of the grid, including those that cannot be."""
        outer = prod(len(values) for name, values in self.axes.items() if name not in ("phase", *WORKLOAD))
        batches = len(self.axes.get("batch", (1,)))
        return outer * batches * sum(len(self.lengths(phase)) for phase in self.axes["phase"])

    def lengths(self, phase: str) -> tuple[int, ...]:
        """Return the tokens per prompt (phase "prefill") or in the cache of a sequence (phase "decode")."""
        prompts = self.axes.get("input_len", (1024,))
        return prompts if phase == "prefill" else self.axes.get("context", prompts)

    @property
    def outer_axes(self) -> tuple[str, ...]:
        """Return the names of the axes before the workload's, which make a configuration."""
        return tuple(name for name in self.axes if name not in WORKLOAD)

    def boxes(self) -> Iterator[Box]:
        """Return all points in the order of the rows, in boxes of at most `part_rows` points."""
        most, batches = self.part_rows, len(self.axes.get("batch", (1,)))
        names = self.outer_axes
        phase = names.index("phase")
        for configuration in product(*(self.axes[name] for name in names)):
            lengths = len(self.lengths(configuration[phase]))
            if lengths <= most:
                stride = max(most // lengths, 1)
                for start in range(0, batches, stride):
                    yield Box(configuration, (start, min(start + stride, batches)), (0, lengths))
            else:
                for batch, start in product(range(batches), range(0, lengths, most)):
                    yield Box(configuration, (batch, batch + 1), (start, min(start + most, lengths)))

    def parts(self) -> Iterator[Part]:
        """Return the grid in parts: boxes in their order, up to `part_rows` points each; the same at every call."""
        boxes: list[Box] = []
        points = index = 0
        for box in self.boxes():
            if boxes and points + box.points > self.part_rows:
                yield Part(index, tuple(boxes))
                boxes, points, index = [], 0, index + 1
            boxes.append(box)
            points += box.points
        if boxes:
            yield Part(index, tuple(boxes))

    def describe(self) -> dict[str, Any]:
        """Return the sweep as plain data, by which the same sweep is recognised."""
        return {
            **envelope({entry.role: {"name": entry.name, "sha256": entry.sha256} for entry in self.inputs}),
            "grid": {name: list(values) for name, values in self.axes.items()},
            "columns": list(self.columns),
            "part_rows": self.part_rows,
            "ignore_capacity": self.ignore_capacity,
            "reduce": None if self.reduction is None else self.reduction.describe(),
        }

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 digest of the description, in hexadecimal."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()


def _named_specs(values: tuple[Any, ...], load: Any, kind: type) -> dict[str, tuple[Any, list[Input]]]:
    """Specs by their names, with the files that they were read from."""
    specs: dict[str, tuple[Any, list[Input]]] = {}
    for value in values:
        if value is None:
            raise InputError(f"a {kind.__name__.lower()} must have a name")
        count, single = split_count(value) if kind is Hardware else (None, value)
        spec, read = (value, []) if isinstance(value, kind) else load(single)
        name = spec.name if count is None else f"{count}x{spec.name}"
        if name in specs:
            raise InputError(f"{value} is {name}, which the grid has already")
        files = [read] if isinstance(read, Input) else list(read)
        specs[name] = (spec, [Input(f"{entry.role} {entry.name}", *_rest(entry)) for entry in files])
    return specs


def _rest(entry: Input) -> tuple[str, str, str]:
    return entry.name, entry.path, entry.sha256


def _columns(wanted: Iterable[str] | None, grid: Mapping[str, tuple[Any, ...]], reduction: Reduction | None) -> tuple[str, ...]:
    """Names of columns, checked, with those that a reduction needs."""
    stages = any(value not in (None, 1) for value in grid.get("pp", ()))
    names = list(PLAIN + (THROUGH if stages else ())) if wanted is None else list(wanted)
    for name in names:
        column(name)
    if reduction is not None:
        names += reduction.needs
    return tuple(dict.fromkeys(names))


class SweepFile(Spec):
    """The keys of a sweep's file; those of the command have the same names and come before them."""

    schema_version: Literal[1]
    kind: Literal["sweep"]
    grid: dict[str, Any] = Field(description="values by axis: a value, a list, or text such as 1:512:x2")
    columns: tuple[str, ...] | None = Field(default=None, description="answers that are wanted")
    reduce: str | None = Field(default=None, description="what is kept: best, pareto, histogram")
    objectives: tuple[str, ...] = Field(default=(), description="COLUMN:min or COLUMN:max, by which it is kept")
    by: tuple[str, ...] = Field(default=(), description="axes with one result per value")
    ttft: str | None = Field(default=None, description="what a prefill step may take")
    tpot: str | None = Field(default=None, description="what a decode step may take")
    part_rows: Whole | None = Field(default=None, ge=1, description="points of a part")
    ignore_capacity: bool = Field(default=False, description="times of what does not fit, too")


def is_sweep_file(path: Path) -> bool:
    """Return whether a file is YAML of the kind "sweep".

    Raises:
        SpecError: the file is no YAML that can be read.
    """
    return path.suffix in (".yaml", ".yml") and files.is_file(path) and read_yaml(path).data.get("kind") == "sweep"


def load_sweep_file(path: Path) -> SweepFile:
    """Return the content of a sweep's file, its axes checked.

    Raises:
        SpecError: a wrong key or value, with its place.
    """
    file = read_yaml(path)
    sweep = file.validate(SweepFile)
    for name, values in sweep.grid.items():
        try:
            axes.read({"model": "any", "hardware": "any"} | {name: values})
        except RooflineError as error:
            line, column = file.marks.get(("grid", name), (1, 1))
            raise SpecError(str(error), path=path, line=line, column=column) from None
    return sweep
