"""Break-even links, crossover lengths and blocks, splits: each is where the times themselves say that it is."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, pairwise, product
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.predict.allocation import Kind
from roofline.predict.request import prepare
from roofline.serving.preemption import crossover
from roofline.serving.preemption.copies import Copies, Curve, SwapCurves
from roofline.serving.preemption.costs import BlockGroup, Preemption, SequenceCache, Swap
from roofline.serving.preemption.crossover import _smallest_block, asymptote, best_split, crossings, exact_link, quadratic

YARN, POLARIS = "yarn-llama-2-7b-64k", "polaris"


def of(model: str, hardware: str, *, deployed: dict[str, Any] | None = None, **copies: Any) -> Preemption:
    return Preemption.of(prepare(model, hardware, **{"context": 0, "phase": "decode", **(deployed or {})}), **copies)


LINKS = [
    ("llama-3.1-8b", "a100-sxm-80gb", {}, {}),
    ("llama-3.1-8b", "h100-sxm", {}, {"coalesced": True}),
    ("gemma-3-12b", "h100-sxm", {"block_size": 64}, {}),
    ("deepseek-v3", "h200-sxm", {"tp": 8}, {"gpus_per_link": 2}),
    ("llama-3.1-70b", "h100-sxm", {"tp": 2, "pp": 2}, {}),
]


@pytest.mark.parametrize("tokens", [700, 6000])
@pytest.mark.parametrize(("model", "hardware", "deployed", "copies"), LINKS)
def test_over_the_break_even_link_both_take_as_long(
    model: str, hardware: str, deployed: dict[str, Any], copies: dict[str, Any], tokens: int
) -> None:
    costs = of(model, hardware, deployed=deployed, **copies)
    recompute = costs.recompute_seconds(tokens)
    link = exact_link(costs.swap, recompute, tokens)
    assert link is not None
    again = of(model, hardware, deployed=deployed, **copies, host_link=link)
    assert sum(again.swap_seconds(tokens)) == pytest.approx(recompute, rel=1e-9)


def test_no_link_is_fast_enough() -> None:
    """92 ms of calls out and in, against 45 ms of computing."""
    costs = of("llama-3.1-8b", "h100-sxm")
    assert costs.recompute_seconds(2048) < 2 * 8192 * 5e-6
    assert exact_link(costs.swap, costs.recompute_seconds(2048), 2048) is None
    assert sum(of("llama-3.1-8b", "h100-sxm", host_link=1e15).swap_seconds(2048)) > costs.recompute_seconds(2048)


def test_without_calls_it_is_the_closed_form() -> None:
    """B* = k P eta/N_p: 131,072 bytes a token, 6.98e9 parameters in the layers, eta of these alone."""
    costs = of("llama-3.1-8b", "a100-sxm-80gb", coalesced=True)
    recompute = costs.recompute_seconds(4096)
    found = asymptote(costs.request, recompute, 4096)
    assert (found.kv_bytes, found.peak) == (131072, 312e12)
    assert found.parameters == 32 * (4096 * (32 + 8 + 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336)
    assert found.efficiency == pytest.approx(2 * found.parameters * 4096 / 312e12 / recompute)
    assert found.link == pytest.approx(2 * 131072 * 4096 / recompute)
    assert exact_link(costs.swap, recompute, 4096) == pytest.approx(found.link, rel=0.01)  # a gathering pass, and two calls


def test_stages_and_shared_links() -> None:
    """A sequence passes both stages, of which each copies half of its cache; two devices of one link need one twice as fast."""
    one, two = (of("llama-3.1-8b", "a100-sxm-80gb", deployed={"pp": size}) for size in (1, 2))
    whole, half = asymptote(one.request, 1.0, 2048), asymptote(two.request, 1.0, 2048)
    assert (half.kv_bytes, half.parameters) == (whole.kv_bytes / 2, whole.parameters)
    assert asymptote(one.request, 1.0, 2048, share=2).link == pytest.approx(2 * (whole.link or 0))


# Lengths


def test_two_crossings_of_full_heads() -> None:
    """Without grouped queries a token costs more to copy block by block than to compute.

    Short prompts cost a pass over the weights, long ones attention: Llama-2-7B on A100.
    """
    costs = of(YARN, POLARIS)
    first, second = crossover.crossover_tokens(costs, 2048)
    for tokens, cheaper in ((first // 2, "swap"), (2 * first, "recompute"), (second // 2, "recompute"), (2 * second, "swap")):
        assert costs.choice(tokens).cheaper == cheaper
    assert crossover.crossover_tokens(of(YARN, POLARIS, coalesced=True), 2048) == []


def test_one_crossing_where_the_other_is_beyond_the_model() -> None:
    (only,) = crossover.crossover_tokens(of("llama-2-7b", "a100-sxm-80gb"), 2048)
    costs = of("llama-2-7b", "a100-sxm-80gb")
    assert (costs.choice(only // 2).cheaper, costs.choice(4096).cheaper) == ("swap", "recompute")


def test_the_quadratic_is_near() -> None:
    """The root for long sequences: alpha N + gamma N^2 through two lengths of the recomputation, sigma N of the swap."""
    costs = of(YARN, POLARIS)
    middle, large = 16384, 65536
    rise = [costs.recompute_seconds(number) / number for number in (middle, large)]
    gamma = (rise[1] - rise[0]) / (large - middle)
    alpha = rise[0] - gamma * middle
    sigma = sum(costs.swap_seconds(16384)) / 16384
    (root,) = [value for value in quadratic(0.0, alpha, gamma, 0.0, sigma) if value > 1000]
    assert root == pytest.approx(crossover.crossover_tokens(costs, 2048)[1], rel=0.1)


def test_ripples_count_once() -> None:
    """Three changes within two per cent of each other are one, the middle of them; a fourth far away is another."""
    numbers = list(range(8))
    first, second = [1.0, 1.99, 2.01, 1.985, 3.0, 3.0, 3.0, 9.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 20.0]
    assert crossings(numbers, first, second) == [3, 7]
    assert crossings(numbers, first, [20.0] * 8) == []


# Blocks


@pytest.mark.parametrize(("model", "hardware", "tokens"), [(YARN, POLARIS, 2048), ("llama-3.1-8b", "a100-sxm-80gb", 4096)])
def test_the_smallest_block(model: str, hardware: str, tokens: int) -> None:
    """With it a swap is the cheaper, with one token less it is not; near 2 N m a/(T - 2 N k/B)."""
    costs = of(model, hardware)
    recompute = costs.recompute_seconds(tokens)
    size = crossover.crossover_block(costs, tokens, recompute)
    assert size is not None
    assert float(costs.with_block(size).both(tokens)) <= recompute < float(costs.with_block(size - 1).both(tokens))
    ways, calls, token = costs.swap.copies.curves, 64, float(costs.device_bytes(tokens)) / tokens
    near = 2 * tokens * calls * ways.out.call / (recompute - 2 * tokens * token / ways.rate)
    assert size == pytest.approx(near, rel=0.1, abs=1)


def test_blocks_that_decide_nothing() -> None:
    """Gathered blocks; copies that are too slow in any; and blocks of one token that are good enough."""
    for costs in (
        of(YARN, POLARIS, coalesced=True),
        of(YARN, POLARIS, pinned=False),
        of("gpt2", "a100-sxm-80gb", host_link=1e12),
    ):
        tokens = 1000
        recompute = costs.recompute_seconds(tokens) if costs.request.model.name != "gpt2" else 10.0
        assert crossover.crossover_block(costs, tokens, recompute) is None


# Both at once


def test_the_best_split_is_that_of_trying_all() -> None:
    """Every multiple of a block, in both orders."""
    for costs in (of(YARN, POLARIS), of("llama-3.1-8b", "a100-sxm-80gb"), of("gemma-3-12b", "h100-sxm", pinned=False)):
        tokens = 1024
        for hidden in (False, True):
            for part in crossover.split(costs, tokens, hidden=hidden):
                tried = []
                for y in range(0, tokens + 1, 16):
                    before = y if part.order == "recompute the first" else 0
                    out, back = costs.swap.seconds(tokens - y, before) if y < tokens else (0.0, 0.0)
                    again = costs.recompute_seconds(y)
                    if part.order == "swap the first":
                        again = max(costs.recompute_seconds(tokens) - costs.recompute_seconds(tokens - y), again)
                    tried.append((0.0 if hidden else float(out)) + max(again, float(back)))
                assert part.seconds <= min(tried) * 1.02
                assert part.recomputed + part.swapped == tokens


def test_at_the_best_split_both_end_together() -> None:
    """Copies out hidden: the two differ by less than a block's worth."""
    costs = of(YARN, POLARIS)
    part = crossover.split(costs, 4096, hidden=True)[0]
    assert 0 < part.recomputed < 4096
    assert part.recompute_s == pytest.approx(part.in_s, rel=0.05)
    assert part.seconds < 0.7 * min(costs.recompute_seconds(4096), costs.swap_seconds(4096)[1])


