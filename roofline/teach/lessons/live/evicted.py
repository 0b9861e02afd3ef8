"""Evicted sequences, brought back: computed again, or copied out and in. Pages run a translation of this module."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.graph import caches
from roofline.numeric import ceil_div
from roofline.predict.timing import pipeline
from roofline.serving.preemption.break_even import needed_rate
from roofline.serving.preemption.copies import Curve
from roofline.specs.workload import prefill
from roofline.teach.lessons.live.run import Run

CALL = 5e-6
"""Seconds of a call: the typical value of `hardware/_host_copies.yaml`."""
LINK = 25.6
"""GB/s that large copies reach over PCIe 4.0 with 16 lanes, 32 GB/s, by the same file."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes and calls of one device, one way, and the seconds of device memory in which blocks are gathered."""

    bytes: float
    calls: float
    gathered: float


def moved(run: Run, length: float) -> Moved:
    """What all sequences of the batch copy, each of so many tokens: piece by piece, or gathered and in one call each.

    Models whose layers keep every token: a window would let go of blocks.
    """
    request, block = run.request, int(run.values.get("block", "16"))
    tensors = 1 if getattr(next(iter(request.model.layer_types.values())).mixer, "kind", "") == "mla" else 2
    size, pieces = 0.0, 0.0
    for kept, layers in caches(request.model, request.deployment, request.memory.stage):
        tokens = kept.kept(length)
        if block > 0:
            blocks = ceil_div(tokens, block)
            tokens, pieces = blocks * block, pieces + blocks * layers * tensors
        size = size + tokens * kept.elements * request.precision.kv.bytes * layers
    batch = request.workload.batch
    if block > 0:
        return Moved(bytes=size * batch, calls=pieces * batch, gathered=0.0)
    return Moved(bytes=size * batch, calls=float(batch), gathered=2 * size * batch / request.hardware.bandwidth)


def swap_seconds(run: Run, length: float) -> float:
    """Out and in, one after the other."""
    found = moved(run, length)
    one_way: float = Curve(CALL, link(run)).seconds(found.bytes, found.calls) + found.gathered
    return 2 * one_way


def link(run: Run) -> float:
    """Bytes/s of large copies in one direction."""
    return float(run.values.get("link_gbs", LINK)) * 1e9


def recompute_seconds(run: Run, length: float) -> float:
    """All sequences as prompts in one step that has nothing else in it: the estimate where it is asked for, else the bound."""
    found = pipeline(run.request, prefill(run.request.workload.batch, int(length)))
    took = found.bound if found.estimate is None else found.estimate
    return 0.0 if took is None else took


def needed_link(run: Run, length: float) -> float | None:
    """Bytes/s of large copies at which both take as long; None where the calls alone take longer."""
    found = moved(run, length)
    fixed = 2 * (found.calls * CALL + found.gathered)
    return needed_rate(2 * found.bytes, recompute_seconds(run, length), fixed)
