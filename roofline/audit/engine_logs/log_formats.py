"""Formats of engines' start-up lines: patterns whose groups are named after the facts that they hold.

Other packages add theirs by the entry-point group `roofline.log_formats`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import attrgetter

from roofline.registry import Registry

GIB = 2**30
_N = r"-?[\d.]+"

MIN_OVER_RANKS = frozenset({"available_kv_bytes", "kv_tokens", "kv_blocks", "begin_bytes", "end_bytes", "total_bytes"})
"""Facts of which the minimum over ranks counts: the rank with the least memory limits the cache."""
MAX_OVER_RANKS = frozenset({"weights_bytes", "peak_bytes", "non_torch_bytes", "graph_bytes", "consumed_bytes"})
"""Facts of which the maximum over ranks counts. Of all others the first line does."""
TEXTS = frozenset({"version", "device_name"})
CAPACITY = ("kv_tokens", "kv_blocks", "available_kv_bytes")
"""What says that a start got as far as its cache."""


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A line of a log that holds facts.

    Attributes:
        needle: text that is in each such line; only these lines are searched.
        pattern: regular expression with one group per fact, named after it. Facts that end in `_bytes` are printed in GiB,
            whatever the line calls the unit (SGLang and older vLLM write GB).
    """

    needle: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFormat:
    """The start-up lines of an engine over a range of versions.

    Attributes:
        engine: `vllm` or `sglang`.
        versions: the range, in words.
        since: the first version that prints these lines.
        source: where in the engine's code they are.
        lines: those with facts.
        start: texts of the lines with which a start begins.
        settings: texts of the lines that print arguments, the most trusted first.
        expects: facts that every complete start prints: without them the log was cut, or the start failed.
        names: the engine's names of arguments to ours.
    """

    engine: str
    versions: str
    since: tuple[int, ...]
    source: str
    lines: tuple[LinePattern, ...]
    start: tuple[str, ...]
    settings: tuple[str, ...]
    expects: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)

    def covers(self, version: tuple[int, ...]) -> bool:
        """Whether a version of the engine is at least the first of this format."""
        return version >= self.since

    @property
    def title(self) -> str:
        """Engine and versions, as messages name the format."""
        return f"{self.engine} {self.versions}"


def parse_line(line: LinePattern, text: str) -> dict[str, float | str]:
    r"""The facts in a line of a log, by name, in bytes and counts; empty where the pattern does not match.

    >>> parse_line(LinePattern("Available KV", r"Available KV cache memory: (?P<available_kv_bytes>-?[\d.]+) GiB"),
    ...       "INFO Available KV cache memory: 5.50 GiB")
    {'available_kv_bytes': 5905580032.0}
    """
    match = re.search(line.pattern, text)
    values: dict[str, float | str] = {}
    for name, value in (match.groupdict() if match else {}).items():
        if value is None:
            continue
        if name in TEXTS:
            values[name] = value
            continue
        try:
            number = float(value.replace(",", "").rstrip("."))
        except ValueError:
            continue
        values[name] = number * GIB if name.endswith("_bytes") else number
    return values


# vLLM's names of the arguments that decide what fits and how fast it is, with ours.
_VLLM_NAMES = {
    "model": "model",
    "model_tag": "model",
    "max_seq_len": "max_model_len",
    "max_model_len": "max_model_len",
    **{
        name: name
        for name in (
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "data_parallel_size",
            "enable_expert_parallel",
            "dtype",
            "quantization",
            "kv_cache_dtype",
            "enforce_eager",
            "enable_prefix_caching",
            "max_num_seqs",
            "max_num_batched_tokens",
            "gpu_memory_utilization",
            "block_size",
            "kv_cache_memory_bytes",
            "num_gpu_blocks_override",
            "cpu_offload_gb",
            "speculative_config",
        )
    },
}
_VLLM_SETTINGS = ("with config:", "non-default args:", "args: Namespace(", "args=Namespace(")
_VLLM_STARTS = ("LLM engine (v", "Initializing an LLM engine", "vLLM API server version", "non-default args:")

