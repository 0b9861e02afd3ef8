"""Admission control: which requests may wait, and which are shed, at the door or while they wait.

What is shed is counted apart from what could never be served (refused), and goodput counts it as missed. Where one of several
requests has to go, it is one of the last class, and of that the one that arrived last. A request that has run is never shed.

Each way has a spelling, such as `queue:64`; packages add ways through the entry-point group `roofline.admission`, each an
`AdmissionPolicy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from roofline.errors import InputError, UnknownNameError
from roofline.registry import Registry
from roofline.serving.simulation.request import NOT_YET, Request
from roofline.serving.traffic.scalars import parse_rate
from roofline.units import parse_count

if TYPE_CHECKING:
    from roofline.serving.simulation.scheduler import Scheduler

BURST_SECONDS = 10.0
"""Default burst of a token bucket: what flows in within this time."""


class AdmissionControl:
    """Which requests may wait at one replica."""

    cuts = False
    """Whether a request that arrives while others wait may change the next step."""
    judges = False
    """Whether waiting requests are looked at before each step."""

    def excess(self, request: Request, scheduler: Scheduler) -> Request | None:
        """Return the request that is shed when one arrives: it, one that waits, or none."""
        return None

    def judge(self, scheduler: Scheduler) -> None:
        """Shed waiting requests before the step at `scheduler.now`."""

    def next_change(self, scheduler: Scheduler) -> float:
        """Return when the next waiting request is shed, at the earliest, in seconds."""
        return math.inf


class Gate:
    """Which requests get to a replica at all."""

    def admits(self, request: Request) -> bool:
        """Return whether a request that arrives now is admitted."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Admission:
    """A way with its values.

    Args:
        text: as it is written.
        control: makes the control of one replica, of the TTFT objectives in seconds by class (infinity: none); None: none.
        gate: makes the gate before the replicas of a run; None: none.
        needs_objective: some class must have an objective for TTFT.
    """

    text: str
    control: Callable[[Sequence[float]], AdmissionControl] | None = None
    gate: Callable[[], Gate] | None = None
    needs_objective: bool = False


ADMIT_ALL = Admission("all")


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """A way to admit requests, and how it is written: `name:arguments`.

    Args:
        name: the word before the first colon.
        syntax: how it is written, for help and messages.
        about: one line on what it does.
        read: makes an `Admission` of its text and the arguments; a `ValueError` or an `InputError` says what is wrong.
        source: where it is described.
    """

    name: str
    syntax: str
    about: str
    read: Callable[[str, Sequence[str]], Admission]
    source: str = ""


def last_class(requests: Iterable[Request], beyond: int) -> Request | None:
    """Return the request that is shed first, of those of a class beyond `beyond` that have never run; None: there is none."""
    candidates = [one for one in requests if one.class_index > beyond and not one.num_preemptions]
    return max(candidates, key=_sheddable, default=None)


def _sheddable(request: Request) -> tuple[int, float, int]:
    return request.class_index, request.arrival_time, request.index


class QueueLimit(AdmissionControl):
    """No more than `limit` requests wait: one that arrives then is shed, or one of a later class that waits."""

    def __init__(self, limit: int, num_classes: int) -> None:
        self._limit = limit
        self.cuts = num_classes > 1

    def excess(self, request: Request, scheduler: Scheduler) -> Request | None:
        """Return the request that is shed when one arrives: it, one that waits, or none."""
        if len(scheduler.waiting) < self._limit:
            return None
        return (last_class(scheduler.waiting, request.class_index) if self.cuts else None) or request


