"""For how long the matrix units and the memory of a device would have been busy at their peaks: what utilisation is made of.

The work of every step, from the runs and chunks that a book has, at the same parts as its seconds (`tables.py`), on grids:
work is affine in tokens and contexts, but for the experts that a step reads, which the grid follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.book import RUN
from roofline.serving.simulation.tables import StepTables, knots
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

WORK = ("matrix", "memory")
_COLUMN = {name: place for place, name in enumerate(RUN)}
_POINTS = 24  # numbers of sequences


@dataclass
class Busy:
    """Seconds of work of the steps of one replica, mean over its pipeline stages."""

    tables: StepTables

    def of(self, runs: Array, chunks: Array) -> dict[str, float]:
        """Of all rows of a book."""
        import numpy as np

        many, steps = runs[:, _COLUMN["sequences"]], runs[:, _COLUMN["steps"]]
        tokens = runs[:, _COLUMN["prompt_tokens"]]
        decode, prompt = many > 0, tokens > 0
        context = runs[decode, _COLUMN["cached"]] / many[decode] + (steps[decode] - 1) / 2
        lanes = self.tables.lanes
        beside = np.ceil(many[prompt] / lanes)
        new, before = chunks.T
        past = before > 0
        found = {}
        for name in WORK:
            at = self._grids[name]
            total = float((_bilinear(at["decode"], many[decode], context) * steps[decode]).sum())
            if prompt.any():
                rest = np.interp(beside + tokens[prompt], *at["rest"])
                rest -= np.where(beside > 0, np.interp(beside, *at["rest"]), 0.0)
                total += float(rest.sum() + np.interp(new, *at["own"]).sum())
            if past.any():
                total += float(_bilinear(at["past"], new[past], before[past]).sum())
            found[name] = total
        return found

    @cached_property
    def _grids(self) -> dict[str, dict[str, Any]]:
        import numpy as np

        tables, lanes = self.tables, self.tables.lanes
        budget = tables.request.memory.max_num_batched_tokens + tables.most
        many = np.unique(np.geomspace(1, max(tables.most, 2), _POINTS).round())
        contexts = np.array(knots(tables.longest, 1.25), dtype=np.float64)
        tokens = np.array([1, 2, 4, 8, *knots(max(budget, tables.longest), 1.05)[1:]], dtype=np.float64)
        at_a_time = np.minimum(lanes, many)[:, None]
        decode = tables.parts.work((Segment(np.ceil(many[:, None] / at_a_time), 1, contexts, decode=True),))
        alone = tables.parts.work((Segment(1, tokens, 0),))
        later = tables.parts.work((Segment(1, tokens[:, None], contexts),))
        found: dict[str, dict[str, Any]] = {}
        for name in WORK:
            whole = sum(part.whole for part in decode[name]) * at_a_time / lanes
            first = np.sum([part.whole for part in later[name]], axis=0)
            found[name] = {
                "decode": (many, contexts, np.broadcast_to(whole, (len(many), len(contexts)))),
                "rest": (tokens, np.broadcast_to(sum(part.rest + part.prompts for part in alone[name]), tokens.shape) / lanes),
                "own": (tokens, np.broadcast_to(sum(part.own for part in alone[name]), tokens.shape) / lanes),
                "past": (tokens, contexts, (first - first[:, :1]) / lanes),
            }  # fmt: skip
        return found


def _bilinear(grid: tuple[Array, Array, Array], x: Array, y: Array) -> Array:
    import numpy as np

    xs, ys, values = grid
    i = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, len(xs) - 2)
    j = np.clip(np.searchsorted(ys, y, side="right") - 1, 0, len(ys) - 2)
    u, v = (x - xs[i]) / (xs[i + 1] - xs[i]), (y - ys[j]) / (ys[j + 1] - ys[j])
    near = values[i, j] * (1 - v) + values[i, j + 1] * v
    far = values[i + 1, j] * (1 - v) + values[i + 1, j + 1] * v
    return np.asarray(near * (1 - u) + far * u)
