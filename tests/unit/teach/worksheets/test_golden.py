"""Answers against arithmetic that a reader can check: the models' config.json and the datasheets, typed once more."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.problem import Problem

# layers, hidden size, query heads, KV heads, head width, inner width, vocabulary: config.json of each on Hugging Face
MODELS = {
    "Llama 3.1 8B": (32, 4096, 32, 8, 128, 14336, 128256),
    "Llama 3.1 70B": (80, 8192, 64, 8, 128, 28672, 128256),
    "Qwen2.5 7B": (28, 3584, 28, 4, 128, 18944, 152064),
    "Qwen3 8B": (36, 4096, 32, 8, 128, 12288, 151936),
    "Qwen3 32B": (64, 5120, 64, 8, 128, 25600, 151936),
    "Mistral NeMo 12B": (40, 5120, 32, 8, 128, 14336, 131072),
}
# dense bf16 FLOP/s, bytes/s: datasheets
CARDS = {
    "NVIDIA A100 SXM4 80GB": (312e12, 2.039e12),
    "NVIDIA H100 SXM5 80GB": (989.4e12, 3.35e12),
    "NVIDIA H200 SXM 141GB": (989.4e12, 4.8e12),
    "NVIDIA A100 PCIe 40GB": (312e12, 1.555e12),
    "NVIDIA L40S": (362e12, 0.864e12),
    "NVIDIA GeForce RTX 4090": (165.2e12, 1.008e12),
}


def problems(name: str) -> Iterator[Problem]:
    return (make(TEMPLATES[name], seed) for seed in range(60))


def named(text: str, table: dict[str, tuple[float, ...]]) -> tuple[float, ...]:
    """The entry whose name stands in a text; the longest, as one may be the beginning of another."""
    return table[max((name for name in table if name in text), key=len)]


def model(text: str) -> tuple[float, ...]:
    """The model of a text, with the layers that it is said to have."""
    layers, *rest = named(text, MODELS)
    other = re.search(r"with (\d+) layers \(\$L\$\) instead of (\d+)", text)
    if other:
        assert int(other[2]) == layers
        layers = int(other[1])
    return (layers, *rest)


def numbers(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text)
    assert match, text
    return [float(found.replace(",", "")) for found in match.groups()]


def test_kv_cache_of_a_token() -> None:
    """2 x layers x KV heads x head width x bytes: of Llama 3.1 8B in bf16 131072 (F02)."""
    met = set()
    for problem in problems("kv-cache-per-token"):
        layers, hidden, queries, kv, width, _, _ = model(problem.text)
        size = 1 if "fp8" in problem.text else 2
        assert problem.answer.value == 2 * layers * kv * width * size
        by_name = {name: one.value for one in problem.mistakes for name in one.name.split(", or ")}
        assert by_name["K without V"] == layers * kv * width * size
        assert by_name["query heads for KV heads"] == 2 * layers * queries * width * size
        assert by_name["hidden size for KV width"] == 2 * layers * hidden * size
        assert by_name["bits for bytes"] == 2 * layers * kv * width * size * 8
        met.add(problem.answer.value)
    assert 131072 in met


def test_the_thread() -> None:
    """1.53 MiB = 2 x 28 x 3584 x 8 bytes; right is 2 x 28 x 4 x 128 x 2 = 57344 bytes = 56 KiB."""
    found = [problem for problem in problems("kv-cache-find-the-mistakes") if "Qwen2.5 7B" in problem.text]
    assert found
    for problem in found:
        assert "1.53 MiB" in problem.text
        assert problem.answer.value == 57344
        both = next(one for one in problem.mistakes if one.name.startswith("both"))
        assert both.value == 2 * 28 * 3584 * 8
        assert both.value / 2**20 == pytest.approx(1.53, abs=0.005)


def test_latent_cache() -> None:
    """(512 + 64) elements a layer in 2 bytes: DeepSeek-V2 has 60 layers (F26), V2-Lite 27, V3 61."""
    layers = {"DeepSeek-V2-Lite": 27, "DeepSeek-V2 ": 60, "DeepSeek-V3": 61}
    for problem in problems("kv-cache-latent"):
        count = next(number for name, number in layers.items() if name in problem.text)
        (tokens,) = numbers(r"cache of ([\d,]+) tokens", problem.text)
        assert problem.answer.value == 576 * 2 * count * tokens


def test_window() -> None:
    """At most 4096 tokens of 2 x 32 x 8 x 128 elements (F25)."""
    for problem in problems("kv-cache-window"):
        size = 1 if "in fp8" in problem.text else 2
        many = re.search(r"(\d+) sequences have", problem.text)
        assert problem.answer.value == (int(many[1]) if many else 1) * 4096 * 2 * 32 * 8 * 128 * size


def test_all_parameters() -> None:
    """Two tables, and a layer of 2 d (n_q + n_kv) d_head + 3 d d_ff; norms, biases within a thousandth. F01: 8030261248."""
    met = set()
    for problem in problems("transformer-total-parameters"):
        layers, hidden, queries, kv, width, inner, vocabulary = model(problem.text)
        by_hand = 2 * vocabulary * hidden + layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner)
        assert problem.answer.value == pytest.approx(by_hand, rel=1e-3)
        met.add(problem.answer.value)
    assert 8030261248 in met


def test_projections() -> None:
    """Queries and output 2 d n_q d_head, keys and values 2 d n_kv d_head, in each layer."""
    for problem in problems("transformer-attention-weights"):
        layers, hidden, queries, kv, width, _, _ = model(problem.text)
        assert problem.answer.value == layers * 2 * hidden * (queries + kv) * width


def test_feed_forward_weights() -> None:
    """Three matrices of d x d_ff in each layer, at two bytes."""
    for problem in problems("transformer-mlp-weights"):
        layers, hidden, _, _, _, inner, _ = model(problem.text)
        assert problem.answer.value == layers * 3 * hidden * inner * 2


def test_flop_of_a_token() -> None:
    """2 FLOP for every weight but the embedding's: of Llama 3.1 8B 2 x (8030261248 - 525336576 - norms)."""
    for problem in problems("transformer-flops-per-token"):
        layers, hidden, queries, kv, width, inner, vocabulary = model(problem.text)
        weights = vocabulary * hidden + layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner)
        assert problem.answer.value == 2 * weights


