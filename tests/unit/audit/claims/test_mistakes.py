"""Each usual mistake, with a claim that it explains and the arithmetic beside it; and that none is listed in vain."""

from __future__ import annotations

from itertools import pairwise

import pytest

import roofline
from roofline.audit.claims import judge
from roofline.audit.claims.mistakes import MISTAKES, _at_least

# One claim a mistake, at least: the test below wants a row for every file.
EXPLAINED = [
    ("h100-sxm: 1979 dense bf16 TFLOP/s", "sparse peak"),  # 2 x 989.4
    ("h100-sxm: 1979 bf16 TFLOP/s", "another precision"),  # the dense fp8 peak is 1,978.9
    ("llama-3.1-70b fp16 fits on h100-sxm", "another precision"),  # 70.6 GB in fp8
    ("llama-3.1-8b on a100-sxm-80gb 250 tok/s batch 1", "another precision"),  # half of 15 GB over 2,039 GB/s: 271
    ("llama-3.1-70b fp16 fits on h100-sxm", "several devices for one"),  # 141 GB on two cards of 85.5
    ("a100-sxm-80gb: 1248 TFLOP/s bf16", "several devices for one"),  # 4 x 312
    ("llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1", "whole batch for one user"),  # 26 x 136
    ("llama-3.1-8b on a100-sxm-80gb: 0.3 ms per token", "whole batch for one user"),  # 3,333 tokens a second
    ("llama-3.1-8b on a100-sxm-80gb: 900 tok/s batch 1", "bits for bytes"),  # 8 x 136 = 1,087
    ("llama-3.1-8b h100-sxm bs 1 input 1000 output 10: 5000 tok/s", "prompt tokens counted"),  # 100 prompt tokens each
    ("llama-2-7b on a100-sxm-80gb: 400 tok/s, batch 8, 8k context", "K without V"),  # 8 x 4.3 GB of cache, 13 of weights
    ("llama-3.1-8b on a100-sxm-80gb: 145 tok/s batch 1", "GB for GiB"),  # 135.8 x 1.0737 = 145.9
    ("a100-pcie-80gb, llama-3.1-8b batch 1: 132 tok/s", "another card"),  # 1,935 GB/s give 128.9; SXM: 135.8
    ("mixtral-8x7b on 2x h100-sxm, batch 64: 15000 tok/s", "active for total parameters"),  # 64 x 263 with 12.7 GB a device
    ("llama-3.1-8b on a100-sxm-80gb: 400 tok/s batch 1", "speculative decoding"),  # 3 tokens a step
    ("llama-3.1-8b on h100-sxm: TTFT 50 ms for a 32k prompt", "prefix cached"),
    ("llama-3.1-8b on h100-sxm: 9000 tok/s, 2048 in / 128 out", "prompts left out"),  # 17 prompt FLOP for one of output
    ("llama-3.1-8b on h100-sxm: 9000 tok/s, 2048 in / 128 out", "prefix cached"),
    ("llama-3.1-8b on h100-sxm: TTFT 20 ms for a 2k prompt", "MAC for FLOP"),  # 30 TFLOP at 989 TFLOP/s: 31 ms
    ("llama-3.1-8b on h100-sxm: 2500 tok/s, batch 16, 16k context", "shared prefix"),  # 16 x 2.1 GB of cache, or once
    ("llama-3.1-70b on h100-sxm: 1 tok/s", "offloading"),  # 56 GB over 64 GB/s
    ("llama-3.1-8b on a100-sxm-80gb: 6000 tok/s batch 1", "unit"),  # 100 a second are 6,000 a minute
]


@pytest.mark.parametrize(("text", "name"), EXPLAINED)
def test_explains(text: str, name: str) -> None:
    """The number is not possible, and the mistake is named with its figure."""
    found = judge(text)
    assert found.verdict != "possible"
    named = {mistake.name: mistake for mistake in found.likely_mistakes}
    assert name in named
    assert named[name].figure is not None
    assert 0 < named[name].closeness <= 1.03


