"""Offline batch work on a replica: all requests are there at once, and the last one ends the work.

Time goes in blocks of h decode steps. In block k a rank admits a_k requests: at most its free slots, what its token budget
computes of prompts in h steps, and what is left. Of those admitted in block j the share f(k - j) ends in block k, where f is
the distribution of output lengths. So n_k, the sequences that run, follows from one convolution, and

    seconds of block k = h d(n_k) + h r(a_k/h) w(n_k)

d(n) is a decode step, w(n) what a prompt adds to it, r(x) = x; of a pipeline, where prompts of one round overlap, less
(`replica.prompts_of_round`); of data-parallel ranks, which wait for the fullest, more (`BatchServer.excess`). This has the ramp
(slots fill as fast as prompts are computed), the full load, and the end, when slots empty and steps take nearly as long for
fewer tokens.

Requests of equal lengths end together, in waves; others come to a steady state within a few generations. A generation is S
requests, S the slots; in the steady state (or with waves) each takes equally long. So of a large amount of work all but
8 generations are computed as S/X each, X being the rate at full load.

The last sequence has ended, on average, when n falls below exp(-0.5772): the mean of the maximum of exponential lives (Gumbel).

NB: a fluid has no chance in it; a few requests of very different lengths end earlier or later.

Source: derived here; renewals: Cox 1962, Renewal Theory; the mean maximum: Gumbel 1958, Statistics of Extremes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing.replica import BatchServer, prompts_of_round

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_BLOCKS = 48  # of a mean output
_LONGEST = 768  # blocks of the longest output
_GENERATIONS = 8  # of S requests that are followed; the rest is at full load
_STEADY = 5  # from this one on
_LAST = math.exp(-0.5772156649015329)
_QUANTILES = 512
_COUNTS = 32  # of prompts in a step, between which costs are interpolated


@dataclass(frozen=True, slots=True)
class OfflineRun:
    """A batch of requests on one replica.

    Args:
        finish_s: seconds until the last request has ended.
        rate: requests/s of all ranks at full load.
        waits_s: seconds until a request is admitted, at `shares` of the requests.
        first_s: seconds until its first token, likewise: at the end of a step, on average half a step after a fluid has it.
        running: mean number of sequences of all ranks that decode, until the end.
        tpot_s: mean seconds of their decode steps, by Little's law; 0 if outputs have one token.
    """

    finish_s: float
    rate: float
    waits_s: Array
    first_s: Array
    running: float
    tpot_s: float


def shares() -> Array:
    """Equally distant shares of the requests, in the order in which they are admitted."""
    import numpy as np

    return (np.arange(_QUANTILES) + 0.5) / _QUANTILES


def offline_run(server: BatchServer, requests: float) -> OfflineRun:
    """Run a batch of requests that all come at once.

    Args:
        server: the replica, at its slots and token budget.
        requests: number of requests of all ranks, above 0.
    """
    import numpy as np

    work = requests / server.ranks
    slots = float(server.slots)
    mean = server.mean_steps
    if mean <= 0:  # prompts alone
        finish = requests / server.capacity
        return OfflineRun(finish, server.capacity, finish * shares(), finish * shares(), 0.0, 0.0)
    generations = max(math.floor(work / slots - _GENERATIONS), 0)
    times, admitted, spent, step_s = _followed(server, work - generations * slots, slots)
    rate = server.capacity / server.ranks
    if generations:
        # in the middle of a wave, where requests of equal lengths are admitted too
        begin, end = (_STEADY - 0.5) * slots, (_GENERATIONS - 0.5) * slots
        first, last = np.interp([begin, end], admitted, times)
        each = np.diff(np.interp([begin, end], admitted, spent))[0] / (_GENERATIONS - _STEADY)
        rate = (end - begin) / float(last - first)
        at, shift = int(np.searchsorted(admitted, begin)), generations * slots
        times = np.concatenate([times[:at], [first, first + shift / rate], times[at:] + shift / rate])
        step_s = np.concatenate([step_s[:at], np.interp([begin, begin], admitted, step_s), step_s[at:]])
        admitted = np.concatenate([admitted[:at], [begin, begin + shift], admitted[at:] + shift])
        spent = spent + generations * each
    finish = float(times[-1])
    waits = np.interp(shares(), admitted / work, times)
    first_s = waits + np.interp(shares(), admitted / work, step_s) / 2
    sequences = float(spent[-1])
    return OfflineRun(finish, rate * server.ranks, waits, first_s, sequences * server.ranks / finish, sequences / (work * mean))


def _followed(server: BatchServer, work: float, slots: float) -> tuple[Array, Array, Array, Array]:
    """Seconds at the end of each block, requests admitted and seconds of all sequences by then, and of its steps; of a rank."""
    import numpy as np

    steps = max(server.mean_steps / _BLOCKS, _longest(server) / _LONGEST, 1.0)  # in a block
    ends = _ends(server, steps)[::-1].copy()  # the latest block last
    decode = server.decode_s.tolist()
    prompts = server.mean(demand.prompts(1.0 + np.arange(server.slots)) for demand in server.demands).tolist()
    tokens = server.mean_tokens
    plain = server.ranks == server.stages == 1
    at = np.append(0, np.geomspace(1e-3, max(server.budget / tokens, 1.0), _COUNTS))
    counted = _counted(server, at)
    history = np.zeros(2048)
    times, admitted, spent, step_s = [0.0], [0.0], [0.0], [0.0]
    running, left, clock = 0.0, work, 0.0
    while left > 1e-9 or running * server.ranks > _LAST:
        k = len(times) - 1
        if k == len(history):
            history = np.concatenate([history, np.zeros(k)])
        low = max(k - len(ends), 0)
        ended = float(history[low:k] @ ends[len(ends) - k + low :]) if k else 0.0
        held = running - ended
        budget = steps * max(server.budget - held * server.step_tokens, 1.0) / tokens
        adds = min(slots - held, budget, left)
        history[k] = adds
        mean = (running + held + adds) / 2
        index = max(int(mean + 0.5), 1) - 1
        computed = adds if plain else steps * float(np.interp(adds / steps, at, counted))
        seconds = steps * decode[index] + computed * prompts[index]
        clock += seconds
        running, left = held + adds, left - adds
        times.append(clock)
        step_s.append(seconds / steps)
        admitted.append(work - left)
        spent.append(spent[-1] + mean * seconds)
    return np.array(times), np.array(admitted), np.array(spent), np.array(step_s)


def _longest(server: BatchServer) -> float:
    return max(float(demand.decode_steps.max()) for demand in server.demands)


def _ends(server: BatchServer, steps: float) -> Array:
    """Shares of the requests that end 1, 2, ... blocks of `steps` decode steps after they were admitted."""
    import numpy as np

    blocks = [np.maximum(np.floor(demand.decode_steps / steps + 0.5).astype(int), 1) for demand in server.demands]
    shares = np.zeros(max(int(each.max()) for each in blocks))
    for demand, each in zip(server.demands, blocks, strict=True):
        np.add.at(shares, each - 1, demand.share / len(each))
    return shares


def _counted(server: BatchServer, prompts: Array) -> Array:
    """Prompts that a step is longer by, of the numbers of prompts in a step of a rank, ascending from 0."""
    import numpy as np

    counted = 1.0 * prompts_of_round(prompts, server.stages, server.scatter or 0.0)  # not the array itself
    if server.ranks > 1 and server.scatter is not None:
        counted[1:] *= 1 + server.mean_share * np.asarray(server.excess(prompts[1:], in_turn=False)) / prompts[1:]
    return counted
