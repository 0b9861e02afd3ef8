"""A grid in parts: which points are evaluated together, the same whoever evaluates them and however often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from roofline.predict.sweeps.axes import WORKLOAD
from roofline.predict.sweeps.spec import Sweep


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
        """How many."""
        return (self.batches[1] - self.batches[0]) * (self.lengths[1] - self.lengths[0])


@dataclass(frozen=True, slots=True)
class Part:
    """Boxes that make one file."""

    index: int
    boxes: tuple[Box, ...]

    @property
    def points(self) -> int:
        """How many."""
        return sum(box.points for box in self.boxes)


def outer(sweep: Sweep) -> tuple[str, ...]:
    """Names of the axes before the workload's."""
    return tuple(name for name in sweep.axes if name not in WORKLOAD)


def boxes(sweep: Sweep) -> Iterator[Box]:
    """All points, in the order of the rows, in boxes of at most as many as a part has."""
    most, batches = sweep.part_rows, len(sweep.axes.get("batch", (1,)))
    names = outer(sweep)
    phase = names.index("phase")
    for configuration in product(*(sweep.axes[name] for name in names)):
        lengths = len(sweep.lengths(configuration[phase]))
        if lengths <= most:
            stride = max(most // lengths, 1)
            for start in range(0, batches, stride):
                yield Box(configuration, (start, min(start + stride, batches)), (0, lengths))
        else:
            for batch, start in product(range(batches), range(0, lengths, most)):
                yield Box(configuration, (batch, batch + 1), (start, min(start + most, lengths)))


def parts(sweep: Sweep) -> Iterator[Part]:
    """Boxes gathered, in their order, while a part has room for the next."""
    gathered: list[Box] = []
    points = index = 0
    for box in boxes(sweep):
        if gathered and points + box.points > sweep.part_rows:
            yield Part(index, tuple(gathered))
            gathered, points, index = [], 0, index + 1
        gathered.append(box)
        points += box.points
    if gathered:
        yield Part(index, tuple(gathered))
