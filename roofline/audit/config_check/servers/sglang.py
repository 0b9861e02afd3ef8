"""SGLang's server.

Source: https://docs.sglang.io/advanced_features/server_arguments.html; defaults by card: python/sglang/srt/server_args.py of
release 0.5. NB: `--mem-fraction-static` is a share of the memory that is free before the weights are loaded, for weights and
cache, not for activations: it stands for vLLM's utilisation here, and is close, not equal.
"""

from __future__ import annotations

import re
from typing import Any

from roofline.audit.config_check.servers.base import Default, Flag, Server, cache_dtype, count, dtype, has_experts, named, share
from roofline.blocks.model import Model
from roofline.specs.hardware import Hardware

_GIB = 2**30
_MAX_PREFILL_TOKENS = 16384
_CHUNKS = ((35, 2048), (60, 4096), (160, 8192))
"""Tokens of a step on cards of less than so many GiB; 16384 on larger ones."""
_MOST_RUNNING = 4096


def _chunk(text: str) -> int:
    """Tokens, or 0 where prompts are not cut (-1)."""
    return 0 if text.strip() == "-1" else count(text)


FLAGS = {
    "--model-path": Flag("model", named),
    "--tensor-parallel-size": Flag("tensor_parallel_size", count),
    "--pipeline-parallel-size": Flag("pipeline_parallel_size", count),
    "--data-parallel-size": Flag("data_parallel_size", count),
    "--expert-parallel-size": Flag("expert_parallel_size", count),
    "--context-length": Flag("max_model_len", count),
    "--max-running-requests": Flag("max_running_requests", count),
    "--chunked-prefill-size": Flag("chunked_prefill_size", _chunk),
    "--max-prefill-tokens": Flag("max_prefill_tokens", count),
    "--mem-fraction-static": Flag("gpu_memory_utilization", share),
    "--page-size": Flag("block_size", count),
    "--dtype": Flag("dtype", dtype),
    "--quantization": Flag("quantization", named),
    "--kv-cache-dtype": Flag("kv_cache_dtype", cache_dtype),
}
SWITCHES = {"--enable-dp-attention": "enable_dp_attention", "--disable-radix-cache": "disable_radix_cache"}
ALIASES = {
    "--model": "--model-path", "--tp": "--tensor-parallel-size", "--tp-size": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size", "--pp-size": "--pipeline-parallel-size", "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size", "--ep": "--expert-parallel-size", "--ep-size": "--expert-parallel-size",
}  # fmt: skip
_ALONE = "is not modelled here: the times are without it"
UNMODELLED = {
    "--speculative-algorithm": _ALONE, "--speculative-draft-model-path": _ALONE, "--speculative-num-steps": _ALONE,
    "--speculative-eagle-topk": _ALONE, "--speculative-num-draft-tokens": _ALONE,
    "--disable-cuda-graph": "takes CUDA graphs away: every step is slower than the times here",
    "--disaggregation-mode": "makes it one of two pools, which are not checked here",
    "--enable-two-batch-overlap": _ALONE, "--enable-hierarchical-cache": _ALONE, "--enable-mixed-chunk": _ALONE,
    "--cpu-offload-gb": "keeps weights in the host's memory, which is not modelled here",
    "--enable-eplb": _ALONE, "--enable-torch-compile": _ALONE, "--schedule-policy": _ALONE, "--enable-lora": _ALONE,
    "--json-model-override-args": "changes the model, and is not read",
    "--config": "names a file of more flags, which is not read: check that file too",
}  # fmt: skip
_SILENT = """
    host port api-key served-model-name trust-remote-code revision tokenizer-path tokenizer-mode tokenizer-worker-num
    skip-tokenizer-init load-format model-loader-extra-config download-dir is-embedding chat-template
    completion-template reasoning-parser tool-call-parser log-level log-level-http log-requests log-requests-level
    show-time-cost enable-metrics enable-metrics-for-all-schedulers decode-log-interval random-seed watchdog-timeout
    dist-timeout dist-init-addr nccl-init-addr nnodes node-rank file-storage-path enable-cache-report grammar-backend
    constrained-json-whitespace-pattern base-gpu-id gpu-id-step warmups skip-server-warmup stream-interval
    allow-auto-truncate sampling-defaults sampling-backend collect-tokens-histogram crash-dump-folder kv-events-config
    load-balance-method device
"""
SILENT = frozenset(f"--{name}" for name in _SILENT.split())


def _adapted(model: Model, said: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    options, notes = dict(said), []
    ranks = options.get("data_parallel_size") or 1
    if options.pop("enable_dp_attention", False) and ranks > 1:
        # here --tp-size counts all devices, and attention is divided over what is left of it
        together = options.get("tensor_parallel_size") or 1
        if together % ranks:
            raise ValueError(f"--tp-size {together} is no multiple of --dp-size {ranks}, which --enable-dp-attention needs")
        options["tensor_parallel_size"] = together // ranks
        if has_experts(model):
            options.setdefault("expert_parallel_size", together)
    if options.pop("disable_radix_cache", False):
        options["enable_prefix_caching"] = False
    if (running := options.pop("max_running_requests", None)) is not None:
        options["max_num_seqs"] = max(running // ranks, 1)
    prefill = options.pop("max_prefill_tokens", None)
    if (chunk := options.pop("chunked_prefill_size", None)) is not None:
        options["max_num_batched_tokens"] = chunk or prefill or _MAX_PREFILL_TOKENS
        if not chunk:
            notes.append(
                "without chunked prefill prompts are computed in steps of their own: the times are those of mixed steps"
            )
    if "gpu_memory_utilization" in options:
        notes.append("--mem-fraction-static is taken as the share of memory for weights, cache and activations; SGLang's is "
                     "without activations")  # fmt: skip
    return options, notes


def _defaults(model: Model, hardware: Hardware, options: dict[str, Any]) -> dict[str, Default]:
    gib = hardware.memory_bytes / _GIB
    tokens = next((size for below, size in _CHUNKS if gib < below), 16384)
    return {
        "max_num_seqs": Default(_MOST_RUNNING, "SGLang's --max-running-requests, at most"),
        "max_num_batched_tokens": Default(tokens, "SGLang's --chunked-prefill-size on this card"),
        "gpu_memory_utilization": Default(0.88, "SGLang sets --mem-fraction-static by the card and the model; about this"),
        "block_size": Default(1, "SGLang's page of a token"),
        "backend": Default("sglang", "the engine of the command"),
    }


SERVER = Server(
    name="sglang",
    starts=(
        re.compile(r"-m sglang\.launch_server"),
        re.compile(r"(?:\S*/)?sglang serve"),
        re.compile(r"\S*sglang/launch_server\.py"),
    ),
    image=re.compile(r"(?:^|/)sglang[\w.-]*(?:[:@]|$)"),
    flags=FLAGS,
    switches=SWITCHES,
    aliases=ALIASES,
    unmodelled=UNMODELLED,
    silent=SILENT,
    several=frozenset(),
    bare=frozenset({
        "--trust-remote-code", "--log-requests", "--enable-metrics", "--show-time-cost", "--skip-tokenizer-init",
        "--disable-cuda-graph", "--enable-torch-compile", "--enable-cache-report", "--skip-server-warmup",
        "--enable-mixed-chunk", "--enable-two-batch-overlap", "--enable-hierarchical-cache", "--enable-eplb",
        "--is-embedding", "--enable-lora",
        "--disable-custom-all-reduce", "--disable-overlap-schedule",
    }),
    adapted=_adapted,
    defaults=_defaults,
)  # fmt: skip