def test_what_a_window_forgot_is_not_swapped_first() -> None:
    """Layers with a window keep the end of the sequence alone: there the prefix has to be recomputed."""
    assert [part.order for part in crossover.split(of("gemma-3-12b", "h100-sxm"), 4096, hidden=True)] == ["recompute the first"]
    assert len(crossover.split(of(YARN, POLARIS), 4096, hidden=True)) == 2


def test_ends_are_splits_too() -> None:
    """A copy that costs nothing leaves nothing to compute, and the other way round."""
    nothing = best_split("recompute the first", 100, 16, float, lambda y: 0.0, lambda y: 0.0)
    assert (nothing.recomputed, nothing.swapped, nothing.seconds) == (0, 100, 0.0)
    everything = best_split("recompute the first", 100, 16, lambda y: 0.0, lambda y: 100.0 - y, lambda y: 100.0 - y)
    assert (everything.recomputed, everything.swapped) == (100, 0)


def test_copies_out_count_unless_they_are_hidden() -> None:
    assert best_split("swap the first", 4, 4, float, lambda y: 3.0, lambda y: 0.0).seconds == 3.0


def test_a_split_into_two_steps() -> None:
    """Of 20 tokens in steps of 10 the first half is recomputed while the second is copied: 1 s both, not 2 s of either."""
    part = best_split("recompute the first", 20, 10, lambda y: y / 10, lambda y: 0.0, lambda y: (20 - y) / 10)
    assert (part.recomputed, part.seconds) == (10, 1.0)


