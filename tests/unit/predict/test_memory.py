"""Memory of a device: weights, cache in blocks and windows, shared prefixes, and what is left."""

from __future__ import annotations

import random
from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.predict.memory import _last_chunk, largest
from roofline.predict.request import prepare
from roofline.specs.workload import Segment, Step, decode, prefill, sequences

pytestmark = pytest.mark.every_case

LLAMA = 32 * 2 * 8 * 128 * 2  # layers x (K, V) x KV heads x head_dim x bytes: 131,072 bytes a token
MISTRAL = LLAMA  # the same shape, with a window of 4096
GEMMA = 2 * 8 * 256 * 2  # gemma-3-12b, one layer; 40 layers have a window of 1024, 8 have none
GPT_OSS = 2 * 8 * 64 * 2  # one layer; 12 have a window of 128, 12 have none
LITE = 27 * (512 + 64) * 2  # deepseek-v2-lite: latent and rotated key, no heads
V32 = 61 * (512 + 64 + 128) * 2  # deepseek-v3.2: latent, rotated key and the indexer's key
GLM = (78 * (512 + 64) + 21 * 128) * 2  # glm-5.2: 21 of 78 layers have an indexer
V4 = 43 * 512 * 2  # deepseek-v4-flash: a token of the window of 128, in all layers
V4_CSA = 21 * (512 + 128) * 2  # an entry of 4 tokens and the indexer's, in 21 layers
V4_HCA = 20 * 512 * 2  # an entry of 128 tokens, in 20 layers


def _blocks(tokens: int, block: int = 16) -> int:
    return -(-tokens // block) * block


@pytest.mark.parametrize(
    ("model", "a_token"),
    [
        ("llama-3.1-8b", LLAMA),
        ("mistral-7b-v0.1", MISTRAL),
        ("gemma-3-12b", 48 * GEMMA),
        ("gpt-oss-20b", 24 * GPT_OSS),
        ("deepseek-v2-lite", LITE),
        ("deepseek-v3.2", V32),
        ("glm-5.2", GLM),
        ("deepseek-v4-flash", V4 + V4_CSA / 4 + V4_HCA / 128),
    ],
)
def test_kv_bytes_per_token_is_below_every_window(model: str, a_token: int) -> None:
    """One more token adds a key and a value to every layer while no window binds; MLA adds latent and rotated key.

    Of an entry that stands for several tokens it adds its share.
    """
    assert roofline.analyze(model, "h100-sxm").memory.kv_bytes_per_token == a_token


@pytest.mark.parametrize(
    ("model", "context", "mathematical", "allocated"),
    [
        ("llama-3.1-8b", 1024, 1025 * LLAMA, 1040 * LLAMA),
        ("llama-3.1-8b", 1023, 1024 * LLAMA, 1024 * LLAMA),
        ("mistral-7b-v0.1", 1000, 1001 * MISTRAL, 1008 * MISTRAL),
        ("mistral-7b-v0.1", 10_000, 4096 * MISTRAL, (4096 + 16) * MISTRAL),
        ("gemma-3-12b", 5000, (40 * 1024 + 8 * 5001) * GEMMA, (40 * (1024 + 16) + 8 * 5008) * GEMMA),
        ("gpt-oss-20b", 999, (12 * 128 + 12 * 1000) * GPT_OSS, (12 * (128 + 16) + 12 * 1008) * GPT_OSS),
        ("deepseek-v2-lite", 4096, 4097 * LITE, 4112 * LITE),
        ("deepseek-v3.2", 4096, 4097 * V32, 4112 * 61 * (576 * 2 + 132)),
        # 1001 tokens make 250 entries of 4 and 7 of 128; blocks have room for 256 and 16
        ("deepseek-v4-flash", 1000, 128 * V4 + 250 * V4_CSA + 7 * V4_HCA, (128 + 16) * V4 + 256 * V4_CSA + 16 * V4_HCA),
        ("deepseek-v4-flash", 2, 3 * V4, 16 * V4),
    ],
)
def test_a_sequence(model: str, context: int, mathematical: int, allocated: int) -> None:
    """A sequence holds context + 1 tokens after a decode step: exactly, and in blocks of 16; a window spans one more."""
    found = roofline.analyze(model, "h100-sxm", context=context, phase="decode").memory.kv_bytes_per_sequence
    assert found == {"mathematical": mathematical, "allocated": allocated}


@pytest.mark.parametrize("block", [1, 16, 32, 100, 128])
def test_blocks_round_up(block: int) -> None:
    """The last block of a sequence is held whole, whatever the size of a block."""
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm", context=1000, block_size=block, batch=7, phase="decode").memory
    assert memory.kv_bytes_per_sequence["allocated"] == _blocks(1001, block) * LLAMA
    assert memory.needed_bytes == 7 * _blocks(1001, block) * LLAMA


def test_prefill_holds_its_prompt() -> None:
    """After a prefill of 1000 tokens a sequence holds 1000, not 1001."""
    assert roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=1000, phase="prefill").memory.needed_bytes == 1008 * LLAMA