# SGLang 0.4 and 0.5: free memory around the loading of weights, tokens and bytes of the pool.
SGLANG = LogFormat(
    engine="sglang",
    versions="0.4 and 0.5",
    since=(0, 4),
    source="https://github.com/sgl-project/sglang, python/sglang/srt: model_executor/model_runner.py, mem_cache/memory_pool.py",
    lines=(
        LinePattern("sglang", r"sglang[ =_-](?:version[ :=]*)?v?(?P<version>0\.\d+\.\d+[\w.]*)"),
        LinePattern("Load weight begin", rf"Load weight begin\. avail mem=(?P<begin_bytes>{_N}) GB"),
        LinePattern("Load weight end", rf"Load weight end\..*?avail mem=(?P<end_bytes>{_N}) GB"),
        LinePattern("Load weight end", rf"Load weight end\..*mem usage=(?P<weights_bytes>{_N}) GB"),
        LinePattern("KV Cache is allocated", r"KV Cache is allocated\..*?#tokens: (?P<kv_tokens>\d+)"),
        LinePattern("KV Cache is allocated", rf"K size: (?P<k_bytes>{_N}) GB, V size: (?P<v_bytes>{_N}) GB"),
        LinePattern("KV Cache is allocated", rf"KV size: (?P<k_bytes>{_N}) GB"),
        LinePattern("max_total_num_tokens=", r"max_total_num_tokens=(?P<kv_tokens>\d+)"),
        LinePattern("max_total_num_tokens=", r"chunked_prefill_size=(?P<max_num_batched_tokens>\d+)"),
        LinePattern("max_total_num_tokens=", r"max_running_requests=(?P<max_num_seqs>\d+)"),
        LinePattern("max_total_num_tokens=", r"context_len=(?P<max_model_len>\d+)"),
        LinePattern("device_name=", r"device_name=(?P<device_name>\w[\w-]*)"),
    ),
    expects=("begin_bytes", "end_bytes", "kv_tokens"),
    start=("server_args=",),
    settings=("server_args=",),
    names={
        "model_path": "model",
        "tp_size": "tensor_parallel_size",
        "pp_size": "pipeline_parallel_size",
        "dp_size": "data_parallel_size",
        "ep_size": "expert_parallel_size",
        "enable_dp_attention": "enable_dp_attention",
        "dtype": "dtype",
        "quantization": "quantization",
        "kv_cache_dtype": "kv_cache_dtype",
        "context_length": "max_model_len",
        "max_running_requests": "max_num_seqs",
        "chunked_prefill_size": "max_num_batched_tokens",
        "mem_fraction_static": "gpu_memory_utilization",
        "page_size": "block_size",
        "max_total_tokens": "max_total_tokens",
        "disable_cuda_graph": "enforce_eager",
        "disable_radix_cache": "disable_prefix_caching",
        "speculative_algorithm": "speculative_config",
        "cpu_offload_gb": "cpu_offload_gb",
    },
)

# vLLM with its first engine, 0.2 to 0.8: blocks, not tokens; from 0.6.4 on with a sentence about memory.
VLLM_V0 = LogFormat(
    engine="vllm",
    versions="0.2 to 0.8 (V0)",
    since=(0, 2),
    source="https://github.com/vllm-project/vllm, vllm/worker/worker.py and vllm/executor/executor_base.py",
    lines=(
        LinePattern("LLM engine (v", r"Initializing an? (?:V0 )?LLM engine \(v(?P<version>[\w.+-]+)\)"),
        LinePattern("weights took", rf"Loading model weights took (?P<weights_bytes>{_N}) G"),
        LinePattern("Model loading took", rf"Model loading took (?P<weights_bytes>{_N}) G"),
        LinePattern(
            "can use", rf"total_gpu_memory \((?P<total_bytes>{_N})GiB\) x gpu_memory_utilization \((?P<utilization>{_N})\)"
        ),
        LinePattern("model weights take", rf"model weights take (?P<weights_bytes>{_N})GiB"),
        LinePattern("non_torch_memory", rf"non_torch_memory(?: takes |=)(?P<non_torch_bytes>{_N})GiB"),
        LinePattern("activation peak", rf"PyTorch activation peak memory takes (?P<peak_bytes>{_N})GiB"),
        LinePattern("reserved for KV", rf"the rest of the memory reserved for KV Cache is (?P<available_kv_bytes>{_N}?)GiB"),
        LinePattern("kv_cache_size=", rf"total_gpu_memory=(?P<total_bytes>{_N})GiB"),
        LinePattern("kv_cache_size=", rf"kv_cache_size=(?P<available_kv_bytes>{_N})GiB"),
        LinePattern("kv_cache_size=", r"gpu_memory_utilization=(?P<utilization>0?\.\d+|1\.0*)"),
        LinePattern("available_kv_cache_memory", rf"available_kv_cache_memory\s+(?P<available_kv_bytes>{_N})GiB"),
        LinePattern("total_gpu_memory ", rf"total_gpu_memory\s+(?P<total_bytes>{_N})GiB"),
        LinePattern(" blocks: ", r"# (?:GPU|cuda|CUDA|HPU|rocm) blocks: (?P<kv_blocks>\d+)"),
        LinePattern(
            "Maximum concurrency",
            r"Maximum concurrency for (?P<concurrency_len>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x",
        ),
        LinePattern("device_name=", r"device_name=(?P<device_name>\w[\w-]*)"),
        LinePattern("Chunked prefill is enabled", r"max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"),
    ),
    expects=("weights_bytes", "kv_blocks"),
    start=_VLLM_STARTS,
    settings=_VLLM_SETTINGS,
    names=_VLLM_NAMES,
)

