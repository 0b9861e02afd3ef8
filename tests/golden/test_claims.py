"""Claims of which it is known whether they are true: published errors, datasheets, and rates that people measured."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from roofline.audit.claims import judge

FALSE = [
    # gputracker.dev lists it; 15.01 GB of streamed weights over 2,039 GB/s are 7.36 ms, which is 136 tokens a second
    "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16",
    "Llama-3-8B FP16 on an A100-SXM4-80GB, bs=1: 3.5k tokens per second",
    # the datasheet's 1,979 TFLOP/s count sparsity: the dense peak is half of it
    "h100-sxm: 1979 dense bf16 TFLOP/s",
    "the H100 SXM delivers 1,979 TFLOPS of BF16",
    "H100 PCIe: 1513 TFLOPS bf16",  # dense: 756
    "a100-sxm-80gb 624 TFLOPS fp16",  # dense: 312
    # 70.6e9 x 2 bytes = 141 GB
    "llama-3.1-70b fp16 fits on one h100-sxm",
    "Llama 3.1 70B in FP16 fits on a single A100 SXM 80GB",
    # 2 x 70e9 x 1e5 = 14 PFLOP without attention: 14 s at 989 TFLOP/s
    "10 ms TTFT for 100k tokens of llama-3.1-70b on one h100-sxm",
    "8x h100-sxm, Llama 3.1 70B, tp8: TTFT 10 ms for a 100k token prompt",
    # 3.35 TB/s / 16 GB < 225, and 7 GB at one byte < 450
    "llama-3.1-8b on h100-sxm: 1000 tok/s per user, fp8",
    "llama-3.1-8b on rtx-4090 at batch 1: 100 tok/s bf16",  # 1,008 GB/s / 15 GB = 67
    "ITL 1 ms llama-3.1-8b on h100-sxm",
    "llama-3.1-8b on h100-sxm: 200k tok/s",  # 2 x 7.5e9 FLOP a token at 989e12: 66,000
]
TRUE = [
    "llama-3.1-8b on a100-sxm-80gb: 95 tok/s at batch 1 fp16",
    "llama-3.1-8b on h100-sxm: 2500 tok/s at batch 32",
    "h100-sxm: 989 dense bf16 TFLOP/s",
    "h100-sxm 1979 TFLOP/s fp8",
    "h100-sxm 1979 TFLOP/s bf16 with sparsity",
    "a100-sxm-80gb 312 TFLOPS bf16",
    "h100-sxm has 67 TFLOPS fp32",
    "llama-3.1-70b fp16 fits on 2x h100-sxm",
    "llama-3.1-70b int4 fits on one a100-sxm-80gb",
    "llama-3.1-8b fp16 fits on rtx-4090",
    "TTFT 500 ms for an 8k prompt, llama-3.1-8b on a100-sxm-80gb",
    "llama-3.1-70b on 8x h100-sxm, tp8: 60 tok/s per user at batch 1",
    "llama-3.1-8b on rtx-4090 at batch 1: 55 tok/s bf16",
    "mixtral-8x7b on 2x a100-sxm-80gb: 60 tok/s at batch 1",
    "15 ms per token, llama-3.1-8b, a100-sxm-80gb",
]


@pytest.mark.parametrize("text", FALSE)
def test_false_claims(text: str) -> None:
    """Impossible, by more than rounding."""
    found = judge(text)
    assert found.verdict == "impossible"
    assert found.ratio is not None
    assert found.ratio > 1.01


@pytest.mark.parametrize("text", TRUE)
def test_true_claims(text: str) -> None:
    """Possible, and not even implausible."""
    assert judge(text).verdict == "possible"


def test_the_jewel() -> None:
    """2,039 GB/s over 15.01 GB (all weights but the embedding table, of which a step reads a row)."""
    found = judge("llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16")
    weights = (8_030_261_248 - 128_256 * 4096) * 2
    assert found.ceiling == pytest.approx(2039e9 / weights, rel=1e-4)
    assert found.ratio == pytest.approx(25.8, rel=0.01)
    assert found.likely_mistakes[0].name == "whole batch for one user"


def test_the_sparse_peak() -> None:
    """1,979 is twice 989.4."""
    found = judge("h100-sxm: 1979 dense bf16 TFLOP/s")
    assert found.ceiling == pytest.approx(989.4e12)
    assert found.ratio == pytest.approx(2, rel=1e-3)
    assert found.likely_mistakes[0].name == "sparse peak"


def test_what_does_not_fit() -> None:
    """141.1 GB of 80 GiB, and the way out: half the bytes a weight."""
    found = judge("llama-3.1-70b fp16 fits on one a100-sxm-80gb")
    assert found.ratio == pytest.approx(70_553_706_496 * 2 / 2**30 / 80, rel=0.01)
    assert {mistake.name for mistake in found.likely_mistakes} >= {"another precision", "several devices for one"}


def test_the_first_token_of_a_long_prompt() -> None:
    """2 FLOP a parameter of the layers and token, 4 x 8,192 x 80 a pair of the causal mask."""
    found = judge(model="llama-3.1-70b", hardware="h100-sxm", ttft="10 ms", input_len=100_000)
    layers = 70_553_706_496 - 2 * 128_256 * 8192
    flops = 2 * layers * 1e5 + 4 * 8192 * 80 * 1e5 * (1e5 + 1) / 2
    assert found.ceiling == pytest.approx(flops / 989.4e12, rel=1e-3)


GPT_FAST = [
    ("llama-2-7b", 1, "bf16", 104.9), ("llama-2-7b", 4, "bf16", 254.02), ("llama-2-7b", 8, "bf16", 328.43),
    ("mixtral-8x7b", 8, "bf16", 227.82), ("mixtral-8x7b", 8, "int8", 279.35),
]  # fmt: skip
"""Decode rates at batch 1 on A100 (gpt-fast's README): compiled graphs and a one-shot all-reduce, faster than engines are."""


@pytest.mark.parametrize(("model", "tp", "dtype", "rate"), GPT_FAST)
def test_one_sequence_of_gpt_fast(model: str, tp: int, dtype: str, rate: float) -> None:
    """Measured and published since 2023: not even implausible."""
    more = {"activation_dtype": "bf16"} if dtype == "int8" else {}
    found = judge(model=model, hardware="a100-sxm-80gb", tokens_per_s=rate, batch=1, context=100, tp=tp, dtype=dtype, **more)
    assert found.verdict == "possible"


def test_published_figures_at_batch_1(truth: Path) -> None:
    """TensorRT-LLM's first tokens and gpt-fast's decode rates: none is impossible, and at most three are implausible."""
    path, configs = truth / "truth" / "serving" / "published.csv", truth / "truth" / "models" / "configs"
    if not path.is_file():
        pytest.skip("no published figures")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] in ("ttft", "decode_rate")]
    assert len(rows) > 30
    elsewhere = {"mistral-7b": "mistral-7b-v0.1", **{name: configs / f"{name}.json" for name in ("gpt-j-6b", "falcon-180b")}}
    scheme: dict[str, dict[str, str]] = {
        "fp8": {"quantization": "fp8", "kv_cache_dtype": "fp8"}, "int4": {"quantization": "awq"},
        "int8": {"dtype": "int8", "activation_dtype": "bf16"},
    }  # fmt: skip
    unlikely = []
    for row in rows:
        length, value = int(row["isl"]), float(row["value"])
        claimed = {"ttft": value / 1e3, "input_len": length}
        if row["metric"] == "decode_rate":
            claimed = {"tokens_per_s": value, "context": length + int(row["osl"]) // 2}
        found = judge(
            model=elsewhere.get(row["model"], row["model"]),
            hardware=row["gpu"],
            tp=int(row["tp"]),
            batch=1,
            **claimed,
            **scheme.get(row["dtype"], {"dtype": row["dtype"]}),
        )
        assert found.verdict != "impossible", row
        if found.verdict == "implausible":
            unlikely.append(f"{row['model']} {row['gpu']} tp {row['tp']} {row['dtype']} {row['isl']}: {found.worst.headline}")
    assert len(unlikely) <= 3, "\n".join(unlikely)


@pytest.mark.night
def test_published_offline_throughput_is_possible(truth: Path) -> None:
    """Output rates of whole requests (TensorRT-LLM, ROCm, MLPerf) are below a ceiling that includes their prompts."""
    path = truth / "truth" / "serving" / "published.csv"
    if not path.is_file():
        pytest.skip("no published figures")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "output_throughput"]
    known = {"llama-3.1-8b", "llama-3.1-70b", "llama-2-70b", "mixtral-8x7b"}
    rows = [row for row in rows if row["model"] in known and row["isl"] and row["dtype"] in ("fp8", "fp16", "bf16")]
    verdicts = []
    for row in rows[::12]:
        scheme = {"quantization": "fp8", "kv_cache_dtype": "fp8"} if row["dtype"] == "fp8" else {"dtype": row["dtype"]}
        lengths = {"input_len": int(row["isl"]), "output_len": int(row["osl"])}
        found = judge(
            model=row["model"], hardware=row["gpu"], devices=int(row["tp"]) * int(row["pp"] or 1),
            tokens_per_s=float(row["value"]), **lengths, **scheme,
        )  # fmt: skip
        assert found.verdict != "impossible", row
        verdicts.append(found.verdict)
    assert len(verdicts) > 7
    assert verdicts.count("implausible") <= len(verdicts) // 10


def test_measured_rates_are_possible(truth: Path) -> None:
    """289 points that others measured on H100 and H200 (AIConfigurator, tests/systems data): none is called impossible."""
    path = truth / "truth" / "serving" / "end_to_end.csv"
    if not path.is_file():
        pytest.skip("no measured serving points")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 200
    for row in rows[::7]:  # every seventh: each takes a tenth of a second
        model = "llama-3.1-70b" if "70B" in row["model_path"] else "llama-3.1-8b"
        batch, tp = round(float(row["batch_size"])), round(float(row["tp_size"]))
        found = judge(
            model=model,
            hardware=row["system"],
            tpot=float(row["silicon_tpot_ms"]) / 1e3,
            batch=batch,
            input_len=int(float(row["isl"])),
            tp=tp,
            dtype="fp8" if row["gemm_quant_mode"] else None,
        )
        assert found.verdict != "impossible", row