def test_usable_is_what_is_left() -> None:
    """Capacity x utilisation - weights - activations - reserve."""
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm", reserve="2 GiB", gpu_memory_utilization=0.8).memory
    assert memory.reserved_bytes == 2 * 2**30
    left = 81559 * 2**20 * 0.8 - 2 * 8_030_261_248 - memory.activation_bytes - 2 * 2**30
    assert memory.usable_bytes == pytest.approx(left, rel=1e-12)


def test_engine_defaults() -> None:
    """VLLM uses 0.90 of the memory, in blocks of 16."""
    memory = prepare("llama-3.1-8b", "h100-sxm").memory
    assert (memory.utilization, memory.block_size) == (0.90, 16)


CARD = 81559 * 2**20
"""Memory of an H100 as the driver reports it."""


def test_a_share_of_what_is_free() -> None:
    """TensorRT-LLM's cache takes 0.90 of what weights and activations leave, in blocks of 32 tokens (KvCacheConfig)."""
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm", engine="trtllm", reserve="2 GiB", batch=8).memory
    free = CARD - 2 * 8_030_261_248 - memory.activation_bytes - 2 * 2**30
    assert memory.usable_bytes == pytest.approx(0.9 * free, rel=1e-12)
    given = roofline.analyze("llama-3.1-8b", "h100-sxm", kv_cache_free_fraction=0.5, reserve="2 GiB", batch=8).memory
    assert given.usable_bytes == pytest.approx(0.5 * free, rel=1e-12)
    total = memory.weights_bytes + memory.activation_bytes + memory.reserved_bytes + memory.usable_bytes
    assert memory.budget_bytes == pytest.approx(total)


@pytest.mark.parametrize(("model", "a_token"), [("gpt-oss-20b", 24 * GPT_OSS), ("gemma-3-12b", 48 * GEMMA)])
def test_tensorrt_llm_keeps_every_token_of_a_window(model: str, a_token: int) -> None:
    """`max_attention_window` of KvCacheConfig is the longest sequence unless it is given: 4,096 tokens of all layers."""
    memory = roofline.analyze(model, "h100-sxm", engine="trtllm", context=4095, batch=1, phase="decode").memory
    assert memory.kv_bytes_per_sequence["allocated"] == 4096 * a_token


def test_a_share_for_weights_and_cache() -> None:
    """SGLang's cache takes what the weights leave of the share; activations have to fit beside it."""
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm", mem_fraction_static=0.8).memory
    assert memory.usable_bytes == pytest.approx(0.8 * CARD - 2 * 8_030_261_248, rel=1e-12)
    tight = roofline.analyze("llama-3.1-8b", "h100-sxm", mem_fraction_static=1.0, batch=8).memory
    assert tight.usable_bytes == pytest.approx(CARD - 2 * 8_030_261_248 - tight.activation_bytes, rel=1e-12)


def test_defaults_of_sglang() -> None:
    """Of server_args.py: 9.5 + 0.5 x devices GiB of 80 are kept free, 12 + 0.5 x devices of 141; pages of one token."""
    one, four = (prepare("llama-3.1-8b", "h100-sxm", engine="sglang", tp=tp).memory for tp in (1, 4))
    mib = 2**10 / 81559
    assert (one.utilization, four.utilization) == (
        pytest.approx(1 - 10 * mib, abs=5e-4),
        pytest.approx(1 - 11.5 * mib, abs=5e-4),
    )
    assert prepare("llama-3.1-8b", "h200-sxm", engine="sglang").memory.utilization == pytest.approx(1 - 12.5 / 140.4, abs=1e-3)
    assert (one.block_size, one.share_of) == (1, "static")


