"""vLLM with its first engine, 0.2 to 0.8: blocks, not tokens; from 0.6.4 on with a sentence about memory."""

from __future__ import annotations

from roofline.audit.engine_logs.logs.base import Format, Line
from roofline.audit.engine_logs.logs.vllm_arguments import NAMES, SETTINGS, START

_N = r"-?[\d.]+"

VLLM_V0 = Format(
    engine="vllm",
    versions="0.2 to 0.8 (V0)",
    since=(0, 2),
    source="https://github.com/vllm-project/vllm, vllm/worker/worker.py and vllm/executor/executor_base.py",
    lines=(
        Line("LLM engine (v", r"Initializing an? (?:V0 )?LLM engine \(v(?P<version>[\w.+-]+)\)"),
        Line("weights took", rf"Loading model weights took (?P<weights_bytes>{_N}) G"),
        Line("Model loading took", rf"Model loading took (?P<weights_bytes>{_N}) G"),
        Line("can use", rf"total_gpu_memory \((?P<total_bytes>{_N})GiB\) x gpu_memory_utilization \((?P<utilization>{_N})\)"),
        Line("model weights take", rf"model weights take (?P<weights_bytes>{_N})GiB"),
        Line("non_torch_memory", rf"non_torch_memory(?: takes |=)(?P<non_torch_bytes>{_N})GiB"),
        Line("activation peak", rf"PyTorch activation peak memory takes (?P<peak_bytes>{_N})GiB"),
        Line("reserved for KV", rf"the rest of the memory reserved for KV Cache is (?P<available_kv_bytes>{_N}?)GiB"),
        Line("kv_cache_size=", rf"total_gpu_memory=(?P<total_bytes>{_N})GiB"),
        Line("kv_cache_size=", rf"kv_cache_size=(?P<available_kv_bytes>{_N})GiB"),
        Line("kv_cache_size=", r"gpu_memory_utilization=(?P<utilization>0?\.\d+|1\.0*)"),
        Line("available_kv_cache_memory", rf"available_kv_cache_memory\s+(?P<available_kv_bytes>{_N})GiB"),
        Line("total_gpu_memory ", rf"total_gpu_memory\s+(?P<total_bytes>{_N})GiB"),
        Line(" blocks: ", r"# (?:GPU|cuda|CUDA|HPU|rocm) blocks: (?P<kv_blocks>\d+)"),
        Line(
            "Maximum concurrency",
            r"Maximum concurrency for (?P<concurrency_len>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x",
        ),
        Line("device_name=", r"device_name=(?P<device_name>\w[\w-]*)"),
        Line("Chunked prefill is enabled", r"max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"),
    ),
    expects=("weights_bytes", "kv_blocks"),
    start=START,
    settings=SETTINGS,
    names=NAMES,
)
