"""The deployment of a comparison: model, hardware and options, from the files or the user, with notes on which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.audit.engine_logs import names
from roofline.audit.engine_logs.bench_result import BenchResult
from roofline.audit.engine_logs.engine_log import EngineLog, flag
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import parse_dtype
from roofline.errors import InputError, RooflineError
from roofline.graph.sharding import cache_kinds
from roofline.predict.request import sized
from roofline.specs.hardware import Hardware
from roofline.specs.library import ids, load_engine, load_hardware, measured_engines
from roofline.specs.source import Assumption
from roofline.units import parse_count

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "expert_parallel_size")
_NUMBERS = (*_SIZES, "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "block_size")
_OF_FREE = "kv_cache_free_gpu_memory_fraction"
"""The option of TensorRT-LLM's share, which is of what weights and activations leave."""
_ALSO_FACTS = {"gpu_memory_utilization": "utilization"}
"""Options whose value a line of its own may also print, as a fact."""
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class LoggedDeployment:
    """A model on hardware with options, as `roofline.analyze` takes them.

    Attributes:
        model: id or path.
        hardware: likewise.
        engine: `vllm`, `sglang`, `trtllm` or `llama.cpp`.
        options: of the deployment, by the names of `roofline.analyze`.
        notes: where each option comes from.
        eager: whether the engine ran without CUDA graphs.
    """

    model: str
    hardware: str
    engine: str
    options: dict[str, Any]
    notes: tuple[Assumption, ...]
    eager: bool = False


def logged_deployment(
    model: str | None, hardware: str | None, overrides: dict[str, Any], log: EngineLog | None, bench: BenchResult | None
) -> LoggedDeployment:
    """The deployment that a log and a benchmark name.

    Args:
        model: given by the user: takes precedence over the files.
        hardware: likewise.
        overrides: options of `roofline.analyze` given by the user, likewise; None values are ignored.
        log: the engine's log, if there is one.
        bench: the benchmark's result, if there is one.

    Raises:
        InputError: no file names the model or the hardware, and neither was given; two files name different models; or the
            quantization method of the log does not tell the format of the weights.
    """
    notes: list[Assumption] = []
    if model is None:
        _check_one_model(log, bench)
    chosen_model = model or _model(log, bench, notes)
    chosen_hardware = hardware or _hardware(log, notes)
    loaded, _ = load_model(chosen_model)
    if model is not None:
        notes += _contradictions(loaded.name, log, bench)
    chosen_hardware, overrides = sized(chosen_hardware, dict(overrides))
    device, _ = load_hardware(chosen_hardware)
    options = {name: value for name, value in overrides.items() if value is not None}
    if log is not None:
        for name, (value, line) in _from_log(log, loaded, overrides).items():
            if name in options:
                if not _same(name, options[name], value):
                    notes.append(Assumption(name, options[name], "given", f"in place of the log's {value} (line {line})"))
                continue
            options[name] = value
            notes.append(Assumption(name, value, "given", f"line {line} of the log"))
    engine = log.engine if log is not None else _engine(bench)
    if log is not None and options.get("engine") is None:
        _rules(log, options, notes)
    _defaults(engine, loaded, log, device, options, notes)
    if engine != "vllm" and engine in measured_engines():
        options.setdefault("backend", engine)
    eager = log is not None and flag(log.argument("enforce_eager"))
    return LoggedDeployment(chosen_model, chosen_hardware, engine, options, tuple(notes), eager)


def _rules(log: EngineLog, options: dict[str, Any], notes: list[Assumption]) -> None:
    """The rules of the log's engine: of vLLM and SGLang those that hold for its version, where it names one."""
    if log.release is None or log.engine not in ("vllm", "sglang"):
        if log.engine != "vllm":
            options["engine"] = log.engine
        return
    rules, _ = load_engine(f"{log.engine}@{'.'.join(map(str, log.release))}", newest=True)
    options["engine"] = f"{log.engine}@{rules.version}"
    notes.append(Assumption("engine", options["engine"], "given", f"the rules that hold for {log.version}, of the log"))


def _same(name: str, option: Any, logged: Any) -> bool:
    """Whether a flag and the log mean the same."""
    try:
        if name.endswith("dtype"):
            return parse_dtype(str(option)) == parse_dtype(str(logged))
        return float(parse_count(option)) == float(logged) if isinstance(logged, int) else float(option) == float(logged)
    except (RooflineError, TypeError, ValueError):
        return str(option) == str(logged)


def _engine(bench: BenchResult | None) -> str:
    return "sglang" if bench is not None and bench.backend is not None and bench.backend.startswith("sglang") else "vllm"


def _model(log: EngineLog | None, bench: BenchResult | None, notes: list[Assumption]) -> str:
    for what, name in (("log", log.argument("model") if log else None), ("benchmark's result", bench.model if bench else None)):
        if name is not None:
            model = names.model(name)
            notes.append(Assumption("model", model, "given", f"the {what} names {name}: the same dimensions"))
            return model
    raise InputError("the files do not name the model: give MODEL, an id, a YAML file or a config.json")


