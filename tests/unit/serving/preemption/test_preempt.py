"""The result of `roofline.preempt`: what is compared, beside a batch and alone, and up to which lengths."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.predict.allocation import Kind
from roofline.predict.analyze import estimate_basis
from roofline.predict.request import prepare
from roofline.serving.preemption import crossover
from roofline.serving.preemption.copies import Copies, Curve, SwapCurves
from roofline.serving.preemption.costs import BlockGroup, Preemption, SequenceCache, Swap
from roofline.serving.preemption.preempt import (
    Comparison,
    DeviceTimeLost,
    HostMemory,
    Preempted,
    _steps,
    _stolen,
    _swapped,
)
from roofline.serving.preemption.recompute import Recompute
from roofline.specs.workload import Segment

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
    assert (result.cheaper, result.crossover_tokens) == (comparison.cheaper, comparison.crossover_tokens)
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


# By hand


@pytest.mark.every_case
@pytest.mark.parametrize("coalesced", [False, True])
def test_copies_of_the_fullest_device(coalesced: bool) -> None:
    """A stage of 3 layers and one of 2; 100 tokens after 24 lie in 7 blocks of 16: 160 bytes each in two copies.

    42 calls at 2 us out and 6 in, 3,360 bytes at 30 and 15 MB/s; 20 MB/s out and in from end to end; two devices per link.
    """
    curves, fast, slow = (
        SwapCurves(Curve(out, rate), Curve(back, rate / 2))
        for out, back, rate in ((2e-6, 6e-6, 3e7), (1e-6, 3e-6, 3.6e7), (4e-6, 9e-6, 2e7))
    )
    stages = tuple(SequenceCache((BlockGroup(Kind(16, 1.0), layers, 160.0, 2),)) for layers in (2, 3))
    swap = Swap(stages, Copies(curves, fast, slow, 4e7, "estimate"), coalesced, 1e9, 2)
    costs: Any = SimpleNamespace(swap=swap, prefix=24, swap_seconds=lambda tokens: tuple(map(float, swap.seconds(tokens, 24))))
    found, size, calls, passes = _swapped(costs, 100), 3360.0, 1 if coalesced else 42, 4 * 3360 / 1e9 if coalesced else 0.0
    assert found.out_s == pytest.approx(calls * 2e-6 + size / 3e7 + passes / 2)
    assert found.in_s == pytest.approx(calls * 6e-6 + size / 1.5e7 + passes / 2)
    assert found.seconds == found.time_s == found.out_s + found.in_s
    assert found.low_s == pytest.approx(calls * 4e-6 + size / 3.6e7 + size / 1.8e7 + passes)
    assert found.high_s == pytest.approx(calls * 13e-6 + size / 2e7 + size / 1e7 + passes)
    assert found.bound_s == pytest.approx(2 * size / 4e7)
    assert (found.bytes, found.calls, found.chunk_bytes) == (size, calls, size if coalesced else 80.0)
    assert (found.link, found.curve) == (pytest.approx(4e7), pytest.approx((4e-6, 2e7)))
    assert found.attained == pytest.approx(2 * size / found.seconds)
    assert found.basis == "estimate"
    states: Any = SimpleNamespace(**{**vars(costs), "swap": replace(swap, stages=(SequenceCache((), 600.0, 4),))})
    assert _swapped(states, 100).chunk_bytes == (600.0 if coalesced else 150.0)


def test_what_others_lose() -> None:
    """The device's time; of 8 sequences that wait 8 tokens per step of 20 ms. Overlapped copies take that of their bytes."""
    costs: Any = SimpleNamespace(
        swap=SimpleNamespace(overlapped_cost=lambda tokens, prefix: (tokens + prefix) / 1000),
        recompute=SimpleNamespace(alone={"estimate": 0.02, "bound": 1.0}, basis="estimate", budget=64),
    )
    recompute, swap = (SimpleNamespace(seconds=seconds) for seconds in (0.5, 0.4))
    for batch, overlapped in ((0, False), (0, True), (8, False), (8, True)):
        query: Any = SimpleNamespace(tokens=30, prefix=20, batch=batch, overlapped=overlapped)
        lost = 0.05 if overlapped else 0.4
        tokens = (8 * 0.5 / 0.02, pytest.approx(8 * lost / 0.02)) if batch else (None, None)
        assert _stolen(costs, query, recompute, swap) == DeviceTimeLost(0.5, lost, *tokens)
    for tokens, chunks in ((1, [1]), (64, [64]), (65, [1, 64]), (128, [64, 64]), (200, [8, 64])):
        query = SimpleNamespace(tokens=tokens, prefix=20)
        assert _steps(costs, query) == [(Segment(1, new, 20),) for new in chunks]


