"""Hardware that is there: so many accelerators of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from roofline.errors import InputError
from roofline.specs.base import Spec
from roofline.specs.library import load_hardware
from roofline.specs.lifted import lifted
from roofline.specs.places import Places
from roofline.specs.scalar import Scalar
from roofline.specs.yaml_file import read_yaml
from roofline.text import clean
from roofline.units import parse_count

_EXAMPLE = "h100-sxm=16,a100-sxm-80gb=8"


class InventoryFile(Spec):
    """The keys of a file of inventory."""

    schema_version: Literal[1] = 1
    kind: Literal["inventory"] = "inventory"
    inventory: dict[str, Scalar] = Field(description="how many there are, by accelerator or node")


def parse_inventory(text: str) -> dict[str, int]:
    """Accelerators by id, from a text such as `h100-sxm=16,a100-sxm-80gb=8`, or from a YAML file of ids and numbers.

    Of a node, so many nodes are meant: `dgx-h100=2` is {"dgx-h100": 16}, in accelerators.

    Raises:
        InputError: an unknown or ambiguous id, one that stands there twice, a number that is none.

    >>> parse_inventory("h100-sxm=16, dgx-h100=2")
    {'h100-sxm': 16, 'dgx-h100': 16}
    """
    words = text.strip()
    if "=" not in words and Path(words).suffix.lower() in (".yaml", ".yml"):
        return _file(Path(words).expanduser())
    found: dict[str, int] = {}
    for part in words.split(","):
        name, equals, count = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not count:
            raise InputError(f"cannot read {words[:60]!r} as inventory: write ID=COUNT, such as {_EXAMPLE}, or a .yaml file")
        _add(found, name, count)
    return found


def _file(path: Path) -> dict[str, int]:
    file = lifted(read_yaml(path), "inventory", InventoryFile)
    entries = file.validate(InventoryFile).inventory
    if not entries:
        raise Places(file)("inventory", "at least one accelerator is needed, such as h100-sxm: 16")
    found: dict[str, int] = {}
    for name, count in entries.items():
        try:
            _add(found, name, count)
        except InputError as error:
            raise Places(file)(("inventory", name), str(error)) from None
    return found


def _add(found: dict[str, int], name: str, count: str) -> None:
    number = parse_count(count, f"the number of {clean(name)}", minimum=1)
    hardware, _ = load_hardware(name)
    if hardware.name in found:
        raise InputError(f"{hardware.name} stands there twice: write it once, with all there are")
    found[hardware.name] = number * (hardware.node.count if hardware.node else 1)
