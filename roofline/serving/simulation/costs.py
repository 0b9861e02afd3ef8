"""Seconds of a preemption, of a deployment: the closed form of `roofline.serving.preemption`."""

from __future__ import annotations

from roofline import formatting
from roofline.errors import InputError, UnknownNameError
from roofline.predict.request import Request
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.preemption.costs import Preemption
from roofline.serving.simulation.eviction import MODES, Mode, Preempting
from roofline.specs.source import Assumption, Origin

_TOKENS = 1024


def preempting(request: Request, mode: str | None, notes: list[Assumption], said: HostCopyOptions | None = None) -> Preempting:
    """How a replica of a deployment preempts; `mode` None: as engines do, by recomputing. `said` of the copies, if any.

    Raises:
        InputError: no such mode; nothing is known of the link to the host; something is said of copies that are never made.
    """
    said = said or HostCopyOptions()
    known: dict[str, Mode] = {name: name for name in MODES}
    if mode is not None and mode not in known:
        raise UnknownNameError("way to preempt", mode, known, list_all=True)
    if mode in (None, "recompute"):
        if said.given:
            msg = f"{said.given[0]} is of copies to the host, and caches are recomputed"
            raise InputError(f"{msg}: give --preemption swap or cheaper")
        if mode is None:
            why = "as vLLM's V1; swap, or cheaper (by the closed form), on demand"
            notes.append(Assumption("preemption", "recompute", "default", why))
        return Preempting()
    costs = Preemption.of(request, **said.options)
    way = "one call each way, blocks gathered before" if said.coalesced else "a call a block, layer and tensor (K, V), in turn"
    notes.append(Assumption("copies", "coalesced" if said.coalesced else "block by block", _origin(said.coalesced), way))
    notes += costs.swap.copies.notes
    if costs.swap.share > 1:
        why = "devices of a replica that copy over one link at the same time"
        notes.append(Assumption("gpus_per_link", said.gpus_per_link, "given", why))
    inputs = costs.swap.copies.inputs
    room = costs.host_memory
    if room is None:
        notes.append(Assumption("host_memory", None, "assumed", "nothing is known of the host's memory: it has room for all"))
        return Preempting(known[mode], costs, inputs=inputs)
    why = "for evicted sequences of a replica"
    if said.host_memory is None:
        why += f": {formatting.binary(room)}, the node's, by the replica's share of its accelerators, all of it free"
    notes.append(Assumption("host_memory", room, _origin(said.host_memory is not None), why))
    return Preempting(known[mode], costs, room / (costs.host_bytes(_TOKENS) / _TOKENS), inputs)


def _origin(given: bool) -> Origin:
    return "given" if given else "default"
