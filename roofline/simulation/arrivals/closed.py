"""Clients that wait for their answers: what most load generators do.

NB: clients that begin at once with prompts of one length stay in step, and TTFT is then many prompts long. How they begin, and
how equal lengths are, decides TTFT more than the server does.
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.simulation.arrivals.base import Clients, Kind, seconds
from roofline.units import parse_count


def _read(given: Sequence[str]) -> Clients:
    clients, *rest = given
    think, ramp = (_or_none(text) for text in (*rest, *["0"] * (2 - len(rest))))
    return Clients(parse_count(clients, "clients", minimum=1), think, ramp)


def _or_none(text: str) -> float:
    return 0.0 if text == "0" else seconds(text)


KIND = Kind(
    "closed",
    "closed:CLIENTS[:THINK[:RAMP]]",
    "each client sends its next request THINK after its answer; they begin over RAMP",
    _read,
)
