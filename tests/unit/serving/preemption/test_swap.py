"""Copies: what a device holds in blocks, calls and bytes by hand, the curves of pinned, pageable, given and fitted links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hybrids import hybrid

import roofline
from roofline.errors import InputError, SpecError
from roofline.predict.request import ResolvedRequest, prepare
from roofline.serving.preemption.copies import copies, load_typical
from roofline.serving.preemption.costs import Preemption, SequenceCache, sequence_cache
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


# Curves


def test_typical_values() -> None:
    """80 % of the link for pinned memory; what a core copies for the rest."""
    pinned, pageable = (copies(ask("llama-3.1-8b"), pinned=pinned) for pinned in (True, False))
    assert pinned.curves.out.rate == pytest.approx(0.8 * 32e9)
    assert pageable.curves.out.rate == pytest.approx(10e9)
    assert pinned.basis == pageable.basis == "assumed"
    assert {note.origin for note in pinned.notes} == {"assumed"}
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
    assert copies(ask("llama-3.1-8b"), pinned=False).basis == "assumed"
    assert copies(ask("llama-3.1-8b", "h100-sxm")).notes[0].origin == "transferred"
    swapped = roofline.preempt("llama-3.1-8b", A100, tokens=4096).swap
    assert swapped is not None
    assert swapped.curve == pytest.approx((3.5 * US, 0.6 * 32e9))  # (4 + 3)/2


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
