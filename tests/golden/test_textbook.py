"""84 problems of textbooks and papers on LLM inference, each with its published value and the call that answers it.

Problems of training, of meshes and of algebra without a kernel are `OUTSIDE`; docs/not-modelled.md names them. A tolerance is
the rounding of the source, or a difference of convention that the comment states.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import roofline

BOOK = "https://jax-ml.github.io/scaling-book"
SOURCES = {
    range(1, 11): f"{BOOK}/roofline",
    range(11, 21): f"{BOOK}/transformers",
    range(21, 30): f"{BOOK}/inference",
    range(30, 46): f"{BOOK}/applied-inference",
    range(46, 47): f"{BOOK}/applied-inference",
    range(47, 59): "https://kipp.ly/transformer-inference-arithmetic/",
    range(59, 67): "https://www.baseten.co/blog/llm-transformer-inference-guide/",
    range(67, 75): "https://www.tensoreconomics.com/p/llm-inference-economics-from-first",
    range(75, 81): "https://arxiv.org/abs/2412.19437",
    range(81, 82): "https://arxiv.org/abs/2309.06180",
    range(82, 84): "https://arxiv.org/abs/2211.05102",
    range(84, 85): "https://arxiv.org/abs/2402.16363",
}
"""Where each problem is published, by number."""
OUTSIDE = {
    6: "where to cut a product over two chips: algebra of meshes",
    14: "FLOP of a product as a formula of a mesh",
    15: "FLOP of an einsum",
    19: "rematerialisation in training",
    20: "MFU of a training run",
    29: "two-dimensional layouts of weights",
    43: "evictions per step of a policy of one's own",
    58: "FLOP per byte of a link, without an operator",
}
"""Problems that no command answers, and why."""
V5E, H100, A100 = "tpu-v5e", "h100-sxm", "a100-sxm-80gb"
DENSE_70B = "llama-3.1-70b"


def value(model: str, quantity: str, hardware: str | None = None, **options: Any) -> float:
    """The value of a quantity of `explain`."""
    return float(roofline.explain(model, quantity, hardware=hardware, **options).value)


def step(model: str, hardware: str, phase: str = "decode", **options: Any) -> Any:
    """A step, whether it fits or not."""
    return getattr(roofline.analyze(model, hardware, phase=phase, ignore_capacity=True, **options), phase)


def operator(kind: str, **dimensions: Any) -> dict[str, Any]:
    """One operator on a device, as JSON has it."""
    return roofline.op(kind, **dimensions).to_dict()


def near(published: float, rel: float = 0.005) -> Any:
    return pytest.approx(published, rel=rel)


def model_file(folder: Path, *, vocab: int, tied: bool, heads: tuple[int, int, int], inner: int, **more: Any) -> str:
    """A dense model of 64 layers and width 4,096, as a file."""
    mlp = more.get("mlp", f"{{kind: gated_mlp, intermediate_size: {inner}}}")
    width, layers = more.get("width", 4096), more.get("layers", 64)
    path = folder / "textbook.yaml"
    path.write_text(
        f"""\
schema_version: 1
name: textbook
title: A model of a textbook
hidden_size: {width}
vocab_size: {vocab}
max_position_embeddings: 131072
tie_word_embeddings: {str(tied).lower()}
layer_types:
  decoder:
    mixer: {{kind: gqa, num_attention_heads: {heads[0]}, num_key_value_heads: {heads[1]}, head_dim: {heads[2]}}}
    mlp: {mlp}
layers:
  - {{pattern: [decoder], repeat: {layers}}}
