"""vLLM's names of the arguments that decide what fits and how fast it is, with ours."""

from __future__ import annotations

NAMES = {
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
SETTINGS = ("with config:", "non-default args:", "args: Namespace(", "args=Namespace(")
START = ("LLM engine (v", "Initializing an LLM engine", "vLLM API server version", "non-default args:")
