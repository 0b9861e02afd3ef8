"""What engines make of caches and states, in numbers that the rules of vLLM 0.19 give by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.audit.engine_logs.capacity import Capacity
from roofline.errors import InputError
from roofline.predict.allocation import Allocation, Kind, Layers, allocation
from roofline.predict.request import prepare
from roofline.specs.engine import KvCacheRules

pytestmark = pytest.mark.every_case


def _layout(model: str | Path, **options: Any) -> Allocation:
    return prepare(model, "h100-sxm", **options).memory.fullest_stage.layout


def _config(truth: Path, name: str) -> Path:
    return truth / "truth" / "models" / "configs" / f"{name}.json"


def test_blocks_beside_states(truth: Path) -> None:
    """Qwen3-Next-80B: attention's blocks are enlarged until a state fits, and the state is padded to one.

    A token takes 2 heads x 256 x 2 (K, V) x 2 B = 2048 B of a layer's cache, a sequence 8192 x 3 x 2 + 32 x 128 x 128 x 2 =
    1,097,728 B of a layer's state in bf16: 536 tokens, 544 in steps of 16. 12 layers attend, 36 keep a state: groups of 12.
    Source: HybridAttentionMambaModelConfig in vllm/model_executor/models/config.py, release 0.19.0.
    """
    layout = _layout(_config(truth, "qwen3-next-80b-a3b"))
    (attention,) = layout.kinds
    page = 544 * 2048
    assert attention.block == 544
    assert attention.block_bytes == 12 * page
    assert layout.state_bytes == 36 * page


def test_a_state_as_the_config_asks(truth: Path) -> None:
    """Qwen3.5 asks for fp32: 8192 x 3 x 2 + 32 x 128 x 128 x 4 = 2,146,304 B, 1048 tokens of 2048 B, in blocks of 1056."""
    assert _layout(_config(truth, "qwen3.5-35b-a3b")).kinds[0].block == 1056


def test_groups_of_equal_length() -> None:
    """Gemma 3 12B has 8 layers that keep all and 40 that slide: six groups of 8, without a layer too much."""
    full, sliding = sorted(_layout("gemma-3-12b").kinds, key=lambda kind: kind.window or 0)
    page = 16 * 2 * 8 * 256 * 2  # tokens, K and V, heads, head_dim, bytes
    assert (full.block_bytes, sliding.block_bytes) == (8 * page, 40 * page)


def test_padding_of_the_last_group() -> None:
    """Gemma 3 27B has 10 layers that keep all and 52 that slide: the sixth group of ten slides with two and pays for ten."""
    found = allocation([Layers(4096, 10), Layers(4096, 52, window=1024)], [], KvCacheRules(), 16, {"full", "window"})
    assert [kind.block_bytes for kind in found.kinds] == [10 * 16 * 4096, 60 * 16 * 4096]


def test_nearly_equal_kinds_are_widened() -> None:
    """13 layers that keep all and 12 that slide: one group each, of 13."""
    found = allocation([Layers(4096, 13), Layers(4096, 12, window=128)], [], KvCacheRules(), 16, {"full", "window"})
    assert [kind.block_bytes for kind in found.kinds] == [13 * 16 * 4096] * 2


def test_pages_of_one_size(truth: Path) -> None:
    """Gemma 4 31B: a token of a full layer takes 4 x 512 x 2 x 2 = 8 KiB, of a sliding one 16 x 256 x 2 x 2 = 16 KiB.

    A page is 16 x 16 KiB; full layers put 32 tokens into theirs. Groups of ten: one full, five sliding.
    """
    full, sliding = sorted(
        _layout(_config(truth, "gemma-4-31b-nvfp4"), kv_cache_dtype="bf16").kinds, key=lambda kind: kind.window or 0
    )
    page = 16 * 16 * 1024
    assert (full.block, sliding.block) == (32, 16)
    assert (full.block_bytes, sliding.block_bytes) == (10 * page, 50 * page)


def test_pages_that_do_not_divide() -> None:
    """Nothing is grouped, and the answer says why."""
    found = allocation([Layers(3000, 4), Layers(2000, 4, window=64)], [], KvCacheRules(), 16, {"full", "window"})
    assert "does not divide" in found.unknown
    assert [kind.block_bytes for kind in found.kinds] == [4 * 16 * 3000, 4 * 16 * 2000]


def test_chunks_keep_all(truth: Path) -> None:
    """Llama 4 Scout: vLLM turns its manager of hybrid caches off, and every layer keeps every token."""
    layout = prepare(_config(truth, "llama-4-scout"), "dgx-h100", tp=8).memory.fullest_stage.layout
    a_token = 48 * 2 * 1 * 128 * 2  # layers, K and V, a head a device, head_dim, bytes
    assert layout.block == 16
    assert layout.bytes(99_999, 1) == 100_000 * a_token


def test_rules_that_are_not_known_are_said_so(truth: Path) -> None:
    """DeepSeek-V4's compressed entries came after these rules."""
    found = roofline.analyze(_config(truth, "deepseek-v4-flash"), "dgx-h100", tp=8, ep=8, ignore_capacity=True)
    (note,) = [entry for entry in found.assumptions if entry.name == "allocated"]
    assert note.origin == "assumed"
    assert "compressed" in note.why