def _hardware(log: EngineLog | None, notes: list[Assumption]) -> str:
    name = log.text("device_name") if log is not None else None
    if log is not None and name is not None and (hardware := names.device(name)) is not None:
        line = log.facts["device_name"].line
        notes.append(Assumption("hardware", hardware, "given", f"line {line} of the log names kernels for {name}"))
        return hardware
    where = "engines' logs seldom name" if log is not None else "a benchmark's result does not name"
    raise InputError(f"{where} the accelerator: give --hardware with an id or a YAML file (`roofline hardware list` shows all)")


def _from_log(log: EngineLog, model: Model, overrides: dict[str, Any]) -> dict[str, tuple[Any, int]]:
    """The options that the log's arguments stand for, each with its line."""
    options: dict[str, tuple[Any, int]] = {}
    for name in _NUMBERS:
        fact = log.arguments.get(name)
        if fact is None and (fact := log.facts.get(_ALSO_FACTS.get(name, ""))) is None:
            continue
        value = str(fact.value)
        if name in _SIZES and value == "1" and overrides.get(name) is None:
            continue
        if name == "max_num_batched_tokens" and value.startswith("-"):
            continue  # SGLang's -1: prompts are not cut
        if name == "max_model_len" and value.startswith("-"):
            continue  # vLLM's -1: as long as fits
        option = _OF_FREE if log.engine == "trtllm" and name == "gpu_memory_utilization" else name
        try:
            options[option] = (float(value) if name == "gpu_memory_utilization" else int(value), fact.line)
        except ValueError:
            continue  # "auto": left to the engine
    if flag(log.argument("enable_expert_parallel")) and any(block.experts is not None for block in model.blocks):
        size = int(log.argument("tensor_parallel_size") or 1) * int(log.argument("data_parallel_size") or 1)
        options["expert_parallel_size"] = (size, log.arguments["enable_expert_parallel"].line)
    options.update(_prefix_caching(log))
    if log.engine == "llama.cpp":
        options.update(_context(log, options))
    if (cache := log.arguments.get("kv_cache_dtype")) is not None and str(cache.value) != "auto":
        options["kv_cache_dtype"] = (_cache_dtype(str(cache.value)), cache.line)
    _formats(log, model, overrides, options)
    return options


def _prefix_caching(log: EngineLog) -> dict[str, tuple[bool, int]]:
    """Whether prefix caching was switched on or off: vLLM names the one, SGLang the other."""
    for name, on in (("enable_prefix_caching", True), ("disable_prefix_caching", False)):
        if (fact := log.arguments.get(name)) is not None:
            return {"enable_prefix_caching": (flag(str(fact.value)) is on, fact.line)}
    return {}


def _context(log: EngineLog, options: dict[str, tuple[Any, int]]) -> dict[str, tuple[int, int]]:
    """The longest sequence of llama.cpp: its context is that of all sequences together, unless they share one cache."""
    context = log.facts.get("context")
    if context is None:
        return {}
    slots, _ = options.get("max_num_seqs", (1, 0))
    each = int(float(context.value)) // (1 if log.text("kv_unified") == "true" else int(slots))
    return {"max_model_len": (each, context.line)}


def _cache_dtype(value: str) -> str:
    """The dtype of the cache; layouts of an engine's own are fp8 too."""
    return "fp8" if value.lower().startswith("fp8") else {"f16": "fp16", "f32": "fp32"}.get(value, value)


def _formats(log: EngineLog, model: Model, overrides: dict[str, Any], options: dict[str, tuple[Any, int]]) -> None:
    """Formats of weights and activations, where the model's own file does not say them."""
    dtype, method = log.arguments.get("dtype"), log.arguments.get("quantization")
    if (
        method is not None
        and not model.quantization
        and overrides.get("quantization") is None
        and overrides.get("dtype") is None
    ):
        name = names.scheme(str(method.value), log.argument("model") or "")
        options["quantization"] = (name, method.line)
    if log.engine == "trtllm" and model.quantization == () and options.get("kv_cache_dtype", ("",))[0] == "fp8":
        return  # the formats of an engine that was built ahead are not those of the model's file
    if dtype is not None and str(dtype.value) != "auto":
        value = str(dtype.value).removeprefix("torch.")
        named = overrides.get("quantization") or options.get("quantization", (None, 0))[0]
        if not names.quantizes_activations(model, named):
            options["activation_dtype"] = (value, dtype.line)
        if method is None and not model.quantization and overrides.get("quantization") is None:
            options["dtype"] = (value, dtype.line)


