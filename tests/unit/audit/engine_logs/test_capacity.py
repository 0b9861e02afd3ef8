"""Budgets of memory, and tokens in the cache, by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from unit.audit.engine_logs.engine_lines import INIT, MEMORY, SAMPLES

from roofline.audit.engine_logs.budgets import DRIVER, DRIVER_SHARE, GRAPHS, SAMPLER, MemoryBudget, MemoryItem, device_memory
from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.compare import Comparison, compare
from roofline.audit.engine_logs.names import Row
from roofline.specs.library import load_hardware
from roofline.specs.workload import Segment

GIB = 2**30
TOKEN = 32 * 2 * 8 * 128 * 2  # Llama 3.1 8B: K and V of 8 heads of 128 in 32 layers at 2 bytes = 128 KiB


def _row(found: Comparison, quantity: str) -> Row:
    return next(row for row in found.rows if row.quantity == quantity)


def test_budget() -> None:
    """Half of 10, less 1 and 2, are 2; rooms of 0.5 x 2 and 1 add up in squares to 1.414."""
    found = MemoryBudget(0.5, MemoryItem.around("device", 10, 2), (MemoryItem.around("a", 1, 1), MemoryItem.around("b", 2, 0)))
    assert found.available == 2
    assert found.band == pytest.approx((2 - 2**0.5, 2 + 2**0.5))


def test_device() -> None:
    """24,564 MiB less 450 MiB and 0.15 %; a capacity that is given is not touched."""
    hardware, _ = load_hardware("rtx-4090")
    assert device_memory(hardware).size == pytest.approx(24_564 * 2**20 * (1 - DRIVER_SHARE) - DRIVER)
    assert device_memory(type(hardware)(hardware.accelerator, None, {"memory_bytes": 2.0**34})).size == 2**34


def test_unaided(write: Callable[..., Path]) -> None:
    """0.9 of the device, less 8.03 G weights of 2 bytes, the logits of 256 sequences, and 0.08 GiB, in blocks of 16."""
    found = compare(None, "rtx-4090", engine_log_path=write(INIT, *MEMORY))
    device = 24_564 * 2**20 * (1 - DRIVER_SHARE) - DRIVER
    available = 0.9 * device - 8_030_261_248 * 2 - SAMPLER * 4 * 256 * 128_256 - 0.08 * GIB
    assert _row(found, "kv_cache_bytes").predicted == pytest.approx(available)
    assert _row(found, "kv_capacity_tokens").predicted == available // (16 * TOKEN) * 16
    assert _row(found, "max_concurrency").predicted == available // (16 * TOKEN) * 16 / 8192


def test_from_the_logs_memory(write: Callable[..., Path]) -> None:
    """5 GiB hold 40,960 tokens of 128 KiB; ratio is predicted over measured."""
    row = _row(compare(None, "rtx-4090", engine_log_path=write(INIT, *MEMORY)), AIDED)
    assert (row.measured, row.predicted, row.ratio, row.within, row.why) == (40_960, 40_960, 1, True, "")


def test_graphs_since_0_21(write: Callable[..., Path]) -> None:
    """The same start of 0.22 has so much less for its cache, beside a larger share by default; an eager one has not."""
    older = _row(compare(None, "rtx-4090", engine_log_path=write(INIT, *MEMORY)), "kv_cache_bytes")
    newer = INIT.replace("v0.19.0", "v0.22.0")
    later = _row(compare(None, "rtx-4090", engine_log_path=write(newer, *MEMORY)), "kv_cache_bytes")
    eager = newer.replace("enforce_eager=False", "enforce_eager=True")
    none = _row(compare(None, "rtx-4090", engine_log_path=write(eager, *MEMORY)), "kv_cache_bytes")
    assert older.predicted is not None
    assert none.predicted is not None
    assert later.predicted == pytest.approx(none.predicted - GRAPHS)
    assert none.predicted - older.predicted == pytest.approx(0.02 * load_hardware("rtx-4090")[0].memory_bytes, rel=0.05)


def test_first_engine() -> None:
    """28,122 blocks are 449,952 tokens; 54.93 GiB over 2 MiB a block are 28,124."""
    found = compare(None, "a100-sxm-80gb", engine_log_path=SAMPLES / "vllm-0.7.3.log")
    row = _row(found, AIDED)
    assert (row.measured, row.predicted) == (28_122 * 16, 28_124 * 16)
    assert _row(found, "activations_bytes").measured == pytest.approx(1.19 * GIB)
    assert _row(found, "device_bytes").measured == pytest.approx(79.14 * GIB)


def test_fp8_cache() -> None:
    """64 KiB a token: 4.79 GiB are 78,479.4 of them, and 4,904 whole blocks."""
    row = _row(compare(None, "rtx-4090", engine_log_path=SAMPLES / "vllm-0.22.0.log"), AIDED)
    assert row.predicted == 4.79 * GIB // (16 * TOKEN / 2) * 16 == 78_464


def test_sglang() -> None:
    """63.48 GiB after loading, less 12 % of 78.58: 54.0504 GiB, 442,780 tokens in pages of one."""
    row = _row(compare(None, "h100-sxm", engine_log_path=SAMPLES / "sglang-0.5.log"), AIDED)
    assert row.predicted == int((63.48 - 0.12 * 78.58) * GIB / TOKEN) == 442_780


@pytest.mark.parametrize(
    ("hardware", "version", "more", "share"),
    [
        # 512 MiB, 1.5 MiB per token of a chunk, 2 MiB per sequence of a graph, 128 MiB per device
        ("h100-sxm", "0.5.6", "", 1 - (512 + 1.5 * 8192 + 2 * 256 + 128) / 81559),
        ("h100-sxm", "0.5.6", ", tp_size=4", 1 - (512 + 1.5 * 8192 + 2 * 512 + 4 * 128) / 81559),
        ("h100-sxm", "0.5.6", ", chunked_prefill_size=4096", 1 - 10 * 1024 / 81559),  # at least 10 GiB
        ("rtx-4090", "0.5.6", "", 1 - (512 + 1.5 * 2048 + 2 * 24 + 128) / 24564),
        # from 0.5.10 on 8 MiB for each graph of prompts: 8 + 14 + 8 + 8 + 12 sizes up to 4096 tokens, one more per 512 beyond
        ("h100-sxm", "0.5.12", "", 1 - (512 + 1.5 * 8192 + 2 * 256 + 128 + 8 * (50 + 8)) / 81559),
        ("rtx-4090", "0.5.21", "", 1 - (512 + 1.5 * 4096 + 2 * 48 + 128 + 8 * 50) / 24564),
        # before 0.5.3: 9.5 GiB and half of one per device on cards of 35 to 90 GiB
        ("h100-sxm", "0.4.9", ", tp_size=2", 1 - 10.5 * 1024 / 81559),
    ],
)
def test_sglangs_share_where_no_line_says_it(
    write: Callable[..., Path], hardware: str, version: str, more: str, share: float
) -> None:
    """The value of the log where it stands, else what the engine computes from card, TP and chunk, to three digits."""
    lines = (SAMPLES / "sglang-0.5.log").read_text().splitlines()
    unknown = lines[0].replace("mem_fraction_static=0.88", "mem_fraction_static=None")
    for name in ("tp_size=1", "chunked_prefill_size=8192"):
        unknown = unknown.replace(name, "") if name.split("=")[0] in more or "chunk" in name else unknown
    settings = unknown.replace("model_path=", f"sglang_version='{version}'{more}, model_path=", 1)
    path = write(
        f"[2025-12-04 10:01:00] sglang version {version}", settings, *(line for line in lines[1:] if "chunked" not in line)
    )
    compared = compare(None, hardware, engine_log_path=path)
    assert compared.request.memory.utilization == pytest.approx(share, abs=0.0006)
    note = next(note for note in compared.assumptions if note.name == "gpu_memory_utilization")
    assert note.origin == "assumed"
    assert "as SGLang computes it" in note.why
    whole = compare(None, "h100-sxm", engine_log_path=SAMPLES / "sglang-0.5.log")
    assert whole.request.memory.utilization == 0.88


def test_sglangs_pools(write: Callable[..., Path]) -> None:
    """Without the lines about free memory its own sizes of K and V count: 2 x 1.25 GiB over 128 KiB a token."""
    settings = "server_args=ServerArgs(model_path='meta-llama/Meta-Llama-3.1-8B-Instruct')"
    allocated = "KV Cache is allocated. #tokens: 20480, K size: 1.25 GB, V size: 1.25 GB"
    row = _row(compare(None, "h100-sxm", engine_log_path=write(settings, allocated)), AIDED)
    assert (row.measured, row.predicted) == (20_480, 20_480)


def test_tensorrt_llm() -> None:
    """54.00 GiB over 128 KiB; unaided 0.9 of what the card has left by weights, the largest step and 1.5 GiB of the rest."""
    found = compare("llama-3.1-8b", "h100-sxm", engine_log_path=SAMPLES / "trtllm-1.1.log")
    assert _row(found, AIDED).predicted == 54 * GIB / TOKEN == 442_368
    part = found.request.memory.fullest_stage
    device = device_memory(load_hardware("h100-sxm")[0]).size
    activations = part.activation_bytes((Segment(1, 8192, 0),))
    left = 0.9 * (device - 8_030_261_248 * 2 - activations - 1.5 * GIB)
    assert _row(found, "kv_cache_bytes").predicted == pytest.approx(left, rel=1e-6)
    assert found.request.engine.name == "trtllm"


def test_the_last_block_of_tensorrt_llm_is_whole(write: Callable[..., Path]) -> None:
    """0.9 of 10 GiB are 2,304 blocks of 32 tokens and 4 MiB; of 10.01 GiB 2,306.3, and 2,307 are allocated."""
    lines = (
        "INFO Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 10.01 GiB",
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 2307",
        "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
    )
    row = _row(compare("llama-3.1-8b", "h100-sxm", engine_log_path=write(*lines)), AIDED)
    assert (row.measured, row.predicted) == (2307 * 32, 2307 * 32)


def test_llama_cpp() -> None:
    """Four slots of 8,192 cells, each 32 layers x 2,048 elements of 34/32 bytes; the card is that of the log."""
    found = compare(None, None, engine_log_path=SAMPLES / "llama.cpp-2025.log")
    assert _row(found, "kv_cache_bytes").predicted == 4 * 8192 * 32 * 2048 * 34 / 32 == 2176 * 2**20
    assert _row(found, AIDED).predicted == 32_768
    assert found.request.model.name == "llama-3.1-8b"
    assert found.request.hardware.name == "rtx-3090"
    assert not [row for row in found.rows if row.quantity == "weights_bytes"]  # of a GGUF file, which is not here


@pytest.mark.parametrize(("unified", "cells"), [("true", 4 * 128 + 512), ("false", 4 * 768)])
def test_windows_of_llama_cpp(write: Callable[..., Path], unified: str, cells: int) -> None:
    """gpt-oss: a cache that all slots share has a window for each of them; else each slot has 128 + 512 in blocks of 256."""
    token = 12 * 2 * 8 * 64 * 2
    lines = [
        "llama_context: n_seq_max     = 4",
        "llama_context: n_ctx         = 131072",
        "llama_context: n_ubatch      = 512",
        f"llama_context: kv_unified    = {unified}",
        "llama_kv_cache: size = 3072.00 MiB (131072 cells,  12 layers,  4/1 seqs), K (f16): 1536.00 MiB, V (f16): 1536.00 MiB",
    ]
    row = _row(compare("gpt-oss-20b", "rtx-3090", engine_log_path=write(*lines)), "kv_cache_bytes")
    assert row.predicted == (131072 + cells) * token


def test_hybrids_in_the_older_count(write: Callable[..., Path]) -> None:
    """Qwen3.5 122B: 12 layers with a cache and 36 with states, in four groups of 12, which share the pool.

    Up to 0.19 the log counts the blocks of one group, in blocks of 2,128 tokens of 12,288 bytes (fp8).
    """
    init = INIT.replace("max_seq_len=8192", "max_seq_len=131072").replace("kv_cache_dtype=auto", "kv_cache_dtype=fp8")
    lines = [
        "INFO [gpu_worker.py:1] Available KV cache memory: 21.43 GiB",
        "INFO [kv_cache_utils.py:1] GPU KV cache size: 467,712 tokens",
        "INFO [kv_cache_utils.py:2] Maximum concurrency for 131,072 tokens per request: 11.79x",
    ]
    compared = compare("qwen3.5-122b-a10b", "h200-sxm", engine_log_path=write(init, *lines), quantization="nvfp4")
    block = compared.request.memory.fullest_stage.layout.kinds[0].block
    predicted = _row(compared, AIDED).predicted
    assert predicted == 21.43 * GIB // (4 * 12_288 * block) * block


def test_sizes_that_were_given(write: Callable[..., Path]) -> None:
    """A number of blocks that was given is no prediction of memory."""
    args = "INFO [utils.py:1] non-default args: {'num_gpu_blocks_override': 512}"
    found = compare(None, "rtx-4090", engine_log_path=write(args, INIT, *MEMORY))
    row = _row(found, "kv_capacity_tokens")
    assert (row.predicted, row.basis) == (512 * 16, "the log's arguments")


def test_mixed_layers_in_the_older_count(write: Callable[..., Path]) -> None:
    """gpt-oss has 12 full and 12 sliding layers in two groups, which share the pool.

    Up to 0.19 the log counts blocks of one group: memory over 24 layers x 2 x 8 heads x 64 x 2 bytes, in blocks of 16.
    """
    init = INIT.replace("meta-llama/Llama-3.1-8B", "openai/gpt-oss-20b").replace("max_seq_len=8192", "max_seq_len=131072")
    token = 24 * 2 * 8 * 64 * 2
    tokens = 5 * GIB // (16 * token) * 16
    lines = [
        MEMORY[1],
        f"INFO [kv_cache_utils.py:1] GPU KV cache size: {tokens:,} tokens",
        "INFO [kv_cache_utils.py:2] Maximum concurrency for 131,072 tokens per request: 1.55x",
    ]
    row = _row(compare(None, "rtx-4090", engine_log_path=write(init, *lines)), AIDED)
    assert row.predicted == tokens


def test_flags_come_before_the_log(write: Callable[..., Path]) -> None:
    """Half of the heads a device: twice the tokens; and the answer says what was overridden, and that it is why."""
    found = compare(None, "h100-sxm", engine_log_path=write(INIT, *MEMORY), tensor_parallel_size="2")
    row = _row(found, AIDED)
    assert row.predicted == 2 * 40_960
    assert "--tensor-parallel-size 2 was given in place of the log's 1 (line 1)" in row.why
    assert any(note.why == "in place of the log's 1 (line 1)" for note in found.assumptions)


def test_flags_that_say_the_same_contradict_nothing(write: Callable[..., Path]) -> None:
    """bf16 is the log's torch.bfloat16, 8k its 8192."""
    found = compare(None, "rtx-4090", engine_log_path=write(INIT, *MEMORY), dtype="bf16", max_model_len="8k")
    assert not [note for note in found.assumptions if note.why.startswith("in place of the log's")]


def test_the_log_may_name_the_card(write: Callable[..., Path]) -> None:
    """A file of tuned kernels has the driver's name in its own."""
    line = "INFO [fused_moe.py:1] Using configuration from configs/E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json for MoE"
    found = compare(engine_log_path=write(line, INIT, *MEMORY))
    assert found.request.hardware.name == "h100-sxm"