def test_when_it_is_certain() -> None:
    """One interval ends before the other begins; without an estimate the bound is the low end, and there is no high one."""
    comparison = _comparison()
    for low, high, bound, swap, certain in (
        (2.0, 3.0, 1.0, (0.5, 1.9), True), (2.0, 3.0, 1.0, (0.5, 2.0), False), (2.0, 3.0, 1.0, (3.0, 4.0), False),
        (2.0, 3.0, 1.0, (3.1, 4.0), True), (None, None, 1.0, (0.5, 0.9), True), (None, None, 1.0, (0.5, 1.0), False),
        (None, None, 1.0, (8.0, 9.0), False),
    ):  # fmt: skip
        recompute = replace(comparison.recompute, low=low, high=high, bound=bound)
        swapped = replace(comparison.swap, low_s=swap[0], high_s=swap[1])
        assert replace(comparison, recompute=recompute, swap=swapped).certain == certain


def test_sequences_on_the_host() -> None:
    """Whole ones; without memory for one a swap that would be cheaper is none."""
    quick = {"coalesced": True, "host_link": "25 GB/s"}
    assert [_result(**quick, host_memory=memory).cheaper for memory in ("1 GB", "1 MB")] == ["swap", "recompute"]
    for size, memory, number in ((4.0, 12.0, 3), (4.0, 11.9, 2), (4.0, 4.0, 1), (4.0, 3.9, 0), (4.0, None, None)):
        host = HostMemory(size, memory)
        assert (host.fits, host.sequences) == (number != 0, number)


# The whole result


@pytest.mark.every_case
@pytest.mark.parametrize(
    "options",
    [{}, {"batch": 4, "context": 3000, "shared_prefix": 1000}, {"overlapped": True, "coalesced": True, "host_link": "9 GB/s"},
     {"pinned": False, "tp": 2, "gpus_per_link": 2, "host_memory": "1 GB", "block_size": 32}],
)  # fmt: skip
def test_every_figure_is_that_of_its_own_function(options: dict[str, Any]) -> None:
    """Asked of the deployment's costs; the plain data has the same figures, and the query."""
    result, comparison = _result(**options), _comparison(**options)
    query, document = result.query, result.to_dict()
    batch, prefix = options.get("batch", 0), options.get("shared_prefix", 0)
    names = ("shared_prefix", "tp", "block_size")
    deployed = {name: options[name] for name in names if name in options}
    costs = Preemption.of(
        prepare(LLAMA, A100, **{"context": prefix + TOKENS - 1, "batch": 1, "phase": "decode", **deployed}),
        host_link=9e9 if "host_link" in options else None,
        host_memory=1e9 if "host_memory" in options else None,
        batch=batch,
        context=options.get("context", 0),
        **{name: options[name] for name in ("pinned", "coalesced", "gpus_per_link") if name in options},
    )
    recompute, swap, hidden = costs.recompute.estimate(TOKENS), _swapped(costs, TOKENS), query.overlapped
    assert (query.tokens, query.prefix, query.batch, query.context) == (TOKENS, prefix, batch, options.get("context", TOKENS))
    assert (query.block_size, query.gpus_per_link) == (options.get("block_size", 16), options.get("gpus_per_link", 1))
    assert (query.pinned, query.coalesced, query.overlapped) == (
        options.get("pinned", True), options.get("coalesced", False), options.get("overlapped", False),
    )  # fmt: skip
    assert (comparison.recompute, comparison.swap) == (recompute, swap)
    assert comparison.alone == Recompute(costs.request, prefix=prefix).estimate(TOKENS)
    host = comparison.host
    assert (host.bytes, host.memory) == (costs.host_bytes(TOKENS), costs.host_memory)
    assert comparison.cheaper == ("swap" if host.fits and swap.seconds <= recompute.seconds else "recompute")
    assert comparison.break_even_link == crossover.exact_link(costs.swap, recompute.seconds, TOKENS, prefix)
    assert comparison.asymptote == crossover.asymptote(costs.request, recompute.seconds, TOKENS, costs.swap.share)
    assert result.crossover_tokens == comparison.crossover_tokens == tuple(crossover.crossover_tokens(costs, TOKENS))
    assert comparison.crossover_block_size == crossover.crossover_block(costs, TOKENS, recompute.seconds)
    assert comparison.partial == crossover.split(costs, TOKENS, hidden=hidden)
    lost = float(costs.swap.overlapped_cost(TOKENS, prefix)) if hidden else swap.seconds
    assert (comparison.stolen.recompute_s, comparison.stolen.swap_s) == (recompute.seconds, lost)
    assert list(comparison.curves) == crossover.curve_points(costs, crossover.curve_lengths(costs, TOKENS), hidden=hidden)
    assert comparison.heat == crossover.heat_map(costs, TOKENS)
    assert list(comparison.variants) == crossover.swap_variants(
        costs, TOKENS, recompute.seconds, pinned=query.pinned, host_link=9e9 if "host_link" in options else None
    )
    assert document["recompute"]["context"] == (query.context if batch else None)
    assert (document["recompute"]["time_s"], document["recompute"]["steps"]) == (recompute.seconds, recompute.steps)
    assert "curve" not in document["swap"]
    assert json.loads(result.to_json())["swap"] == document["swap"]
    assert [row["time_s"] for row in document["partial"]] == [part.seconds for part in comparison.partial]
    assert [row["swap_coalesced_s"] for row in result.flat()] == [point.coalesced_s for point in comparison.curves]
    assert (
        result.estimate_basis == document["estimate_basis"] == estimate_basis(costs.request, _steps(costs, query)) == "measured"
    )
    assert {"model", "hardware", "host copies"} <= set(result.inputs)
    assert (document["basis"], document["model"], document["assumptions"][0]["name"]) == (
        costs.recompute.basis, result.model, result.assumptions[0].name,
    )  # fmt: skip
    assert (document["fits"], result.fits, result.unfit, result.tokens) == (True, True, None, TOKENS)