def _defaults(
    engine: str, model: Model, log: EngineLog | None, hardware: Hardware, options: dict[str, Any], notes: list[Assumption]
) -> None:
    """What the engine takes where no line says it: its defaults, which may depend on the card.

    Source: vLLM, vllm/engine/arg_utils.py, get_batch_defaults: 1024 sequences and 8192 tokens on cards of 70 GiB and more
    that are no A100, else 256 and 2048; before 0.9 256 on all. SGLang, python/sglang/srt/server_args.py.
    """
    release = log.release if log is not None else None
    defaults: dict[str, tuple[float, str]]
    if engine == "sglang":
        defaults = _sglang_defaults(model, log, release, hardware, options)
    elif engine in _FIXED:
        defaults = {name: (value, f"{engine}'s default") for name, value in _FIXED[engine].items()}
    else:
        large = hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.accelerator.name
        large = large and not (release is not None and release < (0, 9))
        defaults = {
            "max_num_seqs": (1024 if large else 256, "the server's default on this card"),
            "max_num_batched_tokens": (8192 if large else 2048, "the server's default on this card"),
        }
    for name, (value, why) in defaults.items():
        if options.get(name) is None:
            options[name] = value
            notes.append(Assumption(name, value, "assumed", f"{why}; no line says it"))


_FIXED: dict[str, dict[str, float]] = {
    "trtllm": {"max_num_seqs": 2048, "max_num_batched_tokens": 8192},
    "llama.cpp": {"max_num_seqs": 1, "max_num_batched_tokens": 512},
}
"""Defaults that depend on no card: TensorRT-LLM, llmapi/llm_args.py; llama.cpp, common/common.h."""

_SGLANG_COMPUTES = "0.5.9"
"""The rules of SGLang's share of memory where the log does not name the version."""


def _sglang_defaults(
    model: Model, log: EngineLog | None, release: tuple[int, ...] | None, hardware: Hardware, options: dict[str, Any]
) -> dict[str, tuple[float, str]]:
    """SGLang's defaults with reasons. Its share of memory follows from the card, the parallel sizes and the chunk."""
    memory = hardware.memory_bytes
    tp, pp, dp = (parse_count(options.get(name) or options.get(short) or 1, name) for name, short in _SGLANG_SIZES)
    rules, _ = load_engine(f"sglang@{'.'.join(map(str, release)) if release else _SGLANG_COMPUTES}", newest=True)
    card = rules.card(memory)
    usual = (None if card is None else card.chunk) or rules.max_num_batched_tokens
    uncut = log is not None and (log.argument("max_num_batched_tokens") or "").startswith("-")
    chunk = parse_count(
        options.get("max_num_batched_tokens") or (_SGLANG_PREFILL if uncut else usual), "max_num_batched_tokens"
    )
    ranks = dp if log is not None and flag(log.argument("enable_dp_attention")) else 0
    share = rules.share(memory, tp * pp, tp, chunk, ranks, latent="latent" in cache_kinds(model))
    computed = f"mem_fraction_static as SGLang computes it for {memory / _GIB:.1f} GiB, TP x PP {tp * pp}"
    if card is not None and card.chunk is not None:
        computed += f" and chunks of {chunk:,} tokens"
    tokens = {} if uncut else {"max_num_batched_tokens": (chunk, "SGLang's chunked_prefill_size on this card")}
    return {
        "block_size": (1, "SGLang's page of one token"),
        **tokens,
        "gpu_memory_utilization": (share, computed),
        "max_num_seqs": (4096, "SGLang's max_running_requests, at most"),
    }


_SGLANG_PREFILL = 16384
"""SGLang's max_prefill_tokens, which counts where prompts are not cut (a chunk of -1)."""
_SGLANG_SIZES = (("tensor_parallel_size", "tp"), ("pipeline_parallel_size", "pp"), ("data_parallel_size", "dp"))


def _check_one_model(log: EngineLog | None, bench: BenchResult | None) -> None:
    """Refuse a log and a benchmark of different models. A name of no shipped model passes: a server may serve under any name.

    Raises:
        InputError: both names are known, and of different dimensions.
    """
    logged = None if log is None else log.argument("model")
    benched = None if bench is None else bench.model
    if logged is None or benched is None:
        return
    first, second = _shipped_model(logged), _shipped_model(benched)
    if first is not None and second is not None and first != second:
        raise InputError(
            f"the files are of different models: the log names {logged:.120}, the benchmark's result {benched:.120}; "
            "give files of one server, or MODEL to compare both with it"
        )


def _contradictions(model: str, log: EngineLog | None, bench: BenchResult | None) -> list[Assumption]:
    """A note for each file that names another model than the one that was given (`model`, by its own name)."""
    notes = []
    line = log.arguments["model"].line if log is not None and "model" in log.arguments else 0
    named = (
        (f"the log's {{}} (line {line})", None if log is None else log.argument("model")),
        ("the {} of the benchmark's result", None if bench is None else bench.model),
    )
    for place, name in named:
        if name is not None and (other := _shipped_model(name)) is not None and other != model:
            notes.append(Assumption("model", model, "given", f"in place of {place.format(name[:120])}"))
    return notes


def _shipped_model(name: str) -> str | None:
    """The id of the shipped model of a name; None where there is none, or the name is a folder that is here."""
    try:
        entry = names.model(name)
    except InputError:
        return None
    return entry if entry in ids("models") else None
