"""The result of `roofline.preempt`: what is compared, beside a batch and alone, and up to which lengths."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import roofline
from roofline.predict.request import prepare
from roofline.serving.preemption.preempt import Comparison, Preempted
from roofline.serving.preemption.recompute import Recompute

LLAMA, A100, TOKENS = "llama-3.1-8b", "a100-sxm-80gb", 4096


@cache
def _result(**options: Any) -> Preempted:
    return roofline.preempt(options.pop("model", LLAMA), A100, tokens=TOKENS, **options)


def _comparison(**options: Any) -> Comparison:
    comparison = _result(**options).comparison
    assert comparison is not None
    return comparison


def test_short_ways_to_the_costs() -> None:
    """The result gives what its comparison has; the ratio is above 1 where swapping is faster."""
    result, comparison = _result(), _comparison()
    assert (result.recompute, result.swap) == (comparison.recompute, comparison.swap)
    assert result.break_even_link == comparison.break_even_link is not None
    assert result.crossover_block_size == comparison.crossover_block_size
    assert comparison.ratio == comparison.recompute.seconds / comparison.swap.seconds
    assert (comparison.ratio > 1) == (comparison.cheaper == "swap")
    nothing = roofline.preempt("llama-3.1-70b", A100, tokens=TOKENS)
    assert (nothing.comparison, nothing.break_even_link, nothing.crossover_block_size) == (None, None, None)


def test_intervals_that_touch_leave_it_open() -> None:
    """It is certain only where one interval ends before the other begins."""
    comparison = _comparison()
    low = comparison.recompute.low
    assert low is not None
    touching = replace(comparison, swap=replace(comparison.swap, high_s=low, low_s=low / 2))
    apart = replace(comparison, swap=replace(comparison.swap, high_s=low * 0.99, low_s=low / 2))
    assert (touching.certain, apart.certain) == (False, True)


def test_beside_a_batch() -> None:
    """Recomputing adds to the steps of 32 sequences; each of them waits as long, in steps of its own that are lost."""
    comparison = _comparison(batch=32, context=2048)
    running = Recompute(prepare(LLAMA, A100, context=2048, phase="decode"), 32, 2048)
    assert comparison.recompute.seconds == pytest.approx(running.estimate(TOKENS).seconds)
    assert comparison.alone.seconds == pytest.approx(_comparison().recompute.seconds)
    step = running.alone["estimate"]
    lost = comparison.stolen
    assert (lost.recompute_tokens, lost.swap_tokens) == pytest.approx(
        (32 * comparison.recompute.seconds / step, 32 * lost.swap_s / step)
    )


def test_a_call_per_block_or_one_each_way() -> None:
    """The assumption says how the copies are made, and why it costs what it does."""
    notes = {
        coalesced: next(note for note in _result(coalesced=coalesced).assumptions if note.name == "copies")
        for coalesced in (False, True)
    }
    assert (notes[False].value, notes[True].value) == ("block by block", "coalesced")
    assert notes[False] in _result().assumptions
    assert notes[False].why.startswith("a call per block")
    assert notes[True].why.startswith("one call each way")


def test_a_head_of_keys_per_head_of_queries() -> None:
    """Llama-3.1-8B with 32 instead of 8 KV heads copies four times as much; Llama-2-7B has as many as query heads."""
    rows = {row.variant: row for row in _comparison().variants}
    assert rows["a KV head per query head"].bytes == 4 * rows["baseline"].bytes
    assert "a KV head per query head" not in [row.variant for row in _comparison(model="llama-2-7b").variants]


@pytest.mark.every_case
@pytest.mark.parametrize(("limit", "longest"), [(8192, 8192), (200_000, 131_072)])
def test_curves_end_with_the_longest_sequence(limit: int, longest: int) -> None:
    """That is the shorter of what the engine and what the model allows: Llama-3.1 has 131,072 positions."""
    assert max(point.tokens for point in _comparison(max_model_len=limit).curves) == longest


def test_a_prefix_that_stays_is_no_variant() -> None:
    """Without it the prefix would be evicted too, which is another question; the other variants are there."""
    names = [row.variant for row in _comparison(shared_prefix=1024).variants]
    assert "no shared prefix" not in names
    assert set(names) == {row.variant for row in _comparison().variants}


def test_a_given_link_limits_pageable_copies_too() -> None:
    """Over 5 GB/s pageable memory reaches no more, out and back, in one call each way; and nothing beats the link."""
    comparison = _comparison(host_link="5 GB/s", coalesced=True)
    pageable = next(row for row in comparison.variants if row.variant == "pageable")
    assert pageable.swap_s > 2 * pageable.bytes / 5e9
    assert comparison.swap.low_s >= comparison.swap.bound_s


def test_no_more_devices_share_a_link_than_there_are() -> None:
    """Four per link of a replica of one device are one."""
    assert _result(gpus_per_link=4).query.gpus_per_link == 1