def test_one_share_of_memory() -> None:
    """Two would contradict each other."""
    with pytest.raises(InputError, match="shares of different memory"):
        prepare("llama-3.1-8b", "h100-sxm", mem_fraction_static=0.8, gpu_memory_utilization=0.9)


def test_activations_hold_the_stream() -> None:
    """At least the residual stream and what the largest operator reads and writes: an MLP of 8192 tokens and width 14336."""
    needed = roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=8192, phase="prefill").memory.activation_bytes
    stream, widest = 8192 * 4096 * 2, 8192 * (4096 + 2 * 14336) * 2  # gate and up in one product
    assert needed >= stream + widest


def test_activations_are_of_one_engine_step() -> None:
    """A prompt longer than --max-num-batched-tokens goes through in parts: the working set is that of a part."""
    whole, part = (
        roofline.analyze("llama-3.1-8b", "h100-sxm", input_len=32768, phase="prefill", max_num_batched_tokens=size).memory
        for size in (32768, 2048)
    )
    assert part.activation_bytes < whole.activation_bytes / 8
    assert part.needed_bytes == whole.needed_bytes


def test_shared_prefix_is_held_once() -> None:
    """Ten sequences of 256 blocks share floor(1000/16) = 62 blocks: 10 x 256 - 9 x 62 are held."""
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=10, context=4095, shared_prefix=1000, phase="decode").memory
    assert memory.needed_bytes == (10 * 256 - 9 * 62) * 16 * LLAMA


def test_shared_prefix_of_a_lone_sequence_saves_nothing() -> None:
    """One sequence shares with nobody."""
    alone = roofline.analyze("llama-3.1-8b", "h100-sxm", context=4095, shared_prefix=4000, phase="decode").memory
    assert alone.needed_bytes == 4096 * LLAMA


def test_shared_prefix_behind_the_window_is_not_held() -> None:
    """With 10,001 tokens and a window of 4096, a prefix of 1000 tokens is forgotten: nothing is shared."""
    memory = roofline.analyze("mistral-7b-v0.1", "h100-sxm", batch=4, context=10_000, shared_prefix=1000, phase="decode").memory
    assert memory.needed_bytes == 4 * (4096 + 16) * MISTRAL


def test_shared_prefix_over_segments() -> None:
    """Segments of one step share the same prefix: it is held once, not once a segment."""
    memory = prepare("llama-3.1-8b", "h100-sxm", segments="3x1@4095,2x1@4095", shared_prefix=1600).memory.fullest_stage
    step = (Segment(3, 1, 4095, decode=True), Segment(2, 1, 4095, decode=True))
    assert memory.needed_bytes(step) == (5 * 256 - 4 * 100) * 16 * LLAMA
    assert memory.needed_bytes(step) == memory.needed_bytes(decode(5, 4095))


@pytest.mark.parametrize(("tp", "share"), [(1, 1), (2, 1 / 2), (8, 1 / 8), (16, 1 / 8)])
def test_tensor_parallel_divides_kv_heads(tp: int, share: float) -> None:
    """8 KV heads are divided by up to 8 devices; 16 devices hold each head twice."""
    memory = prepare("llama-3.1-8b", "dgx-h100", tp=tp).memory.fullest_stage
    assert memory.kv_bytes_per_token == LLAMA * share


def test_latent_cache_is_replicated() -> None:
    """MLA's latent has no heads: every tensor-parallel device holds all of it."""
    assert prepare("deepseek-v2-lite", "dgx-h100", tp=8).memory.fullest_stage.kv_bytes_per_token == LITE


def test_pipeline_divides_layers() -> None:
    """Four stages of eight layers hold a quarter of the cache each."""
    assert prepare("llama-3.1-8b", "dgx-h100", pp=4).memory.fullest_stage.kv_bytes_per_token == LLAMA / 4


def test_data_parallel_deals_sequences() -> None:
    """Seven sequences on two replicas: the fuller one holds four."""
    memory = prepare("llama-3.1-8b", "dgx-h100", dp=2).memory.fullest_stage
    assert memory.needed_bytes(prefill(7, 1024)) == 4 * 1024 * LLAMA


