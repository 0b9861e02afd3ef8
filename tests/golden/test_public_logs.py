"""KV caches in public logs of vLLM, SGLang, TensorRT-LLM and llama.cpp: tokens predicted from the logged memory.

Of each log there are the numbers and the few words around them that `roofline compare` reads; the address is where it stands.
What is tested is the engine's layout: how it turns bytes into tokens. Logs print bytes to a hundredth of a GiB or MiB.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.compare import Comparison, compare
from roofline.audit.engine_logs.names import Row
from roofline.predict.request import prepare


@dataclass(frozen=True)
class PublicLog:
    """A log: `error` is the relative error that its digits, or the `reason`, allow."""

    name: str
    address: str
    model: str
    lines: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    hardware: str = "h100-sxm"
    error: float = 0.001
    reason: str = ""


LOGS = (
    PublicLog(
        "vllm-v0-llama-3.1-8b",
        "https://github.com/vllm-project/vllm/issues/10517",
        "llama-3.1-8b",
        (
            "Loading model weights took 14.9888 GB",
            (
                "Memory profiling results: total_gpu_memory=23.58GiB non_torch_memory=0.35GiB kv_cache_size=2.89GiB "
                "gpu_memory_utilization=0.90"
            ),
            "# GPU blocks: 1478, # CPU blocks: 2048",
            "Maximum concurrency for 29000 tokens per request: 0.82x",
        ),
        hardware="rtx-3090",
        error=0.002,  # half of a hundredth of 2.89 GiB
    ),
    PublicLog(
        "vllm-qwen3-235b-tp4",
        "https://github.com/vllm-project/vllm/issues/21348",
        "qwen3-235b-a22b",
        ("Available KV cache memory: 8.11 GiB", "GPU KV cache size: 178,880 tokens"),
        {"tp": 4, "quantization": "fp8"},
        error=0.012,
        reason="178,880 tokens of 48,128 bytes are 8.02 GiB: of four ranks, the one with the least, and another is quoted",
    ),
    PublicLog(
        # attention in 16 of 64 layers, in blocks of 1,568 tokens as large as a state; prefixes cached, a cache in fp8
        "vllm-qwen3.8-27b-hybrid-prefix-cache",
        "https://github.com/mitchross/talos-argocd-proxmox/pull/1995",
        "qwen3.6-27b",  # the same dimensions
        (
            "Available KV cache memory: 4.99 GiB",
            "GPU KV cache size: 302,921 tokens",
            "Maximum concurrency for 131,072 tokens per request: 2.31x",
        ),
        {
            "tp": 2,
            "quantization": "fp8",
            "kv_cache_dtype": "fp8",
            "enable_prefix_caching": True,
            "max_model_len": 131072,
            "engine": "vllm@0.27",
            "max_num_batched_tokens": 8192,
            "gpu_memory_utilization": 0.92,
        },
        hardware="rtx-3090",
        error=0.0001,
    ),
    PublicLog(
        "sglang-qwen3-235b-tp4",
        "https://github.com/vllm-project/vllm/issues/21348",
        "qwen3-235b-a22b",
        (
            "server_args=ServerArgs(model_path='/path/to/Qwen3-235B-A22B-FP8', tp_size=4, mem_fraction_static=0.93)",
            "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB",
        ),
        {"quantization": "fp8"},
    ),
    PublicLog(
        "sglang-qwen3.5-397b-hybrid-tp2",
        "https://github.com/kvcache-ai/ktransformers/issues/1870",
        "qwen3.5-397b-a17b",  # 15 layers with a cache: the bytes are 15,356 a token of a rank, and 15 x 2 x 256 x 2 are 15,360
        (
            "server_args=ServerArgs(tp_size=2)",
            (
                "[2026-02-27 17:10:28 TP0] Mamba Cache is allocated. max_mamba_cache_size: 82, conv_state size: 0.13GB, "
                "ssm_state size: 7.29GB"
            ),
            "[2026-02-27 17:10:28 TP0] KV Cache is allocated. #tokens: 580364, K size: 4.15 GB, V size: 4.15 GB",
        ),
        hardware="rtx-4090",
    ),
    PublicLog(
        "sglang-qwen3-30b-a3b-rocm",
        "https://github.com/sgl-project/sglang/pull/18263",
        "qwen3-30b-a3b",
        (
            "server_args=ServerArgs(model_path='Qwen/Qwen3-30B-A3B-Instruct', mem_fraction_static=0.911)",
            (
                "[2026-07-15 13:14:54] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1669816, K size: 76.44 GB, "
                "V size: 76.44 GB"
            ),
        ),
        hardware="mi300x",
    ),
    PublicLog(
        # a share of what is free: 0.9 x 21.89 GiB are 630.4 blocks of 64 tokens, and the last is allocated whole
        "trtllm-qwen1.5-7b",
        "https://github.com/NVIDIA/TensorRT-LLM/issues/2268",
        "qwen1.5-7b",
        (
            (
                "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 39.39 GiB, "
                "available: 21.89 GiB"
            ),
            "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 631",
        ),
        {"block_size": 64, "kv_cache_free_gpu_memory_fraction": 0.9, "dtype": "bf16"},
        hardware="a100-sxm-40gb",
        error=0,
    ),
    PublicLog(
        "trtllm-llama-3.1-8b-fp8-cache",
        "https://github.com/NVIDIA/TensorRT-LLM/issues/4275#issuecomment-2941155249",
        "llama-3.1-8b",
        (
            "[TensorRT-LLM] TensorRT-LLM version: 0.19.0",
            (
                "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 31.84 GiB, "
                "available: 17.83 GiB"
            ),
            "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 8219",
            "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008)",
        ),
        {"kv_cache_dtype": "fp8", "quantization": "fp8", "kv_cache_free_gpu_memory_fraction": 0.9},
        hardware="rtx-5090",
    ),
    PublicLog(
        "trtllm-llama-3.1-8b-pytorch",
        "https://github.com/ai-dynamo/dynamo, examples/python_rs/llm/tensorrt_llm/README.md, March 2025",
        "llama-3.1-8b",
        (
            "[TensorRT-LLM][INFO] Number of tokens per block: 64.",
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 26.91 GiB for max tokens in paged KV cache (220480).",
            "[02/14/2025-09:38:53] [TRT-LLM] [I] max_seq_len=131072, max_num_requests=2048, max_num_tokens=8192",
        ),
        hardware="l40s",
    ),
    PublicLog(
        # 12 layers of 24 keep a window of 128 and a step of 512, in whole blocks of 256
        "llama.cpp-gpt-oss-20b",
        "https://github.com/ikawrakow/ik_llama.cpp/issues/822",
        "gpt-oss-20b",
        (
            "build: 6699 (c08002a1)",
            (
                "llama_model_loader: loaded meta data with 35 key-value pairs and 459 tensors from gpt-oss-20b-mxfp4.gguf "
                "(version GGUF V3 (latest))"
            ),
            "llama_context: n_seq_max     = 1",
            "llama_context: n_ctx         = 131072",
            "llama_context: n_ubatch      = 512",
            "llama_context: kv_unified    = false",
            (
                "llama_kv_cache: size = 3072.00 MiB (131072 cells,  12 layers,  1/1 seqs), K (f16): 1536.00 MiB, "
                "V (f16): 1536.00 MiB"
            ),
            (
                "llama_kv_cache: size =   18.00 MiB (   768 cells,  12 layers,  1/1 seqs), K (f16):    9.00 MiB, "
                "V (f16):    9.00 MiB"
            ),
        ),
        hardware="rtx-3070",
        error=0,
    ),
    PublicLog(
        # a cache in q8_0: 34 bytes for 32 elements; a step of 128 (--batch-size)
        "llama.cpp-gpt-oss-20b-q8_0",
        "https://github.com/ggml-org/llama.cpp/blob/master/docs/backend/hexagon/developer.md",
        "gpt-oss-20b",
        (
            "llama_context: n_ctx         = 8192",
            "llama_context: n_ubatch      = 128",
            (
                "llama_kv_cache: size =  102.00 MiB (  8192 cells,  12 layers,  1/1 seqs), K (q8_0):   51.00 MiB, "
                "V (q8_0):   51.00 MiB"
            ),
            (
                "llama_kv_cache: size =    3.19 MiB (   256 cells,  12 layers,  1/1 seqs), K (q8_0):    1.59 MiB, "
                "V (q8_0):    1.59 MiB"
            ),
        ),
        hardware="rtx-3090",
        error=0.0001,
    ),
)

QWEN15_7B = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
}  # fmt: skip
"""Of https://huggingface.co/Qwen/Qwen1.5-7B, which is not shipped."""