""",
        encoding="utf-8",
    )
    return str(path)


@pytest.fixture
def chapter_4(tmp_path: Path) -> str:
    """D 4,096, F 4D, V 32,000, L 64, heads of 128."""
    return model_file(tmp_path, vocab=32000, tied=False, heads=(32, 32, 128), inner=16384)


@pytest.fixture
def chapter_7(tmp_path: Path) -> str:
    """L 64, D 4,096, F 16,384, N 32, K 8, H 256, V 32,128."""
    return model_file(tmp_path, vocab=32128, tied=True, heads=(32, 8, 256), inner=16384)


# One operator on a device


def test_P01_a_tera_flop() -> None:
    """1e12 FLOP on an H100: 1.01 ms, as one product of 8,192 x 8,192 x 7,450."""
    product = operator("gemm", m=8192, n=8192, k=7450, hardware=H100)
    assert product["flops"]["matrix"] == near(1e12)
    assert product["time_s"]["bound"] == near(1.01e-3)


def test_P02_P03_ridge_and_critical_batch() -> None:
    """240 tokens on v5e in bf16."""
    assert value("llama-3.1-8b", "ridge_point", V5E) == near(240)
    assert value("llama-3.1-8b", "critical_batch", V5E) == near(240)


def test_P04_dot_product() -> None:
    """N multiply-adds over 2N elements of two bytes: 1/2 FLOP per byte."""
    assert operator("gemm", m=1, n=1, k=4096, hardware=V5E)["matrix_intensity"] == near(1 / 2)


def test_P05_intensity_of_a_product() -> None:
    """BDF/(BD + DF + BF), in bf16."""
    b, d, f = 128, 4096, 8192
    assert operator("gemm", m=b, n=f, k=d, hardware=V5E)["matrix_intensity"] == near(b * d * f / (b * d + d * f + b * f), 1e-9)


def test_P07_product_in_int8() -> None:
    """243 tokens with 8.1e11 B/s."""
    assert value("llama-3.1-8b", "critical_batch", V5E, dtype="int8", bandwidth="810 GB/s") == near(243, 2e-3)


def test_P08_weights_of_8_bits_and_products_of_16() -> None:
    """120 tokens on v5e: half the bytes, the same FLOP/s. With the scales of W8A16 a few more."""
    assert value("llama-3.1-8b", "critical_batch", V5E, dtype="int8", activation_dtype="bf16") == near(120)
    assert value("llama-3.1-8b", "critical_batch", V5E, quantization="w8a16") == near(120, 0.08)


def test_P09_a_matrix_for_each_batch_element() -> None:
    """Two FLOP per byte of a matrix in int8, whatever the batch."""
    for batch in (1, 64):
        product = operator("gemm", m=1, n=4096, k=4096, batch=batch, hardware=V5E, dtype="int8")
        assert product["matrix_intensity"] == near(2)


def test_P10_critical_batch_of_an_h100() -> None:
    """298 with 990 TFLOP/s over 3.35e12; the datasheet has 989.4."""
    assert value("llama-3.1-8b", "critical_batch", H100) == near(298, 0.01)


def test_P16_decode_attention() -> None:
    """Its intensity is the number of query heads that share a KV head: 4."""
    assert operator("attention", q_len=1, kv_len=8192, heads=32, kv_heads=8, head_dim=128, hardware=H100)[
        "matrix_intensity"
    ] == near(4)


def test_P17_prefill_attention() -> None:
    """T·G/(G + 1) = 6,554 for 8,192 tokens and every pair."""
    full = step("llama-3.1-8b", H100, "prefill", input_len=8192, mask="full")
    core = next(op for op in full.operators if op.path.endswith("attention/core"))
    assert core.cost.matrix_flops / core.cost.bytes == near(8192 * 4 / 5, 1e-3)


def test_P40_one_product_of_a_layer() -> None:
    """A layer's weights at TP 32 and batch 64: 18 us from memory in int8 on v5e (book: 18); links 11 us both ways."""
    decode = step(DENSE_70B, V5E, tp=32, dtype="int8", activation_dtype="bf16", batch=64)
    weights = decode.cost.weight_bytes / 80 / 819e9
    assert weights == near(32e-6, 0.15)  # 70e9 / 80 / 32 / 8.1e11 = 34 us: the book counts the MLP alone, 18 us
    mlp = sum(op.cost.weight_bytes for op in decode.operators if "/mlp/" in op.path) / 80 / 819e9
    assert mlp == near(18e-6 * 1.5, 0.05)  # three matrices, of which the book has two


