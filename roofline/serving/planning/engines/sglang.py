"""SGLang's server, as far as its options are the same thing.

Source: https://docs.sglang.io/advanced_features/server_arguments.html, read 2026-11-22. NB: `--mem-fraction-static` is a share
of the memory that is free before the weights are loaded, for weights and cache, not for activations: vLLM's utilisation is
given for it, and is close, not equal.
"""

from __future__ import annotations

from roofline.serving.planning.engines.base import EngineFlags, Start

_KV = {"fp8": "fp8_e4m3", "bf16": "auto", "fp16": "auto"}


def _flags(start: Start) -> list[str] | None:
    request, deployment = start.request, start.request.deployment
    kv = request.precision.kv.name
    quantization = deployment.quantization or ("fp8" if deployment.dtype == "fp8" else None)
    if kv not in _KV or quantization not in (None, "none", "fp8") or deployment.context_parallel_size > 1:
        return None
    tp, dp = deployment.tensor_parallel_size, deployment.data_parallel_size
    found = ["python3", "-m", "sglang.launch_server", "--model-path", request.model.hf_id or request.model.name]
    # with attention data-parallel, --tp-size counts all devices
    found += ["--tp-size", str(tp * dp)] if tp * dp > 1 else []
    found += ["--dp-size", str(dp), "--enable-dp-attention"] if dp > 1 else []
    for flag, size in (("--pp-size", deployment.pipeline_parallel_size), ("--ep-size", deployment.expert_parallel_size)):
        found += [flag, str(size)] if size > 1 else []
    found += ["--context-length", str(start.longest), "--max-running-requests", str((deployment.max_num_seqs or 1) * dp)]
    # of all ranks: each has its part of it
    found += ["--chunked-prefill-size", str(request.memory.max_num_batched_tokens * dp)]
    found += ["--mem-fraction-static", f"{request.memory.utilization:.10g}"]
    found += ["--kv-cache-dtype", _KV[kv]] if deployment.kv_cache_dtype is not None else []
    found += ["--quantization", "fp8"] if quantization == "fp8" else []
    if start.pool is not None:
        found += ["--disaggregation-mode", start.pool]
    return found


ENGINE = EngineFlags("sglang", _flags, "0.5")
