"""`benchmarks/benchmark_serving.py` of vLLM 0.4, whose rate of requests has a name of its own."""

from __future__ import annotations

from roofline.audit.engine_logs.benches.base import BenchFormat

VLLM_BENCHMARK_SERVING_OLD = BenchFormat(
    title="vllm benchmark_serving.py (0.4)",
    source="https://github.com/vllm-project/vllm/blob/v0.4.3/benchmarks/benchmark_serving.py",
    has=(
        "backend",
        "model_id",
        "num_prompts",
        "completed",
        "total_input_tokens",
        "total_output_tokens",
        "request_inthroughput",
    ),
    rates={"requests_per_s": "request_inthroughput", "output_tokens_per_s": "output_throughput"},
    model="model_id",
)
