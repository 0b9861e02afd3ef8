"""Answers of the topic `speculation` against arithmetic that a reader can check."""

from __future__ import annotations

import pytest
from unit.teach.worksheets.arithmetic import amount, by_name, numbers, problems

# total parameters; layers, KV heads, head width: model cards and config.json of the drafts
DRAFTS = {
    "Llama 3.1 8B": (8_030_261_248, 32, 8, 128),
    "Llama 3.2 1B": (1_235_814_400, 16, 8, 64),
    "Qwen3 1.7B": (1_720_574_976, 28, 8, 128),
    "Qwen3 0.6B": (596_049_920, 28, 8, 128),
    "Qwen2.5 0.5B": (494_032_768, 24, 2, 64),
}


def geometric(acceptance: float, drafted: int) -> float:
    """1 + a + ... + a^K."""
    return sum(acceptance**power for power in range(drafted + 1))


def test_tokens_per_round() -> None:
    """80 % and 5 tokens: 1 + 0.8 + 0.64 + 0.512 + 0.4096 + 0.32768 = 3.689."""
    golden = []
    for problem in problems("speculation-tokens-per-round", 400):
        drafted, percent = numbers(r"proposes (\d) tokens.*probability of (\d+) %", problem.text)
        assert problem.answer.value == pytest.approx(geometric(percent / 100, int(drafted)))
        if (percent, drafted) == (80, 5):
            golden.append(problem.answer.value)
    assert golden
    assert golden == pytest.approx([3.68928] * len(golden))


def test_accepted_share() -> None:
    """(a + ... + a^K) / K: 50 % and 2 tokens are (0.5 + 0.25) / 2."""
    for problem in problems("speculation-accepted-share"):
        percent, drafted = numbers(r"probability of (\d+) % if .*; (\d) are", problem.text)
        assert problem.answer.value == pytest.approx((geometric(percent / 100, int(drafted)) - 1) / drafted)
        assert by_name(problem)["the probability"] == percent / 100


def test_break_even() -> None:
    """The acceptance at which 1 + a (+ a^2) is the time of a round in plain steps."""
    met = set()
    for problem in problems("speculation-break-even"):
        drafted, step, verify = numbers(r"proposes (\d) .* takes ([\d.]+) times .* verifies ([\d.]+) times", problem.text)
        assert geometric(problem.answer.value, int(drafted)) == pytest.approx(drafted * step + verify)
        met.add(drafted)
    assert met == {1, 2}


def test_round_time() -> None:
    for problem in problems("speculation-round-time"):
        draft = amount(r"the draft takes AMOUNT at", problem.text)
        drafted, percent = numbers(r"verifies (\d) drafted.*probability of (\d+) %", problem.text)
        verify = amount(r"drafted tokens AMOUNT\.", problem.text)
        by_hand = (drafted * draft + verify) / geometric(percent / 100, int(drafted))
        assert problem.answer.value == pytest.approx(by_hand, rel=2e-3)


def test_best_k() -> None:
    """The number from 1 to 8 whose tokens over 1 + K c are the most."""
    met = set()
    for problem in problems("speculation-best-k"):
        percent, step = numbers(r"probability of (\d+) %.*takes ([\d.]+) times", problem.text)
        gains = [geometric(percent / 100, count) / (1 + count * step) for count in range(1, 9)]
        assert problem.answer.value == gains.index(max(gains)) + 1
        met.add(problem.answer.value)
    assert len(met) > 3


def test_large_batch() -> None:
    """The longer of reading 2 N bytes and 2 N B (K + 1) FLOP, over the same of a plain step."""
    for problem in problems("speculation-large-batch"):
        (weights, batch, drafted) = numbers(r"have ([\d,]+) weights.* (\d+) sequences decode.* has (\d) drafted", problem.text)
        peak, bandwidth = amount(r"has AMOUNT dense", problem.text), amount(r"and AMOUNT of memory", problem.text)
        read = 2 * weights / bandwidth
        plain, verify = (max(read, 2 * weights * tokens / peak) for tokens in (batch, batch * (1 + drafted)))
        assert problem.answer.value == pytest.approx(verify / plain, rel=3e-3)


def test_speed_up() -> None:
    for problem in problems("speculation-speed-up"):
        weights, small = amount(r"reads AMOUNT of weights", problem.text), amount(r"draft [\w. ]+? AMOUNT\. Both", problem.text)
        drafted, percent = numbers(r"(\d) tokens are drafted.*probability of (\d+) %", problem.text)
        by_hand = geometric(percent / 100, int(drafted)) / (1 + drafted * small / weights)
        assert problem.answer.value == pytest.approx(by_hand, rel=2e-3)


def test_draft_memory() -> None:
    """2 bytes a parameter, and 4 x layers x KV heads x width bytes for each token of each sequence."""
    for problem in problems("speculation-draft-memory"):
        draft = problem.text.partition("drafts by ")[2]
        total, layers, kv, width = DRAFTS[next(name for name in DRAFTS if draft.startswith(name))]
        batch, length = numbers(r"(\d+) sequences of ([\d,]+) tokens are running", problem.text)
        assert problem.answer.value == 2 * total + batch * length * 4 * layers * kv * width


def test_find_the_mistakes() -> None:
    """The post's 1 + a K; right is the geometric sum over 1 + K c."""
    for problem in problems("speculation-find-the-mistakes"):
        percent, drafted, step = numbers(r"acceptance of (\d+) % and (\d) drafted.*takes ([\d.]+) times", problem.text)
        by_hand = geometric(percent / 100, int(drafted)) / (1 + drafted * step)
        assert problem.answer.value == pytest.approx(by_hand)
        assert by_name(problem)["both mistakes"] == pytest.approx(1 + percent / 100 * drafted)