def test_a_block_that_takes_just_as_long() -> None:
    """The largest block is as fast as recomputing, and no smaller one is."""
    assert _smallest_block(lambda block: 7.0 if block == 64 else 8.0, 7.0, 64) == 64


# Made-up times


def test_roots_that_are_known() -> None:
    """Products gamma (N - r)(N - s) and straight lines with root r, divided into the times of both ways; only r > 0 counts."""
    roots = (-3.0, 0.0, 2.0, 7.0)
    for gamma, (first, second), tau, sigma in product((0.01, 2.0), combinations(roots, 2), (0.0, 5.0), (0.0, 1.5)):
        found = quadratic(gamma * first * second + tau, sigma - gamma * (first + second), gamma, tau, sigma)
        assert found == pytest.approx([root for root in (first, second) if root > 0])
    for root, slope, tau, sigma in product(roots, (-2.0, 3.0), (0.0, 5.0), (0.0, 1.5)):
        assert quadratic(tau - slope * root, slope + sigma, 0.0, tau, sigma) == ([root] if root > 0 else [])
    assert quadratic(1.0, 0.0, 1.0, 0.0, 2.0) == [1.0]  # (N - 1)^2
    assert quadratic(3.0, 1.0, 0.0, 1.0, 1.0) == quadratic(3.0, 1.0, 1.0, 1.0, 1.0) == []


def test_crossings_of_all_patterns() -> None:
    """Six numbers at which the first time is the longer one (+), the shorter one, or the same: where the sign changes."""
    for signs in product((-1, 0, 1), repeat=6):
        first = [{-1: 1.0, 0: 10.0, 1: 100.0}[sign] for sign in signs]
        clear = [(number, sign) for number, sign in zip(range(10, 16), signs, strict=True) if sign]
        changes = [number for (_, before), (number, sign) in pairwise(clear) if sign != before]
        if len(changes) > 2:
            changes = changes[:1] if len(changes) % 2 else [changes[0], changes[-1]]
        assert crossings(range(10, 16), first, [10.0] * 6) == changes


@pytest.mark.every_case
@pytest.mark.parametrize("percent", [1, 2, 5, 10, 20, 50])
def test_every_ripple(percent: int) -> None:
    """Three crossings, at 1, 2 and 3: `percent` above and then below, of the longer time.

    A difference of just a ripple counts as none, a larger one does. With both differences at the ripple the middle crossing
    is left; with the second one above it the last; with both above all ripples (60 %) the first of the three stands for all.
    """
    for above, below, expected in ((percent, percent, 2), (percent, percent * 1.01, 3), (60, 60, 1)):
        first, second = [1.0, 100.0, 100.0 - below, 100.0], [100.0, 100.0 - above, 100.0, 1.0]
        assert crossings(range(4), first, second) == [expected]
        assert crossings(range(4), second, first) == [expected]