# Sizes of models


def test_P11_P12_P13_a_model_of_64_layers(chapter_4: str) -> None:
    """16D² a layer: 17.4e9 parameters (16e9 where D is taken as 4e3), a quarter of them attention, 512 kB of int8 a token."""
    total = 64 * (3 * 4096 * 16384 + 4 * 4096**2) + 2 * 32000 * 4096 + 129 * 4096
    assert value(chapter_4, "parameters") == total
    assert total == near(17.4e9)
    assert 64 * 4 * 4096**2 / total == near(1 / 4, 0.02)
    assert value(chapter_4, "kv_bytes_per_token", kv_cache_dtype="int8") == 512 * 1024


def test_P18_projections_and_attention_equal() -> None:
    """FLOP of Q, K, V, O and of attention are equal at T = 2D where every pair counts and every head has its own K and V."""
    prefill = step("llama-2-7b", A100, "prefill", input_len=8192, mask="full")
    flops = {op.path.rsplit("/", 1)[-1]: op.cost.matrix_flops for op in prefill.operators if "attention" in op.path}
    assert flops["core"] == flops["qkv_proj"] + flops["o_proj"]


def test_P21_P23_chapter_7(chapter_7: str) -> None:
    """18.4e9 parameters; their bytes in int8 pass in 1.4 ms on 16 v5e."""
    assert value(chapter_7, "parameters") == near(18.4e9, 2e-3)
    shared = step(chapter_7, V5E, tp=16, decode_context_parallel_size=2, dtype="int8", batch=1)
    assert shared.cost.weight_bytes / 819e9 == near(1.4e-3, 0.08)  # two devices hold each KV head


def test_P22_sequences_with_a_sharded_cache(chapter_7: str) -> None:
    """Seven sequences of 128k on 16 v5e with the cache over all of them; three where each KV head is held twice."""
    options: dict[str, Any] = {"tp": 16, "dtype": "int8", "kv_cache_dtype": "int8", "gpu_memory_utilization": 1}
    held = {
        dcp: roofline.analyze(
            chapter_7, V5E, context=131071, phase="decode", ignore_capacity=True, decode_context_parallel_size=dcp, **options
        ).memory.max_batch
        for dcp in (1, 2)
    }
    assert held[2] == pytest.approx(7, abs=1)  # the book keeps nothing for activations
    assert held[1] == held[2] // 2


@pytest.fixture
def experts_16(tmp_path: Path) -> str:
    """The model of chapter 7 with 16 experts, of which each token takes two."""
    mlp = "{kind: moe, num_experts: 16, num_experts_per_tok: 2, moe_intermediate_size: 16384}"
    return model_file(tmp_path, vocab=32128, tied=True, heads=(32, 8, 256), inner=16384, mlp=mlp)


def test_P24_P26_experts(experts_16: str) -> None:
    """212e9 parameters, of which a token uses 31.2e9: 2·31.2e9 FLOP."""
    total = roofline.analyze(experts_16, V5E, ignore_capacity=True).model["parameters"]
    assert (total["total"], total["active"]) == (near(212e9), near(31.2e9))
    linear = step(experts_16, V5E, "prefill", input_len=1024)
    products = sum(op.cost.matrix_flops for op in linear.operators if op.path.split("/")[-1] not in ("core", "lm_head"))
    assert products / 1024 == near(2 * (31.2e9 - 32128 * 4096), 0.01)


def test_P25_critical_batch_of_experts() -> None:
    """240·E/k = 1,920 tokens: an expert has 240 rows when all have E/k times as many."""
    grouped = operator("experts", tokens=1920, num_experts=16, top_k=2, hidden_size=4096, intermediate_size=16384, hardware=V5E)
    less = operator("experts", tokens=960, num_experts=16, top_k=2, hidden_size=4096, intermediate_size=16384, hardware=V5E)
    assert less["bound_by"] == "memory"
    assert grouped["matrix_intensity"] == near(240, 0.15)  # activations count as well


