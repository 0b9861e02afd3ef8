"""Where recomputing and swapping cost the same: over the link, over tokens, over block sizes; and the best split between both.

**Link.** Let T be the seconds to recompute N tokens, n the calls and D the bytes of a device's copies one way, each call a_out
or a_in seconds, and g the seconds to gather blocks. Swapping out and in over a link of B bytes/s takes

    n (a_out + a_in) + 2 g + 2 D/B

which is less than T from

    B* = 2 D/(T - n (a_out + a_in) - 2 g)

on. If the calls alone take longer than T, no link is fast enough. Without calls, with D = N k and T = 2 N_p N/(P eta), this is
`roofline.formulas.break_even_link`: B* = k P eta/N_p. Here eta is the efficiency of recomputing these N tokens, counted on the
parameters alone, so that it includes attention and the engine's overhead.

**Tokens.** A prompt of N tokens takes about c + alpha N + gamma N^2 seconds: weights are read once, kernels are launched (c),
every token is multiplied by every parameter (alpha), attention sees N^2/2 pairs (gamma). A swap takes tau + sigma N: a call or
two, and the bytes and calls of a token out and in. Both are equal at the roots of

    gamma N^2 + (alpha - sigma) N + (c - tau) = 0

With c > tau and alpha > sigma there is none: swapping is always cheaper. With sigma > alpha, more to copy than to compute per
token, recomputing is cheaper between two roots: below them a prompt costs a reading of the weights, above them attention
outgrows every copy; with a negative discriminant there is none. With tau > c, or with the longest sequence between them, there
is one. The roots that are given are those of the times themselves, with their steps; ripples of tiles and blocks count once.

**Block size.** With b tokens per block, swapping N tokens takes 2 (ceil(N/b) m a + N k/B), with m copies per block of a seconds
per call: less with larger blocks, and equal to recomputing at about

    b* = 2 N m a/(T - 2 N k/B)

**Split.** Some blocks can come back over the link while the device recomputes the others. The order matters: keys and values
depend on all tokens before them. What is recomputed *first* waits for nothing: the prefix of y tokens is recomputed while the
last N - y are copied, and the sequence resumes when both are done:

    max(T(y), in(N - y))                and out(N - y) before, unless that was overlapped with other work

T grows with y, the copy falls: the minimum is where both end together, or, if a token costs more to copy out than to recompute,
at an end. The other order, prefix swapped and suffix recomputed, takes max(in(x), T(N) - T(x)): attention of the suffix sees
the prefix too, and T(N) - T(x) is no less than T(N - x), so that it is never better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofline.blocks.base import MixerBlock
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.formulas import break_even_link
from roofline.graph.build import build
from roofline.graph.sharding import stages
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.bounds import matrix_dtype
from roofline.predict.memory import MemoryModel
from roofline.predict.request import ResolvedRequest
from roofline.predict.what_if import variants as of_memory
from roofline.predict.what_if import with_mixers
from roofline.serving.preemption.copies import copies
from roofline.serving.preemption.costs import Cheaper, Preemption, Swap
from roofline.specs.workload import prefill


def needed_rate(moved: float, recompute: float, fixed: float) -> float | None:
    """The rate in bytes/s at which `moved` bytes, plus `fixed` seconds, take `recompute` seconds; None: no rate does.

    >>> needed_rate(8e9, 2.0, 0.4), needed_rate(8e9, 2.0, 2.5)  # 8 GB in 1.6 s
    (5000000000.0, None)
    """
    return moved / (recompute - fixed) if recompute > fixed else None


def exact_link(swap: Swap, recompute: float, tokens: int, prefix: int = 0) -> float | None:
    """The break-even link: the rate of large copies, bytes/s, at which swapping takes as long as `recompute` seconds.

    It is the whole link's rate, if several devices share it, with which every pipeline stage is done in time.

    Args:
        swap: the copies.
        recompute: seconds to recompute the tokens.
        tokens: evicted tokens.
        prefix: tokens before them that stay on the device.

    Returns:
        Bytes/s; None: no link is fast enough, or nothing is copied.
    """
    curves, needed = swap.copies.curves, []
    for stage in swap.stages:
        size = float(stage.bytes(tokens, prefix))
        if size == 0:
            continue
        calls = float(swap.calls(stage, tokens, prefix))
        fixed = calls * (curves.out.call + curves.back.call) + 2 * float(swap.gather(size))
        if (rate := needed_rate(2 * size, recompute, fixed)) is None:
            return None
        needed.append(rate * swap.share)
    return max(needed, default=None)


@dataclass(frozen=True, slots=True)
class Asymptote:
    """The terms of B* = k P eta/N_p, of one device.

    Args:
        kv_bytes: k, bytes per token.
        peak: P, FLOP/s; of products in several formats the mean over their time.
        efficiency: eta, the achieved share of the peak.
        parameters: N_p, parameters that multiply a token.
    """

    kv_bytes: float
    peak: float
    efficiency: float
    parameters: float

    @property
    def link(self) -> float | None:
        """The asymptotic break-even link B* in bytes/s; None if nothing is cached per token."""
        return break_even_link(self.kv_bytes, self.peak, self.efficiency, self.parameters) if self.kv_bytes else None


def asymptote(request: ResolvedRequest, recompute: float, tokens: int, share: int = 1) -> Asymptote:
    """The terms of the asymptotic break-even link for a recomputation.

    A sequence passes all pipeline stages, one after the other, while each copies its own part of the cache: the parameters
    are those of all stages, the bytes those of the fullest.

    Args:
        request: the deployment.
        recompute: seconds to recompute the tokens.
        tokens: evicted tokens.
        share: devices that copy over one link at the same time.
    """
    flops = compute_s = 0.0
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
                flops, compute_s = flops + work, compute_s + work / peak
    mean = peaks.pop() if len(peaks) == 1 else flops / compute_s
    kv = max(stage.kv_bytes_per_token for stage in request.memory.stages)
    return Asymptote(kv * share, mean, compute_s / recompute, flops / 2 / tokens)


def quadratic(c: float, alpha: float, gamma: float, tau: float, sigma: float) -> list[float]:
    """Positive roots of gamma N^2 + (alpha - sigma) N + (c - tau), ascending: the tokens at which both ways cost the same.

    Args:
        c: seconds of a recomputation, whatever its length.
        alpha: seconds per recomputed token.
        gamma: seconds per squared token (attention).
        tau: seconds of a swap, whatever its length.
        sigma: seconds per swapped token.

    >>> quadratic(c=9.0, alpha=1.0, gamma=0.01, tau=0.0, sigma=2.0)  # 0.01 N^2 - N + 9 = 0: N = 50 -+ sqrt(2500 - 900)
    [10.0, 90.0]
    >>> quadratic(8.0, 2.0, 0.01, 0.0, 1.0), quadratic(0.0, 1.0, 0.0, 4.0, 0.5)
    ([], [8.0])
    """
    slope, rest = alpha - sigma, c - tau
    if gamma == 0:
        roots = [-rest / slope] if slope else []
    else:
        under = slope * slope - 4 * gamma * rest
        roots = [] if under < 0 else [(-slope + sign * math.sqrt(under)) / (2 * gamma) for sign in (-1, 1)]
    return sorted({root for root in roots if root > 0})


_RIPPLES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def crossings(numbers: Sequence[int], first: Sequence[float], second: Sequence[float]) -> list[int]:
    """The numbers from which on the other of two times is longer: none, one or two, ascending.

    Args:
        numbers: ascending.
        first: the one time at each number, s.
        second: the other, s.

    Of more than two crossings those count as one between which the times differ by less than a ripple of 1 to 50 %, the
    smallest that leaves two; it is the middle one of them.

    >>> crossings([1, 2, 3, 4], [1, 2, 4, 8], [2, 3, 3, 3])
    [3]
    >>> crossings([1, 2, 3, 4, 5, 6, 7], [5, 5, 5, 5, 5, 5, 9], [1, 4.98, 5.02, 4.99, 8, 8, 8])  # ripples from 3 to 5
    [4, 7]
    """
    rows = list(zip(numbers, first, second, strict=True))
    changes: list[int] = []
    for ripple in (0.0, *_RIPPLES):
        changes = _changes(rows, ripple)
        if len(changes) <= 2:
            return changes
    return [changes[0], changes[-1]] if len(changes) % 2 == 0 else [changes[0]]


def _changes(rows: Sequence[tuple[int, float, float]], ripple: float) -> list[int]:
    """Crossings between numbers at which the times differ by more than a share of the longer one."""
    changes: list[int] = []
    since: list[int] = []  # every crossing since the last such number
    settled = last = 0
    for number, one, other in rows:
        sign = (one > other) - (one < other)
        if last and sign and sign != last:
            since.append(number)
        last = sign or last
        if sign and abs(one - other) > ripple * max(one, other):
            if settled and sign != settled:
                changes.append(since[len(since) // 2])
            settled, since = sign, []
    return changes


def _smallest_block(seconds: Callable[[int], float], limit: float, most: int) -> int | None:
    """The smallest block up to `most` tokens whose swap takes at most `limit` seconds; None if blocks of one token do, or none.

    >>> _smallest_block(lambda block: 2.0 + 100 / block, 7.0, 4096)
    20
    >>> _smallest_block(lambda block: 2.0, 7.0, 4096), _smallest_block(lambda block: 8.0, 7.0, 4096)
    (None, None)
    """
    if most < 2 or seconds(1) <= limit or seconds(most) > limit:
        return None
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds(middle) <= limit else (middle, high)
    return high


Order = Literal["recompute the first", "swap the first"]
Seconds = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Partial:
    """A split of a sequence: tokens that are recomputed and swapped, and seconds of each part."""

    order: Order
    recomputed: int
    swapped: int
    recompute_s: float
    out_s: float
    in_s: float

    @property
    def seconds(self) -> float:
        """Seconds out, then the longer of both."""
        return self.out_s + max(self.recompute_s, self.in_s)


def best_split(
    order: Order, tokens: int, step: int, recompute: Seconds, out: Seconds, back: Seconds, *, hidden: bool = False
) -> Partial:
    """The split with the shortest time, in multiples of `step` tokens.

    Args:
        order: which part is the prefix.
        tokens: evicted tokens of the sequence.
        step: granularity in tokens.
        recompute: seconds to recompute a number of tokens.
        out: seconds to copy the rest out, by the number of *recomputed* tokens.
        back: seconds to copy the rest in, likewise.
        hidden: copies out are overlapped with other work, and cost nothing.

    >>> best_split("recompute the first", 100, 10, lambda y: y / 10, lambda y: 0.0, lambda y: (100 - y) / 30).recomputed
    20
    """

    def split(recomputed: int) -> Partial:
        out_s = 0.0 if hidden else out(recomputed)
        return Partial(order, recomputed, tokens - recomputed, recompute(recomputed), out_s, back(recomputed))

    low, high = 0, -(-tokens // step)  # multiples: computing ends before the copy, and not before it
    while high - low > 1:
        middle = (low + high) // 2
        part = split(min(middle * step, tokens))
        low, high = (low, middle) if part.recompute_s >= part.in_s else (middle, high)
    tried = [split(min(number * step, tokens)) for number in (0, low, high, -(-tokens // step))]
    return min(tried, key=lambda part: part.seconds)


BLOCKS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
_FIRST, _ROWS, _FINE = 64, 14, 400


@dataclass(frozen=True, slots=True)
class Point:
    """Seconds by the number of evicted tokens: recomputed, swapped, swapped in one call each way, and split between both."""

    tokens: int
    recompute_s: float
    swap_s: float
    coalesced_s: float
    partial_s: float


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Seconds of recomputing over swapping, rows by tokens, columns by block size: above 1 swapping is cheaper."""

    tokens: tuple[int, ...]
    blocks: tuple[int, ...]
    ratios: tuple[tuple[float, ...], ...]


