"""Engines' servers: the flags that they are started with, as far as they are the same thing as options of `analyze`.

Other packages add theirs by the entry-point group `roofline.servers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roofline.audit.config_check.documents import LocatedValue
from roofline.blocks.model import Model
from roofline.registry import Registry
from roofline.specs.hardware import Hardware

_GIB = 2**30
_ALONE = "is not modelled here: the times are without it"
_UNSET_VARIABLE = re.compile(r"(?<!\\)\$[\w({]")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag with a value that stands for one of our options.

    Attributes:
        name: of our option.
        parse: the value from its text; None where it names the default. Raises ValueError with what is allowed.
    """

    name: str
    parse: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """A flag as it was written: its value as text (of a switch a bool), and its place in the file."""

    flag: str
    value: str | bool
    source: LocatedValue


@dataclass(frozen=True, slots=True)
class Default:
    """An engine's default value of an option, and the reason for it."""

    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class Server:
    """The command line of an engine's server.

    Attributes:
        name: of the engine.
        starts: commands that start it; its flags follow, and the model where that is no flag.
        image: matches names of container images that start it by themselves.
        flags: flags with a value that stand for an option of ours, by full name.
        switches: flags without a value, likewise, to the name of our option.
        aliases: other spellings to full names.
        unmodelled: flags that change performance in a way that is not modelled, with the effect in words.
        silent: flags that do not change performance.
        several: silent flags that take more than one word.
        bare: unmodelled or silent flags that take no value.
        adapted: from the model and the values of flags: options of `analyze`, and notes on what differs. Raises ValueError for
            values that exclude each other.
        defaults: from the model, the hardware and the options: defaults of options that no flag sets.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    image: re.Pattern[str]
    flags: Mapping[str, Flag]
    switches: Mapping[str, str]
    aliases: Mapping[str, str]
    unmodelled: Mapping[str, str]
    silent: frozenset[str]
    several: frozenset[str]
    bare: frozenset[str]
    adapted: Callable[[Model, dict[str, Any]], tuple[dict[str, Any], list[str]]]
    defaults: Callable[[Model, Hardware, dict[str, Any]], dict[str, Default]]

    def full(self, flag: str) -> str:
        """The full name of a flag: `--tensor_parallel_size` and `-tp` are `--tensor-parallel-size`."""
        name = flag if not flag.startswith("--") else "--" + flag[2:].replace("_", "-")
        return self.aliases.get(name, name)


@dataclass(slots=True)
class ParsedFlags:
    """Flags of a command line as options.

    Attributes:
        values: values with their places, by our names of the options.
        flags: flags as they were written, by our names of the options.
        unmodelled: sentences on flags whose effect is not modelled.
        unknown: flags that are not known.
    """

    values: dict[str, LocatedValue] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    unmodelled: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def parse_flags(server: Server, settings: list[Setting], overridden: Mapping[str, Any]) -> ParsedFlags:
    """Translate the flags of a command line to our options; of a flag that is given twice the last counts.

    Args:
        server: the engine's server.
        settings: the flags.
        overridden: options that the user gives: their flags are not read, so that a value hidden in a variable does no harm.

    Raises:
        SpecError: a value that the engine would refuse or that a variable hides, with its place.
    """
    understood = ParsedFlags()
    for setting in settings:
        flag = server.full(setting.flag)
        if (name := _switched(server, flag)) is not None:
            key, on = name
            understood.values[key] = _at(setting, on if setting.value is True else _truth(setting) is on)
            understood.flags[key] = setting.flag
        elif flag in server.flags:
            known = server.flags[flag]
            understood.flags[known.name] = setting.flag
            if overridden.get(known.name) is not None:
                continue
            value = _value(known, setting)
            if value is not None:
                understood.values[known.name] = _at(setting, value)
        elif flag in server.silent or _off(flag) in {*server.silent, *server.unmodelled}:
            continue
        elif (why := server.unmodelled.get(flag.split(".")[0])) is not None:
            if setting.value is not False:
                understood.unmodelled.append(f"{setting.flag} {why}")
        else:
            understood.unknown.append(setting.flag)
    understood.unmodelled = list(dict.fromkeys(understood.unmodelled))
    understood.unknown = list(dict.fromkeys(understood.unknown))
    return understood


def _switched(server: Server, flag: str) -> tuple[str, bool] | None:
    """What a switch is here, and whether its plain form switches it on."""
    if flag in server.switches:
        return server.switches[flag], True
    plain = _off(flag)
    return None if plain is None or plain not in server.switches else (server.switches[plain], False)


def _off(flag: str) -> str | None:
    """What `--no-...` switches off."""
    return "--" + flag[5:] if flag.startswith("--no-") else None


def _truth(setting: Setting) -> bool:
    if isinstance(setting.value, bool):
        return setting.value
    if setting.value.lower() not in ("true", "false", "1", "0"):
        raise setting.source.error(f"{setting.flag} is switched on or off, true or false, not {setting.value[:60]!r}")
    return setting.value.lower() in ("true", "1")


def _value(known: Flag, setting: Setting) -> Any:
    if isinstance(setting.value, bool):
        raise setting.source.error(f"{setting.flag} needs a value")
    if _UNSET_VARIABLE.search(setting.value):
        instead = f"--{known.name.replace('_', '-')}" if known.name != "model" else "MODEL"
        raise setting.source.error(
            f"{setting.flag} is {setting.value[:80]}, and nothing in the file sets that variable: "
            f"give {instead} on the command line"
        )
    try:
        return known.parse(setting.value)
    except ValueError as error:
        raise setting.source.error(f"{setting.flag} must be {error}, not {setting.value[:60]!r}") from None


def _at(setting: Setting, value: Any) -> LocatedValue:
    return replace(setting.source, value=value, block=False)


def _parse_count(text: str) -> int:
    """A whole number of at least 1."""
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def _parse_share(text: str) -> float:
    """More than 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ValueError("more than 0 and at most 1")
    return value