def test_P27_P28_experts_over_16_and_their_matrices_over_8(experts_16: str) -> None:
    """EP 16 x TP 8: a 128th of the experts' weights on each device, 2.3 GB with attention's eighth."""
    memory = roofline.analyze(
        experts_16, V5E, tp=8, dp=16, ep=16, moe_tp=8, dtype="int8", batch=16, ignore_capacity=True
    ).memory
    attention = 64 * (2 * 4096 * 32 * 256 + 2 * 4096 * 8 * 256)
    experts = 64 * 16 * 3 * 4096 * 16384
    assert memory.weights_bytes == near(experts / 128 + attention / 8 + 32128 * 4096 / 8, 0.02)
    assert roofline.analyze(experts_16, V5E, tp=16, dtype="int8", ignore_capacity=True).memory.fits  # a slice of 4 x 4


# Llama 70B on v5e


def test_P30_P31_cache_and_weights() -> None:
    """160 kB of int8 a token; 112 GB with 32 sequences of 8,192 (70e9 and 2^13·32·160e3)."""
    assert value(DENSE_70B, "kv_bytes_per_token", kv_cache_dtype="int8") == 160 * 1024
    weights, cached = value(DENSE_70B, "parameters"), 32 * 8192 * 160 * 1024
    assert weights + cached == near(112e9, 0.02)


def test_P32_to_P34_slices() -> None:
    """It fits a slice of 4 x 2 exactly; a step takes 17 ms there, and 8.5 on 4 x 4 with the cache over all devices."""
    options: dict[str, Any] = {
        "dtype": "int8", "activation_dtype": "bf16", "kv_cache_dtype": "int8", "batch": 32, "context": 8191,
        "gpu_memory_utilization": 1,
    }  # fmt: skip
    eight = roofline.analyze(DENSE_70B, V5E, tp=8, phase="decode", **options)
    assert eight.memory.fits
    assert eight.decode is not None
    assert eight.decode.time.floor == near(17e-3, 0.03)
    sixteen = step(DENSE_70B, V5E, tp=16, decode_context_parallel_size=2, **options)
    assert sixteen.time.floor == near(8.5e-3, 0.05)