def _longest(costs: Preemption, tokens: int) -> int:
    """Evicted tokens of the longest sequence of the deployment; at least `tokens`."""
    deployment = costs.request.deployment
    most = costs.request.model.max_position_embeddings
    if deployment.max_model_len is not None:
        most = min(most, deployment.max_model_len)
    return max(most - costs.prefix, tokens)


def curve_lengths(costs: Preemption, tokens: int) -> list[int]:
    """Numbers of tokens for the curves, ascending: powers of two from 64, the midpoints between them, the longest, `tokens`."""
    last, numbers, number = _longest(costs, tokens), {tokens}, _FIRST
    while number <= last:
        numbers |= {number, number * 3 // 2}
        number *= 2
    return sorted(number for number in {*numbers, last} if number <= last)


def curve_points(costs: Preemption, tokens: Iterable[int], *, hidden: bool) -> list[Point]:
    """The costs in seconds at each number of tokens; `hidden` as in `split`."""
    gathered = replace(costs.swap, coalesced=True)
    return [
        Point(
            number,
            costs.recompute_seconds(number),
            sum(costs.swap_seconds(number)),
            float(gathered.both(number, costs.prefix)),
            split(costs, number, hidden=hidden)[0].seconds,
        )
        for number in tokens
    ]


def heat_map(costs: Preemption, tokens: int) -> HeatMap:
    """The map over numbers of tokens (powers of two, and `tokens`) and block sizes (`BLOCKS`, and the one in use)."""
    blocks = tuple(sorted({*BLOCKS, costs.request.memory.block_size}))
    rows = [number for number in curve_lengths(costs, tokens) if number == tokens or number & (number - 1) == 0][:_ROWS]
    swaps = [costs.with_block(block) for block in blocks]
    ratios = tuple(
        tuple(costs.recompute_seconds(number) / float(swap.both(number, costs.prefix)) for swap in swaps) for number in rows
    )
    return HeatMap(tuple(rows), blocks, ratios)


def crossover_tokens(costs: Preemption, tokens: int) -> list[int]:
    """The numbers of tokens from which on the other way is cheaper, up to the longest sequence: none, one or two, ascending.

    Only multiples of a block count, so that partly filled blocks do not.
    """
    last, block = _longest(costs, tokens), costs.request.memory.block_tokens
    tried = {max(round(last ** (index / _FINE) / block), 1) * block for index in range(_FINE + 1)}
    numbers = sorted(number for number in tried if number <= last) or [last]
    recomputed = [costs.recompute_seconds(number) for number in numbers]
    swapped = [sum(costs.swap_seconds(number)) for number in numbers]
    return crossings(numbers, recomputed, swapped)


def crossover_block(costs: Preemption, tokens: int, recompute: float) -> int | None:
    """The smallest block size in tokens with which swapping takes at most `recompute` seconds; None if it does not decide."""
    if costs.swap.coalesced:
        return None
    return _smallest_block(lambda block: float(costs.with_block(block).both(tokens, costs.prefix)), recompute, tokens)


def split(costs: Preemption, tokens: int, *, hidden: bool) -> tuple[Partial, ...]:
    """The best split of `tokens` evicted tokens in each possible order, the faster one first.

    Tokens after a swapped prefix attend to it. Layers with a window, and recurrent ones, keep no more of it than the end of the
    sequence needs, so that there the prefix has to be recomputed.

    Args:
        costs: of the deployment.
        tokens: evicted tokens.
        hidden: copies out are overlapped with other work, and cost nothing.
    """
    swap, prefix, block = costs.swap, costs.prefix, costs.request.memory.block_tokens

    def part(number: int, before: int) -> tuple[float, float]:
        out, back = swap.seconds(number, prefix + before) if number > 0 else (0.0, 0.0)
        return float(out), float(back)

    def after(recomputed: int) -> float:
        """Seconds for the last tokens, which attend to those before them; at least a prompt of that length alone."""
        alone = costs.recompute_seconds(recomputed)
        return max(costs.recompute_seconds(tokens) - costs.recompute_seconds(tokens - recomputed), alone)

    splits = [
        best_split(
            "recompute the first", tokens, block, costs.recompute_seconds,
            lambda y: part(tokens - y, y)[0], lambda y: part(tokens - y, y)[1], hidden=hidden,
        )
    ]  # fmt: skip
    if all(stage.divisible for stage in swap.stages):
        splits.append(
            best_split(
                "swap the first", tokens, block, after,
                lambda y: part(tokens - y, 0)[0], lambda y: part(tokens - y, 0)[1], hidden=hidden,
            )
        )  # fmt: skip
    return tuple(sorted(splits, key=lambda one: one.seconds))


_LARGE_BLOCK = 256


@dataclass(frozen=True, slots=True)
class VariantRow:
    """What if one thing changes: name and definition, bytes of a device one way, seconds out and in, break-even link."""

    variant: str
    bytes: float
    swap_s: float
    break_even_link: float | None
    cheaper: Cheaper
    why: str


def swap_variants(
    costs: Preemption, tokens: int, recompute: float, *, pinned: bool, host_link: float | None
) -> list[VariantRow]:
    """The baseline swap, and what if one thing changes, against a recomputation of `recompute` seconds.

    The recomputation is the baseline's in all rows: only the cache and its copies change.

    Args:
        costs: of the deployment.
        tokens: evicted tokens.
        recompute: seconds to recompute them.
        pinned: whether the host's memory is page-locked in the baseline.
        host_link: bytes/s of large copies that the user gave; None: as measured, or as the files say.
    """
    return [
        _variant_row(name, why, swap, costs.prefix, tokens, recompute)
        for name, why, swap in (("baseline", "", costs.swap), *_changed(costs, pinned=pinned, host_link=host_link))
    ]


def _changed(costs: Preemption, *, pinned: bool, host_link: float | None) -> Iterator[tuple[str, str, Swap]]:
    request, swap = costs.request, costs.swap
    for variant in of_memory(request):
        if request.deployment.conventions.shared_prefix and variant.name == "no shared prefix":
            continue  # then the prefix would be evicted too: another query
        yield variant.name, variant.why, costs.with_memory(variant.memory)
    if (full := _multi_head(costs)) is not None:
        yield "a KV head per query head", "multi-head attention (MHA) instead of grouped queries", costs.with_memory(full)
    if request.memory.block_size != _LARGE_BLOCK:
        yield f"blocks of {_LARGE_BLOCK}", "tokens in a block", costs.with_block(_LARGE_BLOCK)
    name, why = (
        ("block by block", "a call per block, layer and tensor") if swap.coalesced else ("coalesced", "one call each way")
    )
    yield name, why, replace(swap, coalesced=not swap.coalesced)
    other = copies(request, pinned=not pinned, host_link=host_link, share=swap.share)
    if pinned:
        yield "pageable", "host memory that is not page-locked", replace(swap, copies=other)
    else:
        yield "pinned", "page-locked host memory", replace(swap, copies=other)


def _multi_head(costs: Preemption) -> MemoryModel | None:
    """The memory with a KV head per query head; None if that is so, or attention is of another kind."""
    changed: dict[str, MixerBlock] = {}
    for name, layer in costs.request.model.layer_types.items():
        mixer = layer.mixer
        if isinstance(mixer, GroupedQueryAttention) and mixer.num_key_value_heads < mixer.num_attention_heads:
            changed[name] = mixer.model_copy(update={"num_key_value_heads": mixer.num_attention_heads})
    return with_mixers(costs.request, changed) if changed else None


def _variant_row(name: str, why: str, swap: Swap, prefix: int, tokens: int, recompute: float) -> VariantRow:
    took = float(swap.both(tokens, prefix))
    return VariantRow(
        variant=name,
        why=why,
        bytes=float(swap.bytes(tokens, prefix)),
        swap_s=took,
        break_even_link=exact_link(swap, recompute, tokens, prefix),
        cheaper="swap" if took <= recompute else "recompute",
    )