def test_kv_capacity_is_whole_blocks() -> None:
    """As many blocks of 16 tokens as usable memory holds."""
    memory = roofline.analyze("llama-3.1-8b", "h100-sxm", phase="decode").memory
    assert memory.kv_capacity_tokens == memory.usable_bytes // (16 * LLAMA) * 16


def test_kv_capacity_without_blocks_is_that_of_the_longest_sequence() -> None:
    """llama.cpp takes no blocks. Beyond 1024 tokens only 8 of Gemma 3 12B's 48 layers keep more of a sequence of 4096 tokens.

    The shorter segment of the step, which fills all 48, is not what is counted.
    """
    memory = prepare("gemma-3-12b", "h100-sxm", engine="llama.cpp").memory.fullest_stage
    step = (Segment(1, 1, 99), Segment(1, 1, 4095))
    sequence = memory.layout.bytes(4095, 1)
    assert sequence < 4096 * 48 * GEMMA
    assert memory.kv_capacity_tokens(step) == int(memory.usable_bytes(step) / sequence * 4096)


def test_tied_weights_are_held_once() -> None:
    """GPT-2's LM head is its embedding: 124,439,808 parameters of two bytes."""
    assert roofline.analyze("gpt2", "h100-sxm").memory.weights_bytes == 2 * 124_439_808


def test_what_weights_leave_is_not_negative() -> None:
    """Mixtral's 93.4 GB of bf16 are more than 0.9 of an H100's 80 GB: nothing is left, and what is missing has its own key.

    Of llama-3.1-8b with 64 sequences of 32 Ki tokens the weights fit and the cache does not: both figures are positive.
    """
    weights = roofline.analyze("mixtral-8x7b", "h100-sxm").memory
    needed = weights.weights_bytes + weights.activation_bytes + weights.needed_bytes
    assert weights.usable_bytes == 0
    assert weights.weights_bytes > weights.budget_bytes
    assert weights.missing_bytes == pytest.approx(needed - weights.budget_bytes, rel=1e-9)
    assert weights.free_bytes == -weights.missing_bytes
    cache = roofline.analyze("llama-3.1-8b", "h100-sxm", batch=64, context=2**15, phase="decode").memory
    assert cache.usable_bytes > 0
    assert cache.missing_bytes == pytest.approx(64 * _blocks(2**15 + 1) * LLAMA - cache.usable_bytes, rel=1e-9)
    fits = roofline.analyze("llama-3.1-8b", "h100-sxm").memory
    assert (fits.fits, fits.missing_bytes, fits.free_bytes) == (True, 0, fits.usable_bytes - fits.needed_bytes)
    assert roofline.analyze("mixtral-8x7b", "h100-sxm").to_dict()["memory"]["usable_bytes"] == 0


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_grids_follow_the_engine(engine: str) -> None:
    """What a grid says of memory is what `analyze` says, whatever an engine's share is of."""
    batches = [1, 40, 60]
    points = roofline.compile("llama-3.1-8b", "h100-sxm", engine=engine, phase="decode")(batch=batches, context=8192)
    for index, batch in enumerate(batches):
        memory = roofline.analyze("llama-3.1-8b", "h100-sxm", engine=engine, batch=batch, context=8192, phase="decode").memory
        used = memory.weights_bytes + memory.activation_bytes + memory.reserved_bytes + memory.needed_bytes
        assert points["memory_bytes"][index] == pytest.approx(used)
        assert bool(points["fits"][index]) is memory.fits


# whole formulas, on random steps


