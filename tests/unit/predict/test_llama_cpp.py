"""The memory of llama.cpp: a cache that is reserved when the server starts."""

from __future__ import annotations

from roofline import analyze

GIB = 2**30


def test_the_cache_is_reserved_for_every_slot() -> None:
    """Llama 3.1 8B: 32 layers x 8 heads x 128 x (K and V); 4 slots of 8,192 tokens at 34/32 bytes, whatever is in them."""
    memory = analyze(
        "llama-3.1-8b",
        "apple-m4-max",
        engine="llama.cpp",
        max_model_len=8192,
        max_num_seqs=4,
        kv_cache_dtype="q8_0",
        context=100,
    ).memory
    assert memory.needed_bytes == 4 * 8192 * 32 * 2 * 8 * 128 * 34 / 32
    assert memory.max_batch == 4


def test_the_cache_of_a_workload_is_padded() -> None:
    """Without a length and slots: 2 sequences of 1,000 + 1 tokens in cells of 256, of which each takes four."""
    memory = analyze("llama-3.1-8b", "apple-m4-max", engine="llama.cpp", batch=2, context=1000, phase="decode").memory
    assert memory.needed_bytes == 2 * 4 * 256 * 32 * 2 * 8 * 128 * 2


def test_windows_have_one_pass_beside_them() -> None:
    """Gemma 3 12B: 40 of 48 layers have a window of 1,024 tokens: 1,024 + 512 cells. 8 have all 8,192; 8 heads of 256."""
    memory = analyze("gemma-3-12b", "apple-m4-max", engine="llama.cpp", max_model_len=8192, max_num_seqs=1).memory
    assert memory.needed_bytes == (40 * 1536 + 8 * 8192) * 2 * 8 * 256 * 2


def test_a_gibibyte_stays_free() -> None:
    """Of what Metal lets the GPU have, 96 GiB."""
    memory = analyze("llama-3.1-8b", "apple-m4-max", engine="llama.cpp").memory
    assert round(memory.budget_bytes / GIB, 1) == 95.0