def test_assumptions_say_what_was_asked() -> None:
    """Only what applies is named, with its value and where it is from."""

    def named(**options: Any) -> dict[str, tuple[Any, str]]:
        return {note.name: (note.value, note.origin) for note in _result(**options).assumptions}

    plain = named()
    assert plain["tokens"] == (TOKENS, "given")
    assert plain["recompute"] == ("alone", "default")
    assert plain["host_memory"] == (None, "assumed")
    assert not {"batch", "input_len", "context", "kept_tokens", "gpus_per_link", "basis"} & set(plain)
    other = named(batch=2, shared_prefix=64, tp=2, gpus_per_link=2, host_memory="1 GB")
    assert (other["recompute"], other["kept_tokens"]) == (("with a batch", "given"), (64, "given"))
    assert (other["gpus_per_link"], other["host_memory"]) == ((2, "given"), (1e9, "given"))
    why = next(note.why for note in _result(batch=2).assumptions if note.name == "recompute")
    assert "with 2 running sequences of 4,096 cached tokens" in why
    node = roofline.preempt(LLAMA, "polaris", tokens=TOKENS)
    assert [(note.value, note.origin) for note in node.assumptions if note.name == "host_memory"] == [(128e9, "default")]


def test_a_cached_prefix_is_part_of_the_tokens() -> None:
    """A quarter of 4096 tokens that others hold too: 3072 are evicted after 1024, as with a shared prefix besides them."""
    shared = roofline.preempt(LLAMA, A100, tokens=3072, shared_prefix=1024)
    for options in ({"prefix_hit": 0.25}, {"cached_prefix": 1024}):
        result = _result(**options, batch=1)
        assert (result.query.tokens, result.query.prefix, result.query.context) == (3072, 1024, 4096)
        assert result.swap == shared.swap
        with pytest.raises(InputError, match="--shared-prefix stays besides --tokens"):
            _result(**options, shared_prefix=16)
    with pytest.raises(InputError, match="--context is of the sequences that run meanwhile"):
        _result(context=100)
    with pytest.raises(InputError, match="context"):
        _result(context=99, batch=1, shared_prefix=100)
    assert _result(context=100, batch=1, shared_prefix=100).query.context == 100


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_len": 5}, "--tokens says"),
        ({"phase": "decode"}, "--tokens says"),
        ({"speculative_draft": "x"}, "drafts are not"),
    ],
)
def test_options_that_it_has_not(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _result(**options)
    assert roofline.preempt(LLAMA, A100, tokens=1).tokens == 1
    with pytest.raises(InputError, match="tokens"):
        roofline.preempt(LLAMA, A100, tokens=0)


def test_a_device_that_cannot_hold_it() -> None:
    """No costs, unless asked for all the same; the plain data has the same names either way."""
    nothing, forced = (
        roofline.preempt("llama-3.1-70b", A100, tokens=TOKENS, ignore_capacity=ignore) for ignore in (False, True)
    )
    assert (nothing.fits, nothing.comparison, nothing.flat(), nothing.crossover_tokens) == (False, None, [], ())
    assert (nothing.recompute, nothing.swap, nothing.cheaper) == (None, None, None)
    assert nothing.unfit is not None
    assert forced.comparison is not None
    assert set(nothing.to_dict()) == set(forced.to_dict())


def test_limits_of_the_last_decode_step() -> None:
    """The sequence goes on with its last token: 4096 tokens are as long as the engine allows, one more is too long."""
    limits = {"max_model_len": TOKENS, "max_num_seqs": 1}
    assert _result(**limits).fits
    assert _result(**limits, cached_prefix=100).fits
    for options in ({}, {"shared_prefix": 100}):
        with pytest.raises(InputError):
            roofline.preempt(LLAMA, A100, tokens=TOKENS + 1 - options.get("shared_prefix", 0), **limits, **options)
