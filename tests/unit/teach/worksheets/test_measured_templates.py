"""Answers of the topic `measured` against arithmetic that a reader can check, with figures of datasheets typed once more."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator

import pytest

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.problem import Problem

# bytes/s and dense bf16 FLOP/s, SMs, MiB of L2: datasheets
CARDS = {
    "A100 SXM4 80GB": (2.039e12, 312e12, 108, 40),
    "H100 SXM5 80GB": (3.35e12, 989.4e12, 132, 50),
    "H200 SXM 141GB": (4.8e12, 989.4e12, 132, 50),
    "L40S": (0.864e12, 362e12, 142, 96),
    "RTX 4090": (1.008e12, 165.2e12, 128, 72),
}
SCALES = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def problems(name: str, seeds: int = 60) -> Iterator[Problem]:
    return (make(TEMPLATES[name], seed) for seed in range(seeds))


def card(text: str) -> tuple[float, float, int, int]:
    return next(figures for name, figures in CARDS.items() if name in text)


def numbers(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text)
    assert match, text
    return [float(found.replace(",", "")) for found in match.groups()]


def seconds(pattern: str, text: str) -> float:
    match = re.search(pattern + r" ([\d.]+) (s|ms|µs|ns)\b", text)
    assert match, text
    return float(match[1]) * SCALES[match[2]]


def test_memory_bandwidth_utilisation() -> None:
    """Weights and 2 x layers x KV heads x width x 2 bytes a cached token, over time x bandwidth."""
    for problem in problems("measured-mbu"):
        (weights,) = numbers(r"reads ([\d.]+) GB of weights", problem.text)
        batch, context = numbers(r"with (\d+) sequences of ([\d,]+) cached", problem.text)
        layers, kv, width = numbers(r"has (\d+) layers.* (\d+) KV heads.*head width (\d+)", problem.text)
        read = weights * 1e9 + batch * context * 2 * layers * kv * width * 2
        took = seconds("took", problem.text)
        assert problem.answer.value == pytest.approx(read / (took * card(problem.text)[0]), rel=3e-3)


def test_over_the_bound() -> None:
    """The longer of 2 T d d_ff / P and 2 (d d_ff + T d_ff + T d) / beta is the bound."""
    for problem in problems("measured-over-the-bound"):
        tokens, inner = numbers(r"multiplies ([\d,]+) tokens .* of width ([\d,]+)", problem.text)
        (hidden,) = numbers(r"makes them ([\d,]+) wide", problem.text)
        bandwidth, peak, _, _ = card(problem.text)
        bound = max(2 * tokens * hidden * inner / peak, 2 * (hidden * inner + tokens * inner + tokens * hidden) / bandwidth)
        assert problem.answer.value == pytest.approx(seconds("this takes", problem.text) / bound, rel=3e-3)


def test_waves_of_tiles() -> None:
    """Wanted outputs over waves x SMs x tile."""
    for problem in problems("measured-waves"):
        outputs, tokens = numbers(r"gives ([\d,]+) outputs for each of ([\d,]+) tokens", problem.text)
        height, width, units = numbers(r"tiles of (\d+) tokens by (\d+) outputs .* the (\d+) SMs", problem.text)
        assert units == card(problem.text)[2]
        tiles = math.ceil(tokens / height) * math.ceil(outputs / width)
        assert problem.answer.value == pytest.approx(tokens * outputs / (math.ceil(tiles / units) * units * height * width))


def test_launches() -> None:
    """(a layer's kernels x layers + others) x microseconds is the step, of which the device works some."""
    for problem in problems("measured-launches"):
        layer, layers, more = numbers(r"is (\d+) kernels in each of (\d+) layers, and (\d+) besides", problem.text)
        (each,) = numbers(r"needs (\d+) µs", problem.text)
        step = (layer * layers + more) * each * 1e-6
        assert problem.answer.value == pytest.approx(1 - seconds("it takes", problem.text) / step, rel=1e-6)


def test_below_the_bound() -> None:
    """A thousandth of the time is a unit, a few percent less are noise, else it is the cache if warm and large enough."""
    met = set()
    for problem in problems("measured-below-the-bound"):
        tokens, n, k = numbers(r"product of (\d+) tokens? with a matrix of ([\d,]+) x ([\d,]+)", problem.text)
        bandwidth, _, _, l2 = card(problem.text)
        moved = 2 * (n * k + tokens * n + tokens * k)
        share = seconds("reports", problem.text) / (moved / bandwidth)
        warm = "a hundred times in a row" in problem.text
        place = 1 if share < 0.01 else 0 if warm and moved <= l2 * 2**20 else 2 if share > 0.95 else 3
        assert problem.answer.value == place, problem.text
        met.add(place)
    assert met == {0, 1, 2, 3}


def test_cache_in_l2() -> None:
    """4 bytes x KV heads x width x context in one layer: 8 heads of 128 at 1024 tokens are 4 MiB, of which 40 MiB hold ten."""
    met = set()
    for problem in problems("measured-cache-in-l2", 500):
        kv, width = numbers(r"(\d+) KV heads.*head width (\d+)", problem.text)
        (context,) = numbers(r"sequences of ([\d,]+) cached", problem.text)
        l2 = card(problem.text)[3]
        assert problem.answer.value == int(l2 * 2**20 / (4 * kv * width * context))
        met.add((kv * width, context, l2, problem.answer.value))
    assert (1024, 1024, 40, 10) in met


def test_median_error() -> None:
    """The third by size of five |predicted/measured - 1|."""
    for problem in problems("measured-median-error"):
        rows = re.findall(r"predicted (\d+), measured (\d+)", problem.text)
        assert len(rows) == 5
        assert problem.answer.value == pytest.approx(statistics.median(abs(int(a) / int(b) - 1) for a, b in rows))
