"""`python -m sglang.bench_serving`, 0.4 and 0.5: one object a line; the model is named by neither, if not by server_info."""

from __future__ import annotations

from roofline.audit.engine_logs.benches.base import BenchFormat

SGLANG_BENCH_SERVING = BenchFormat(
    title="sglang bench_serving (0.4 and 0.5)",
    source="https://github.com/sgl-project/sglang/blob/main/python/sglang/bench_serving.py",
    has=("completed", "total_input_tokens", "total_output_tokens", "total_output_tokens_retokenized", "mean_ttft_ms"),
    rates={
        "requests_per_s": "request_throughput",
        "output_tokens_per_s": "output_throughput",
        "total_tokens_per_s": "total_throughput",
    },
)
