"""The scheduler of a replica: which requests run, and which tokens each computes in the next step.

Requests move from `waiting` to `running` (with their prompt to compute, then decoding) and out; a preempted request goes back
to `waiting`, or to `swapped` with its cache on the host. A running request may be `loading` blocks from KV cache tiers first.
How a step is formed is a `SchedulingPolicy` (`schedulers.py`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from roofline.errors import RooflineError
from roofline.serving.simulation.decode_batch import DecodeBatch
from roofline.serving.simulation.kv_cache import EngineConfig, KVCacheManager
from roofline.serving.simulation.kv_tiers import KVTiers, LoadPlan
from roofline.serving.simulation.lora import AdapterSlots
from roofline.serving.simulation.preemption import PreemptionPolicy
from roofline.serving.simulation.queues import FCFSQueue, PriorityQueue, ReorderingQueue, RequestQueue
from roofline.serving.simulation.request import NEVER, Request
from roofline.serving.simulation.speculation import SpeculativeBatch, SpeculativeKVCache
from roofline.serving.simulation.step_log import StepLog
from roofline.serving.simulation.step_time import StepTime

if TYPE_CHECKING:
    from roofline.serving.simulation.admission import AdmissionControl

__all__ = ["NoProgressError", "PriorityQueue", "RequestQueue", "Scheduler", "SchedulingPolicy", "Watch"]

if TYPE_CHECKING:
    from roofline.serving.simulation.disaggregation import Transfer

Watch = Callable[[tuple[Any, ...]], None]
"""Receives the events of a replica, as (what, time, ...)."""
_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingPolicy:
    """How a scheduler forms steps; an entry point of `roofline.schedulers` loads to one.

    Args:
        name: as `--scheduler` has it.
        about: one line on what it does.
        schedule: forms a step by the scheduler's methods: fills `prefills`, allocates blocks, preempts. A step without prompts
            must be formed again the same, as long as no request arrives or ends and no block is missing: it is done many times
            at once.
        blocks_to_admit: blocks allocated to a request when it is admitted with some new tokens in the step.
        preemption_candidate: the running request that is preempted when a block is missing.
        queue: makes the queue of waiting requests (`queues.py`).
        full_prompt_must_fit: a request is admitted only where the blocks of its whole prompt are free, however few tokens its
            first chunk has.
        chunked_prefill: a prompt may be computed in several steps.
        reserves_output: a request has all blocks of its last step from the first, so that none is ever preempted.
        slot_while_receiving: a request whose cache comes from another replica has a slot from then on; else only once it runs.
        static_batching: no request is admitted before all running ones have ended; blocks and slots are kept until then.
        loads_prefixes: `schedule` goes on with the prompts in `prefilling`, so that a prefix can be loaded from KV cache tiers
            while others run.
        async_scheduling: a step is formed while the one before runs, without knowing which requests arrived, and which blocks
            and slots became free, since that one began.
        mixed_steps: prompts are computed beside decodes.
        watermark: share of the blocks that stays free when a request is admitted.
        max_num_batched_tokens: new tokens per step, where the policy has a number of its own; else the engine's.
        source: where it is described.
    """

    name: str
    about: str
    schedule: Callable[[Scheduler], None]
    blocks_to_admit: Callable[[Scheduler, Request, int], int]
    preemption_candidate: Callable[[Scheduler], Request]
    queue: Callable[[], RequestQueue] = FCFSQueue
    full_prompt_must_fit: bool = False
    chunked_prefill: bool = False
    reserves_output: bool = False
    slot_while_receiving: bool = False
    static_batching: bool = False
    loads_prefixes: bool = False
    async_scheduling: bool = False
    mixed_steps: bool = True
    watermark: float = 0.0
    max_num_batched_tokens: int | None = None
    source: str = ""


class NoProgressError(RooflineError):
    """No step can be formed, although requests wait: a fault of a policy, or of a configuration that is too small for it."""

    exit_code = 4


class Scheduler:
    """Requests of one replica, and the step that is formed of them.

    Args:
        policy: how steps are formed.
        config: limits of the replica.
        log: where ends, gaps between tokens and preemptions are written.
        preemption: what preempting does with a cache.
        step_time: seconds of the replica's steps.
        index: number of the replica.
        admission: which requests may wait; None: all.
        adapters: LoRA adapters of its requests; None: they have none.
    """

    __slots__ = (
        "adapters", "admission", "arrived", "batch", "copy_s", "decodes", "decodes_allocated", "fifo", "handoff", "index",
        "known_until", "kv_cache", "loading", "log", "max_admissions", "max_num_batched_tokens", "max_num_seqs", "may_change",
        "meter", "now", "num_held_blocks", "num_leaving", "num_microbatches", "num_missing_blocks", "num_prompt_tokens",
        "num_receiving", "num_step_tokens", "num_swapped_tokens", "passed", "policy", "preempted", "preemption", "prefilling",
        "prefills", "receive", "received", "reordering", "running", "settles", "starting", "step_time", "swapped", "tiers",
        "waiting", "watch",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915 - its state, in one place
        self, policy: SchedulingPolicy, config: EngineConfig, log: StepLog, preemption: PreemptionPolicy, step_time: StepTime,
        index: int = 0, admission: AdmissionControl | None = None,
        adapters: AdapterSlots | None = None,
    ) -> None:  # fmt: skip
        self.policy, self.log, self.preemption, self.index = policy, log, preemption, index
        self.step_time, self.admission = step_time, admission
        self.max_num_seqs, self.max_num_batched_tokens = config.max_num_seqs, config.max_num_batched_tokens
        self.num_microbatches = config.num_microbatches
        self.max_admissions = _ENDLESS
        """Requests that may be admitted to the step that is formed."""
        speculation = config.speculation
        if speculation is None:
            self.kv_cache = KVCacheManager(config, policy.watermark, preallocates=policy.reserves_output)
            self.batch = DecodeBatch()
        else:
            self.kv_cache = SpeculativeKVCache(config, speculation, policy.watermark, preallocates=policy.reserves_output)
            self.batch = SpeculativeBatch(speculation, log)
        self.num_step_tokens = 1 if speculation is None else speculation.num_step_tokens
        """Tokens of a sequence that decodes in a step."""
        self.waiting = policy.queue()
        self.fifo = self.waiting.fifo and not (admission is not None and admission.cuts)
        """Whether a request that arrives while others wait changes nothing in what is planned."""
        self.reordering: ReorderingQueue | None = None
        """The waiting requests, where their order changes by itself."""
        if getattr(self.waiting, "reorders", False):
            self.reordering = cast("ReorderingQueue", self.waiting)
        self.settles = self.reordering is not None or (admission is not None and admission.judges)
        """Whether waiting requests are looked at before each step that is formed."""
        self.meter = getattr(self.waiting, "meter", None)
        """Counts the tokens that classes are served."""
        if self.meter is not None:
            self.meter.batch = self.batch
        self.adapters = adapters
        self.passed: list[Request] = []
        """Waiting requests that are passed over in the step that is formed, since their adapters have no slot."""
        if adapters is not None:
            self.fifo = False  # a request is passed over while its adapter has no slot
        self.running: dict[Request, None] = {}
        """In the order of admission."""
        self.prefilling: list[Request] = []
        """Running requests whose prompt is not computed whole."""
        self.swapped: deque[Request] = deque()
        self.num_swapped_tokens = 0
        self.tiers: KVTiers | None = None
        """Tiers of the KV cache beside the device's."""
        self.loading: list[Request] = []
        """Running requests that wait for blocks from those tiers."""
        self.num_prompt_tokens = 0
        """Of the requests that have not ended."""
        self.watch: Watch | None = None
        self.now = 0.0
        """When the step begins that is formed."""
        self.known_until = -math.inf if policy.async_scheduling else math.inf
        """Requests that arrived later are not known yet."""
        self.num_leaving = 0
        """Slots of requests that ended with the last step: under asynchronous scheduling they are free one step later."""
        # In a pool of replicas that only compute prompts, or only decode (`disaggregation.py`)
        self.handoff: Callable[[Request, float], bool] | None = None
        """Called with a request that has its last token, and when; returns whether its cache goes to another replica."""
        self.receive: Callable[[Request, Scheduler], None] | None = None
        """Called with a request that has blocks for its cache, which comes from another replica."""
        self.num_held_blocks = 0
        """Blocks of requests that do not run: their cache is sent, or it arrives."""
        self.num_receiving = 0
        """Requests whose cache arrives."""
        self.received: deque[Request] = deque()
        """Requests whose cache has arrived, and that do not run yet."""
        self.arrived: list[Request] = []
        """Of these, those that arrived since the last step was formed."""
        self.starting: list[Request] = []
        """Running requests whose first token comes with the next decode step."""
        # The step that is formed
        self.prefills: list[tuple[Request, int]] = []
        """Prompts in the step, each with its number of scheduled tokens."""
        self.decodes = True
        """Whether the requests that decode take part in a step with prompts."""
        self.decodes_allocated = False
        """Whether those have been given the blocks of the step."""
        self.preempted = False
        """Whether a request was preempted."""
        self.num_missing_blocks = 0
        """Blocks for which one is preempted."""
        self.may_change = False
        """Whether the step after it may be another, though no request arrives or ends."""
        self.copy_s = 0.0
        """Seconds of copies to and from the host before the step."""

    @property
    def num_unfinished(self) -> int:
        """Number of requests that have not ended: waiting, running and swapped ones, and those whose cache comes."""
        return len(self.waiting) + len(self.running) + len(self.swapped) + self.num_receiving + len(self.received)

    def schedule(self, now: float) -> None:
        """Form the step that begins at `now`, in seconds: `prefills`, beside which `batch` decodes. There is none while all
        requests wait for the transfer of a cache.

        Raises:
            NoProgressError: there is nothing that could be computed.
        """
        self.now = now
        self.copy_s = 0.0
        self._form()
        if self.prefills or self.batch.num_sequences:
            if self.policy.async_scheduling:
                self._look_ahead()
            return
        if self.preempted:  # what was preempted may be admitted again
            self._form()
        if self.policy.async_scheduling and not self.prefills and not self.batch.num_sequences:
            self.free_pending()  # nothing runs: it waits for the last step
            self.known_until = math.inf
            self._form()
        if not self.prefills and not self.batch.num_sequences and not self.loading and not self.num_held_blocks:
            raise self._no_progress()
        if self.policy.async_scheduling:
            self._look_ahead()

    def _form(self) -> None:
        received = self.received
        if received:
            self._register_arrived()
        self.prefills, self.decodes_allocated, self.preempted, self.may_change = [], False, False, False
        if self.loading:
            self._end_loads()
        self.policy.schedule(self)
        while self.passed:
            self.waiting.appendleft(self.passed.pop())
        if received and self.decodes and not self.preempted:
            self._admit_received()

    def _look_ahead(self) -> None:
        """The step after may be another where a request waits that was not known yet, or for what is not free yet."""
        waiting, received = self.waiting, self.received
        if waiting or self.swapped or received:
            unknown = len(waiting) > 0 and (self.adapters is not None or waiting.first().queued_time > self.known_until)
            unknown = unknown or (len(received) > 0 and not self._is_known(received[0]))
            self.may_change = self.may_change or unknown or self.kv_cache.num_pending_blocks > 0 or self.num_leaving > 0

    def free_pending(self) -> None:
        """Free the blocks and slots of requests that ended with the step before the last."""
        self.kv_cache.free_pending()
        self.num_leaving = 0

    # What waits

    def settle(self, now: float) -> None:
        """Look at the waiting requests before the step at `now`, in seconds: put them in order, and shed some."""
        self.now = now
        if self.reordering is not None:
            self.reordering.settle(now)
        if self.admission is not None:
            self.admission.judge(self)

    def unchanged(self) -> tuple[float, int]:
        """Return until when, in seconds, and for how many decode steps, nothing changes among the waiting requests that a step
        could be formed of."""
        until, num_steps = math.inf, _ENDLESS
        if self.reordering is not None and len(self.running) < self.max_num_seqs and not self.swapped:
            until, num_steps = self.reordering.unchanged()
        if self.admission is not None:
            until = min(until, self.admission.next_change(self))
        return until, num_steps

    def shed(self, request: Request, time: float) -> None:
        """Drop a waiting request at `time`, in seconds."""
        self.waiting.remove(request)
        self.num_prompt_tokens -= request.num_prompt_tokens
        self.reject(request, time)

    def reject(self, request: Request, time: float) -> None:
        """Note that a request is turned away, or dropped while it waits, at `time`, in seconds."""
        if self.watch:
            self.watch(("shed", time, request.index, request.arrival_time, request.num_prompt_tokens, request.max_tokens))
        request.first_token_time = NEVER
        self.log.shed(request, time)

    # What policies form steps of

    def allocate_decodes(self) -> None:
        """Allocate a block to each decoding request that needs one for its next token; preempt until there are enough."""
        cache = self.kv_cache
        if cache.preallocates:
            return
        growth, residue = cache.growth, self.batch.num_steps % cache.period
        while growth[residue] > cache.num_free_blocks:
            self.num_missing_blocks = growth[residue] - cache.num_free_blocks
            self.preempt(self.policy.preemption_candidate(self))
        cache.num_free_blocks -= growth[residue]
        self.decodes_allocated = True

    def allocate_chunk(self, request: Request, num_new_tokens: int) -> bool:
        """Allocate the blocks of the next chunk of a running prompt, of `num_new_tokens` tokens; preempt requests until there
        are enough.

        Returns:
            Whether they are allocated: not if the request itself had to be preempted.
        """
        cache = self.kv_cache
        short = cache.blocks_of(request.num_computed_tokens + num_new_tokens) - request.num_blocks
        while short > cache.num_free_blocks:
            self.num_missing_blocks = short - cache.num_free_blocks
            candidate = self.policy.preemption_candidate(self)
            self.preempt(candidate)
            if candidate is request:
                return False
        if short > 0:
            cache.num_free_blocks -= short
            request.num_blocks += short
        cache.register(request, request.num_computed_tokens + num_new_tokens)
        return True

    def resume_swapped(self) -> int:
        """Bring swapped requests back from the host in order, as long as slots and blocks are free; returns their number."""
        before = len(self.running)
        cache = self.kv_cache
        while self.swapped and len(self.running) < self.max_num_seqs:
            watermark = cache.watermark_blocks if self.running else 0
            if cache.blocks_of(self.swapped[0].num_computed_tokens + cache.num_slots) + watermark > cache.num_free_blocks:
                break
            self._resume(self.swapped.popleft())
        return len(self.running) - before

    def admit_waiting(self, token_budget: int) -> None:  # noqa: C901 - what may stop an admission
        """Admit waiting requests in order, as long as slots, blocks and `token_budget` (new tokens) last. None passes another.

        A prompt that may not be cut goes with one microbatch, and has it to itself if it is longer than its part of the budget.
        Only requests whose adapter has no slot are passed over.
        """
        if self.swapped:
            return
        more = 0 if self.policy.chunked_prefill else self.num_microbatches - 1
        share = token_budget = token_budget // (more + 1)
        begun = bool(self.prefills)
        policy, waiting, running, cache = self.policy, self.waiting, self.running, self.kv_cache
        receive = self.receive
        slots = self.max_num_seqs - self.num_leaving
        if self.max_admissions < slots:
            slots = min(slots, len(running) + self.max_admissions)
        if self.adapters is not None:
            self._pass_over(self.adapters)
        while waiting and len(running) < slots:
            request = waiting.first()
            if request.queued_time > self.known_until:
                return
            free = cache.num_free_blocks - (cache.watermark_blocks if running else 0)
            if cache.prefixes is not None:
                free += cache.find_cached(request)
            if receive is not None and request.transfer is not None and not request.transfer.is_reserved:
                slotless = self.num_receiving + len(self.received) if policy.slot_while_receiving else 0
                if len(running) + slotless >= slots or not self._reserve(request, request.transfer, free):
                    return
                waiting.popleft()
                receive(request, self)
                continue
            if policy.full_prompt_must_fit and cache.blocks_of(request.num_tokens) > free:
                return
            num_new_tokens = request.num_tokens - request.num_computed_tokens
            if num_new_tokens > token_budget or policy.static_batching:
                chunk = self._first_chunk(request, token_budget, begun=begun)
                if chunk is None and more:
                    more, token_budget = more - 1, share
                    chunk = self._first_chunk(request, token_budget, begun=False)
                if chunk is None:
                    return
                num_new_tokens = chunk
            plan = None if self.tiers is None else self._plan_load(request)
            num_loaded = 0 if plan is None else plan.until * cache.block_size - request.num_computed_tokens
            num_blocks = policy.blocks_to_admit(self, request, num_loaded or num_new_tokens)
            if num_blocks > free:
                return
            waiting.popleft()
            if plan is not None and self._begin_load(request, plan, num_blocks):
                continue
            cache.admit(request, num_blocks, num_new_tokens)
            running[request] = None
            self._begin_prompt(request)
            if num_new_tokens:
                self.prefills.append((request, num_new_tokens))
                begun = True
            token_budget -= num_new_tokens

    def _pass_over(self, adapters: AdapterSlots) -> None:
        """Pass over waiting requests up to the first whose adapter has a slot, or can have one."""
        waiting = self.waiting
        while waiting and adapters.passes_over(waiting.first()):
            self.passed.append(waiting.popleft())

    def _begin_prompt(self, request: Request) -> None:
        """A running request begins to compute its prompt: load its adapter, and tell who watches."""
        if self.adapters is not None:
            self.copy_s += self.adapters.acquire(request)
            self._pass_over(self.adapters)
        self.prefilling.append(request)
        if self.watch:
            self.watch(("admit", self.now, request.index))

    def _first_chunk(self, request: Request, token_budget: int, *, begun: bool) -> int | None:
        """New tokens of a waiting request in a microbatch, which has a prompt or not; None where it has to wait for another."""
        if self.policy.static_batching:
            return 0
        num_new_tokens = request.num_tokens - request.num_computed_tokens
        if num_new_tokens <= token_budget:
            return num_new_tokens
        if self.policy.chunked_prefill:
            return token_budget if token_budget > 0 else None
        return None if begun else num_new_tokens

    # Blocks from KV cache tiers

    def _plan_load(self, request: Request) -> LoadPlan | None:
        """What a request that could be admitted should load; None where no tier has anything that the device has not."""
        if self.tiers is None or (request.content is None and not request.num_preemptions):
            return None
        return self.tiers.plan(request, self.now, self.loading)

    def _begin_load(self, request: Request, plan: LoadPlan, num_blocks: int) -> bool:
        """A request begins to run by loading blocks; returns whether there are any that it loads."""
        assert self.tiers is not None  # noqa: S101 - who has a plan has tiers
        self.tiers.num_declined += plan.num_declined
        if plan.until * self.kv_cache.block_size == request.num_computed_tokens:
            return False
        self.kv_cache.admit(request, num_blocks, 0)
        self.running[request] = None
        loads = self.tiers.begin_load(request, plan, self.now)
        self.loading.append(request)
        if not request.num_preemptions:
            request.num_hit_tokens = request.num_loading_tokens
            for place, num_tokens, _, _ in loads:
                self.log.loads.extend((request.index, place, num_tokens))
        if self.watch:
            self.watch(("loading", self.now, request.index))
            for place, num_tokens, begins, ends in loads:
                self.watch(("load", begins, ends, request.index, place, num_tokens))
        return True

    def _end_loads(self) -> None:
        """Go on with the prompts whose blocks are there, in the order in which they came."""
        until = min(self.now, self.known_until)
        loaded = sorted(
            [request for request in self.loading if request.ready_time <= until], key=lambda one: (one.ready_time, one.index)
        )
        for request in loaded:
            self.loading.remove(request)
            request.num_computed_tokens = request.num_loading_tokens
            self.kv_cache.register(request, request.num_computed_tokens)
            self._begin_prompt(request)

    # Caches that move from one replica to another

    def release(self, request: Request) -> None:
        """Free the blocks of a request whose cache was sent."""
        self.num_held_blocks -= request.num_blocks
        self.kv_cache.free(request, request.num_blocks, request.max_cached_tokens, ended=True)

    def deliver(self, request: Request) -> None:
        """Note that the cache of a request has arrived."""
        self.num_receiving -= 1
        self.received.append(request)
        self.arrived.append(request)

    def _register_arrived(self) -> None:
        """Let others find the caches that arrived since the last step was formed."""
        for request in self.arrived:
            if request.transfer is not None:
                self.kv_cache.register_received(request, request.transfer.num_tokens)
        self.arrived.clear()

    def _reserve(self, request: Request, transfer: Transfer, free: int) -> bool:
        """Allocate blocks for a cache that will arrive and for the token after it; returns whether enough were free."""
        cache = self.kv_cache
        num_blocks = cache.blocks_of(request.max_cached_tokens if cache.preallocates else transfer.num_tokens + 1)
        if num_blocks > free:
            return False
        cache.admit(request, num_blocks, 0)
        self.num_held_blocks += num_blocks
        self.num_receiving += 1
        return True

    def _is_known(self, request: Request) -> bool:
        """Whether the arrival of a cache is known to the step that is formed."""
        return request.transfer is None or request.transfer.end <= self.known_until

    def _admit_received(self) -> None:
        """Let requests whose cache has arrived decode in the step that is formed, in order, as long as there are slots."""
        running, received = self.running, self.received
        while received and len(running) < self.max_num_seqs - self.num_leaving and self._is_known(received[0]):
            request = received.popleft()
            transfer = request.transfer
            assert transfer is not None  # noqa: S101 - only caches that were sent arrive
            self.num_held_blocks -= request.num_blocks
            running[request] = None
            self._decode(request, transfer.num_tokens)
            self.batch.add_stalled(request.last_token_time)
            if request.first_token_time < 0:
                self.starting.append(request)
            if self.watch:
                self.watch(("receive", self.now, request.index))

    def first_tokens(self, time: float) -> None:
        """Note that requests that began to decode without a token have their first at `time`, in seconds."""
        for request in self.starting:
            request.first_token_time = time
        self.starting.clear()

    # Requests that change state

    def preempt(self, request: Request) -> None:
        """Preempt a running request: free its blocks, and let it wait, with its cache on the host or dropped."""
        cache = self.kv_cache
        del self.running[request]
        if self.adapters is not None:
            self.adapters.release(request)
        self.preempted = self.may_change = True
        request.num_preemptions += 1
        self.log.num_preemptions += 1
        if request.final_step < 0:
            (self.loading if request in self.loading else self.prefilling).remove(request)
            self.prefills = [part for part in self.prefills if part[0] is not request]
            self._drop(request, request.num_blocks)
            return
        batch = self.batch
        request.num_output_tokens = batch.num_output_tokens(request)
        request.last_token_time = max(request.last_token_time, batch.last_token_time)
        batch.remove_stalled(request.last_token_time)
        num_blocks = request.num_blocks
        if not cache.preallocates:
            num_blocks = cache.stop_growth(request, batch.num_steps, allocated=self.decodes_allocated)
        num_cached_tokens = batch.remove(request)
        if self.meter is not None:
            self.meter.stopped(request)
        request.num_tokens = request.num_prompt_tokens + request.num_output_tokens
        request.num_computed_tokens = num_cached_tokens
        if self.tiers is not None:
            self.tiers.store(request, num_cached_tokens, self.now)
        if not self.preemption.swaps(num_cached_tokens, self.num_swapped_tokens, request.num_prefix_tokens):
            self._drop(request, num_blocks)
            return
        cache.free(request, num_blocks, num_cached_tokens)
        self.swapped.appendleft(request)
        self.num_swapped_tokens += num_cached_tokens
        self.copy_s += self.preemption.costs.swap_seconds(num_cached_tokens)[0]
        self.log.swapped.extend((self.now, num_cached_tokens))
        if self.watch:
            self.watch(("swap", self.now, request.index))

    def _drop(self, request: Request, num_blocks: int) -> None:
        """Drop the cache of a preempted request, which waits to compute it again."""
        self.kv_cache.free(request, num_blocks, request.num_computed_tokens)
        request.num_dropped_tokens = max(request.num_dropped_tokens, request.num_computed_tokens)
        request.num_computed_tokens = request.num_prefix_tokens
        self.waiting.appendleft(request)
        self.log.dropped.append(self.now)
        if self.watch:
            self.watch(("preempt", self.now, request.index))

    def _resume(self, request: Request) -> None:
        """A request comes back from the host, with blocks for its next token, and decodes in this step."""
        self.may_change = True
        num_cached_tokens = request.num_computed_tokens
        self.kv_cache.num_free_blocks -= self.kv_cache.blocks_of(num_cached_tokens + self.kv_cache.num_slots)
        self.running[request] = None
        self.num_swapped_tokens -= num_cached_tokens
        self.copy_s += self.preemption.costs.swap_seconds(num_cached_tokens)[1]
        self._decode(request, num_cached_tokens, resumed=True)
        self.batch.add_stalled(request.last_token_time)
        if self.watch:
            self.watch(("resume", self.now, request.index))

    def _decode(self, request: Request, num_cached_tokens: int, *, resumed: bool = False) -> None:
        self.batch.add(request, num_cached_tokens)
        if self.meter is not None:
            self.meter.began(request)
        if not self.kv_cache.preallocates:
            self.kv_cache.start_growth(request, resumed=resumed)

    def prompt_computed(self, request: Request, time: float) -> None:
        """Note that the prompt of a request is computed, and its next token generated, at `time`, in seconds."""
        self.prefilling.remove(request)
        if request.first_token_time < 0:
            request.first_token_time = time
        else:
            self.log.gaps.extend((time - request.last_token_time, 1))
            self.log.gap_ends.append(time)
        if self.watch:
            self.watch(("token", time, request.index))
        request.num_output_tokens += 1
        request.last_token_time = time
        if self.meter is not None:
            self.meter.generated(request)
        if request.num_output_tokens == request.max_tokens:
            self._finish(request, time, request.num_blocks)
        else:
            self._decode(request, request.num_tokens)

    def decode_ended(self, request: Request, time: float) -> None:
        """End a request that has its last token at `time`, in seconds, and that the batch no longer has."""
        cache = self.kv_cache
        if self.meter is not None:
            self.meter.stopped(request)
        if cache.preallocates:
            self._finish(request, time, request.num_blocks)
        else:
            self._finish(request, time, cache.stop_growth(request, self.batch.num_steps, allocated=False))

    def _finish(self, request: Request, time: float, num_blocks: int) -> None:
        del self.running[request]
        if self.adapters is not None:
            self.adapters.release(request)
        self.num_prompt_tokens -= request.num_prompt_tokens
        if self.handoff is not None and self.handoff(request, time):  # its blocks stay taken until they are sent
            self.num_held_blocks += num_blocks
            self.num_leaving += self.policy.async_scheduling
            if self.watch:
                self.watch(("handoff", time, request.index))
            return
        cache, policy = self.kv_cache, self.policy
        if self.tiers is not None:
            self.tiers.store(request, request.max_cached_tokens, time)
        if policy.async_scheduling:
            cache.free_later(request, num_blocks, request.max_cached_tokens)
            self.num_leaving += 1
        elif policy.static_batching:
            cache.retain(request, num_blocks, request.max_cached_tokens)
            if not self.running:
                cache.free_retained()
        elif cache.prefixes is None:
            cache.num_free_blocks += num_blocks
        else:
            cache.free(request, num_blocks, request.max_cached_tokens, ended=True)
        if self.watch:
            self.watch(("end", time, request.index))
        self.log.end(request, time, self.index)

    def abandon(self) -> list[Request]:
        """Return the requests that have not ended, with the tokens that they have, in the order of their numbers; the scheduler
        is not used afterwards."""
        batch, requests = self.batch, [*self.running, *self.swapped]
        for request in self.running:
            if request.final_step >= 0:
                request.num_output_tokens = batch.num_output_tokens(request)
                request.last_token_time = max(request.last_token_time, batch.last_token_time)
                request.num_computed_tokens = batch.remove(request)
        for request in self.waiting:
            request.num_computed_tokens = 0  # what it might have found cached
            requests.append(request)
        self.running, self.prefilling, self.prefills = {}, [], []
        self.swapped.clear()
        return sorted(requests, key=lambda request: request.index)

    def adapter_seconds(self, adapters: AdapterSlots) -> float:
        """Return by how many seconds the step that is formed is longer for its requests' adapters."""
        num_tokens, used = 0, set()
        for request, num_new_tokens in self.prefills:
            if request.adapter >= 0:
                num_tokens += num_new_tokens
                used.add(request.adapter)
        if self.decodes or not self.prefills:
            for request in self.running:
                if request.final_step >= 0 and request.adapter >= 0:
                    num_tokens += 1
                    used.add(request.adapter)
        return adapters.config.step_seconds(num_tokens, len(used)) if used else 0.0

    # Checks

    def check(self) -> None:
        """Count the tokens and blocks of every sequence anew, and compare with the sums.

        Raises:
            AssertionError: they differ.
        """
        batch, cache = self.batch, self.kv_cache
        decoding = [request for request in self.running if request.final_step >= 0]
        num_cached = sum([batch.cached_tokens(request) for request in decoding])
        if cache.preallocates:
            taken = sum([request.num_blocks for request in self.running]) + cache.num_retained_blocks
        else:
            now = self.decodes or not self.prefills  # the tokens of the step that is planned
            taken = sum([cache.blocks_held(request, batch.num_steps, allocated=now) for request in decoding])
            taken += sum([request.num_blocks for request in (*self.prefilling, *self.loading)]) + cache.num_pending_blocks
        taken += self.num_held_blocks
        if cache.prefixes is not None:
            taken -= cache.prefixes.num_shared
        sums = (batch.num_sequences, batch.num_cached_tokens, cache.num_taken_blocks)
        if (len(decoding), num_cached, taken) != sums:
            counted = f"{len(decoding)} decode with {num_cached} tokens cached, and {taken} blocks are taken"
            raise AssertionError(f"at {self.now} s under {self.policy.name} {counted}; the sums are {sums}")

    def _no_progress(self) -> NoProgressError:
        """Which request cannot go on, and what it lacks."""
        cache = self.kv_cache
        if self.swapped:
            request = self.swapped[0]
            needed = cache.blocks_of(request.num_computed_tokens + cache.num_slots)
            what = f"request {request.index} is on the host and needs {needed:,} blocks"
        elif self.waiting:
            request = self.waiting.first()
            what = f"request {request.index} ({request.num_tokens:,} tokens to compute) waits"
        else:
            what = f"the prompt of request {self.prefilling[0].index} cannot go on"
        return NoProgressError(
            f"nothing can go on at {self.now:.6g} s under {self.policy.name}: {what}, and nothing runs that would end; "
            f"{cache.num_free_blocks:,} of {cache.num_gpu_blocks:,} blocks are free, {len(self.running)} of "
            f"{self.max_num_seqs} slots taken, {self.max_num_batched_tokens:,} tokens per step"
        )
