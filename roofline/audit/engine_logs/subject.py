"""What a comparison is about: model, hardware and deployment, from the files or from who asks, and on record which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.audit.engine_logs import names
from roofline.audit.engine_logs.agreement import contradictions, one_model
from roofline.audit.engine_logs.arguments import flag
from roofline.audit.engine_logs.benches import Bench
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.audit.engine_logs.weights_format import scheme
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import parse_dtype
from roofline.errors import InputError, RooflineError
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware
from roofline.specs.source import Assumption
from roofline.units import parse_count

_SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "expert_parallel_size")
_PLAIN = (*_SIZES, "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "block_size")
_WRITTEN = {"gpu_memory_utilization": "utilization"}
"""Options whose value may also stand in a line of its own, as a fact."""
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Subject:
    """A model on hardware as `roofline.analyze` takes it, with the options of the deployment."""

    model: str
    hardware: str
    engine: str
    options: dict[str, Any]
    notes: tuple[Assumption, ...]
    eager: bool = False


def subject(
    model: str | None, hardware: str | None, given: dict[str, Any], log: EngineLog | None, bench: Bench | None
) -> Subject:
    """Put together what the files say and what was given, which comes first.

    Raises:
        InputError: no file names the model or the hardware, and nobody gave it; or two files name different models.
    """
    notes: list[Assumption] = []
    if model is None:
        one_model(log, bench)
    chosen_model = model or _model(log, bench, notes)
    chosen_hardware = hardware or _hardware(log, notes)
    loaded, _ = load_model(chosen_model)
    if model is not None:
        notes += contradictions(loaded.name, log, bench)
    device, _ = load_hardware(chosen_hardware)
    options = {name: value for name, value in given.items() if value is not None}
    if log is not None:
        for name, (value, line) in _from_log(log, loaded, given).items():
            if name in options:
                if not _same(name, options[name], value):
                    notes.append(Assumption(name, options[name], "given", f"in place of the log's {value} (line {line})"))
                continue
            options[name] = value
            notes.append(Assumption(name, value, "given", f"line {line} of the log"))
    engine = log.engine if log is not None else _engine(bench)
    _defaults(engine, log.release if log is not None else None, device, options, notes)
    if engine != "vllm":
        options.setdefault("backend", engine)
    eager = log is not None and flag(log.argument("enforce_eager"))
    return Subject(chosen_model, chosen_hardware, engine, options, tuple(notes), eager)


def _same(name: str, given: Any, said: Any) -> bool:
    """Whether a flag and the log mean the same."""
    try:
        if name.endswith("dtype"):
            return parse_dtype(str(given)) == parse_dtype(str(said))
        return float(parse_count(given)) == float(said) if isinstance(said, int) else float(given) == float(said)
    except (RooflineError, TypeError, ValueError):
        return str(given) == str(said)


def _engine(bench: Bench | None) -> str:
    return "sglang" if bench is not None and bench.backend is not None and bench.backend.startswith("sglang") else "vllm"


def _model(log: EngineLog | None, bench: Bench | None, notes: list[Assumption]) -> str:
    for what, said in (("log", log.argument("model") if log else None), ("benchmark's result", bench.model if bench else None)):
        if said is not None:
            found = names.model(said)
            notes.append(Assumption("model", found, "given", f"the {what} names {said}: the same dimensions"))
            return found
    raise InputError("the files do not name the model: give MODEL, an id, a YAML file or a config.json")


def _hardware(log: EngineLog | None, notes: list[Assumption]) -> str:
    said = log.text("device_name") if log is not None else None
    if log is not None and said is not None and (found := names.device(said)) is not None:
        line = log.facts["device_name"].line
        notes.append(Assumption("hardware", found, "given", f"line {line} of the log names kernels for {said}"))
        return found
    where = "engines' logs seldom name" if log is not None else "a benchmark's result does not name"
    raise InputError(f"{where} the accelerator: give --hardware, an id or a YAML file (`roofline hardware list` shows all)")


def _from_log(log: EngineLog, model: Model, given: dict[str, Any]) -> dict[str, tuple[Any, int]]:
    """The options that the log's arguments stand for, each with its line."""
    found: dict[str, tuple[Any, int]] = {}
    for name in _PLAIN:
        fact = log.arguments.get(name)
        if fact is None and (fact := log.facts.get(_WRITTEN.get(name, ""))) is None:
            continue
        value = str(fact.value)
        if name in _SIZES and value == "1" and given.get(name) is None:
            continue
        if name == "max_num_batched_tokens" and value.startswith("-"):
            continue  # SGLang's -1: prompts are not cut
        if name == "max_model_len" and value.startswith("-"):
            continue  # vLLM's -1: as long as fits
        try:
            found[name] = (float(value) if name == "gpu_memory_utilization" else int(value), fact.line)
        except ValueError:
            continue  # "auto": left to the engine
    if flag(log.argument("enable_expert_parallel")) and any(block.experts is not None for block in model.blocks):
        size = int(log.argument("tensor_parallel_size") or 1) * int(log.argument("data_parallel_size") or 1)
        found["expert_parallel_size"] = (size, log.arguments["enable_expert_parallel"].line)
    if (cache := log.arguments.get("kv_cache_dtype")) is not None and str(cache.value) != "auto":
        found["kv_cache_dtype"] = (_cache_dtype(str(cache.value)), cache.line)
    _formats(log, model, given, found)
    return found


def _cache_dtype(value: str) -> str:
    """The dtype of the cache; layouts of an engine's own are fp8 too."""
    return "fp8" if value.startswith("fp8") else value


def _formats(log: EngineLog, model: Model, given: dict[str, Any], found: dict[str, tuple[Any, int]]) -> None:
    """Formats of weights and activations, where the model's own file does not say them."""
    dtype, method = log.arguments.get("dtype"), log.arguments.get("quantization")
    if method is not None and not model.quantization and given.get("quantization") is None and given.get("dtype") is None:
        name = scheme(str(method.value), log.argument("model") or "")
        found["quantization"] = (name, method.line)
    if dtype is not None and str(dtype.value) != "auto":
        value = str(dtype.value).removeprefix("torch.")
        found["activation_dtype"] = (value, dtype.line)
        if method is None and not model.quantization and given.get("quantization") is None:
            found["dtype"] = (value, dtype.line)


def _defaults(
    engine: str, release: tuple[int, ...] | None, hardware: Hardware, options: dict[str, Any], notes: list[Assumption]
) -> None:
    """What the engine takes where no line says it: its defaults, which may depend on the card.

    Source: vLLM, vllm/engine/arg_utils.py, get_batch_defaults: 1024 sequences and 8192 tokens on cards of 70 GiB and more
    that are no A100, else 256 and 2048; before 0.9 256 on all. SGLang, python/sglang/srt/server_args.py.
    """
    if engine == "sglang":
        found = {
            "block_size": (1, "SGLang's page of a token"),
            "gpu_memory_utilization": (0.88, "SGLang's mem_fraction_static is set by the card and the model"),
            "max_num_seqs": (4096, "SGLang's max_running_requests, at most"),
        }
    else:
        large = hardware.memory_bytes >= 70 * _GIB and "a100" not in hardware.accelerator.name
        large = large and not (release is not None and release < (0, 9))
        found = {
            "max_num_seqs": (1024 if large else 256, "the server's default on this card"),
            "max_num_batched_tokens": (8192 if large else 2048, "the server's default on this card"),
        }
    for name, (value, why) in found.items():
        if options.get(name) is None:
            options[name] = value
            notes.append(Assumption(name, value, "assumed", f"{why}; no line says it"))
