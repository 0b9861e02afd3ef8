"""Claims in words: what is read, in which spellings, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.audit.claims.claim import Claim
from roofline.audit.claims.statement import read
from roofline.errors import AmbiguousNameError, InputError, UnknownNameError

ON = "llama-3.1-8b on h100-sxm"


def said(text: str) -> dict[str, Any]:
    return read(f"{ON}: {text}")[0]


def claimed(text: str) -> tuple[Claim, ...]:
    return read(f"{ON}: {text}")[1]


@pytest.mark.parametrize(
    "text",
    [
        "3500 tok/s",
        "3,500 tokens/s",
        "3.5k tok/s",
        "3.5K TPS",
        "3500 t/s",
        "3500 tokens per second",
        "3500 tokens a second",
        "3500toks/sec",
        "~3500 tok/s.",
        "210k tokens per minute",
        "tps=3500",
        "a rate of over 3500 tokens / s",
        "3500 output tok/s",
    ],
)
def test_rates(text: str) -> None:
    """One rate in many spellings; 210,000 a minute are 3,500 a second."""
    assert claimed(text) == (Claim(kind="tokens_per_s", value=3500),)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("95 tok/s per user", "user"),
        ("95 tok/s/user", "user"),
        ("95 tokens/s per request", "user"),
        ("95 tok/s per GPU", "gpu"),
        ("95 tok/s/gpu", "gpu"),
        ("95 tok/s in total", "total"),
        ("95 tok/s", "total"),
    ],
)
def test_whose_tokens(text: str, scope: str) -> None:
    """A rate is the whole batch's, unless it says otherwise."""
    assert claimed(text)[0].scope == scope


@pytest.mark.parametrize(
    "text", ["prefill 50k tok/s", "50000 prompt tokens per second", "50k input tok/s", "50k tok/s prefill"]
)
def test_prompt_tokens(text: str) -> None:
    """Rates of prompts."""
    assert claimed(text) == (Claim(kind="tokens_per_s", value=50_000, phase="prefill"),)


@pytest.mark.parametrize(
    ("text", "kind", "seconds"),
    [
        ("TTFT 10 ms for a 4k prompt", "ttft", 0.01),
        ("10ms TTFT, 4k prompt", "ttft", 0.01),
        ("TTFT: 0.01 s, prompt of 4k", "ttft", 0.01),
        ("time to first token of 10 ms with a 4096-token prompt", "ttft", 0.01),
        ("10 ms to first token, input 4k", "ttft", 0.01),
        ("7 ms per token", "tpot", 0.007),
        ("7ms/token", "tpot", 0.007),
        ("ITL 7 ms", "tpot", 0.007),
        ("7 ms TPOT", "tpot", 0.007),
        ("inter-token latency of 7000 us", "tpot", 0.007),
    ],
)
def test_times(text: str, kind: str, seconds: float) -> None:
    """Times with their names before or behind."""
    (claim,) = claimed(text)
    assert (claim.kind, claim.value) == (kind, pytest.approx(seconds))


@pytest.mark.parametrize(
    "text",
    [
        "batch 32",
        "batch size 32",
        "bs=32",
        "bs32",
        "batch-32",
        "BATCH SIZE: 32",
        "at concurrency 32",
        "with 32 users",
        "32 concurrent requests",
    ],
)
def test_batches(text: str) -> None:
    """32 sequences."""
    assert said(f"95 tok/s {text}")["batch"] == 32


@pytest.mark.parametrize("text", ["single stream", "for a single user", "batch 1", "unbatched"])
def test_alone(text: str) -> None:
    """One sequence; no number of devices is read out of it."""
    assert said(f"95 tok/s {text}").get("batch") == 1
    assert "devices" not in said(f"95 tok/s {text}")


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("ISL=1024 OSL=128", {"input_len": 1024, "output_len": 128}),
        ("1024 in / 128 out", {"input_len": 1024, "output_len": 128}),
        ("a 100k token prompt", {"input_len": 102_400}),
        ("context 4k", {"context": 4096}),
        ("at 4096 tokens of context", {"context": 4096}),
        ("ctx=2k", {"context": 2048}),
        ("input length 512, output length 64", {"input_len": 512, "output_len": 64}),
        ("after 4096 tokens", {"context": 4096}),
    ],
)
def test_lengths(text: str, lengths: dict[str, int]) -> None:
    """A k of tokens is 1024, as everywhere; bare tokens of a rate are its context."""
    if text.startswith("after"):
        text = text.removeprefix("after ")
    found = said(f"95 tok/s, {text}")
    assert {name: found[name] for name in lengths} == lengths


