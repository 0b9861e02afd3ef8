"""Recompute against swap: a published break-even table, and what a poster reports of vLLM on Polaris.

The table counts the FLOP of a prompt of 2048 tokens at a share of 0.55 of the peak, and the bytes of its cache out and in over
a link of 25 GB/s (A100) or 50 GB/s (H100); the times are its own, rounded. The poster's rows (F28 to F32, F37) are statements
of direction: Yarn-Llama-2-7B-64k, a node with four A100 of 40 GB.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.predict.request import prepare
from roofline.serving.preemption import crossover
from roofline.serving.preemption.costs import Preemption
from roofline.serving.preemption.crossover import needed_rate

TABLE = [
    # model, hardware, link GB/s, parameters of the layers, then recompute ms, swap ms, ratio, break-even GB/s
    ("llama-3.1-8b", "a100-sxm-80gb", 25, 6.98e9, 173, 21, 8.1, 3.1),
    ("llama-3.1-8b", "h100-sxm", 50, 6.98e9, 55, 11, 5.1, 9.8),
    ("llama-3.1-70b", "h100-sxm", 50, 68.5e9, 526, 27, 19.6, 2.6),
    ("qwen3-32b", "h100-sxm", 50, 31.2e9, 243, 21, 11.3, 4.4),
    ("llama-2-7b", "h100-sxm", 50, 6.48e9, 51, 43, 1.2, 42),
]
ETA, TOKENS = 0.55, 2048


@pytest.mark.parametrize(("model", "hardware", "link", "parameters", "recompute", "swap", "ratio", "even"), TABLE)
def test_break_even_table(
    model: str, hardware: str, link: float, parameters: float, recompute: float, swap: float, ratio: float, even: float
) -> None:
    """FLOP, bytes and parameters are ours; the share of the peak, and the link, are the table's."""
    found = roofline.analyze(model, hardware, input_len=TOKENS, phase="prefill", ignore_capacity=True)
    assert found.prefill is not None
    peak = found.hardware["peak_flops"]["bf16"]
    took = found.prefill.cost.matrix_flops / (ETA * peak)
    costs = Preemption.of(
        prepare(model, hardware, context=0, phase="decode"), host_link=link * 1e9, coalesced=True, block_size=TOKENS
    )
    size = costs.device_bytes(TOKENS)
    assert took == pytest.approx(recompute / 1e3, rel=0.02)
    assert 2 * size / (link * 1e9) == pytest.approx(swap / 1e3, rel=0.03)  # rounded to a millisecond
    assert took / (2 * size / (link * 1e9)) == pytest.approx(ratio, rel=0.03)
    assert needed_rate(2 * size, took, 0.0) == pytest.approx(even * 1e9, rel=0.02)
    # what the program answers, with its own estimate of the recomputation in the place of the share
    options = {"host_link": link * 1e9, "coalesced": True, "ignore_capacity": True}
    answer = roofline.preempt(model, hardware, tokens=TOKENS, **options).comparison  # type: ignore[arg-type]
    assert answer is not None
    assert answer.asymptote.parameters == pytest.approx(parameters, rel=0.003)
    attention = took * ETA * peak / (2 * answer.asymptote.parameters * TOKENS)  # its FLOP come on top of the parameters'
    assert answer.asymptote.link == pytest.approx(even * 1e9 * answer.asymptote.efficiency / ETA * attention, rel=0.02)
    gathered = 4 * size / found.hardware["bandwidth"]  # blocks are read and written once a way, which the table leaves out
    assert answer.swap.seconds == pytest.approx(2 * (size / (link * 1e9) + 5e-6) + gathered)


# The poster


def on_polaris(**options: Any) -> Preemption:
    return Preemption.of(prepare("yarn-llama-2-7b-64k", "polaris", context=0, phase="decode"), **options)


LENGTHS = [256 * 2**power for power in range(9)]


def test_F28_both_cost_more_with_more_tokens() -> None:
    costs = on_polaris()
    for seconds in (costs.recompute_seconds, lambda tokens: sum(costs.swap_seconds(tokens))):
        took = [seconds(tokens) for tokens in LENGTHS]
        assert took == sorted(took)


def test_F29_swap_is_cheaper_when_more_tokens_are_evicted() -> None:
    """Beyond some thousands attention makes each token dearer to compute, and none to copy."""
    costs = on_polaris()
    ratios = [costs.choice(tokens).recompute_s / costs.choice(tokens).swap_s for tokens in LENGTHS if tokens >= 2048]
    assert ratios == sorted(ratios)
    assert [costs.choice(tokens).cheaper for tokens in (4096, 65536)] == ["recompute", "swap"]


def test_F30_blocks_are_nothing_to_recomputing() -> None:
    """Minimal in the poster; here none, as kernels of paged attention are taken to be as quick with any block."""
    assert len({on_polaris(block_size=block).recompute_seconds(4096) for block in (8, 16, 32, 64, 128)}) == 1


def test_F31_swap_gets_cheaper_with_larger_blocks_and_pinned_memory_helps_those_more() -> None:
    blocks = (8, 16, 32, 64, 128)
    pinned = [sum(on_polaris(block_size=block).swap_seconds(4096)) for block in blocks]
    pageable = [sum(on_polaris(block_size=block, pinned=False).swap_seconds(4096)) for block in blocks]
    assert pinned == sorted(pinned, reverse=True)
    assert pageable == sorted(pageable, reverse=True)
    gains = [slow / quick for slow, quick in zip(pageable, pinned, strict=True)]
    assert gains == sorted(gains)
    assert gains[-1] > 1.5 * gains[0]


def test_F32_at_batch_16_swap_wins_for_long_sequences() -> None:
    """Beside the other fifteen a short sequence is nearly free to compute, so that there is one crossing."""
    costs = on_polaris(batch=15, context=8192)
    (crossing,) = crossover.crossover_tokens(costs, 2048)
    assert costs.choice(crossing // 2).cheaper == "recompute"
    assert costs.choice(2 * crossing).cheaper == "swap"


def test_F37_low_bandwidth_is_when_recomputing_is_right() -> None:
    """A lecture: evicted caches are often recomputed for the low bandwidth of PCIe.

    That holds below the break-even link: with full heads on an H100 for PCIe 4.0 and 5.0, with grouped ones for neither.
    """
    for model, generations in (("llama-2-7b", {"recompute"}), ("llama-3.1-8b", {"swap"})):
        cheaper = set()
        for link in (25e9, 50e9):
            answer = roofline.preempt(model, "h100-sxm", tokens=TOKENS, host_link=link, coalesced=True).comparison
            assert answer is not None
            cheaper.add(answer.cheaper)
            assert (answer.cheaper == "swap") == (link > (answer.break_even_link or 0))
        assert cheaper == generations
