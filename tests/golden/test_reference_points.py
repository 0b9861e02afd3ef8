"""Whole models at a few points on an A100 SXM 80GB: FLOP to the last one, times and batches as worked out by hand.

The times were computed outside this project. Between two calculators the matrix products, the weights and the cache
agree; what element-wise traffic is fused with what differs, and gives the tolerances. Every time is also held between
what the large terms alone take, worked out here from the configuration, and a few percent more.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.predict.result import Analysis

A100 = "a100-sxm-80gb"
PEAK, BANDWIDTH = 312e12, 2039e9  # dense bf16 FLOP/s and byte/s of its datasheet

# Llama-3.1-8B: 32 layers, width 4096, 32 query heads and 8 KV heads of 128, SwiGLU of 14336, 128256 tokens.
LAYERS, WIDTH, VOCABULARY = 32, 4096, 128256
LAYER = (
    4096 * (32 + 8 + 8) * 128  # Q, K, V
    + 32 * 128 * 4096  # output
    + 3 * 4096 * 14336  # gate, up, down
)
HEAD = WIDTH * VOCABULARY
KV_TOKEN = LAYERS * 2 * 8 * 128 * 2  # bytes: K and V of 8 heads of 128 elements at 2 bytes = 128 KiB


def at(model: str, **options: Any) -> Analysis:
    return roofline.analyze(model, A100, ignore_capacity=True, **options)


@pytest.mark.parametrize(("prompt", "flop"), [(1024, 14_569_848_176_640), (4096, 61_574_775_570_432)])
def test_llama_prefill_flop(prompt: int, flop: int) -> None:
    """Two FLOP a weight and token, the LM head on the last token, 4 x width a pair that the causal mask lets through."""
    linear = 2 * LAYERS * LAYER * prompt
    head = 2 * HEAD
    pairs = prompt * (prompt + 1) // 2
    attention = LAYERS * 4 * WIDTH * pairs  # q.k and p.v: 2 FLOP each for 32 x 128 = 4096 elements
    assert linear + head + attention == flop
    assert at("llama-3.1-8b", input_len=prompt, phase="prefill").prefill.cost.matrix_flops == flop


@pytest.mark.parametrize(("batch", "flop"), [(1, 17_156_800_512), (32, 549_017_616_384), (128, 2_196_070_465_536)])
def test_llama_decode_flop(batch: int, flop: int) -> None:
    """After 4095 cached tokens the new one sees 4096 keys, itself included; everything scales with the batch."""
    sequence = 2 * (LAYERS * LAYER + HEAD) + LAYERS * 4 * WIDTH * 4096
    assert batch * sequence == flop
    assert at("llama-3.1-8b", batch=batch, context=4095, phase="decode").decode.cost.matrix_flops == flop


@pytest.mark.parametrize(("prompt", "milliseconds"), [(1024, 49.39), (4096, 206.59)])
def test_llama_prefill_time(prompt: int, milliseconds: float) -> None:
    """A prompt binds compute: the products at peak, and up to 10 % more for what is element-wise."""
    phase = at("llama-3.1-8b", input_len=prompt, phase="prefill").prefill
    assert phase.time.bound * 1e3 == pytest.approx(milliseconds, rel=0.03)
    assert phase.bound_by == "compute"
    assert phase.cost.matrix_flops / PEAK < phase.time.bound < 1.10 * phase.cost.matrix_flops / PEAK


@pytest.mark.parametrize(("batch", "milliseconds"), [(1, 7.629), (32, 15.94), (128, 41.67)])
def test_llama_decode_time(batch: int, milliseconds: float) -> None:
    """Decode streams the weights once and the cache of every sequence; 2 % more for activations at most."""
    phase = at("llama-3.1-8b", batch=batch, context=4095, phase="decode").decode
    streamed = 2 * (LAYERS * LAYER + HEAD) + batch * 4096 * KV_TOKEN
    assert phase.time.bound * 1e3 == pytest.approx(milliseconds, rel=0.01)
    assert phase.bound_by == "memory"
    assert streamed / BANDWIDTH < phase.time.bound < 1.02 * streamed / BANDWIDTH


def test_llama_batch_128_does_not_fit() -> None:
    """64 GiB of cache and 15 GiB of weights are more than 0.9 of 80 GiB: the answer is no, and there are no times."""
    weights = 2 * (LAYERS * (LAYER + 2 * WIDTH) + WIDTH + 2 * HEAD)  # two norms a layer and one at the end; two tables
    assert weights + 128 * 4096 * KV_TOKEN > 0.9 * 80 * 2**30
    result = roofline.analyze("llama-3.1-8b", A100, batch=128, context=4095)
    assert result.memory.weights_bytes == weights
    assert not result.memory.fits
    for phase in result.phases:
        assert (phase.time.bound, phase.time.sum, phase.tokens_per_s.bound, phase.mfu, phase.mbu) == (None,) * 5
    shown = result.to_dict()["phases"][1]
    assert shown["time_s"] == dict.fromkeys(("floor", "bound", "sum", "estimate", "low", "high"))
    assert shown["flops"]["matrix"] == 2_196_070_465_536  # what is counted needs no memory


def test_llama_batch_128_is_timed_on_demand() -> None:
    """With `ignore_capacity` the times come, and the answer about memory stays."""
    result = at("llama-3.1-8b", batch=128, context=4095)
    assert not result.memory.fits
    assert all(phase.time.bound > 0 for phase in result.phases)


def test_llama_max_batch_with_all_of_80_gib() -> None:
    """130 sequences of 4096 tokens: 80 GiB less the weights is 130.08 caches of half a GiB, and a bit for activations."""
    weights = 2 * 8_030_261_248
    sequence = 4096 * KV_TOKEN
    assert sequence == 2**29
    free = 80 * 2**30 - weights
    # While the LM head runs: stream, its input and the logits of 130 sequences, at 2 bytes.
    activations = 2 * 130 * (WIDTH + WIDTH + VOCABULARY)
    assert 130 * sequence + activations <= free < 131 * sequence
    options = {"memory": "80 GiB", "gpu_memory_utilization": 1, "reserve": 0}
    result = roofline.analyze("llama-3.1-8b", A100, context=4095, phase="decode", **options)
    assert result.memory.max_batch == 130
    full = roofline.analyze("llama-3.1-8b", A100, batch=130, context=4095, phase="decode", **options)
    assert full.memory.fits
    assert full.memory.activation_bytes == activations


# Mixtral 8x7B: the attention of Llama-3.1-8B, 8 experts of 14336 of which a token meets 2, 32000 tokens.
MIXTRAL_ATTENTION = 4096 * (32 + 8 + 8) * 128 + 32 * 128 * 4096
MIXTRAL_EXPERT = 3 * 4096 * 14336
MIXTRAL_HEAD = 4096 * 32000


def test_mixtral_prefill_time() -> None:
    """1024 tokens meet every expert: products at peak are most of the time."""
    phase = at("mixtral-8x7b", input_len=1024, phase="prefill").prefill
    assert phase.time.bound * 1e3 == pytest.approx(87.5, rel=0.03)
    linear = 2 * 1024 * 32 * (MIXTRAL_ATTENTION + 2 * MIXTRAL_EXPERT + 4096 * 8)  # the router is 4096 x 8
    attention = 32 * 4 * 4096 * 1024 * 1025 // 2
    assert phase.cost.matrix_flops == linear + attention + 2 * MIXTRAL_HEAD
    assert phase.time.bound > phase.cost.matrix_flops / PEAK


@pytest.mark.parametrize(("batch", "milliseconds"), [(1, 12.78), (8, 43.4), (32, 54.3), (128, 80.4)])
def test_mixtral_decode_time(batch: int, milliseconds: float) -> None:
    """The weights of 8(1 - (3/4)^B) experts, which B tokens with 2 of 8 each meet on average; 2 % for activations."""
    phase = at("mixtral-8x7b", batch=batch, context=4095, phase="decode").decode
    experts = 8 * (1 - 0.75**batch)
    streamed = 2 * (32 * (MIXTRAL_ATTENTION + experts * MIXTRAL_EXPERT) + MIXTRAL_HEAD) + batch * 4096 * KV_TOKEN
    assert phase.time.bound * 1e3 == pytest.approx(milliseconds, rel=0.01)
    assert streamed / BANDWIDTH < phase.time.bound < 1.02 * streamed / BANDWIDTH


# DeepSeek-V3: 61 layers of width 7168, the first 3 dense of 18432; 256 experts of 2048, 8 a token, and one shared; MLA of
# 128 heads (128 not rotated + 64 rotated, values 128), ranks 1536 and 512; 129280 tokens.
DEEPSEEK_ATTENTION = 7168 * (1536 + 512 + 64) + 1536 * 128 * (128 + 64) + 512 * 128 * (128 + 128) + 128 * 128 * 7168
DEEPSEEK_EXPERT = 3 * 7168 * 2048
DEEPSEEK_ALWAYS = 61 * DEEPSEEK_ATTENTION + 3 * (3 * 7168 * 18432) + 58 * (DEEPSEEK_EXPERT + 7168 * 256) + 7168 * 129280


@pytest.mark.parametrize(("batch", "milliseconds"), [(1, 36.2), (32, 433), (128, 678)])
def test_deepseek_decode_time(batch: int, milliseconds: float) -> None:
    """Weights in bf16 of 256(1 - (1 - 8/256)^B) experts; absorbed attention does 242 FLOP a byte of latents: compute."""
    phase = at("deepseek-v3", dtype="bf16", batch=batch, context=4095, phase="decode").decode
    weights = 2 * (DEEPSEEK_ALWAYS + 58 * 256 * (1 - (1 - 8 / 256) ** batch) * DEEPSEEK_EXPERT)
    core = 61 * batch * 4096 * 128 * 2 * ((512 + 64) + 512)  # FLOP: scores over latent and rotated key, values over the latent
    assert core / (61 * batch * 4096 * (512 + 64) * 2) > PEAK / BANDWIDTH
    floor = weights / BANDWIDTH + core / PEAK
    assert phase.time.bound * 1e3 == pytest.approx(milliseconds, rel=0.02)
    assert floor < phase.time.bound < 1.02 * floor


def test_deepseek_prefill_time() -> None:
    """1024 tokens read all the experts but do not keep the matrix units busy: 642 ms of weights, and the rest."""
    phase = at("deepseek-v3", dtype="bf16", input_len=1024, phase="prefill").prefill
    experts = 2 * 58 * 256 * DEEPSEEK_EXPERT  # bytes; (1 - 8/256)^1024 misses none
    assert experts / BANDWIDTH == pytest.approx(0.642, rel=0.002)
    assert 0.747 < phase.time.bound < 0.780
