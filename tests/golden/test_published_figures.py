"""Figures of a published lecture on LLM inference, each computed from the shipped specs and named by its row.

Where the lecture is exact, so are we; where it rounds or mixes units, the tolerance says how much; where it takes a limit
(weight traffic alone, cache traffic alone), the limit is shown. F17 is the one figure that we dispute.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import roofline
from roofline.cost import Cost
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.predict.result import OperatorResult, Phase

LLAMA, A100 = "llama-3.1-8b", "a100-sxm-80gb"


def prefill(model: str, **options: Any) -> Phase:
    phase = roofline.analyze(model, A100, phase="prefill", ignore_capacity=True, **options).prefill
    assert phase is not None
    return phase


def decode(model: str, **options: Any) -> Phase:
    phase = roofline.analyze(model, A100, phase="decode", ignore_capacity=True, **options).decode
    assert phase is not None
    return phase


def linear(phase: Phase) -> list[OperatorResult]:
    found = [op for op in phase.operators if op.kind == "gemm"]
    assert len(found) == 5  # qkv, output, gate and up, down, LM head
    return found


def core(phase: Phase) -> Cost:
    return next(op.cost for op in phase.operators if op.path.endswith("attention/core"))


def cached(model: str, tokens: int) -> float:
    result = roofline.analyze(model, A100, context=tokens - 1, phase="decode", ignore_capacity=True)
    return result.memory.kv_bytes_per_sequence["mathematical"]


# Llama-3.1-8B


def test_F01_total_parameters() -> None:
    """Two tables of 128256 x 4096, 32 layers, 65 norms."""
    layer = 4096 * (32 + 8 + 8) * 128 + 4096 * 4096 + 3 * 4096 * 14336
    assert 2 * 128256 * 4096 + 32 * layer + 65 * 4096 == 8030261248
    assert roofline.analyze(LLAMA, A100).model["parameters"]["total"] == 8030261248


def test_F02_kv_bytes_per_token() -> None:
    """K and V of 8 heads of 128 elements in 32 layers at 2 bytes: 128 KiB."""
    assert 2 * 32 * 8 * 128 * 2 == 131072
    assert roofline.analyze(LLAMA, A100, kv_cache_dtype="fp16").memory.kv_bytes_per_token == 131072


def test_F03_kv_of_4096_tokens() -> None:
    """4096 x 128 KiB is half a GiB."""
    assert cached(LLAMA, 4096) == 536870912


def test_F04_kv_of_8192_tokens() -> None:
    """8192 x 128 KiB is one GiB."""
    assert cached(LLAMA, 8192) == 1073741824


def test_F05_kv_of_32768_tokens() -> None:
    """32768 x 128 KiB is 4 GiB."""
    assert cached(LLAMA, 32768) == 4294967296


def test_F06_kv_of_131072_tokens() -> None:
    """131072 x 128 KiB is 16 GiB."""
    assert cached(LLAMA, 131072) == 17179869184


def test_F07_kv_of_131072_tokens_over_weights() -> None:
    """16 GiB of cache against 2 x 8.03e9 bytes of weights: 1.07, which the lecture rounds to equal."""
    memory = roofline.analyze(LLAMA, A100, context=131071, phase="decode", ignore_capacity=True).memory
    assert memory.kv_bytes_per_sequence["mathematical"] / memory.weights_bytes == pytest.approx(1.0, rel=0.10)


# The roofline of the A100


def test_F08_ridge_point() -> None:
    """312 TFLOP/s over 2.0 TB/s is 156; over the datasheet's 2039 GB/s it is 153.0."""
    assert roofline.analyze(LLAMA, A100).hardware["ridge_point"] == pytest.approx(156, rel=0.025)
    assert roofline.analyze(LLAMA, A100, bandwidth="2 TB/s").hardware["ridge_point"] == 156


# Linear layers: 2*m*d_in*d_out FLOP over 2*d_in*d_out bytes of weights


