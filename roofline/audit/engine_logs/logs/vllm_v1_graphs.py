"""vLLM from 0.21 on: memory of CUDA graphs is estimated, and taken off before the cache is sized."""

from __future__ import annotations

from roofline.audit.engine_logs.logs.base import Format, Line
from roofline.audit.engine_logs.logs.vllm_arguments import NAMES, SETTINGS, START
from roofline.audit.engine_logs.logs.vllm_v1 import LINES

_N = r"-?[\d.]+"

VLLM_V1_GRAPHS = Format(
    engine="vllm",
    versions="0.21 and later (V1)",
    since=(0, 21),
    source="https://github.com/vllm-project/vllm/pull/30515, vllm/v1/worker/gpu_worker.py",
    lines=(
        *LINES,
        Line("Estimated CUDA graph memory", rf"Estimated CUDA graph memory: (?P<graph_bytes>{_N}) GiB"),
        Line(
            "CUDA graph memory profiling is enabled",
            r"The current --gpu-memory-utilization=(?P<utilization>[\d.]+) is equivalent",
        ),
        Line("for consumed memory", rf"(?P<consumed_bytes>{_N}) GiB for consumed memory"),
    ),
    expects=("weights_bytes", "available_kv_bytes", "kv_tokens"),
    start=START,
    settings=SETTINGS,
    names=NAMES,
)