@pytest.mark.parametrize(
    ("devices", "sequences", "options"),
    [(16, 43, {}), (8, 43, {"dtype": "int8", "activation_dtype": "bf16"})],
)
def test_P35_to_P37_sequences_of_8192(devices: int, sequences: int, options: dict[str, Any]) -> None:
    """16 devices in bf16, 8 in int8; (HBM - weights) / 1.34 GB sequences. The book's 52 and 67 contradict its own formula."""
    memory = roofline.analyze(
        DENSE_70B, V5E, tp=devices, context=8191, phase="decode", kv_cache_dtype="int8", gpu_memory_utilization=1,
        decode_context_parallel_size=max(devices // 8, 1), ignore_capacity=True, **options,
    ).memory  # fmt: skip
    hbm = devices * 16e9
    weights = value(DENSE_70B, "parameters") * (1 if options else 2)
    assert (hbm - weights) // (8192 * 160 * 1024) == pytest.approx(sequences * (2 if not options else 1), abs=4)
    assert memory.max_batch == pytest.approx((hbm - weights) / (8192 * 160 * 1024), abs=4)


def test_P38_a_step_at_full_memory() -> None:
    """All of 16 GB in 819 GB/s: 19 ms."""
    full = step(
        DENSE_70B, V5E, tp=8, dtype="int8", activation_dtype="bf16", kv_cache_dtype="int8", batch=42, context=8191,
        gpu_memory_utilization=1,
    )  # fmt: skip
    assert (full.cost.weight_bytes + full.cost.kv_read_bytes) / 819e9 == near(19e-3, 0.05)


def test_P39_requests_per_second() -> None:
    """43 sequences of 512 output tokens at 19 ms: 43 / (512 · 0.019) / 16 = 0.27 per chip, decode alone."""
    rate = value(
        DENSE_70B, "requests_per_s bound", V5E, tp=16, batch=43, input_len=8192, output_len=512, kv_cache_dtype="int8",
        decode_context_parallel_size=2, gpu_memory_utilization=1,
    )  # fmt: skip
    result = roofline.analyze(
        DENSE_70B, V5E, tp=16, batch=43, input_len=8192, output_len=512, kv_cache_dtype="int8",
        decode_context_parallel_size=2, gpu_memory_utilization=1, ignore_capacity=True,
    )  # fmt: skip
    assert result.request is not None
    assert rate == near(43 / (result.request.e2e_s.bound or 0.0), 1e-9)
    decode_alone = 43 / (512 * (result.request.tpot_s.floor or 0.0)) / 16
    assert 0.27 < decode_alone < 0.27 * 19 / 14  # the book's step passes all of memory, ours what 43 sequences hold


def test_P41_most_useful_tensor_parallelism() -> None:
    """Links of a layer take as long as its weights where TP is N·F·W/(2·B·D·β)-like; the quantity has its formula."""
    explanation = roofline.explain(
        DENSE_70B, "critical_tp", hardware=V5E, tp=16, batch=64, dtype="int8", activation_dtype="bf16"
    )
    fewer = roofline.explain(DENSE_70B, "critical_tp", hardware=V5E, tp=16, batch=240, dtype="int8", activation_dtype="bf16")
    assert 1 < float(fewer.value) < float(explanation.value)
    assert explanation.formula


def test_P42_prompt_at_an_mfu() -> None:
    """8,192 tokens on 16 chips at 40 % MFU: 2·70e9·8192 / (16·197e12·0.4) = 0.91 s; here attention's FLOP and the links too."""
    time = step(DENSE_70B, V5E, "prefill", tp=16, input_len=8192, mfu=0.4, mbu=1).time.estimate
    assert 0.91 < time < 1.4


def test_P44_prefill_and_decode_servers() -> None:
    """Three prefill servers for each decode server of 512 output tokens; more here, where a prompt has attention and links."""
    options: dict[str, Any] = {"tp": 16, "kv_cache_dtype": "int8", "gpu_memory_utilization": 1}
    prompt = step(DENSE_70B, V5E, "prefill", input_len=8192, mfu=0.4, mbu=1, **options).time.estimate
    decode = step(DENSE_70B, V5E, batch=43, context=8191, decode_context_parallel_size=2, **options).time.floor
    assert 3 < prompt / (512 * decode / 43) < 8


def test_P45_flop_of_405b(tmp_path: Path) -> None:
    """2·405e9 FLOP a token."""
    large = model_file(tmp_path, vocab=128256, tied=False, heads=(128, 8, 128), inner=53248, width=16384, layers=126)
    assert value(large, "parameters") == near(405e9, 3e-3)
    one = step(large, H100, "prefill", input_len=1)
    assert one.cost.matrix_flops == near(2 * 405e9, 0.01)


def test_P46_batch_240() -> None:
    """8 GB of int8 weights, and 129 GB of cache for 240 sequences of 8,192 tokens of 65,536 B."""
    memory = roofline.analyze("llama-3.1-8b", V5E, dtype="int8", kv_cache_dtype="int8", ignore_capacity=True).memory
    assert memory.weights_bytes == near(8.03e9)
    assert 240 * 8192 * memory.kv_bytes_per_token == near(129e9)


# kipply: a model of 52 B parameters (64 layers, width 8,192) on A100 40 GB with 1.5 TB/s


@pytest.fixture
def model_52b(tmp_path: Path) -> str:
    """64 layers, width 8,192, 64 heads of 128, ungated feed-forward of four times the width."""
    return model_file(
        tmp_path, vocab=51200, tied=True, heads=(64, 64, 128), inner=32768, width=8192,
        mlp="{kind: mlp, intermediate_size: 32768}",
    )  # fmt: skip


def test_P47_to_P50_kipply(model_52b: str) -> None:
    """208 tokens; 69 ms for the weights on one device, 17 on four; 2,097,152 B a token."""
    assert value(model_52b, "ridge_point", A100, bandwidth="1.5 TB/s") == near(208)
    weights = 12 * 64 * 8192**2 * 2
    assert weights / 1.5e12 == near(69e-3, 0.01)
    one = step(model_52b, A100, bandwidth="1.5 TB/s", context=1)
    four = step(model_52b, A100, bandwidth="1.5 TB/s", tp=4, context=1)
    assert one.cost.weight_bytes / 1.5e12 == near(69e-3, 0.02)
    assert four.cost.weight_bytes / 1.5e12 == near(17e-3, 0.03)
    assert value(model_52b, "kv_bytes_per_token") == 4 * 64 * 8192 == 2_097_152


def test_P51_P52_flop_of_a_token(model_52b: str) -> None:
    """2·2·64·8192² = 17.18e9 for K and V, 2·12·64·8192² = 103.08e9 in all."""
    one = step(model_52b, A100, "prefill", input_len=1)
    flops = {op.path.rsplit("/", 1)[-1]: op.cost.matrix_flops for op in one.operators}
    assert flops["qkv_proj"] * 2 / 3 == near(17.18e9, 1e-3)
    assert sum(flops.values()) - flops["lm_head"] == near(103.08e9, 1e-3)


def test_P53_P54_tokens_that_fit(model_52b: str) -> None:
    """56 GB are left on four devices of 40 GB: 28,000 tokens of 2 MB (its page rounds to 23,000)."""
    memory = roofline.analyze(
        model_52b, A100, tp=4, memory="40 GB", gpu_memory_utilization=1, context=1, phase="decode", ignore_capacity=True
    ).memory
    assert memory.kv_capacity_tokens == pytest.approx((4 * 40e9 - 104e9) / 2_097_152, rel=0.05)


def test_P55_to_P57_260b_on_16(tmp_path: Path) -> None:
    """22 ms for the weights on 16 devices; 53 ms of products at batch 512, which links of 18 ms do not lengthen."""
    large = model_file(
        tmp_path, vocab=32000, tied=True, heads=(128, 128, 128), inner=65536, width=16384, layers=80,
        mlp="{kind: mlp, intermediate_size: 65536}",
    )  # fmt: skip
    assert value(large, "parameters") == near(258e9, 0.01)
    small = step(large, "dgx-a100", tp=16, bandwidth="1.5 TB/s", context=1)
    assert small.cost.weight_bytes / 1.5e12 == near(22e-3, 0.03)
    many = step(large, "dgx-a100", tp=16, bandwidth="1.5 TB/s", batch=512, context=1)
    assert many.cost.matrix_flops / 312e12 == near(53e-3, 0.03)
    assert many.time.floor == pytest.approx(many.cost.matrix_flops / 312e12, rel=0.02)  # the links are overlapped
    assert many.time.bound > many.time.floor


# Baseten: an A10, Llama-2-7B


def test_P59_P60_ridge_and_eager_attention() -> None:
    """208.3 FLOP/byte; attention that writes its scores has 62."""
    assert value("llama-2-7b", "ridge_point", "a10") == near(208.3)
    eager = step("llama-2-7b", "a10", "prefill", input_len=4096, attention="eager", mask="full")
    parts = [op for op in eager.operators if "attention/" in op.path and op.cost.matrix_flops and "proj" not in op.path]
    intensity = sum(op.cost.matrix_flops for op in parts) / sum(op.cost.bytes for op in parts)
    assert intensity == near(62, 0.05)


def test_P61_to_P65_times_and_cache() -> None:
    """23 ms a token, 39 ms for 350, 3.49 s in all; 0.00052 GB a token, 19,230 tokens in 10 GB."""
    weights = 2 * 7e9 / 600e9
    assert weights == near(23e-3, 0.02)
    result = roofline.analyze("llama-2-7b", "a10", input_len=350, output_len=150)
    assert result.request is not None
    assert result.request.tpot_s.bound == near(23e-3, 0.05)
    assert result.request.ttft_s.bound == near(39e-3, 0.06)
    assert result.request.e2e_s.bound == near(3.49, 0.04)
    assert value("llama-2-7b", "kv_bytes_per_token") == near(0.00052e9, 0.01)
    assert 10e9 / value("llama-2-7b", "kv_bytes_per_token") == near(19230, 0.01)


def test_P66_t4() -> None:
    """75 ms of products for 350 tokens and 46 ms of weights a token, recalled figures of a T4."""
    t4 = step("llama-2-7b", "t4", "prefill", input_len=350, dtype="fp16")
    assert t4.time.bound == near(75e-3, 0.06)
    assert step("llama-2-7b", "t4", dtype="fp16", context=1).time.bound == near(46e-3, 0.12)


# Tensor Economics: Llama-3.3-70B on H100


def test_P67_to_P73_tensor_economics() -> None:
    """70,553,706,496 parameters, 141 GB; 291.49 TFLOP for 2,048 tokens in 0.29 s; 640 MB and 40 GB of cache."""
    assert value(DENSE_70B, "parameters") == 70_553_706_496
    assert value(DENSE_70B, "weight_bytes", H100) == near(141e9, 2e-3)
    prompt = step(DENSE_70B, H100, "prefill", input_len=2048, mask="full")
    assert prompt.cost.matrix_flops == near(291.49e12, 2e-3)
    assert prompt.cost.matrix_flops / 989.4e12 == near(0.29, 0.02)
    assert 2048 * value(DENSE_70B, "kv_bytes_per_token") == 640 * 2**20
    assert 131072 * value(DENSE_70B, "kv_bytes_per_token") == 40 * 2**30
    assert step(DENSE_70B, H100, context=1).cost.weight_bytes / 3.35e12 == near(0.04, 0.05)


_E2E = {1: 5.57, 2: 5.83, 4: 6.58, 8: 7.51, 16: 8.97, 32: 12.41, 64: 19.93, 128: 36.81, 256: 66.85, 512: 129.6}
"""Seconds that batches of 2,035 prompt and 300 output tokens took on four H100 (vLLM of March 2025)."""


def test_P74_measured_batches() -> None:
    """None is below the floor; the estimates of small batches are within a fifth, those of 64 and more are a third too fast."""
    for batch, measured in _E2E.items():
        result = roofline.analyze(DENSE_70B, H100, tp=4, batch=batch, input_len=2035, output_len=300, ignore_capacity=True)
        assert result.request is not None
        time = result.request.e2e_s
        assert (time.floor or 0.0) < measured
        assert 0.65 < (time.estimate or 0.0) / measured < 1.05
        assert (time.high or 0.0) / measured > 0.95  # nine of ten are inside, the others just above


# DeepSeek-V3, and others


def test_P75_to_P77_caches(tmp_path: Path) -> None:
    """70.272, 327.68 and 516.096 kB a token of DeepSeek-V3, Qwen2.5-72B and Llama-3.1-405B."""
    assert value("deepseek-v3", "kv_bytes_per_token") == 70_272
    qwen = model_file(tmp_path, vocab=152064, tied=False, heads=(64, 8, 128), inner=29568, width=8192, layers=80)
    assert value(qwen, "kv_bytes_per_token") == 327_680
    large = model_file(tmp_path, vocab=128256, tied=False, heads=(128, 8, 128), inner=53248, width=16384, layers=126)
    assert value(large, "kv_bytes_per_token") == 516_096


def test_P78_parameters_of_deepseek_v3() -> None:
    """671e9, of which a token uses 37e9."""
    parameters = roofline.analyze("deepseek-v3", "h200-sxm", ignore_capacity=True).model["parameters"]
    assert (parameters["total"], parameters["active"]) == (near(671e9), near(37e9, 0.02))


def test_P79_P80_wide_expert_parallelism() -> None:
    """EP144 with 288 slots and fp8 dispatch: 32 tokens to nine experts of 7,168 bytes, and bf16 back: 121 us at 50 GB/s."""
    wide = step(
        "deepseek-v3", "dgx-h800", dp=144, ep=144, num_redundant_experts=32, dispatch_dtype="fp8", batch=32 * 144, context=4989
    )
    sent = {op.path.rsplit("/", 1)[-1]: op.cost.link_bytes / op.repeat for op in wide.operators if op.cost.link_bytes}
    assert sent["collect"] == pytest.approx(2 * sent["dispatch"])
    routed = (sent["dispatch"] + sent["collect"]) / 50e9  # eight of the nine: the shared expert is on every device
    assert routed * 9 / 8 == near(121e-6, 0.05)
    assert 0.005 < wide.time.floor < wide.time.estimate < 0.06  # the service takes 47.6 ms with 88 sequences per device


def test_P81_opt_13b(tmp_path: Path) -> None:
    """800 KB a token: 2·2·40·5120."""
    opt = model_file(
        tmp_path, vocab=50272, tied=True, heads=(40, 40, 128), inner=20480, width=5120, layers=40,
        mlp="{kind: mlp, intermediate_size: 20480}",
    )  # fmt: skip
    assert value(opt, "kv_bytes_per_token") == 800 * 1024


def test_P82_P83_palm(tmp_path: Path) -> None:
    """540.35e9 parameters. 64 TPU v4 need 48 heads divided by 64, which is refused and says so; 48 hold it."""
    palm = model_file(
        tmp_path, vocab=256000, tied=True, heads=(48, 1, 256), inner=73728, width=18432, layers=118,
        mlp="{kind: gated_mlp, intermediate_size: 73728}",
    )  # fmt: skip
    assert value(palm, "parameters") == near(540.35e9, 1e-3)
    with pytest.raises(roofline.errors.RooflineError, match="48"):
        roofline.analyze(palm, "tpu-v4", tp=64)


def test_P84_llm_viewer() -> None:
    """Llama-2-7B, 2,048 tokens: q 69 G, gate 185 G, o at 1,024 FLOP per byte; a decode step at 1."""
    prompt = step("llama-2-7b", "rtx-a6000", "prefill", input_len=2048)
    parts = {op.path.rsplit("/", 1)[-1]: op for op in prompt.operators}
    assert parts["qkv_proj"].cost.matrix_flops / 32 / 3 == near(69e9, 0.01)
    assert parts["gate_up_proj"].cost.matrix_flops / 32 / 2 == near(185e9, 0.01)
    assert parts["o_proj"].cost.matrix_flops / parts["o_proj"].cost.bytes == near(1024, 1e-3)
    decode = {op.path.rsplit("/", 1)[-1]: op for op in step("llama-2-7b", "rtx-a6000", context=2048).operators}
    assert decode["o_proj"].cost.matrix_flops / decode["o_proj"].cost.bytes == near(1, 1e-3)


def test_every_problem_is_here_or_said_to_be_outside() -> None:
    """84 problems: each has a test that names it, or is listed as outside, and a source."""
    named: set[int] = set()
    for name in globals():
        numbers = [int(number) for number in re.findall(r"P(\d\d)", name)]
        if name.startswith("test_P"):
            named |= set(range(numbers[0], numbers[-1] + 1)) if "_to_" in name else set(numbers)
    assert named | set(OUTSIDE) == set(range(1, 85))
    assert not named & set(OUTSIDE)
    assert all(any(number in numbers for numbers in SOURCES) for number in range(1, 85))
    page = (Path(__file__).resolve().parents[2] / "docs" / "not-modelled.md").read_text(encoding="utf-8")
    assert all(word in page for word in ("Training", "rematerialisation", "mesh", "eviction"))
