"""Context parallelism: tokens of a sequence divided over devices, each pair computed once and each key kept once.

Llama 3, arXiv:2407.21783, section 3.3.2: of 2c pieces of a prompt a device has the i-th and the (2c-1-i)-th, and gathers keys
and values. Brute force over tokens is the judge of pairs; sums over devices are the judge of everything else.
"""

from __future__ import annotations

import pytest
from hybrids import hybrid

import roofline
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.operators.attention import Attention
from roofline.predict.result import Analysis, Phase

BATCH, CONTEXT, PROMPT = 4, 4095, 1536
# Llama-3.1-70B: 80 layers of width 8192, 64 query heads and 8 KV heads of 128; 128256 tokens.
LAYERS, WIDTH, VOCABULARY = 80, 8192, 128256
KV_TOKEN = 2 * 8 * 128 * 2 * LAYERS  # bytes
MODEL = "llama-3.1-70b"

each_size = pytest.mark.parametrize("size", [2, 3, 4, 8])


def on_dgx(model: str | Model, **options: object) -> Analysis:
    asked = {"dtype": "bf16", "batch": BATCH, "context": CONTEXT, "input_len": PROMPT, "ignore_capacity": True, **options}
    return roofline.analyze(model, "dgx-h100", **asked)


def matrix_flop(phase: Phase, *ends: str) -> float:
    return sum(op.cost.matrix_flops for op in phase.operators if op.path.endswith(ends))


def link_bytes(phase: Phase, *ends: str) -> float:
    return sum(op.cost.link_bytes for op in phase.operators if op.path.endswith(ends))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(("new", "cached"), [(24, 0), (24, 7), (48, 1000)])
def test_two_pieces_a_device_have_as_many_pairs(size: int, new: int, cached: int) -> None:
    """Counted token by token: every device's pieces have the pairs that the operator counts, and one device sees every key."""
    piece = new // (2 * size)
    counted = []
    for rank in range(size):
        own = [*range(rank * piece, (rank + 1) * piece), *range((2 * size - 1 - rank) * piece, (2 * size - rank) * piece)]
        counted.append(sum(cached + position + 1 for position in own))
    core = Attention(batch=1, new=new, cached=cached, n_heads=1, n_kv_heads=1, head_dim=1, query_ranks=size)
    assert {count * 4 for count in counted} == {core.cost().matrix_flops}
    assert core.cost().kv_read_bytes == (cached + new) * 2 * 2  # the device with the last piece
    assert core.on_one_device.cost().matrix_flops == core.cost().matrix_flops


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("new", [1, 4])
def test_keys_divided_are_each_met_once(size: int, new: int) -> None:
    """Of a decode step after 127 (124) tokens each device has its part of the pairs and of the keys; the queries are whole."""
    cached = 128 - new
    whole = Attention(batch=3, new=new, cached=cached, n_heads=4, n_kv_heads=2, head_dim=8).cost()
    core = Attention(batch=3, new=new, cached=cached, n_heads=4, n_kv_heads=2, head_dim=8, key_ranks=size)
    assert size * core.cost().matrix_flops == whole.matrix_flops
    assert size * core.cost().kv_read_bytes == whole.kv_read_bytes
    assert core.cost().activation_bytes == whole.activation_bytes + 3 * new * 4 * 4  # an fp32 number a query and head
    if new == 1:
        assert core.on_one_device.cost().kv_read_bytes == core.cost().kv_read_bytes


@each_size
def test_prompts_are_divided(size: int) -> None:
    """FLOP of the devices add up to those of one; the LM head is on the device with the last tokens alone."""
    one, many = on_dgx(MODEL).prefill, on_dgx(MODEL, cp=size).prefill
    head = 2 * BATCH * VOCABULARY * WIDTH
    assert matrix_flop(one, "lm_head") == matrix_flop(many, "lm_head") == head
    assert size * (many.cost.matrix_flops - head) == one.cost.matrix_flops - head
    pairs = BATCH * PROMPT * (PROMPT + 1) // 2
    assert size * matrix_flop(many, "core") == LAYERS * 4 * WIDTH * pairs
    assert many.new_tokens == BATCH * PROMPT  # of the whole deployment
    # every device reads all weights, and all keys; each new token is written once
    assert many.cost.kv_read_bytes == one.cost.kv_read_bytes
    assert size * many.cost.kv_write_bytes == BATCH * PROMPT * KV_TOKEN


