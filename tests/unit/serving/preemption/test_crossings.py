"""Break-even links, crossover lengths and blocks, splits: each is where the times themselves say that it is."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.predict.request import prepare
from roofline.serving.preemption import crossover
from roofline.serving.preemption.costs import Preemption
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


def test_a_split_into_two_steps() -> None:
    """Of 20 tokens in steps of 10 the first half is recomputed while the second is copied: 1 s both, not 2 s of either."""
    part = best_split("recompute the first", 20, 10, lambda y: y / 10, lambda y: 0.0, lambda y: (20 - y) / 10)
    assert (part.recomputed, part.seconds) == (10, 1.0)


def test_a_block_that_takes_just_as_long() -> None:
    """The largest block is as fast as recomputing, and no smaller one is."""
    assert _smallest_block(lambda block: 7.0 if block == 64 else 8.0, 7.0, 64) == 64
