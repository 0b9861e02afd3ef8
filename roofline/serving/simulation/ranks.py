"""Data-parallel ranks of one replica, which step together: attention of each rank's own requests, experts over all ranks.

Each rank has a scheduler and a KV cache of its own. A step of the replica is as long as that of its slowest rank; the work on
experts is that of all ranks' tokens. A rank without requests waits. Requests are dealt to the ranks by the router.

With balancing (TensorRT-LLM's `attention_dp_config.enable_balance`) prompts are held until every rank can start one, for at
most `HOLD_STEPS` steps, and all ranks start equally many, so that no rank waits for the prompt of another; a request goes to
the rank with the fewest prompts that wait, whatever the router.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from roofline.serving.queueing.replica import HOLD_STEPS
from roofline.serving.simulation.decode_batch import run_seconds, steps_until
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.scheduler import Scheduler
from roofline.serving.simulation.step_tables import StepTables

INF = math.inf
_ANY = 1 << 62


class RankGroup:
    """A replica of several data-parallel ranks, with the interface of `Replica`.

    Args:
        ranks: its ranks, at least two.
        tables: seconds of their steps.
        route: which rank a request that arrives at a time goes to.
        balanced: hold prompts until every rank can start one.
    """

    __slots__ = (
        "_active", "_first_s", "_held", "_num_held", "_num_steps", "_route", "_slope_s", "_start", "accepting", "balanced",
        "ends", "now", "ranks", "tables",
    )  # fmt: skip

    def __init__(
        self, ranks: Sequence[Replica], tables: StepTables, route: Callable[[Request, float], Any], *, balanced: bool = False
    ) -> None:
        self.ranks, self.tables, self.balanced, self._route = ranks, tables, balanced, route
        self.accepting = True
        """Whether a router may send requests to it: not once it drains or has failed."""
        self.now, self.ends = 0.0, INF
        """End of the last step, and of what is planned: infinity while there is nothing to do."""
        self._active: list[Replica] = []
        """Ranks that take part in what is planned."""
        self._num_steps = 0
        self._start = self._first_s = self._slope_s = 0.0
        self._held, self._num_held = False, 0
        """Whether prompts are held in what is planned, and steps for which they have been."""

    @property
    def num_unfinished(self) -> int:
        """Number of requests that have not ended, on all ranks."""
        return sum(rank.num_unfinished for rank in self.ranks)

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt tokens of the requests that have not ended, on all ranks."""
        return sum(rank.num_prompt_tokens for rank in self.ranks)

    @property
    def num_waiting(self) -> int:
        """Number of requests that do not run, on all ranks."""
        return sum(rank.num_waiting for rank in self.ranks)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache blocks that is taken, of all ranks."""
        return sum(rank.kv_usage for rank in self.ranks) / len(self.ranks)

    def has_adapter(self, adapter: int) -> bool:
        """Return whether a rank has an adapter."""
        return any(rank.has_adapter(adapter) for rank in self.ranks)

    def cached_tokens(self, request: Request, time: float) -> int:
        """Return how many of a request's prompt tokens are in the prefix cache of a rank at `time`, in seconds, at most."""
        return max(rank.cached_tokens(request, time) for rank in self.ranks)

    def accept(self, request: Request, time: float) -> None:
        """Add a request that arrives at `time`, in seconds, which is no earlier than the end of the last step."""
        rank: Replica = min(self.ranks, key=_queue_length) if self.balanced else self._route(request, time)
        scheduler = rank.scheduler
        if scheduler.admission is not None and not rank.admit(request, time):
            return
        waiting = scheduler.waiting
        if self.ends == INF:
            self.ends = time
        elif self._num_steps > 1:
            if self._held or not (rank.uncuttable or (scheduler.fifo and waiting)):
                request.seen_time = self._cut(time, ahead=scheduler.policy.async_scheduling)
        else:
            request.seen_time = self.ends
        request.queued_time = time
        rank.note_arrival(time)
        scheduler.num_prompt_tokens += request.num_prompt_tokens
        waiting.append(request)

    def notice(self, time: float) -> None:
        """Wake up at `time`, in seconds, for something else than an arrival, or cut what is planned."""
        if self.ends == INF:
            self.ends = time
        elif self._num_steps > 1:
            self._cut(time, ahead=False)

    def advance(self, until: float) -> None:
        """Complete every step that ends before a time, in seconds."""
        while self.ends < until:
            self.complete()
            self.begin()

    def settle(self, time: float) -> None:
        """Complete the planned steps that end before a time, in seconds; the rest of the plan stays. What is planned ends at
        that time or later."""
        if self._num_steps > 1:
            num_steps = steps_until(time, self._start, self._first_s, self._slope_s, self._num_steps) - 1
            if num_steps:
                for rank in self._active:
                    rank.complete_part(num_steps)
                self.now = self._start + run_seconds(num_steps, self._first_s, self._slope_s)
                for rank in self.ranks:
                    rank.now = self.now
                self._num_held += num_steps if self._held else 0
                self._start, self._first_s = self.now, self._first_s + self._slope_s * num_steps
                self._num_steps -= num_steps

    def abandon(self) -> list[Request]:
        """Return the requests that have not ended, and leave the ranks, whose KV caches are lost."""
        self.accepting, self.ends, self._num_steps, self._active = False, INF, 0, []
        return [request for rank in self.ranks for request in rank.abandon()]

    def begin(self) -> None:
        """Form the next step of every rank, and plan how often all can be repeated.

        Raises:
            NoProgressError: requests wait, and none of them can ever run.
        """
        now = self.now
        limit = self._admissions() if self.balanced else _ANY
        self._held = limit == 0
        self._active = active = []
        tokens, longest, longest_s, longest_tokens, lead, num_steps = 0, None, -1.0, 0, 0.0, _ANY
        for rank in self.ranks:
            scheduler = rank.scheduler
            rank.now, scheduler.max_admissions = now, limit
            if self._held and not scheduler.running and not scheduler.swapped:
                continue  # its prompts are held
            rank.begin()
            if rank.ends == INF:
                continue
            active.append(rank)
            lead = max(lead, scheduler.copy_s)
            if scheduler.prefills:
                seconds, num_steps = rank.ends - now - scheduler.copy_s, 1
                own = sum([new for _, new in scheduler.prefills])
                own += rank.batch.num_sequences * scheduler.num_step_tokens if scheduler.decodes else 0
            else:
                seconds, num_steps = rank.first_s, min(num_steps, rank.num_steps)
                own = rank.batch.num_sequences * scheduler.num_step_tokens
            tokens += own
            if seconds > longest_s:
                longest, longest_s, longest_tokens = rank, seconds, own
        if longest is None:
            self.ends, self._num_steps = INF, 0
            return
        if self._held:
            num_steps = min(num_steps, HOLD_STEPS - self._num_held)
        self._num_steps, self._start = num_steps, now + lead
        self._first_s = longest_s - self.tables.shared_excess(longest_tokens, tokens / len(self.ranks))
        self._slope_s = 0.0 if longest.scheduler.prefills else longest.slope_s
        self._set_ends(num_steps)
        self._cut_at_changes()

    def complete(self) -> None:
        """Complete the planned steps on every rank."""
        for rank in self._active:
            rank.complete()
        for rank in self.ranks:
            rank.now = self.ends
        self._num_held = self._num_held + self._num_steps if self._held else 0
        self.now, self._num_steps, self._active = self.ends, 0, []

    def _set_ends(self, num_steps: int) -> None:
        """Plan `num_steps` steps of all ranks that take part."""
        self._num_steps = num_steps
        self.ends = self._start + run_seconds(num_steps, self._first_s, self._slope_s)
        for rank in self._active:
            rank.plan_with(num_steps, self._start, self._first_s, self._slope_s, self.ends)

    def _cut(self, time: float, *, ahead: bool) -> float:
        """End the plan with the first step that ends at `time` or after it, with `ahead` the one after that; returns when that
        first one ends."""
        steps = steps_until(time, self._start, self._first_s, self._slope_s, self._num_steps)
        seen = self._start + run_seconds(steps, self._first_s, self._slope_s)
        steps += ahead
        if steps < self._num_steps:
            self._set_ends(steps)
        return seen

    def _cut_at_changes(self) -> None:
        """End the plan where the waiting requests of a rank change, which planned by its own times, shorter than these."""
        for rank in self._active:
            if rank.scheduler.settles and rank.scheduler.waiting:
                until, _ = rank.scheduler.unchanged()
                if until < self.ends:
                    self._cut(until, ahead=False)

    def _admissions(self) -> int:
        """How many prompts each rank may start in the next step; 0: they are held."""
        schedulers = [rank.scheduler for rank in self.ranks]
        startable = [_startable(scheduler) for scheduler in schedulers]
        lacking = [not num and not scheduler.prefilling for num, scheduler in zip(startable, schedulers, strict=True)]
        if not any(lacking):
            return max(min(startable), 1)
        if self._num_held >= HOLD_STEPS or not any(startable) or not any(rank.batch.num_sequences for rank in self.ranks):
            return _ANY
        return 0


def _queue_length(rank: Replica) -> tuple[int, int]:
    """Prompts that wait on a rank; of equal ranks the requests that it has."""
    return len(rank.scheduler.waiting), rank.num_unfinished


def _startable(scheduler: Scheduler) -> int:
    """Prompts that a rank could start: those that wait, as long as there are free slots, and blocks for the first."""
    waiting, cache = scheduler.waiting, scheduler.kv_cache
    free = scheduler.max_num_seqs - len(scheduler.running) - scheduler.num_leaving
    if not waiting or free <= 0 or cache.blocks_of(waiting.first().num_tokens) > cache.num_free_blocks:
        return 0
    return min(len(waiting), free)
