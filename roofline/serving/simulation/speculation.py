"""Speculative decoding in a replica: a decode step is a round, which gives each sequence one or more tokens.

The number of rounds that a request decodes for is drawn when it begins to, from its exact distribution (`queueing/rounds.py`),
so that its last round is known, as its last step is without drafts. Within them its tokens are spread evenly: rounds are
exchangeable, so that after j of R rounds it has j n / R of its n tokens on average. Cached tokens then grow by the same number
in every round, and runs of equal steps are advanced at once. NB: blocks follow that mean, not each round's own tokens.

In a round a sequence has slots for its next token, the drafted ones, and as many more as the engine looks ahead: vLLM allocates
`num_new_tokens + num_lookahead_tokens` (0.19, vllm/v1/core/sched/scheduler.py, Scheduler.schedule). Slots of rejected tokens
are used again. A request that is preempted keeps its whole tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappush
from math import ceil

from roofline.serving.queueing.rounds import RoundDraws
from roofline.serving.simulation.decode_batch import DecodeBatch
from roofline.serving.simulation.kv_cache import EngineConfig, KVCacheManager, SpeculativeRounds
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.step_log import StepLog

_UNIT = 1 << 20
"""Tokens per round are whole multiples of 1/_UNIT, so that sums of them are exact in floats: up to 2^33 tokens."""
_PURGE = 1024


class SpeculativeBatch(DecodeBatch):
    """Requests that decode in rounds.

    Args:
        speculation: the rounds.
        log: where rounds and accepted tokens are counted.
    """

    __slots__ = ("_draws", "_log")

    def __init__(self, speculation: SpeculativeRounds, log: StepLog) -> None:
        super().__init__()
        self._draws, self._log = RoundDraws(speculation.lengths, speculation.seed), log

    def add(self, request: Request, num_cached_tokens: int) -> None:
        """Add a request with its cached tokens, which decodes from the next step on."""
        num_tokens = request.max_tokens - request.num_output_tokens
        num_rounds, request.num_round_tokens = self._draws.draw(request.index, request.num_output_tokens, num_tokens)
        request.tokens_per_round = num_tokens * _UNIT // num_rounds / _UNIT
        request.cache_offset, request.first_step = num_cached_tokens, self.num_steps
        request.final_step = final_step = self.num_steps + num_rounds
        heappush(self.ends, (final_step, request.index, request))
        self.num_sequences += 1
        self.num_cached_tokens += num_cached_tokens
        self.tokens_per_step += request.tokens_per_round

    def remove(self, request: Request) -> int:
        """Take a request out before its end; returns its whole cached tokens."""
        num_cached_tokens = int(self.cached_tokens(request))
        num_rounds = self.num_steps - request.first_step
        self._log.num_rounds += num_rounds
        self._log.num_accepted_tokens += num_cached_tokens - request.cache_offset - num_rounds
        self._take_out(request)
        return num_cached_tokens

    def cached_tokens(self, request: Request) -> float:
        """Return the cached tokens of a request that decodes."""
        return request.cache_offset + request.tokens_per_round * (self.num_steps - request.first_step)

    def num_output_tokens(self, request: Request) -> int:
        """Return the whole output tokens that a request that decodes has so far."""
        return request.num_output_tokens + int(request.tokens_per_round * (self.num_steps - request.first_step))

    def _end(self, request: Request) -> None:
        num_rounds = self.num_steps - request.first_step
        self._log.num_rounds += num_rounds
        self._log.num_accepted_tokens += request.num_round_tokens - num_rounds
        self._take_out(request)

    def _take_out(self, request: Request) -> None:
        request.final_step = -1
        self.num_sequences -= 1
        self.num_cached_tokens -= self.cached_tokens(request)
        self.tokens_per_step -= request.tokens_per_round


class SpeculativeKVCache(KVCacheManager):
    """Blocks of sequences that grow by numbers of their own: the rounds at which each needs blocks are counted one by one.

    Args:
        config: the replica's limits.
        speculation: the rounds.
        watermark: share of the blocks that stays free when a request is admitted.
        preallocates: whether a request has all blocks of its last step from the first.
    """

    __slots__ = ("_needed", "_purge_at")

    def __init__(
        self, config: EngineConfig, speculation: SpeculativeRounds, watermark: float = 0.0, *, preallocates: bool = False
    ) -> None:
        super().__init__(config, watermark, preallocates=preallocates)
        self.period = 1 << 62  # none: every step stands for itself
        self.growth = self._needed = Counter[int]()
        self.max_tokens_per_step = speculation.num_step_tokens
        self.num_slots = speculation.num_step_tokens + speculation.num_lookahead_tokens
        self._purge_at = _PURGE

    def start_growth(self, request: Request, *, resumed: bool = False) -> None:
        """Note the steps at which a request that decodes from now on needs blocks; `resumed`: it has those of the first."""
        needed, first_step = self._needed, request.first_step
        for num_rounds, num_blocks in self._needs(request, 1 if resumed else 0):
            needed[first_step + num_rounds] += num_blocks
        if len(needed) > self._purge_at:  # steps that are over
            for step in [step for step, num_blocks in needed.items() if step < first_step or not num_blocks]:
                del needed[step]
            self._purge_at = 2 * len(needed) + _PURGE

    def stop_growth(self, request: Request, num_steps: int, *, allocated: bool) -> int:
        """Forget what a request would have needed after `num_steps` decode steps of the replica; returns its blocks."""
        needed, first_step = self._needed, request.first_step
        if request.final_step > num_steps:  # it is preempted
            for num_rounds, num_blocks in self._needs(request, num_steps - first_step):
                needed[first_step + num_rounds] -= num_blocks
        return self.blocks_held(request, num_steps, allocated=allocated)

    def blocks_held(self, request: Request, num_steps: int, *, allocated: bool) -> int:
        """Return the number of blocks of a request that decodes, after `num_steps` decode steps of the replica."""
        num_rounds = num_steps - request.first_step - (0 if allocated else 1)
        return self._blocks_in(request, num_rounds)

    def _blocks_in(self, request: Request, num_rounds: int) -> int:
        """Blocks of a request in the round after `num_rounds` others; below 0: before its first."""
        if num_rounds < 0:
            return self.blocks_of(request.cache_offset)
        return self.blocks_of(request.cache_offset + int(request.tokens_per_round * num_rounds) + self.num_slots)

    def _needs(self, request: Request, first: int) -> Iterator[tuple[int, int]]:
        """From the round after `first` others on: rounds before one that needs blocks, and how many."""
        size, rate = self.block_size, request.tokens_per_round
        last = request.final_step - request.first_step - 1
        held = self._blocks_in(request, first - 1)
        num_rounds = first
        while num_rounds <= last:
            if (needed := self._blocks_in(request, num_rounds)) > held:
                yield num_rounds, needed - held
                held = needed
            # the first round at which the next block is begun
            more = (held - self.num_fixed_blocks) * size + 1 - self.num_slots - request.cache_offset
            at = max(ceil(more / rate), num_rounds + 1)
            while at > num_rounds + 1 and int(rate * (at - 1)) >= more:
                at -= 1
            while int(rate * at) < more:
                at += 1
            num_rounds = at

    def blocks_needed(self, step: int, num_steps: int, num_sequences: int) -> int:
        """Return the number of blocks that `num_steps` decode steps take, from decode step `step` on."""
        if self.preallocates:
            return 0
        needed = self._needed
        return sum([needed[at] for at in range(step, step + num_steps)])

    def steps_until_short(self, step: int, num_steps: int, num_sequences: int) -> int:
        """Return the number of decode steps, at most `num_steps`, that the free blocks last for, from decode step `step` on,
        whose blocks are allocated already."""
        needed, free = self._needed, self.num_free_blocks
        steps = 1
        while steps < num_steps and (short := needed[step + steps]) <= free:
            free -= short
            steps += 1
        return steps
