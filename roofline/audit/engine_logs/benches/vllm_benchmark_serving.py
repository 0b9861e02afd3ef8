"""`benchmarks/benchmark_serving.py` of vLLM 0.5 to 0.8, before it became a command."""

from __future__ import annotations

from roofline.audit.engine_logs.benches.base import BenchFormat

VLLM_BENCHMARK_SERVING = BenchFormat(
    title="vllm benchmark_serving.py (0.5 to 0.8)",
    source="https://github.com/vllm-project/vllm/blob/v0.8.5/benchmarks/benchmark_serving.py",
    has=("backend", "model_id", "num_prompts", "completed", "total_input_tokens", "total_output_tokens", "request_throughput"),
    has_not=("endpoint_type",),
    rates={
        "requests_per_s": "request_throughput",
        "output_tokens_per_s": "output_throughput",
        "total_tokens_per_s": "total_token_throughput",
    },
    model="model_id",
)
