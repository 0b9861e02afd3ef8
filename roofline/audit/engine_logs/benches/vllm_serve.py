"""`vllm bench serve --save-result`, from 0.9 on: it names the endpoint, and the label of the run."""

from __future__ import annotations

from roofline.audit.engine_logs.benches.base import BenchFormat

VLLM_SERVE = BenchFormat(
    title="vllm bench serve (0.9 and later)",
    source="https://github.com/vllm-project/vllm/blob/main/vllm/benchmarks/serve.py",
    has=("endpoint_type", "model_id", "num_prompts", "completed", "total_input_tokens", "total_output_tokens"),
    rates={
        "requests_per_s": "request_throughput",
        "output_tokens_per_s": "output_throughput",
        "total_tokens_per_s": "total_token_throughput",
    },
    model="model_id",
)
