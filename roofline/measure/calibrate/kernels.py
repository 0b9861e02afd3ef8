"""Measured kernels of one family, ready to be predicted many at once by a form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.measure.records.calls import alike, call
from roofline.measure.records.columns import COLUMNS
from roofline.measure.records.conditions import of_rows as conditions
from roofline.measure.records.ops import registry
from roofline.operators.base import Operator
from roofline.predict.efficiency.form import Chip, Conditions, Form, Values

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]


# Dimensions that say how a step is counted, not what was measured; rows of a table are not all read.
_CONVENTIONS = ("shared_prefix", "prefix_reads", "entries")


@dataclass(frozen=True)
class Rows:
    """Rows of one structure: one call of a form on arrays."""

    frame: pd.DataFrame
    operators: dict[str, Operator]
    conditions: Conditions


@dataclass(frozen=True)
class Kernels:
    """Measured kernels of one family (op, formats, backend) on one chip."""

    op: str
    chip: Chip
    parts: tuple[Rows, ...]

    @cached_property
    def measured(self) -> Array:
        """Seconds."""
        import numpy as np

        return np.concatenate([part.frame["latency_us"].to_numpy(dtype=float) * 1e-6 for part in self.parts])

    @cached_property
    def shapes(self) -> list[str]:
        """Which shape each row has."""
        return [shape for part in self.parts for shape in shapes(self.op, part.frame)]

    def predicted(self, form: Form, values: Values) -> Array:
        """Seconds by a form."""
        import numpy as np

        return np.concatenate(
            [
                form.seconds(part.operators, self.chip, part.conditions, values) + np.zeros(len(part.frame))
                for part in self.parts
            ]
        )

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The smallest and the largest value of each dimension of the first operator."""
        import numpy as np

        found: dict[str, tuple[float, float]] = {}
        for part in self.parts:
            for name, value in next(iter(part.operators.values())).dims().items():
                if name in _CONVENTIONS:
                    continue
                low, high = float(np.min(value)), float(np.max(value))
                had = found.get(name, (low, high))
                found[name] = (min(low, had[0]), max(high, had[1]))
        return found

    def of(self, keep: Array) -> Kernels:
        """The rows for which `keep`, in the order of `measured`, holds."""
        return kernels(self.frame()[keep], self.chip)

    def thinned(self, most: int) -> Kernels:
        """At most so many rows, drawn at random: always the same ones."""
        import numpy as np

        count = len(self.measured)
        if count <= most:
            return self
        keep = np.zeros(count, dtype=bool)
        keep[np.random.default_rng(count).choice(count, most, replace=False)] = True
        return self.of(keep)

    def frame(self) -> pd.DataFrame:
        """The rows in the order of `measured`."""
        import pandas as pd

        return pd.concat([part.frame for part in self.parts], ignore_index=True)


def shapes(op: str, frame: pd.DataFrame) -> list[str]:
    """The shape of each row, as text."""
    names = registry()[op].shape
    columns = [frame[name].astype("string").fillna("-") for name in names]
    return ["/".join(values) for values in zip(*columns, strict=True)]


def once(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a point: where a point was measured several times, the median of its times.

    Of messages between devices it is the fastest: records do not say whether ranks were in one node or in two, and the slower
    of two ways is then another way, not noise.
    """
    keys = [name for name in COLUMNS if name in frame and not name.startswith(("latency", "counters", "notes"))]
    if not frame.duplicated(keys).any():
        return frame
    grouped = frame.groupby(keys, dropna=False, sort=False, observed=True)
    first = frame.drop_duplicates(keys).copy()
    messages = first["world"].notna().any()
    first["latency_us"] = (grouped["latency_us"].min() if messages else grouped["latency_us"].median()).to_numpy()
    return first


def kernels(frame: pd.DataFrame, chip: Chip) -> Kernels:
    """Rows of one op on one chip as kernels. `frame` has the columns of `roofline.measure.records.read`."""
    return Kernels(str(frame["op"].iloc[0]), chip, tuple(_parts(frame)))


def _parts(frame: pd.DataFrame) -> Iterator[Rows]:
    for part in alike(frame):
        first = part.iloc[0]
        operators = registry()[str(first["op"])].operators(call(part))
        found = {name: operator for name, (operator, _) in operators.items()}
        yield Rows(part, found, conditions(part))