# vLLM with its second engine, 0.8 to 0.20: tokens, and the memory that is left for them.
_VLLM_V1_LINES = (
    LinePattern("LLM engine (v", r"Initializing a V1 LLM engine \(v(?P<version>[\w.+-]+)\)"),
    LinePattern("Model loading took", rf"Model loading took (?P<weights_bytes>{_N}) Gi?B"),
    LinePattern("Available KV cache memory", rf"Available KV cache memory: (?P<available_kv_bytes>{_N}) GiB"),
    LinePattern("GPU KV cache size", r"GPU KV cache size: (?P<kv_tokens>[\d,]+) tokens"),
    LinePattern(
        "Maximum concurrency",
        r"Maximum concurrency for (?P<concurrency_len>[\d,]+) tokens per request: (?P<concurrency>[\d.]+)x",
    ),
    LinePattern("Free memory on device", rf"Free memory on device \({_N}/(?P<total_bytes>{_N}) GiB\)"),
    LinePattern("Free memory on device", rf"Desired GPU memory utilization is \((?P<utilization>{_N}),"),
    LinePattern("for peak activation", rf"(?P<peak_bytes>{_N}) GiB for peak activation"),
    LinePattern("for non-torch memory", rf"(?P<non_torch_bytes>{_N}) GiB for non-torch memory"),
    LinePattern("torch peak memory increase", rf"torch peak memory increase: (?P<peak_bytes>{_N}) ?GiB"),
    LinePattern("non-torch forward increase", rf"non-torch forward increase memory: (?P<non_torch_bytes>{_N}) ?GiB"),
    LinePattern("Requested memory:", rf"Requested memory: (?P<utilization>{_N}) \(util\)"),
    LinePattern("device_name=", r"device_name=(?P<device_name>\w[\w-]*)"),
    LinePattern("Chunked prefill is enabled", r"max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"),
)

VLLM_V1 = LogFormat(
    engine="vllm",
    versions="0.8 to 0.20 (V1)",
    since=(0, 8),
    source="https://github.com/vllm-project/vllm, vllm/v1/worker/gpu_worker.py and vllm/v1/core/kv_cache_utils.py",
    lines=_VLLM_V1_LINES,
    expects=("weights_bytes", "available_kv_bytes", "kv_tokens"),
    start=_VLLM_STARTS,
    settings=_VLLM_SETTINGS,
    names=_VLLM_NAMES,
)

# vLLM from 0.21 on: memory of CUDA graphs is estimated, and taken off before the cache is sized.
VLLM_V1_GRAPHS = LogFormat(
    engine="vllm",
    versions="0.21 and later (V1)",
    since=(0, 21),
    source="https://github.com/vllm-project/vllm/pull/30515, vllm/v1/worker/gpu_worker.py",
    lines=(
        *_VLLM_V1_LINES,
        LinePattern("Estimated CUDA graph memory", rf"Estimated CUDA graph memory: (?P<graph_bytes>{_N}) GiB"),
        LinePattern(
            "CUDA graph memory profiling is enabled",
            r"The current --gpu-memory-utilization=(?P<utilization>[\d.]+) is equivalent",
        ),
        LinePattern("for consumed memory", rf"(?P<consumed_bytes>{_N}) GiB for consumed memory"),
    ),
    expects=("weights_bytes", "available_kv_bytes", "kv_tokens"),
    start=_VLLM_STARTS,
    settings=_VLLM_SETTINGS,
    names=_VLLM_NAMES,
)

LOG_FORMATS = Registry(
    "log format",
    (SGLANG, VLLM_V0, VLLM_V1_GRAPHS, VLLM_V1),
    group="roofline.log_formats",
    key=attrgetter("title"),
    accepts=LogFormat,
)
