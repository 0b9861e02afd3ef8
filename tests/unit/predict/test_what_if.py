"""With and without: cache bytes by arithmetic, and batches that follow from them."""

from __future__ import annotations

from typing import Any

import roofline
from roofline.blocks import kinds
from roofline.predict.limits import limits
from roofline.predict.request import prepare
from roofline.predict.what_if import variants


def _bytes(model: str, context: int, **options: Any) -> dict[str, float]:
    found = limits(model, "h200-sxm", context=context, **options).variants
    return {row.variant: row.kv_bytes_per_sequence for row in found}


def test_formats_of_the_cache() -> None:
    """32 layers x 8 heads x 2 x 128 elements, 1,025 tokens in 65 blocks of 16; one byte or two."""
    elements = 32 * 8 * 2 * 128 * 65 * 16
    assert _bytes("llama-3.1-8b", 1024) == {"baseline": 2 * elements, "KV in fp8": elements}
    assert _bytes("llama-3.1-8b", 1024, kv_cache_dtype="fp8") == {"baseline": elements, "KV in bf16": 2 * elements}


def test_without_the_window() -> None:
    """Mistral 7B sees 4,096 tokens; without, the 16,385 of the sequence take 1,025 blocks."""
    found = _bytes("mistral-7b-v0.1", 16384)
    assert found["no window"] == 32 * 8 * 2 * 128 * 2 * 1025 * 16
    assert found["baseline"] < found["no window"] / 3.9


def test_without_latents() -> None:
    """61 layers; a latent of 512 + 64 elements on every device, or 128/8 heads with 192 for a key and 128 for a value."""
    found = _bytes("deepseek-v3", 1024, tp=8)
    assert found["baseline"] == 61 * (512 + 64) * 2 * 65 * 16
    assert found["full K and V, no latent"] == 61 * 128 // 8 * (192 + 128) * 2 * 65 * 16


def test_without_latents_beside_an_indexer() -> None:
    """Its key is kept as it is: 128 elements of a byte and a scale of 4, on every device."""
    found = _bytes("deepseek-v3.2", 1024, tp=8)
    assert found["baseline"] == 61 * ((512 + 64) * 2 + 132) * 65 * 16
    assert found["full K and V, no latent"] == 61 * (128 // 8 * (192 + 128) * 2 + 132) * 65 * 16


def test_without_the_shared_prefix() -> None:
    """As if it had not been said; what a sequence has in its cache is the same."""
    found = limits("llama-3.1-8b", "h200-sxm", context="4k", shared_prefix="2k")
    alone = roofline.analyze("llama-3.1-8b", "h200-sxm", context=4096).memory.max_batch
    batches = {row.variant: row.max_batch_memory for row in found.variants}
    assert batches["no shared prefix"] == alone < batches["baseline"]
    assert found.rows[0].shared_bytes == 32 * 8 * 2 * 128 * 2 * 2048


def test_only_what_applies() -> None:
    """A model without windows, latents or a prefix is compared in its formats alone; one without a cache not at all."""
    assert [variant.name for variant in variants(prepare("llama-3.1-8b", "h100-sxm"))] == ["KV in fp8"]
    names = [variant.name for variant in variants(prepare("gpt-oss-20b", "h100-sxm", shared_prefix=16, context=1024))]
    assert names == ["KV in fp8", "no shared prefix", "no window"]


def test_batches_grow_as_the_cache_shrinks() -> None:
    """Half the bytes, about twice the batch; weights and activations are the same."""
    found = limits("llama-3.1-8b", "a100-sxm-80gb", context="8k").variants
    whole, half = (row.max_batch_memory for row in found)
    assert whole is not None
    assert half in (2 * whole, 2 * whole + 1)


def test_the_expanded_latent_is_no_kind_of_its_own() -> None:
    """A model's file cannot name it, and the kinds are those of the blocks."""
    limits("deepseek-v2-lite", "h100-sxm", context=1024)
    assert kinds("mixer")["mla"].__module__ == "roofline.blocks.mla"