@pytest.mark.parametrize("chunk", [64, 65, 8192])
def test_chunk_in_sight(chunk: int) -> None:
    """By hand: tokens from the start of the newest token's chunk on, the most blocks that they lie in on the way."""
    (kind,) = allocation([Layers(1, 1, chunk=chunk)], [], KvCacheRules(), 16, {"chunk"}).kinds
    for cached in (0, 1, chunk - 1, chunk, 3 * chunk + 7):
        most = max(-(-(token + 1) // 16) - token // chunk * chunk // 16 for token in range(cached + 1))
        assert kind.blocks(cached, 1) >= most
    most = max(-(-(token + 1) // 16) - token // chunk * chunk // 16 for token in range(40 * chunk))
    assert kind.blocks(40 * chunk, 1) - most in ((0,) if chunk % 16 == 0 else (0, 1))


def test_a_context_shorter_than_a_chunk_takes_its_own_blocks() -> None:
    """21 tokens lie in 2 blocks of 16, of a chunk that would take 4."""
    assert Kind(16, 1.0, chunk=64).blocks(20, 1) == 2


def test_fp32_is_cast(truth: Path) -> None:
    """OLMo 2 says fp32; vLLM loads such weights in 16 bits, unless it is told otherwise."""
    config = _config(truth, "olmo2-32b")
    cast, kept = (roofline.analyze(config, "h200-sxm", ignore_capacity=True, **flags) for flags in ({}, {"dtype": "fp32"}))
    assert kept.memory.weights_bytes == 2 * cast.memory.weights_bytes
    assert ("dtype", "bf16") in [(entry.name, entry.value) for entry in cast.assumptions]


def test_keys_of_an_indexer_have_a_format_of_their_own(truth: Path) -> None:
    """DeepSeek-V3.2: 576 elements of a latent in bf16, or 512 + 4 x 4 + 64 x 2 bytes in fp8, and 128 + 4 bytes of a key."""
    config = _config(truth, "deepseek-v3.2")
    for flags, latent in (({}, 576 * 2), ({"kv_cache_dtype": "fp8"}, 656)):
        memory = prepare(config, "dgx-h100", tp=8, **flags).memory.fullest_stage
        assert memory.kv_bytes(1024, allocated=True) == 61 * 1024 * (latent + 132)
    assert prepare(config, "dgx-h100", tp=8).memory.fullest_stage.kv_bytes(1024, allocated=False) == 61 * 1024 * (576 + 128) * 2


QWEN_27B = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64,
    "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408, "vocab_size": 248320,
    "full_attention_interval": 4, "linear_num_value_heads": 48, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32", "hidden_act": "silu",
    "max_position_embeddings": 1048576, "tie_word_embeddings": False, "dtype": "bfloat16", "attn_output_gate": True,
}  # fmt: skip
"""Qwen3.8-27B: 16 layers that attend and 48 with a state."""


@pytest.fixture
def qwen_27b(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN_27B), encoding="utf-8")
    return path


def _logged(model: Path, gib: float, length: int, **options: Any) -> int:
    """The tokens that vLLM from 0.21 on prints for so much memory."""
    request = prepare(model, "h200-sxm", max_model_len=length, **options)
    return int(Capacity(request, "vllm", None).held_tokens(length, gib * 2**30))


def test_states_with_prefix_caching_as_a_server_logged_them(qwen_27b: Path) -> None:
    """Qwen3.8-27B on two cards, fp8 cache, 4.99 GiB: 302,921 tokens at 131,072 each.

    A token takes 2 heads x 256 x 2 B = 1024 B of a layer, a state 24 x 128 x 128 x 4 + 5120 x 3 x 2 B: pages of 1568 tokens,
    208 blocks of 16 layers' pages; a request takes 84 of them and, with prefix caching, 3 x 2 for its states.
    Source: https://github.com/mitchross/talos-argocd-proxmox/pull/1995.
    """
    options = {"tp": 2, "kv_cache_dtype": "fp8", "engine": "vllm@0.32"}
    assert _logged(qwen_27b, 4.99, 131072, **options) == 302921
    assert _logged(qwen_27b, 4.99, 131072, **options, enable_prefix_caching=False) > 302921 * 1.03


def test_copies_of_a_state_by_release(qwen_27b: Path) -> None:
    """Prefix caching of hybrid models is on by itself from 0.26 on; 0.33 has a third copy, for a checkpoint of the prompt."""

    def copies(engine: str, **options: Any) -> int:
        request = prepare(qwen_27b, "h200-sxm", engine=engine, **options)
        part = request.memory.fullest_stage
        one = prepare(qwen_27b, "h200-sxm", engine=engine, enable_prefix_caching=False).memory.fullest_stage
        return round(part.layout.state_bytes / one.layout.state_bytes)

    assert [copies(f"vllm@{version}") for version in ("0.19", "0.24", "0.26", "0.31.1", "0.33")] == [1, 1, 2, 2, 3]
    assert copies("vllm@0.19", enable_prefix_caching=True) == 2


def test_blocks_that_do_not_divide_are_padded_from_024_on() -> None:
    """Pages of 16 x 3072 B beside 16 x 2048 B: refused before; since then the smaller one is padded, tokens and all."""
    layers = [Layers(3072, 4), Layers(2048, 4, window=1024)]
    assert "does not divide" in allocation(layers, [], KvCacheRules(), 16, {"full", "window"}).unknown
    padded = allocation(layers, [], KvCacheRules(pads_pages=True), 16, {"full", "window"})
    assert [(kind.block, kind.block_bytes) for kind in padded.kinds] == [(16, 4 * 16 * 3072)] * 2
    assert not padded.unknown


def test_two_steps_in_flight_hold_more_of_a_window(truth: Path) -> None:
    """Gemma 3 12B, a step of 2048 tokens: the windows of one sequence hold 1023 + 2048 tokens, or 1023 + 4096, and a block."""
    config = _config(truth, "gemma-3-12b")
    page = 8 * 16 * 2 * 8 * 256 * 2
    pool = 1000 * page
    for engine, window in (("vllm@0.25", 3071), ("vllm@0.26", 5119)):
        a_request = 32768 // 16 + 5 * (-(-window // 16) + 1)
        expected = 1000 / a_request * 32768
        found = _logged(config, pool / 2**30, 32768, engine=engine, max_num_batched_tokens=2048)
        assert found == pytest.approx(expected, rel=0.002)


def test_share_of_memory_by_release() -> None:
    shares = {name: prepare("llama-3.1-8b", "h100-sxm", engine=name).memory.utilization for name in ("vllm", "vllm@0.20.2")}
    assert shares == {"vllm": 0.90, "vllm@0.20.2": 0.92}
    with pytest.raises(InputError, match=r"no rules are known for vllm 0\.99\. Rules are known up to each of: 0\.19"):
        prepare("llama-3.1-8b", "h100-sxm", engine="vllm@0.99")


@pytest.mark.parametrize("span", [{}, {"window": 33}, {"window": 100}, {"chunk": 48}, {"chunk": 50}, {"chunk": 64}])
@pytest.mark.parametrize("new", [1, 2, 40])
def test_blocks_of_a_growing_sequence(span: dict[str, int], new: int) -> None:
    """Step by step: blocks of 16 from the first token that the next query sees to the last new one, the most so far.

    A chunk that blocks do not divide is given one more than it may need.
    """
    kind, seen, most = Kind(16, 1.0, **span), max(span.values(), default=0), 0
    for cached in range(400):
        first = 0
        if "window" in span:
            first = max(cached - seen + 1, 0)
        elif "chunk" in span:
            first = cached // seen * seen
        assert kind.passed(cached) == first
        most = max(most, -(-(cached + new) // 16) - first // 16)
        spare = 1 if "chunk" in span and seen % 16 else 0
        assert most <= kind.blocks(cached, new)
        assert kind.blocks(cached, new) <= -(-(cached + new) // 16)
    assert most <= kind.blocks(399, new) <= most + spare
    prefix, held = 300, range(kind.passed(250) // 16 * 16, 300 // 16 * 16, 16)
    assert Allocation((kind,)).shared(prefix, 250) == len(held)  # whole blocks of the first 300 tokens that are still seen


@pytest.mark.parametrize(
    ("span", "length", "sequences", "blocks", "cells"),
    [
        ({}, 1000, 1, 63, 1008),
        ({"window": 128}, 1000, 1, 40, 640),  # 128 + 512 tokens
        ({"window": 128}, 1000, 4, 40, 1008),  # four windows and 512 tokens are more than the context
        ({"chunk": 100}, 1000, 2, 39, 720),  # 612 tokens; 200 + 512
        ({"window": 128}, 90, 1, 6, 96),
    ],
)
def test_caches_reserved_from_the_start(span: dict[str, int], length: int, sequences: int, blocks: int, cells: int) -> None:
    """A pass of 512 tokens lies beside what a window or a chunk keeps; in blocks of 16, no more than the context."""
    kind = Kind(16, 1.0, **span, ahead=512)
    assert kind.blocks(length - 1, 1) == blocks
    assert kind.cells(length, sequences) == cells
    layers = [Layers(4.0, 2, **span), Layers(4.0, 3, **span)]
    (reserved,) = allocation(layers, [], KvCacheRules(reserves="context"), 16, {"full", "window", "chunk"}, 512).kinds
    assert reserved == Kind(16, 5 * 4.0 * 16, **span, ahead=512)


@pytest.mark.parametrize(("block", "enlarged"), [(16, 64), (256, 256)])
def test_states_and_two_kinds_of_layers_in_pages(block: int, enlarged: int) -> None:
    """The largest state of 50,000 B takes 49 tokens of 1024 B: blocks of 64, in steps of 16, unless they are larger.

    A page is a block of the wider layers; narrow ones put twice the tokens in. Kinds have 4, 8, 6 and 2 layers: groups of two.
    """
    layers = [Layers(1024, 3), Layers(2048, 8, window=64), Layers(1024, 1)]
    rules = KvCacheRules(state_blocks=3)
    found = allocation(layers, [(10_000, 2), (50_000, 6)], rules, block, {"full", "window", "state"})
    page = 2048 * enlarged
    assert found.kinds == (Kind(2 * enlarged, 4 * page), Kind(enlarged, 8 * page, window=64))
    assert (found.state_bytes, found.page_bytes) == (3 * 4 * 2 * page, 2 * page)
    apart = allocation(layers, [(10_000, 2), (50_000, 6)], KvCacheRules(shared_pages=False, state_blocks=3), 16, {"full"})
    assert apart.state_bytes == 3 * (2 * 10_000 + 6 * 50_000)
    assert apart.kinds == (Kind(16, 4 * 16 * 1024), Kind(16, 8 * 16 * 2048, window=64))


def test_groups_are_widened_below_a_half_more() -> None:
    """12 and 18 layers are groups of 12, two for the 18; of 12 and 17 one each, of 17."""
    for more, group, groups in ((18, 12, 2), (17, 17, 1)):
        found = allocation([Layers(64, 12), Layers(64, more, window=8)], [], KvCacheRules(), 16, {"full", "window"})
        assert [kind.block_bytes for kind in found.kinds] == [group * 16 * 64, groups * group * 16 * 64]


def test_rules_that_keep_all() -> None:
    """An engine that keeps every token of windows, or of chunks and, beside these, of windows."""
    full, window, chunk = Layers(8, 1), Layers(8, 2, window=64), Layers(8, 4, chunk=64)
    for rules, layers, kinds in (
        (KvCacheRules(window="all"), [full, window, chunk], [(3, None, None), (4, None, 64)]),
        (KvCacheRules(chunk="all"), [full, window, chunk], [(7, None, None)]),
        (KvCacheRules(chunk="all"), [full, window], [(1, None, None), (2, 64, None)]),
    ):
        found = allocation(layers, [], rules.model_copy(update={"shared_pages": False}), 16, {"full", "window", "chunk"})
        assert [(kind.block_bytes / 128, kind.window, kind.chunk) for kind in found.kinds] == kinds
