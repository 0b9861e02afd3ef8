"""The KV cache of a replica: blocks that are free and taken, and with prefix caching what they hold (`prefix_cache.py`).

A sequence that decodes needs another block every `block_size` steps. Sequences that need one at the same step need the next
one at the same step again, so it is enough to count how many need a block at steps of each residue modulo the block size
(`growth`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from roofline.serving.queueing.rounds import RoundLengths
from roofline.serving.simulation.prefix_cache import PrefixCache
from roofline.serving.simulation.request import Request


@dataclass(frozen=True, slots=True)
class SpeculativeRounds:
    """Rounds of speculative decoding, as a replica runs them.

    Args:
        lengths: tokens that a sequence gets per round.
        num_lookahead_tokens: further tokens that a sequence has slots for in a round, which the draft writes.
        seed: of the draws.
    """

    lengths: RoundLengths
    num_lookahead_tokens: int = 0
    seed: tuple[int, ...] = (0,)

    @property
    def num_step_tokens(self) -> int:
        """Tokens of a sequence that a round verifies: its next one and the drafted ones."""
        return 1 + self.lengths.num_speculative_tokens


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits of one replica, named as vLLM names them.

    Args:
        num_gpu_blocks: blocks of its KV cache (KV capacity).
        block_size: tokens per block.
        max_num_seqs: sequences that run at a time.
        max_num_batched_tokens: new tokens per step.
        num_fixed_blocks: blocks of each sequence for what does not grow with its tokens (a state, full windows).
        enable_prefix_caching: a request finds the blocks of its prefix that are cached, and a preempted one its own.
        uncached_first: with prefix caching, free blocks without content are taken before cached ones.
        num_microbatches: microbatches of a step, one per pipeline stage, which have equal parts of the new tokens.
        speculation: how tokens are drafted; None: each decode step gives a sequence one token.
    """

    num_gpu_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    num_fixed_blocks: int = 0
    enable_prefix_caching: bool = False
    num_microbatches: int = 1
    uncached_first: bool = False
    speculation: SpeculativeRounds | None = None

    @property
    def caches_prefixes(self) -> bool:
        """Whether blocks stay cached. Not so beside fixed ones: a state is not found again by the blocks of its prompt."""
        return self.enable_prefix_caching and not self.num_fixed_blocks


