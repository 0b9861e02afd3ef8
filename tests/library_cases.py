"""Models for tests that do the same with each of them."""

from __future__ import annotations

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
"""Shipped models whose formulas differ: of each kind of mixer and MLP that shipped models have."""
