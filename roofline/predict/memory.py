"""Memory of one device: weights, KV cache, recurrent state, activations, and what fits beside them.

Usable memory is what cache and state may take: capacity x utilisation - weights - activations of the step - reserve. The
cache has two sizes: `mathematical`, the tokens that must be kept, and `allocated`, those tokens in whole blocks. So has
the state, which every sequence has, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

from roofline.blocks.base import Cache
from roofline.blocks.model import Model
from roofline.dtypes import FP32, Precision, parse_dtype
from roofline.graph.build import CANONICAL, Graph, build
from roofline.graph.sharding import Stage, cache_kinds, caches, stages, states, stream_tokens
from roofline.numeric import Expr, ceil_div, maximum, minimum, plus
from roofline.predict.allocation import Allocation, Layers, allocation
from roofline.specs.deployment import Deployment
from roofline.specs.engine import KvCacheRules
from roofline.specs.workload import Segment, Step

UNLIMITED = 2**60


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A model in a deployment, and the limits of its engine, all resolved (no None). `capacity` is the bytes of device memory,
    `utilization` the fraction of it that the engine uses, `block_size` the tokens of a cache block.
    """

    model: Model
    deployment: Deployment
    precision: Precision
    capacity: float
    utilization: float
    block_size: int
    max_num_batched_tokens: int
    rules: KvCacheRules
    share_of: str = "all"
    """What `utilization` is a share of (`roofline.specs.engine.MemoryShare`)."""

    @property
    def budget_bytes(self) -> float:
        """Return the bytes per device that the engine may use: all of them, if its share is of what is left for caches."""
        return self.capacity if self.share_of == "free" else self.capacity * self.utilization

    def left_bytes(self, weights: Expr, activations: Expr) -> Expr:
        """Return the bytes that an engine has for caches and states; negative where not even the weights fit.

        Its share of memory is of all that a device holds (vLLM), of weights and caches, beside which activations have to fit
        (SGLang), or of what weights and activations leave (TensorRT-LLM).

        Args:
            weights: bytes of all weights on the device.
            activations: bytes of the largest working set of a step.
        """
        free = self.capacity - weights - activations - self.deployment.reserve
        if self.share_of == "free":
            return free * self.utilization
        if self.share_of == "static":
            return minimum(self.budget_bytes - weights - self.deployment.reserve, free)
        return self.budget_bytes - weights - activations - self.deployment.reserve

    @property
    def block_tokens(self) -> int:
        """Return the tokens of a sequence per block: one block on each of the devices that divide its tokens."""
        return self.block_size * self.deployment.context_parallel_size * self.deployment.decode_context_parallel_size