def test_the_smallest_block_of_all() -> None:
    """The first of all blocks up to the largest that is fast enough; none if a block of one token is."""
    for most, limit in product((1, 2, 3, 17, 64), (1.0, 2.0, 5.0, 7.0, 52.0, 102.0, 103.0)):
        fast = [block for block in range(1, most + 1) if 2 + 100 / block <= limit]
        expected = fast[0] if fast and fast[0] > 1 else None
        assert _smallest_block(lambda block: 2 + 100 / block, limit, most) == expected


@pytest.mark.every_case
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("tokens", "step"), [(100, 7), (96, 16), (5, 16), (32, 16), (40, 1)])
def test_splits_by_trying_all(tokens: int, step: int, hidden: bool) -> None:
    """Straight lines, with and without a time whatever the length: every multiple of the step, and all tokens."""
    numbers = [*range(0, tokens, step), tokens]
    for slope, away, back, start in product((0.1, 1.0, 3.0), (0.0, 0.5, 2.0), (0.3, 1.0, 4.0), (0.0, 20.0)):
        lines = (
            lambda y, a=slope, c=start: a * y + c * (y > 0),
            lambda y, a=0.0 if hidden else away: a * (tokens - y),
            lambda y, a=back: a * (tokens - y),
        )
        part = best_split("swap the first", tokens, step, lines[0], lambda y, a=away: a * (tokens - y), lines[2], hidden=hidden)
        assert (part.order, part.recomputed + part.swapped) == ("swap the first", tokens)
        assert part.recomputed in numbers
        assert (part.recompute_s, part.out_s, part.in_s) == tuple(line(part.recomputed) for line in lines)
        assert part.seconds == pytest.approx(min(lines[1](y) + max(lines[0](y), lines[2](y)) for y in numbers))


TAU, PER_TOKEN = 2e-3, 3e-5


def made_up(
    *, longest: int = 960, limit: int | None = None, prefix: int = 0, block: int = 16, window: int | None = None,
    coalesced: bool = False, recompute: Any = lambda number: TAU + PER_TOKEN * number + 2e-8 * number**2,
) -> Any:  # fmt: skip
    """A deployment whose layers have 2 x 80 bytes per block: two copies, which take 10 us out, 30 us in, and their bytes."""
    curves = SwapCurves(Curve(10e-6, 4e7), Curve(30e-6, 2e7))
    cache = SequenceCache((BlockGroup(Kind(block, 1.0, window=window), 3, 10.0 * block, 2),))
    request = SimpleNamespace(
        deployment=SimpleNamespace(max_model_len=limit),
        model=SimpleNamespace(max_position_embeddings=longest),
        memory=SimpleNamespace(block_size=block, block_tokens=block),
    )
    swap = Swap((cache,), Copies(curves, curves, curves, 4e7, "assumed"), coalesced, 1e9)
    return SimpleNamespace(
        request=request, prefix=prefix, swap=swap, recompute_seconds=recompute,
        swap_seconds=lambda tokens: tuple(map(float, swap.seconds(tokens, prefix))),
        with_block=lambda size: replace(
            swap, stages=(SequenceCache((BlockGroup(Kind(size, 1.0, window=window), 3, 10.0 * size, 2),)),)
        ),
    )  # fmt: skip


def test_lengths_of_the_curves() -> None:
    """64, 96, 128, 192, 256, ... up to the shorter of what model and engine allow less the prefix, which is added too."""
    series = sorted([64 * 2**k for k in range(12)] + [96 * 2**k for k in range(12)])
    for longest, limit, prefix, tokens in product((50, 1024, 5000), (None, 768, 9000), (0, 100, 256), (10, 64, 700)):
        last = max(min(longest, limit or longest) - prefix, tokens)
        expected = sorted({*(number for number in series if number <= last), last, tokens})
        assert crossover.curve_lengths(made_up(longest=longest, limit=limit, prefix=prefix), tokens) == expected


