"""vLLM's server.

Sources: https://docs.vllm.ai/en/latest/configuration/engine_args.html; numbers such as `32k` (32,000) and `32K` (32,768):
`human_readable_int` in vllm/engine/arg_utils.py; its defaults by card: `get_batch_defaults` there.
"""

from __future__ import annotations

import re
from typing import Any

from roofline.audit.config_check.servers.base import Default, Flag, Server, cache_dtype, count, dtype, has_experts, named, share
from roofline.blocks.model import Model
from roofline.specs.hardware import Hardware

_GIB = 2**30
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def human_count(text: str) -> int:
    """A whole number as vLLM reads it.

    >>> human_count("32k"), human_count("32K"), human_count("25.6k")
    (32000, 32768, 25600)
    """
    match = _HUMAN.fullmatch(text.strip())
    binary = match is not None and match[2].isupper()
    if match is None or (binary and "." in match[1]):
        raise ValueError("a whole number of at least 1, such as 4096, 32k (32,000) or 32K (32,768)")
    value = float(match[1]) * (1024 if binary else 1000) ** _POWER[match[2].lower()]
    if value < 1 or not value.is_integer():
        raise ValueError("a whole number of at least 1, such as 4096, 32k (32,000) or 32K (32,768)")
    return int(value)


def longest(text: str) -> int:
    """The same, or 0 for as long as memory holds (`auto`, -1)."""
    return 0 if text.strip().lower() in ("auto", "-1") else human_count(text)


FLAGS = {
    "--model": Flag("model", named),
    "--tensor-parallel-size": Flag("tensor_parallel_size", count),
    "--pipeline-parallel-size": Flag("pipeline_parallel_size", count),
    "--data-parallel-size": Flag("data_parallel_size", count),
    "--max-model-len": Flag("max_model_len", longest),
    "--max-num-seqs": Flag("max_num_seqs", human_count),
    "--max-num-batched-tokens": Flag("max_num_batched_tokens", human_count),
    "--gpu-memory-utilization": Flag("gpu_memory_utilization", share),
    "--block-size": Flag("block_size", count),
    "--dtype": Flag("dtype", dtype),
    "--quantization": Flag("quantization", named),
    "--kv-cache-dtype": Flag("kv_cache_dtype", cache_dtype),
    "--mamba-ssm-cache-dtype": Flag("mamba_ssm_cache_dtype", dtype),
}
SWITCHES = {
    "--enable-expert-parallel": "enable_expert_parallel",
    "--enable-prefix-caching": "enable_prefix_caching",
    "--enable-chunked-prefill": "enable_chunked_prefill",
}
ALIASES = {
    "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size",
    "-q": "--quantization", "-sc": "--speculative-config", "-cc": "--compilation-config", "-ep": "--enable-expert-parallel",
    "-pcp": "--prefill-context-parallel-size", "-dcp": "--decode-context-parallel-size", "-asc": "--api-server-count",
}  # fmt: skip
_ALONE = "is not modelled here: the times are without it"
UNMODELLED = {
    "--speculative-config": _ALONE, "--speculative-model": _ALONE, "--num-speculative-tokens": _ALONE,
    "--enforce-eager": "takes CUDA graphs away: every step is slower than the times here",
    "--config": "names a file of more flags, which is not read: check that file too",
    "--cpu-offload-gb": "keeps weights in the host's memory, which is not modelled here",
    "--num-gpu-blocks-override": "sets the size of the cache, which is computed here",
    "--kv-cache-memory-bytes": "sets the size of the cache, which is computed here",
    "--prefill-context-parallel-size": _ALONE, "--decode-context-parallel-size": _ALONE,
    "--kv-transfer-config": "moves caches between servers, which is not modelled here",
    "--kv-offloading-size": _ALONE, "--enable-lora": _ALONE, "--enable-dbo": _ALONE, "--enable-eplb": _ALONE,
    "--num-scheduler-steps": _ALONE, "--long-prefill-token-threshold": _ALONE, "--max-num-partial-prefills": _ALONE,
    "--max-long-partial-prefills": _ALONE, "--scheduling-policy": _ALONE,
    "--hf-overrides": "changes the model, and is not read",
    "--rope-scaling": "changes how long the model's context may be, and is not read",
}  # fmt: skip
_SILENT = """
    host port uds api-key api-server-count served-model-name trust-remote-code revision code-revision tokenizer
    tokenizer-mode tokenizer-revision tokenizer-pool-size hf-token hf-config-path config-format load-format download-dir
    model-loader-extra-config ignore-patterns safetensors-load-strategy seed skip-tokenizer-init task runner convert
    disable-log-requests enable-log-requests disable-log-stats disable-uvicorn-access-log uvicorn-log-level max-log-len
    otlp-traces-endpoint collect-detailed-traces show-hidden-metrics-for-version enable-request-id-headers
    chat-template chat-template-content-format response-role enable-auto-tool-choice tool-call-parser
    tool-parser-plugin tool-server reasoning-parser enable-reasoning default-chat-template-kwargs
    allowed-origins allowed-methods allowed-headers allow-credentials ssl-keyfile ssl-certfile ssl-ca-certs
    ssl-cert-reqs root-path middleware return-tokens-as-token-ids enable-prompt-tokens-details
    enable-server-load-tracking enable-force-include-usage log-config-file generation-config override-generation-config
    guided-decoding-backend structured-outputs-config max-logprobs logprobs-mode limit-mm-per-prompt
    mm-processor-kwargs mm-processor-cache-gb media-io-kwargs allowed-local-media-path allowed-media-domains
    distributed-executor-backend swap-space disable-sliding-window prefix-caching-hash-algo enable-sleep-mode
    data-parallel-size-local data-parallel-address data-parallel-rpc-port data-parallel-rank data-parallel-start-rank
    data-parallel-backend data-parallel-hybrid-lb data-parallel-external-lb headless nnodes node-rank master-addr
    master-port max-parallel-loading-workers worker-use-ray ray-workers-use-nsight disable-frontend-multiprocessing
    enable-tokenizer-info-endpoint enable-offline-docs kv-events-config use-v2-block-manager disable-fastapi-docs
"""
SILENT = frozenset(f"--{name}" for name in _SILENT.split())