def test_attention_over_a_prompt() -> None:
    """P (p + 1) / 2 pairs, 4 FLOP an element of a head."""
    for problem in problems("transformer-prefill-attention"):
        _, _, queries, kv, width, _, _ = model(problem.text)
        (tokens,) = numbers(r"prompt of ([\d,]+) tokens", problem.text)
        assert problem.answer.value == tokens * (tokens + 1) / 2 * 4 * queries * width
        by_name = {one.name: one.value for one in problem.mistakes}
        assert by_name["causal mask forgotten"] == tokens**2 * 4 * queries * width
        assert by_name["KV heads"] == tokens * (tokens + 1) / 2 * 4 * kv * width


def test_ridge_points() -> None:
    """bf16: peak over bandwidth, of the A100 312 / 2.039 = 153.0 (F08)."""
    met = {}
    for problem in problems("roofline-ridge-point"):
        if "bf16" in problem.text and any(name in problem.text for name in CARDS):
            peak, bandwidth = named(problem.text, CARDS)
            assert problem.answer.value == pytest.approx(peak / bandwidth, rel=1e-9)
            met[peak, bandwidth] = problem.answer.value
    assert met[312e12, 2.039e12] == pytest.approx(153.0, abs=0.05)


def test_layer_times() -> None:
    """The longer of 2 T d d_ff / P and 2 (d d_ff + T d + T d_ff) / beta."""
    for problem in problems("roofline-layer-time"):
        (peak, bandwidth), (_, hidden, _, _, _, inner, _) = named(problem.text, CARDS), model(problem.text)
        (tokens,) = numbers(r"takes ([\d,]+) tokens?", problem.text)
        compute = 2 * tokens * hidden * inner / peak
        memory = 2 * (hidden * inner + tokens * hidden + tokens * inner) / bandwidth
        assert problem.answer.value == pytest.approx(max(compute, memory), rel=1e-9)