def _parse_dtype(text: str) -> str | None:
    """A format of numbers; None: as the checkpoint says."""
    from roofline.dtypes import parse_dtype
    from roofline.errors import RooflineError

    name = {"half": "fp16", "float": "fp32"}.get(text.strip().lower(), text)
    if name.strip().lower() == "auto":
        return None
    try:
        return parse_dtype(name).name
    except RooflineError:
        raise ValueError("auto, bfloat16, float16 (half) or float32 (float)") from None


def _parse_cache_dtype(text: str) -> str | None:
    """The format of the cache: an engine's own layouts of fp8 are fp8 too; None: as the activations."""
    return "fp8" if text.strip().lower().startswith("fp8") else _parse_dtype(text)


def _parse_name(text: str) -> str:
    """A name."""
    return text


def _has_experts(model: Model) -> bool:
    """Whether a layer of the model has experts."""
    return any(block.experts is not None for block in model.blocks)


# vLLM's server.
#
# Sources: https://docs.vllm.ai/en/latest/configuration/engine_args.html; numbers such as `32k` (32,000) and `32K` (32,768):
# `human_readable_int` in vllm/engine/arg_utils.py; its defaults by card: `get_batch_defaults` there.

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def _parse_vllm_count(text: str) -> int:
    """A whole number as vLLM reads it.

    >>> _parse_vllm_count("32k"), _parse_vllm_count("32K"), _parse_vllm_count("25.6k")
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


def _vllm_longest(text: str) -> int:
    """The same, or 0 for as long as memory holds (`auto`, -1)."""
    return 0 if text.strip().lower() in ("auto", "-1") else _parse_vllm_count(text)


_VLLM_FLAGS = {
    "--model": Flag("model", _parse_name),
    "--tensor-parallel-size": Flag("tensor_parallel_size", _parse_count),
    "--pipeline-parallel-size": Flag("pipeline_parallel_size", _parse_count),
    "--data-parallel-size": Flag("data_parallel_size", _parse_count),
    "--max-model-len": Flag("max_model_len", _vllm_longest),
    "--max-num-seqs": Flag("max_num_seqs", _parse_vllm_count),
    "--max-num-batched-tokens": Flag("max_num_batched_tokens", _parse_vllm_count),
    "--gpu-memory-utilization": Flag("gpu_memory_utilization", _parse_share),
    "--block-size": Flag("block_size", _parse_count),
    "--dtype": Flag("dtype", _parse_dtype),
    "--quantization": Flag("quantization", _parse_name),
    "--kv-cache-dtype": Flag("kv_cache_dtype", _parse_cache_dtype),
    "--mamba-ssm-cache-dtype": Flag("mamba_ssm_cache_dtype", _parse_dtype),
}
_VLLM_SWITCHES = {
    "--enable-expert-parallel": "enable_expert_parallel",
    "--enable-prefix-caching": "enable_prefix_caching",
    "--enable-chunked-prefill": "enable_chunked_prefill",
}
_VLLM_ALIASES = {
    "-tp": "--tensor-parallel-size", "-pp": "--pipeline-parallel-size", "-dp": "--data-parallel-size",
    "-q": "--quantization", "-sc": "--speculative-config", "-cc": "--compilation-config", "-ep": "--enable-expert-parallel",
    "-pcp": "--prefill-context-parallel-size", "-dcp": "--decode-context-parallel-size", "-asc": "--api-server-count",
}  # fmt: skip
_VLLM_UNMODELLED = {
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
_VLLM_SILENT_NAMES = """
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
_VLLM_SILENT = frozenset(f"--{name}" for name in _VLLM_SILENT_NAMES.split())


