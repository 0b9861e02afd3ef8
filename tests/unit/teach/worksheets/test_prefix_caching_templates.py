"""Answers of the topic `prefix-caching` against arithmetic that a reader can check."""

from __future__ import annotations

import re

import pytest
from unit.teach.worksheets.arithmetic import amount, by_name, numbers, problems


def token(text: str) -> float:
    """2 x layers x KV heads x width x 2 bytes."""
    layers, kv, width = numbers(r"(\d+) layers.* (\d+) KV heads.*head width (\d+)", text)
    return 4 * layers * kv * width


def test_blocks() -> None:
    """Whole blocks of what is in common; of the same prompt again all but the one with its last token."""
    met = set()
    for problem in problems("prefix-caching-blocks"):
        block, prompt = numbers(r"blocks of (\d+) tokens\. A prompt of ([\d,]+) tokens", problem.text)
        common = re.search(r"first ([\d,]+) tokens in common", problem.text)
        tokens = float(common[1].replace(",", "")) if common else prompt - 1
        assert problem.answer.value == tokens // block * block
        met.add(common is None)
    assert met == {True, False}


def test_cached_share() -> None:
    for problem in problems("prefix-caching-cached-share"):
        requests, system, own, block = numbers(
            r"^(\d+) requests .* prompt of ([\d,]+) tokens, and then ([\d,]+) tokens .* blocks of (\d+) tokens", problem.text
        )
        by_hand = (requests - 1) * (system // block * block) / (requests * (system + own))
        assert problem.answer.value == pytest.approx(by_hand)


def test_ttft_saved() -> None:
    for problem in problems("prefix-caching-ttft-saved"):
        cached, weights, share = numbers(r"has ([\d,]+) tokens whose.* ([\d,]+) weights.* reaches (\d+) %", problem.text)
        peak = amount(r"\(AMOUNT dense", problem.text)
        assert problem.answer.value == pytest.approx(2 * weights * cached / (share / 100 * peak), rel=2e-3)


def test_shared_memory() -> None:
    """The system prompt once, and what each request has of its own."""
    for problem in problems("prefix-caching-shared-memory"):
        requests, system, own = numbers(
            r"^(\d+) running.*system prompt of ([\d,]+) tokens, and each ([\d,]+) tokens", problem.text
        )
        assert problem.answer.value == (system + requests * own) * token(problem.text)
        assert by_name(problem)["not shared"] == requests * (system + own) * token(problem.text)


def test_chat() -> None:
    """Turn i of n has (i - 1) (q + r) + q prompt tokens, of which q are new."""
    for problem in problems("prefix-caching-chat"):
        turns, asked, replied = numbers(r"has (\d+) turns.* writes ([\d,]+) tokens .* replies with ([\d,]+)", problem.text)
        total = sum(turn * (asked + replied) + asked for turn in range(int(turns)))
        assert problem.answer.value == pytest.approx(total / (turns * asked))


def test_lru() -> None:
    """The simulator's cache against a list that is kept in the order of use."""
    for problem in problems("prefix-caching-lru", 200):
        match = re.search(r"system prompts: ([A-E, ]+)\. .* holds (\d) of them", problem.text)
        assert match
        order, held = match[1].split(", "), int(match[2])
        recent: list[str] = []
        hits = 0
        for letter in order:
            hits += letter in recent
            recent = [*(one for one in recent if one != letter), letter][-held:]
        assert problem.answer.value == pytest.approx(hits / len(order))


def test_host_link() -> None:
    """Loading takes k / R, computing 2 N / (u P)."""
    for problem in problems("prefix-caching-host-link"):
        weights, share = numbers(r"again multiplies ([\d,]+) weights.*reaches (\d+) % of", problem.text)
        peak = amount(r", AMOUNT dense", problem.text)
        by_hand = token(problem.text) * share / 100 * peak / (2 * weights)
        assert problem.answer.value == pytest.approx(by_hand, rel=2e-3)


def test_who_shares() -> None:
    """Whole blocks of 16 before the first token that differs: of the requests' first tokens alone."""
    for problem in problems("prefix-caching-who-shares"):
        first = {}
        for place, choice in enumerate(problem.answer.choices):
            (tokens,) = numbers(r"first ([\d,]+) tokens", choice)
            first[place] = 0 if "time of day" in choice else tokens // 16
        ranked = sorted(first, key=lambda place: -first[place])
        assert problem.answer.value == ranked[1 if "second-most" in problem.text else 0]


def test_prefixes_that_fit() -> None:
    for problem in problems("prefix-caching-prefixes-that-fit"):
        (total, capacity, used, running, length, history) = numbers(
            r"\(([\d,]+) parameters.* with ([\d.]+) GiB of memory.* use (\d+) %\. (\d+) running sequences have ([\d,]+) tokens"
            r".* have ([\d,]+) tokens\. How",
            problem.text,
        )
        left = used / 100 * capacity * 2**30 - 2 * total - running * length * token(problem.text)
        assert problem.answer.value == left // (history * token(problem.text))