def test_attention_at_decode() -> None:
    """Query heads over KV heads, whatever batch and context (F14, F16)."""
    for problem in problems("roofline-decode-attention"):
        _, _, queries, kv, _, _, _ = model(problem.text)
        assert problem.answer.value == queries / kv


def test_decode_floor() -> None:
    """Two bytes of all weights but the embedding, over the bandwidth: Llama 3.1 8B on an A100 7.36 ms (F27)."""
    found = [one for one in problems("batching-decode-floor") if "Llama 3.1 8B" in one.text and "A100 SXM4" in one.text]
    assert found
    for problem in found:
        assert problem.answer.value == pytest.approx(2 * (8030261248 - 128256 * 4096) / 2.039e12, rel=1e-4)
        assert problem.answer.value == pytest.approx(7.36e-3, rel=5e-3)


def test_critical_batch() -> None:
    """bf16: P / beta sequences (F12); fp8 weights that are multiplied as bf16: half as many, as each takes half the bytes."""
    for problem in problems("batching-critical-batch"):
        peak, bandwidth = named(problem.text, CARDS)
        if "are in bf16" in problem.text:
            assert problem.answer.value == pytest.approx(peak / bandwidth, rel=1e-9)
        elif "does not multiply" in problem.text:
            assert problem.answer.value == pytest.approx(peak / bandwidth / 2, rel=1e-9)


def test_sequences_that_fit() -> None:
    """What is left of the share of memory beside two bytes a parameter, in whole sequences."""
    for problem in problems("batching-sequences-that-fit"):
        layers, _, _, kv, width, _, _ = model(problem.text)
        (parameters,) = numbers(r"\(([\d,]+) parameters", problem.text)
        (gib,) = numbers(r"with ([\d.]+) GiB", problem.text)
        (share,) = numbers(r"may use ([\d]+) %", problem.text)
        (length,) = numbers(r"sequences of ([\d,]+) tokens", problem.text)
        left = share / 100 * gib * 2**30 - 2 * parameters
        assert problem.answer.value == pytest.approx(left / (length * 2 * layers * kv * width * 2), abs=1)


def test_decode_rates() -> None:
    """B tokens a step that reads the weights once and B caches."""
    for problem in problems("batching-decode-rate"):
        (_, bandwidth), (layers, hidden, queries, kv, width, inner, vocabulary) = (
            named(problem.text, CARDS),
            model(problem.text),
        )
        batch, context = numbers(r"(\d+) sequences with ([\d,]+) cached", problem.text)
        weights = 2 * (vocabulary * hidden + layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner))
        cache = batch * context * 2 * layers * kv * width * 2
        assert problem.answer.value == pytest.approx(batch * bandwidth / (weights + cache), rel=2e-3)


def test_active_parameters() -> None:
    """Mixtral: an expert has 3 x 4096 x 14336 weights; 46702792704 in all, 12879925248 with two of eight (F20, F21)."""
    found = [one for one in problems("moe-active-parameters") if "Mixtral" in one.text]
    expert = 3 * 4096 * 14336
    for problem in found:
        (used,) = numbers(r"sent to (\d) expert", problem.text)
        assert problem.answer.value == 46702792704 - 32 * (8 - used) * expert
    assert 12879925248 in {one.answer.value for one in found}