@each_size
def test_keys_and_values_of_a_prompt_are_gathered(size: int) -> None:
    """In each layer (c-1)/c of what is cached of the prompt arrives: 2 x 8 x 128 elements of 2 bytes a token."""
    phase = on_dgx(MODEL, cp=size).prefill
    assert phase.cost.link_bytes == pytest.approx(BATCH * PROMPT * KV_TOKEN * (size - 1) / size, rel=1e-12)
    assert link_bytes(phase, "kv_all_gather") == phase.cost.link_bytes


def test_a_later_chunk_gathers_what_was_cached() -> None:
    """512 tokens after 1536: 2048 of them, new and old, in the format of the cache, one byte."""
    phase = on_dgx(MODEL, cp=4, kv_cache_dtype="fp8", segments="1x512@1536", batch=None, context=None, input_len=None).phases[0]
    assert link_bytes(phase, "kv_all_gather") == 2048 * KV_TOKEN / 2 * (3 / 4)


@each_size
def test_decode_divides_the_keys_alone(size: int) -> None:
    """Linear operators are on every device; attention and the cache are divided; a new token is kept on one device."""
    one, many = on_dgx(MODEL).decode, on_dgx(MODEL, cp=size).decode
    products = ("proj", "lm_head")
    assert matrix_flop(many, *products) == matrix_flop(one, *products) == one.cost.matrix_flops - matrix_flop(one, "core")
    assert size * matrix_flop(many, "core") == pytest.approx(matrix_flop(one, "core"), rel=1e-12)
    assert size * many.cost.kv_read_bytes == pytest.approx(BATCH * (CONTEXT + 1) * KV_TOKEN, rel=1e-12)
    assert size * many.cost.kv_write_bytes == pytest.approx(BATCH * KV_TOKEN, rel=1e-12)
    assert many.cost.weight_bytes == one.cost.weight_bytes


@each_size
def test_partial_outputs_are_joined(size: int) -> None:
    """One fp32 number a head from every device, then the sum of 8192 elements a token, in each layer."""
    phase = on_dgx(MODEL, cp=size).decode
    assert link_bytes(phase, "core/lse_all_gather") == pytest.approx(LAYERS * BATCH * 64 * (size - 1) * 4)
    assert link_bytes(phase, "core/all_reduce") == pytest.approx(LAYERS * BATCH * WIDTH * 2 * 2 * (size - 1) / size)
    assert phase.cost.link_bytes == link_bytes(phase, "core/lse_all_gather", "core/all_reduce")
    (rescale,) = [op for op in phase.operators if op.kind == "rescale"]
    assert rescale.cost.vector_flops == LAYERS * BATCH * (5 * 64 * size + WIDTH)