@pytest.mark.every_case
@pytest.mark.parametrize("block", [1, 16, 100])
def test_crossovers_by_trying_all_lengths(block: int) -> None:
    """Every multiple of a block, up to forty of them: the first one at which the other way is the slower one."""
    for longest, start, slope, square in product(
        (1, 2, block, 17 * block + 1, 40 * block), (0.0, 1e-4), (1e-6, 2e-5, 3e-4), (0.0, 1e-6, 2e-7)
    ):
        costs = made_up(longest=longest, block=block, recompute=lambda n, c=start, a=slope, g=square: c + a * n + g * n**2)
        numbers = list(range(block, longest + 1, block))
        slower = [costs.recompute_seconds(number) > sum(costs.swap_seconds(number)) for number in numbers]
        changes = [n for n, (one, other) in zip(numbers[1:], pairwise(slower), strict=True) if one != other]
        assert len(changes) <= 2
        assert crossover.crossover_tokens(costs, 1) == changes
    costs = made_up(longest=10 * block, block=block, recompute=lambda n: 9.0 if n >= 10 * block else 0.0)
    assert crossover.crossover_tokens(costs, 1) == [10 * block]  # the longest sequence itself


def test_long_crossovers() -> None:
    """400 steps up to 131,072 tokens, each 3 % longer: a crossing is at most that, and a block, behind the time's own."""
    for true in (3000, 30_000, 120_000, 131_071):
        costs = made_up(longest=131_072)
        costs.recompute_seconds = lambda n, costs=costs, true=true: sum(costs.swap_seconds(n)) * (1.5 if n > true else 0.5)
        (tokens,) = crossover.crossover_tokens(costs, 1)
        assert true < tokens <= true * 131_072 ** (1 / 400) + 16


@pytest.mark.every_case
@pytest.mark.parametrize("prefix", [0, 24])
def test_points_and_maps(prefix: int) -> None:
    """Each time by itself: 3 layers of two copies per block, out and in; one call each way and two passes if gathered."""
    costs, tokens = made_up(prefix=prefix, longest=2**20), 700

    def swapped(number: int, size: int, gathered: bool = False) -> float:
        blocks = math.ceil((prefix + number) / size) - prefix // size
        calls, moved = (1 if gathered else 6 * blocks), 30 * size * blocks
        return calls * 40e-6 + moved / 4e7 + moved / 2e7 + (4 * moved / 1e9 if gathered else 0.0)

    for point in crossover.curve_points(costs, (1, 100, tokens), hidden=True):
        number = point.tokens
        assert point.recompute_s == costs.recompute_seconds(number)
        assert (point.swap_s, point.coalesced_s) == pytest.approx((swapped(number, 16), swapped(number, 16, gathered=True)))
        assert point.partial_s == min(part.seconds for part in crossover.split(costs, number, hidden=True))
    (shown,) = crossover.curve_points(costs, (tokens,), hidden=False)
    assert shown.partial_s == crossover.split(costs, tokens, hidden=False)[0].seconds > point.partial_s
    heat = crossover.heat_map(costs, tokens)
    assert heat.blocks == (1, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert crossover.heat_map(made_up(block=24), 1).blocks == (1, 8, 16, 24, 32, 64, 128, 256, 512, 1024)
    assert heat.tokens == (64, 128, 256, 512, 700, *(2**k for k in range(10, 19)))  # fourteen rows
    assert crossover.heat_map(made_up(longest=999), 64).tokens == (64, 128, 256, 512)
    for number, row in zip(heat.tokens, heat.ratios, strict=True):
        assert row == pytest.approx([costs.recompute_seconds(number) / swapped(number, size) for size in heat.blocks])
    for limit in (0.01, 0.05, swapped(tokens, 7), 0.4):
        size = crossover.crossover_block(costs, tokens, limit)
        decided = swapped(tokens, tokens) <= limit < swapped(tokens, 1)
        assert swapped(tokens, size) <= limit < swapped(tokens, size - 1) if size else not decided


@pytest.mark.every_case
@pytest.mark.parametrize("prefix", [0, 32])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("tokens", "square"), [(200, 0.0), (200, 3e-8), (208, 0.0), (208, 3e-8)])
def test_both_orders_by_trying_all(prefix: int, hidden: bool, tokens: int, square: float) -> None:
    """The first y tokens computed, and the rest copied from behind them; or the rest first, and y with attention to it."""

    def again(number: int) -> float:
        return 1e-4 * (number > 0) + 8e-6 * number + square * number**2

    def ways(number: int, before: int) -> tuple[float, float]:
        blocks = math.ceil((before + number) / 16) - before // 16 if number else 0
        return (0.0 if hidden else blocks * (60e-6 + 480 / 4e7)), blocks * (180e-6 + 480 / 2e7)

    best: dict[str, float] = {}
    for y in (*range(0, tokens, 16), tokens):
        after = max(again(tokens) - again(tokens - y), again(y))
        for order, took, copied in (
            ("recompute the first", again(y), ways(tokens - y, prefix + y)),
            ("swap the first", after, ways(tokens - y, prefix)),
        ):
            best[order] = min(best.get(order, math.inf), copied[0] + max(took, copied[1]))
    parts = crossover.split(made_up(prefix=prefix, recompute=again), tokens, hidden=hidden)
    assert {part.order: part.seconds for part in parts} == pytest.approx(best)
    assert parts[0].seconds <= parts[1].seconds
    for part in parts:
        y, first = part.recomputed, part.order == "recompute the first"
        assert (part.out_s, part.in_s) == pytest.approx(ways(tokens - y, prefix + y if first else prefix))
    windowed = made_up(prefix=prefix, recompute=again, window=64)
    mixed = made_up(prefix=prefix, recompute=again)
    mixed.swap = replace(mixed.swap, stages=(*mixed.swap.stages, *windowed.swap.stages))
    for costs in (windowed, mixed):  # of all stages, or of one
        assert [part.order for part in crossover.split(costs, tokens, hidden=hidden)] == ["recompute the first"]


