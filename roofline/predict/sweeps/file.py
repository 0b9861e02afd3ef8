"""A sweep as a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from roofline import files
from roofline.errors import RooflineError, SpecError
from roofline.predict.sweeps import axes
from roofline.specs.base import Spec, Whole
from roofline.specs.yaml_file import read_yaml


class SweepFile(Spec):
    """The keys of a sweep's file; those of the command have the same names and come before them."""

    schema_version: Literal[1]
    kind: Literal["sweep"]
    grid: dict[str, Any] = Field(description="values by axis: a value, a list, or text such as 1:512:x2")
    columns: tuple[str, ...] | None = Field(default=None, description="answers that are wanted")
    reduce: str | None = Field(default=None, description="what is kept: best, pareto, histogram")
    objectives: tuple[str, ...] = Field(default=(), description="COLUMN:min or COLUMN:max, by which it is kept")
    by: tuple[str, ...] = Field(default=(), description="axes each of whose values has a result of its own")
    ttft: str | None = Field(default=None, description="what a prefill step may take")
    tpot: str | None = Field(default=None, description="what a decode step may take")
    part_rows: Whole | None = Field(default=None, ge=1, description="points of a part")
    ignore_capacity: bool = Field(default=False, description="times of what does not fit, too")


def is_sweep(path: Path) -> bool:
    """Whether a file says that it is a sweep."""
    return path.suffix in (".yaml", ".yml") and files.is_file(path) and read_yaml(path).data.get("kind") == "sweep"


def load_sweep(path: Path) -> SweepFile:
    """A sweep's file, its axes checked.

    Raises:
        SpecError: a wrong key or value, with its place.
    """
    file = read_yaml(path)
    found = file.validate(SweepFile)
    for name, values in found.grid.items():
        try:
            axes.read({"model": "any", "hardware": "any"} | {name: values})
        except RooflineError as error:
            line, column = file.marks.get(("grid", name), (1, 1))
            raise SpecError(str(error), path=path, line=line, column=column) from None
    return found
