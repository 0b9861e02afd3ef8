"""Cases of a test that does the same with each: a few of them are enough to try other versions of dependencies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

DISTINCT = (
    # dense
    "gpt2", "falcon-7b", "llama-2-7b", "llama-3.1-8b", "qwen2.5-0.5b", "phi-4-mini", "olmo2-7b",
    # windows and chunks
    "mistral-7b-v0.1", "gemma-2-2b", "gemma-3-4b", "gemma-4-26b-a4b", "gpt-oss-20b", "mimo-v2-flash", "llama-4-scout",
    # experts
    "mixtral-8x7b", "glm-4.5-air", "qwen3-30b-a3b",
    # latent attention, with an index, compressed caches
    "deepseek-v2-lite", "deepseek-v3", "deepseek-v3.2", "glm-5.3", "deepseek-v4-flash",
    # recurrent layers
    "qwen3-next-80b-a3b", "qwen3.5-9b", "nemotron-3-nano-30b-a3b", "lfm2.5-vl-1.6b",
    # blocks left out, towers
    "nemotron-super-49b", "qwen2.5-vl-7b", "mistral-small-3.1-24b",
)  # fmt: skip
"""Shipped models whose formulas differ: one of each family that is built of the same blocks, with the same biases, tied
weights, kinds of layers and formats."""


def same_calls(cases: Iterable[Any], every: int = 8) -> list[Any]:
    """Return the cases of a parametrized test, all but the first, the one `every` later and so on marked `same_calls`.

    Args:
        cases: values, or tuples of values.
        every: of so many cases one has no mark.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.same_calls] if index % every else [])
        for index, case in enumerate(cases)
    ]