@pytest.mark.parametrize("tokens", [1, 100, 1000, 4096])
def test_F09_linear_prefill_intensity(tokens: int) -> None:
    """Each weight of 2 bytes does 2 FLOP a token: p FLOP/byte of weights, which the whole approaches as layers widen."""
    for op in linear(prefill(LLAMA, input_len=tokens, logits="all")):
        assert op.cost.matrix_flops / op.cost.weight_bytes == tokens
    # With activations p*d*d*2 / (2*d*d + 2*p*2*d) = p / (1 + 2p/d), which tends to p.
    whole = [Gemm(m=tokens, n=width, k=width).cost().arithmetic_intensity / tokens for width in (10**4, 10**6, 10**8)]
    assert whole == sorted(whole)
    assert whole[-1] == pytest.approx(1, rel=1e-4)


def test_F10_linear_decode_intensity() -> None:
    """One token: 1 FLOP/byte of weights."""
    for op in linear(decode(LLAMA, context=1000)):
        assert op.cost.matrix_flops / op.cost.weight_bytes == 1


@pytest.mark.parametrize("batch", [2, 64, 156, 1000])
def test_F11_linear_decode_intensity_of_a_batch(batch: int) -> None:
    """B tokens share the weights: B FLOP/byte of weights."""
    for op in linear(decode(LLAMA, batch=batch, context=1000)):
        assert op.cost.matrix_flops / op.cost.weight_bytes == batch


def test_F12_batch_to_become_compute_bound() -> None:
    """Weights of 2 bytes reach the ridge when B equals it: 153 with the datasheet's bandwidth, 156 with 2.0 TB/s."""
    assert roofline.analyze(LLAMA, A100).limits.critical_batch_linear == pytest.approx(156, rel=0.025)
    assert roofline.analyze(LLAMA, A100, bandwidth="2 TB/s").limits.critical_batch_linear == pytest.approx(156)
    # The whole step turns later (activations), and with the caches of 4k tokens a sequence not at all.
    assert roofline.analyze(LLAMA, A100, context=0).limits.critical_batch_step > 156
    assert roofline.analyze(LLAMA, A100, context=4096).limits.critical_batch_step is None


# Attention: d = 4096 of queries, d_kv = 1024 of keys


@pytest.mark.parametrize("tokens", [1, 1000, 4096])
def test_F13_attention_prefill_intensity(tokens: int) -> None:
    """4*p^2*d FLOP over 2*(2*p*d + 2*p*d_kv) bytes (Q in, O out, K, V): p*d/(d + d_kv) = 0.8p; causal about half."""
    cost = core(prefill(LLAMA, input_len=tokens, mask="full"))
    assert cost.matrix_flops == 32 * 4 * tokens**2 * 4096
    assert cost.bytes == 32 * 2 * (2 * tokens * 4096 + 2 * tokens * 1024)
    assert cost.matrix_flops / cost.bytes == pytest.approx(0.8 * tokens, rel=1e-15)
    causal = core(prefill(LLAMA, input_len=tokens))
    assert causal.bytes == cost.bytes
    assert causal.matrix_flops / cost.matrix_flops == pytest.approx((tokens + 1) / (2 * tokens), rel=1e-15)


def test_F14_attention_decode_intensity() -> None:
    """Each key and value serves n_q/n_kv = 32/8 query heads, and a multiply-add of 2 FLOP reads 2 bytes: 4 FLOP/byte."""
    whole = []
    for context in (10, 1000, 100_000):
        cost = core(decode(LLAMA, context=context))
        assert cost.matrix_flops / cost.kv_read_bytes == 4
        whole.append(cost.matrix_flops / cost.bytes)
    assert whole == sorted(whole)
    assert whole[-1] == pytest.approx(4, rel=1e-4)  # queries and outputs no longer matter


def test_F15_attention_decode_intensity_without_groups() -> None:
    """Multi-head attention has a KV head for every query head: 1 FLOP/byte."""
    cost = core(decode("llama-2-7b", context=4000))
    assert cost.matrix_flops / cost.kv_read_bytes == 1


def test_F16_attention_intensity_does_not_batch() -> None:
    """Every sequence brings a cache of its own, so n_q/n_kv = 4 at any batch; what is shared is read once, and does."""
    for batch in (1, 7, 64, 1024):
        cost = core(decode(LLAMA, batch=batch, context=2047))
        assert cost.matrix_flops / cost.kv_read_bytes == 4
    shared = core(decode(LLAMA, batch=64, context=2047, shared_prefix=1024))
    assert shared.matrix_flops / shared.kv_read_bytes == 4 * 64 * 2048 / (1024 + 64 * 1024)


