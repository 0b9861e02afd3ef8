"""Formats of engines' start-up lines: patterns whose groups are named after the facts that they hold.

Other packages add theirs by the entry-point group `roofline.log_formats`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from roofline.registry import Registry

GIB, MIB = 2**30, 2**20
_N = r"-?[\d.]+"

MIN_OVER_RANKS = frozenset({"available_kv_bytes", "kv_tokens", "kv_blocks", "begin_bytes", "end_bytes", "total_bytes"})
"""Facts of which the minimum over ranks counts: the rank with the least memory limits the cache."""
MAX_OVER_RANKS = frozenset({"weights_bytes", "peak_bytes", "non_torch_bytes", "graph_bytes", "consumed_bytes"})
"""Facts of which the maximum over ranks counts. Of all others the first line does."""
TEXTS = frozenset({"version", "device_name", "model", "dtype", "kv_cache_dtype", "v_cache_dtype", "kv_unified"})
ARGUMENTS = frozenset({
    "model", "dtype", "kv_cache_dtype", "block_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "tensor_parallel_size", "pipeline_parallel_size",
})  # fmt: skip
"""Facts that are arguments of the engine too, where no line prints its arguments."""
CAPACITY = ("kv_tokens", "kv_blocks", "available_kv_bytes")
"""What says that a start got as far as its cache."""


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A line of a log that holds facts.

    Attributes:
        needle: text that is in each such line; only these lines are searched.
        pattern: regular expression with one group per fact, named after it. Facts that end in `_bytes` are printed in GiB,
            whatever the line calls the unit (SGLang and older vLLM write GB). A group that ends in `_mib` holds MiB of the
            fact that ends in `_bytes` instead, one that ends in `_percent` hundredths of the fact without that ending.
    """

    needle: str
    pattern: str

    def has(self, fact: str) -> bool:
        """Whether the line holds a fact, in whatever unit."""
        groups = (fact, f"{fact.removesuffix('_bytes')}_mib", f"{fact}_percent")
        return any(f"(?P<{group}>" in self.pattern for group in groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFormat:
    """The start-up lines of an engine over a range of versions.

    Attributes:
        engine: `vllm`, `sglang`, `trtllm` or `llama.cpp`.
        versions: the range, in words.
        since: the first version that prints these lines.
        source: where in the engine's code they are.
        lines: those with facts.
        start: texts of the lines with which a start begins.
        settings: texts of the lines that print arguments, the most trusted first.
        expects: facts that every complete start prints: without them the log was cut, or the start failed.
        names: the engine's names of arguments to ours.
        repeated: what counts of a fact that one rank prints more than once: the sum, the last or the largest; of all others
            the first, and the smallest of `CAPACITY`.
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
    repeated: dict[str, Literal["sum", "last", "max"]] = field(default_factory=dict)

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
            values[name] = value.strip()
            continue
        try:
            number = float(value.replace(",", "").rstrip("."))
        except ValueError:
            continue
        if name.endswith("_mib"):
            values[name.removesuffix("_mib") + "_bytes"] = number * MIB
        elif name.endswith("_percent"):
            values[name.removesuffix("_percent")] = number / 100
        else:
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

# TensorRT-LLM: the cache is allocated twice, at first for a dry run of the largest step; the second time counts. Engines that
# were built ahead print what is free before it, the PyTorch backend what the dry run took.
TRTLLM = LogFormat(
    engine="trtllm",
    versions="0.8 to 1.2",
    since=(0, 8),
    source="https://github.com/NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp and "
    "tensorrt_llm/_torch/pyexecutor/_util.py",
    lines=(
        LinePattern("TensorRT-LLM version", r"TensorRT-LLM version: (?P<version>\d+\.\d+[\w.]*)"),
        LinePattern("TensorRT-LLM Version", r"TensorRT-LLM Version:\s+(?P<version>\d+\.\d+[\w.]*)"),
        LinePattern("for model weights", rf"Use (?P<weights_bytes>{_N}) GB for model weights"),
        LinePattern("Loaded engine size", rf"Loaded engine size: (?P<weights_mib>{_N}) MiB"),
        LinePattern(
            "max tokens in paged kv cache: total",
            rf"total: (?P<total_bytes>{_N}) GiB, available: (?P<free_bytes>{_N}) GiB",
        ),
        LinePattern("during memory usage profiling", rf"torch \+ non-torch\): (?P<used_bytes>{_N}) GiB"),
        LinePattern("device total memory", rf"device total memory (?P<total_bytes>{_N}) GiB"),
        LinePattern("fraction is set", rf"fraction is set (?P<utilization>{_N})"),
        LinePattern("dynamically allocated during inference", rf"memory usage profiling: (?P<peak_bytes>{_N}) GiB"),
        LinePattern(
            "for max tokens in paged KV cache",
            rf"Allocated (?P<available_kv_bytes>{_N}) GiB for max tokens in paged KV cache \((?P<kv_tokens>\d+)\)",
        ),
        LinePattern("KV cache primary pool", r"Number of blocks in KV cache primary pool: (?P<kv_blocks>\d+)"),
        LinePattern("Number of tokens per block", r"Number of tokens per block: (?P<block_size>\d+)"),
        LinePattern("max_num_tokens=", r"max_seq_len=(?P<max_model_len>\d+)"),
        LinePattern("max_num_tokens=", r"max_num_tokens=(?P<max_num_batched_tokens>\d+)"),
        LinePattern("max_num_tokens=", r"max_(?:batch_size|num_requests)=(?P<max_num_seqs>\d+)"),
        LinePattern("TRTGptModel max", r"TRTGptModel maxSequenceLen: (?P<max_model_len>\d+)"),
        LinePattern("TRTGptModel max", r"TRTGptModel maxNumTokens: (?P<max_num_batched_tokens>\d+)"),
        LinePattern("TRTGptModel max", r"TRTGptModel maxBatchSize: (?P<max_num_seqs>\d+)"),
        # the summary of trtllm-bench
        LinePattern("Model:  ", r"^Model:\s+(?P<model>\S+)$"),
        LinePattern("KV Cache Dtype:", r"KV Cache Dtype:\s+(?P<kv_cache_dtype>\w+)"),
        LinePattern("Dtype:  ", r"^Dtype:\s+(?P<dtype>\w+)"),
        LinePattern("TP Size:", r"TP Size:\s+(?P<tensor_parallel_size>\d+)"),
        LinePattern("PP Size:", r"PP Size:\s+(?P<pipeline_parallel_size>\d+)"),
        LinePattern("KV Memory Percentage", rf"KV Memory Percentage:\s+(?P<utilization_percent>{_N})%"),
    ),
    expects=("weights_bytes", "available_kv_bytes", "kv_tokens"),
    start=("[TRT-LLM] [I] Using LLM with PyTorch backend", "found in the config file, assuming engine(s) built"),
    settings=(),
    repeated={
        "available_kv_bytes": "last",
        "kv_tokens": "last",
        "kv_blocks": "last",
        "block_size": "last",
        "max_model_len": "last",
    },
)

# llama.cpp: a line for each cache (that of layers with a window is one of its own), and for recurrent state.
LLAMA_CPP = LogFormat(
    engine="llama.cpp",
    versions="2023 to 2026",
    since=(0, 0),
    source="https://github.com/ggml-org/llama.cpp, src/llama-context.cpp, llama-kv-cache.cpp, llama-memory-recurrent.cpp",
    lines=(
        LinePattern("build: ", r"\bbuild: (?P<version>\d+) \("),
        LinePattern("llama_model_loader: loaded meta data", r"tensors from (?P<model>.+?) \(version GGUF"),
        LinePattern("compute capability", r"Device \d+: (?P<device_name>[^,]+), compute capability"),
        LinePattern("file size", rf"(?:print_info|llm_load_print_meta): (?:file|model) size\s+= (?P<weights_bytes>{_N}) GiB"),
        LinePattern("file size", rf"(?:print_info|llm_load_print_meta): (?:file|model) size\s+= (?P<weights_mib>{_N}) MiB"),
        LinePattern(
            "llama_kv_cache",
            rf"llama_kv_cache\w*: size =\s*(?P<available_kv_mib>{_N}) MiB \(\s*(?P<kv_cells>\d+) cells,\s*\d+ layers,"
            r"\s*\d+(?:/\s*(?P<kv_streams>\d+))? seqs\), K \((?P<kv_cache_dtype>\w+)\):.*V \((?P<v_cache_dtype>\w+)\)",
        ),
        LinePattern(
            "KV self size",
            rf"KV self size\s+=\s*(?P<available_kv_mib>{_N}) MiB, K \((?P<kv_cache_dtype>\w+)\):.*V \((?P<v_cache_dtype>\w+)\)",
        ),
        LinePattern("llama_memory_recurrent", rf"llama_memory_recurrent: size =\s*(?P<available_kv_mib>{_N}) MiB"),
        LinePattern(" n_ctx ", r"(?:llama_context|llama_new_context_with_model): n_ctx\s+= (?P<context>\d+)"),
        LinePattern(" n_seq_max", r"n_seq_max\s+= (?P<max_num_seqs>\d+)"),
        LinePattern(" n_ubatch", r"n_ubatch\s+= (?P<max_num_batched_tokens>\d+)"),
        LinePattern(" kv_unified", r"kv_unified\s+= (?P<kv_unified>\w+)"),
    ),
    expects=("available_kv_bytes", "context"),
    start=("llama_model_loader: loaded meta data",),
    settings=(),
    repeated={"available_kv_bytes": "sum", "kv_cells": "max"},
)

LOG_FORMATS = Registry(
    "log format",
    (SGLANG, VLLM_V0, VLLM_V1_GRAPHS, VLLM_V1, TRTLLM, LLAMA_CPP),
    group="roofline.log_formats",
    key=attrgetter("title"),
    accepts=LogFormat,
)