def _adapted(model: Model, said: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    options, notes = dict(said), []
    wanted = options.pop("enable_expert_parallel", False)
    group = (options.get("tensor_parallel_size") or 1) * (options.get("data_parallel_size") or 1)
    if has_experts(model) and wanted and group > 1:
        options["expert_parallel_size"] = group
    elif has_experts(model) and (options.get("data_parallel_size") or 1) > 1:
        options["expert_parallel_size"] = group
        notes.append("without --enable-expert-parallel every expert is cut over all data-parallel devices: the times are those "
                     "of whole experts on them, which take as much memory")  # fmt: skip
    if options.pop("enable_chunked_prefill", True) is False:
        options["chunked"] = False
        notes.append("without chunked prefill prompts are computed in steps of their own: the times are those of mixed steps")
    return options, notes


def _defaults(model: Model, hardware: Hardware, options: dict[str, Any]) -> dict[str, Default]:
    """1024 sequences and 8192 tokens on cards of 70 GiB and more that are no A100, else 256 and 2048."""
    large = hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.accelerator.name
    tokens, why = (8192 if large else 2048), "vLLM's server on this card takes it where no flag says it"
    longest_one = int(options.get("max_model_len") or model.max_position_embeddings)
    if options.get("chunked") is False and longest_one > tokens:
        tokens, why = longest_one, "without chunked prefill a step holds the longest prompt"
    budget = options.get("max_num_batched_tokens") or tokens
    seats = min(1024 if large else 256, int(budget))
    return {
        "max_num_seqs": Default(seats, "vLLM's server on this card takes it where no flag says it"),
        "max_num_batched_tokens": Default(tokens, why),
    }


SERVER = Server(
    name="vllm",
    starts=(
        re.compile(r"(?:\S*/)?vllm serve"),
        re.compile(r"-m vllm\.entrypoints\.(?:openai\.)?api_server"),
        re.compile(r"-m vllm\.entrypoints\.cli\.main serve"),
        re.compile(r"\S*vllm/entrypoints/(?:openai/)?api_server\.py"),
    ),
    image=re.compile(r"(?:^|/)vllm[\w.-]*(?:[:@]|$)"),
    flags=FLAGS,
    switches=SWITCHES,
    aliases=ALIASES,
    unmodelled=UNMODELLED,
    silent=SILENT,
    several=frozenset({
        "--served-model-name", "--allowed-origins", "--allowed-methods", "--allowed-headers", "--middleware", "--api-key",
        "--lora-modules",
    }),
    bare=frozenset({
        "--trust-remote-code", "--disable-log-requests", "--enable-log-requests", "--disable-log-stats", "--enforce-eager",
        "--enable-lora", "--enable-auto-tool-choice", "--enable-reasoning", "--disable-uvicorn-access-log", "--headless",
        "--disable-custom-all-reduce", "--async-scheduling", "--enable-sleep-mode", "--skip-tokenizer-init", "--enable-dbo",
        "--enable-eplb", "--disable-frontend-multiprocessing", "--allow-credentials",
    }),
    adapted=_adapted,
    defaults=_defaults,
)  # fmt: skip