@each_size
def test_the_cache_is_divided(size: int) -> None:
    """A token is kept on one of the devices; a sequence takes blocks of 16 on each."""
    one, many = on_dgx(MODEL).memory, on_dgx(MODEL, cp=size).memory
    assert many.weights_bytes == one.weights_bytes
    assert size * many.kv_bytes_per_token == KV_TOKEN
    assert size * many.kv_bytes_per_sequence["mathematical"] == pytest.approx((CONTEXT + 1) * KV_TOKEN)
    blocks = -(-(CONTEXT + 1) // (16 * size))  # on each device
    assert many.kv_bytes_per_sequence["allocated"] == pytest.approx(blocks * 16 * KV_TOKEN)


def test_devices_and_capacity() -> None:
    """TP 2 x CP 4 is 8 devices, on which 4 times the tokens find room that do on a replica of TP 2."""
    on_one_device, many = (on_dgx("llama-3.1-8b", tp=2, cp=size, max_num_batched_tokens=8) for size in (1, 4))
    assert (on_one_device.hardware["devices"], many.hardware["devices"]) == (2, 8)
    assert many.memory.kv_capacity_tokens == pytest.approx(4 * on_one_device.memory.kv_capacity_tokens, rel=0.01)


def test_a_mixed_step_divides_prompts_and_repeats_decodes() -> None:
    """Products see 512/4 tokens of the prompt and all 32 of the decodes."""
    asked = {"segments": "32x1@4095,1x512@0", "batch": None, "context": None, "input_len": None}
    phase = on_dgx(MODEL, cp=4, **asked).phases[0]
    (qkv,) = [op for op in phase.operators if op.path.endswith("qkv_proj")]
    assert qkv.dims["m"] == 512 / 4 + 32
    assert sum(op.path.endswith("kv_all_gather/1x512@0") for op in phase.operators) == 1
    assert sum("core/32x1@4095/all_reduce" in op.path for op in phase.operators) == 1


# DeepSeek-V3: 61 layers of width 7168, 128 heads; latents of 512 and a rotated key of 64.
def test_latents_are_gathered_and_expanded_by_all() -> None:
    """Prefill gathers 576 elements a token and layer; each device expands all of them (128 x 256 from 512)."""
    one, many = on_dgx("deepseek-v3").prefill, on_dgx("deepseek-v3", cp=4).prefill
    assert link_bytes(many, "kv_all_gather") == 61 * BATCH * PROMPT * 576 * 2 * (3 / 4)
    expansion = 61 * 2 * BATCH * PROMPT * 512 * 128 * 256
    assert matrix_flop(many, "kv_b_proj") == matrix_flop(one, "kv_b_proj") == expansion
    once = expansion + 2 * BATCH * 129280 * 7168
    assert 4 * (many.cost.matrix_flops - once) == one.cost.matrix_flops - once


def test_latents_divided_in_decode() -> None:
    """Each device has 1/4 of the latents, and outputs of 512 a head are summed before they leave the latent space."""
    one, many = on_dgx("deepseek-v3").decode, on_dgx("deepseek-v3", cp=4).decode
    assert 4 * many.cost.kv_read_bytes == one.cost.kv_read_bytes == 61 * BATCH * (CONTEXT + 1) * 576 * 2
    assert link_bytes(many, "core/all_reduce") == 61 * BATCH * 128 * 512 * 2 * 2 * (3 / 4)
    assert 4 * matrix_flop(many, "core") == matrix_flop(one, "core")
    assert many.cost.matrix_flops - matrix_flop(many, "core") == one.cost.matrix_flops - matrix_flop(one, "core")


@pytest.mark.parametrize("form", ["expand", "absorb"])
def test_either_form_of_latent_attention(form: str) -> None:
    """Forced into one form, attention adds up too; a decode that expands expands its own keys."""
    one, many = on_dgx("deepseek-v2-lite", mla=form), on_dgx("deepseek-v2-lite", mla=form, cp=2)
    for before, after in zip(one.phases, many.phases, strict=True):
        assert 2 * matrix_flop(after, "core") == matrix_flop(before, "core")
    if form == "expand":
        assert 2 * matrix_flop(many.decode, "kv_b_proj") == matrix_flop(one.decode, "kv_b_proj")


def test_groups_lie_apart() -> None:
    """TP 8 fills a node: the members of a context-parallel group are in two: all that they send crosses at 50 GB/s."""
    phase = on_dgx(MODEL, tp=8, cp=2).prefill
    (gather,) = [op for op in phase.operators if op.path.endswith("kv_all_gather")]
    assert gather.cost.link_bytes == BATCH * PROMPT * KV_TOKEN / 8 / 2
    assert gather.times.link == pytest.approx(gather.cost.link_bytes / 50e9)


def test_groups_that_share_a_node_cross_less() -> None:
    """TP 2 x CP 8 on two nodes: 4 of 8 members in each, so that 1/4 of what one sends crosses (1/4/50 > 3/4/450)."""
    phase = on_dgx(MODEL, tp=2, cp=8).prefill
    (gather,) = [op for op in phase.operators if op.path.endswith("kv_all_gather")]
    assert gather.times.link == pytest.approx(gather.cost.link_bytes / 4 / 50e9)
    inside = on_dgx(MODEL, tp=2, cp=4).prefill
    (gather,) = [op for op in inside.operators if op.path.endswith("kv_all_gather")]
    assert gather.times.link == pytest.approx(gather.cost.link_bytes / 450e9)


def test_with_sequence_parallelism() -> None:
    """Both divide the stream: 4 x 2 devices keep 1/8 of a prompt's, of a decoded token 1/4."""
    result = on_dgx(MODEL, tp=4, cp=2, sequence_parallel=True)
    for phase, rows in ((result.prefill, BATCH * PROMPT / 8), (result.decode, BATCH / 4)):
        assert {op.dims["rows"] for op in phase.operators if op.kind == "norm"} == {rows}


def test_experts_inside_a_replica() -> None:
    """Mixtral on EP 2 of TP 2: each group of two has 1/4 of a prompt's tokens and all experts; FLOP add up to one's."""
    one, many = on_dgx("mixtral-8x7b", tp=2, ep=2).prefill, on_dgx("mixtral-8x7b", tp=2, ep=2, cp=4).prefill
    assert 4 * matrix_flop(many, "experts/up_proj", "experts/down_proj") == matrix_flop(
        one, "experts/up_proj", "experts/down_proj"
    )
    assert link_bytes(many, "dispatch") == 0


@pytest.mark.parametrize(
    ("model", "options", "why"),
    [
        ("gemma-2-9b", {}, "window"),
        (hybrid("mamba2"), {}, "state from token to token"),
        ("deepseek-v3.2", {}, "compressed or chosen"),
        (MODEL, {"shared_prefix": 10}, "shared prefix"),
        ("mixtral-8x7b", {"dp": 2, "ep": 2}, "at most 1"),
    ],
)
def test_what_is_not_modelled_is_refused(model: str | Model, options: dict[str, int], why: str) -> None:
    """The error says what stands in the way, and what would work."""
    with pytest.raises(InputError, match=rf"context-parallel size 2 is not modelled.*{why}") as refused:
        on_dgx(model, cp=2, **options)
    assert refused.value.exit_code == 2


def test_both_names_are_one_option() -> None:
    """VLLM's name of the flag means the same, and both at once are refused."""
    assert on_dgx(MODEL, prefill_context_parallel_size=2).hardware["devices"] == 2
    with pytest.raises(InputError, match="same option"):
        on_dgx(MODEL, cp=2, context_parallel_size=2)


def on_v5e(**options: object) -> Analysis:
    """Llama 3 70B on a 4x4 slice of TPU v5e: 16 chips of 16 GB and 819 GB/s, TP 16 over 8 KV heads."""
    given = {"tp": 16, "phase": "decode", "gpu_memory_utilization": 1, **options}
    return roofline.analyze(MODEL, "tpu-v5e", **given)


def test_a_fully_sharded_cache() -> None:
    """Scaling book, chapter 8: 43 sequences of 8k in bf16 on 4x4 v5e, (16 x 16 GB - 140 GB) / (8192 x 327,680 bytes).

    Exact weights take two of them: 70.55 G parameters, and the KV projections of 8 heads on 16 chips twice. Without division
    of tokens each chip holds a whole head's cache, and half as many fit.
    """
    whole, divided = on_v5e(context=8191), on_v5e(context=8191, dcp=2)
    a_sequence = 16 * divided.memory.kv_bytes_per_sequence["allocated"]
    assert a_sequence == 8192 * 327_680
    assert int((16 * 16e9 - 140e9) / a_sequence) == 43
    copies = 80 * 2 * 1024 * 8192 * 2
    norms = 15 * (2 * 80 + 1) * 8192 * 2
    assert 16 * divided.memory.weights_bytes == 2 * 70_553_706_496 + copies + norms
    assert divided.memory.max_batch == int((16 * 16e9 - 16 * divided.memory.weights_bytes) / a_sequence) == 41
    assert whole.memory.max_batch == 20


def test_step_with_a_fully_sharded_cache() -> None:
    """Scaling book, chapter 8: 8.5 ms for 32 sequences of 8k on 4x4 v5e with weights and cache in int8.

    That is to read 70 + 43 GB at 16 x 819 GB/s.
    """
    (phase,) = on_v5e(dtype="int8", kv_cache_dtype="int8", batch=32, context=8192, dcp=2, activation_dtype="bf16").phases
    assert phase.time.floor == pytest.approx((70e9 + 32 * 8192 * 163_840) / (16 * 819e9), rel=0.03)
    assert phase.time.floor == pytest.approx(8.5e-3, rel=0.03)


@pytest.mark.parametrize(("model", "tp", "size"), [(MODEL, 16, 2), ("deepseek-v2-lite", 8, 8)])
def test_cache_divided_in_a_tensor_parallel_group(model: str, tp: int, size: int) -> None:
    """Devices with the same KV heads (two of 16; with a latent all 8) have a part of the tokens each, and the same products."""
    whole, divided = (on_dgx(model, tp=tp, decode_context_parallel_size=number).decode for number in (1, size))
    assert divided.cost.matrix_flops == pytest.approx(whole.cost.matrix_flops, rel=1e-12)
    assert size * divided.cost.kv_read_bytes == whole.cost.kv_read_bytes
    assert size * divided.cost.kv_write_bytes == whole.cost.kv_write_bytes
    memory = [on_dgx(model, tp=tp, dcp=number).memory.kv_bytes_per_token for number in (1, size)]
    assert size * memory[1] == memory[0]


def test_what_is_sent_to_divide_the_cache() -> None:
    """vLLM: decoded queries gathered, outputs joined by a reduce-scatter. 4 of 64 heads of 128 on each of 16 devices, in pairs.

    Each sends its 4 heads' queries, 8 numbers of fp32 a token for the log-sum-exp, and half of the outputs of 8 heads.
    """
    phase = on_dgx(MODEL, tp=16, dcp=2).decode
    assert link_bytes(phase, "query_all_gather") == LAYERS * BATCH * 4 * 128 * 2
    assert link_bytes(phase, "lse_all_gather") == LAYERS * BATCH * 8 * 4
    assert link_bytes(phase, "core/reduce_scatter") == LAYERS * BATCH * 8 * 128 * 2 / 2


def test_prompts_with_a_divided_cache() -> None:
    """A new prompt is computed as without; of a chunk what is cached is gathered from the other device, 1 head of K and V."""
    whole, divided = (on_dgx(MODEL, tp=16, dcp=size).prefill for size in (1, 2))
    assert divided.cost.matrix_flops == whole.cost.matrix_flops
    assert divided.cost.link_bytes == whole.cost.link_bytes
    assert 2 * divided.cost.kv_write_bytes == whole.cost.kv_write_bytes
    (chunk,) = roofline.analyze(MODEL, "dgx-h100", tp=16, dcp=2, segments="1x512@2048", ignore_capacity=True).phases
    assert link_bytes(chunk, "kv_all_gather") == LAYERS * 2048 * 2 * 128 * 2 / 2


def test_sizes_of_a_divided_cache_that_do_not_work() -> None:
    """8 KV heads on 8 devices are not there twice; windows, prompts divided as well, and expanded decoding are refused."""
    with pytest.raises(InputError, match="must divide the 1 tensor-parallel devices"):
        on_dgx(MODEL, tp=8, dcp=2)
    with pytest.raises(InputError, match="decode-context-parallel size 2 is not modelled for gemma"):
        on_dgx("gemma-3-12b", tp=8, dcp=2)
    with pytest.raises(InputError, match="context parallelism of prompts"):
        on_dgx(MODEL, tp=16, dcp=2, cp=2)
    with pytest.raises(InputError, match="a shared prefix"):
        on_dgx(MODEL, tp=16, dcp=2, shared_prefix=100)
    with pytest.raises(InputError, match="leave out --mla expand"):
        on_dgx("deepseek-v2-lite", tp=8, dcp=2, mla="expand")
