"""One replica of an engine: its clock, and the steps that are planned.

Between two events (an arrival that may be admitted, the end of a request, a block that is missing, the end of a chunk) every
step decodes one token of the same sequences. Such a run of steps is planned as long as nothing can change, and cut where an
arrival comes that might change it. With `stepwise` the scheduler forms every step, each has its own time, and all tokens and
blocks are counted anew: the same events.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from roofline.serving.simulation.admission import AdmissionControl
from roofline.serving.simulation.decode_batch import run_seconds, steps_until
from roofline.serving.simulation.kv_cache import EngineConfig
from roofline.serving.simulation.kv_tiers import KVTiers
from roofline.serving.simulation.lora import AdapterSlots
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.scheduler import Scheduler, SchedulingPolicy, Watch
from roofline.serving.simulation.step_log import StepLog, pack_chunk, pack_run
from roofline.serving.simulation.step_time import Cell, StepTime

INF = math.inf


class Replica:
    """An engine with its scheduler and KV cache.

    Args:
        policy: how its scheduler forms steps.
        step_time: seconds of its steps.
        config: its limits.
        log: where steps and requests are written; several replicas share one.
        preemption: what preempting does with a cache; default: drop it.
        index: its number.
        stepwise: form every step on its own.
        watch: receives every event.
        tiers: of its KV cache beside the device's; None: none.
        admission: which requests may wait; None: all.
        adapters: LoRA adapters of its requests; None: they have none.
    """

    __slots__ = (
        "_append_chunk", "_append_run", "_async", "_cells", "_first_s", "_num_arrived", "_slope_s", "_start", "_sum_arrived",
        "accepting", "batch", "ends", "idle", "index", "kv_cache", "log", "now", "num_steps", "scheduler", "step_time",
        "stepwise", "uncuttable",
    )  # fmt: skip

    def __init__(
        self, policy: SchedulingPolicy, step_time: StepTime, config: EngineConfig, *, log: StepLog | None = None,
        preemption: PreemptionPolicy | None = None, index: int = 0, stepwise: bool = False, watch: Watch | None = None,
        tiers: KVTiers | None = None,
        admission: AdmissionControl | None = None,
        adapters: AdapterSlots | None = None,
    ) -> None:  # fmt: skip
        self.step_time, self.index, self.stepwise = step_time, index, stepwise
        self.accepting = True
        """Whether a router may send requests to it: not once it drains or has failed."""
        self.log = StepLog() if log is None else log
        self.scheduler = Scheduler(
            policy, config, self.log, preemption or PreemptionPolicy(), step_time, index, admission, adapters
        )
        self.scheduler.watch, self.scheduler.tiers = watch, tiers
        self.batch, self.kv_cache = self.scheduler.batch, self.scheduler.kv_cache
        self.now, self.ends = 0.0, INF
        """End of the last step, and of what is planned: infinity while there is nothing to do."""
        self.num_steps = 0
        """Decode steps that are planned; 0: a step with prompts, or none."""
        self.idle = False
        """Whether nothing can run before blocks are loaded."""
        self._async = policy.async_scheduling
        self.uncuttable = policy.static_batching and not (admission is not None and admission.cuts)
        """Whether steps are formed ahead; whether no arrival can change what is planned."""
        self._start = self._first_s = self._slope_s = 0.0
        """Of the decode steps that are planned: when the first begins, its seconds, and what each takes more than the last."""
        self._num_arrived, self._sum_arrived = 0, 0.0
        """Requests that arrived since the last step ended, less those that were shed, and the sum of their times."""
        self._append_run, self._append_chunk = self.log.runs.frombytes, self.log.chunks.frombytes
        self._cells: dict[int, tuple[list[float], Sequence[Cell]]] = {}
        """Pieces by number of sequences, and where each of them ends."""

    @property
    def num_unfinished(self) -> int:
        """Number of requests that have not ended."""
        return self.scheduler.num_unfinished

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt tokens of the requests that have not ended."""
        return self.scheduler.num_prompt_tokens

    @property
    def num_waiting(self) -> int:
        """Number of requests that do not run: waiting and swapped ones."""
        return len(self.scheduler.waiting) + len(self.scheduler.swapped)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache blocks that is taken."""
        return self.kv_cache.num_taken_blocks / self.kv_cache.num_gpu_blocks

    def has_adapter(self, adapter: int) -> bool:
        """Return whether the device has an adapter."""
        adapters = self.scheduler.adapters
        return adapters is not None and adapter in adapters.device

    def cached_tokens(self, request: Request, time: float) -> int:
        """Return how many of a request's prompt tokens are in the prefix cache at `time`, in seconds."""
        num_taken, batch = 0, self.batch
        if self.num_steps > 1:  # blocks of the steps that have begun
            num_steps = steps_until(time, self._start, self._first_s, self._slope_s, self.num_steps)
            if num_steps > 1 and self.scheduler.num_leaving:
                self.scheduler.free_pending()
            num_taken = self.kv_cache.blocks_needed(batch.num_steps + 1, num_steps - 1, batch.num_sequences)
        return self.kv_cache.cached_tokens(request, num_taken)

    @property
    def first_s(self) -> float:
        """Seconds of the first of the decode steps that are planned."""
        return self._first_s

    @property
    def slope_s(self) -> float:
        """Seconds that each of the decode steps that are planned takes more than the last."""
        return self._slope_s

    def refusal(self, request: Request) -> str | None:
        """Return why a request could never be served, even alone; None where it could."""
        needed = self.kv_cache.final_blocks(request)
        if needed > self.kv_cache.num_gpu_blocks:
            return f"needs {needed:,} blocks at its last token, and there are {self.kv_cache.num_gpu_blocks:,}"
        return None

    def accept(self, request: Request, time: float) -> None:
        """Add a request that arrives at `time`, in seconds, which is no earlier than the end of the last step.

        What is planned is cut where the request may change it.
        """
        scheduler = self.scheduler
        if scheduler.admission is not None and not self.admit(request, time):
            return
        if self.ends == INF or self.idle:
            self.ends = time  # it wakes up; requests that arrive at the same time are seen too
        elif self.num_steps > 1:
            if not (self.uncuttable or (scheduler.fifo and scheduler.waiting)):
                request.seen_time = self._cut(time, ahead=self._async)
        else:
            request.seen_time = self.ends
        request.queued_time = time
        self.note_arrival(time)
        scheduler.num_prompt_tokens += request.num_prompt_tokens
        scheduler.waiting.append(request)

    def admit(self, request: Request, time: float) -> bool:
        """Return whether a request that arrives at `time`, in seconds, may wait. It is shed if not; else another one may be."""
        scheduler = self.scheduler
        shed = None if scheduler.admission is None else scheduler.admission.excess(request, scheduler)
        if shed is request:
            scheduler.reject(request, time)
            return False
        if shed is not None:
            scheduler.shed(shed, time)
            if self.num_steps or scheduler.prefills:
                self._num_arrived -= 1
                self._sum_arrived -= time
        return True

    def notice(self, time: float) -> None:
        """Wake up at `time`, in seconds, for something else than an arrival, or cut what is planned."""
        if self.ends == INF:
            self.ends = time
        elif self.num_steps > 1:
            self._cut(time, ahead=False)

    def note_arrival(self, time: float) -> None:
        """Count a request that arrives at `time`, in seconds, during a step."""
        if self.num_steps or self.scheduler.prefills or self.idle:
            self._num_arrived += 1
            self._sum_arrived += time

    def plan_with(self, num_steps: int, start: float, first_s: float, slope_s: float, ends: float) -> None:
        """Replace the times of what is planned by those of ranks that step together.

        Args:
            num_steps: at most as many as are planned.
            start: when the first begins, in seconds; the next two likewise.
            first_s: of the first step.
            slope_s: that each takes more than the last.
            ends: when the last ends.
        """
        self.ends = ends
        if not self.scheduler.prefills:
            self.num_steps, self._start, self._first_s, self._slope_s = num_steps, start, first_s, slope_s

    def advance(self, until: float) -> None:
        """Complete every step that ends before a time, in seconds.

        Raises:
            NoProgressError: requests wait, and none of them can ever run.
        """
        while self.ends < until:
            self.complete()
            self.begin()

    def settle(self, time: float) -> None:
        """Complete the planned steps that end before a time, in seconds; the rest of the plan stays. What is planned ends at
        that time or later."""
        if self.num_steps > 1:
            num_steps = steps_until(time, self._start, self._first_s, self._slope_s, self.num_steps) - 1
            if num_steps:
                self.complete_part(num_steps)

    def complete_part(self, num_steps: int) -> None:
        """Complete the first of the planned steps, fewer than all: in none of them a request ends, nor is one admitted."""
        scheduler, cache, batch = self.scheduler, self.kv_cache, self.batch
        start, first_s, slope_s, left, ends = self._start, self._first_s, self._slope_s, self.num_steps - num_steps, self.ends
        if self._async:
            if scheduler.num_leaving:
                scheduler.free_pending()
            scheduler.known_until = self.now if num_steps == 1 else start + run_seconds(num_steps - 1, first_s, slope_s)
        self.ends = start + run_seconds(num_steps, first_s, slope_s)
        self._complete_decodes(num_steps)
        self.now = self._start = self.ends
        scheduler.copy_s = 0.0
        cache.num_free_blocks -= cache.growth[batch.num_steps % cache.period]  # of the step that runs now
        self.num_steps, self.ends, self._first_s = left, ends, first_s + slope_s * num_steps

    def abandon(self) -> list[Request]:
        """Return the requests that have not ended, and leave the replica, whose KV cache is lost. A step that runs is lost too;
        what is planned was settled."""
        self.accepting, self.ends, self.num_steps = False, INF, 0
        return self.scheduler.abandon()

    def begin(self) -> None:  # noqa: C901 - most steps pass through it: a call for a part of it would cost
        """Form the next step, and plan how often it can be repeated.

        Raises:
            NoProgressError: requests wait, and none of them can ever run.
        """
        scheduler, batch = self.scheduler, self.batch
        if scheduler.settles:
            scheduler.settle(self.now)
        if (
            not scheduler.waiting and not scheduler.prefilling and not scheduler.swapped and not scheduler.loading
            and not scheduler.received
        ):  # fmt: skip
            if not batch.num_sequences:
                self.ends = INF
                scheduler.free_pending()
                return
            cache = self.kv_cache
            short = cache.growth[batch.num_steps % cache.period]
            if short <= cache.num_free_blocks and not self.stepwise:  # there is nothing to decide
                cache.num_free_blocks -= short
                scheduler.copy_s, scheduler.may_change = 0.0, False
                self._plan()
                return
        scheduler.schedule(self.now)
        prefills = scheduler.prefills
        if prefills:
            if len(prefills) == 1:  # in most steps
                ((request, num_new_tokens),) = prefills
                parts = [(num_new_tokens, request.num_computed_tokens)]
            else:
                parts = [(num_new_tokens, request.num_computed_tokens) for request, num_new_tokens in prefills]
            num_sequences, num_cached_tokens = (batch.num_sequences, batch.num_cached_tokens) if scheduler.decodes else (0, 0)
            self.ends = self.now + scheduler.copy_s + self.step_time.mixed(num_sequences, num_cached_tokens, parts)
            if scheduler.adapters is not None:
                self.ends += scheduler.adapter_seconds(scheduler.adapters)
        elif batch.num_sequences:
            self._plan()
        elif scheduler.loading:
            self.idle, self.ends = True, min([request.ready_time for request in scheduler.loading])
        else:  # until a cache has been sent, or arrives
            self.ends = INF
        if self.stepwise:
            scheduler.check()

    def _plan(self) -> None:
        """Steps that decode, until something can change."""
        batch, scheduler, cache = self.batch, self.scheduler, self.kv_cache
        num_sequences, num_cached_tokens = batch.num_sequences, batch.num_cached_tokens
        self._start = start = self.now + scheduler.copy_s
        if self.stepwise:
            self.num_steps, self._slope_s = 1, 0.0
            self._first_s = self.step_time.mixed(num_sequences, num_cached_tokens, ())
            if scheduler.adapters is not None:
                self._first_s += scheduler.adapter_seconds(scheduler.adapters)
            self.ends = start + self._first_s
            return
        if num_sequences not in self._cells:
            cells = self.step_time.cells(num_sequences)
            self._cells[num_sequences] = [below for below, _, _ in cells], cells
        bounds, cells = self._cells[num_sequences]
        below, base, slope = cells[bisect_right(bounds, num_cached_tokens)]
        tokens = batch.tokens_per_step
        first_s, slope_s = base + slope * num_cached_tokens, slope * tokens
        if scheduler.adapters is not None:
            first_s += scheduler.adapter_seconds(scheduler.adapters)
        self._first_s, self._slope_s = first_s, slope_s
        if scheduler.may_change:
            self.num_steps, self.ends = 1, start + first_s
            return
        final_step, _, request = batch.ends[0]
        num_steps = final_step - batch.num_steps if request.final_step == final_step else batch.steps_until_end()
        if below != INF and num_cached_tokens + num_steps * tokens > below:
            num_steps = min(num_steps, -int((num_cached_tokens - below) // tokens))
        if (
            num_steps > 1
            and num_sequences * (((num_steps - 1) * cache.max_tokens_per_step - 1) // cache.block_size + 1)
            > cache.num_free_blocks
            and not cache.preallocates
        ):
            num_steps = cache.steps_until_short(batch.num_steps, num_steps, num_sequences)
        if scheduler.loading:
            num_steps = self._steps_until_loaded(num_steps)
        self.num_steps = num_steps
        self.ends = start + (num_steps * first_s + slope_s * (num_steps * (num_steps - 1) * 0.5))  # `run_seconds`
        if scheduler.settles and scheduler.waiting:
            self._cut_at_change()

    def _cut_at_change(self) -> None:
        """End the planned run where the waiting requests change by themselves."""
        until, num_steps = self.scheduler.unchanged()
        start, first_s, slope_s = self._start, self._first_s, self._slope_s
        num_steps = min(num_steps, self.num_steps)
        if until < self.ends:
            num_steps = steps_until(until, start, first_s, slope_s, num_steps)
        if num_steps < self.num_steps:
            self.num_steps, self.ends = num_steps, start + run_seconds(num_steps, first_s, slope_s)

    def _steps_until_loaded(self, num_steps: int) -> int:
        """The steps, at most `num_steps`, after which a request is seen to have its blocks: as one that arrives is."""
        ready = min([request.ready_time for request in self.scheduler.loading])
        steps = 0 if ready <= self.now else steps_until(ready, self._start, self._first_s, self._slope_s, num_steps)
        return min(max(steps + self._async, 1), num_steps)

    def _cut(self, time: float, *, ahead: bool) -> float:
        """End the planned run with the first step that ends at `time` or after it, with `ahead` the one after that; returns
        when that first one ends."""
        start, first_s, slope_s = self._start, self._first_s, self._slope_s
        num_steps = steps_until(time, start, first_s, slope_s, self.num_steps)
        seen = ends = start + run_seconds(num_steps, first_s, slope_s)
        if ahead:
            num_steps += 1
            ends = start + run_seconds(num_steps, first_s, slope_s)
        if num_steps < self.num_steps:
            self.num_steps, self.ends = num_steps, ends
        return seen

    def complete(self) -> None:
        """Complete the planned steps: log them, and end requests that have all their tokens."""
        scheduler, batch, ends, num_steps = self.scheduler, self.batch, self.ends, self.num_steps
        if self._async:
            if scheduler.num_leaving:
                scheduler.free_pending()
            scheduler.known_until = self.now  # the last step began when the one before had ended
            if num_steps > 1:
                scheduler.known_until = self._start + run_seconds(num_steps - 1, self._first_s, self._slope_s)
        if num_steps:
            self._complete_decodes(num_steps)
        elif scheduler.prefills:
            self._complete_mixed()
        elif self.idle:
            self._complete_idle()
        self.now = ends
        if batch.ends and batch.ends[0][0] <= batch.num_steps:
            for request in batch.pop_ended():
                scheduler.decode_ended(request, ends)

    def _complete_decodes(self, num_steps: int) -> None:
        """A run of steps without prompts."""
        scheduler, batch, cache, ends = self.scheduler, self.batch, self.kv_cache, self.ends
        num_sequences = batch.num_sequences
        grown = cache.blocks_needed(batch.num_steps + 1, num_steps - 1, num_sequences) if num_steps > 1 else 0
        num_waiting = self._mean_waiting() if self._sum_arrived else len(scheduler.waiting) + len(scheduler.swapped)
        self._append_run(pack_run(
            self.now, ends, scheduler.copy_s, num_steps, num_sequences, batch.num_cached_tokens, 0, 0, len(scheduler.running),
            num_waiting, cache.num_gpu_blocks - cache.num_free_blocks + grown / 2, self._first_s, self._slope_s,
            batch.num_stalled, grown, batch.tokens_per_step,
        ))  # fmt: skip
        if batch.num_stalled:
            self._end_stalls(self._start + self._first_s)
        if scheduler.watch:
            scheduler.watch(("decode", self.now, ends, num_steps, num_sequences))
        cache.num_free_blocks -= grown
        batch.num_steps += num_steps
        batch.num_cached_tokens += batch.tokens_per_step * num_steps
        batch.last_token_time = ends
        self.num_steps = 0

    def _complete_idle(self) -> None:
        """A time in which nothing ran but loads."""
        scheduler, cache = self.scheduler, self.kv_cache
        self.idle = False
        self._append_run(pack_run(
            self.now, self.ends, 0.0, 0, 0, 0, 0, 0, len(scheduler.running), self._mean_waiting(),
            cache.num_gpu_blocks - cache.num_free_blocks, 0.0, 0.0, 0, 0, 0,
        ))  # fmt: skip

    def _complete_mixed(self) -> None:  # noqa: C901 - as `begin`
        """A step with parts of prompts."""
        scheduler, batch, cache, now, ends = self.scheduler, self.batch, self.kv_cache, self.now, self.ends
        prefills = scheduler.prefills
        num_sequences, num_cached_tokens = (batch.num_sequences, batch.num_cached_tokens) if scheduler.decodes else (0, 0)
        if scheduler.watch:
            chunks = tuple((request.index, num_new, request.num_computed_tokens) for request, num_new in prefills)
            scheduler.watch(("mixed", now, ends, num_sequences, chunks))
        computed: list[Request] = []
        num_prompt_tokens = 0
        recomputes = False
        for request, num_new_tokens in prefills:
            num_prompt_tokens += num_new_tokens
            self._append_chunk(pack_chunk(num_new_tokens, request.num_computed_tokens))
            if request.num_computed_tokens < request.num_dropped_tokens:
                recomputes = True
            request.num_computed_tokens += num_new_tokens
            if scheduler.tiers is not None:
                scheduler.tiers.store(request, request.num_computed_tokens, ends)
            if request.num_computed_tokens == request.num_tokens:
                computed.append(request)
        seconds = ends - now - scheduler.copy_s
        self._append_run(pack_run(
            now, ends, scheduler.copy_s, 1, num_sequences, num_cached_tokens, num_prompt_tokens, len(computed),
            len(scheduler.running), self._mean_waiting(), cache.num_gpu_blocks - cache.num_free_blocks, seconds, 0.0,
            batch.num_stalled, 0, batch.tokens_per_step if num_sequences else 0,
        ))  # fmt: skip
        if recomputes:
            self._log_recomputed(num_sequences, num_cached_tokens, seconds)
        scheduler.prefills = []
        if num_sequences:
            if batch.num_stalled:
                self._end_stalls(ends)
            batch.num_steps += 1
            batch.num_cached_tokens += batch.tokens_per_step
            batch.last_token_time = ends
        elif batch.num_sequences > batch.num_stalled:
            batch.stall(now)
        for request in computed:
            scheduler.prompt_computed(request, ends)

    def _mean_waiting(self) -> float:
        """Requests that waited in what is planned, mean over its time: those that arrived meanwhile did so from then on."""
        scheduler, arrived = self.scheduler, self._num_arrived
        waiting = len(scheduler.waiting) + len(scheduler.swapped)
        if not self._sum_arrived:  # none, or at the very start
            self._num_arrived = 0
            return waiting
        took, since = self.ends - self.now, arrived * self.ends - self._sum_arrived
        self._num_arrived, self._sum_arrived = 0, 0.0
        if took <= 0:
            return waiting
        mean = waiting - arrived + since / took
        return mean if mean > 0 else 0.0

    def _log_recomputed(self, num_sequences: int, num_cached_tokens: float, seconds: float) -> None:
        """Log which tokens of the step had been computed before, and what it takes longer than without them."""
        num_recomputed, others = 0, []
        for request, num_new_tokens in self.scheduler.prefills:
            before = request.num_computed_tokens - num_new_tokens
            dropped = min(request.num_dropped_tokens, request.num_computed_tokens) - before
            if dropped <= 0:
                others.append((num_new_tokens, before))
                continue
            num_recomputed += dropped
            if num_new_tokens - dropped > 1:  # 1: its next output token, for which it would have needed no prompt
                others.append((num_new_tokens - dropped, before + dropped))
        if num_sequences or others:
            seconds = max(seconds - self.step_time.mixed(num_sequences, num_cached_tokens, others), 0.0)
        self.log.recomputed.extend((self.now, self.ends, num_recomputed, seconds))

    def _end_stalls(self, time: float) -> None:
        """Every request that decodes gets a token at `time`."""
        for before, num_sequences in self.batch.pop_stalled():
            if before < 0:
                self.scheduler.first_tokens(time)
                continue
            self.log.gaps.extend((time - before, num_sequences))
            self.log.gap_ends.append(time)