@dataclass(frozen=True, kw_only=True)
class StageMemory(Setting):
    """The memory that one device of a pipeline stage has, and what is stored in it."""

    stage: Stage

    @cached_property
    def weights_bytes(self) -> float:
        """Return the bytes of weights on the device."""
        graph = build(self.model, self.deployment, self.precision, CANONICAL, self.stage)
        return float(sum(weights_by_path(graph).values()))

    @property
    def tower_bytes(self) -> float:
        """Return the bytes of vision and audio towers on the device: in the first stage, divided by tensor parallelism.

        Source: vLLM, `--mm-encoder-tp-mode weights`, its default. Towers are in the dtype of the model, also of quantised ones.
        """
        parameters = sum(self.model.towers.values()) if self.stage.first else 0
        return float(parameters * parse_dtype(self.model.dtype).bytes) / self.deployment.tensor_parallel_size

    @property
    def loaded_bytes(self) -> float:
        """Bytes of all weights on the device."""
        return self.weights_bytes + self.tower_bytes

    def own_cache_share(self, length: int) -> float:
        """Of the cache of a sequence of some length, the share that is the model's own."""
        return 1.0

    @cached_property
    def _caches(self) -> list[tuple[Cache, int]]:
        return caches(self.model, self.deployment, self.stage)

    @cached_property
    def kv_bytes_per_token(self) -> float:
        """Return the cache bytes that one more token adds on this device while it is below every window, without rounding to
        blocks; the
        mean, where a cache entry stands for several tokens.
        """
        return float(sum(cache.per_token * count for cache, count in self._caches) * self.precision.kv.bytes)

    @property
    def _kv_grows(self) -> bool:
        """Whether some layer keeps every token."""
        return any(kind.window is kind.chunk is None for kind in self.layout.kinds)

    @cached_property
    def layout(self) -> Allocation:
        """Return how the engine lays out the stage's caches and recurrent states."""
        recurrent = states(self.model, self.deployment, self.stage)
        held = [(float(state.bytes(self.precision, allocated=True)), count) for state, count in recurrent]
        layers = [
            Layers(
                self._of_a_token(cache),
                count,
                window=None if cache.chunked else cache.window,
                chunk=cache.window if cache.chunked else None,
                ratio=cache.ratio,
            )
            for cache, count in self._caches
        ]
        return allocation(layers, held, self.rules, self.block_tokens, cache_kinds(self.model), self.max_num_batched_tokens)

    @property
    def layouts(self) -> tuple[Allocation, ...]:
        """Return the layouts of all caches that a block of the stage holds."""
        return (self.layout,)

    @property
    def plain(self) -> bool:
        """Return whether the engine stores exactly the tokens counted: all of them, in blocks of one size, nothing else."""
        block = self.layout.block
        return block is not None and self.layout.bytes(0, block) == self.kv_bytes_per_token * block

    def _of_a_token(self, cache: Cache) -> float:
        """Bytes of a token (or entry) in a layer's cache, as the engine keeps it."""
        kv, rules = self.precision.kv, self.rules
        size = float((cache.elements - cache.index) * kv.bytes)
        if kv.name == "fp8" and rules.sparse_latent_fp8_bytes is not None and "indexer" in cache_kinds(self.model):
            size = rules.sparse_latent_fp8_bytes
        return size + float(cache.index * (rules.indexer_element_bytes or kv.bytes))

    def kv_bytes(self, length: Expr, *, allocated: bool) -> Expr:
        """Return the cache bytes of one sequence on this device.

        Args:
            length: tokens, the newest of which was decoded; a number or an array.
            allocated: whether tokens are rounded up to whole blocks, as the engine lays them out.
        """
        if allocated:
            return self._sequence_bytes(length - 1, 1) - self.layout.state_bytes
        total: Expr = 0
        for cache, count in self._caches:
            total = total + cache.retained(length) * cache.elements * self.precision.kv.bytes * count
        return total

    def _sequence_bytes(self, cached: Expr, new: Expr) -> Expr:
        """Bytes that a sequence holds in a step: of the tokens in it, or of as many as it may have where they are reserved."""
        if self._reserved and self.deployment.max_model_len is not None:
            cached, new = self.deployment.max_model_len - 1, 1
        return self.layout.bytes(cached, new)

    @property
    def _reserved(self) -> bool:
        """Whether all memory of caches is taken when the engine starts."""
        return self.rules.reserves == "context"

    def state_bytes(self, *, allocated: bool) -> float:
        """Return the bytes of recurrent state of one sequence on this device.

        Args:
            allocated: whether as the engine lays it out; otherwise in fp32, as transformers does, unless the format was given.
        """
        if allocated:
            return self.layout.state_bytes
        # NB: recurrent state is fp32 in the layout of transformers, whatever an engine makes of it
        exact = self.precision if self.deployment.mamba_ssm_cache_dtype else replace(self.precision, state=FP32)
        recurrent = states(self.model, self.deployment, self.stage)
        return float(sum(state.bytes(exact, allocated=False) * count for state, count in recurrent))

    def needed_bytes(self, step: Step) -> Expr:
        """Return the bytes of caches (`--shared-prefix` once) and states of all sequences of one replica in a step, on this
        device.

        A prompt of more tokens than the engine puts into one step is looked at in its last chunk, before which most is cached.

        Args:
            step: segments with counts of the whole deployment; numbers or arrays.
        """
        total: Expr = 0
        common: Expr = 0
        if self._reserved:
            longest = max(segment.cached + segment.new for segment in step)
            slots = self.deployment.max_num_seqs or sum(self._share(segment.count) for segment in step)
            return slots * self._sequence_bytes(longest - 1, 1)
        for segment in step:
            count = self._share(segment.count)
            new = minimum(segment.new, self.max_num_batched_tokens)
            cached = segment.cached + segment.new - new
            total = plus(total, count * self.layout.bytes(cached, new))
            if prefix := self.deployment.conventions.shared_prefix:
                shared = self.layout.shared(minimum(prefix, segment.cached), cached)
                total, common = total - count * shared, maximum(common, shared)
        return plus(total, common)

    def _share(self, count: Expr) -> Expr:
        """Sequences of one replica."""
        return ceil_div(count, self.deployment.data_parallel_size)

    def activation_bytes(self, step: Step) -> Expr:
        """Return the bytes of the largest working set of a step: the residual stream, and inputs and outputs of the largest
        operator.

        A step of more tokens than the engine puts into one is taken in chunks, of which the last, with the most tokens
        cached before it, is looked at.

        Args:
            step: segments with counts of the whole deployment; numbers or arrays.
        """
        # Searches and what is told of their results ask for the same few steps. A float may equal a whole number, but gives
        # another type; arrays have no hash.
        plain = all(type(number) is int for segment in step for number in (segment.count, segment.new, segment.cached))
        if plain and step in self._activations:
            return self._activations[step]
        stream, graph = self.working_set(step)
        peak: Expr = 0
        for operator, _ in graph.values():
            peak = maximum(peak, operator.activation_bytes)
        if plain:
            self._activations[step] = stream + peak
        return stream + peak

    @cached_property
    def _activations(self) -> dict[Step, Expr]:
        """Bytes by step, of steps of whole numbers."""
        return {}

    def working_set(self, step: Step) -> tuple[Expr, Graph]:
        """Return the bytes of the residual stream in the last chunk of a step, and the operators of that chunk."""
        share = tuple(replace(segment, count=self._share(segment.count)) for segment in step)
        chunk = _last_chunk(share, self.max_num_batched_tokens)
        graph = build(self.model, self.deployment, self.precision, chunk, self.stage, per_replica=True)
        return stream_tokens(chunk, self.deployment) * self.model.stream_width * self.precision.activation.bytes, graph

    def usable_bytes(self, step: Step) -> Expr:
        """Return the bytes left for cache and state in a step; negative where not even the weights fit."""
        return self.left_bytes(self.loaded_bytes, self.activation_bytes(step))

    def budget_of(self, step: Step) -> float:
        """Return the bytes per device that the engine may use in a step of plain numbers, activations among them."""
        if self.share_of == "all":
            return self.budget_bytes
        held = self.loaded_bytes + float(self.activation_bytes(step)) + self.deployment.reserve
        return held + float(self.usable_bytes(step))

    def fits(self, step: Step) -> bool:
        """Return whether a step of plain numbers fits on this device."""
        return bool(self.needed_bytes(step) <= self.usable_bytes(step))

    def kv_capacity_tokens(self, step: Step) -> int:
        """Return the tokens that the caches of all replicas hold together, in whole blocks, if all sequences are as long as
        the longest
        of the step.
        """
        usable = self.usable_bytes(step)
        length = max(segment.cached + segment.new for segment in step)
        a_sequence = self.layout.bytes(length - 1, 1)
        if usable <= 0 or a_sequence == 0:
            return 0
        if block := self.layout.block:
            tokens_held = int(usable // sum(kind.block_bytes for kind in self.layout.kinds)) * block
        else:
            tokens_held = int(usable / a_sequence * length)
        return tokens_held * self.deployment.data_parallel_size

    def max_batch(self, context: int) -> int:
        """Return the largest batch of the whole deployment whose decode step fits on this stage; 0: none.

        Args:
            context: tokens cached per sequence before the step.
        """
        replicas = self.deployment.data_parallel_size
        limit = self.deployment.max_num_seqs or UNLIMITED

        def holds(batch: int) -> bool:
            return self.fits((Segment(batch * replicas, 1, context, decode=True),))

        # Activations are small next to the cache: with one sequence's, the memory left divided by a sequence is nearly the
        # result.
        one = (Segment(replicas, 1, context, decode=True),)
        a_sequence = self.layout.bytes(context, 1) - self.layout.shared(self.deployment.conventions.shared_prefix, context)
        guess = int(max(self.usable_bytes(one), 0) // a_sequence) if a_sequence > 0 else 1
        return replicas * largest(holds, limit, guess)

    def max_context(self, batch: int) -> int | None:
        """Return the largest number of cached tokens with which a decode step fits on this stage.

        Args:
            batch: sequences of the whole deployment.

        Returns:
            Tokens per sequence before the step; 0 where not even one without cache fits, None where memory sets no limit.
        """
        if not self.fits((Segment(batch, 1, 0, decode=True),)):
            return 0
        if not self._kv_grows:
            widest = max((kind.window or kind.chunk or 0 for kind in self.layout.kinds), default=0)
            if self.fits((Segment(batch, 1, widest, decode=True),)):
                return None
        one = (Segment(batch, 1, 0, decode=True),)
        unseen = [kind for kind in self.layout.kinds if kind.window is kind.chunk is None]
        growing = sum(kind.block_bytes / kind.block / (kind.ratio or 1) for kind in unseen) * self._share(batch)
        states_too = self.state_bytes(allocated=True) * self._share(batch)
        guess = int((self.usable_bytes(one) - states_too) // growing) if growing else 1
        return largest(lambda context: self.fits((Segment(batch, 1, context, decode=True),)), guess=guess)


@dataclass(frozen=True, kw_only=True)
class MemoryModel(Setting):
    """The memory of a whole deployment: every pipeline stage has to hold its part."""

    @cached_property
    def stages(self) -> tuple[StageMemory, ...]:
        """Return the stages that differ, first to last; equal ones in the middle are listed once."""
        differing = {}
        for stage in stages(self.model, self.deployment.pipeline_parallel_size):
            differing[stage.layers, stage.first, stage.last] = stage
        own = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return tuple(StageMemory(stage=stage, **own) for stage in differing.values())

    @cached_property
    def fullest_stage(self) -> StageMemory:
        """Return the stage with the most bytes of weights; of equal ones the last, which computes the LM head as well. Work
        and times are
        shown for one of its devices.
        """
        return max(self.stages, key=lambda part: (part.weights_bytes, part.stage.index))

    @property
    def stage(self) -> Stage:
        """Return the layers of the fullest stage."""
        return self.fullest_stage.stage

    def tightest(self, step: Step) -> StageMemory:
        """Return the stage with the least memory left in a step of plain numbers."""
        return max(self.stages, key=lambda part: part.needed_bytes(step) - part.usable_bytes(step))

    def fits(self, step: Step) -> bool:
        """Return whether a step of plain numbers fits on every stage."""
        return all(part.fits(step) for part in self.stages)

    def max_batch(self, context: int) -> int:
        """Return the largest batch whose decode step fits.

        Args:
            context: tokens cached per sequence before the decode step.

        Returns:
            Sequences of the whole deployment; 0 where not one fits, `UNLIMITED` or more where memory sets no limit.
        """
        return min(part.max_batch(context) for part in self.stages)

    def max_context(self, batch: int) -> int | None:
        """Return the longest context whose decode step fits.

        Args:
            batch: sequences of the whole deployment.

        Returns:
            Tokens cached before the decode step; 0 where even an empty cache does not fit, None where memory sets no limit.
        """
        limits = [limit for part in self.stages if (limit := part.max_context(batch)) is not None]
        return min(limits, default=None)


def _last_chunk(step: Step, budget: int) -> Step:
    """The last of the chunks in which an engine takes a step, each of at most `budget` tokens: every decoded token, as
    many whole prompts as fit, and the end of one more. Counts may be arrays.

    >>> [str(segment) for segment in _last_chunk((Segment(8, 4097, 0),), 8192)]
    ['1x4097@0', '1x4095@2']
    >>> [str(segment) for segment in _last_chunk((Segment(32, 1, 100, decode=True), Segment(1, 9000, 0)), 8192)]
    ['32x1@100', '1x8160@840']
    >>> [str(segment) for segment in _last_chunk((Segment(2, 3000, 0), Segment(2, 1500, 7)), 8192)]  # 2,192 are left
    ['2x3000@0', '1x1500@7', '1x692@815']
    """
    segments = [segment for segment in step if segment.decode]
    left = maximum(budget - sum(segment.tokens for segment in segments), 1)
    for segment in (segment for segment in step if not segment.decode):
        whole = minimum(segment.count, left // segment.new)
        left = left - whole * segment.new
        end = minimum(segment.new, left) * minimum(segment.count - whole, 1)
        left = left - end
        segments += [replace(segment, count=whole), Segment(minimum(end, 1), end, segment.cached + segment.new - end)]
    return tuple(segment for segment in segments if not _empty(segment))


def _empty(segment: Segment) -> bool:
    return any(isinstance(number, int) and number == 0 for number in (segment.count, segment.new))


def weights_by_path(graph: Graph) -> dict[str, float]:
    """Return the bytes of weights per device by operator path, all repeats together; without operators that hold none."""
    sizes = {path: operator.held_bytes * repeat for path, (operator, repeat) in graph.items()}
    return {path: size for path, size in sizes.items() if size}


def largest(holds: Callable[[int], bool], limit: int = UNLIMITED, guess: int = 1) -> int:
    """Return the largest whole number from 1 to `limit` for which a condition holds; 0: none.

    Args:
        holds: the condition; once it fails for a number, it fails for all larger ones.
        limit: the largest number tried.
        guess: where the search starts; its step doubles from there.

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
