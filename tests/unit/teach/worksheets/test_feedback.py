"""What is said to answers: right ones in any spelling, usual mistakes by their hint, others by the factor they are off by."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from roofline.teach.worksheets import TEMPLATES, make
from roofline.teach.worksheets.feedback import AnswerKey, KnownMistake, KnownQuantity, judge

KEY = AnswerKey(
    kind="bytes",
    value=131072.0,
    tolerance=0.01,
    choices=(),
    mistakes=(
        KnownMistake(value=65536.0, hint="keys and values"),
        KnownMistake(value=524288.0, hint="query heads"),
        KnownMistake(value=128000.0, hint="binary"),
    ),
)
EXACT = AnswerKey(
    kind="sequences", value=113.0, tolerance=0.0, choices=(), mistakes=(KnownMistake(value=114.0, hint="round down"),)
)
CHOICE = AnswerKey(
    kind="choice", value=1.0, tolerance=0.01, choices=("yes", "no"), mistakes=(KnownMistake(value=0.0, hint="divide again"),)
)


@pytest.mark.parametrize("text", ["131072", "128 KiB", "0.131 MB", "2*32*8*128*2", "0.13 MB", "131,072 bytes"])
def test_right(text: str) -> None:
    said = judge(KEY, text)
    assert said.status == "right"
    assert said.text == "Right: 128 KiB (131,072 B)."


@pytest.mark.parametrize(
    ("text", "hint"),
    [("64 KiB", "keys and values"), ("512 KiB", "query heads"), ("128 kB", "binary"), ("65,900", "keys and values")],
)
def test_hints(text: str, hint: str) -> None:
    """Of a usual mistake, up to rounding."""
    assert (judge(KEY, text).status, judge(KEY, text).text) == ("hint", hint)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 MiB", "factor of 8"),
        ("16 KiB", "factor of 8"),
        ("256 KiB", "factor of 2"),
        ("128 MiB", "prefix"),
        ("131 GB", "prefix"),
        ("134.2 kB", "between decimal and binary"),
        ("140 kB", "within 10 %"),
        ("384 KiB", "factor of 3"),
        ("1.7 MB", "factor of 13"),
        ("200 kB", "too large, but by less"),
        ("1 kB", "factor of 131"),
        ("0.5 PB", "more than a factor of ten"),
        ("37 B", "too small, by more than a factor of ten"),
        ("0", "not zero"),
        ("128 Kb", "eight of them are a byte"),
    ],
)
def test_what_is_off(text: str, said: str) -> None:
    """Neither right nor a mistake that is listed: the factor says what to look at."""
    found = judge(KEY, text)
    assert found.status == "off"
    assert said in found.text


@pytest.mark.parametrize("text", ["131", "0.131", "1.3e9"])
def test_a_forgotten_unit_is_no_wrong_answer(text: str) -> None:
    """131 for 131 kB is 131 B, a thousandth: the unit is asked for, and the answer may be given again."""
    said = judge(KEY, text)
    assert said.status == "unread"
    assert said.text == "Write the unit: a number alone is in B. The answer is an amount of memory."


def test_a_share_beyond_one() -> None:
    """25 for 25 % where 20 % is right is off by 125; the sign is what is missing."""
    share = AnswerKey(kind="share", value=0.2, tolerance=0.02, choices=(), mistakes=())
    assert judge(share, "25").text == "A share is at most 1: write 0.25 or 25 %."
    assert judge(share, "25 %").text.startswith("It is too large")


def test_factors_of_two_and_eight_by_kind() -> None:
    """Bits and bytes, keys and values are of bytes alone."""
    plain = AnswerKey(kind="ratio", value=7.2, tolerance=0.02, choices=(), mistakes=())
    assert judge(plain, "0.9").text == "It is too small by a factor of 8."
    assert judge(plain, "14.4").text == "It is too large by a factor of 2."
    assert "Keys and values?" in judge(KEY, "256 KiB").text
    assert "A product and its sum" in judge(replace(KEY, kind="flop", mistakes=()), "262144").text


def test_the_published_depth_is_named() -> None:
    """64 layers of Qwen3 32B where the problem says 52: not the 64 query heads, which it does not have."""
    problem = next(
        made for seed in range(1, 99) if "instead of" in (made := make(TEMPLATES["transformer-mlp-weights"], seed)).text
    )
    layers, published = (int(number) for number in re.findall(r"(\d+) layers .* instead of (\d+)", problem.text)[0])
    said = judge(problem.key, f"{problem.answer.value * published / layers} B").text
    assert "the published number of layers over the number of layers" in said or "within 10 %" in said
    assert "query heads" not in said


def test_nothing_and_no_number() -> None:
    """A kind word, and what would be read."""
    assert judge(KEY, "  ").status == "empty"
    assert "guess" in judge(KEY, "").text
    assert judge(CHOICE, "").status == "empty"
    assert judge(KEY, "no idea").status == "unread"
    assert "320 KiB" in judge(KEY, "no idea").text


def test_exact_counts() -> None:
    """One more is not right, and is told so."""
    assert judge(EXACT, "113").status == "right"
    assert judge(EXACT, "114").text == "round down"
    assert judge(EXACT, "112").status == "off"
    assert judge(EXACT, "113.4").status == "off"


def test_choices() -> None:
    assert judge(CHOICE, "1").status == "right"
    assert judge(CHOICE, "1").text == "Right: no."
    assert judge(CHOICE, "0").text == "divide again"


def test_percent_or_fraction() -> None:
    """12 where 12 % is right is off by a hundred, and that is said."""
    share = AnswerKey(kind="share", value=0.12, tolerance=0.01, choices=(), mistakes=())
    assert judge(share, "12 %").status == "right"
    assert "percent" in judge(share, "12").text


def _layers(*quantities: tuple[float, str]) -> AnswerKey:
    """The key of above, made of some quantities."""
    return replace(KEY, quantities=tuple(KnownQuantity(value=value, name=name) for value, name in quantities))


def test_a_factor_is_named() -> None:
    """131072 / 32 is off by the number of layers, and 131072 x 0.7 by a share of 0.7."""
    key = _layers((40, "the number of layers"), (12, "the batch"), (0.7, "the share"))
    assert "factor of 40. That is the number of layers (40)" in judge(key, f"{131072 / 40}").text
    assert "too large by a factor of 40. That is the number of layers" in judge(key, f"{131072 * 40}").text
    assert "That is the share (0.7)" in judge(key, f"{131072 * 0.7}").text
    assert "the number of layers times the batch (40 x 12)" in judge(key, f"{131072 * 480} B").text
    assert "the number of layers over the batch (40 / 12)" in judge(key, f"{131072 / 40 * 12}").text
    assert judge(key, f"{131072 * 17}").text.endswith("factor of 17.")


def test_several_ideas_are_named_and_many_are_not() -> None:
    """Three equal numbers are three ideas; four would be guesses. Bits and bytes stay an idea beside another."""
    three = _layers((40, "the number of layers"), (40, "the number of query heads"), (40, "the batch"))
    ideas = "the number of layers (40), or the number of query heads (40), or the batch (40)"
    assert ideas in judge(three, f"{131072 * 40}").text
    four = _layers((40, "a"), (40, "b"), (40, "c"), (40, "d"))
    assert judge(four, f"{131072 * 40}").text.endswith("by a factor of 40.")
    eight = _layers((8, "the number of KV heads"))
    assert "bits and bytes? That is the number of KV heads (8)" in judge(eight, f"{131072 / 8}").text


def test_units_of_time() -> None:
    """Per hour where it was per second."""
    key = replace(KEY, kind="tokens/s", value=50.0, mistakes=())
    assert "hours" in judge(key, "180000").text


def test_quantities_of_a_problem_are_named() -> None:
    """One layer too often: 131072 x 32 of Llama 3.1 8B, whose layers and query heads are 32 both."""
    problem = make(TEMPLATES["kv-cache-per-token"], 1)
    assert problem.answer.value == 131072
    said = judge(problem.key, str(131072 * 32)).text
    assert "the number of layers (32), or the number of query heads (32)" in said
    assert "the head width (128)" in judge(problem.key, "1 KiB").text
