"""Answers of the topic `quantization` against arithmetic that a reader can check."""

from __future__ import annotations

import re

import pytest
from unit.teach.worksheets.arithmetic import amount, by_name, numbers, problems

W4A16 = 4 + 16 / 128  # bits per weight


def test_weight_bytes() -> None:
    """4 bits, and what a group shares: of 14336 x 4096 weights in MXFP4 4.25 bits each, 31,195,136 bytes."""
    met = set()
    for problem in problems("quantization-weight-bytes", 200):
        rows, columns, group, scale = numbers(
            r"has ([\d,]+) rows .* of ([\d,]+) weights .* group of (\d+) weights .* scale of (\d+) bits", problem.text
        )
        zero = re.search(r"zero point of (\d+) bits", problem.text)
        shared = scale + (float(zero[1]) if zero else 0)
        assert problem.answer.value == pytest.approx(rows * columns * (4 + shared / group) / 8, rel=1e-6)
        assert by_name(problem)["scales left out"] == rows * columns / 2
        met.add(problem.answer.value)
    assert 31_195_136 in met


def test_effective_bits() -> None:
    """16 over bits and what is shared: 4 bits in groups of 32 with a scale make 4.5."""
    for problem in problems("quantization-effective-bits"):
        bits, group = numbers(r"in (\d) bits each; (\d+) of them", problem.text)
        shared = 16 + (bits if "zero point" in problem.text else 0)
        assert problem.answer.value == pytest.approx(16 / (bits + shared / group), rel=1e-5)


def test_fits() -> None:
    """(used x capacity - weights) / cache, rounded down."""
    for problem in problems("quantization-fits", 40):
        (quantized,) = numbers(r"have ([\d,]+) weights in linear layers", problem.text)
        (rest,) = numbers(r"other ([\d,]+) parameters stay", problem.text)
        capacity, used, token, length = numbers(
            r"with ([\d.]+) GiB of memory .* use (\d+) %.* bf16, ([\d,]+) bytes per token.* of ([\d,]+) tokens fit",
            problem.text,
        )
        left = used / 100 * capacity * 2**30 - quantized * W4A16 / 8 - 2 * rest
        assert problem.answer.value == pytest.approx(left / (token * length), abs=1.01)
        assert problem.answer.value <= left / (token * length) + 0.01


def test_decode_floor() -> None:
    """(N + H) x 2 over N x 4.125 / 8 + 2 H."""
    for problem in problems("quantization-decode-floor"):
        layers, head = numbers(r"have ([\d,]+) weights, the LM head ([\d,]+)\.", problem.text)
        by_hand = 2 * (layers + head) / (layers * W4A16 / 8 + 2 * head)
        assert problem.answer.value == pytest.approx(by_hand, rel=1e-3)
        assert 1 < problem.answer.value < 16 / W4A16


def test_prefill() -> None:
    """2 N T over the peak in bf16, whatever the weights have; in fp8 with both in fp8."""
    met = set()
    for problem in problems("quantization-prefill"):
        (weights, tokens) = numbers(r"have ([\d,]+) weights.*prompt of ([\d,]+) tokens", problem.text)
        half, fp8 = amount(r"peak of AMOUNT in bf16", problem.text), "W8A8" in problem.text
        peak = amount(r"bf16, AMOUNT in fp8", problem.text) if fp8 else half
        assert problem.answer.value == pytest.approx(2 * weights * tokens / peak, rel=2e-3)
        met.add(fp8)
    assert met == {True, False}


def test_kv_cache() -> None:
    for problem in problems("quantization-kv-cache"):
        weights = amount(r"reads AMOUNT of weights", problem.text)
        batch, context, token = numbers(
            r"(\d+) sequences have ([\d,]+) cached tokens each; a token takes ([\d,]+) bytes", problem.text
        )
        cache = batch * context * token
        assert problem.answer.value == pytest.approx((weights + cache) / (weights + cache / 2), rel=2e-3)


def test_critical_batch() -> None:
    """P W / (2 beta (N + H)): of Llama 3.1 8B on an H100 295.3 x 4.65 GB / (2 x 8.03e9 - 2 x 0.525e9 weights) = 91.5."""
    golden = []
    for problem in problems("quantization-critical-batch", 300):
        layers, head = numbers(r"have ([\d,]+) weights in W4A16.*has ([\d,]+) weights in bf16", problem.text)
        peak, bandwidth = amount(r"has AMOUNT dense", problem.text), amount(r"and AMOUNT of memory", problem.text)
        read = layers * W4A16 / 8 + 2 * head
        assert problem.answer.value == pytest.approx(peak * read / (2 * bandwidth * (layers + head)), rel=3e-3)
        if "Llama 3.1 8B" in problem.text and "H100" in problem.text:
            golden.append(problem.answer.value)
    assert golden
    assert golden == pytest.approx([91.5] * len(golden), rel=2e-3)


def test_cache_dominates() -> None:
    for problem in problems("quantization-cache-dominates"):
        weights = amount(r"reads AMOUNT of weights", problem.text)
        batch, context, token = numbers(r"(\d+) sequences have ([\d,]+) cached tokens each, of ([\d,]+) bytes", problem.text)
        assert problem.answer.value == pytest.approx(1 + weights / (batch * context * token), rel=3e-3)


def test_find_the_mistakes() -> None:
    """AWQ: (4 + 20/128) bits for the linear layers, 16 for the rest."""
    for problem in problems("quantization-find-the-mistakes"):
        (total, layers) = numbers(r"> ([\d,]+) parameters x 4 bits.*\n\nAWQ quantises the ([\d,]+) weights", problem.text)
        assert problem.answer.value == pytest.approx(layers * (4 + 20 / 128) / 8 + 2 * (total - layers), rel=1e-3)
        assert by_name(problem)["both mistakes"] == total / 2
