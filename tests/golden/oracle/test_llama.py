"""Llama and what is like it, against the modules of transformers."""

from __future__ import annotations

from typing import Any

import pytest
from golden.oracle.machinery import assert_same, counted_by_transformers

pytestmark = pytest.mark.oracle

SMALL: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 96,
    "intermediate_size": 176,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 331,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
VARIANTS: dict[str, dict[str, Any]] = {
    "grouped": {},
    "multi-head": {"num_key_value_heads": 6},
    "wide heads": {"head_dim": 40},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "tied": {"tie_word_embeddings": True},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_variants(name: str) -> None:
    """Parameters, cache and FLOP of small models."""
    assert_same({**SMALL, **VARIANTS[name]})


def test_the_oracle_sees_a_difference() -> None:
    """Another width is another count: the comparison can fail."""
    small, other = counted_by_transformers(SMALL), counted_by_transformers({**SMALL, "head_dim": 18})
    assert small.total != other.total
    assert small.layers != other.layers
    assert small.cache != other.cache
    assert small.flops != other.flops


def test_the_oracle_by_hand() -> None:
    """Its own counts are what a reader finds for Llama: the oracle measures what it says."""
    counts = counted_by_transformers(SMALL)
    layer = 96 * 96 * 2 + 2 * 96 * 32 + 3 * 96 * 176 + 2 * 96  # q and o, k and v (2 heads of 16), gate, up, down; norms
    assert counts.layers == [layer] * 3
    assert counts.total == 3 * layer + 2 * 331 * 96 + 96  # and table, LM head, final norm
    assert counts.cache == [2 * 2 * 16] * 3
    assert counts.state == []
    linear = 3 * (layer - 2 * 96) + 331 * 96
    assert counts.flops["prefill"] == 2 * linear * 2 * 24 + 3 * 2 * 6 * (2 * 2 * 24 * 24 * 16)  # 2 sequences of 24
    assert counts.flops["decode"] == 2 * linear * 3 + 3 * 3 * 6 * (2 * 2 * 41 * 16)  # 3 sequences, 40 cached and the new one
