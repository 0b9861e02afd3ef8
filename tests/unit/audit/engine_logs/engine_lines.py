"""Lines of a log, a result of a benchmark, and where the composed ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parents[3] / "samples" / "engine_logs"
INIT = (
    "(EngineCore pid=9) INFO 08-20 23:19:50 [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: "
    "model='meta-llama/Llama-3.1-8B', speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, "
    "tensor_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda"
)
MEMORY = (
    "(EngineCore pid=9) INFO 08-20 23:20:01 [gpu_model_runner.py:1] Model loading took 14.99 GiB memory and 5.3 seconds",
    "(EngineCore pid=9) INFO 08-20 23:20:09 [gpu_worker.py:1] Available KV cache memory: 5.00 GiB",
    "(EngineCore pid=9) INFO 08-20 23:20:09 [kv_cache_utils.py:1] GPU KV cache size: 40,960 tokens",
    "(EngineCore pid=9) INFO 08-20 23:20:09 [kv_cache_utils.py:2] Maximum concurrency for 8,192 tokens per request: 5.00x",
)
"""5 GiB over 128 KiB a token are 40,960 tokens, five sequences of 8,192."""
RESULT: dict[str, Any] = {
    "endpoint_type": "vllm", "backend": "vllm", "model_id": "org/m", "num_prompts": 10, "request_rate": "inf",
    "max_concurrency": 4, "completed": 10, "total_input_tokens": 10_000, "total_output_tokens": 1_000,
    "request_throughput": 2.0, "output_throughput": 200.0, "total_token_throughput": 2200.0, "mean_ttft_ms": 100.0,
    "mean_tpot_ms": 12.5,
}  # fmt: skip
