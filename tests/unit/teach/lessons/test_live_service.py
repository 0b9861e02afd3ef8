"""What lessons 7, 8 and 10 let readers move, against what the toolkit answers by other ways."""

from __future__ import annotations

import pytest

import roofline
from roofline.serving.preemption.copies import load_typical
from roofline.serving.queueing.closed_loop import ClosedLoop
from roofline.teach.lessons.live import play
from roofline.teach.lessons.live.run import (
    CALL,
    LINK,
    cost_per_million,
    evaluate,
    needed_link,
    recompute_seconds,
    rounds,
    service,
    slots,
    swap_seconds,
    swap_traffic,
)

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"


def run(**values):
    keys = ("batch", "context", "input_len", "block", "link_gbs", "efficiency", "output_len", "price", "tp", "kv", "attention")
    return evaluate({"model": LLAMA, "hardware": A100, **play.first_values(keys, {"efficiency": True, **values})})


def test_call_and_link_are_the_typical_ones():
    typical = load_typical()[0]
    assert typical.pinned.call.value == CALL
    assert pytest.approx(typical.pinned.link.value * 32e9) == LINK * 1e9


@pytest.mark.parametrize("tokens", [100, 2048, 8192])
@pytest.mark.parametrize(("block", "asked"), [("16", {}), ("64", {"block_size": 64}), ("0", {"coalesced": True})])
def test_an_eviction_costs_what_preempt_says(tokens, block, asked):
    one, answer = run(block=block), roofline.preempt(LLAMA, A100, tokens=tokens, **asked).comparison
    assert recompute_seconds(one, tokens) == pytest.approx(answer.recompute.seconds)
    if block != "0":
        assert (swap_traffic(one, tokens).bytes, swap_traffic(one, tokens).calls) == (answer.swap.bytes, answer.swap.calls)
        assert swap_seconds(one, tokens) == pytest.approx(answer.swap.seconds)
        assert needed_link(one, tokens) == (None if answer.break_even_link is None else pytest.approx(answer.break_even_link))
    else:  # here no block is padded
        assert swap_seconds(one, tokens) == pytest.approx(answer.swap.seconds, rel=0.2 if tokens % 16 else 1e-9)


def test_two_evicted_sequences_move_twice_as_much():
    one, two = swap_traffic(run(batch=1), 1000), swap_traffic(run(batch=2), 1000)
    assert (two.bytes, two.calls) == (2 * one.bytes, 2 * one.calls)
    assert one.calls == 63 * 32 * 2  # 1,000 tokens are 63 blocks of 16
    assert swap_traffic(run(batch=1, attention="mla"), 1000).calls == 63 * 32


@pytest.mark.parametrize("clients", [1, 8, 32, 128])
@pytest.mark.parametrize("output_len", [32, 256, 1024])
def test_a_closed_loop_is_that_of_the_toolkit(clients, output_len):
    """Nine contexts there, the middle one here."""
    expected = float(ClosedLoop.of(LLAMA, A100).tpot(clients, 1024, output_len)["estimate"])
    found = service(run(batch=clients, input_len=1024, output_len=output_len), clients)
    assert found.tpot == pytest.approx(expected, rel=0.02)
    assert found.requests * (found.ttft + (output_len - 1) * found.tpot) == pytest.approx(clients)  # Little's law


def test_cost_and_seats_by_hand():
    found = run(batch=32, input_len=1024, output_len=256, price=3.6, tp="2")
    assert cost_per_million(found) == pytest.approx(2 * 3.6 / 3600 * 1e6 / service(found, 32).tokens)
    # 0.9 of 80 GiB less 16.06 GB of weights, over 1,280 tokens of 128 KiB, and what activations take
    assert slots(run(input_len=1024, output_len=256)) == pytest.approx((0.9 * 80 * 2**30 - 16.06e9) / (1280 * 2**17), rel=0.02)


@pytest.mark.parametrize("efficiency", [False, True])
@pytest.mark.parametrize(
    ("batch", "drafted", "draft"), [(1, 4, "llama-3.2-1b"), (64, 1, "llama-3.2-1b"), (256, 6, ""), (8, 0, "")]
)
def test_a_round_is_that_of_the_toolkit(batch, drafted, draft, efficiency):
    here = run(batch=batch, drafted=drafted, draft=draft, acceptance=0.8, context=1000, tp="2", efficiency=efficiency)
    method = {"speculative_model": draft} if draft else {"speculative_method": "ngram"}
    expected = roofline.analyze(
        LLAMA, A100, batch=batch, context=1000, tp=2, phase="decode", num_speculative_tokens=drafted, acceptance=0.8,
        ignore_capacity=True, **method,
    ).speculative  # fmt: skip
    basis = "estimate" if efficiency else "bound"
    made = rounds(here, batch)
    for name, value in {
        "drafting": made.drafting,
        "verifying": made.verifying,
        "round": made.seconds,
        "tpot": made.tpot,
    }.items():
        assert value == pytest.approx(getattr(getattr(expected, name), basis))
    assert made.tokens == pytest.approx(sum(0.8**power for power in range(drafted + 1)))
    assert made.speed_up == pytest.approx(getattr(expected.plain, basis) / getattr(expected.tpot, basis))


def test_what_is_cached_of_a_prompt_is_not_computed():
    """The last token of a prompt always is."""
    expected = roofline.analyze(LLAMA, A100, input_len=2048, cached_prefix=1024, phase="prefill").prefill
    assert run(input_len=2048, cached_prefix=1024).result.prefill.cost == expected.cost
    assert run(input_len=2048, cached_prefix=5000).result.prefill.new_tokens == 1
