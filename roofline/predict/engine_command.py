"""The command that starts an engine as a deployment was analysed: vLLM, SGLang, TensorRT-LLM or llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Container

from roofline.predict.request import ResolvedRequest
from roofline.specs.deployment import Deployment
from roofline.text import quoted

_TORCH = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


_ON_LOAD = {"fp8": "fp8", "nf4": "bitsandbytes"}
"""What vLLM calls the formats to which it converts weights when it loads them. It finds those of a checkpoint in its files."""
_SEQUENCE_PARALLEL = json.dumps({"pass_config": {"enable_sp": True}})
_SGLANG_KV = {"fp8": "fp8_e4m3", "bf16": "auto", "fp16": "auto"}
_TRTLLM_KV = {"fp8": "fp8", "bf16": "auto", "fp16": "auto"}
TRTLLM_FILE = "trtllm.yaml"
"""The file of options beside the command of TensorRT-LLM."""


def engine_command(request: ResolvedRequest, longest: int) -> tuple[str, ...]:
    """Return the arguments that start the engine of a request; none where it has no options for the deployment.

    Args:
        request: the deployment and its engine; an engine without a command line here has vLLM's.
        longest: tokens of the longest sequence.
    """
    if request.engine.name == "sglang":
        return sglang_command(request, longest)
    if request.engine.name == "trtllm":
        return trtllm_command(request, longest)
    if request.engine.name == "llama.cpp":
        return llama_command(request, longest)
    return vllm_command(request, longest)


def engine_start(request: ResolvedRequest, longest: int) -> str:
    """Return `engine_command` as a line for a shell, which writes the engine's file of options first where it has one; "" where
    the engine has no options for the deployment.
    """
    options = trtllm_options(request, longest) if request.engine.name == "trtllm" else ""
    return start_line(engine_command(request, longest), {TRTLLM_FILE: options} if options else {})


def start_line(arguments: tuple[str, ...], files: dict[str, str]) -> str:
    """Return a line for a POSIX shell that writes files, by name and content, and runs a command."""
    writes = [f"echo {quoted(content)} > {quoted(name)} && " for name, content in files.items()]
    return "".join(writes) + shell_line(arguments)


def vllm_command(request: ResolvedRequest, longest: int) -> tuple[str, ...]:
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
    arguments = ["vllm", "serve", _checkpoint(request, _ON_LOAD), *_parallelism(deployment)]
    arguments += ["--max-model-len", str(longest), "--max-num-seqs", str(_sequences(request))]
    for flag, value in (
        ("--max-num-batched-tokens", deployment.max_num_batched_tokens),
        ("--gpu-memory-utilization", deployment.gpu_memory_utilization),
        ("--block-size", deployment.block_size),
    ):
        if value is not None:
            arguments += [flag, f"{value:.10g}"]
    if request.prefix_caching is not None:
        arguments.append("--enable-prefix-caching" if request.prefix_caching else "--no-enable-prefix-caching")
    return (*arguments, *_formats(request))


def _checkpoint(request: ResolvedRequest, on_load: Container[str]) -> str:
    """The repository of the weights; a folder where none is known that has them in the format that the deployment gives.

    Args:
        request: the deployment.
        on_load: formats to which the engine converts weights when it loads them.
    """
    model, wanted = request.model, _converted(request.deployment)
    if not wanted or wanted in on_load or wanted in [scheme.name for scheme in model.quantization]:
        return model.hf_id or model.name
    published = [one.hf_id for one in model.checkpoints if one.quantization[0].name == wanted]
    return published[0] if published else f"./{model.name}-{wanted}"


def _sequences(request: ResolvedRequest) -> int:
    """Running sequences of one replica, or of one rank."""
    return request.deployment.max_num_seqs or -(-request.workload.batch // request.deployment.data_parallel_size)


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
    if deployment.deepep_mode != "auto":
        kernels = "deepep_low_latency" if deployment.deepep_mode == "low_latency" else "deepep_high_throughput"
        arguments += ["--all2all-backend", kernels]
    if deployment.microbatch_overlap:
        arguments.append("--enable-dbo")
    if deployment.sequence_parallel:
        arguments += ["--compilation-config", _SEQUENCE_PARALLEL]
    return arguments


def _formats(request: ResolvedRequest) -> list[str]:
    deployment, kv = request.deployment, request.precision.kv.name
    arguments = ["--kv-cache-dtype", kv] if deployment.kv_cache_dtype and kv != request.precision.activation.name else []
    if (converted := _converted(deployment)) and converted not in [scheme.name for scheme in request.model.quantization]:
        return [*arguments, "--quantization", _ON_LOAD[converted]] if converted in _ON_LOAD else arguments
    return [*arguments, "--dtype", _TORCH[deployment.dtype]] if deployment.dtype in _TORCH else arguments


def sglang_command(request: ResolvedRequest, longest: int) -> tuple[str, ...]:
    """Return the arguments of SGLang's server; none where it has no options for the deployment.

    Args:
        request: its batch becomes `--max-running-requests` unless the deployment sets one.
        longest: tokens of the longest sequence, `--context-length`.

    Source: https://docs.sglang.io/advanced_features/server_arguments.html, read 2026-11-22. NB: `--mem-fraction-static` is a
    share of all memory, for weights and cache, not for activations: of a deployment with vLLM's share that is given for it, and
    is close, not equal. A share of what is free has no counterpart, and is left out.
    """
    deployment, kv = request.deployment, request.precision.kv.name
    quantization = _converted(deployment)
    if kv not in _SGLANG_KV or deployment.context_parallel_size > 1:
        return ()
    tp, dp = deployment.tensor_parallel_size, deployment.data_parallel_size
    words = ["python3", "-m", "sglang.launch_server", "--model-path", _checkpoint(request, ("fp8",))]
    # with attention data-parallel, --tp-size counts all devices
    words += ["--tp-size", str(tp * dp)] if tp * dp > 1 else []
    words += ["--dp-size", str(dp), "--enable-dp-attention"] if dp > 1 else []
    for flag, size in (("--pp-size", deployment.pipeline_parallel_size), ("--ep-size", deployment.expert_parallel_size)):
        words += [flag, str(size)] if size > 1 else []
    mode = deployment.deepep_mode
    words += ["--moe-a2a-backend", "deepep", "--deepep-mode", mode] if mode != "auto" else []
    words += ["--context-length", str(longest), "--max-running-requests", str(_sequences(request) * dp)]
    # of all ranks: each has its part of it
    words += ["--chunked-prefill-size", str(request.memory.max_num_batched_tokens * dp)]
    words += ["--mem-fraction-static", f"{request.memory.utilization:.10g}"] if request.memory.share_of != "free" else []
    words += ["--disable-radix-cache"] if request.prefix_caching is False else []
    words += ["--kv-cache-dtype", _SGLANG_KV[kv]] if deployment.kv_cache_dtype is not None else []
    words += ["--quantization", "fp8"] if quantization == "fp8" else []
    return tuple(words)


def llama_command(request: ResolvedRequest, longest: int) -> tuple[str, ...]:
    """Return the arguments of `llama-server`; none for more than one device, over which it divides layers otherwise.

    Args:
        request: its batch becomes `--parallel` unless the deployment limits the sequences.
        longest: tokens of the longest sequence; `--ctx-size` is of all slots together.

    Source: llama.cpp, common/arg.cpp.
    """
    deployment, slots = request.deployment, _sequences(request)
    if deployment.devices > 1:
        return ()
    cells = (deployment.max_model_len or longest) * slots
    arguments = ["llama-server", "--model", f"{request.model.name}.gguf", "--ctx-size", str(cells), "--parallel", str(slots)]
    kv = request.precision.kv.name
    if kv in ("q8_0", "q4_0", "bf16"):
        arguments += ["--cache-type-k", kv, "--cache-type-v", kv]
    if deployment.max_num_batched_tokens is not None:
        arguments += ["--ubatch-size", str(deployment.max_num_batched_tokens)]
    return (*arguments, "--n-gpu-layers", "all")


def trtllm_command(request: ResolvedRequest, longest: int) -> tuple[str, ...]:
    """Return the arguments of `trtllm-serve`; none where it has no options for the deployment.

    What has no flag is in the file `TRTLLM_FILE`, whose content `trtllm_options` returns. Formats of weights are those of the
    checkpoint: of a deployment that gives another a published checkpoint is named, or a folder for one in that format.

    Args:
        request: its batch becomes `--max_batch_size` unless the deployment sets one; both are of one attention-parallel rank.
        longest: tokens of the longest sequence, `--max_seq_len`.

    Source: TensorRT-LLM 1.0, tensorrt_llm/commands/serve.py and
    https://nvidia.github.io/TensorRT-LLM/1.0.0/commands/trtllm-serve/trtllm-serve.html; formats of checkpoints,
    https://nvidia.github.io/TensorRT-LLM/1.0.0/features/quantization.html.
    """
    if not _trtllm_starts(request):
        return ()
    deployment = request.deployment
    words = ["trtllm-serve", _checkpoint(request, ())]
    # with attention data-parallel, --tp_size counts all devices, and each of them is a rank
    devices = deployment.tensor_parallel_size * deployment.data_parallel_size
    for flag, size in (
        ("--tp_size", devices),
        ("--pp_size", deployment.pipeline_parallel_size),
        ("--ep_size", deployment.expert_parallel_size),
    ):
        words += [flag, str(size)] if size > 1 else []
    words += ["--max_batch_size", str(_sequences(request)), "--max_num_tokens", str(request.memory.max_num_batched_tokens)]
    words += ["--max_seq_len", str(longest)]
    return (*words, "--extra_llm_api_options", TRTLLM_FILE)


def trtllm_options(request: ResolvedRequest, longest: int) -> str:
    """Return the content of `TRTLLM_FILE`, one line of YAML: the cache, attention-parallel ranks, chunks, the weights' dtype.

    It is empty where `trtllm_command` has no arguments. The cache's share is left out where the deployment has one of other
    memory (`--gpu-memory-utilization`, `--mem-fraction-static`).

    Args:
        request: the deployment.
        longest: tokens of the longest sequence; one that is longer than a step's tokens is computed in chunks.

    Source: TensorRT-LLM, LLM API (TorchLlmArgs, KvCacheConfig),
    https://nvidia.github.io/TensorRT-LLM/llm-api/reference/TorchLlmArgs.html and
    https://nvidia.github.io/TensorRT-LLM/llm-api/reference/KvCacheConfig.html.
    """
    if not _trtllm_starts(request):
        return ""
    deployment, memory = request.deployment, request.memory
    cache = [f"dtype: {_TRTLLM_KV[request.precision.kv.name]}"]
    if memory.share_of == "free":
        cache.append(f"free_gpu_memory_fraction: {memory.utilization:.10g}")
    if deployment.block_size is not None:
        cache.append(f"tokens_per_block: {deployment.block_size}")
    if request.prefix_caching is not None:
        cache.append(f"enable_block_reuse: {str(request.prefix_caching).lower()}")
    options = [f"kv_cache_config: {{{', '.join(cache)}}}"]
    if deployment.data_parallel_size > 1:
        options.append("enable_attention_dp: true")
    if longest > memory.max_num_batched_tokens:
        options.append("enable_chunked_prefill: true")
    if deployment.dtype in _TORCH:
        options.append(f"dtype: {_TORCH[deployment.dtype]}")
    return "{" + ", ".join(options) + "}"


def _trtllm_starts(request: ResolvedRequest) -> bool:
    """Whether TensorRT-LLM has options for a deployment. Its data-parallel attention has one device per rank and shares the
    experts over all of them."""
    deployment = request.deployment
    ranks = deployment.data_parallel_size == 1 or (
        deployment.tensor_parallel_size == 1 and deployment.expert_parallel_size == deployment.data_parallel_size
    )
    plain = not deployment.num_redundant_experts and not deployment.microbatch_overlap and not deployment.sequence_parallel
    plain = plain and deployment.deepep_mode == "auto"  # an environment variable, TRTLLM_FORCE_ALLTOALL_METHOD
    divided = deployment.context_parallel_size * deployment.decode_context_parallel_size > 1
    return ranks and plain and not divided and request.precision.kv.name in _TRTLLM_KV


def _converted(deployment: Deployment) -> str:
    """The format that weights are converted to when they are loaded; "" of the checkpoint's own."""
    if deployment.quantization not in (None, "none"):
        return str(deployment.quantization)
    return "fp8" if deployment.dtype == "fp8" else ""


def shell_line(arguments: tuple[str, ...]) -> str:
    """Return arguments as one line for a POSIX shell, each quoted where needed."""
    return " ".join(quoted(part) for part in arguments)
