"""For how long the matrix units and the memory of a device are busy at their peaks.

The work of every step, from the runs and chunks of a log, by the same formulas as its seconds (`step_tables.py`), on grids:
work is affine in tokens and contexts, but for the experts that a step reads, which the grid follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.step_log import RUN
from roofline.serving.simulation.step_tables import StepTables, knots
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

RESOURCES = ("matrix", "memory")
_COLUMN = {name: place for place, name in enumerate(RUN)}
_POINTS = 24  # numbers of sequences


@dataclass
class Utilization:
    """Seconds at the peaks for the steps of one replica, mean over its pipeline stages."""

    tables: StepTables

    def seconds(self, runs: Array, chunks: Array) -> dict[str, float]:
        """Return the seconds at the peak of each of `RESOURCES`, for all rows of a log (columns `RUN` and `CHUNK`)."""
        import numpy as np

        sequences, steps = runs[:, _COLUMN["sequences"]], runs[:, _COLUMN["steps"]]
        tokens = runs[:, _COLUMN["prompt_tokens"]]
        decode, prompt = sequences > 0, tokens > 0
        context = runs[decode, _COLUMN["cached"]] / sequences[decode] + (steps[decode] - 1) / 2
        decodes = np.ceil(sequences[prompt] / self.tables.num_microbatches)
        new, before = chunks.T
        past = before > 0
        at_peak = {}
        for name in RESOURCES:
            grids = self._grids[name]
            total = float((_bilinear(grids["decode"], sequences[decode], context) * steps[decode]).sum())
            if prompt.any():
                rest = np.interp(decodes + tokens[prompt], *grids["rest"])
                rest -= np.where(decodes > 0, np.interp(decodes, *grids["rest"]), 0.0)
                total += float(rest.sum() + np.interp(new, *grids["own"]).sum())
            if past.any():
                total += float(_bilinear(grids["past"], new[past], before[past]).sum())
            at_peak[name] = total
        return at_peak

    @cached_property
    def _grids(self) -> dict[str, dict[str, Any]]:
        import numpy as np

        tables, stages = self.tables, self.tables.num_microbatches
        budget = tables.request.memory.max_num_batched_tokens + tables.max_num_seqs
        sequences = np.unique(np.geomspace(1, max(tables.max_num_seqs, 2), _POINTS).round())
        contexts = np.array(knots(tables.max_model_len, 1.25), dtype=np.float64)
        tokens = np.array([1, 2, 4, 8, *knots(max(budget, tables.max_model_len), 1.05)[1:]], dtype=np.float64)
        microbatches = np.minimum(stages, sequences)[:, None]
        batch = np.ceil(sequences[:, None] / microbatches)
        decode = tables.costs.utilization((Segment(batch, 1, contexts, decode=True),))
        alone = tables.costs.utilization((Segment(1, tokens, 0),))
        later = tables.costs.utilization((Segment(1, tokens[:, None], contexts),))
        grids: dict[str, dict[str, Any]] = {}
        for name in RESOURCES:
            whole = sum(parts.total for parts in decode[name]) * microbatches / stages
            first = np.sum([parts.total for parts in later[name]], axis=0)
            shared = sum(parts.rest + parts.prompts for parts in alone[name])
            grids[name] = {
                "decode": (sequences, contexts, np.broadcast_to(whole, (len(sequences), len(contexts)))),
                "rest": (tokens, np.broadcast_to(shared, tokens.shape) / stages),
                "own": (tokens, np.broadcast_to(sum(parts.own for parts in alone[name]), tokens.shape) / stages),
                "past": (tokens, contexts, (first - first[:, :1]) / stages),
            }
        return grids


def _bilinear(grid: tuple[Array, Array, Array], x: Array, y: Array) -> Array:
    import numpy as np

    xs, ys, values = grid
    i = np.clip(np.searchsorted(xs, x, side="right") - 1, 0, len(xs) - 2)
    j = np.clip(np.searchsorted(ys, y, side="right") - 1, 0, len(ys) - 2)
    u, v = (x - xs[i]) / (xs[i + 1] - xs[i]), (y - ys[j]) / (ys[j + 1] - ys[j])
    near = values[i, j] * (1 - v) + values[i, j + 1] * v
    far = values[i + 1, j] * (1 - v) + values[i + 1, j + 1] * v
    return np.asarray(near * (1 - u) + far * u)
