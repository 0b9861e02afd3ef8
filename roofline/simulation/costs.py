"""Seconds of a preemption, of a deployment: the closed form of `roofline.preemption`."""

from __future__ import annotations

from roofline.errors import UnknownNameError
from roofline.predict.request import Request
from roofline.preemption.preemption import Preemption
from roofline.simulation.eviction import MODES, Mode, Preempting
from roofline.specs.assumption import Assumption

_TOKENS = 1024


def preempting(request: Request, mode: str | None, notes: list[Assumption]) -> Preempting:
    """How a replica of a deployment preempts; `mode` None: as engines do, by recomputing.

    Raises:
        InputError: no such mode; nothing is known of the link to the host.
    """
    if mode is None:
        notes.append(
            Assumption("preemption", "recompute", "default", "as vLLM's V1; swap, or cheaper (by the closed form), on demand")
        )
        return Preempting()
    known: dict[str, Mode] = {name: name for name in MODES}
    if mode not in known:
        raise UnknownNameError("way to preempt", mode, known, list_all=True)
    if mode == "recompute":
        return Preempting()
    costs = Preemption.of(request)
    room = costs.host_memory
    if room is None:
        notes.append(Assumption("host_memory", None, "assumed", "nothing is known of the host's memory: it has room for all"))
        return Preempting(known[mode], costs)
    return Preempting(known[mode], costs, room / (costs.host_bytes(_TOKENS) / _TOKENS))