def _compared(log: PublicLog, folder: Path) -> Comparison:
    path, config = folder / "engine.log", folder / "config.json"
    path.write_text("\n".join(log.lines) + "\n", encoding="utf-8")
    config.write_text(json.dumps(QWEN15_7B), encoding="utf-8")
    model = str(config) if log.model == "qwen1.5-7b" else log.model
    return compare(model, log.hardware, engine_log_path=path, **log.options)


def _row(compared: Comparison, quantity: str) -> Row:
    return next(row for row in compared.rows if row.quantity == quantity)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_tokens_from_the_logged_memory(log: PublicLog, tmp_path: Path) -> None:
    """Within 1 %, or with the reason beside the log; mostly as near as the printed digits are."""
    assert log.error <= 0.01 or log.reason
    row = _row(_compared(log, tmp_path), AIDED)
    assert row.predicted == pytest.approx(row.measured, rel=log.error)


def test_there_are_logs_of_each_engine() -> None:
    """Two or more of each, with an address."""
    engines = [log.name.split("-")[0] for log in LOGS]
    assert all(engines.count(engine) >= 2 for engine in ("vllm", "sglang", "trtllm", "llama.cpp"))
    assert all(log.address.startswith("https://") for log in LOGS)


@pytest.mark.parametrize("log", [log for log in LOGS if log.name.startswith("llama.cpp")], ids=lambda log: log.name)
def test_bytes_of_a_reserved_cache(log: PublicLog, tmp_path: Path) -> None:
    """llama.cpp's caches follow from its arguments: bytes to the printed hundredth of a MiB of each cache."""
    row = _row(_compared(log, tmp_path), "kv_cache_bytes")
    assert row.predicted == pytest.approx(row.measured, abs=0.01 * 2**20)


