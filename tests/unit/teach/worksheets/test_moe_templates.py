"""Answers of the topic `moe` against arithmetic that a reader can check."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.problem import Problem


def problems(name: str, seeds: int = 60) -> Iterator[Problem]:
    return (make(TEMPLATES[name], seed) for seed in range(seeds))


def numbers(pattern: str, text: str) -> list[float]:
    match = re.search(pattern, text)
    assert match, text
    return [float(found.replace(",", "")) for found in match.groups()]


def met(experts: float, used: float, tokens: float) -> float:
    return experts * (1 - (1 - used / experts) ** tokens)


def test_distinct_experts() -> None:
    """E (1 - (1 - k/E)^T): of 8 experts, 2 a token, four tokens meet 8 (1 - 0.75^4) = 5.46875 on average."""
    golden = set()
    for problem in problems("moe-distinct-experts", 500):
        used, experts, tokens = numbers(r"to (\d+) of (\d+) experts. (\d+) sequences", problem.text)
        assert problem.answer.value == pytest.approx(met(experts, used, tokens))
        golden |= {problem.answer.value} if (experts, used, tokens) == (8, 2, 4) else set()
    assert golden == {5.46875}


def test_bytes_of_a_step() -> None:
    """Layers x experts met x 3 matrices x 2 bytes; of Mixtral's all are 32 x 8 x 3 x 4096 x 14336 x 2 B = 90.2 GB."""
    for problem in problems("moe-step-bytes"):
        layers, experts, used = numbers(r"has (\d+) layers .* with (\d+) experts .* token uses (\d+)", problem.text)
        hidden, inner = numbers(r"matrices of ([\d,]+) .* by ([\d,]+) ", problem.text)
        (tokens,) = numbers(r"bf16. (\d+) sequences? decodes?", problem.text)
        assert problem.answer.value == pytest.approx(layers * met(experts, used, tokens) * 3 * hidden * inner * 2)
        by_name = {one.name: one.value for one in problem.mistakes}
        if "all experts read" in by_name:
            assert by_name["all experts read"] == pytest.approx(layers * experts * 3 * hidden * inner * 2)
            if "Mixtral" in problem.text:
                assert by_name["all experts read"] == pytest.approx(90.2e9, rel=1e-3)


def test_intensity_of_experts() -> None:
    """2 FLOP a row and weight, 2 bytes a weight: rows T k over experts met."""
    for problem in problems("moe-expert-intensity"):
        tokens, experts, used = numbers(
            r"(\d+) sequences decode .* have (\d+) experts, of which a token uses (\d+)", problem.text
        )
        assert problem.answer.value == pytest.approx(tokens * used / met(experts, used, tokens))


def test_all_to_all() -> None:
    """Tokens x k x d x 2 bytes, less the share that stays."""
    for problem in problems("moe-all-to-all"):
        (devices,) = numbers(r"evenly over (\d+) devices", problem.text)
        hidden, used = numbers(r"vector of ([\d,]+) elements.*goes to (\d+) experts", problem.text)
        (tokens,) = numbers(r"each device has (\d+) tokens", problem.text)
        assert problem.answer.value == tokens * used * hidden * 2 * (devices - 1) / devices


def test_memory_of_a_device() -> None:
    """2 bytes x (all else + experts / devices)."""
    for problem in problems("moe-memory-of-a-device"):
        total, experts = numbers(r"has ([\d,]+) parameters, of which ([\d,]+) belong", problem.text)
        (devices,) = numbers(r"on (\d+) devices", problem.text)
        assert problem.answer.value == pytest.approx(2 * (total - experts + experts / devices))


def test_all_reduces() -> None:
    """2 a layer, each 2 (n - 1)/n of T d 2 bytes, over NVLink in one direction: 300 GB/s on A100, 450 on H100."""
    for problem in problems("moe-all-reduce-time"):
        devices, layers = numbers(r"over (\d+) devices.*each of its (\d+) layers", problem.text)
        tokens, hidden = numbers(r"the ([\d,]+) tokens .* ([\d,]+) elements each", problem.text)
        rate = 300e9 if "A100" in problem.text else 450e9
        assert problem.answer.value == pytest.approx(2 * layers * 2 * (devices - 1) / devices * tokens * hidden * 2 / rate)


def test_bubble() -> None:
    """(p - 1)/(m + p - 1): four stages and four microbatches are idle for 3 of 7 (GPipe's figure 2)."""
    golden = set()
    for problem in problems("moe-pipeline-bubble", 500):
        (stages,) = numbers(r"into (\d+) pipeline stages", problem.text)
        (many,) = numbers(r"into (\d+) microbatches", problem.text)
        assert problem.answer.value == pytest.approx((stages - 1) / (many + stages - 1))
        golden |= {round(problem.answer.value, 9)} if stages == many == 4 else set()
    assert golden == {round(3 / 7, 9)}


def test_replicated_cache() -> None:
    """K and V of one head: 2 x layers x width x 2 bytes a token, of Mixtral 16 KiB, and not 128/16 = 8 KiB."""
    for problem in problems("moe-replicated-cache"):
        layers, kv, width, devices = numbers(
            r"(\d+) layers.* (\d+) KV heads.*head width (\d+).*runs on (\d+) tensor", problem.text
        )
        (tokens,) = numbers(r"sequence of ([\d,]+) tokens", problem.text)
        assert kv < devices
        assert problem.answer.value == 2 * layers * width * 2 * tokens
        if "Mixtral" in problem.text:
            assert problem.answer.value == 16 * 1024 * tokens