def _vllm_adapted(model: Model, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    options, notes = dict(values), []
    wanted = options.pop("enable_expert_parallel", False)
    group = (options.get("tensor_parallel_size") or 1) * (options.get("data_parallel_size") or 1)
    if _has_experts(model) and wanted and group > 1:
        options["expert_parallel_size"] = group
    elif _has_experts(model) and (options.get("data_parallel_size") or 1) > 1:
        options["expert_parallel_size"] = group
        notes.append("without --enable-expert-parallel every expert is cut over all data-parallel devices: the times are those "
                     "of whole experts on them, which take as much memory")  # fmt: skip
    if options.pop("enable_chunked_prefill", True) is False:
        options["chunked"] = False
        notes.append("without chunked prefill prompts are computed in steps of their own: the times are those of mixed steps")
    return options, notes


def _vllm_defaults(model: Model, hardware: Hardware, options: dict[str, Any]) -> dict[str, Default]:
    """1024 sequences and 8192 tokens on cards of 70 GiB and more that are no A100, else 256 and 2048."""
    large = hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.accelerator.name
    tokens, why = (8192 if large else 2048), "vLLM's server on this card takes it where no flag says it"
    longest_one = int(options.get("max_model_len") or model.max_position_embeddings)
    if options.get("chunked") is False and longest_one > tokens:
        tokens, why = longest_one, "without chunked prefill a step holds the longest prompt"
    budget = options.get("max_num_batched_tokens") or tokens
    sequences = min(1024 if large else 256, int(budget))
    return {
        "max_num_seqs": Default(sequences, "vLLM's server on this card takes it where no flag says it"),
        "max_num_batched_tokens": Default(tokens, why),
    }


VLLM = Server(
    name="vllm",
    starts=(
        re.compile(r"(?:\S*/)?vllm serve"),
        re.compile(r"-m vllm\.entrypoints\.(?:openai\.)?api_server"),
        re.compile(r"-m vllm\.entrypoints\.cli\.main serve"),
        re.compile(r"\S*vllm/entrypoints/(?:openai/)?api_server\.py"),
    ),
    image=re.compile(r"(?:^|/)vllm[\w.-]*(?:[:@]|$)"),
    flags=_VLLM_FLAGS,
    switches=_VLLM_SWITCHES,
    aliases=_VLLM_ALIASES,
    unmodelled=_VLLM_UNMODELLED,
    silent=_VLLM_SILENT,
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
    adapted=_vllm_adapted,
    defaults=_vllm_defaults,
)  # fmt: skip


# SGLang's server.
#
# Source: https://docs.sglang.io/advanced_features/server_arguments.html; defaults by card: python/sglang/srt/server_args.py of
# release 0.5.

_MAX_PREFILL_TOKENS = 16384
_CHUNK_TOKENS = ((35, 2048), (60, 4096), (160, 8192))
"""(GiB, tokens): of a step on cards with less memory than that; 16384 on larger ones."""
_MAX_RUNNING = 4096


def _sglang_chunk(text: str) -> int:
    """Tokens, or 0 where prompts are not cut (-1)."""
    return 0 if text.strip() == "-1" else _parse_count(text)


_SGLANG_FLAGS = {
    "--model-path": Flag("model", _parse_name),
    "--tensor-parallel-size": Flag("tensor_parallel_size", _parse_count),
    "--pipeline-parallel-size": Flag("pipeline_parallel_size", _parse_count),
    "--data-parallel-size": Flag("data_parallel_size", _parse_count),
    "--expert-parallel-size": Flag("expert_parallel_size", _parse_count),
    "--context-length": Flag("max_model_len", _parse_count),
    "--max-running-requests": Flag("max_running_requests", _parse_count),
    "--chunked-prefill-size": Flag("chunked_prefill_size", _sglang_chunk),
    "--max-prefill-tokens": Flag("max_prefill_tokens", _parse_count),
    "--mem-fraction-static": Flag("mem_fraction_static", _parse_share),
    "--page-size": Flag("block_size", _parse_count),
    "--dtype": Flag("dtype", _parse_dtype),
    "--quantization": Flag("quantization", _parse_name),
    "--kv-cache-dtype": Flag("kv_cache_dtype", _parse_cache_dtype),
}
_SGLANG_SWITCHES = {"--enable-dp-attention": "enable_dp_attention", "--disable-radix-cache": "disable_radix_cache"}
_SGLANG_ALIASES = {
    "--model": "--model-path", "--tp": "--tensor-parallel-size", "--tp-size": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size", "--pp-size": "--pipeline-parallel-size", "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size", "--ep": "--expert-parallel-size", "--ep-size": "--expert-parallel-size",
}  # fmt: skip
_SGLANG_UNMODELLED = {
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
_SGLANG_SILENT_NAMES = """
    host port api-key served-model-name trust-remote-code revision tokenizer-path tokenizer-mode tokenizer-worker-num
    skip-tokenizer-init load-format model-loader-extra-config download-dir is-embedding chat-template
    completion-template reasoning-parser tool-call-parser log-level log-level-http log-requests log-requests-level
    show-time-cost enable-metrics enable-metrics-for-all-schedulers decode-log-interval random-seed watchdog-timeout
    dist-timeout dist-init-addr nccl-init-addr nnodes node-rank file-storage-path enable-cache-report grammar-backend
    constrained-json-whitespace-pattern base-gpu-id gpu-id-step warmups skip-server-warmup stream-interval
    allow-auto-truncate sampling-defaults sampling-backend collect-tokens-histogram crash-dump-folder kv-events-config
    load-balance-method device
"""
_SGLANG_SILENT = frozenset(f"--{name}" for name in _SGLANG_SILENT_NAMES.split())


def _sglang_adapted(model: Model, values: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    options, notes = dict(values), []
    ranks = options.get("data_parallel_size") or 1
    if options.pop("enable_dp_attention", False) and ranks > 1:
        # here --tp-size counts all devices, and attention is divided over what is left of it
        together = options.get("tensor_parallel_size") or 1
        if together % ranks:
            raise ValueError(f"--tp-size {together} is no multiple of --dp-size {ranks}, which --enable-dp-attention needs")
        options["tensor_parallel_size"] = together // ranks
        if _has_experts(model):
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
    return options, notes


def _sglang_defaults(model: Model, hardware: Hardware, options: dict[str, Any]) -> dict[str, Default]:
    gib = hardware.memory_bytes / _GIB
    tokens = next((size for below, size in _CHUNK_TOKENS if gib < below), 16384)
    return {
        "max_num_seqs": Default(_MAX_RUNNING, "SGLang's --max-running-requests, at most"),
        "max_num_batched_tokens": Default(tokens, "SGLang's --chunked-prefill-size on this card"),
        "engine": Default("sglang", "its share of memory, by the card"),
        "block_size": Default(1, "SGLang's page of one token"),
        "backend": Default("sglang", "the engine of the command"),
    }


SGLANG = Server(
    name="sglang",
    starts=(
        re.compile(r"-m sglang\.launch_server"),
        re.compile(r"(?:\S*/)?sglang serve"),
        re.compile(r"\S*sglang/launch_server\.py"),
    ),
    image=re.compile(r"(?:^|/)sglang[\w.-]*(?:[:@]|$)"),
    flags=_SGLANG_FLAGS,
    switches=_SGLANG_SWITCHES,
    aliases=_SGLANG_ALIASES,
    unmodelled=_SGLANG_UNMODELLED,
    silent=_SGLANG_SILENT,
    several=frozenset(),
    bare=frozenset({
        "--trust-remote-code", "--log-requests", "--enable-metrics", "--show-time-cost", "--skip-tokenizer-init",
        "--disable-cuda-graph", "--enable-torch-compile", "--enable-cache-report", "--skip-server-warmup",
        "--enable-mixed-chunk", "--enable-two-batch-overlap", "--enable-hierarchical-cache", "--enable-eplb",
        "--is-embedding", "--enable-lora",
        "--disable-custom-all-reduce", "--disable-overlap-schedule",
    }),
    adapted=_sglang_adapted,
    defaults=_sglang_defaults,
)  # fmt: skip


SERVERS = Registry("server", (SGLANG, VLLM), group="roofline.servers", accepts=Server)
