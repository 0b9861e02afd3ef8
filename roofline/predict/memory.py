"""Memory of one device: weights, KV cache, activations, and what fits beside them.

Usable memory is what the KV cache may take: capacity x utilisation - weights - activations of the step - reserve. The
cache has two sizes: `mathematical`, the tokens that must be kept, and `allocated`, those tokens in whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from roofline.dtypes import Precision
from roofline.graph import CANONICAL, Graph, Stage, build, caches, stages
from roofline.numeric import Expr, ceil_div, maximum, minimum
from roofline.specs.deployment import Deployment
from roofline.specs.model import Model
from roofline.specs.workload import Segment, Step, tokens

_UNLIMITED = 2**60


@dataclass(frozen=True)
class MemoryModel:
    """What a deployment of a model needs and has, on a device of its fullest stage. `capacity` is in bytes; the limits
    of the engine are resolved (no None)."""

    model: Model
    deployment: Deployment
    precision: Precision
    capacity: float
    utilization: float
    block_size: int
    max_num_batched_tokens: int

    @cached_property
    def stage(self) -> Stage:
        """The stage with the most bytes of weights; of equal ones the last, which computes the LM head as well."""
        all_stages = stages(self.model, self.deployment.pipeline_parallel_size)
        return max(all_stages, key=lambda stage: (self._weights(stage), stage.index))

    def _weights(self, stage: Stage) -> Expr:
        return sum(weights_by_path(build(self.model, self.deployment, self.precision, CANONICAL, stage)).values())

    @cached_property
    def weights_bytes(self) -> float:
        """Bytes of weights that the device holds."""
        return float(self._weights(self.stage))

    @cached_property
    def _layers(self) -> list[tuple[Expr, Expr | None, int]]:
        """Bytes a token, window and number of the layers that keep a cache."""
        found = caches(self.model, self.deployment, self.stage)
        return [(cache.elements * self.precision.kv.bytes, cache.window, count) for cache, count in found]

    @cached_property
    def kv_bytes_per_token(self) -> float:
        """What one more token adds on this device, while it is below every window."""
        return float(sum(size * count for size, _, count in self._layers))

    @property
    def kv_grows(self) -> bool:
        """Whether some layer keeps every token."""
        return any(window is None for _, window, _ in self._layers)

    def kv_bytes(self, length: Expr, *, allocated: bool) -> Expr:
        """Cache of one sequence of `length` tokens, new ones included."""
        return self._kept(length, self.block_size if allocated else 1)

    def _kept(self, length: Expr, block: int) -> Expr:
        total: Expr = 0
        for size, window, count in self._layers:
            kept = length if window is None else minimum(length, window)
            total = total + ceil_div(kept, block) * block * size * count
        return total

    def _shared(self, length: Expr, block: int) -> Expr:
        """Bytes of a sequence's cache that every sequence of the batch has in common, in whole blocks."""
        prefix = self.deployment.conventions.shared_prefix
        total: Expr = 0
        for size, window, count in self._layers:
            left_behind = 0 if window is None else maximum(length - window, 0)
            total = total + maximum(minimum(prefix, length) - left_behind, 0) // block * block * size * count
        return total

    def needed_bytes(self, step: Step, *, allocated: bool = True) -> Expr:
        """Cache of all sequences of one replica after a step (`--shared-prefix` once)."""
        block = self.block_size if allocated else 1
        total: Expr = 0
        for position, segment in enumerate(step):
            count = self._share(segment.count)
            length = segment.cached + segment.new
            total = total + count * self._kept(length, block)
            if self.deployment.conventions.shared_prefix:
                total = total - (count - (1 if position == 0 else 0)) * self._shared(length, block)
        return total

    def _share(self, count: Expr) -> Expr:
        """Sequences of one replica."""
        return ceil_div(count, self.deployment.data_parallel_size)

    def activation_bytes(self, step: Step) -> Expr:
        """Largest working set of a step: the residual stream and what the hungriest operator reads and writes.

        A step of more tokens than the engine puts into one is taken in chunks.
        """
        chunk = tuple(self._chunk(replace(segment, count=self._share(segment.count))) for segment in step)
        graph = build(self.model, self.deployment, self.precision, chunk, self.stage, per_replica=True)
        size = self.precision.activation.bytes
        stream = tokens(chunk) * self.model.hidden_size * size
        peak: Expr = 0
        for operator, _ in graph.values():
            peak = maximum(peak, operator.cost().activation_bytes)
        return stream + peak

    def _chunk(self, segment: Segment) -> Segment:
        """As many of a segment's tokens as one step of the engine takes."""
        new = minimum(segment.new, self.max_num_batched_tokens)
        count = maximum(minimum(segment.count, self.max_num_batched_tokens // new), 1)
        if segment.decode:
            return segment
        return replace(segment, count=count, new=new)

    @property
    def budget_bytes(self) -> float:
        """Bytes of the device that the engine may use."""
        return self.capacity * self.utilization

    def usable_bytes(self, step: Step) -> Expr:
        """Bytes left for the cache in a step; negative where not even the weights fit."""
        return self.budget_bytes - self.weights_bytes - self.activation_bytes(step) - self.deployment.reserve

    def fits(self, step: Step) -> bool:
        """Whether a step fits, for plain numbers."""
        return bool(self.needed_bytes(step) <= self.usable_bytes(step))

    def max_batch(self, context: int) -> int:
        """The largest batch of the whole deployment whose decode step after `context` cached tokens fits; 0: none."""
        replicas = self.deployment.data_parallel_size
        limit = self.deployment.max_num_seqs or _UNLIMITED

        def holds(batch: int) -> bool:
            return self.fits((Segment(batch * replicas, 1, context, decode=True),))

        # Activations are small beside the cache: with one sequence's, the room divided by a sequence is nearly the answer.
        one = (Segment(replicas, 1, context, decode=True),)
        a_sequence = self._kept(context + 1, self.block_size) - self._shared(context + 1, self.block_size)
        guess = int(max(self.usable_bytes(one), 0) // a_sequence) if a_sequence > 0 else 1
        return replicas * largest(holds, limit, guess)

    def max_context(self, batch: int) -> int | None:
        """The most cached tokens with which a decode step of `batch` fits; None: memory sets no limit; 0 with nothing."""
        if not self.fits((Segment(batch, 1, 0, decode=True),)):
            return 0
        if not self.kv_grows:
            widest = max((window for _, window, _ in self._layers if window is not None), default=0)
            if self.fits((Segment(batch, 1, widest, decode=True),)):
                return None
        one = (Segment(batch, 1, 0, decode=True),)
        growing = sum(size * count for size, window, count in self._layers if window is None) * self._share(batch)
        guess = int(self.usable_bytes(one) // growing) if growing else 1
        return largest(lambda context: self.fits((Segment(batch, 1, context, decode=True),)), guess=guess)

    def kv_capacity_tokens(self, step: Step) -> int:
        """Tokens that the caches of all replicas hold together, in whole blocks, at the step's mix of lengths."""
        usable = self.usable_bytes(step)
        length = max(segment.cached + segment.new for segment in step)
        a_sequence = self._kept(length, self.block_size)
        if usable <= 0 or a_sequence == 0:
            return 0
        if all(window is None for _, window, _ in self._layers):
            blocks = int(usable // (self.kv_bytes_per_token * self.block_size))
            tokens_held = blocks * self.block_size
        else:
            tokens_held = int(usable / a_sequence * length)
        return tokens_held * self.deployment.data_parallel_size


def weights_by_path(graph: Graph) -> dict[str, float]:
    """Bytes of weights by the path of the operator that holds them."""
    found = {path: operator.parameters * operator.dtypes.weight.bytes * repeat for path, (operator, repeat) in graph.items()}
    return {path: size for path, size in found.items() if size}


def largest(holds: Callable[[int], bool], limit: int = _UNLIMITED, guess: int = 1) -> int:
    """The largest whole number from 1 to `limit` for which a condition holds that once failed stays failed; 0: none.

    The search starts at `guess` and doubles its step, in the direction that the condition points to.

    >>> largest(lambda n: n * n <= 80), largest(lambda n: True, 7), largest(lambda n: False)
    (8, 7, 0)
    >>> [largest(lambda n: n <= 80, guess=guess) for guess in (1, 79, 80, 81, 500)]
    [80, 80, 80, 80, 80]
    """
    start, step = min(max(guess, 1), limit), 1
    if holds(start):
        low, high = start, start + 1
        while high <= limit and holds(high):
            step *= 2
            low, high = high, high + step
        high = min(high, limit + 1)
    else:
        low, high = start - 1, start
        while low >= 1 and not holds(low):
            step *= 2
            low, high = low - step, low
        low = max(low, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