class KVCacheManager:
    """Counts of blocks. The owners are requests: `num_blocks` of those that do not decode, and `growth` for those that do.

    Args:
        config: the replica's limits.
        watermark: share of the blocks that stays free when a request is admitted.
        preallocates: whether a request has all blocks of its last step from the first (then nothing grows).
    """

    __slots__ = (
        "_pending", "_retained", "block_size", "growth", "max_tokens_per_step", "num_fixed_blocks", "num_free_blocks",
        "num_gpu_blocks", "num_pending_blocks", "num_retained_blocks", "num_slots", "period", "preallocates", "prefixes",
        "watermark_blocks",
    )  # fmt: skip

    def __init__(self, config: EngineConfig, watermark: float = 0.0, *, preallocates: bool = False) -> None:
        self.num_gpu_blocks = self.num_free_blocks = config.num_gpu_blocks
        self.block_size, self.num_fixed_blocks = config.block_size, config.num_fixed_blocks
        self.prefixes: PrefixCache | None = None
        """What the blocks hold. None: they are only counted."""
        if config.caches_prefixes:
            self.prefixes = PrefixCache(config.num_gpu_blocks, config.block_size, uncached_first=config.uncached_first)
        self.watermark_blocks = math.ceil(watermark * config.num_gpu_blocks)
        self.preallocates = preallocates
        self.period = config.block_size
        """Decode steps after which the same sequences need a block again."""
        self.growth: list[int] | Counter[int] = [0] * self.period
        """Blocks that sequences need at steps of each residue modulo the period."""
        self.max_tokens_per_step = self.num_slots = 1
        """Tokens that a sequence gets per decode step, at most; slots beyond its cached tokens that it has in one."""
        self.num_pending_blocks = 0
        """Of requests that ended with the last step: under asynchronous scheduling they are free one step later."""
        self.num_retained_blocks = 0
        """Of requests that have ended while others of their static batch run on."""
        self._pending: list[tuple[Request, int, int]] = []
        self._retained: list[tuple[Request, int, int]] = []
        """With prefix caching: those requests, their blocks, and tokens cached in them."""

    def blocks_of(self, num_tokens: int) -> int:
        """Return the number of blocks of a sequence of `num_tokens` cached tokens, fixed ones included."""
        return -(-num_tokens // self.block_size) + self.num_fixed_blocks

    @property
    def num_taken_blocks(self) -> int:
        """Number of blocks that are not free."""
        return self.num_gpu_blocks - self.num_free_blocks

    # Requests that come and go

    def find_cached(self, request: Request) -> int:
        """Set the computed tokens of a request that waits to those of its blocks that are cached: all tokens but its last are
        looked for.

        Returns:
            How many of the blocks other running requests use: it needs none of its own for them.
        """
        prefixes = self.prefixes
        if prefixes is None or (request.content is None and not request.num_preemptions):
            return 0
        prefixes.settle(self.num_free_blocks)
        num_cached, num_used = prefixes.match(request.text, (request.num_tokens - 1) // self.block_size)
        request.num_computed_tokens = max(num_cached * self.block_size, request.num_prefix_tokens)
        return num_used

    def cached_tokens(self, request: Request, num_taken: int = 0) -> int:
        """Return how many of a request's prompt tokens are in the prefix cache, once `num_taken` more blocks are taken."""
        prefixes = self.prefixes
        if prefixes is None or request.content is None:
            return request.num_prefix_tokens
        prefixes.settle(self.num_free_blocks - num_taken)
        num_cached, _ = prefixes.match(request.content, (request.num_prompt_tokens - 1) // self.block_size)
        return max(num_cached * self.block_size, request.num_prefix_tokens)

    def admit(self, request: Request, num_blocks: int, num_new_tokens: int) -> None:
        """Allocate the blocks of a request that begins to run with some new tokens; cached ones that others use are shared."""
        request.num_blocks = num_blocks
        if not request.num_preemptions:
            request.num_hit_tokens = request.num_computed_tokens
        prefixes = self.prefixes
        if prefixes is None:
            self.num_free_blocks -= num_blocks
            return
        num_cached = request.num_computed_tokens // self.block_size
        if request.content is not None or request.num_preemptions:
            prefixes.settle(self.num_free_blocks)
            num_matched = min(num_cached, prefixes.match(request.text, num_cached)[0])
            request.node, num_taken = prefixes.acquire(request.text, num_matched)
            self.num_free_blocks -= num_taken + num_blocks - num_matched
        else:
            self.num_free_blocks -= num_blocks
        self.register(request, request.num_computed_tokens + num_new_tokens)

    def register(self, request: Request, num_tokens: int) -> None:
        """Let others find the full blocks of a request's first `num_tokens` tokens, which the step that is formed computes."""
        if request.content is not None and self.prefixes is not None:
            request.node = self.prefixes.extend(request.content, request.node, num_tokens // self.block_size)

    def register_received(self, request: Request, num_tokens: int) -> None:
        """Let others find the full blocks of a request's first `num_tokens` tokens, which have arrived from elsewhere."""
        if self.prefixes is not None:
            self.prefixes.settle(self.num_free_blocks)
            self.register(request, num_tokens)

    def free(self, request: Request, num_blocks: int, num_tokens: int, *, ended: bool = False) -> None:
        """Free the blocks of a request that leaves with `num_tokens` tokens cached; with prefix caching they can be found again
        until they are taken."""
        prefixes = self.prefixes
        if prefixes is None:
            self.num_free_blocks += num_blocks
            return
        prefixes.settle(self.num_free_blocks)
        content = request.content if ended else request.text
        num_full = num_tokens // self.block_size
        if request.node is not None and request.node.end > num_full:
            request.node = prefixes.withdraw(request.node, num_full)
        self.num_free_blocks += prefixes.release(content, request.node, num_blocks, num_full)
        request.node = None

    def retain(self, request: Request, num_blocks: int, num_tokens: int) -> None:
        """Note the blocks of a request that has ended, which are kept until its static batch has."""
        self.num_retained_blocks += num_blocks
        if self.prefixes is not None:
            self._retained.append((request, num_blocks, num_tokens))

    def free_later(self, request: Request, num_blocks: int, num_tokens: int) -> None:
        """Note the blocks of a request that ended with the last step, which are free one step later."""
        self.num_pending_blocks += num_blocks
        if self.prefixes is not None:
            self._pending.append((request, num_blocks, num_tokens))

    def free_pending(self) -> None:
        """Free the pending blocks: of requests that ended with the step before the last."""
        if self.prefixes is None:
            self.num_free_blocks += self.num_pending_blocks
        elif self._pending:
            for request, num_blocks, num_tokens in self._pending:
                self.free(request, num_blocks, num_tokens, ended=True)
            self._pending.clear()
        self.num_pending_blocks = 0

    def free_retained(self) -> None:
        """Free the retained blocks: of a static batch whose last request has ended."""
        if self.prefixes is None:
            self.num_free_blocks += self.num_retained_blocks
        else:
            for request, num_blocks, num_tokens in self._retained:
                self.free(request, num_blocks, num_tokens, ended=True)
            self._retained.clear()
        self.num_retained_blocks = 0

    # Growth of the sequences that decode

    def final_blocks(self, request: Request) -> int:
        """Return the number of blocks of a request in its last step, if nothing is preempted."""
        more = self.num_slots - 1 if request.max_tokens > 1 else 0
        return self.blocks_of(request.max_cached_tokens + more)

    def start_growth(self, request: Request, *, resumed: bool = False) -> None:
        """Note that a request decodes from the next step on; `resumed`: it has the blocks of that step."""
        self.growth[-request.cache_offset % self.block_size] += 1

    def stop_growth(self, request: Request, num_steps: int, *, allocated: bool) -> int:
        """Note that a request has ended, or is preempted, after `num_steps` decode steps of the replica; `allocated`: the next
        step's blocks are allocated.

        Returns:
            How many blocks it has.
        """
        self.growth[-request.cache_offset % self.block_size] -= 1
        return self.blocks_held(request, num_steps, allocated=allocated)

    def blocks_held(self, request: Request, num_steps: int, *, allocated: bool) -> int:
        """Return the number of blocks of a request that decodes; same arguments."""
        num_tokens = request.cache_offset + num_steps + allocated
        return -(-num_tokens // self.block_size) + self.num_fixed_blocks  # `blocks_of`

    def blocks_needed(self, step: int, num_steps: int, num_sequences: int) -> int:
        """Return the number of blocks that `num_steps` decode steps of `num_sequences` take, from decode step `step` on.

        >>> cache = KVCacheManager(EngineConfig(10, 4, 8, 16))
        >>> cache.growth = [1, 0, 2, 0]
        >>> cache.blocks_needed(1, 6, 3)  # residues 1 2 3 0 1 2: a whole round, and one and two more
        5
        """
        if self.preallocates:
            return 0
        growth: list[int] = self.growth  # type: ignore[assignment]  # `SpeculativeKVCache` has a method of its own
        size = self.block_size
        begin = step % size
        end = begin + num_steps
        if end <= size:
            return sum(growth[begin:end])
        rounds, rest = divmod(num_steps, size)
        needed = rounds * num_sequences
        if rest:
            end = begin + rest
            needed += sum(growth[begin:end])
            if end > size:
                needed += sum(growth[: end - size])
        return needed

    def steps_until_short(self, step: int, num_steps: int, num_sequences: int) -> int:
        """Return the number of decode steps, at most `num_steps`, that the free blocks last for.

        Args:
            step: the first decode step, whose blocks are allocated already.
            num_steps: maximum number of steps.
            num_sequences: sequences that decode; at least 1.

        >>> cache = KVCacheManager(EngineConfig(2, 4, 8, 16))
        >>> cache.growth = [1, 0, 2, 0]
        >>> cache.steps_until_short(0, 9, 3)  # residues 1 2 3 take two blocks; residue 0 wants one more
        4
        """
        growth, size = self.growth, self.block_size
        rounds, free = divmod(self.num_free_blocks, num_sequences)  # every sequence needs one in `block_size` steps
        steps = 1 + rounds * size
        while steps < num_steps and (short := growth[(step + steps) % size]) <= free:
            free -= short
            steps += 1
        return min(num_steps, steps)