# What if


@pytest.mark.every_case
@pytest.mark.parametrize("copies", [{}, {"pinned": False}, {"coalesced": True}, {"host_link": 9e9, "gpus_per_link": 2}])
def test_variants_are_deployments_of_their_own(copies: dict[str, Any]) -> None:
    """Each changed option, given from the start, costs as much; the recomputation is the baseline's."""
    deployed = {"tp": 2, "shared_prefix": 100, "context": 100}
    costs, tokens = of("llama-3.1-8b", "a100-sxm-80gb", deployed=deployed, **copies), 1500
    recompute = costs.recompute_seconds(tokens)
    pinned, coalesced = copies.get("pinned", True), copies.get("coalesced", False)
    rows = crossover.swap_variants(costs, tokens, recompute, pinned=pinned, host_link=copies.get("host_link"))
    assert rows[0].variant == "baseline"
    changed: dict[str, dict[str, Any]] = {
        "baseline": {},
        "pageable" if pinned else "pinned": {"pinned": not pinned},
        "block by block" if coalesced else "coalesced": {"coalesced": not coalesced},
        "blocks of 256": {"block_size": 256},
    }
    assert set(changed) | {"a KV head per query head"} <= {row.variant for row in rows}
    for row in rows:
        if row.variant in changed:
            other = of("llama-3.1-8b", "a100-sxm-80gb", deployed=deployed, **{**copies, **changed[row.variant]})
            assert (row.bytes, row.swap_s) == pytest.approx((other.device_bytes(tokens), sum(other.swap_seconds(tokens))))
            assert row.break_even_link == exact_link(other.swap, recompute, tokens, 100)
        assert row.cheaper == ("swap" if row.swap_s <= recompute else "recompute")
    swap = costs.swap
    assert (
        crossover.swap_variants(costs, tokens, float(swap.both(tokens, 100)), pinned=pinned, host_link=None)[0].cheaper
        == "swap"
    )


@pytest.mark.every_case
@pytest.mark.parametrize("share", [1, 2])
def test_products_in_several_formats(share: int) -> None:
    """The mean peak is that with which parameters and efficiency give the recomputation's time: 2 N_p N = P eta T."""
    for model, hardware, deployed in (("deepseek-v3", "h200-sxm", {"tp": 8}), ("gpt-oss-20b", "h100-sxm", {"pp": 2})):
        request = of(model, hardware, deployed=deployed).request
        terms = asymptote(request, 2.0, 1000, share)
        assert terms.peak * terms.efficiency * 2.0 == pytest.approx(2 * terms.parameters * 1000)
        assert terms.kv_bytes == share * max(stage.kv_bytes_per_token for stage in request.memory.stages)
        assert terms.link == pytest.approx(terms.kv_bytes * terms.peak * terms.efficiency / terms.parameters)
        assert asymptote(request, 1.0, 1000).efficiency == pytest.approx(2 * terms.efficiency)
    assert replace(terms, kv_bytes=0.0).link is None
