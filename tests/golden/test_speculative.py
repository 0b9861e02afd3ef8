"""Speculative decoding against its papers."""

from __future__ import annotations

import pytest

import roofline
from roofline.predict.speculation import tokens_per_round


@pytest.mark.parametrize(
    ("acceptance", "drafted", "speed"),
    [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86)],
)
def test_speed_of_a_free_draft(acceptance: float, drafted: int, speed: float) -> None:
    """Leviathan et al. 2023, arXiv:2211.17192, table 1: speed over the baseline where a draft costs nothing (c = 0)."""
    assert round(tokens_per_round(acceptance, drafted), 2) == speed


def test_weights_of_the_mtp_module() -> None:
    """DeepSeek-V3's README_WEIGHTS.md says 11.5 billion unique parameters.

    Those are what the layer has; the projection of two widths to one has 2 x 7168^2 = 0.10 billion beside it.
    """
    found = roofline.analyze(
        "deepseek-v3", "h200-sxm", dtype="bf16", quantization="none",
        speculative_method="mtp", num_speculative_tokens=1, acceptance=0.9,
    )  # fmt: skip
    assert found.speculative is not None
    parameters = found.speculative.draft_weights_bytes / 2
    assert (parameters - 2 * 7168**2) / 1e9 == pytest.approx(11.5, abs=0.05)
