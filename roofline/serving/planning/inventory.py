"""An inventory: available accelerators by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from roofline.errors import InputError
from roofline.specs.base import Scalar, Spec
from roofline.specs.library import load_hardware
from roofline.specs.yaml_file import SectionErrors, read_yaml, with_section
from roofline.text import clean
from roofline.units import parse_count

_EXAMPLE = "h100-sxm=16,a100-sxm-80gb=8"


class InventoryFile(Spec):
    """The keys of a file of inventory."""

    schema_version: Literal[1] = 1
    kind: Literal["inventory"] = "inventory"
    inventory: dict[str, Scalar] = Field(description="number available, by accelerator or node")


def parse_inventory(text: str) -> dict[str, int]:
    """Parse accelerators by id from a text such as `h100-sxm=16,a100-sxm-80gb=8`, or from a YAML file of ids and numbers.

    The number of a node counts nodes: `dgx-h100=2` is {"dgx-h100": 16}, in accelerators.

    Raises:
        InputError: an unknown or ambiguous id, a duplicate, an invalid number.

    >>> parse_inventory("h100-sxm=16, dgx-h100=2")
    {'h100-sxm': 16, 'dgx-h100': 16}
    """
    stripped = text.strip()
    if "=" not in stripped and Path(stripped).suffix.lower() in (".yaml", ".yml"):
        return _file(Path(stripped).expanduser())
    accelerators: dict[str, int] = {}
    for part in stripped.split(","):
        name, equals, count = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not count:
            raise InputError(f"cannot read {stripped[:60]!r} as inventory: write ID=COUNT, such as {_EXAMPLE}, or a .yaml file")
        _add(accelerators, name, count)
    return accelerators


def _file(path: Path) -> dict[str, int]:
    file = with_section(read_yaml(path), "inventory", InventoryFile)
    entries = file.validate(InventoryFile).inventory
    if not entries:
        raise SectionErrors(file)("inventory", "at least one accelerator is needed, such as h100-sxm: 16")
    accelerators: dict[str, int] = {}
    for name, count in entries.items():
        try:
            _add(accelerators, name, count)
        except InputError as error:
            raise SectionErrors(file)(("inventory", name), str(error)) from None
    return accelerators


def _add(accelerators: dict[str, int], name: str, count: str) -> None:
    number = parse_count(count, f"the number of {clean(name)}", minimum=1)
    hardware, _ = load_hardware(name)
    if hardware.name in accelerators:
        raise InputError(f"{hardware.name} is there twice: write it once, with the total")
    accelerators[hardware.name] = number * (hardware.node.count if hardware.node else 1)
