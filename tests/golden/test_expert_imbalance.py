"""The busiest of the devices that share the experts: its rows, its experts' weights, what is sent to it, and what cannot be."""

from __future__ import annotations

import random

import pytest

import roofline
from roofline.errors import InputError
from roofline.operators.grouped_gemm import GroupedGemm, expert_load_imbalance
from roofline.predict.result import Analysis, Phase

BATCH, PROMPT = 32, 256
EXPERT = 3 * 4096 * 14336  # Mixtral 8x7B: 32 layers, 8 experts, 2 a token


def on_dgx(model: str, **options: object) -> Analysis:
    asked = {"dtype": "bf16", "batch": BATCH, "input_len": PROMPT, "ignore_capacity": True, **options}
    return roofline.analyze(model, "dgx-h100", **asked)


def of_kind(phase: Phase, kind: str, field: str) -> float:
    return sum(getattr(op.cost, field) for op in phase.operators if op.kind == kind)


@pytest.mark.parametrize("imbalance", [1.25, 2.0])
def test_rows_and_traffic_of_the_busiest(imbalance: float) -> None:
    """EP 4 over 4 replicas: so many times the FLOP of its experts, and bytes to it and back. Nothing else has more."""
    even, busy = on_dgx("mixtral-8x7b", dp=4, ep=4), on_dgx("mixtral-8x7b", dp=4, ep=4, expert_imbalance=imbalance)
    for before, after, tokens in zip(even.phases, busy.phases, (BATCH * PROMPT, BATCH), strict=True):
        assert of_kind(before, "grouped_gemm", "matrix_flops") == 32 * 2 * (tokens * 2 / 4) * EXPERT
        assert of_kind(after, "grouped_gemm", "matrix_flops") == imbalance * of_kind(before, "grouped_gemm", "matrix_flops")
        assert of_kind(after, "all_to_all", "link_bytes") == imbalance * of_kind(before, "all_to_all", "link_bytes")
        for kind in ("gemm", "attention", "norm", "combine"):
            assert of_kind(after, kind, "matrix_flops") == of_kind(before, kind, "matrix_flops")
            assert of_kind(after, kind, "activation_bytes") == of_kind(before, kind, "activation_bytes")
    assert busy.memory.weights_bytes == even.memory.weights_bytes


def test_the_experts_that_are_met() -> None:
    """Each of 2 experts here is chosen 1.5 times as often: with 3/8, of 32 tokens; no more than both are read."""
    phase = on_dgx("mixtral-8x7b", dp=4, ep=4, expert_imbalance=1.5).decode
    assert of_kind(phase, "grouped_gemm", "weight_bytes") == pytest.approx(32 * 2 * (1 - (5 / 8) ** 32) * EXPERT * 2, rel=1e-12)
    phase = on_dgx("mixtral-8x7b", dp=4, ep=4, expert_imbalance=100, batch=1000).decode
    assert of_kind(phase, "grouped_gemm", "weight_bytes") == 32 * 2 * EXPERT * 2


@pytest.mark.parametrize(("experts", "top_k", "ranks"), [(8, 2, 2), (8, 2, 8), (16, 4, 8), (6, 6, 3)])
def test_no_routing_is_worse_than_the_cap(experts: int, top_k: int, ranks: int) -> None:
    """Whatever experts tokens choose, the busiest device has at most that; and some choice gives it."""
    chance, held, tokens = random.Random(5), experts // ranks, 40  # noqa: S311 - seeded on purpose
    most = expert_load_imbalance(1e9, experts, top_k, ranks)
    for _ in range(200):
        weights = [chance.random() ** 4 for _ in range(experts)]
        loads = [0] * ranks
        for _ in range(tokens):
            order = sorted(range(experts), key=lambda expert: chance.random() ** (1 / (weights[expert] + 1e-9)), reverse=True)
            for expert in order[:top_k]:
                loads[expert // held] += 1
        assert max(loads) <= most * tokens * top_k / ranks + 1e-9
    assert min(held, top_k) * tokens == pytest.approx(most * tokens * top_k / ranks)  # every token to the first device


def test_inside_a_replica() -> None:
    """EP 2 of TP 2: no exchange, but the busiest sums more of the tokens' outputs: 1.5 of 2 on average."""
    even, busy = (on_dgx("mixtral-8x7b", tp=2, ep=2, expert_imbalance=x).prefill for x in (None, 1.5))
    assert of_kind(busy, "grouped_gemm", "matrix_flops") == 1.5 * of_kind(even, "grouped_gemm", "matrix_flops")
    assert of_kind(busy, "combine", "vector_flops") == 1.5 * of_kind(even, "combine", "vector_flops")
    assert of_kind(busy, "all_reduce", "link_bytes") == of_kind(even, "all_reduce", "link_bytes")


def test_one_device_has_them_all() -> None:
    """Without expert parallelism there is nothing to be out of balance, and the result says so."""
    even, busy = on_dgx("mixtral-8x7b"), on_dgx("mixtral-8x7b", expert_imbalance=3)
    assert busy.decode.cost == even.decode.cost
    (note,) = [note for note in busy.assumptions if note.name == "expert_imbalance"]
    assert "not spread" in note.why
    assert not [note for note in even.assumptions if note.name == "expert_imbalance"]


def test_what_is_not_possible_is_said() -> None:
    """Mixtral on 8 devices: at most 8/2 = 4 times the mean."""
    result = on_dgx("mixtral-8x7b", dp=8, ep=8, expert_imbalance=6)
    (note,) = [note for note in result.assumptions if note.name == "expert_imbalance"]
    assert note.why.endswith("More than 4 is not possible, and taken as that")
    assert result.decode.cost == on_dgx("mixtral-8x7b", dp=8, ep=8, expert_imbalance=4).decode.cost


def test_the_estimate_follows() -> None:
    """Twice the rows of a prompt take twice as long, less what rows of experts elsewhere cost, of which there are fewer."""
    even, busy = (on_dgx("mixtral-8x7b", dp=4, ep=4, input_len=4096, expert_imbalance=x).prefill for x in (None, 2.0))

    def experts(phase: Phase) -> float:
        found = [op.time.estimate for op in phase.operators if "/experts/" in op.path]
        return sum(time for time in found if time is not None)

    assert 1.5 < experts(busy) / experts(even) < 2


def test_with_a_skew() -> None:
    """Popularity and imbalance together: every expert here is chosen so much more often, no more than always."""
    one = GroupedGemm(tokens=1, n=1, k=1, experts=4, top_k=2, local_experts=2, skew=1.5, imbalance=1.5)
    even = GroupedGemm(tokens=1, n=1, k=1, experts=4, top_k=2, local_experts=2, skew=1.5)
    # ranks^-1.5 = 1, .354, .192, .125: the first is always chosen, the others share one pick as .354 : .192 : .125
    rest = [0.35355339, 0.19245009, 0.125]
    chances = [1.0, *(weight / sum(rest) for weight in rest)]
    assert even.cost().weight_bytes == pytest.approx(2 * sum(chances) / 2)
    assert one.cost().weight_bytes == pytest.approx(2 * sum(min(1.5 * chance, 1) for chance in chances) / 2)


@pytest.mark.parametrize("wrong", ["0.9", "nan", "inf", "many", "-2"])
def test_wrong_values(wrong: str) -> None:
    """A ratio of at least 1."""
    with pytest.raises(InputError, match="--expert-imbalance"):
        on_dgx("mixtral-8x7b", dp=4, ep=4, expert_imbalance=wrong)
