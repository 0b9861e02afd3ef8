"""The break-even link: exactly, for a number of tokens, blocks and calls; and what it tends to.

Let T be the seconds of recomputing N tokens, n the calls and D the bytes of a device's copies one way, each call a_out or a_in
seconds, and g the seconds in which blocks are gathered. Swapping out and in over a link of B bytes/s takes

    n (a_out + a_in) + 2 g + 2 D/B

which is less than T from

    B* = 2 D/(T - n (a_out + a_in) - 2 g)

on. Where the calls alone take longer than T, no link is fast enough. Without calls, with D = N k and T = 2 N_p N/(P eta), this
is `roofline.formulas.break_even`: B* = k P eta/N_p. Here eta is what recomputing these N tokens reaches, counted on the
parameters alone, so that attention and the engine's own time are in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.formulas.break_even import break_even_link
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.request import Request
from roofline.serving.preemption.swap import Swap
from roofline.specs.workload import prefill


def needed_rate(moved: float, recompute: float, fixed: float) -> float | None:
    """Bytes/s at which `moved` bytes, with `fixed` seconds beside them, take as long as `recompute`; None: no rate does.

    >>> needed_rate(8e9, 2.0, 0.4), needed_rate(8e9, 2.0, 2.5)  # 8 GB in 1.6 s
    (5000000000.0, None)
    """
    return moved / (recompute - fixed) if recompute > fixed else None


def exact_link(swap: Swap, recompute: float, tokens: int, prefix: int = 0) -> float | None:
    """The rate of large copies over the link at which both take as long; None: none is fast enough, or nothing is copied.

    The link's, where several devices share it. Every stage has to be done in time.
    """
    ways, needed = swap.copies.ways, []
    for stage in swap.stages:
        size = float(stage.bytes(tokens, prefix))
        if size == 0:
            continue
        calls = float(swap.calls(stage, tokens, prefix))
        fixed = calls * (ways.out.call + ways.back.call) + 2 * float(swap.gather(size))
        if (rate := needed_rate(2 * size, recompute, fixed)) is None:
            return None
        needed.append(rate * swap.share)
    return max(needed, default=None)


@dataclass(frozen=True, slots=True)
class Asymptote:
    """The terms of B* = k P eta/N_p, of one device: bytes a token, FLOP/s (of products in several formats the mean over their
    time), share of it, parameters that multiply a token."""

    kv_bytes: float
    peak: float
    efficiency: float
    parameters: float

    @property
    def link(self) -> float | None:
        """B*, bytes/s; None where nothing is kept a token."""
        return break_even_link(self.kv_bytes, self.peak, self.efficiency, self.parameters) if self.kv_bytes else None


def asymptote(request: Request, recompute: float, tokens: int, share: int = 1) -> Asymptote:
    """The terms at a number of tokens that take `recompute` seconds to compute again.

    A sequence passes all pipeline stages, one after the other, while each copies its own part of the cache: the parameters
    are those of all stages, the bytes those of the fullest. `share` devices copy over one link.
    """
    flops = busy = 0.0
    peaks = set()
    for stage in stages(request.model, request.deployment.pipeline_parallel_size):
        graph = build(request.model, request.deployment, request.precision, prefill(1, tokens), stage)
        for path, (operator, repeat) in graph.items():
            if path.startswith("layers/") and isinstance(operator, Gemm | GroupedGemm):
                work, peak = (
                    float(operator.cost().matrix_flops) * repeat,
                    request.hardware.peak(matrix_dtype(operator, request.hardware)),
                )
                peaks.add(peak)
                flops, busy = flops + work, busy + work / peak
    mean = peaks.pop() if len(peaks) == 1 else flops / busy
    kv = max(stage.kv_bytes_per_token for stage in request.memory.stages)
    return Asymptote(kv * share, mean, busy / recompute, flops / 2 / tokens)