def test_the_figure_of_a_time_is_a_time() -> None:
    """At most 446 tok/s of two users: no less than 2.24 ms between tokens of both, where 4.48 ms are the floor of one."""
    judged = judge("llama-3.1-8b on h100-sxm: 4 ms per token")
    named = {mistake.name: mistake for mistake in judged.likely_mistakes}
    assert named["whole batch for one user"].figure == pytest.approx(4.481e-3 / 2, rel=1e-3)


def test_every_mistake_has_a_claim() -> None:
    """A new one wants a row above; words cannot say how many images a prompt has."""
    assert set(MISTAKES) == {"encoder left out", *(name for _, name in EXPLAINED)}


def test_encoder_left_out() -> None:
    """Gemma 3 12B, a prompt of 1,024 tokens and two images: prefill alone has a floor of 34.3 ms, with the encoder 45.3."""
    given = {"ttft": "40 ms", "input_len": 1024, "images": 2}
    judged = judge(None, "gemma-3-12b", "h100-sxm", **given)
    assert judged.verdict == "impossible"
    named = {mistake.name: mistake for mistake in judged.likely_mistakes}
    alone = roofline.analyze("gemma-3-12b", "h100-sxm", input_len=1024 + 2 * 256).prefill
    assert alone is not None
    assert named["encoder left out"].figure == pytest.approx(alone.time.floor)


def test_closest_first() -> None:
    """Sorted by how near the claim is to the mistaken figure."""
    found = judge("llama-3.1-8b on a100-sxm-80gb: 250 tok/s batch 1").likely_mistakes
    off = [abs(1 - mistake.closeness) for mistake in found]
    assert all(one <= other + 0.02 for one, other in pairwise(off))


def test_nothing_to_explain() -> None:
    """A possible claim has no mistakes."""
    assert judge("llama-3.1-8b on a100-sxm-80gb: 95 tok/s batch 1").likely_mistakes == ()


def test_none_explains_the_absurd() -> None:
    """A thousand times the peak is no usual mistake."""
    assert judge("h100-sxm: 999999 bf16 TFLOP/s").likely_mistakes == ()


def test_k_without_v_of_a_cache_that_does_not_fit() -> None:
    """48 x 2.1 GB and 13.5 of weights are more than 85.9 GB; half the cache is not."""
    found = judge("llama-2-7b fits on a100-sxm-80gb with 48 users at 4k context")
    assert found.verdict == "impossible"
    assert "K without V" in {mistake.name for mistake in found.likely_mistakes}


@pytest.mark.parametrize("text", ["llama-3.1-8b fits on t4", "llama-3.1-8b on t4: 10 tok/s batch 1"])
def test_a_small_cache_explains_nothing(text: str) -> None:
    """16.06 GB of weights in 16 GB: a cache of one token (128 KiB) is not what makes the difference, eight bits are."""
    found = judge(text)
    assert found.verdict != "possible"
    assert "K without V" not in {mistake.name for mistake in found.likely_mistakes}
    (other,) = (mistake for mistake in found.likely_mistakes if mistake.name == "another precision")
    assert "weights" in other.why


@pytest.mark.parametrize("text", ["4 PFLOPS FP8", "4000 TFLOPS fp8", "3.96 PFLOPS fp8"])
def test_rounded_peaks(text: str) -> None:
    """3,958 with sparsity, to the digits that are given."""
    assert judge(f"h100-sxm: {text}").likely_mistakes[0].name == "sparse peak"


def test_not_rounded() -> None:
    """4.2 is not 3.958: half a unit of its last digit is 0.05."""
    assert "sparse peak" not in {mistake.name for mistake in judge("h100-sxm: 4.2 PFLOPS fp8").likely_mistakes}


def test_a_least_number_is_rounded_up() -> None:
    """29.4 prompt tokens are needed for each generated one: 29 would not do."""
    assert [_at_least(share) for share in (29.4, 29.0, 2.31, 1234.5)] == ["30", "29", "2.4", "1,235"]
