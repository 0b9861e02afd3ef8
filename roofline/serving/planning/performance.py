"""Performance of sized replicas: times with percentiles and bands, and utilization, under random arrivals and in a closed loop.

In a closed loop of c clients on a replica of S slots, n = min(c, S) requests run at a time. TPOT is that of
`roofline.serving.queueing.closed_loop`, which measurements confirm (docs/accuracy.md). The rate follows from Little's law,
lambda = n / (TTFT + E[m] TPOT), where TTFT is that of the same replica under random arrivals at that rate. What is left of
c/lambda is a wait, for a slot or at a saturated server. Percentiles are those of random arrivals, in proportion to the means.

NB: TTFT of a real closed loop depends on the load generator: clients that start together with equal lengths stay in step, and
wait for each other's prompts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from roofline.predict.timing import pipeline
from roofline.serving.planning.load import TPOT, TTFT, Load
from roofline.serving.planning.prefix_cache import CacheState
from roofline.serving.planning.sizing import UTILISATION, SizedReplica, coarsened, role_server
from roofline.serving.queueing import tails
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.serving.queueing.replica import BOUND, ESTIMATE, BatchServer
from roofline.serving.queueing.steady import Steady, steady
from roofline.specs.workload import decode, prefill

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_UNBOUNDED = 0.98
"""Share of the saturation rate beyond which waits count as unbounded."""
_ITERATIONS = 12


@dataclass(frozen=True, slots=True)
class LatencyStats:
    """Statistics of TTFT or TPOT, in seconds. None: unknown or unbounded.

    Args:
        mean: the mean.
        p50: the median.
        at: the value at the percentile of the objective.
        low: the mean with every step at the low end of its interval.
        high: the mean with every step at the high end.
        bound: the mean with every step at its bound.
        percentile: of the objective, as a fraction.
    """

    mean: float | None
    p50: float | None
    at: float | None
    low: float | None
    high: float | None
    bound: float | None
    percentile: float

    def to_dict(self) -> dict[str, float | None]:
        """Plain data, in seconds; the value at the percentile of the objective is under `pP` and, for example, `p95`."""
        name = f"p{self.percentile * 100:g}"
        return {
            "mean": self.mean, "p50": self.p50, "pP": self.at, name: self.at, "low": self.low, "high": self.high,
            "bound": self.bound,
        }  # fmt: skip

    def mapped(self, change: Callable[[float], float], ends: Callable[[float], float]) -> LatencyStats:
        """The statistics with `change` applied to the percentiles and `ends` to the means (mean, low, high, bound)."""

        def each(apply: Callable[[float], float], value: float | None) -> float | None:
            return None if value is None else apply(value)

        return LatencyStats(
            each(ends, self.mean), each(change, self.p50), each(change, self.at), each(ends, self.low), each(ends, self.high),
            each(ends, self.bound), self.percentile,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Performance:
    """What requests experience.

    Args:
        ttft: time to first token over all requests.
        tpot: time per output token over all requests.
        classes: TTFT and TPOT by class.
        running: mean number of decoding sequences on a replica.
        slot_wait_s: mean wait for a slot, s.
        utilisation: offered load over the saturation rate; above 1 if more arrives than is served.
        prompt_share: share of the busy time that prompts take.
        cache: what the KV cache of the replica retains; None: nothing, or of clients.
    """

    ttft: LatencyStats
    tpot: LatencyStats
    classes: dict[str, tuple[LatencyStats, LatencyStats]]
    running: float
    slot_wait_s: float
    utilisation: float
    prompt_share: float
    cache: CacheState | None = None


def performance(
    first: SizedReplica, last: SizedReplica, load: Load, rates: tuple[float, float], after_s: tuple[Any, ...] = ()
) -> Performance:
    """Latencies and utilization of a replica, or of one of each pool, under random arrivals.

    Args:
        first: the replica that computes prompts.
        last: the replica that decodes; the same one, if colocated.
        load: the requests.
        rates: requests/s of `first` and `last`.
        after_s: per class, seconds between a prompt and its first token (the transfer of the cache), (K,).
    """
    colocated = last is first
    first = first.at(load, rates[0])
    last = first if colocated else last
    low, high = band(first, load)
    ends = {"mean": (1.0, None), "low": (low, None), "high": (high, None), "bound": (1.0, BOUND)}
    if first.replica.basis == BOUND:
        ends = {"mean": (1.0, None), "bound": (1.0, BOUND)}
    states = {name: _steady_states(first, last, load, rates, scale, basis, after_s) for name, (scale, basis) in ends.items()}
    prefills, decodes = states["mean"]
    percentile = max(service.percentile for service in load.services)
    shares = [service.mix.share for service in load.services]
    everything = list(range(len(load.services)))
    return Performance(
        ttft=_ttft(states, everything, shares, percentile),
        tpot=_tpot(states, everything, shares, percentile),
        classes={
            service.name: (_ttft(states, [k], [1.0], service.percentile), _tpot(states, [k], [1.0], service.percentile))
            for k, service in enumerate(load.services)
        },
        running=float(decodes.running[0]) * last.replica.ranks,
        slot_wait_s=float(decodes.slot_wait_s[0]),
        utilisation=max(rates[0] / first.server.capacity, rates[1] / last.server.capacity),
        prompt_share=_prompt_share(prefills, decodes),
        cache=first.cache,
    )


def band(sized: SizedReplica, load: Load) -> tuple[float, float]:
    """Low and high factor on step times: the widest 80 % interval of the kernels and the engine, of both phases; 1 and 1 for
    bounds."""
    request = sized.replica.request
    if sized.replica.basis != ESTIMATE:
        return 1.0, 1.0
    low, high = request.engine_band
    ranks = request.deployment.data_parallel_size
    running = max(round(sized.slots / 2), 1) * ranks
    context, speculation = round(load.mean_input + load.mean_output / 2), sized.replica.speculation
    decoded = pipeline(request, decode(running, context)) if speculation is None else speculation.round(running, context)
    for took in (decoded, pipeline(request, prefill(ranks, round(load.mean_input)))):
        if took.estimate and took.low is not None and took.high is not None:
            low, high = min(low, took.low / took.estimate), max(high, took.high / took.estimate)
    return low, high


States = dict[str, tuple[Steady, Steady]]
"""Steady states of the prefill and the decode replica, by statistic: mean, low, high, bound."""


def _steady_states(
    first: SizedReplica, last: SizedReplica, load: Load, rates: tuple[float, float], scale: float, basis: str | None,
    after_s: tuple[Any, ...],
) -> tuple[Steady, Steady]:  # fmt: skip
    def state(sized: SizedReplica, rate: float) -> Steady:
        server = role_server(
            sized.replica, load, sized.role, sized.slots, sized.budget, scale=scale, basis=basis, after_s=after_s,
            prefix_cache=sized.prefix_cache, shares=() if sized.cache is None else sized.cache.shares,
        )  # fmt: skip
        return steady(replace(coarsened(server), scatter=sized.server.scatter), rate)

    prefills = state(first, rates[0])
    return prefills, (prefills if last is first else state(last, rates[1]))


def _ttft(states: States, classes: list[int], shares: list[float], percentile: float) -> LatencyStats:
    """TTFT of some classes: of the prefill replica, and the wait for a slot of the decode replica."""

    def mean(prefills: Steady, decodes: Steady, k: int) -> float:
        return float(prefills.ttft_mean(k)[0])

    waits = {
        name: 0.0 if decodes is prefills else float(decodes.slot_wait_s[0]) for name, (prefills, decodes) in states.items()
    }
    state = states["mean"][0]
    return _statistics(states, classes, shares, percentile, mean, waits, state, state.ttft_within, tpot=False)


def _tpot(states: States, classes: list[int], shares: list[float], percentile: float) -> LatencyStats:
    """TPOT of some classes, of the decode replica; none if no output has more than one token."""
    state = states["mean"][1]
    if all(float(state.server.demands[k].decode_steps.max()) == 0 for k in classes):
        return LatencyStats(None, None, None, None, None, None, percentile)

    def mean(prefills: Steady, decodes: Steady, k: int) -> float:
        return float(decodes.tpot_mean(k)[0])

    return _statistics(
        states, classes, shares, percentile, mean, dict.fromkeys(states, 0.0), state, state.tpot_within, tpot=True
    )


def _statistics(
    states: States, classes: list[int], shares: list[float], percentile: float,
    class_mean: Callable[[Steady, Steady, int], float], waits: dict[str, float], state: Steady,
    within: Callable[[int, Array], Array], *, tpot: bool,
) -> LatencyStats:  # fmt: skip
    def mean(name: str) -> float | None:
        if name not in states:
            return None
        pair = states[name]
        if any(bool(one.rates[0] > _UNBOUNDED * one.server.capacity) for one in pair):
            return None
        return sum(w * class_mean(*pair, k) for w, k in zip(shares, classes, strict=True)) + waits[name]

    def share_within(seconds: Array) -> Array:
        return sum((w * within(k, seconds) for w, k in zip(shares, classes, strict=True)), start=0.0 * seconds)

    p50, at = None, None
    if not bool(state.saturated[0]):
        scale = state.longest(classes, tpot=tpot)
        p50, at = (float(tails.quantile(share_within, share, scale)[0]) for share in (0.5, percentile))
    low, bound = mean("low"), mean("bound")
    if low is not None and bound is not None:
        low = max(low, bound)  # steps at the low end of the band may be shorter than the hardware allows
    return LatencyStats(mean("mean"), p50, at, low, mean("high"), bound, percentile)


def _prompt_share(prefills: Steady, decodes: Steady) -> float:
    """Share of the prompt in the seconds that a request costs a replica: E[w] against E[m] d(n)/n."""
    prompts = float(prefills.prompt_utilization[0]) / (float(prefills.rates[0]) / prefills.server.ranks)
    outputs = decodes.server.mean_steps * float(decodes.step_s[0]) / max(float(decodes.running[0]), 1.0)
    return prompts / (prompts + outputs) if prompts + outputs else 0.0


@dataclass(frozen=True, slots=True)
class ClosedLoopPerformance:
    """Performance of one replica in a closed loop of `clients` clients, and its `rate` in requests/s."""

    clients: float
    rate: float
    performance: Performance

    def misses(self, load: Load) -> list[str]:
        """Names of the objectives (`ttft`, `tpot`) that some class misses at its percentile; each once."""
        missed = []
        for service in load.services:
            ttft, tpot = self.performance.classes[service.name]
            for name, times, limit in ((TTFT, ttft, service.ttft), (TPOT, tpot, service.tpot)):
                if limit is not None and (times.at is None or times.at > limit):
                    missed.append(name)
        return list(dict.fromkeys(missed))


def closed_loop_performance(sized: SizedReplica, load: Load, clients: float) -> ClosedLoopPerformance:
    """Latencies and rate of one replica in a closed loop.

    Args:
        sized: the replica, with all its ranks.
        load: the requests and their objectives.
        clients: clients per replica, above 0; may be a fraction.
    """
    ranks = sized.replica.ranks
    running = min(clients, sized.slots * ranks)
    server = closed_loop_server(sized, load)
    loop = ClosedLoop(sized.replica.steps).tpot(
        max(running, 1.0),
        round(load.mean_input),
        load.mean_output,
        excess=_closed_loop_excess(server, in_turn=clients <= sized.slots * ranks),
        tokens_per_step=server.tokens_per_step,
        variance=server.scatter or 0.0,
        cached_len=max(round(load.mean_input - server.mean_tokens), 0) if load.has_cached_prompts else 0,
        max_running=float(sized.slots * ranks) if load.retained else None,
    )
    name = sized.replica.basis
    tpot = float(loop[name])
    tokens, capacity = server.mean_steps * server.tokens_per_step, server.capacity
    top = capacity * UTILISATION

    def mean_ttft(rate: float) -> float:
        state = steady(server, min(rate, top))
        return sum(service.mix.share * float(state.ttft_mean(k)[0]) for k, service in enumerate(load.services))

    # at most the capacity: outputs of one token have no steps that would limit the rate
    rate = min(running / max(tokens * tpot, 1e-9), capacity)
    for _ in range(_ITERATIONS):
        # half a step: TTFT rises with the rate
        rate = min((rate + running / (mean_ttft(rate) + tokens * tpot)) / 2, capacity)
    in_loop = replace(sized, server=server)
    seen = performance(in_loop, in_loop, load, (min(rate, top),) * 2)
    low, high = (float(loop[end]) if name == "estimate" else None for end in ("low", "high"))
    waits = max(clients / rate - mean_ttft(rate) - tokens * tpot, 0.0)
    closed = LatencyStats(tpot, tpot, tpot, low, high, float(loop["bound"]), seen.tpot.percentile)
    if seen.tpot.mean is None:  # no output has more than a token
        closed = seen.tpot
    return ClosedLoopPerformance(
        clients,
        rate,
        replace(
            seen,
            ttft=_delayed(seen.ttft, waits),
            tpot=_scaled_to(seen.tpot, closed),
            classes={
                key: (_delayed(ttft, waits), _scaled_to(other, closed, seen.tpot.mean))
                for key, (ttft, other) in seen.classes.items()
            },
            running=running,
            slot_wait_s=waits,
            utilisation=rate / capacity,
        ),
    )


def closed_loop_server(sized: SizedReplica, load: Load) -> BatchServer:
    """The server of a replica whose slots are filled as soon as they are free: ranks with equal requests stay in step."""
    return replace(sized.server, scatter=_closed_loop_scatter(sized.server, load))


def _closed_loop_scatter(server: BatchServer, load: Load) -> float | None:
    """Squared coefficient of variation of the lengths of prompts; None: all requests are equal, so that data-parallel ranks
    have their prompts in the same steps."""
    first, *others = load.mix
    equal = not others and len(set(first.outputs)) == 1 == len(set(first.prompts))
    return None if equal else server.scatter


def _closed_loop_excess(server: BatchServer, *, in_turn: bool) -> Callable[[Array], Array] | None:
    """What the fullest data-parallel rank has more in a step than the mean one, of the prompts of that; None: nothing."""
    if server.scatter is None or server.ranks == 1:
        return None
    return lambda mean: server.excess(mean, in_turn=in_turn)


def _scaled_to(open_loop: LatencyStats, closed: LatencyStats, mean: float | None = None) -> LatencyStats:
    """The mean of the closed loop, with the relative distribution of random arrivals. `mean`: of all classes."""
    average = open_loop.mean if mean is None else mean
    if not average or closed.mean is None or open_loop.mean is None:
        return closed
    own = open_loop.mean / average  # of a class, over that of all
    factor = closed.mean / average
    scaled = replace(closed, p50=open_loop.p50, at=open_loop.at, percentile=open_loop.percentile)
    return scaled.mapped(lambda value: value * factor, lambda value: value * own)


def _delayed(times: LatencyStats, seconds: float) -> LatencyStats:
    """The times after a wait; the bound has none."""
    return replace(times.mapped(lambda value: value + seconds, lambda value: value + seconds), bound=times.bound)