def steps(seed: int, count: int) -> list[Step]:
    """Steps of one to three segments: decoded ones with a cache, and prompts, whole or in part."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    made = []
    for _ in range(count):
        segments = [Segment(chance.randrange(1, 40), 1, chance.randrange(1, 9000), decode=True)]
        segments += [Segment(chance.randrange(1, 9), chance.choice([1, 700, 9000]), chance.choice([0, 999])) for _ in range(2)]
        made.append(tuple(chance.sample(segments, chance.randrange(1, 4))))
    return made


def chunk_by_hand(step: Step, budget: int) -> list[tuple[int, int, int]]:
    """All that is decoded, and prompts one after another until the budget is used up: the last of them in part."""
    chunk = [(segment.count, 1, segment.cached) for segment in step if segment.decode]
    left = max(budget - sum(count for count, _, _ in chunk), 1)
    for segment in (segment for segment in step if not segment.decode):
        whole = 0
        while whole < segment.count and segment.new <= left:
            whole, left = whole + 1, left - segment.new
        if whole:
            chunk.append((whole, segment.new, segment.cached))
        if whole < segment.count and left:
            chunk.append((1, left, segment.cached + segment.new - left))
            left = 0
    return chunk


@pytest.mark.parametrize("budget", [8, 2048, 10_000])
def test_the_last_chunk_of_a_step(budget: int) -> None:
    """One prompt after another, by hand."""
    for step in steps(1, 60):
        found = [(segment.count, segment.new, segment.cached) for segment in _last_chunk(step, budget)]
        assert found == chunk_by_hand(step, budget)


@pytest.mark.parametrize(
    ("options", "prefix", "replicas", "budget", "block"),
    [
        ({}, 0, 1, 8192, 16),
        ({"shared_prefix": 999, "max_num_batched_tokens": 512}, 999, 1, 512, 16),
        ({"dp": 3, "block_size": 128}, 0, 3, 8192, 128),
        ({"dp": 2, "shared_prefix": 200, "max_num_batched_tokens": 2048}, 200, 2, 2048, 16),
    ],
)
def test_memory_of_steps(options: dict[str, Any], prefix: int, replicas: int, budget: int, block: int) -> None:
    """Llama 3.1 8B: blocks of all sequences of a replica, the prefix once; the widest operator beside the residual stream.

    Gate and up are read and their product written, 3 x 14336 elements per token; or the logits of every sequence.
    """
    part = prepare("llama-3.1-8b", "dgx-h100", **{"batch": 8, "input_len": 1000, **options}).memory.fullest_stage
    for step in steps(2, 40):
        needed, common = 0, 0
        for segment in step:
            count, tokens = -(-segment.count // replicas), segment.cached + segment.new
            shared = min(prefix, segment.cached) // block
            needed += count * (_blocks(tokens, block) // block - shared)
            common = max(common, shared)
        assert part.needed_bytes(step) == (needed + common) * block * LLAMA
        chunk = chunk_by_hand(tuple(Segment(-(-s.count // replicas), s.new, s.cached, s.decode) for s in step), budget)
        rows, tokens = sum(count for count, _, _ in chunk), sum(count * new for count, new, _ in chunk)
        assert part.activation_bytes(step) == 2 * (tokens * 4096 + max(tokens * 3 * 14336, rows * (4096 + 128256)))
        usable = 0.9 * CARD - part.weights_bytes - part.activation_bytes(step)
        assert part.usable_bytes(step) == pytest.approx(usable)
        assert part.fits(step) == ((needed + common) * block * LLAMA <= usable)
        assert part.budget_of(step) == pytest.approx(0.9 * CARD)
        assert part.kv_capacity_tokens(step) == int(usable // (block * LLAMA)) * block * replicas


def test_windows_of_steps() -> None:
    """Mistral 7B, a window of 4096: what a last chunk of up to 2,048 tokens sees, and a block more: it may begin in one."""
    part = prepare("mistral-7b-v0.1", "h100-sxm", max_num_batched_tokens=2048).memory.fullest_stage
    for step in steps(3, 40):
        blocks = 0
        for segment in step:
            new = min(segment.new, 2048)
            blocks += segment.count * min(-(-(segment.cached + segment.new) // 16), -(-(4096 + new - 2) // 16) + 1)
        assert part.needed_bytes(step) == blocks * 16 * MISTRAL


@pytest.mark.parametrize(
    ("options", "slots", "length"),
    [({}, None, None), ({"max_num_seqs": 7}, 7, None), ({"max_num_seqs": 99, "max_model_len": 10_001}, 99, 10_001)],
)
def test_caches_that_are_reserved(options: dict[str, Any], slots: int | None, length: int | None) -> None:
    """llama.cpp takes the memory of every slot for the longest sequence, or for the context that it was given."""
    part = prepare("llama-3.1-8b", "h100-sxm", engine="llama.cpp", **options).memory.fullest_stage
    size = part.layout.kinds[0].block
    for step in steps(4, 20):
        longest = max(segment.cached + segment.new for segment in step)
        tokens = _blocks(length or longest, size)
        assert part.needed_bytes(step) == (slots or sequences(step)) * tokens * LLAMA


@pytest.mark.parametrize(("model", "fullest"), [("llama-3.1-8b", 0), ("gemma-3-12b", 2)])
def test_stages_of_a_pipeline(model: str, fullest: int) -> None:
    """The fullest has most weights; the tightest the least room left in a step; towers are in the first, over its devices."""
    memory = prepare(model, "dgx-h100", pp=3, tp=2).memory
    assert memory.fullest_stage.stage.index == fullest == memory.stage.index
    assert memory.fullest_stage.weights_bytes == max(part.weights_bytes for part in memory.stages)
    towers = [2 * sum(memory.model.towers.values()) / 2, 0, 0]
    assert [part.tower_bytes for part in memory.stages] == towers
    assert [part.loaded_bytes - part.weights_bytes for part in memory.stages] == towers
    for step in (decode(4, 100), decode(40_000, 100), prefill(8, 3000)):
        left = {part.stage.index: part.usable_bytes(step) - part.needed_bytes(step) for part in memory.stages}
        assert memory.tightest(step).stage.index == min(left, key=left.__getitem__)
        assert memory.fits(step) == (min(left.values()) >= 0)
    assert memory.max_batch(100) == min(part.max_batch(100) for part in memory.stages)
    assert memory.max_context(64) == min(part.max_context(64) or 0 for part in memory.stages)


def test_shares_of_memory_beside_a_reserve() -> None:
    """Of all memory, of weights and caches, or of what is free: 2 GiB are taken off each, and activations have to fit."""
    held, reserve, working = 2e10, 2 * 2**30, 3e9
    for option, left in (
        ("gpu_memory_utilization", 0.5 * CARD - held - working - reserve),
        ("mem_fraction_static", 0.5 * CARD - held - reserve),
        ("kv_cache_free_fraction", 0.5 * (CARD - held - working - reserve)),
    ):
        memory = prepare("llama-3.1-8b", "h100-sxm", reserve="2 GiB", **{option: 0.5}).memory
        assert memory.left_bytes(held, working) == pytest.approx(left)
    static = prepare("llama-3.1-8b", "h100-sxm", reserve="2 GiB", mem_fraction_static=0.9).memory
    assert static.left_bytes(held, 2e10) == pytest.approx(CARD - held - 2e10 - reserve)


def test_blocks_over_context_parallel_devices() -> None:
    """A block on each of the devices that divide a sequence's tokens."""
    memory = prepare("llama-3.1-8b", "dgx-h100", tp=16, block_size=32, decode_context_parallel_size=2).memory
    assert memory.block_tokens == 64
    assert prepare("llama-3.1-8b", "dgx-h100", context_parallel_size=4).memory.block_tokens == 64


