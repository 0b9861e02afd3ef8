"""The workload of a run: arrivals or clients with lengths, read from the options of `simulate`."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from roofline.errors import InputError
from roofline.predict.options import PREFIX
from roofline.serving.simulation.arrivals import (
    CHUNK,
    Arrivals,
    AtOnce,
    Clients,
    Constant,
    Gamma,
    Modulated,
    Poisson,
    RatedArrivals,
    parse_arrivals,
)
from roofline.serving.simulation.prefix_cache import ENDLESS
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.sources import RequestSource, shared_text, traced_content
from roofline.serving.traffic.build import load_traffic, single
from roofline.serving.traffic.classes import RequestClass, Traffic
from roofline.serving.traffic.conversations import KEYS
from roofline.serving.traffic.lengths import around
from roofline.serving.traffic.profile import DAY, Profile, parse_profile
from roofline.serving.traffic.scalars import parse_rate, parse_seconds
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.specs.source import Assumption
from roofline.units import parse_count

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
DEFAULT_REQUESTS = 10_000
"""Requests of a workload that has no end of its own."""
MAX_REQUESTS = 1_000_000_000
"""Requests of a run."""
MAX_UNFINISHED = 2_000_000
"""Requests that a run holds at a time, running or waiting: about a gigabyte."""
_UNKNOWN = 2**60
_OF_A_CLASS = ("input_len", "output_len", "ttft", "tpot", *PREFIX, *KEYS)


@dataclass(frozen=True)
class Workload:
    """Requests of classes, each with arrivals of its own (an open loop), or with clients (a closed one), or a trace.

    Args:
        classes: lengths and objectives.
        arrivals: of each class, in an open loop.
        clients: of each class, in a closed loop.
        trace: arrivals and lengths of one class.
        stretch: factor on the trace's times, for another rate.
        requests: how many arrive, at most.
        until: seconds after which none arrives.
        warm_up: the first requests of all clients, which are not counted.
        source: as the user gave it.
        profile: load over a day, which the arrivals follow; None: it is constant.

    Raises:
        InputError: a class has conversations or system prompts, and says what is cached of its prompts.
    """

    classes: tuple[RequestClass, ...] = ()
    arrivals: tuple[Arrivals, ...] = ()
    clients: tuple[Clients, ...] = ()
    trace: Trace | None = None
    stretch: float = 1.0
    requests: int | None = None
    until: float = math.inf
    warm_up: int = 0
    source: str = ""
    profile: Profile | None = None

    def __post_init__(self) -> None:
        for one in self.classes:
            if one.conversation is not None and (one.prefix_hit or one.cached_prefix):
                key = "prefix_hit" if one.prefix_hit else "cached_prefix"
                raise InputError(
                    f"class {one.name!r}: {key} says what is cached, and with turns or a system prompt that is simulated: give "
                    "one of them"
                )

    @property
    def closed(self) -> bool:
        """Whether requests arrive because others have ended: a closed loop of clients."""
        return bool(self.clients)

    @property
    def dependent(self) -> bool:
        """Whether some requests arrive because others have ended: those of clients, and later turns of conversations."""
        return self.closed or any(_has_turns(one) for one in self.classes)

    @property
    def changes(self) -> bool:
        """Whether the load follows a profile over the day."""
        return self.profile is not None

    @property
    def has_content(self) -> bool:
        """Whether prompts have something in common."""
        return any(one.conversation is not None for one in self.classes) or (self.trace is not None and self.trace.shares)

    @property
    def random(self) -> bool:
        """Whether another seed makes another run; not so for a trace."""
        return self.trace is None

    @property
    def rate(self) -> float | None:
        """Mean rate in requests/s; None for clients, and for requests that arrive all at once."""
        if self.trace is not None:
            return self.trace.rate / self.stretch if self.trace.rate else None
        rates = [one.rate for one in self.arrivals]
        return None if not rates or None in rates else sum(rate for rate in rates if rate)

    @property
    def num_expected(self) -> int | None:
        """Number of requests that will arrive; None where it is not known."""
        if self.trace is not None:
            num = len(self.trace)
        else:
            counts = [one.count for one in self.arrivals]
            num = sum(each or 0 for each in counts) if counts and None not in counts else _UNKNOWN
        if self.rate is not None and self.until < math.inf:
            mean = sum(one.expected(self.until) for one in self.arrivals) if self.trace is None else self.rate * self.until
            num = min(num, round(mean))
        num = min(num, self.requests or _UNKNOWN)
        return None if num == _UNKNOWN else num

    @property
    def num_senders(self) -> int:
        """Clients that send at least one request: no more than there are requests."""
        return min(sum(one.clients for one in self.clients), self.requests or _UNKNOWN)

    def starts(self) -> list[float]:
        """Return when each client sends its first request, in seconds, ascending. They begin in turn, so that of more clients
        than requests the later ones have nothing to send."""
        return list(islice(heapq.merge(*(one.starts() for one in self.clients)), self.num_senders))

    def open_requests(self, seed: Sequence[int]) -> Iterator[Request]:
        """Return the requests of an open loop in the order of their arrival, up to `requests` and `until`."""
        requests = islice(self._traced(self.trace) if self.trace is not None else self._drawn(seed), self.requests)
        return requests if self.until == math.inf else takewhile(lambda one: one.arrival_time <= self.until, requests)

    def dependent_requests(self, seed: Sequence[int]) -> RequestSource:
        """Return the requests of clients, or of conversations (`dependent`)."""
        return RequestSource(self, seed)

    def length_streams(self, seed: Sequence[int]) -> list[Iterator[tuple[int, int]]]:
        """Return for each class prompt and output tokens of its requests, without end."""
        import numpy as np

        return [_lengths(one, np.random.default_rng([*seed, index])) for index, one in enumerate(self.classes)]

    def class_draws(self, seed: Sequence[int]) -> Iterator[int]:
        """Yield the class of each conversation of a closed loop, by the share of its clients, without end."""
        import numpy as np

        if len(self.classes) == 1:
            yield from repeat(0)
        shares = np.cumsum([one.clients for one in self.clients]) / sum(one.clients for one in self.clients)
        which = np.random.default_rng([*seed, len(self.classes)])
        while True:
            yield int(np.searchsorted(shares, which.random(), side="right"))

    def session_starts(self, seed: Sequence[int]) -> Iterator[tuple[float, int]]:
        """Yield when each conversation of an open loop begins, in seconds, and its class.

        Conversations of several turns begin as much less often, so that requests arrive at the rate of their class.
        """
        import numpy as np

        def starts(index: int) -> Iterator[tuple[float, int]]:
            arrivals, conversation = self.arrivals[index], self.classes[index].conversation
            if arrivals.rate and conversation is not None:
                arrivals = arrivals.at_rate(arrivals.rate / conversation.mean_turns)
            left = arrivals.count
            for times in arrivals.times(np.random.default_rng([*seed, index, 2])):
                here = times if left is None else times[:left]
                yield from ((time, index) for time in here.tolist())
                if left is not None:
                    left -= len(here)
                    if left <= 0:
                        return

        return heapq.merge(*(starts(index) for index in range(len(self.classes))))

    def cached_tokens(self, prompt: int, class_index: int = 0) -> int:
        """Return the tokens of a prompt of `prompt` tokens that are in the prefix cache."""
        return self.classes[class_index].cached_tokens(prompt)

    @property
    def mean_hit(self) -> float:
        """Share of a mean prompt that is in the prefix cache, over the classes by their rates or clients."""
        weights = [float(one.rate or one.concurrency or 1) for one in self.classes]
        return sum(weight * one.mean_hit for weight, one in zip(weights, self.classes, strict=True)) / sum(weights)

    def _traced(self, trace: Trace) -> Iterator[Request]:
        first = 0.0 if trace.arrived is None else float(trace.arrived[0])
        content = traced_content(trace)
        for start in range(0, len(trace), CHUNK):
            part = slice(start, start + CHUNK)
            prompts, outputs = trace.prompts[part].tolist(), trace.outputs[part].tolist()
            times = [0.0] * len(prompts)
            if trace.arrived is not None:
                times = ((trace.arrived[part] - first) * self.stretch).tolist()
            for index, (time, prompt, output) in enumerate(zip(times, prompts, outputs, strict=True), start):
                yield Request(
                    index, time, prompt, output, num_prefix_tokens=self.cached_tokens(prompt),
                    content=content(index, prompt, output) if content else None,
                    session=-1 if trace.sessions is None else int(trace.sessions[index]),
                )  # fmt: skip

    def _drawn(self, seed: Sequence[int]) -> Iterator[Request]:
        import numpy as np

        streams = [
            _arrivals(one, arrivals, index, np.random.default_rng([*seed, index]))
            for index, (one, arrivals) in enumerate(zip(self.classes, self.arrivals, strict=True))
        ]
        rngs = [np.random.default_rng([*seed, index, 1]) for index in range(len(self.classes))]
        merged = streams[0] if len(streams) == 1 else heapq.merge(*streams)
        for index, (time, class_index, prompt, output) in enumerate(merged):
            one, content = self.classes[class_index], None
            if (conversation := one.conversation) is not None:
                which = conversation.draw_system_prompt(rngs[class_index])
                content = ((shared_text(class_index, which), conversation.system_prompt), (index, ENDLESS))
                prompt += conversation.system_prompt  # noqa: PLW2901 - the system prompt is before it
            yield Request(index, time, prompt, output, class_index, -1, one.cached_tokens(prompt), content)


def _has_turns(one: RequestClass) -> bool:
    """Whether the requests of a class are turns of conversations."""
    return one.conversation is not None and one.conversation.turns is not None


def _arrivals(
    one: RequestClass, arrivals: Arrivals, class_index: int, rng: np.random.Generator
) -> Iterator[tuple[float, int, int, int]]:
    """Time, class, prompt and output tokens of the requests of a class."""
    left = arrivals.count
    for times in arrivals.times(rng):
        here = times if left is None else times[:left]
        lengths = one.sample(rng, len(here))
        for time, prompt, output in zip(here.tolist(), lengths[:, 0].tolist(), lengths[:, 1].tolist(), strict=True):
            yield time, class_index, prompt, output
        if left is not None:
            left -= len(here)
            if left <= 0:
                return


def _lengths(one: RequestClass, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    while True:
        lengths = one.sample(rng, CHUNK)
        yield from zip(lengths[:, 0].tolist(), lengths[:, 1].tolist(), strict=True)


# From options


class _Limits(TypedDict):
    """When a workload ends."""

    requests: int | None
    until: float


def read_workload(  # noqa: C901 - each way to say what comes, once
    *, trace: Any = None, workload: Any = None, rate: Any = None, requests: Any = None, until: Any = None,
    skip_bad_rows: bool = False, notes: list[Assumption], profile: Any = None, day: Any = None, **lengths: Any,
) -> Workload:  # fmt: skip
    """Return the workload of the options of `simulate`.

    Args:
        trace: a trace, or its file.
        workload: a spelling of arrivals, or traffic, or its YAML file; a `Workload` is returned as it is.
        rate: requests/s.
        requests: how many arrive, at most.
        until: seconds after which none arrives.
        skip_bad_rows: leave broken rows of the trace out.
        notes: gets what is assumed.
        profile: load over a day, for `parse_profile`.
        day: its length in seconds.
        **lengths: `input_len`, `output_len`, `ttft`, `tpot`, `prefix_hit`, `cached_prefix`, and the keys of conversations
            of one class of requests.

    Raises:
        InputError: an option is missing, or contradicts another.
    """
    number = None if requests is None else parse_count(requests, "--requests", minimum=1)
    if number is not None and number > MAX_REQUESTS:
        raise InputError(
            f"--requests must be at most {MAX_REQUESTS:,}, not {number:,}: at 20,000 per CPU second that is 14 hours"
        )
    limits: _Limits = {
        "requests": number,
        "until": math.inf if until is None else flagged("until", parse_seconds, until),
    }
    target_rate = None if rate is None else flagged("rate", parse_rate, rate)
    over = None if profile is None else flagged("profile", parse_profile, profile)
    seconds = None if day is None else flagged("day", parse_seconds, day)
    if isinstance(workload, Workload):
        return workload
    if workload is not None and (isinstance(workload, Traffic) or Path(str(workload)).suffix in (".yaml", ".yml")):
        if given := [name for name in _OF_A_CLASS if lengths.get(name) is not None]:
            raise InputError(f"--workload {workload} says what comes: leave out --{given[0].replace('_', '-')}")
        if trace is not None:
            raise InputError("--workload and --trace both say what comes: give one of them")
        traffic = workload if isinstance(workload, Traffic) else load_traffic(Path(str(workload)), skip_bad_rows)
        notes += traffic.assumptions
        return _of_traffic(traffic, target_rate, limits, str(workload), notes, over, seconds)
    if seconds is not None and over is None:
        raise InputError("--day is the length of the day of a profile: give --profile too")
    read = trace if trace is None or isinstance(trace, Trace) else read_trace(trace, skip_bad_rows)
    if read is not None and workload is None and read.arrived is not None:
        if over is not None:
            raise InputError(f"--profile: the arrivals of {read.name} have a load over time of their own")
        return _of_trace(read, target_rate, limits, lengths, notes)
    if workload is None and target_rate is None:
        what = f"{read.name} has no arrivals" if read is not None else "no arrivals"
        raise InputError(f"{what}: give --rate, --workload (poisson:8, closed:32, ...) or a --trace with a column arrived_at")
    arrivals = _arrivals_of_options(workload, target_rate)
    one = _class(arrivals, read, lengths)
    source = str(workload) if workload is not None else f"poisson:{target_rate:g}"
    if isinstance(arrivals, Clients):
        _refuse_profile(over)
        return _closed((one,), (arrivals,), source, limits, notes)
    if over is not None:
        (arrivals,) = _modulated((arrivals,), over, seconds, limits, notes)
    _limit(limits, notes, arrivals)
    ends = [count for count in (arrivals.count, limits["requests"]) if count is not None]
    if isinstance(arrivals, AtOnce) and (at_once := min(ends, default=0)) > MAX_UNFINISHED:
        raise InputError(f"{source}: {at_once:,} requests wait at the start, and a run holds {MAX_UNFINISHED:,}: give fewer")
    return Workload(classes=(one,), arrivals=(arrivals,), source=source, profile=over, **limits)


def _arrivals_of_options(workload: Any, rate: float | None) -> Arrivals | Clients:
    """Arrivals by their spelling, at a rate where one is given; without a spelling Poisson ones."""
    if workload is None:
        return Poisson(rate or 0.0)
    arrivals = parse_arrivals(str(workload))
    if rate is None:
        return arrivals
    if isinstance(arrivals, Clients):
        raise _no_rate_of_clients()
    return arrivals.at_rate(rate)


def _class(arrivals: Arrivals | Clients, trace: Trace | None, lengths: dict[str, Any]) -> RequestClass:
    """The one class: its lengths and its objectives. Requests that arrive all at once need no rate."""
    if not isinstance(arrivals, Clients):
        load = {"rate": arrivals.rate} if arrivals.rate is not None else {"concurrency": 1}
        return single(**load, trace=trace, **lengths).classes[0]
    one = single(concurrency=arrivals.clients, trace=trace, **lengths).classes[0]
    if arrivals.spread is None:
        return one
    if trace is not None:
        raise InputError(f"spread: the trace {trace.name} has lengths of its own; leave one of them out")
    try:
        prompts, outputs = (around(nominal, arrivals.spread) for nominal in (one.input_len, one.output_len))
    except InputError as error:
        raise InputError(f"spread: {error}") from None
    return replace(one, input_len=prompts, output_len=outputs)


def _closed(
    classes: tuple[RequestClass, ...], clients: tuple[Clients, ...], source: str, limits: _Limits, notes: list[Assumption]
) -> Workload:
    """Clients, and how the run begins and ends, on which TTFT depends more than on anything else."""
    num_clients = sum(one.clients for one in clients)
    for name, word in (("prompts", "prompts"), ("warm_up", "warm-up")):
        if len({getattr(one, name) for one in clients}) > 1:
            raise InputError(f"{source}: {word} per client must be the same in all classes, which take turns")
    prompts, warm_up = clients[0].prompts, clients[0].warm_up
    if prompts is not None:
        if limits["requests"] is not None:
            raise InputError(f"--requests: {source} says how many come, {prompts:,} per client; leave one of them out")
        limits["requests"] = prompts * num_clients
    else:
        _limit(limits, notes, clients[0])
    if limits["requests"] is not None and warm_up * num_clients >= limits["requests"]:
        raise InputError(
            f"warm-up: {warm_up:,} prompts of each of {num_clients:,} clients are all of the {limits['requests']:,} that come"
        )
    equal = all(one.pairs is None and not (one.input_len.variance or one.output_len.variance) for one in classes)
    if equal and num_clients > 1 and not any(one.ramp for one in clients):
        why = "all clients at once with equal lengths: they stay in step, and TTFT is many prompts long (docs/closed-loop.md)"
        notes.append(Assumption("first_wave", "at once", "default", why))
    workload = Workload(classes=classes, clients=clients, source=source, warm_up=warm_up * num_clients, **limits)
    if workload.num_senders > MAX_UNFINISHED:
        fewer = "give fewer clients" if prompts is not None else "give fewer clients, or --requests"
        raise InputError(
            f"{source}: {workload.num_senders:,} clients send at least one request, and a run holds {MAX_UNFINISHED:,}: {fewer}"
        )
    return workload


def _of_trace(trace: Trace, rate: float | None, limits: _Limits, lengths: dict[str, Any], notes: list[Assumption]) -> Workload:
    """A trace with arrivals, at its own rate or another."""
    if given := [name for name in ("input_len", "output_len", *KEYS) if lengths.get(name) is not None]:
        raise InputError(
            f"--{given[0].replace('_', '-')}: the trace has its own lengths; give the trace or the lengths, not both"
        )
    if rate is not None and not trace.rate:
        raise InputError(f"--rate: all requests of {trace.name} arrive at once, and there is no rate to change")
    if trace.skipped:
        notes.append(Assumption("skipped_rows", trace.skipped, "given", f"broken, and left out: {'; '.join(trace.reasons)}"))
    notes += [Assumption("trace", trace.name, "assumed", note) for note in trace.notes]
    stretch = 1.0
    if rate is not None and trace.rate:
        stretch = trace.rate / rate
        why = f"arrivals of {trace.name}, whose own rate is {trace.rate:.4g}/s, stretched"
        notes.append(Assumption("rate", rate, "given", why))
    load: dict[str, Any] = {"rate": rate or trace.rate} if trace.rate else {"concurrency": 1}
    one = single(**load, trace=trace, **lengths).classes[0]
    return Workload(classes=(one,), trace=trace, stretch=stretch, source=trace.name, **limits)


def _of_traffic(
    traffic: Traffic, rate: float | None, limits: _Limits, source: str, notes: list[Assumption], profile: Profile | None,
    day: float | None,
) -> Workload:  # fmt: skip
    """Several classes, at their own rates or together at another; over a day, where a profile or its length is given."""
    if profile is not None and traffic.profile is not None:
        raise InputError(f"--profile: {source} has a profile of its own, which --day simulates; leave one of them out")
    over = traffic.profile if profile is None and day is not None else profile
    if day is not None and over is None:
        raise InputError(f"--day is the length of the day of a profile, and {source} has none: give --profile too")
    if profile is not None and traffic.peak_factor > 1:
        raise InputError(f"--profile has a peak of its own: take peak_factor out of {source}")
    classes = traffic.at_peak if over is None else traffic.classes
    if over is None and traffic.peak_factor > 1:
        notes.append(Assumption("peak_factor", traffic.peak_factor, "given", "the highest load is what is simulated"))
    if traffic.closed:
        if rate is not None:
            raise _no_rate_of_clients()
        _refuse_profile(over)
        clients = tuple(
            Clients(one.concurrency or 1, ramp=one.ramp, prompts=one.prompts, warm_up=one.warm_up) for one in classes
        )
        return _closed(classes, clients, source, limits, notes)
    total = sum(one.rate or 0.0 for one in classes)
    arrivals = tuple(_arrivals_of_class(one, (one.rate or 0.0) * (rate / total if rate else 1.0)) for one in classes)
    if over is not None:
        arrivals = _modulated(arrivals, over, day, limits, notes)
    _limit(limits, notes, arrivals[0])
    return Workload(classes=classes, arrivals=arrivals, source=source, profile=over, **limits)


def _modulated(
    arrivals: Sequence[Arrivals], profile: Profile, day: float | None, limits: _Limits, notes: list[Assumption]
) -> tuple[Arrivals, ...]:
    """Arrivals whose rate follows a profile; without another end the run is one day long."""
    seconds = DAY if day is None else day
    modulated = []
    for one in arrivals:
        if not isinstance(one, RatedArrivals):
            raise InputError("--profile: requests that come all at once have no rate that could change over the day")
        modulated.append(Modulated(one, profile, seconds))
    why = f"times the mean rate, in the busiest of {len(profile.factors):,} equal parts of a day of {seconds:g} s"
    notes.append(Assumption("profile", f"{profile.peak_factor:.3g}", "given", why))
    if limits["requests"] is None and limits["until"] == math.inf:
        limits["until"] = seconds
        notes.append(Assumption("until", f"{seconds:g} s", "default", "one day; --requests and --until set another end"))
    return tuple(modulated)


def _arrivals_of_class(one: RequestClass, rate: float) -> Arrivals:
    """Poisson arrivals, or with the burstiness of the class."""
    if one.burstiness == 1:
        return Poisson(rate)
    return Gamma(rate, one.burstiness) if one.burstiness else Constant(rate)


def _refuse_profile(profile: Profile | None) -> None:
    if profile is not None:
        raise InputError("--profile: clients of a closed loop send when they have their responses, whatever the time of day")


def _no_rate_of_clients() -> InputError:
    return InputError("--rate: clients of a closed loop send when they have their responses; leave it out")


def _limit(limits: _Limits, notes: list[Assumption], arrivals: Arrivals | Clients) -> None:
    """Limit the requests of a workload that would have no end."""
    counted = isinstance(arrivals, Arrivals) and arrivals.count is not None
    if limits["requests"] is None and limits["until"] == math.inf and not counted:
        limits["requests"] = DEFAULT_REQUESTS
        notes.append(Assumption("requests", DEFAULT_REQUESTS, "default", "that come; --requests and --until set another end"))


def flagged(name: str, parse: Callable[[Any], T], value: Any) -> T:
    """The value of a flag as `parse` returns it; an error names the flag.

    Raises:
        InputError: `parse` refuses the value.
    """
    try:
        return parse(value)
    except InputError as error:
        raise InputError(f"--{name}: {error}") from None
