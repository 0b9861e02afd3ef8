"""Command lines of engines: what a replica of a plan is started with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from roofline.predict.engine_command import engine_command
from roofline.predict.request import ResolvedRequest
from roofline.registry import Registry

_SGLANG_KV = {"fp8": "fp8_e4m3", "bf16": "auto", "fp16": "auto"}
_VLLM_KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLaunch:
    """A replica to start.

    Args:
        request: the deployment.
        longest: tokens of the longest sequence.
        pool: prefill or decode, if the two are disaggregated.
        prefix_caching: whether prompts share prefixes.
    """

    request: ResolvedRequest
    longest: int
    pool: str | None = None
    prefix_caching: bool = False


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """The command line of an engine. Packages add one through the entry point group `roofline.engine_flags`.

    Args:
        name: of the engine.
        flags: makes the command line of a replica, word by word; None if the engine has no such option.
        version: of the engine; None: that of the request's engine.
    """

    name: str
    flags: Callable[[ReplicaLaunch], list[str] | None]
    version: str | None = None

    def label(self, request: ResolvedRequest) -> str:
        """Name and version, such as `vllm@0.19`."""
        return f"{self.name}@{self.version or request.engine.version}"


def _vllm_flags(start: ReplicaLaunch) -> list[str]:
    """VLLM's server.

    Sources: https://docs.vllm.ai/en/latest/configuration/engine_args.html; a cache that moves between servers:
    https://docs.vllm.ai/en/stable/features/nixl_connector_usage.html.
    """
    words = list(engine_command(start.request, start.longest))
    if start.prefix_caching:
        words.append("--enable-prefix-caching")
    if start.pool is not None:
        role = {"kv_connector": "NixlConnector", "kv_role": _VLLM_KV_ROLES[start.pool]}
        words += ["--kv-transfer-config", json.dumps(role)]
    return words


def _sglang_flags(start: ReplicaLaunch) -> list[str] | None:
    """SGLang's server, as far as its options mean the same.

    Source: https://docs.sglang.io/advanced_features/server_arguments.html, read 2026-11-22. NB: `--mem-fraction-static` is a
    share of the memory that is free before the weights are loaded, for weights and cache, not for activations: vLLM's
    utilization is given for it, and is close, not equal.
    """
    request, deployment = start.request, start.request.deployment
    kv = request.precision.kv.name
    quantization = deployment.quantization or ("fp8" if deployment.dtype == "fp8" else None)
    if kv not in _SGLANG_KV or quantization not in (None, "none", "fp8") or deployment.context_parallel_size > 1:
        return None
    tp, dp = deployment.tensor_parallel_size, deployment.data_parallel_size
    words = ["python3", "-m", "sglang.launch_server", "--model-path", request.model.hf_id or request.model.name]
    # with attention data-parallel, --tp-size counts all devices
    words += ["--tp-size", str(tp * dp)] if tp * dp > 1 else []
    words += ["--dp-size", str(dp), "--enable-dp-attention"] if dp > 1 else []
    for flag, size in (("--pp-size", deployment.pipeline_parallel_size), ("--ep-size", deployment.expert_parallel_size)):
        words += [flag, str(size)] if size > 1 else []
    words += ["--context-length", str(start.longest), "--max-running-requests", str((deployment.max_num_seqs or 1) * dp)]
    # of all ranks: each has its part of it
    words += ["--chunked-prefill-size", str(request.memory.max_num_batched_tokens * dp)]
    words += ["--mem-fraction-static", f"{request.memory.utilization:.10g}"]
    words += ["--kv-cache-dtype", _SGLANG_KV[kv]] if deployment.kv_cache_dtype is not None else []
    words += ["--quantization", "fp8"] if quantization == "fp8" else []
    if start.pool is not None:
        words += ["--disaggregation-mode", start.pool]
    return words


ENGINES = Registry(
    "engine",
    (EngineFlags("sglang", _sglang_flags, "0.5"), EngineFlags("vllm", _vllm_flags)),
    group="roofline.engine_flags",
    accepts=EngineFlags,
)
