"""One replica of an engine: who runs, who waits, which blocks are taken, and when its steps end.

Between two events (an arrival that may be let in, the end of an answer, a block that is missing, the end of a chunk) every
step decodes one token of the same sequences. What n of them have cached grows by n a step, so that with t = a + b c seconds a
step at c cached tokens, k steps take k (a + b c) + b n k (k - 1)/2. Such a run is planned as long as nothing can change, and
cut where an arrival comes that might. Step by step, the scheduler forms every step, each has its own time, and all tokens
and blocks are counted anew: the same events.

Decode steps are counted. A sequence decodes in every one of them, so the step at which its answer ends is known when it
begins, and so is, modulo the tokens of a block, the step at which it needs another block: `grow` holds how many do at each
residue.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from roofline.serving.simulation.audit import audit
from roofline.serving.simulation.book import Book
from roofline.serving.simulation.eviction import Preempting
from roofline.serving.simulation.growth import lasting, needed
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.room import Room
from roofline.serving.simulation.runs import reaching, seconds
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.serving.simulation.step_time import Cell, StepTime
from roofline.serving.simulation.stuck import stuck

INF = math.inf


class Replica:
    """An engine. `watch` is told of every event, as (what, time, ...); for tests and for those who want to see."""

    __slots__ = (
        "_cells", "_log", "_rate", "_slope", "_start_at", "ahead", "anew", "blocks", "book", "budget", "cached", "came",
        "came_at", "chunks", "deaf", "decodes", "done", "ends", "evicted", "free", "freed", "gone", "granted", "grow",
        "held", "index", "keeps", "known", "late", "late_many", "lead", "many", "mark", "now", "own", "partial", "policy",
        "preempting", "run", "running", "seats", "size", "soon", "steps", "stepwise", "swapped", "swapped_tokens", "times",
        "token_at", "waiting", "watch",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915 - a field each
        self, policy: Scheduler, times: StepTime, room: Room, *, book: Book | None = None, preempting: Preempting | None = None,
        index: int = 0, stepwise: bool = False, watch: Callable[[tuple[Any, ...]], None] | None = None,
    ) -> None:  # fmt: skip
        self.policy, self.times, self.index = policy, times, index
        self.blocks = self.free = room.blocks
        self.size, self.seats, self.budget, self.own = room.block_size, room.seats, room.budget, room.own
        self.keeps = room.keeps and not room.own  # a state is not found again by its prompt's blocks
        self.freed = 0
        """Blocks that were given back, so far, less those found again: with those in use, how many were ever taken."""
        self.mark = math.ceil(policy.watermark * room.blocks)
        """Blocks that are left free when a request is let in."""
        self.book = Book() if book is None else book
        self._log = self.book.runs.extend
        self.preempting = Preempting() if preempting is None else preempting
        self.stepwise, self.watch = stepwise, watch
        self.waiting = policy.queue()
        self.came, self.came_at = 0, 0.0
        """Of them, those that have come since the last step ended, and the sum of the times when."""
        self.swapped: deque[Job] = deque()
        self.swapped_tokens = 0
        self.running: dict[Job, None] = {}
        """Who holds a seat, in the order of admission."""
        self.partial: list[Job] = []
        """Of them, those whose prompt is not yet computed whole."""
        self.many = 0
        """Of them, those that decode."""
        self.cached = 0
        """Tokens that those have cached together."""
        self.steps = 0
        """Decode steps so far."""
        self.grow = [0] * room.block_size
        self.done: list[tuple[int, int, Job]] = []
        """A heap of who decodes by the step that ends it; an entry whose step is no longer the request's is void."""
        self.ahead = policy.ahead
        self.known = -INF if policy.ahead else INF
        """Up to when requests must have come to be let in: ahead, when the step began that ended last."""
        self.soon = self.gone = 0
        """Blocks and seats of answers that ended with that step: ahead, the step after next has them."""
        self.held = 0
        """Blocks of requests that have ended, while others of their batch run on."""
        self.now, self.ends = 0.0, INF
        """End of the last step, and of what is planned: infinity while nothing is to be done."""
        self.run = 0
        """Decode steps that are planned; 0: a step with prompts, or none."""
        self.chunks: list[tuple[Job, int]] = []
        """Prompts in the step that is planned, with their new tokens."""
        self.decodes = True
        """Whether those that decode take part in a step with prompts."""
        self.granted = False
        """Whether those that decode have been given the blocks of the step that is being formed."""
        self.evicted = False
        """Whether somebody had to go in the step that is being formed."""
        self.anew = False
        """Whether the step after it may be another, though nobody comes or ends."""
        self.lead = 0.0
        """Seconds of copies before the first step of what is planned."""
        self.deaf = False
        """Whether no arrival can change what is planned."""
        self.late: dict[float, int] = {}
        """Who decodes, but had the latest token before the last step ended: how many by its time."""
        self.late_many = 0
        self.token_at = -INF
        """When those that decode had their latest token, unless they began to later."""
        self._start_at = self._rate = self._slope = 0.0
        self._cells: dict[int, Sequence[Cell]] = {}

    # What outside asks for

    @property
    def load(self) -> int:
        """Requests that it has not yet answered."""
        return len(self.waiting) + len(self.running) + len(self.swapped)

    def blocks_of(self, tokens: int) -> int:
        """Blocks of a sequence with so many tokens."""
        return -(-tokens // self.size) + self.own

    def refusal(self, job: Job) -> str | None:
        """Why a request could never be served; None where it could."""
        needed = self.blocks_of(job.longest)
        if needed > self.blocks:
            return f"needs {needed:,} blocks at its last token, and there are {self.blocks:,}"
        return None

    def accept(self, job: Job, at: float) -> None:
        """A request arrives, at no time before the end of the last step."""
        if self.ends == INF:
            self.ends, self.run, self.chunks = at, 0, []  # wakes up; whoever comes at the same time is seen too
        elif self.run > 1:
            if not (self.deaf or (self.waiting.fifo and self.waiting)):
                job.seen = self._cut(at)
        else:
            job.seen = self.ends
        if self.run or self.chunks:
            self.came += 1
            self.came_at += at
        self.waiting.append(job)

    def advance(self, until: float) -> None:
        """Do what ends before a time."""
        while self.ends < until:
            self.complete()
            self.begin()

    # Steps

    def begin(self) -> None:
        """Form the next step, and plan how often it can be done."""
        if not self.waiting and not self.partial and not self.swapped:
            if not self.many:
                self.ends = INF
                self._settle()
                return
            short = self.grow[self.steps % self.size]
            if short <= self.free and not self.stepwise:  # there is nothing to decide
                self.free -= short
                if self.chunks:
                    self.chunks = []
                self.lead, self.anew = 0.0, False
                self._plan()
                return
        self.lead = 0.0
        self._form()
        if self.ahead or not (self.chunks or self.many):
            self._form_again()
        if self.chunks:
            many = self.many if self.decodes else 0
            if len(self.chunks) == 1:  # as most
                ((job, new),) = self.chunks
                parts = [(new, job.computed)]
            else:
                parts = [(new, job.computed) for job, new in self.chunks]
            self.run = 0
            self.ends = self.now + self.lead + self.times.mixed(many, self.cached if many else 0, parts)
        elif self.many:
            self._plan()
        else:
            raise stuck(self)
        if self.stepwise:
            audit(self)

    def _form(self) -> None:
        self.chunks, self.granted, self.evicted, self.anew = [], False, False, False
        self.policy.form(self)

    def _form_again(self) -> None:
        """Where there is nothing to do: who had to go may be let in again, and who forms steps ahead waits for the last one."""
        if self.chunks or self.many:
            self._look_again()
            return
        if self.evicted:
            self._form()
        if self.ahead and not self.chunks and not self.many:
            self._settle()
            self.known = INF
            self._form()

    def _look_again(self) -> None:
        """Ahead, the next step may be another where somebody waits who was not yet known, or for what is not yet free."""
        waiting = self.waiting
        if waiting or self.swapped:
            unknown = len(waiting) > 0 and waiting.first().arrived > self.known
            self.anew = self.anew or unknown or self.soon > 0 or self.gone > 0

    def _plan(self) -> None:
        """Steps that decode, until something can change."""
        many, cached = self.many, self.cached
        self._start_at = start = self.now + self.lead
        if self.stepwise:
            self.run, self._rate, self._slope = 1, self.times.mixed(many, cached, ()), 0.0
            self.ends = start + self._rate
            return
        cells = self._cells.get(many)
        if cells is None:
            cells = self._cells[many] = self.times.cells(many)
        for below, base, slope in cells:  # noqa: B007 - the last that is looked at
            if cached < below:
                break
        self._rate, self._slope = rate, slope = base + slope * cached, slope * many
        self.deaf = self.policy.closed
        if self.anew:
            self.run, self.ends = 1, start + rate
            return
        done = self.done
        top = done[0]
        while top[2].done_at != top[0]:
            heappop(done)
            top = done[0]
        run = top[0] - self.steps
        if below != INF and cached + run * many > below:
            run = min(run, -int((cached - below) // many))
        if run > 1 and many * ((run - 2) // self.size + 1) > self.free and not self.policy.reserves:
            run = lasting(self.grow, self.steps, self.free, self.many, run)
        self.run = run
        self.ends = start + seconds(run, rate, slope)

    def _cut(self, at: float) -> float:
        """End the run that is planned with the first step that ends at a time or after it, ahead with the one after that; when
        that first one ends."""
        start, rate, slope = self._start_at, self._rate, self._slope
        steps = reaching(at, start, rate, slope, self.run)
        seen = ends = start + seconds(steps, rate, slope)
        if self.ahead:
            steps += 1
            ends = start + seconds(steps, rate, slope)
        if steps < self.run:
            self.run, self.ends = steps, ends
        return seen

    def complete(self) -> None:
        """What is planned is done."""
        ends, run = self.ends, self.run
        if self.ahead:
            self._settle()
            last = run - 1  # when it begins, the one before has ended
            self.known = self.now
            if last > 0:
                self.known = self._start_at + seconds(last, self._rate, self._slope)
        if run:
            self._decoded(run)
        elif self.chunks:
            self._mixed()
        self.now = ends
        done, steps = self.done, self.steps
        while done and done[0][0] <= steps:
            at, _, job = heappop(done)
            if job.done_at == at:
                self._answered(job, ends)

    def _decoded(self, run: int) -> None:
        many, steps, ends = self.many, self.steps, self.ends
        taken = needed(self.grow, steps + 1, many, run - 1) if run > 1 and not self.policy.reserves else 0
        self._log((
            self.now, ends, self.lead, run, many, self.cached, 0, 0, len(self.running), self._waited(ends),
            self.blocks - self.free + taken / 2, self._rate, self._slope, self.late_many, taken,
        ))  # fmt: skip
        if self.late_many:
            self._caught_up(self._start_at + self._rate)
        if self.watch:
            self.watch(("decode", self.now, ends, run, many))
        self.free -= taken
        self.steps = steps + run
        self.cached += many * run
        self.token_at = ends

    def _waited(self, ends: float) -> float:
        """Who waited in what is planned, mean over its time: who came meanwhile did so from then on."""
        found = len(self.waiting) + len(self.swapped)
        came = self.came
        if not came:
            return found
        took, since = ends - self.now, came * ends - self.came_at
        self.came, self.came_at = 0, 0.0
        return found - came + since / took if took > 0 else found

    def _settle(self) -> None:
        """What became free with the step before the last is free."""
        self.free += self.soon
        self.freed += self.soon
        self.soon = self.gone = 0

    def _mixed(self) -> None:
        """A step with parts of prompts."""
        now, ends, chunks = self.now, self.ends, self.chunks
        many = self.many if self.decodes else 0
        if self.watch:
            self.watch(("mixed", now, ends, many, tuple((job.index, new, job.computed) for job, new in chunks)))
        ended: list[Job] = []
        tokens = 0
        again = False
        for job, new in chunks:
            tokens += new
            self.book.chunks.extend((new, job.computed))
            if job.computed < job.lost:
                again = True
            job.computed += new
            if job.computed == job.target:
                ended.append(job)
        self._log((
            now, ends, self.lead, 1, many, self.cached if many else 0, tokens, len(ended), len(self.running),
            self._waited(ends), self.blocks - self.free, ends - now - self.lead, 0.0, self.late_many, 0,
        ))  # fmt: skip
        if again:
            self._again(many)
        if many:
            if self.late_many:
                self._caught_up(ends)
            self.steps += 1
            self.cached += many
            self.token_at = ends
        elif self.many > self.late_many:  # they have to wait, as those that are late already
            self.late[now] = self.late.get(now, 0) + self.many - self.late_many
            self.late_many = self.many
        for job in ended:
            self._prompted(job, ends)

    def _again(self, many: int) -> None:
        """Write down which tokens of the step had been computed before, and what it takes longer than without them."""
        tokens, others = 0, []
        for job, new in self.chunks:
            before = job.computed - new
            lost = min(job.lost, job.computed) - before
            if lost <= 0:
                others.append((new, before))
                continue
            tokens += lost
            if new - lost > 1:  # one: the next token of its answer, for which it would have needed no prompt
                others.append((new - lost, before + lost))
        took = self.ends - self.now - self.lead
        if many or others:
            took = max(took - self.times.mixed(many, self.cached if many else 0, others), 0.0)
        self.book.again.extend((self.now, self.ends, tokens, took))

    def _caught_up(self, at: float) -> None:
        """Everybody who decodes gets a token."""
        for before, many in self.late.items():
            self.book.gaps.extend((at - before, many))
        self.late.clear()
        self.late_many = 0

    # What happens to a request

    def admit(self, job: Job, blocks: int, new: int) -> None:
        """Give a request a seat and blocks, and some of its tokens a place in the step."""
        self.free -= blocks
        self.freed -= job.computed // self.size  # found again, and not taken from the front of those that are free
        job.blocks = blocks
        self.running[job] = None
        self.partial.append(job)
        if new:
            self.chunks.append((job, new))
        if self.watch:
            self.watch(("admit", self.now, job.index))

    def _prompted(self, job: Job, at: float) -> None:
        """A prompt is computed, and its next token is there."""
        self.partial.remove(job)
        if job.first < 0:
            job.first = at
        else:
            self.book.gaps.extend((at - job.last, 1))
        if self.watch:
            self.watch(("token", at, job.index))
        job.generated += 1
        job.last = at
        if job.generated == job.answer:
            self._leave(job, at, job.blocks)
        else:
            self._decode(job, job.target)

    def _decode(self, job: Job, cached: int) -> None:
        """It decodes from the next step on."""
        job.base = cached - self.steps
        job.done_at = done_at = self.steps + job.answer - job.generated
        heappush(self.done, (done_at, job.index, job))
        self.many += 1
        self.cached += cached
        if not self.policy.reserves:
            self.grow[-job.base % self.size] += 1

    def _answered(self, job: Job, at: float) -> None:
        """Its last token is there."""
        cached = job.base + self.steps
        self.many -= 1
        self.cached -= cached
        job.done_at = -1
        if self.policy.reserves:
            self._leave(job, at, job.blocks)
        else:
            self.grow[-job.base % self.size] -= 1
            self._leave(job, at, -(-cached // self.size) + self.own)

    def _leave(self, job: Job, at: float, blocks: int) -> None:
        del self.running[job]
        if self.ahead:
            self.soon += blocks
            self.gone += 1
        elif self.policy.closed:
            self.held += blocks
            if not self.running:
                self.free += self.held
                self.held = 0
        else:
            self.free += blocks
            self.freed += blocks
        if self.watch:
            self.watch(("end", at, job.index))
        self.book.end(job, at, self.index)

    def evict(self, job: Job) -> None:
        """Preempt a request: its blocks are free, and it waits, with its cache on the host or without."""
        del self.running[job]
        self.evicted = self.anew = True
        job.preemptions += 1
        self.book.preemptions += 1
        if job.done_at < 0:
            self.partial.remove(job)
            self.chunks = [part for part in self.chunks if part[0] is not job]
            self._drop(job, job.blocks)
            return
        cached = job.base + self.steps
        left = job.done_at - self.steps
        job.generated, job.done_at = job.answer - left, -1
        at = job.last = max(job.last, self.token_at)
        if at in self.late:
            self.late_many -= 1
            self.late[at] -= 1
            if not self.late[at]:
                del self.late[at]
        self.many -= 1
        self.cached -= cached
        blocks = job.blocks
        if not self.policy.reserves:
            self.grow[-job.base % self.size] -= 1
            blocks = self.blocks_of(cached + 1 if self.granted else cached)
        job.target, job.computed = job.prompt + job.generated, cached
        if not self.preempting.swaps(cached, self.swapped_tokens):
            self._drop(job, blocks)
            return
        self.free += blocks
        self.swapped.appendleft(job)
        self.swapped_tokens += cached
        self.lead += self.preempting.costs.swap_seconds(cached)[0]
        self.book.moved.extend((self.now, cached))
        if self.watch:
            self.watch(("swap", self.now, job.index))

    def _drop(self, job: Job, blocks: int) -> None:
        # free blocks are taken in the order in which they became free, those of one request from its end
        job.kept = job.computed // self.size
        job.until = self.freed + self.blocks + blocks - job.kept
        self.free += blocks
        self.freed += blocks
        job.lost = max(job.lost, job.computed)
        job.computed = 0
        self.waiting.appendleft(job)
        self.book.dropped.append(self.now)
        if self.watch:
            self.watch(("preempt", self.now, job.index))

    def find(self, job: Job) -> None:
        """Which of the tokens of a request that was dropped are still cached: all but its last are looked for."""
        lost = max(self.freed + self.blocks - self.free - job.until, 0)
        job.computed = min(max(job.kept - lost, 0), (job.target - 1) // self.size) * self.size

    def resume(self, job: Job) -> None:
        """The next of those on the host comes back, with blocks for its next token, and decodes in this step."""
        self.swapped.popleft()
        self.anew = True
        cached = job.computed
        self.free -= self.blocks_of(cached + 1)
        self.running[job] = None
        self.swapped_tokens -= cached
        self.lead += self.preempting.costs.swap_seconds(cached)[1]
        self._decode(job, cached)
        self.late[job.last] = self.late.get(job.last, 0) + 1
        self.late_many += 1
        if self.watch:
            self.watch(("resume", self.now, job.index))