@pytest.mark.slow
def test_claims_are_judged_by_the_bus_and_the_memory() -> None:
    """A user alone gets at most bandwidth / weights; what does not fit is said not to."""
    gib = {"A100 SXM4": 80, "H100 SXM5": 79.65, "H200": 140.4, "A100 PCIe": 40}
    for problem in problems("roofline-is-it-possible"):
        (_, bandwidth), (layers, hidden, queries, kv, width, inner, vocabulary) = (
            named(problem.text, CARDS),
            model(problem.text),
        )
        read = 2 * (vocabulary * hidden + layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner))
        room = next(size for name, size in gib.items() if name in problem.text) * 2**30
        (rate,) = numbers(r"writes ([\d.]+) tokens/s", problem.text)
        verdict = 2 if read > room else 0 if rate < bandwidth / read else 1
        assert problem.answer.value == verdict, problem.text


def test_bytes_of_a_token() -> None:
    """Two bytes for each parameter but the embedding, and the cache: 15.01 GB of Llama 3.1 8B (F27), 131072 a token."""
    for problem in problems("transformer-token-bytes"):
        layers, hidden, queries, kv, width, inner, vocabulary = model(problem.text)
        (context,) = numbers(r"with ([\d,]+) cached tokens", problem.text)
        weights = vocabulary * hidden + layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner)
        assert problem.answer.value == pytest.approx(2 * weights + context * 4 * layers * kv * width, rel=1e-3)


def test_rule_of_two() -> None:
    for problem in problems("transformer-rule-of-two"):
        layers, hidden, queries, kv, width, inner, vocabulary = model(problem.text)
        (cached,) = numbers(r"and ([\d,]+) before it", problem.text)
        table = vocabulary * hidden
        weights = layers * (2 * hidden * (queries + kv) * width + 3 * hidden * inner) + table
        flops = 2 * weights + 4 * layers * queries * width * (cached + 1)
        assert problem.answer.value == pytest.approx(flops / (2 * (weights + table)), rel=1e-3)


def test_equal_context() -> None:
    """N / (2 L n_q d_head): Llama 3.1 8B has 7,504,658,432 such weights, and 2 x 32 x 4096 FLOP: 28,628 tokens."""
    golden = []
    for problem in problems("transformer-equal-context"):
        layers, _, queries, _, width, _, _ = model(problem.text)
        (weights,) = numbers(r"with ([\d,]+) weights", problem.text)
        assert problem.answer.value == pytest.approx(weights / (2 * layers * queries * width))
        if "Llama 3.1 8B has 32" in problem.text:
            golden.append(problem.answer.value)
    assert golden == pytest.approx([28628] * len(golden), rel=1e-4)


def test_promise() -> None:
    """(t beta - W) / (S k), whole ones."""
    for problem in problems("batching-promise"):
        layers, _, _, kv, width, _, _ = model(problem.text)
        promise, read, context = numbers(r"every ([\d.]+) ms.*reads ([\d.]+) GB .*have ([\d,]+) cached", problem.text)
        bandwidth = named(problem.text, CARDS)[1]
        fitting = (promise / 1000 * bandwidth - read * 1e9) / (context * 4 * layers * kv * width)
        assert problem.answer.value in {int(fitting * 0.998), int(fitting), int(fitting * 1.002)}


def test_throughput_limit() -> None:
    """Beta / (S k): the cache of a sequence for each token."""
    for problem in problems("batching-throughput-limit"):
        layers, _, _, kv, width, _, _ = model(problem.text)
        (context,) = numbers(r"have ([\d,]+) cached tokens", problem.text)
        by_hand = named(problem.text, CARDS)[1] / (context * 4 * layers * kv * width)
        assert problem.answer.value == pytest.approx(by_hand, rel=2e-3)


def test_norm() -> None:
    """Two tensors cross the bus, or four with the residual stream: 2 bytes x tokens x hidden size each."""
    for problem in problems("roofline-norm"):
        tokens, width = numbers(r"takes ([\d,]+) vectors of ([\d,]+) elements", problem.text)
        tensors = 4 if "residual" in problem.text else 2
        by_hand = tensors * 2 * tokens * width / named(problem.text, CARDS)[1]
        assert problem.answer.value == pytest.approx(by_hand, rel=2e-3)
