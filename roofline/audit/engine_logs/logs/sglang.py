"""SGLang 0.4 and 0.5: free memory around the loading of weights, tokens and bytes of the pool."""

from __future__ import annotations

from roofline.audit.engine_logs.logs.base import Format, Line

_N = r"-?[\d.]+"

SGLANG = Format(
    engine="sglang",
    versions="0.4 and 0.5",
    since=(0, 4),
    source="https://github.com/sgl-project/sglang, python/sglang/srt: model_executor/model_runner.py, mem_cache/memory_pool.py",
    lines=(
        Line("sglang", r"sglang[ =_-](?:version[ :=]*)?v?(?P<version>0\.\d+\.\d+[\w.]*)"),
        Line("Load weight begin", rf"Load weight begin\. avail mem=(?P<begin_bytes>{_N}) GB"),
        Line("Load weight end", rf"Load weight end\..*?avail mem=(?P<end_bytes>{_N}) GB"),
        Line("Load weight end", rf"Load weight end\..*mem usage=(?P<weights_bytes>{_N}) GB"),
        Line("KV Cache is allocated", r"KV Cache is allocated\..*?#tokens: (?P<kv_tokens>\d+)"),
        Line("KV Cache is allocated", rf"K size: (?P<k_bytes>{_N}) GB, V size: (?P<v_bytes>{_N}) GB"),
        Line("KV Cache is allocated", rf"KV size: (?P<k_bytes>{_N}) GB"),
        Line("max_total_num_tokens=", r"max_total_num_tokens=(?P<kv_tokens>\d+)"),
        Line("max_total_num_tokens=", r"chunked_prefill_size=(?P<max_num_batched_tokens>\d+)"),
        Line("max_total_num_tokens=", r"max_running_requests=(?P<max_num_seqs>\d+)"),
        Line("max_total_num_tokens=", r"context_len=(?P<max_model_len>\d+)"),
        Line("device_name=", r"device_name=(?P<device_name>\w[\w-]*)"),
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