class TokenBuckets(Gate):
    """A bucket of prompt tokens for each class: it fills at a rate up to `burst`, and a request takes its prompt out, or is
    shed where there is not enough.

    Args:
        rate: prompt tokens/s.
        burst: prompt tokens.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._levels: dict[int, tuple[float, float]] = {}

    def admits(self, request: Request) -> bool:
        """Return whether its bucket has the tokens of its prompt; they are taken out then."""
        time = request.arrival_time
        level, since = self._levels.get(request.class_index, (self._burst, time))
        level = min(level + (time - since) * self._rate, self._burst)
        admitted = request.num_prompt_tokens <= level
        self._levels[request.class_index] = (level - request.num_prompt_tokens if admitted else level, time)
        return admitted


class TTFTControl(AdmissionControl):
    """Sheds requests whose objective for TTFT cannot be met.

    * When a request has arrived, before the next step: what is to be computed of prompts that run, of those before it in the
      queue, and of its own, in full steps beside the requests that decode. If that takes too long, requests of later classes
      before it are shed, as many as needed; if all of them are not enough, it is shed itself.
    * While it waits: once its own prompt, beside the requests that decode then, would end too late.

    The prediction leaves out waits for slots and blocks; the second rule catches those.

    Args:
        objectives: seconds by class; infinity: none, and nothing is shed for its sake.
    """

    cuts = judges = True

    def __init__(self, objectives: Sequence[float]) -> None:
        self._objectives = objectives
        self._arrived: list[Request] = []
        self._latest: list[tuple[float, int, Request]] = []
        """A heap: when the prompt of a waiting request has to begin, at the latest."""

    def excess(self, request: Request, scheduler: Scheduler) -> Request | None:
        """Return None: it is judged before the next step."""
        if self._objectives[request.class_index] < math.inf:
            self._arrived.append(request)
        return None

    def judge(self, scheduler: Scheduler) -> None:
        """Shed what cannot be in time."""
        if self._arrived:
            known_until = scheduler.known_until if scheduler.running else math.inf
            known = [request for request in self._arrived if request.arrival_time <= known_until]
            self._arrived = self._arrived[len(known) :]
            for request in known:
                if _waits(request):
                    self._arrives(request, scheduler)
        now, latest = scheduler.now, self._latest
        while latest and latest[0][0] < now:
            _, _, request = heappop(latest)
            if _waits(request):
                # NB: since it came other requests may decode, and more of its prompt may be cached
                time = self._latest_start(request, scheduler)
                if time < now:
                    scheduler.shed(request, now)
                else:
                    heappush(latest, (time, request.index, request))

    def next_change(self, scheduler: Scheduler) -> float:
        """Return when the next waiting request is too late; minus infinity where one has still to be judged."""
        if self._arrived:
            return -math.inf
        latest = self._latest
        while latest and not _waits(latest[0][-1]):
            heappop(latest)
        return latest[0][0] if latest else math.inf

    def _arrives(self, request: Request, scheduler: Scheduler) -> None:
        due = request.arrival_time + self._objectives[request.class_index]
        before = list(scheduler.waiting.before(request))
        num_tokens = sum([_left(one, scheduler) for one in (request, *before)])
        num_tokens += sum([one.num_tokens - one.num_computed_tokens for one in scheduler.prefilling])
        dropped: list[Request] = []
        while scheduler.now + _seconds(num_tokens, scheduler) > due:
            one = last_class(before, request.class_index)
            if one is None:
                dropped = [request]
                break
            before.remove(one)
            dropped.append(one)
            num_tokens -= _left(one, scheduler)
        for one in dropped:
            scheduler.shed(one, scheduler.now)
        if _waits(request):
            heappush(self._latest, (self._latest_start(request, scheduler), request.index, request))

    def _latest_start(self, request: Request, scheduler: Scheduler) -> float:
        due = request.arrival_time + self._objectives[request.class_index]
        return due - _seconds(_left(request, scheduler), scheduler)


def _waits(request: Request) -> bool:
    """Whether a request has neither been shed nor ever run."""
    return request.first_token_time == NOT_YET and not request.num_blocks and not request.num_preemptions


def _left(request: Request, scheduler: Scheduler) -> int:
    """Tokens of a waiting request that are to be computed, as far as its prompt is not cached."""
    return request.num_tokens - scheduler.kv_cache.cached_tokens(request)


def _seconds(num_tokens: int, scheduler: Scheduler) -> float:
    """Seconds to compute tokens of prompts, in full steps beside what decodes now."""
    batch, mixed = scheduler.batch, scheduler.policy.mixed_steps
    num_sequences, num_cached_tokens = (batch.num_sequences, batch.num_cached_tokens) if mixed else (0, 0)
    if (most := scheduler.max_num_seqs - 1) < num_sequences:  # one has to end first
        num_sequences, num_cached_tokens = most, num_cached_tokens * most / num_sequences
    budget = max(scheduler.max_num_batched_tokens - num_sequences * scheduler.num_step_tokens, 1)
    num_steps, rest = divmod(num_tokens, budget)
    step = scheduler.step_time.mixed
    seconds = num_steps * step(num_sequences, num_cached_tokens, [(budget, 0)]) if num_steps else 0.0
    return seconds + (step(num_sequences, num_cached_tokens, [(rest, 0)]) if rest else 0.0)


def parse_admission(text: str) -> Admission:
    """Return the admission of a spelling: `all`, `queue:64`, `token-bucket:20000:50000`, `slo`.

    >>> parse_admission("queue:64").text
    'queue:64'

    Raises:
        InputError: no such way, wrong arguments, or a value outside its range.
    """
    word, *arguments = (part.strip() for part in text.split(":"))
    if word not in ADMISSION:
        forms = ", ".join(policy.syntax for policy in ADMISSION.values())
        raise UnknownNameError("admission", word, ADMISSION, f"Allowed: {forms}.")
    policy = ADMISSION[word]
    try:
        return policy.read(text, arguments)
    except InputError as error:
        raise InputError(f"--admission {text}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"--admission {text}: must be {policy.syntax}") from None


def _read_all(text: str, arguments: Sequence[str]) -> Admission:
    () = arguments
    return ADMIT_ALL


def _read_queue(text: str, arguments: Sequence[str]) -> Admission:
    (limit,) = arguments
    count = parse_count(limit, "N", minimum=1)
    return Admission(text, control=lambda objectives: QueueLimit(count, len(objectives)))


def _read_token_bucket(text: str, arguments: Sequence[str]) -> Admission:
    first, *rest = arguments
    rate = parse_rate(first, "prompt tokens")
    (burst,) = [float(parse_count(one, "BURST", minimum=1)) for one in rest] or [rate * BURST_SECONDS]
    return Admission(text, gate=lambda: TokenBuckets(rate, burst))


def _read_slo(text: str, arguments: Sequence[str]) -> Admission:
    () = arguments
    return Admission(text, control=TTFTControl, needs_objective=True)


ADMISSION: Registry[AdmissionPolicy] = Registry(
    "admission",
    (
        AdmissionPolicy("all", "all", "every request waits, however long", _read_all, "vLLM's default, without a limit"),
        AdmissionPolicy(
            "queue",
            "queue:N",
            "at most N requests wait at a replica; beyond, one that arrives is shed, or one of a later class that waits",
            _read_queue,
            "SGLang 0.5, managers/scheduler.py (_abort_on_queued_limit, --max-queued-requests, with priorities)",
        ),
        AdmissionPolicy(
            "token-bucket",
            "token-bucket:RATE[:BURST]",
            "each class has a bucket that fills with RATE prompt tokens/s up to BURST (10 s of RATE); a request takes its "
            "prompt out, or is shed",
            _read_token_bucket,
            "BLIS (inference-sim), sim/admission.go, whose bucket is of all classes together",
        ),
        AdmissionPolicy(
            "slo",
            "slo",
            "a request is shed when the prompts before it, or its own, would take longer than its TTFT objective; requests of "
            "later classes before it go first",
            _read_slo,
            "tiers: BLIS (inference-sim), sim/admission.go (TierShedAdmission)",
        ),
    ),
    group="roofline.admission",
    accepts=AdmissionPolicy,
)
"""Ways to admit requests by name."""
