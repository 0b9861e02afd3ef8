"""The command that starts an engine as a deployment was analysed."""

from __future__ import annotations

import json

from roofline.predict.request import ResolvedRequest
from roofline.specs.deployment import Deployment
from roofline.text import quoted

_TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


_COMPRESSED = ("pack_quantized", "w8a16", "w4a16", "w8a8", "w4a8", "w4a4")
"""Schemes of checkpoints that vLLM knows by their container, compressed-tensors."""
_SEQUENCE_PARALLEL = json.dumps({"pass_config": {"enable_sp": True}})


def engine_command(request: ResolvedRequest, longest: int) -> tuple[str, ...]:
    """Return the arguments of `vllm serve` for the deployment of a request.

    Sizes are per replica where the engine counts so (`--max-num-seqs`). What the engine takes from the checkpoint, or has
    as its own default, is left out.

    Args:
        request: its batch becomes `--max-num-seqs` unless the deployment sets one.
        longest: tokens of the longest sequence, `--max-model-len`.

    Source: vLLM, engine arguments, https://docs.vllm.ai/en/latest/configuration/engine_args.html; sequence parallelism is a
    pass of its compiler (`enable_sp` of `PassConfig`), https://docs.vllm.ai/en/stable/api/vllm/config/compilation/. NB: release
    0.19 has the flags of context parallelism, but no prompt is divided yet; where both sizes are equal, its design is what is
    modelled here, https://github.com/vllm-project/vllm/issues/46358.
    """
    deployment = request.deployment
    replica = -(-request.workload.batch // deployment.data_parallel_size)
    arguments = ["vllm", "serve", request.model.hf_id or request.model.name, *_parallelism(deployment)]
    arguments += ["--max-model-len", str(longest), "--max-num-seqs", str(deployment.max_num_seqs or replica)]
    for flag, value in (
        ("--max-num-batched-tokens", deployment.max_num_batched_tokens),
        ("--gpu-memory-utilization", deployment.gpu_memory_utilization),
        ("--block-size", deployment.block_size),
    ):
        if value is not None:
            arguments += [flag, f"{value:.10g}"]
    return (*arguments, *_formats(request))


def _parallelism(deployment: Deployment) -> list[str]:
    arguments: list[str] = []
    for flag, size in (
        ("--tensor-parallel-size", deployment.tensor_parallel_size),
        ("--pipeline-parallel-size", deployment.pipeline_parallel_size),
        ("--data-parallel-size", deployment.data_parallel_size),
        ("--prefill-context-parallel-size", deployment.context_parallel_size),
        ("--decode-context-parallel-size", deployment.context_parallel_size * deployment.decode_context_parallel_size),
    ):
        if size > 1:
            arguments += [flag, str(size)]
    if deployment.expert_parallel_size > 1:
        arguments.append("--enable-expert-parallel")
    if deployment.num_redundant_experts:
        arguments += ["--enable-eplb", "--eplb-config", f'{{"num_redundant_experts": {deployment.num_redundant_experts}}}']
    if deployment.microbatch_overlap:
        arguments.append("--enable-dbo")
    if deployment.sequence_parallel:
        arguments += ["--compilation-config", _SEQUENCE_PARALLEL]
    return arguments


def _formats(request: ResolvedRequest) -> list[str]:
    deployment, kv = request.deployment, request.precision.kv.name
    arguments = ["--kv-cache-dtype", kv] if deployment.kv_cache_dtype and kv != request.precision.activation.name else []
    if deployment.quantization not in (None, "none"):
        name = "compressed-tensors" if deployment.quantization in _COMPRESSED else str(deployment.quantization)
        return [*arguments, "--quantization", name]
    if deployment.dtype == "fp8":
        return [*arguments, "--quantization", "fp8"]
    return [*arguments, "--dtype", _TORCH[deployment.dtype]] if deployment.dtype in _TORCH else arguments


def shell_line(arguments: tuple[str, ...]) -> str:
    """Return arguments as one line for a POSIX shell, each quoted where needed."""
    return " ".join(quoted(part) for part in arguments)
