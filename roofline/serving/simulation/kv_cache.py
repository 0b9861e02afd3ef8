"""The KV cache of a replica: blocks that are free, taken, and cached for preempted requests.

A sequence that decodes needs another block every `block_size` steps. Sequences that need one at the same step need the next
one at the same step again, so it is enough to count how many need a block at steps of each residue modulo the block size
(`growth`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.serving.simulation.request import Request


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Limits of one replica, named as vLLM names them.

    Args:
        num_gpu_blocks: blocks of its KV cache (KV capacity).
        block_size: tokens per block.
        max_num_seqs: sequences that run at a time.
        max_num_batched_tokens: new tokens per step.
        num_fixed_blocks: blocks of each sequence for what does not grow with its tokens (a state, full windows).
        enable_prefix_caching: a preempted request finds those of its blocks that have not been reallocated meanwhile.
        num_microbatches: microbatches of a step, one per pipeline stage, which have equal parts of the new tokens.
    """

    num_gpu_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int
    num_fixed_blocks: int = 0
    enable_prefix_caching: bool = False
    num_microbatches: int = 1


class KVCacheManager:
    """Counts of blocks. The owners are requests: `num_blocks` of those that do not decode, and `growth` for those that do.

    Args:
        config: the replica's limits.
        watermark: share of the blocks that stays free when a request is admitted.
        preallocates: whether a request has all blocks of its last step from the first (then nothing grows).
    """

    __slots__ = (
        "block_size", "enable_prefix_caching", "growth", "num_fixed_blocks", "num_free_blocks", "num_gpu_blocks",
        "num_pending_blocks", "num_retained_blocks", "num_returned_blocks", "preallocates", "watermark_blocks",
    )  # fmt: skip

    def __init__(self, config: EngineConfig, watermark: float = 0.0, *, preallocates: bool = False) -> None:
        self.num_gpu_blocks = self.num_free_blocks = config.num_gpu_blocks
        self.block_size, self.num_fixed_blocks = config.block_size, config.num_fixed_blocks
        # a state is not found again by the blocks of its prompt
        self.enable_prefix_caching = config.enable_prefix_caching and not config.num_fixed_blocks
        self.watermark_blocks = math.ceil(watermark * config.num_gpu_blocks)
        self.preallocates = preallocates
        self.growth = [0] * config.block_size
        """Sequences that need another block at steps of each residue modulo the block size."""
        self.num_pending_blocks = 0
        """Of requests that ended with the last step: under asynchronous scheduling they are free one step later."""
        self.num_retained_blocks = 0
        """Of requests that have ended while others of their static batch run on."""
        self.num_returned_blocks = 0
        """Given back so far, less those found again: with those in use, how many were ever allocated."""

    def blocks_of(self, num_tokens: int) -> int:
        """Return the number of blocks of a sequence of `num_tokens` cached tokens, fixed ones included."""
        return -(-num_tokens // self.block_size) + self.num_fixed_blocks

    @property
    def num_taken_blocks(self) -> int:
        """Number of blocks that are not free."""
        return self.num_gpu_blocks - self.num_free_blocks

    def free(self, num_blocks: int) -> None:
        """Give a number of blocks back."""
        self.num_free_blocks += num_blocks
        self.num_returned_blocks += num_blocks

    def free_pending(self) -> None:
        """Give back the pending blocks: of requests that ended with the step before the last."""
        self.free(self.num_pending_blocks)
        self.num_pending_blocks = 0

    def free_retained(self) -> None:
        """Give back the retained blocks: of a static batch whose last request has ended."""
        self.num_free_blocks += self.num_retained_blocks
        self.num_retained_blocks = 0

    # Cached blocks of preempted requests

    def admit(self, request: Request, num_blocks: int) -> None:
        """Allocate the blocks of a request that begins to run. Cached ones are not taken from the front of the free blocks."""
        self.num_free_blocks -= num_blocks
        self.num_returned_blocks -= request.num_computed_tokens // self.block_size
        request.num_blocks = num_blocks

    def drop(self, request: Request, num_blocks: int) -> None:
        """Free the blocks of a preempted request, and note until when they can be found again.

        Free blocks are allocated in the order in which they became free, those of one request from its end.
        """
        request.num_cached_blocks = request.num_computed_tokens // self.block_size
        request.cached_until = self.num_returned_blocks + self.num_gpu_blocks + num_blocks - request.num_cached_blocks
        self.free(num_blocks)

    def find_cached(self, request: Request) -> None:
        """Set the computed tokens of a dropped request to those still cached: all tokens but its last are looked for."""
        allocated = self.num_returned_blocks + self.num_taken_blocks
        num_lost = max(allocated - request.cached_until, 0)
        num_blocks = min(max(request.num_cached_blocks - num_lost, 0), (request.num_tokens - 1) // self.block_size)
        request.num_computed_tokens = max(num_blocks * self.block_size, request.num_prefix_tokens)

    # Growth of the sequences that decode

    def blocks_needed(self, step: int, num_steps: int, num_sequences: int) -> int:
        """Return the number of blocks that `num_steps` decode steps of `num_sequences` take, from decode step `step` on.

        >>> cache = KVCacheManager(EngineConfig(10, 4, 8, 16))
        >>> cache.growth = [1, 0, 2, 0]
        >>> cache.blocks_needed(1, 6, 3)  # residues 1 2 3 0 1 2: a whole round, and one and two more
        5
        """
        if self.preallocates:
            return 0
        growth, size = self.growth, self.block_size
        rounds, rest = divmod(num_steps, size)
        needed = rounds * num_sequences
        if rest:
            begin = step % size
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
