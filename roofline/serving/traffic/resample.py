"""Other traces like a trace, for several runs: blocks of consecutive requests of it, drawn at random.

Within a block the requests keep their order, their lengths and the times between them, and so bursts and what comes together.

Source: Politis, Romano 1992, A circular block-resampling procedure for stationary data, in Exploring the Limits of Bootstrap.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.serving.traffic.trace import Trace

BLOCKS = 20
"""Blocks of a trace: a twentieth is long against what a request waits for, and there are enough to mix."""


def resampled(trace: Trace, seed: int) -> Trace:
    """Return a trace with as many requests, in blocks drawn with a seed; with seed 0 the trace itself.

    The end of the trace is followed by its begin. Without arrival times only the order of the requests changes. What prompts
    have in common goes with them; a block that is drawn twice has the same content twice.
    """
    import numpy as np

    if not seed:
        return trace
    num = len(trace)
    length = -(-num // BLOCKS)
    starts = np.random.default_rng([seed, num]).integers(0, num, BLOCKS)
    order = ((starts[:, None] + np.arange(length)) % num).ravel()[:num]
    arrived = trace.arrived
    if arrived is not None:
        gaps = np.diff(arrived, prepend=arrived[0])
        gaps[0] = gaps[1:].mean() if num > 1 else 0.0  # from the last request to the first
        arrived = np.cumsum(gaps[order])
        arrived -= arrived[0]
    return replace(
        trace,
        arrived=arrived,
        prompts=trace.prompts[order],
        outputs=trace.outputs[order],
        sessions=None if trace.sessions is None else trace.sessions[order],
        hashes=None if trace.hashes is None else trace.hashes.take(order),
    )
