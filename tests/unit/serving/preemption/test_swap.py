"""Copies: what a device holds in blocks, calls and bytes by hand, the curves of pinned, pageable, given and fitted links."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hybrids import hybrid

import roofline
from roofline.errors import InputError, SpecError
from roofline.predict.allocation import Kind
from roofline.predict.request import ResolvedRequest, prepare
from roofline.serving.preemption import costs as costs_module
from roofline.serving.preemption.copies import (
    Copies,
    Curve,
    Figure,
    HostCopyOptions,
    SwapCurves,
    copies,
    load_typical,
    parse_host_copy,
)
from roofline.serving.preemption.costs import BlockGroup, Choice, Preemption, SequenceCache, Swap, replica_bytes, sequence_cache
from roofline.serving.preemption.crossover import exact_link, needed_rate
from roofline.specs.library import load_hardware, shipped

A100 = "a100-sxm-80gb"
US = 1e-6


def ask(model: Any, hardware: Any = A100, **options: Any) -> ResolvedRequest:
    return prepare(model, hardware, **{"context": options.get("shared_prefix", 0), "phase": "decode", **options})


def held(model: Any, **options: Any) -> SequenceCache:
    return sequence_cache(ask(model, **options).memory.fullest_stage)


# What a device holds


def test_whole_blocks() -> None:
    """Llama-3.1-8B: 8 heads x 128 x 2 bytes = 2048 bytes of keys a token and layer, as many of values."""
    found = held("llama-3.1-8b")
    assert found.chunk == 16 * 2048
    for tokens, blocks in ((1, 1), (16, 1), (17, 2), (2048, 128)):
        assert found.calls(tokens) == blocks * 32 * 2
        assert found.bytes(tokens) == blocks * 16 * 2048 * 2 * 32
    assert held("llama-3.1-8b", block_size=64).calls(2048) == 32 * 32 * 2


def test_fp8_halves_the_bytes_and_not_the_calls() -> None:
    whole, half = held("llama-3.1-8b"), held("llama-3.1-8b", kv_cache_dtype="fp8")
    assert half.bytes(2048) == whole.bytes(2048) / 2
    assert half.calls(2048) == whole.calls(2048)


def test_tensor_parallel_devices_divide_heads() -> None:
    """Two of eight heads on each of four devices; from eight devices on each has one, and sixteen hold each twice."""
    assert held("llama-3.1-8b", tp=4).bytes(2048) == held("llama-3.1-8b").bytes(2048) / 4
    assert held("llama-3.1-70b", tp=16, hardware="dgx-h100").bytes(2048) == held("llama-3.1-70b", tp=8).bytes(2048)


def test_latents_are_one_tensor_on_every_device() -> None:
    """DeepSeek-V3: 61 layers of 512 + 64 elements, undivided."""
    found = held("deepseek-v3", tp=8)
    assert found.calls(2048) == 128 * 61
    assert found.bytes(2048) == 2048 * 61 * 576 * 2
    assert found.bytes(2048) == held("deepseek-v3", tp=16, hardware="dgx-h100").bytes(2048)
    indexed = held("deepseek-v3.2", tp=8)  # a tensor more, of 128 elements per token, for the keys of the indexer
    assert (indexed.calls(2048), indexed.bytes(2048)) == (2 * 128 * 61, 2048 * 61 * (576 + 128) * 2)


def test_windows_hold_the_end() -> None:
    """Gemma 3 12B: 40 layers see 1024 tokens, which lie in at most 65 blocks of 16; 8 layers keep all.

    A token has 8 heads x 256 x 2 bytes x 2 in a layer.
    """
    found, token = held("gemma-3-12b"), 8 * 256 * 2 * 2
    for tokens in (2048, 65536):
        assert found.bytes(tokens) == (65 * 40 + tokens // 16 * 8) * 16 * token
    assert found.bytes(512) == 512 * 48 * token
    assert not found.divisible
    assert held("llama-3.1-8b").divisible


def test_what_is_copied_is_what_is_allocated() -> None:
    """The bytes of the engine's own blocks, wherever these hold nothing but tokens."""
    for model in ("llama-3.1-8b", "gemma-3-12b", "gpt-oss-20b", "deepseek-v3", "mistral-7b-v0.1"):
        memory = ask(model).memory.fullest_stage
        for tokens in (1, 100, 1000, 5000):
            assert sequence_cache(memory).bytes(tokens) == memory.layout.bytes(tokens - 1, 1)


