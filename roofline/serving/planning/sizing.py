"""One replica of a deployment: the most requests a second that it serves within the objectives, and what stops it there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from roofline.serving.planning.load import TPOT, TTFT, Load
from roofline.serving.queueing.replica import REPRESENTATIVES, BatchServer, Replica
from roofline.serving.queueing.steady import Steady, steady

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Role = Literal["both", "prefill", "decode"]
Binds = Literal["memory", "ttft", "tpot", "throughput"]

UTILISATION = 0.85
"""Of the rate that saturates: the most that is planned with. Beyond it waits grow without measure, and the formulas are off."""
_COARSE, _FINE = 15, 6
_FEW = REPRESENTATIVES // 8
"""Representatives over which shares are taken."""


@dataclass(frozen=True)
class Sized:
    """A replica with its settings. `most`: requests a second of all its ranks within every objective; 0: not one."""

    replica: Replica
    server: BatchServer
    role: Role
    slots: int
    budget: int
    most: float
    binds: Binds
    held_by_memory: bool
    """Whether the slots are as many as memory holds."""


def servers(
    replica: Replica, load: Load, role: Role, slots: int, budget: int, *, scale: float = 1.0, basis: str | None = None,
    after_s: tuple[Any, ...] = (),
) -> BatchServer:  # fmt: skip
    """The server of a role: both phases, prompts alone, or answers alone. `after_s`: of each class, seconds after a prompt."""
    import numpy as np

    whole = replica.server(load.mix, slots, budget, cv=load.cv, scale=scale, basis=basis)
    if role == "prefill":
        demands = tuple(
            replace(demand, decode_steps=np.zeros(1), after_s=after)
            for demand, after in zip(whole.demands, after_s or (0.0,) * len(whole.demands), strict=True)
        )
        return replace(whole, decode_s=whole.decode_s[:1], demands=demands)
    if role == "decode":
        demands = tuple(
            replace(demand, prompt_s=np.zeros((1, 1)), prompt_tokens=np.ones(1), running=np.ones(1)) for demand in whole.demands
        )
        return replace(whole, demands=demands)
    return whole


def sized(replica: Replica, load: Load, settings: Iterable[tuple[int, int]], memory_slots: int, role: Role = "both",
          after_s: tuple[Any, ...] = ()) -> Sized:  # fmt: skip
    """The best of some settings (slots and tokens a step): the one with the highest rate, of equal ones the first."""
    found = [_most(replica, load, role, slots, budget, memory_slots, after_s) for slots, budget in settings]
    return max(found, key=lambda one: one.most)


def _most(
    replica: Replica, load: Load, role: Role, slots: int, budget: int, memory_slots: int, after_s: tuple[Any, ...]
) -> Sized:
    import numpy as np

    server = servers(replica, load, role, slots, budget, after_s=after_s)
    few = fewer(server)
    top = few.capacity * UTILISATION
    rates = top * np.arange(1, _COARSE + 1) / _COARSE
    state = steady(few, rates)
    fine = _served(state, load, role)
    last = int(np.argmin(fine)) if not fine.all() else len(rates)
    if last == len(rates):
        most, binds = top, _throughput(state, slots, memory_slots)
    else:
        # between the last rate that is well served and the next
        low = rates[last - 1] if last else 0.0
        between = low + (rates[last] - low) * np.arange(1, _FINE + 1) / _FINE
        closer = steady(few, between)
        good = _served(closer, load, role)
        first_bad = int(np.argmin(good))
        most = float(between[first_bad - 1]) if first_bad else float(low)
        binds = _cause(closer, first_bad, load, role, slots, memory_slots)
    return Sized(replica, server, role, slots, budget, most, binds, slots >= memory_slots)


def fewer(server: BatchServer) -> BatchServer:
    """With fewer representatives of each class: means of neighbours."""
    import numpy as np

    def part(values: Array | float) -> Any:
        if np.ndim(values) == 0 or np.shape(values)[-1] <= _FEW:
            return values
        found = np.asarray(values)
        return found.reshape(*found.shape[:-1], _FEW, -1).mean(axis=-1)

    names = ("prompt_s", "prompt_tokens", "after_s", "decode_steps")
    demands = tuple(replace(demand, **{name: part(getattr(demand, name)) for name in names}) for demand in server.demands)
    return replace(server, demands=demands)


def _within(state: Steady, load: Load, role: Role) -> list[tuple[str, Array, float]]:
    """Of every objective: its name, the share of the requests that meet it at each rate, the share that has to."""
    found = []
    for which, service in enumerate(load.services):
        if service.ttft is not None and role != "decode":
            found.append((TTFT, state.ttft_within(which, service.ttft), service.percentile))
        if service.ttft is not None and role == "decode":  # who waits for a seat here waits for the second token
            found.append((TTFT, 1 - state.slot_wait_probability, service.percentile))
        if service.tpot is not None and role != "prefill" and float(service.mix.outputs.max()) > 1:
            found.append((TPOT, state.tpot_within(which, service.tpot), service.percentile))
    return found


def _served(state: Steady, load: Load, role: Role) -> Array:
    """Whether every objective is met, at each rate."""
    good = ~state.saturated
    for _, share, wanted in _within(state, load, role):
        good = good & (share >= wanted)
    return good


def _throughput(state: Steady, slots: int, memory_slots: int) -> Binds:
    """What saturates a replica that meets its objectives up to there."""
    full = float(state.running[-1]) > UTILISATION / 2 * slots and slots >= memory_slots
    return "memory" if full else "throughput"


def _cause(state: Steady, at: int, load: Load, role: Role, slots: int, memory_slots: int) -> Binds:
    """Which objective is missed first; memory, where the first token waits for a seat that memory does not hold."""
    missed = [name for name, share, wanted in _within(state, load, role) if share[at] < wanted]
    if not missed:
        return _throughput(state, slots, memory_slots)
    first: Binds = TTFT if missed[0] == TTFT else TPOT  # type: ignore[assignment]
    waits = float(state.slot_wait_s[at]) > float(state.wait.mean[at])
    return "memory" if first == TTFT and waits and slots >= memory_slots else first


def unloaded(of: Sized, load: Load) -> dict[str, float]:
    """At the lowest rate that is looked at, the worst of the classes: TTFT and TPOT at the percentile, over what is asked."""
    state = steady(fewer(of.server), of.server.capacity * UTILISATION / _COARSE)
    found = dict.fromkeys((TTFT, TPOT), 0.0)
    for which, service in enumerate(load.services):
        if service.ttft is not None and of.role != "decode":
            took = float(state.ttft_quantile(which, service.percentile)[0])
            found[TTFT] = max(found[TTFT], took / service.ttft)
        if service.tpot is not None and of.role != "prefill":
            took = float(state.tpot_quantile(which, service.percentile)[0])
            found[TPOT] = max(found[TPOT], took / service.tpot)
    return found