# Norms


def test_F17_norm_intensity_is_disputed() -> None:
    """Not 4: RMSNorm does 4 FLOP an element and moves 2 + 2 bytes, 1 FLOP/byte; with the residual 5 FLOP and 8 bytes."""
    wide = 10**9  # tokens: the weight, read once, no longer matters
    alone, fused = Norm(rows=wide, width=4096).cost(), Norm(rows=wide, width=4096, adds=1).cost()
    assert alone.vector_flops == 4 * wide * 4096  # square, accumulate, scale, weight
    assert alone.activation_bytes == (2 + 2) * wide * 4096  # x in, y out
    assert fused.activation_bytes == (2 + 2 + 2 + 2) * wide * 4096  # stream and addend in, stream and y out
    assert alone.arithmetic_intensity == pytest.approx(1, rel=1e-8)
    assert fused.arithmetic_intensity == pytest.approx(5 / 8, rel=1e-8)
    for phase in (prefill(LLAMA, input_len=4096), decode(LLAMA, batch=64, context=4096)):
        norms = [op for op in phase.operators if op.kind == "norm"]
        assert len(norms) == 3
        assert {op.times.bound_by for op in norms} == {"memory"}  # either way


# Decode and batching


def test_F18_utilisation_of_the_peak_at_decode() -> None:
    """1 FLOP/byte on a machine of 156: 0.0064 of the peak, below the lecture's 1 %."""
    found = linear(decode(LLAMA))
    used = sum(op.times.matrix for op in found) / sum(op.time.bound for op in found)
    assert used == pytest.approx(0.0064, rel=0.05)
    assert used < 0.01


def test_F19_concurrent_sequences() -> None:
    """(80 GiB - 16.06e9)/(0.5 GiB) = 130.1 caches; (80e9 - 16.06e9)/(0.5 GiB) = 119.1; the lecture divides GB by GiB."""
    options = {"context": 4095, "phase": "decode", "gpu_memory_utilization": 1}
    assert roofline.analyze(LLAMA, A100, memory="80 GiB", **options).memory.max_batch == pytest.approx(128, rel=0.05)
    assert roofline.analyze(LLAMA, A100, memory="80 GiB", **options).memory.max_batch == 130
    assert roofline.analyze(LLAMA, A100, memory="80 GB", **options).memory.max_batch == 119


# Mixture of experts, sliding windows, latents


def parameters(model: str) -> dict[str, int]:
    found: dict[str, int] = roofline.analyze(model, A100, ignore_capacity=True).model["parameters"]
    return found


def test_F20_mixtral_total_parameters() -> None:
    """Two tables of 32000 x 4096; per layer attention, 8 experts, a router of 4096 x 8, two norms."""
    layer = 4096 * (32 + 8 + 8) * 128 + 4096 * 4096 + 8 * 3 * 4096 * 14336 + 4096 * 8 + 2 * 4096
    assert 2 * 32000 * 4096 + 32 * layer + 4096 == 46702792704
    assert parameters("mixtral-8x7b")["total"] == 46702792704


def test_F21_mixtral_active_parameters() -> None:
    """The total less 6 of the 8 experts of each layer; the embedding counts."""
    assert 46702792704 - 32 * 6 * 3 * 4096 * 14336 == 12879925248
    assert parameters("mixtral-8x7b")["active"] == 12879925248


def test_F22_deepseek_v2_total_parameters() -> None:
    """Every matrix of the configuration: MLA of 128 heads, one dense layer, 59 of 160 experts and 2 shared ones."""
    mla = 5120 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 5120 + 1536 + 512  # and two norms
    dense, moe = 3 * 5120 * 12288, (160 + 2) * 3 * 5120 * 1536 + 5120 * 160
    assert 2 * 102400 * 5120 + 60 * (mla + 2 * 5120) + dense + 59 * moe + 5120 == 235741434880
    assert parameters("deepseek-v2")["total"] == 235741434880


