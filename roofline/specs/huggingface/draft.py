"""What a family's reader puts together: layers one by one, which become types and patterns of a `Model`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Section = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """One layer as plain data. `name` is that of its type; `rest` are the other keys of a layer type, such as `parallel`."""

    name: str
    mixer: Section | None = None
    mlp: Section | None = None
    rest: Section = field(default_factory=dict)

    def section(self) -> Section:
        """The layer as an entry of `layer_types` in a model's file."""
        parts = {"mixer": self.mixer, "mlp": self.mlp}
        return {**{name: part for name, part in parts.items() if part is not None}, **self.rest}


@dataclass
class Draft:
    """A model without its name, as plain data: its layers one by one, and the `keys` of a model's file that are not layers."""

    layers: list[Layer]
    keys: Section
    notes: list[str] = field(default_factory=list)

    def model(self) -> Section:
        """The keys of a model's file, with `layer_types` and repeated patterns (`layers`) instead of layers one by one.

        Layers of one name that differ get numbered types.
        """
        names: list[str] = []
        types: dict[str, Section] = {}
        for layer in self.layers:
            wanted, name, number = layer.section(), layer.name, 1
            while types.setdefault(name, wanted) != wanted:
                number += 1
                name = f"{layer.name}_{number}"
            names.append(name)
        groups = [{"pattern": pattern, "repeat": repeat} for pattern, repeat in patterns(names)]
        return {**self.keys, "layer_types": types, "layers": groups}


def patterns(names: list[str]) -> list[tuple[list[str], int]]:
    """A sequence of layer types as repeated patterns: (pattern, repeats), in order.

    At each place the pattern whose repeats reach furthest, the shortest of equals.

    >>> patterns(["dense", "moe", "moe", "moe"])
    [(['dense'], 1), (['moe'], 3)]
    >>> patterns(["s", "s", "f", "s", "s", "f", "s"])
    [(['s', 's', 'f'], 2), (['s'], 1)]
    """
    groups: list[tuple[list[str], int]] = []
    start = 0
    while start < len(names):
        best = (1, 1)  # length of the pattern, repeats
        for length in range(1, (len(names) - start) // 2 + 1):
            repeats = 1
            while names[start + repeats * length : start + (repeats + 1) * length] == names[start : start + length]:
                repeats += 1
            if repeats > 1 and length * repeats > best[0] * best[1]:
                best = (length, repeats)
        length, repeats = best
        piece = names[start : start + length]
        if repeats == 1 and groups and groups[-1][1] == 1:
            groups[-1] = (groups[-1][0] + piece, 1)  # what does not repeat stays together
        else:
            groups.append((piece, repeats))
        start += length * repeats
    return groups