def test_what_is_stored_is_what_is_counted() -> None:
    """All tokens in blocks of one size and nothing else: not with windows, states, or padded entries."""
    for model, options, plain in (
        ("llama-3.1-8b", {}, True), ("mistral-7b-v0.1", {}, False), ("gemma-3-12b", {}, False), ("deepseek-v3.2", {}, False),
        ("deepseek-v2-lite", {}, True), ("gemma-3-12b", {"engine": "trtllm"}, True),
    ):  # fmt: skip
        part = prepare(model, "dgx-h100", **options).memory.fullest_stage  # type: ignore[arg-type]
        assert part.plain == plain, model
        assert part.layouts == (part.layout,)


@pytest.mark.parametrize("limit", [1, 6, 40])
def test_the_largest_number_from_any_start(limit: int) -> None:
    """Numbers up to a threshold hold; wherever the search starts, and within a dozen questions of its doublings."""
    for threshold in range(45):
        for guess in (-3, 0, 1, 2, 7, 39, 40, 41, 500):
            asked: list[int] = []

            def holds(number: int, threshold: int = threshold, asked: list[int] = asked) -> bool:
                asked.append(number)
                return number <= threshold

            assert largest(holds, limit, guess) == min(threshold, limit)
            assert len(asked) <= 12
            assert all(1 <= number <= limit for number in asked)
            start = min(max(guess, 1), limit)
            assert asked[0] == start
            if start == threshold < limit:
                assert len(asked) == 2