def test_F23_deepseek_v2_active_parameters() -> None:
    """The total less 154 of the 160 routed experts of 59 layers is 21.4e9; the lecture says 21e9."""
    assert parameters("deepseek-v2")["active"] == 235741434880 - 59 * 154 * 3 * 5120 * 1536
    assert parameters("deepseek-v2")["active"] == pytest.approx(21e9, rel=0.03)


@pytest.mark.parametrize(("heads", "share"), [(32, 1), (8, 1 / 4), (1, 1 / 32)])
def test_F24_kv_relative_to_multi_head(heads: int, share: float) -> None:
    """The cache is as large as there are KV heads: 32, 8 and 1 of them for 32 query heads."""
    model = roofline.load_model(LLAMA)
    decoder = model.layer_types["decoder"]
    sizes = {}
    for number in (32, heads):
        mixer = decoder.mixer.model_copy(update={"num_key_value_heads": number})
        changed = model.model_copy(update={"layer_types": {"decoder": decoder.model_copy(update={"mixer": mixer})}})
        sizes[number] = roofline.analyze(changed, A100).memory.kv_bytes_per_token
    assert sizes[heads] / sizes[32] == share


def test_F25_sliding_window_bounds_the_cache() -> None:
    """Mistral 7B keeps min(s, 4096) tokens; in blocks of 16, a sequence of 4090 takes 4096."""
    token = 2 * 32 * 8 * 128 * 2
    for length in (1, 4095, 4096, 4097, 32768):
        assert cached("mistral-7b-v0.1", length) == min(length, 4096) * token
    memory = roofline.analyze("mistral-7b-v0.1", A100, context=4089, phase="decode", block_size=16).memory
    assert memory.kv_bytes_per_sequence == {"mathematical": 4090 * token, "allocated": 4096 * token}


def test_F26_latent_cache() -> None:
    """A latent of 512 and a rotated key of 64 at 2 bytes in each of 60 layers."""
    result = roofline.analyze("deepseek-v2", A100, ignore_capacity=True)
    assert result.memory.kv_bytes_per_token == 576 * 2 * 60
    # K and V of 128 heads of 128, had the model multi-head attention, would be 56.9 times as much, not the lecture's 5.
    assert 2 * 128 * 128 * 2 * 60 / result.memory.kv_bytes_per_token == pytest.approx(56.9, abs=0.05)


def test_F27_floor_of_decode_latency() -> None:
    """15.01e9 bytes of streamed weights (not the embedding table) over 2.039e12 byte/s: 7.36 ms."""
    milliseconds = 2 * (8030261248 - 128256 * 4096) / 2.039e12 * 1e3
    assert milliseconds == pytest.approx(7.36, rel=0.005)
    phase = decode(LLAMA, context=0)
    assert phase.cost.weight_bytes / 2.039e12 * 1e3 == pytest.approx(7.36, rel=0.005)
    assert phase.time.bound * 1e3 == pytest.approx(7.36, rel=0.005)
    assert phase.time.bound > phase.cost.weight_bytes / 2.039e12


# Completeness

SETTLED = {"exact", "exact in the limit", "approximate", "derived", "disputed"}
TESTS = {match[1]: test for name, test in list(globals().items()) if (match := re.match(r"test_(F\d+)_", name))}


def test_every_settled_row_has_a_test(published: list[dict[str, str]]) -> None:
    """A row whose verdict is a number that can be checked is checked here; so is the one that is disputed."""
    wanted = {row["id"] for row in published if row["verdict"] in SETTLED}
    assert len(wanted) >= 27
    assert wanted - set(TESTS) == set()


def test_published_numbers_stand_in_their_tests(published: list[dict[str, str]]) -> None:
    """A number that is corrected in the table is corrected here too."""
    for row in published:
        if row["verdict"] in SETTLED - {"disputed"} and re.fullmatch(r"[\d.e*]+", row["published"]):
            source = re.sub(r"[ _]", "", inspect.getsource(TESTS[row["id"]]))
            assert re.search(rf"(?<![\d.]){re.escape(row['published'])}(?!\d|\.\d)", source), row["id"]