def test_bare_tokens_of_a_timed_prompt() -> None:
    """With a TTFT, tokens are the prompt's, and the context is."""
    assert said("TTFT 10 ms for 4096 tokens")["input_len"] == 4096
    assert said("TTFT 10 ms at 4k context")["input_len"] == 4096


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("fp16", {"dtype": "fp16"}),
        ("in BF16", {"dtype": "bf16"}),
        ("FP8 weights", {"dtype": "fp8"}),
        ("int4", {"dtype": "int4"}),
        ("4-bit", {"dtype": "int4"}),
        ("half precision", {"dtype": "fp16"}),
        ("with FP8 KV cache", {"kv_cache_dtype": "fp8"}),
        ("fp8, kv cache in fp8", {"dtype": "fp8", "kv_cache_dtype": "fp8"}),
        ("AWQ", {"quantization": "awq"}),
    ],
)
def test_formats(text: str, formats: dict[str, str]) -> None:
    """Number formats of weights and of the cache."""
    found = said(f"95 tok/s {text}")
    assert {name: value for name, value in found.items() if name not in ("model", "hardware")} == formats


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("8x h100-sxm", 8),
        ("8xH100-SXM", 8),
        ("8 × H100 SXM", 8),
        ("8 H100-SXM GPUs", 8),
        ("one h100-sxm", 1),
        ("a single H100 SXM", 1),
        ("two H100-SXM", 2),
        ("h100-sxm x4", 4),
    ],
)
def test_devices(text: str, devices: int) -> None:
    """Numbers before, behind and in words."""
    found, _, _ = read(f"llama-3.1-8b at 95 tok/s on {text}")
    assert (found["hardware"], found["devices"]) == ("h100-sxm", devices)


@pytest.mark.parametrize("text", ["tp8", "TP=8", "tp 8", "tensor parallel 8", "tensor-parallel size 8"])
def test_parallel(text: str) -> None:
    """Sizes of groups."""
    assert said(f"95 tok/s {text}")["tp"] == 8


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Llama 3.1 70B", "llama-3.1-70b"),
        ("Llama-3-8B", "llama-3-8b"),
        ("llama3.1-8b", "llama-3.1-8b"),
        ("Mixtral 8x7B", "mixtral-8x7b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("DeepSeek V3", "deepseek-v3"),
        ("DeepSeek-V3.2", "deepseek-v3.2"),
        ("Qwen2.5 7B", "qwen2.5-7b"),
        ("GPT-OSS 20B", "gpt-oss-20b"),
        ("Mistral 7B v0.3", "mistral-7b-v0.3"),
        ("gemma 2 9b", "gemma-2-9b"),
    ],
)
def test_models(text: str, model: str) -> None:
    """Models as people write them."""
    assert read(f"{text} on h100-sxm: 95 tok/s")[0]["model"] == model


