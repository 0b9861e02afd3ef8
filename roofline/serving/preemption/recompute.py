"""Recomputation: the evicted tokens go through the model again as a prompt, alone or with a running batch.

An engine takes a prompt in chunks of at most `max_num_batched_tokens`, less the tokens that are decoded in the same step. A
chunk of c tokens after s cached ones adds T(batch, c@s) - T(batch) to its step; alone that is the step itself. The sum over
chunks is the wait of the running sequences, and of the evicted one.

Simulation needs thousands of lengths: `seconds` uses a table. It has every length up to 512, and then the first and the last of
every 64 tokens of each chunk, where the tiles of matrix products begin and end; it interpolates linearly between these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.predict.compiled import Compiled
from roofline.predict.floor import floors, latency
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import pipeline
from roofline.serving.queueing.replica import BOUND, ESTIMATE, step_seconds
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_STRIDE, _FEW = 64, 512
_TABLE = 2**20
"""Tokens of a chunk up to which there is a table; longer chunks are computed each time."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """One recomputation: its seconds, their bound and 80 % interval (None without an estimate), and its number of steps."""

    seconds: float
    bound: float
    low: float | None
    high: float | None
    steps: int

    @property
    def time_s(self) -> float:
        """Seconds."""
        return self.seconds


@dataclass(frozen=True)
class Recompute:
    """Seconds to recompute evicted tokens, by their number.

    Args:
        request: the deployment.
        batch: sequences of the whole deployment that run meanwhile; 0: none.
        context: cached tokens of each of them.
        prefix: tokens of the sequence that stay cached before the evicted ones.
    """

    request: ResolvedRequest
    batch: int = 0
    context: int = 0
    prefix: int = 0
    _rows: list[tuple[list[float], list[float]]] = field(default_factory=list, repr=False, compare=False)
    _before: list[float] = field(default_factory=lambda: [0.0], repr=False, compare=False)

    @property
    def basis(self) -> str:
        """Basis of times: "estimate" if kernels of this hardware were measured, else "bound"."""
        return ESTIMATE if self.request.estimator.applies else BOUND

    @cached_property
    def budget(self) -> int:
        """Tokens of the sequence per step: `max_num_batched_tokens` less those of the running batch.

        Raises:
            InputError: the running batch leaves none.
        """
        most = self.request.memory.max_num_batched_tokens
        left = most - self._running_per_replica
        if left < 1:
            msg = f"--batch {self.batch} leaves none of the {most:,} tokens of a step (--max-num-batched-tokens) to a prompt"
            raise InputError(msg)
        return left

    @property
    def _running_per_replica(self) -> int:
        """Sequences that run on one replica meanwhile."""
        return -(-self.batch // self.request.deployment.data_parallel_size)

    def steps(self, tokens: int) -> int:
        """Number of steps that compute `tokens` tokens."""
        return -(-tokens // self.budget)

    def seconds(self, tokens: int) -> float:
        """Seconds to recompute `tokens` tokens, by the table: within 2 % of `exact` (median 0.1 %).

        Raises:
            InputError: the running batch fills the steps.
        """
        if tokens < 1:
            return 0.0
        if tokens > _TABLE and self.budget > _TABLE:
            return self.exact(tokens)
        whole, rest = divmod(tokens - 1, self.budget)
        if whole >= len(self._rows):
            self._extend(max(whole + 1, 2 * len(self._rows)))
        if tokens <= len(self._few):
            return self._few[tokens - 1]
        tile, within = divmod(rest + self._shift, _STRIDE)
        if tile == 0:
            within -= self._shift
        start, end = self._rows[whole][0][tile], self._rows[whole][1][tile]
        width = self._widths[tile]
        return self._before[whole] + (start + (end - start) * within / width if width else start)

    def exact(self, tokens: int, basis: str | None = None) -> float:
        """Seconds to recompute `tokens` tokens, chunk by chunk; `basis`: "bound", "estimate" or None, the default."""
        import numpy as np

        whole, rest = divmod(tokens - 1, self.budget)
        new = np.append(np.full(whole, float(self.budget)), rest + 1.0)
        return float(self._added(new, np.arange(whole + 1.0) * self.budget)[basis or self.basis].sum())

    def estimate(self, tokens: int) -> Recomputed:
        """Seconds to recompute `tokens` tokens with their 80 % interval.

        The interval of several chunks is that of the first and the last, relative to their time. It starts at the floor or
        above; with a batch at the bound: a difference of floors is no floor, since the batch's step may hide the prompt.
        """
        bound = self.exact(tokens, BOUND)
        if self.basis == BOUND:
            return Recomputed(bound, bound, None, None, self.steps(tokens))
        seconds = max(self.exact(tokens), bound)  # with a batch it is a difference, which may be less than that of the bounds
        whole, rest = divmod(tokens - 1, self.budget)
        ends = [(rest + 1, whole * self.budget), *([(self.budget, 0)] if whole else [])]
        spans = [pipeline(self._timed, self._step(new, self.prefix + cached)) for new, cached in ends]
        total = sum(span.estimate or 0.0 for span in spans)
        low = sum(span.low or 0.0 for span in spans) / total
        high = sum(span.high or 0.0 for span in spans) / total
        least = bound if self.batch else self._floor(tokens)
        return Recomputed(seconds, bound, max(seconds * low, least), seconds * high, self.steps(tokens))

    def _floor(self, tokens: int) -> float:
        """Seconds that nothing beats, chunk by chunk, without a batch."""
        import numpy as np

        whole, rest = divmod(tokens - 1, self.budget)
        new = np.append(np.full(whole, float(self.budget)), rest + 1.0)
        cached = self.prefix + np.arange(whole + 1.0) * self.budget
        step = (Segment(1.0, new, cached),)
        return float(np.sum(np.broadcast_to(latency(floors(self._timed, step)), new.shape)))

    @cached_property
    def _timed(self) -> ResolvedRequest:
        """The deployment whose steps are timed. NB: with a batch every sequence reads a shared prefix for itself: both
        steps have what the batch reads of it, and the difference counts."""
        conventions = self.request.deployment.conventions
        if not (self.batch and conventions.shared_prefix):
            return self.request
        alone = conventions.model_copy(update={"shared_prefix": 0})
        return replace(self.request, deployment=self.request.deployment.model_copy(update={"conventions": alone}))

    def _step(self, new: Any, cached: Any) -> Step:
        prompt = Segment(1, new, cached)
        return (self._running, prompt) if self.batch else (prompt,)

    @property
    def _running(self) -> Segment:
        return Segment(self.batch, 1, self.context, decode=True)

    def _added(self, new: Array, cached: Array) -> dict[str, Array]:
        """Seconds that chunks add to their steps."""
        prompt = Segment(1.0, new, cached + self.prefix)  # counts of arrays are floats: equal segments are not looked for
        step = (Segment(float(self.batch), 1, self.context, decode=True), prompt) if self.batch else (prompt,)
        seconds = step_seconds(Compiled(self._timed, "prefill"), step, self._running_per_replica + 1)
        if not self.batch:
            return seconds
        return {name: seconds[name] - alone for name, alone in self.alone.items()}

    @cached_property
    def alone(self) -> dict[str, float]:
        """Seconds of the running batch's step without a prompt, by basis."""
        seconds = step_seconds(Compiled(self._timed, "decode"), (self._running,), self._running_per_replica)
        return {name: float(value) for name, value in seconds.items()}

    @property
    def _shift(self) -> int:
        """Rows of the first tile that the running sequences fill."""
        return self._running_per_replica % _STRIDE

    @cached_property
    def _ends(self) -> tuple[Array, Array]:
        """First and last lengths between which a chunk's time is taken to be linear."""
        import numpy as np

        most = min(self.budget, _TABLE)
        first = np.append(1.0, np.arange(_STRIDE - self._shift + 1.0, most + 1, _STRIDE))
        return first, np.append(first[1:] - 1, most)

    @cached_property
    def _widths(self) -> list[int]:
        first, last = self._ends
        return [int(width) for width in last - first]

    @cached_property
    def _few(self) -> list[float]:
        """Every length up to a few hundred: experts are read one by one, so that short chunks have steps."""
        import numpy as np

        new = np.arange(1.0, min(_FEW, self.budget) + 1)
        return [float(value) for value in np.broadcast_to(self._added(new, np.zeros(1))[self.basis], new.shape)]

    def _extend(self, chunks: int) -> None:
        """More chunks of the table."""
        import numpy as np

        budget, known = self.budget, len(self._rows)
        first, last = self._ends
        new = np.concatenate([first, last])
        cached = np.arange(known, chunks, dtype=float)[:, None] * budget
        added = np.broadcast_to(self._added(new, cached)[self.basis], (chunks - known, len(new)))
        for row in added:
            self._rows.append((row[: len(first)].tolist(), row[len(first) :].tolist()))
            self._before.append(self._before[-1] + float(row[-1]))
