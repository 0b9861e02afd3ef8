"""Answers of the topic `preemption` against arithmetic that a reader can check."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import pytest

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.problem import Problem

SCALES = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def problems(name: str, seeds: int = 60) -> Iterator[Problem]:
    return (make(TEMPLATES[name], seed) for seed in range(seeds))


def numbers(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text)
    assert match, text
    return [float(found.replace(",", "")) for found in match.groups()]


def time(pattern: str, text: str) -> float:
    match = re.search(pattern.replace("TIME", r"([\d.]+) (s|ms|µs)\b"), text)
    assert match, text
    return float(match[1]) * SCALES[match[2]]


def lengths(text: str) -> list[int]:
    match = re.search(r"sequences have ([\d, ]+) and (\d+) tokens", text)
    assert match, text
    return [*map(int, match[1].split(", ")), int(match[2])]


def token(text: str) -> float:
    """2 x layers x KV heads x width x 2 bytes."""
    layers, kv, width = numbers(r"(\d+) layers.* (\d+) KV heads.*head width (\d+)", text)
    return 4 * layers * kv * width


def test_swap_time() -> None:
    """Out and in: 2048 tokens of Llama 3.1 8B are 256 MiB (128 KiB each), twice that over the 32 GB/s of an A100 is 16.8 ms."""
    golden = []
    for problem in problems("preemption-swap-time", 500):
        tokens, rate = numbers(r"sequence of ([\d,]+) tokens .* carries (\d+) GB/s", problem.text)
        assert problem.answer.value == pytest.approx(2 * tokens * token(problem.text) / (rate * 1e9))
        if "Llama 3.1 8B" in problem.text and "A100" in problem.text and tokens == 2048:
            golden.append(problem.answer.value)
    assert golden
    assert golden == pytest.approx([16.8e-3] * len(golden), rel=2e-3)


def test_blocks() -> None:
    """Each sequence is rounded up on its own."""
    for problem in problems("preemption-blocks"):
        (block,) = numbers(r"blocks of (\d+) tokens", problem.text)
        blocks = sum(math.ceil(length / block) for length in lengths(problem.text))
        assert problem.answer.value == blocks * block * token(problem.text)
        by_name = {one.name: one.value for one in problem.mistakes}
        assert by_name["K without V"] == problem.answer.value / 2


def test_fragmentation() -> None:
    """Empty places over places: 17 tokens in blocks of 16 leave 15 of 32 empty."""
    for problem in problems("preemption-fragmentation"):
        (block,) = numbers(r"blocks of (\d+) tokens", problem.text)
        places = sum(math.ceil(length / block) * block for length in lengths(problem.text))
        assert problem.answer.value == pytest.approx(1 - sum(lengths(problem.text)) / places)


def test_copy_calls() -> None:
    """2 x (2 x layers x blocks x a call + bytes / rate)."""
    for problem in problems("preemption-copy-calls"):
        tokens, layers, blocks = numbers(r"sequence of ([\d,]+) tokens.*\((\d+) layers.*in (\d+) blocks", problem.text)
        (rate,) = numbers(r"the bytes at ([\d.]+) GB/s", problem.text)
        call = time(r"the other: TIME a call", problem.text)
        one_way = 2 * layers * blocks * call + tokens * token(problem.text) / (rate * 1e9)
        assert problem.answer.value == pytest.approx(2 * one_way)


def test_recompute_time() -> None:
    """(2 N p + 4 L n_q d_head p (p + 1) / 2) over a share of the peak; the LM head's one token is within a thousandth."""
    for problem in problems("preemption-recompute-time"):
        (tokens,) = numbers(r"sequence of ([\d,]+) tokens", problem.text)
        (weights,) = numbers(r"have ([\d,]+) weights", problem.text)
        layers, queries, width = numbers(r"(\d+) layers.* (\d+) query heads.*head width (\d+)", problem.text)
        peak, share = numbers(r"\(([\d.]+) TFLOP/s dense.*reaches (\d+) % of", problem.text)
        work = 2 * weights * tokens + 2 * layers * queries * width * tokens * (tokens + 1)
        assert problem.answer.value == pytest.approx(work / (share / 100 * peak * 1e12), rel=3e-3)


def test_break_even_link() -> None:
    """Cache x peak x share / weights: Llama 3.1 8B on an A100 at 55 % needs 131072 x 312e12 x 0.55 / 6.979e9 = 3.22 GB/s."""
    golden = []
    for problem in problems("preemption-break-even-link", 500):
        (weights,) = numbers(r", ([\d,]+) weights multiply", problem.text)
        peak, share = numbers(r"\(([\d.]+) TFLOP/s dense.*reaches (\d+) % of", problem.text)
        assert problem.answer.value == pytest.approx(token(problem.text) * peak * 1e12 * share / 100 / weights)
        if "Llama 3.1 8B" in problem.text:
            assert weights == 32 * (2 * 4096 * (32 + 8) * 128 + 3 * 4096 * 14336)
            golden += [problem.answer.value] if (peak, share) == (312, 55) else []
    assert golden
    assert golden == pytest.approx([3.22e9] * len(golden), rel=1e-3)


def test_crossover() -> None:
    """Where reading the weights is made up for: t / (2 copy - compute)."""
    for problem in problems("preemption-crossover"):
        weights = time(r"needs TIME to read the weights", problem.text)
        each = time(r"and TIME for each token", problem.text)
        copied = time(r"takes TIME in one direction", problem.text)
        assert problem.answer.value * 2 * copied == pytest.approx(weights + problem.answer.value * each)


def test_first_eviction() -> None:
    """One token more does not fit, by counting blocks."""
    for problem in problems("preemption-first-eviction"):
        total, block = numbers(r"has ([\d,]+) KV blocks of (\d+) tokens", problem.text)
        running, prompt = numbers(r"(\d+) requests with prompts of ([\d,]+) tokens", problem.text)
        right = problem.answer.value
        assert running * math.ceil((prompt + right) / block) <= total < running * math.ceil((prompt + right + 1) / block)


def test_host_memory() -> None:
    """GiB over tokens x bytes of a token, rounded down: 2048 of Llama 3.1 8B are 256 MiB, 128 times in 32 GiB."""
    golden = set()
    for problem in problems("preemption-host-memory", 1000):
        (room,) = numbers(r"^(\d+) GiB", problem.text)
        (tokens,) = numbers(r"Each has ([\d,]+) tokens", problem.text)
        assert problem.answer.value == room * 2**30 // (tokens * token(problem.text))
        if "Llama 3.1 8B" in problem.text and (room, tokens) == (32, 2048):
            golden.add(problem.answer.value)
    assert golden == {128}
