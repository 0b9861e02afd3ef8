"""Answers of the topic `serving` against arithmetic that a reader can check."""

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
    match = re.search(pattern.replace("TIME", r"([\d.,]+) (s|ms|µs)\b"), text)
    assert match, text
    return float(match[1].replace(",", "")) * SCALES[match[2]]


def test_in_flight() -> None:
    """Rate x (TTFT + (n - 1) TPOT): 2 a second that stay 1 + 99 x 0.02 = 2.98 s are 5.96."""
    for problem in problems("serving-in-flight"):
        (rate,) = numbers(r"arrive at ([\d.]+) a second", problem.text)
        (tokens,) = numbers(r"there are (\d+) of them", problem.text)
        stays = time(r"comes after TIME \(TTFT", problem.text) + (tokens - 1) * time(r"after TIME \(TPOT", problem.text)
        assert problem.answer.value == pytest.approx(rate * stays)


def test_time_per_output_token() -> None:
    """(E2E - TTFT) / (n - 1)."""
    for problem in problems("serving-tpot"):
        (tokens,) = numbers(r"response has (\d+) tokens", problem.text)
        later = time(r"last one TIME after", problem.text) - time(r"comes after TIME \(TTFT", problem.text)
        assert problem.answer.value == pytest.approx(later / (tokens - 1))


def test_cost() -> None:
    """A million tokens take 1e6 / rate seconds, in each of which all devices cost a 3600th of their hour."""
    for problem in problems("serving-cost"):
        devices, price = numbers(r"on (\d+) NVIDIA .* rented for ([\d.]+) USD/h", problem.text)
        (rate,) = numbers(r"and ([\d,]+) output tokens", problem.text)
        assert problem.answer.value == pytest.approx(devices * price / 3600 * (1e6 / rate))


def test_chunked_prompt() -> None:
    """Rounded up prompt / (budget - running) steps: 2048 tokens beside 64 in steps of 512 are 5 (448 each), not 4."""
    golden = set()
    for problem in problems("serving-chunked-prompt", 1000):
        budget, running = numbers(r"at most ([\d,]+) tokens per step.* each of the (\d+) sequences", problem.text)
        (tokens,) = numbers(r"prompt of ([\d,]+) tokens arrives", problem.text)
        steps = math.ceil(tokens / (budget - running))
        assert problem.answer.value == pytest.approx(steps * time(r"step takes TIME", problem.text))
        if (tokens, running, budget) == (2048, 64, 512):
            golden.add(round(problem.answer.value / time(r"step takes TIME", problem.text), 6))
    assert golden == {5}


def test_longer_steps() -> None:
    """FLOP at the peak over bytes at the bandwidth, both longer than what they are compared with."""
    for problem in problems("serving-longer-steps"):
        (read,) = numbers(r"reads ([\d.]+) GB", problem.text)
        (flops,) = numbers(r"it is ([\d.]+) TFLOP then", problem.text)
        peak, bandwidth = numbers(r"with ([\d.]+) TFLOP/s dense.*and ([\d.]+) TB/s", problem.text)
        assert problem.answer.value == pytest.approx((flops / peak) / (read / 1e3 / bandwidth), rel=3e-3)
        assert problem.answer.value > 1


def test_prompts_take_a_share() -> None:
    """A step takes its own time and that of the prompts which came during one like it."""
    for problem in problems("serving-prompts-share"):
        (rate,) = numbers(r"arrive at ([\d.]+) a second", problem.text)
        step, prompt = time(r"in steps of TIME", problem.text), time(r"computed in TIME longer", problem.text)
        # a step of C seconds: its own t, and the prompts of the C seconds before
        assert problem.answer.value == pytest.approx(step + rate * problem.answer.value * prompt)


def test_first_wave() -> None:
    """8 clients, 4 prompts a step: four wait one step, four two, the mean is 1.5."""
    for problem in problems("serving-first-wave"):
        clients, prompt = numbers(r"lets (\d+) clients .* of ([\d,]+) tokens, to", problem.text)
        (budget,) = numbers(r"at most ([\d,]+) tokens per step", problem.text)
        each = time(r"step takes TIME", problem.text)
        waits = [math.ceil(place / (budget // prompt)) * each for place in range(1, int(clients) + 1)]
        assert problem.answer.value == pytest.approx(sum(waits) / clients)


def test_closed_loop() -> None:
    """Each client has an answer of n tokens every TTFT + (n - 1) TPOT."""
    for problem in problems("serving-closed-loop"):
        (clients,) = numbers(r"^(\d+) clients", problem.text)
        (tokens,) = numbers(r"responses have (\d+) tokens", problem.text)
        took = time(r"takes TIME on average \(TTFT", problem.text) + (tokens - 1) * time(r"one TIME \(TPOT", problem.text)
        assert problem.answer.value == pytest.approx(clients * tokens / took)


def test_replicas() -> None:
    """The fewest replicas that the peak keeps at 0.85 of saturation or below, times their devices."""
    for problem in problems("serving-replicas"):
        mean, factor = numbers(r"gets (\d+) requests/s on average, and ([\d.]+) times", problem.text)
        devices, most = numbers(r"on (\d+) NVIDIA .* saturates at ([\d.]+) requests", problem.text)
        replicas = problem.answer.value / devices
        assert mean * factor / replicas <= 0.85 * most * (1 + 1e-9)
        assert mean * factor / (replicas - 1) > 0.85 * most


def test_goodput() -> None:
    """Requests that keep to both, a second."""
    for problem in problems("serving-goodput"):
        rows = [(int(a.replace(",", "")), int(b)) for a, b in re.findall(r"TTFT ([\d,]+), TPOT (\d+)", problem.text)]
        assert len(rows) == 8
        (span,) = numbers(r"8 requests in (\d+) s", problem.text)
        ttft, tpot = numbers(r"TTFT of at most ([\d,]+) ms and a TPOT of at most (\d+) ms", problem.text)
        assert problem.answer.value == sum(a <= ttft and b <= tpot for a, b in rows) / span


def test_percentile() -> None:
    """The time itself is within the share, and no shorter one of them is."""
    for problem in problems("serving-percentile"):
        found = re.search(r"\(milliseconds\) ([\d,. ]+)\. What", problem.text)
        assert found
        times = [int(one.replace(",", "")) for one in found[1].split(", ")]
        assert len(times) == 20
        (share,) = numbers(r"the p(\d+) of", problem.text)
        right = round(problem.answer.value * 1000)
        assert right in times
        assert sum(one <= right for one in times) >= share / 100 * 20 > sum(one < right for one in times)
