"""Size one replica of a deployment: the maximum requests/s within the objectives, and what stops it there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from roofline.serving.planning.load import TPOT, TTFT, Load
from roofline.serving.planning.prefix_cache import CacheState, PrefixCacheModel, Shares
from roofline.serving.queueing.replica import REPRESENTATIVES, BatchServer, Replica
from roofline.serving.queueing.steady import Steady, steady

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Role = Literal["both", "prefill", "decode"]
Binds = Literal["memory", "ttft", "tpot", "throughput"]

UTILISATION = 0.85
"""Maximum share of the saturation rate that is planned: beyond it waits grow without bound, and the formulas are off."""
_COARSE, _FINE = 15, 6
_COARSE_LENGTHS = REPRESENTATIVES // 8
"""Representatives of a class over which shares are computed."""


@dataclass(frozen=True)
class SizedReplica:
    """A replica with its settings.

    Args:
        replica: the deployment.
        server: its batch server.
        role: both phases, prefill alone, or decode alone.
        slots: maximum running sequences per rank (`max_num_seqs`).
        budget: tokens per step.
        max_rate: requests/s of all its ranks within every objective; 0: none.
        binds: what stops it there.
        prefix_cache: its KV cache, where requests have prompts that it retains; then `server` is that at the rate of `cache`.
        cache: its state at `max_rate`, or at the rate of `at`.
    """

    replica: Replica
    server: BatchServer
    role: Role
    slots: int
    budget: int
    max_rate: float
    binds: Binds
    prefix_cache: PrefixCacheModel | None = None
    cache: CacheState | None = None

    def at(self, load: Load, rate: float) -> SizedReplica:
        """The replica at a rate in requests/s, with what its KV cache retains there."""
        if self.prefix_cache is None or load.rate is None:
            return self
        state, _, _ = self.prefix_cache.state(rate, lambda shares: coarsened(self.server_of(load, shares)))
        return replace(self, server=self.server_of(load, state.shares), cache=state)

    def server_of(self, load: Load, shares: Shares) -> BatchServer:
        """Its server, by class of requests and what they find in the KV cache."""
        return role_server(
            self.replica, load, self.role, self.slots, self.budget, prefix_cache=self.prefix_cache, shares=shares
        )


def role_server(
    replica: Replica, load: Load, role: Role, slots: int, budget: int, *, scale: float = 1.0, basis: str | None = None,
    after_s: tuple[Any, ...] = (), prefix_cache: PrefixCacheModel | None = None, shares: Shares = (),
) -> BatchServer:  # fmt: skip
    """The batch server of a role: both phases, prompts alone, or outputs alone.

    Args:
        replica: the deployment.
        load: the requests.
        role: both phases, prefill alone, or decode alone.
        slots: slots per rank (`max_num_seqs`).
        budget: tokens per step.
        scale: factor on all times.
        basis: "bound" or "estimate"; None: the replica's.
        after_s: per class, seconds between a prompt and its first token, (K,); of prefill alone.
        prefix_cache: the KV cache, where requests have prompts that it retains.
        shares: by class, the share of its requests in each case of that; (): everything is cached.
    """
    import numpy as np

    mix = load.mix
    if prefix_cache is not None:
        mix, shares = prefix_cache.mix, shares or prefix_cache.all_cached
    both = replica.server(mix, slots, budget, cv=load.cv, scale=scale, basis=basis, shares=shares)
    if role == "prefill":
        demands = tuple(
            replace(demand, decode_steps=np.zeros(1), decode_tokens=None, rounds_variance=0.0, after_s=after)
            for demand, after in zip(both.demands, after_s or (0.0,) * len(both.demands), strict=True)
        )
        return replace(both, decode_s=both.decode_s[:1], demands=demands)
    if role == "decode":
        demands = tuple(
            replace(demand, prompt_s=np.zeros((1, 1)), prompt_tokens=np.ones(1), running=np.ones(1)) for demand in both.demands
        )
        return replace(both, demands=demands)
    return both


def size_replica(
    replica: Replica, load: Load, settings: Iterable[tuple[int, int]], memory_slots: int, role: Role = "both",
    after_s: tuple[Any, ...] = (), prefix_cache: Callable[[int], PrefixCacheModel] | None = None,
) -> SizedReplica:  # fmt: skip
    """The replica in the setting with the highest rate within the objectives; of equal ones the first.

    Args:
        replica: the deployment.
        load: the requests and their objectives.
        settings: pairs of slots per rank and tokens per step; at least one.
        memory_slots: slots per rank that memory holds.
        role: both phases, prefill alone, or decode alone.
        after_s: per class, seconds between a prompt and its first token, (K,).
        prefix_cache: makes the KV cache of a token budget, where requests have prompts that it retains.
    """
    if prefix_cache is not None:
        cached = [
            _with_prefixes(replica, load, slots, budget, memory_slots, prefix_cache(budget)) for slots, budget in settings
        ]
        return max(cached, key=lambda one: one.max_rate)
    tried = [_with_setting(replica, load, role, slots, budget, memory_slots, after_s) for slots, budget in settings]
    return max(tried, key=lambda one: one.max_rate)


def _with_prefixes(
    replica: Replica, load: Load, slots: int, budget: int, memory_slots: int, cache: PrefixCacheModel
) -> SizedReplica:
    """A replica whose KV cache retains prefixes: what they save depends on the rate, which is searched for by bisection."""
    server = role_server(replica, load, "both", slots, budget, prefix_cache=cache)
    sized = SizedReplica(replica, server, "both", slots, budget, 0.0, "throughput", cache)
    if load.rate is None:
        return replace(sized, max_rate=server.capacity * UTILISATION, cache=None)
    good, bad, rate = 0.0, 1.0, 1.0  # shares of the highest rate, of a cache that has everything
    top = server.capacity * UTILISATION
    binds: Binds | None = None
    while bad - good > 1 / (_COARSE * _FINE):
        _, made, seen = cache.state(rate * top, lambda shares: coarsened(sized.server_of(load, shares)))
        if rate * top <= UTILISATION * made.capacity * (1 + 1e-9) and bool(_meets_objectives(seen, load, "both")[0]):
            good = rate
            if good == 1.0:
                binds = _saturated_by(seen, slots, memory_slots)
                break
        else:
            bad = rate
            binds = _missed_by(seen, 0, load, "both", slots, memory_slots)
        rate = (good + bad) / 2
    return replace(sized.at(load, max(good, 1 / (_COARSE * _FINE)) * top), max_rate=good * top, binds=binds or "throughput")


def _with_setting(
    replica: Replica, load: Load, role: Role, slots: int, budget: int, memory_slots: int, after_s: tuple[Any, ...]
) -> SizedReplica:
    import numpy as np

    server = role_server(replica, load, role, slots, budget, after_s=after_s)
    coarse = coarsened(server)
    top = coarse.capacity * UTILISATION
    rates = top * np.arange(1, _COARSE + 1) / _COARSE
    state = steady(coarse, rates)
    met = _meets_objectives(state, load, role)
    last = int(np.argmin(met)) if not met.all() else len(rates)
    if last == len(rates):
        most, binds = top, _saturated_by(state, slots, memory_slots)
    else:
        # between the last rate that meets the objectives and the next
        low = rates[last - 1] if last else 0.0
        between = low + (rates[last] - low) * np.arange(1, _FINE + 1) / _FINE
        closer = steady(coarse, between)
        first_bad = int(np.argmin(_meets_objectives(closer, load, role)))
        most = float(between[first_bad - 1]) if first_bad else float(low)
        binds = _missed_by(closer, first_bad, load, role, slots, memory_slots)
    return SizedReplica(replica, server, role, slots, budget, most, binds)


def coarsened(server: BatchServer) -> BatchServer:
    """The server with at most 48 representatives of each class: means of neighbours, so that means stay."""
    import numpy as np

    def part(values: Array | float) -> Any:
        if np.ndim(values) == 0 or np.shape(values)[-1] <= _COARSE_LENGTHS:
            return values
        array = np.asarray(values)
        return array.reshape(*array.shape[:-1], _COARSE_LENGTHS, -1).mean(axis=-1)

    names = ("prompt_s", "prompt_tokens", "after_s", "decode_steps", "decode_tokens", "rounds_variance")
    demands = tuple(
        replace(demand, **{name: part(value) for name in names if (value := getattr(demand, name)) is not None})
        for demand in server.demands
    )
    return replace(server, demands=demands)


def _objective_shares(state: Steady, load: Load, role: Role) -> list[tuple[str, Array, float]]:
    """Of every objective: its name, the share of requests that meet it at each rate, the share that has to."""
    shares = []
    for which, service in enumerate(load.services):
        if service.ttft is not None and role != "decode":
            shares.append((TTFT, state.ttft_within(which, service.ttft), service.percentile))
        if service.ttft is not None and role == "decode":  # a wait for a slot here delays the second token
            shares.append((TTFT, 1 - state.slot_wait_probability, service.percentile))
        if service.tpot is not None and role != "prefill" and float(service.mix.outputs.max()) > 1:
            shares.append((TPOT, state.tpot_within(which, service.tpot), service.percentile))
    return shares


def _meets_objectives(state: Steady, load: Load, role: Role) -> Array:
    """Whether every objective is met, at each rate."""
    met = ~state.saturated
    for _, share, wanted in _objective_shares(state, load, role):
        met = met & (share >= wanted)
    return met


def _saturated_by(state: Steady, slots: int, memory_slots: int) -> Binds:
    """What saturates a replica that meets its objectives up to there."""
    full = float(state.running[-1]) > UTILISATION / 2 * slots and slots >= memory_slots
    return "memory" if full else "throughput"


def _missed_by(state: Steady, at: int, load: Load, role: Role, slots: int, memory_slots: int) -> Binds:
    """Which objective is missed first; memory, if the first token waits for a slot that memory does not hold."""
    missed = [name for name, share, wanted in _objective_shares(state, load, role) if share[at] < wanted]
    if not missed:
        return _saturated_by(state, slots, memory_slots)
    first: Binds = TTFT if missed[0] == TTFT else TPOT  # type: ignore[assignment]
    waits = float(state.slot_wait_s[at]) > float(state.wait.mean[at])
    return "memory" if first == TTFT and waits and slots >= memory_slots else first


def unloaded(sized: SizedReplica, load: Load) -> dict[str, float]:
    """TTFT and TPOT at their percentile over their objectives, at the lowest rate that is tried: the worst of the classes.

    An objective that is not set, or not of the replica's role, is 0.
    """
    state = steady(coarsened(sized.server), sized.server.capacity * UTILISATION / _COARSE)
    ratios = dict.fromkeys((TTFT, TPOT), 0.0)
    for which, service in enumerate(load.services):
        if service.ttft is not None and sized.role != "decode":
            ratios[TTFT] = max(ratios[TTFT], float(state.ttft_quantile(which, service.percentile)[0]) / service.ttft)
        if service.tpot is not None and sized.role != "prefill":
            ratios[TPOT] = max(ratios[TPOT], float(state.tpot_quantile(which, service.percentile)[0]) / service.tpot)
    return ratios