def test_recurrent_state_is_there_once() -> None:
    model = hybrid("mamba2")
    memory = ask(model).memory.fullest_stage
    found = sequence_cache(memory)
    assert found.state_bytes == memory.state_bytes(allocated=True) > 0
    assert found.state_calls == 2 * 12
    block = memory.layout.kinds[0].block
    assert found.bytes(block * 4) - found.bytes(block * 2) == pytest.approx(2 * block * 4 * (2 * 4 * 128 * 2))
    only = ask(hybrid("mamba", attention=0))
    assert Preemption.of(only).device_bytes(10) == Preemption.of(only).device_bytes(10_000) > 0


def test_a_shared_prefix_stays() -> None:
    """512 tokens stay in 32 blocks; 100 more take 7."""
    found = held("llama-3.1-8b")
    assert found.calls(100, 512) == 7 * 64
    assert found.calls(2048 - 512, 512) == found.calls(2048) - found.calls(512)
    costs = Preemption.of(ask("llama-3.1-8b", shared_prefix=512))
    assert costs.device_bytes(100) == found.bytes(112)


# Made-up caches, block by block

KINDS = (Kind(16, 1.0), Kind(16, 1.0, window=33), Kind(16, 1.0, window=48), Kind(16, 1.0, chunk=64), Kind(8, 1.0, ratio=4))
PLAIN, WINDOW = BlockGroup(KINDS[0], 3, 160.0, 2), BlockGroup(KINDS[1], 2, 112.0, 1)