@pytest.mark.parametrize(
    ("text", "hardware"),
    [
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("A100 SXM 80GB", "a100-sxm-80gb"),
        ("A100 80GB SXM", "a100-sxm-80gb"),
        ("H100 SXM5", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("RTX 4090", "rtx-4090"),
        ("DGX H100", "dgx-h100"),
        ("MI300X", "mi300x"),
        ("L40S", "l40s"),
        ("L4", "l4"),
        ("H100-SXMs", "h100-sxm"),
    ],
)
def test_hardware(text: str, hardware: str) -> None:
    """Cards as people write them."""
    assert read(f"llama-3.1-8b on {text}: 95 tok/s")[0]["hardware"] == hardware


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("llama-3.1-8b on A100: 95 tok/s", ["a100-pcie-40gb", "a100-sxm-80gb"]),
        ("llama-3.1-8b on H100: 95 tok/s", ["h100-sxm", "h100-pcie"]),
        ("70B on h100-sxm: 95 tok/s", ["llama-2-70b", "llama-3.1-70b"]),
        ("70B fp16 fits on one 80 GB card", ["llama-3.1-70b"]),
        ("llama-3.1-70b fits on an 80 GB card", ["a100-sxm-80gb", "h100-sxm"]),
    ],
)
def test_ambiguous_names(text: str, candidates: list[str]) -> None:
    """A name of several lists them."""
    with pytest.raises(AmbiguousNameError) as caught:
        read(text)
    assert set(candidates) <= set(caught.value.choices)


@pytest.mark.parametrize("word", ["blazing", "tokenizer", "requests", "#1", "\U0001f680", "\x1b[31m"])
def test_unread_word(word: str) -> None:
    """What cannot be read is quoted, and it is said where the grammar is."""
    with pytest.raises(InputError) as caught:
        read(f"{ON} {word} 95 tok/s")
    assert repr(word) in str(caught.value)
    assert "roofline claim --help" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nearest_form() -> None:
    """A slip of the keyboard is shown what it was meant to be."""
    with pytest.raises(InputError, match=r"batch 32 \| batch size 32"):
        read(f"{ON} bacth 32 95 tok/s")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10 ms", "time of what"),
        ("TTFT at a 4k prompt", "no time"),
        ("30 req/s", "requests per second"),
        ("100-120 tok/s", "'100' in the claim"),
        ("-5 tok/s", "negative"),
        ("tok/s", "no number"),
        ("fp16 fp8 95 tok/s", "two things"),
        ("batch 1 batch 2 95 tok/s", "two things"),
        ("95 tok/s per user per gpu", "per user"),
        ("on l40s 95 tok/s", "names two"),
        ("95 tok/s with sparsity", "sparsity"),
        ("10.000 tok/s", "10,000"),
        ("200 tok/s 300 tok/s", "two figures"),
        ("TPOT 7 ms and 8 ms per token", "two figures"),
        ("500 tok/s batch 1 speculative", "several tokens"),
        ("500 tok/s with speculative decoding", "--acceptance"),
    ],
)
def test_refused(text: str, message: str) -> None:
    """Contradictions and halves of claims are no claims."""
    with pytest.raises(InputError, match=message):
        read(f"{ON}: {text}")


def test_no_speculation() -> None:
    """What is so by default may be said."""
    assert claimed("95 tok/s without speculative decoding") == (Claim(kind="tokens_per_s", value=95),)


def test_unknown_model() -> None:
    """A name that starts like a known one is a name, not a word."""
    with pytest.raises(UnknownNameError, match="Did you mean"):
        read("llama-2-13b on h100-sxm: 95 tok/s")


def test_a_small_rate_is_no_part_of_a_name() -> None:
    """SXM5 is a name of the H100, and 5 tok/s is a rate."""
    found, (claim,), _ = read("llama-3.1-8b on h100-sxm 5 tok/s")
    assert (found["hardware"], claim.value) == ("h100-sxm", 5)


def test_two_claims() -> None:
    """A time and a rate in one text."""
    assert [claim.kind for claim in claimed("ITL 4 ms and TTFT 25 ms for a 1k prompt")] == ["tpot", "ttft"]


@pytest.mark.parametrize(
    "text", ["1979 dense bf16 TFLOP/s", "1979 TFLOPS BF16", "1,979 teraFLOPS in bf16", "1.979 PFLOP/s bf16"]
)
def test_peaks(text: str) -> None:
    """A peak needs no model."""
    found, (claim,), _ = read(f"h100-sxm: {text}")
    assert (claim.kind, claim.value, found) == (
        "peak_flops",
        pytest.approx(1.979e15),
        {"hardware": "h100-sxm", "dtype": "bf16"},
    )
