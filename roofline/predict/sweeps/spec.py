"""A sweep: a grid, what is wanted of each point, and what is kept of the points."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.predict.columns import column
from roofline.predict.sweeps import axes
from roofline.predict.sweeps.keep import Keep
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_hardware
from roofline.version import DATA_VERSION, SCHEMA_VERSION, __version__

PART_ROWS = 1_000_000
"""Points that are evaluated, and written, at a time."""
PLAIN = (
    "time_bound_s", "time_estimate_s", "time_low_s", "time_high_s", "tokens_per_s", "tokens_per_s_estimate",
    "tokens_per_s_per_device_estimate", "arithmetic_intensity", "memory_bytes", "fits", "bound_by",
)  # fmt: skip
THROUGH = ("step_bound_s", "step_estimate_s", "step_low_s", "step_high_s")
"""Times through all pipeline stages, told where there is more than one."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A question about many points, with its files read. Plain data: it can be sent to other processes and machines."""

    axes: dict[str, tuple[Any, ...]]
    """Values by axis, in the order of the rows; models and hardware by name."""
    columns: tuple[str, ...]
    part_rows: int = PART_ROWS
    ignore_capacity: bool = False
    keep: Keep | None = None
    """What is kept of the points; None: all of them."""
    named: bool = False
    """Whether the columns were asked for by name."""
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
        keep: Keep | None = None,
    ) -> Sweep:
        """Read a grid and the files that it names.

        Raises:
            roofline.errors.RooflineError: an unknown axis, column, model or hardware, a value that is none.
        """
        found = axes.read(grid)
        models, hardware = (
            _named(found[name], load, kind)
            for name, load, kind in (("model", load_model, Model), ("hardware", load_hardware, Hardware))
        )
        named = {"model": models, "hardware": hardware}
        for name, loaded in named.items():
            found[name] = tuple(loaded)
        for phase in keep.limits if keep is not None else ():
            if phase not in found["phase"]:
                flag = {"prefill": "ttft", "decode": "tpot"}[phase]
                raise InputError(f"{flag} is of {phase} steps, and the grid has none: give the phase {phase}, or both")
        if part_rows < 1:
            raise InputError(f"parts of {part_rows} rows: at least 1 is needed")
        inputs: list[Input] = []
        for loaded in named.values():
            for _, files in loaded.values():
                inputs += files
        return cls(
            axes=found,
            columns=_columns(columns, found, keep),
            part_rows=part_rows,
            ignore_capacity=ignore_capacity,
            keep=keep,
            named=columns is not None,
            models={name: spec for name, (spec, _) in models.items()},
            hardware={name: spec for name, (spec, _) in hardware.items()},
            inputs=tuple({(entry.role, entry.name): entry for entry in inputs}.values()),
        )

    @property
    def points(self) -> int:
        """Points of the grid, those that cannot be included."""
        outer = prod(len(values) for name, values in self.axes.items() if name not in ("phase", *axes.WORKLOAD))
        batches = len(self.axes.get("batch", (1,)))
        return outer * batches * sum(len(self.lengths(phase)) for phase in self.axes["phase"])

    def lengths(self, phase: str) -> tuple[int, ...]:
        """Tokens of a prompt (prefill) or in the cache (decode)."""
        prompts = self.axes.get("input_len", (1024,))
        return prompts if phase == "prefill" else self.axes.get("context", prompts)

    def describe(self) -> dict[str, Any]:
        """The question as plain data, by which the same question is known again."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "data_version": DATA_VERSION,
            "inputs": {entry.role: {"name": entry.name, "sha256": entry.sha256} for entry in self.inputs},
            "grid": {name: list(values) for name, values in self.axes.items()},
            "columns": list(self.columns),
            "part_rows": self.part_rows,
            "ignore_capacity": self.ignore_capacity,
            "reduce": None if self.keep is None else self.keep.describe(),
        }

    @cached_property
    def digest(self) -> str:
        """A hash of the question."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()


def _named(values: tuple[Any, ...], load: Any, kind: type) -> dict[str, tuple[Any, list[Input]]]:
    """Specs by their names, with the files that they were read from."""
    found: dict[str, tuple[Any, list[Input]]] = {}
    for value in values:
        if value is None:
            raise InputError(f"a {kind.__name__.lower()} must have a name")
        spec, read = (value, []) if isinstance(value, kind) else load(value)
        if spec.name in found:
            raise InputError(f"{value} is {spec.name}, which the grid has already")
        files = [read] if isinstance(read, Input) else list(read)
        found[spec.name] = (spec, [Input(f"{entry.role} {entry.name}", *_rest(entry)) for entry in files])
    return found


def _rest(entry: Input) -> tuple[str, str, str]:
    return entry.name, entry.path, entry.sha256


def _columns(wanted: Iterable[str] | None, grid: Mapping[str, tuple[Any, ...]], keep: Keep | None) -> tuple[str, ...]:
    """Names of columns, checked, with those that a reduction needs."""
    stages = any(value not in (None, 1) for value in grid.get("pp", ()))
    names = list(PLAIN + (THROUGH if stages else ())) if wanted is None else list(wanted)
    for name in names:
        column(name)
    if keep is not None:
        names += keep.needs
    return tuple(dict.fromkeys(names))