def counted(kind: Kind, tokens: int, prefix: int) -> int:
    """Blocks that `tokens` tokens after `prefix` ones take.

    All that hold the sequence, a window in as many as its worst alignment needs, less the prefix's own whole blocks of which
    the last token sees some.
    """
    last, group = prefix + tokens - 1, kind.ratio or 1

    def seen(entry: int) -> bool:
        if kind.window is not None:
            return last - entry < kind.window
        return kind.chunk is None or entry // kind.chunk == last // kind.chunk

    blocks = [range(start, start + kind.block) for start in range(0, (last + 1) // group, kind.block)]
    most = len(blocks)
    if kind.window is not None:
        most = max((start + kind.window - 1) // kind.block + 1 for start in range(kind.block))
    elif kind.chunk is not None:
        most = kind.chunk // kind.block
    stay = [block for block in blocks if block[-1] < prefix // group and any(seen(entry) for entry in block)]
    return min(len(blocks), most) - len(stay)


@pytest.mark.every_case
@pytest.mark.parametrize("kind", [*KINDS, Kind(1, 1.0)])
def test_blocks_by_counting(kind: Kind) -> None:
    """Each number of tokens, after none and after prefixes that end within a block and with one; of arrays as of numbers."""
    lengths = range(1, 150, 3)
    for prefix in (0, 1, 15, 16, 17, 40, 64, 100, 129):
        expected = [counted(kind, tokens, prefix) for tokens in lengths]
        group = BlockGroup(kind, 1, 1.0, 1)
        assert [group.blocks(tokens, prefix) for tokens in lengths] == expected
        assert np.asarray(group.blocks(np.array(lengths), prefix)).tolist() == expected


def test_groups_and_states_add_up() -> None:
    """Three layers of 160 bytes per block in two tensors, two of 112 in one, and states in four copies of 1000 bytes."""
    cache = SequenceCache((PLAIN, WINDOW), 1000.0, 4)
    for tokens, prefix in product((1, 16, 17, 50, 200), (0, 30, 100)):
        plain, window = (counted(group.kind, tokens, prefix) for group in (PLAIN, WINDOW))
        assert cache.bytes(tokens, prefix) == 1000 + 3 * 160 * plain + 2 * 112 * window
        assert cache.calls(tokens, prefix) == 4 + 3 * 2 * plain + 2 * window
    assert (cache.chunk, SequenceCache((WINDOW,)).chunk, SequenceCache((), 8.0, 1).chunk) == (80.0, 112.0, 0.0)
    for kind in KINDS:
        for state in (0.0, 8.0):
            groups = (PLAIN, BlockGroup(kind, 1, 1.0, 1))
            assert SequenceCache(groups, state).divisible == (kind == KINDS[0] and state == 0.0)


STAGES = (
    SequenceCache((PLAIN,)),
    SequenceCache((WINDOW,), 3000.0, 2),
    SequenceCache((BlockGroup(KINDS[4], 40, 90.0, 1),)),
)
CURVES = SwapCurves(Curve(2e-6, 3e7), Curve(5e-6, 2e7))


def made_up(*, coalesced: bool = False, share: int = 1, whole: float | None = None, stages: Any = STAGES) -> Swap:
    """Copies over a link of `whole` bytes/s that `share` devices have in common; else by `CURVES`."""
    shared = SwapCurves(Curve(2e-6, whole / share), Curve(5e-6, whole / share)) if whole is not None else CURVES
    fast, slow = (SwapCurves(Curve(call, 2e7), Curve(call, 2e7)) for call in (1e-6, 9e-6))
    return Swap(stages, Copies(shared, fast, slow, 4e7, "assumed"), coalesced, 1e9, share)


@pytest.mark.every_case
@pytest.mark.parametrize("coalesced", [False, True])
@pytest.mark.parametrize("prefix", [0, 30])
def test_the_slowest_stage_decides(coalesced: bool, prefix: int) -> None:
    """Calls at 2 and 5 us, bytes at 30 and 20 MB/s, and 2 D/(1 GB/s) to gather D bytes; a call for each way if gathered."""
    swap = made_up(coalesced=coalesced)
    lengths = (1, 3, 4, 16, 17, 100, 1000, 5000)
    both = []
    for tokens in lengths:
        sizes = [float(stage.bytes(tokens, prefix)) for stage in STAGES]
        calls = [float(stage.calls(tokens, prefix)) for stage in STAGES]
        if coalesced:
            calls = [1.0 if number else 0.0 for number in calls]
        passes = [2 * size / 1e9 if coalesced else 0.0 for size in sizes]
        ways = [
            max(n * call + size / rate + passed for n, size, passed in zip(calls, sizes, passes, strict=True))
            for call, rate in ((2e-6, 3e7), (5e-6, 2e7))
        ]
        assert swap.seconds(tokens, prefix) == pytest.approx(ways)
        assert swap.both(tokens, prefix) == pytest.approx(sum(ways))
        assert [swap.calls(stage, tokens, prefix) for stage in STAGES] == calls
        assert swap.bytes(tokens, prefix) == max(sizes)
        assert swap.bound(tokens, prefix) == pytest.approx(2 * max(sizes) / 4e7)
        assert swap.overlapped_cost(tokens, prefix) == pytest.approx(2 * max(sizes) / 1e9 * (3 if coalesced else 1))
        slow = max(n * 9e-6 + size / 2e7 + passed for n, size, passed in zip(calls, sizes, passes, strict=True))
        assert swap.seconds(tokens, prefix, swap.copies.slow) == pytest.approx((slow, slow))
        both.append(sum(ways))
    assert swap.both(np.array(lengths), prefix) == pytest.approx(np.array(both))


def test_no_prefix_unless_there_is_one() -> None:
    """16 tokens fill a block; after one more they would begin a second."""
    swap = made_up(stages=STAGES[:1])
    for function in (swap.seconds, swap.both, swap.bound, swap.bytes, swap.overlapped_cost, STAGES[0].bytes, STAGES[0].calls):
        assert function(16) == function(16, 0) != function(16, 1)
    assert Swap(STAGES, swap.copies, coalesced=False, bandwidth=1e9).share == 1
    assert swap.calls(STAGES[0], 16) == swap.calls(STAGES[0], 16, 0) == 6
    assert exact_link(swap, 1.0, 16) == exact_link(swap, 1.0, 16, 0) != exact_link(swap, 1.0, 16, 1)


def test_nothing_to_evict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model that caches nothing; a single byte would be something."""
    for size in (0.0, 1.0):
        monkeypatch.setattr(costs_module, "sequence_cache", lambda stage, size=size: SequenceCache((), size))
        with nullcontext() if size else pytest.raises(InputError, match="there is nothing to evict"):
            assert Preemption.of(ask("llama-3.1-8b")).device_bytes(5) == 1.0


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("low", "value", "high", "valid"),
    [(1, 1, 1, True), (1, 2, 3, True), (0.5, 0.7, 0.7, True), (0, 1, 2, False), (2, 1, 3, False), (1, 3, 2, False)],
)
def test_a_value_lies_in_its_range(low: float, value: float, high: float, valid: bool) -> None:
    with nullcontext() if valid else pytest.raises(ValueError, match="must lie between low"):
        assert Figure(value=value, low=low, high=high, sources=("someone",)).value == value


@pytest.mark.every_case
@pytest.mark.parametrize("coalesced", [False, True])
@pytest.mark.parametrize("share", [1, 3])
def test_the_break_even_link_by_bisection(coalesced: bool, share: int) -> None:
    """The rate of the whole link at which the slowest stage is out and in again just in time."""
    for tokens, prefix, stage in product((3, 100, 1000), (0, 30), STAGES):
        if not stage.bytes(tokens, prefix):
            assert exact_link(made_up(stages=(stage,)), 1.0, tokens, prefix) is None
            continue
        for stages in ((stage,), STAGES):
            options = {"coalesced": coalesced, "share": share, "stages": stages}
            least = float(made_up(**options, whole=1e30).both(tokens, prefix))
            assert exact_link(made_up(**options), 0.9 * least, tokens, prefix) is None
            recompute, low, high = 1.5 * least, 1.0, 1e15
            for _ in range(100):
                middle = (low * high) ** 0.5
                pairs = (made_up(**{**options, "stages": (one,)}, whole=middle).both(tokens, prefix) for one in stages)
                low, high = (middle, high) if max(map(float, pairs)) > recompute else (low, middle)
            assert exact_link(made_up(**options), recompute, tokens, prefix) == pytest.approx(high, rel=1e-6)
    assert needed_rate(8e9, 2.0, 2.0) is None
    assert exact_link(made_up(stages=(STAGES[2],)), 1.0, 3) is None  # no whole entry of four tokens


def test_the_cheaper_way() -> None:
    """The swap if it takes as long as recomputing, and if the host has memory for it."""
    for recompute, out, back in product((1.0, 3.0, 5.0), (1.0, 2.0), (1.0, 2.0)):
        choice = Choice(recompute, out, back)
        assert choice.swap_s == out + back
        assert choice.cheaper == ("recompute" if out + back > recompute else "swap")
        assert Choice(recompute, out, back, fits=False).cheaper == "recompute"


# Seconds


def test_calls_and_bytes_by_hand() -> None:
    """8192 calls of 5 us and 256 MiB at 25 GB/s, either way; both ways are alike."""
    costs = Preemption.of(ask("llama-3.1-8b"), host_link=25e9)
    out, back = costs.swap_seconds(2048)
    assert out == back == pytest.approx(8192 * 5 * US + 2**28 / 25e9, rel=1e-12)


def test_gathered_blocks_cross_in_one_call() -> None:
    """One call, and a pass over device memory that reads and writes every byte."""
    costs = Preemption.of(ask("llama-3.1-8b"), host_link=25e9, coalesced=True)
    assert costs.swap_seconds(2048)[0] == pytest.approx(5 * US + 2**28 / 25e9 + 2 * 2**28 / 2039e9, rel=1e-12)
    assert costs.swap_seconds(2048) == Preemption.of(
        ask("llama-3.1-8b"), host_link=25e9, coalesced=True, block_size=2048
    ).swap_seconds(2048)


def test_devices_on_one_link_share_its_bytes_and_not_their_calls() -> None:
    """Of a replica of four devices two, or all four, copy at a time; of one device never more than one."""
    one = Preemption.of(ask("llama-3.1-8b", tp=4), host_link=25e9)
    calls, size = 8192 * 5 * US, 2**26 / 25e9
    assert one.swap_seconds(2048)[0] == pytest.approx(calls + size)
    for behind, sharing in ((2, 2), (4, 4), (8, 4)):
        costs = Preemption.of(ask("llama-3.1-8b", tp=4), host_link=25e9, gpus_per_link=behind)
        assert costs.swap_seconds(2048)[0] == pytest.approx(calls + sharing * size)
    alone = Preemption.of(ask("llama-3.1-8b"), host_link=25e9, gpus_per_link=4)
    assert alone.swap_seconds(2048) == Preemption.of(ask("llama-3.1-8b"), host_link=25e9).swap_seconds(2048)


def test_stages_copy_their_own_layers() -> None:
    """16 of 32 layers on each stage, at the same time."""
    whole, half = (Preemption.of(ask("llama-3.1-8b", pp=size), host_link=25e9) for size in (1, 2))
    assert half.swap_seconds(2048)[0] == pytest.approx(whole.swap_seconds(2048)[0] / 2)
    assert half.host_bytes(2048) == whole.host_bytes(2048) == 2**28


def test_the_host_holds_what_every_device_has() -> None:
    """Heads once; latents as often as there are devices."""
    assert Preemption.of(ask("llama-3.1-8b", tp=4)).host_bytes(2048) == 2**28
    assert Preemption.of(ask("deepseek-v3", hardware="h200-sxm", tp=8)).host_bytes(2048) == 8 * 2048 * 61 * 576 * 2


def test_room_of_the_host() -> None:
    """A quarter of Polaris' 512 GB is a device's; a sequence that does not fit beside the others is recomputed."""
    assert Preemption.of(ask("llama-3.1-8b", "polaris")).host_memory == 128e9
    costs = Preemption.of(ask("llama-3.1-8b"), coalesced=True, host_memory=2.0**29)
    assert costs.choice(2048).cheaper == "swap"
    assert costs.choice(2048, held=2.0**29 - 2**28).fits
    assert costs.choice(2048, held=2.0**29 - 2**28 + 1).cheaper == "recompute"
    assert Preemption.of(ask("llama-3.1-8b")).host_memory is None


def test_every_device_and_its_host() -> None:
    """32 layers on three stages, and a context on two devices: over all of them the cache once.

    A replica of two devices has two quarters of Polaris' 512 GB, and at most two devices on a link, with two replicas too.
    """
    size = 2 * 32 * 2048 * 1024 * 2.0
    for options in ({}, {"pp": 3}, {"pp": 2, "tp": 2}, {"decode_context_parallel_size": 2, "tp": 16}, {"cp": 2}):
        request = ask("llama-3.1-8b", "dgx-h100", **options)
        assert Preemption.of(request).host_bytes(2048) == replica_bytes(request, 2048) == size
    costs = Preemption.of(ask("llama-3.1-8b", "polaris", tp=2, dp=2), gpus_per_link=4)
    assert (costs.host_memory, costs.swap.share) == (256e9, 2)
    limited = Preemption.of(ask("llama-3.1-8b"), host_memory=size, batch=3, context=10)
    assert (limited.choice(2048).fits, limited.choice(2049).fits) == (True, False)
    assert (limited.recompute.batch, limited.recompute.context) == (3, 10)
    choice = limited.choice(2048)
    assert (choice.recompute_s, choice.out_s, choice.in_s) == (limited.recompute_seconds(2048), *limited.swap_seconds(2048))
    assert limited.with_block(64).stages[0].calls(2048) == 2048 / 64 * 32 * 2


# Curves


def test_the_linear_model() -> None:
    """10 us and 1 byte/ns out, 30 us and 3 bytes/ns in; rates, and no calls, are divided by the devices of a link."""
    curves = SwapCurves(Curve(10 * US, 1e9), Curve(30 * US, 3e9))
    assert curves.out.seconds(5000, 7) == pytest.approx(7 * 10 * US + 5 * US)
    assert curves.back.attained(9000) == pytest.approx(9000 / (33 * US))
    assert curves.rate == pytest.approx(2 / (1 / 1e9 + 1 / 3e9)) == pytest.approx(1.5e9)
    assert curves.shared(4) == SwapCurves(Curve(10 * US, 0.25e9), Curve(30 * US, 0.75e9))


@pytest.mark.every_case
@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("link", [None, 50e9, 4e9])
def test_the_ends_of_typical_values(pinned: bool, link: float | None) -> None:
    """Fast: short calls and high rates.

    Pinned memory reaches a share of the file's link, or all of a given one; other memory what a core copies, and no more
    than the link.
    """
    typical = load_typical()[0]
    kind, peak = (typical.pinned if pinned else typical.pageable), link or 32e9
    found = copies(ask("llama-3.1-8b"), pinned=pinned, host_link=link, share=2)
    for ends, call, speed in (
        (found.curves, "value", "value"),
        (found.fast, "low", "high"),
        (found.slow, "high", "low"),
    ):
        rate = min(getattr(typical.pageable.rate, speed), peak)
        if pinned:
            rate = peak * (1.0 if link else getattr(typical.pinned.link, speed))
        expected = Curve(getattr(kind.call, call), pytest.approx(rate / 2))
        assert ends == SwapCurves(expected, expected)
    assert found.peak == pytest.approx(peak / 2)
    names = ["host_copy.call", "host_copy.link" if pinned else "host_copy.rate"]
    if link:  # it takes the place of the share of the file's link
        names = ["host_link", *(name for name in names if name != "host_copy.link")]
    assert [note.name for note in found.notes] == names
    assert len(found.inputs) == 1


def test_options_of_copies() -> None:
    """What is given is read with its unit; flags of what is not given are not named."""
    assert parse_host_copy() == HostCopyOptions() == HostCopyOptions(None, True, False, 1, None)
    assert parse_host_copy().given == []
    every = parse_host_copy(host_link="5 GB/s", pinned=False, coalesced=True, gpus_per_link="2", host_memory="3 GB")
    assert every.options == {
        "host_link": 5e9, "pinned": False, "coalesced": True, "gpus_per_link": 2, "host_memory": 3e9,
    }  # fmt: skip
    assert every.given == ["--host-link", "--pageable", "--coalesced", "--gpus-per-link", "--host-memory"]
    assert parse_host_copy().options["gpus_per_link"] == parse_host_copy(gpus_per_link=1).options["gpus_per_link"] == 1
    with pytest.raises(InputError, match="gpus-per-link"):
        parse_host_copy(gpus_per_link=0)


def test_typical_values() -> None:
    """80 % of the link for pinned memory; what a core copies for the rest."""
    pinned, pageable = (copies(ask("llama-3.1-8b"), pinned=pinned) for pinned in (True, False))
    assert pinned.curves.out.rate == pytest.approx(0.8 * 32e9)
    assert pageable.curves.out.rate == pytest.approx(10e9)
    assert pinned.basis == pageable.basis == "assumed"
    assert {note.origin for note in pinned.notes} == {"assumed"}
    assert [(note.name, note.value) for note in pinned.notes][1:] == [("host_copy.link", 0.8)]
    assert "elsewhere 0.75 to 0.83" in pinned.notes[1].why
    assert "elsewhere 3.3 GB/s to 10.8 GB/s" in pageable.notes[1].why
    assert all("DualPath" in note.why for note in pinned.notes if note.name == "host_copy.call")
    assert pinned.fast.out.seconds(2**28, 8192) < pinned.curves.out.seconds(2**28, 8192) < pinned.slow.out.seconds(2**28, 8192)


def test_a_link_that_is_given() -> None:
    """It is what large pinned copies reach; memory that is not pinned is no faster than its core."""
    assert copies(ask("llama-3.1-8b"), host_link=50e9).curves.out.rate == 50e9
    assert copies(ask("llama-3.1-8b"), host_link=50e9, pinned=False).curves.out.rate == 10e9
    assert copies(ask("llama-3.1-8b"), host_link=5e9, pinned=False).curves.out.rate == 5e9


def test_no_link_is_known(tmp_path: Path) -> None:
    """A card without a host link in its file: an error, unless one is given."""
    text = (shipped("hardware") / "a100-sxm-80gb.yaml").read_text(encoding="utf-8")
    path = tmp_path / "bare.yaml"
    path.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("host_link")))
    bare = load_hardware(str(path))[0]
    with pytest.raises(InputError, match=r"has no host_link.*--host-link"):
        copies(ask("llama-3.1-8b", bare))
    assert copies(ask("llama-3.1-8b", bare), host_link=1e9).curves.rate == pytest.approx(1e9)


FIT = """schema_version: 1
kind: fit
accelerator: a100-sxm-80gb
backend: torch
fitted: 2026-11-22
families:
  copy_d2h: {form: host_copy, parameters: {call: 4 us, link: 0.75}, rows: 40, shapes: 20, bands: {all: [0.9, 1.1]}, range: {}}
  copy_h2d: {form: host_copy, parameters: {call: 3 us, link: 0.5}, rows: 40, shapes: 20, bands: {all: [0.9, 1.1]}, range: {}}
"""


def test_fitted_values_take_the_place_of_typical_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way by its own fit, and its band."""
    folder = tmp_path / "hardware" / "fits" / A100
    folder.mkdir(parents=True)
    (folder / "torch.yaml").write_text(FIT, encoding="utf-8")
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    found = copies(ask("llama-3.1-8b"))
    assert found.basis == "estimate"
    assert (found.curves.out.call, found.curves.back.call) == (4 * US, 3 * US)
    assert (found.curves.out.rate, found.curves.back.rate) == pytest.approx((0.75 * 32e9, 0.5 * 32e9))
    assert found.curves.rate == pytest.approx(0.6 * 32e9)  # 2/(1/0.75 + 1/0.5)
    assert found.slow.out.seconds(1e9, 100) == pytest.approx(1.1 * found.curves.out.seconds(1e9, 100))
    assert found.fast.out.seconds(1e9, 100) == pytest.approx(0.9 * found.curves.out.seconds(1e9, 100))
    assert {note.name for note in found.notes} == {"copy_out", "copy_in"}
    given = copies(ask("llama-3.1-8b"), host_link=9e9)  # all of the link, which the fast end does not beat
    assert (given.curves.out.rate, given.fast.out.rate, given.slow.out.rate) == pytest.approx((9e9, 9e9, 9e9 / 1.1))
    assert copies(ask("llama-3.1-8b"), pinned=False).basis == "assumed"
    assert copies(ask("llama-3.1-8b", "h100-sxm")).notes[0].origin == "transferred"
    swapped = roofline.preempt("llama-3.1-8b", A100, tokens=4096).swap
    assert swapped is not None
    assert swapped.curve == pytest.approx((3.5 * US, 0.6 * 32e9))  # (4 + 3)/2
    (folder / "torch.yaml").write_text(FIT.replace("all: [0.9, 1.1]", ""), encoding="utf-8")
    wide = copies(ask("llama-3.1-8b"))  # without a band between half and twice the time
    assert (wide.fast.back.call, wide.fast.back.rate) == pytest.approx((1.5 * US, 32e9))
    assert (wide.slow.back.call, wide.slow.back.rate) == pytest.approx((6 * US, 8e9))


def test_the_file_of_typical_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in a folder of the user's own is taken; a wrong one says where it is wrong."""
    text = (shipped("hardware") / "_host_copies.yaml").read_text(encoding="utf-8")
    folder = tmp_path / "hardware"
    folder.mkdir()
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    (folder / "_host_copies.yaml").write_text(
        text.replace("value: 5 us, low: 2.3 us, high: 7 us", "value: 9 us, low: 1 us, high: 9 us")
    )
    assert load_typical()[0].pinned.call.value == pytest.approx(9 * US)
    assert load_typical()[1].path == str(folder / "_host_copies.yaml")
    (folder / "_host_copies.yaml").write_text(
        text.replace("value: 5 us, low: 2.3 us, high: 7 us", "value: 9 us, low: 1 us, high: 2 us")
    )
    with pytest.raises(SpecError, match="must lie between low"):
        load_typical()
    (folder / "_host_copies.yaml").write_text(text.replace("[dualpath, flexkv, vllm_rocm]", "[nobody]"))
    with pytest.raises(SpecError, match="'nobody' is not a key of sources"):
        load_typical()


@pytest.mark.every_case
@pytest.mark.parametrize(("block_size", "offered"), [(16, True), (256, False)])
def test_larger_blocks_are_a_variant_unless_they_are_there(block_size: int, offered: bool) -> None:
    """Blocks of 256 tokens are compared with the smaller ones of the deployment, and not with themselves."""
    comparison = roofline.preempt("llama-3.1-8b", A100, tokens=4096, block_size=block_size).comparison
    assert comparison is not None
    assert ("blocks of 256" in [row.variant for row in comparison.variants]) == offered
