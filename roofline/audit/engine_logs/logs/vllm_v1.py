"""vLLM with its second engine, 0.8 to 0.20: tokens, and the memory that is left for them."""

from __future__ import annotations

from roofline.audit.engine_logs.logs.base import Format, Line
from roofline.audit.engine_logs.logs.vllm_arguments import NAMES, SETTINGS, START

_N = r"-?[\d.]+"

LINES = (
    Line("LLM engine (v", r"Initializing a V1 LLM engine \(v(?P<version>[\w.+-]+)\)"),
    Line("Model loading took", rf"Model loading took (?P<weights_bytes>{_N}) Gi?B"),
    Line("Available KV cache memory", rf"Available KV cache memory: (?P<available_kv_bytes>{_N}) GiB"),
    Line("GPU KV cache size", r"GPU KV cache size: (?P<kv_tokens>[\d,]+) tokens"),
    Line(
        "Maximum concurrency",
        r"Maximum concurrency for (?P<concurrency_len>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x",
    ),
    Line("Free memory on device", rf"Free memory on device \({_N}/(?P<total_bytes>{_N}) GiB\)"),
    Line("Free memory on device", rf"Desired GPU memory utilization is \((?P<utilization>{_N}),"),
    Line("for peak activation", rf"(?P<peak_bytes>{_N}) GiB for peak activation"),
    Line("for non-torch memory", rf"(?P<non_torch_bytes>{_N}) GiB for non-torch memory"),
    Line("torch peak memory increase", rf"torch peak memory increase: (?P<peak_bytes>{_N}) ?GiB"),
    Line("non-torch forward increase", rf"non-torch forward increase memory: (?P<non_torch_bytes>{_N}) ?GiB"),
    Line("Requested memory:", rf"Requested memory: (?P<utilization>{_N}) \(util\)"),
    Line("device_name=", r"device_name=(?P<device_name>\w[\w-]*)"),
    Line("Chunked prefill is enabled", r"max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"),
)

VLLM_V1 = Format(
    engine="vllm",
    versions="0.8 to 0.20 (V1)",
    since=(0, 8),
    source="https://github.com/vllm-project/vllm, vllm/v1/worker/gpu_worker.py and vllm/v1/core/kv_cache_utils.py",
    lines=LINES,
    expects=("weights_bytes", "available_kv_bytes", "kv_tokens"),
    start=START,
    settings=SETTINGS,
    names=NAMES,
)
