"""How many sequences decode at a time, and who waits for a seat: part 1 of the derivation in `steady.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.serving.queueing.server import BatchServer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MOST = 0.9995
"""Of what saturates: the most that is computed with."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Arrays over rates. `chances`: of 0, 1, ... sequences, (rates, seats + 1); those who wait count with all seats."""

    chances: Array
    running: Array
    """Mean number of sequences."""
    step: Array
    """Mean seconds of a step without prompts, as an arrival meets it; `spread`: its variance."""
    spread: Array
    steps: Array
    """Seconds by number of sequences, (seats + 1,)."""
    seat_wait: Array
    """Mean seconds for a seat, over all requests."""
    seat_wait_chance: Array


def crowd(server: BatchServer, rate: Array, pressure: Array, held: Array) -> Crowd:
    """pi(n) ~ prod pressure d(i)/i, up to the seats that prompts leave free (`held` have one), and beyond by a ratio.

    `pressure`: decode steps that arrive in the time of a step with prompts, over that of one without.
    """
    import numpy as np

    seats, decode = server.seats, server.decode_s
    many = np.arange(1, seats + 1)
    room = np.maximum(seats - held, 1.0)
    logs = np.cumsum(np.log(np.maximum(pressure, 1e-300))[:, None] + np.log(decode / many), axis=1)
    logs[many > np.floor(room)[:, None]] = -np.inf
    logs = np.concatenate([np.zeros((len(rate), 1)), logs], axis=1)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    full = np.floor(room).astype(int)[:, None]
    last = np.take_along_axis(weights, full, axis=1)[:, 0]
    ratio = np.minimum(pressure * np.interp(room, many, decode) / room, MOST)
    beyond = last * ratio / (1 - ratio)
    total = weights.sum(axis=1) + beyond
    chances = weights / total[:, None]
    chance = (last + beyond) / total
    np.put_along_axis(chances, full, chance[:, None], axis=1)
    steps = np.concatenate([decode[:1], decode])
    mean = chances @ steps
    return Crowd(
        chances=chances,
        running=chances @ np.arange(seats + 1),
        step=mean,
        spread=np.maximum(chances @ steps**2 - mean**2, 0),
        steps=steps,
        seat_wait=last / total * ratio / (1 - ratio) ** 2 * (server.cv**2 + server.scv_steps) / 2 / rate,
        seat_wait_chance=chance,
    )