def test_concurrency_of_a_hybrid(tmp_path: Path) -> None:
    """2.31 requests of 131,072 tokens: the log counts tokens as those of the longest sequences, states among them."""
    hybrid = next(log for log in LOGS if "hybrid-prefix" in log.name)
    compared = _compared(hybrid, tmp_path)
    predicted = _row(compared, AIDED).predicted
    assert predicted is not None
    assert round(predicted / 131072, 2) == _row(compared, "max_concurrency").measured == 2.31


@pytest.mark.parametrize(
    ("engine", "kv", "tp", "tokens"),
    [
        # https://github.com/vllm-project/vllm/issues/47430, of 0.23.0: "Setting attention block size to 784 tokens"
        ("vllm@0.23", None, 1, 784),
        # https://github.com/mitchross/talos-argocd-proxmox/pull/1995: half the bytes a token, and blocks of 1568 tokens
        ("vllm@0.27", "fp8", 2, 1568),
    ],
)
def test_block_of_a_hybrid(engine: str, kv: str | None, tp: int, tokens: int) -> None:
    """Qwen3.6 27B (Qwen3.8 has its dimensions): blocks grow in steps of 16 tokens until a state fits into one."""
    options: dict[str, Any] = {"engine": engine, "tp": tp, "quantization": "fp8"}
    request = prepare("qwen3.6-27b", "h100-sxm", **options, **({} if kv is None else {"kv_cache_dtype": kv}))
    assert {kind.block for kind in request.memory.fullest_stage.layout.kinds} == {tokens}
