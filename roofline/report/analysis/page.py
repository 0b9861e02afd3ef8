"""Pages of `roofline report`: the first state, the controls, the translated program and its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formulas.javascript import Program, translated
from roofline.predict.engine_command import shell_line
from roofline.predict.options import read_quantity
from roofline.predict.request import OVERRIDES, SHORT, ResolvedRequest, prepare
from roofline.report.analysis.view import FIGURES, WEIGHTS, Values, flags, view
from roofline.report.cells import csv_text
from roofline.report.controls import Choice, Control
from roofline.report.figure import View
from roofline.report.live import every_spec, page_script, program, specs
from roofline.report.page import live_page
from roofline.report.plotly_figure import plot
from roofline.specs.library import ids, load_hardware

TTFT_MS, TPOT_MS = 1000.0, 50.0
_OUTPUT_LEN = 256
_CALCULATOR = ("llama-3.1-8b", "h100-sxm")
_CONTROLLED = {*SHORT.values(), "batch", "input_len", "context", "output_len", "kv_cache_dtype", "backend", *OVERRIDES}
Formulas = Callable[[ResolvedRequest], str]
"""What makes the formulas of a request, as HTML; they need SymPy, which a page needs nowhere else."""


def report(model: str, hardware: Sequence[str], options: Mapping[str, Any], formulas: Formulas | None = None) -> str:
    """The page of one model on one hardware, or several side by side. Options are those of `analyze`."""
    for name in ("segments", "phase"):
        if options.get(name) is not None:
            raise InputError(f"a page shows prefill and decode: leave out --{name}")
    if str(options.get("backend") or "").endswith((".yaml", ".yml")):
        why = "put it under hardware/fits/<accelerator>/<backend>.yaml in a folder on ROOFLINE_PATH, and name the backend"
        raise InputError(f"a page finds fits by name, not --backend {options['backend']}: {why}")
    query = {**options, "output_len": options.get("output_len") or _OUTPUT_LEN}
    requests = [prepare(model, name, **query) for name in dict.fromkeys(hardware)]
    values = _values(requests[0], model, list(dict.fromkeys(hardware)), options)
    devices = [(name, load_hardware(name)[0].title) for name in dict.fromkeys([*hardware, *ids("hardware")])]
    words = [part for name in dict.fromkeys(hardware) for part in ("--hardware", name)]
    line = shell_line(("roofline", "report", model, *words, *flags(values), "--output", "report.html"))
    return _page(values, [(model, requests[0].model.title)], devices, line, formulas(requests[0]) if formulas else "")


def first_view(model: str, hardware: str) -> View:
    """What a page of a model on one hardware shows at first."""
    return view(_values(prepare(model, hardware, output_len=_OUTPUT_LEN), model, [hardware], {}))


def calculator() -> str:
    """A page in which any shipped model and hardware can be chosen."""
    model, hardware = _CALCULATOR
    request = prepare(model, hardware, output_len=_OUTPUT_LEN)
    values = _values(request, model, [hardware], {})
    models = [(name, load_model(name)[0].title) for name in ids("models")]
    devices = [(name, load_hardware(name)[0].title) for name in ids("hardware")]
    return _page(values, models, devices, shell_line(("roofline", "report", "--calculator", "--output", "calculator.html")), "")


def _program() -> Program:
    """The program of every page: with all kinds of specs, whatever a page holds, so that all pages have the same."""
    made = program()
    made.export("view", view)
    made.export("plot", plot)
    made.export("csv", csv_text)
    for spec in every_spec():
        made.refer(spec)
    return made


def _page(
    values: Values, models: Sequence[tuple[str, str]], hardware: Sequence[tuple[str, str]], line: str, formulas: str
) -> str:
    assume, engine = values["fixed"].get("assume"), values["fixed"].get("engine")
    script, data = translated(
        _program, lambda into: specs(into, [name for name, _ in models], [name for name, _ in hardware], assume, engine)
    )
    loaded = [load_model(name, assume if len(models) == 1 else None)[0] for name, _ in models]
    controls = settings(values, longest_context(loaded), models, hardware)
    first = view(values)
    return live_page(first, controls, page_script(script), {"specs": data, "values": values}, line, formulas)


def _values(request: ResolvedRequest, model: str, hardware: list[str], options: Mapping[str, Any]) -> Values:
    """The first state, from options as a user wrote them."""
    workload, deployment = request.workload, request.deployment
    full = {SHORT.get(name, name): value for name, value in options.items() if value is not None and value is not False}
    weights = next((key for key, (name, value) in WEIGHTS.items() if getattr(deployment, name) == value), "")
    kv = deployment.kv_cache_dtype if deployment.kv_cache_dtype in ("bf16", "fp8") else ""
    typed = {name: read_quantity(name, full[name], unit) for name, unit in OVERRIDES.items() if name in full}
    controlled = {*_CONTROLLED, *([WEIGHTS[weights][0]] if weights else [])} - ({"kv_cache_dtype"} if not kv else set())
    return {
        "model": model,
        "hardware": hardware[0],
        "others": hardware[1:],
        "batch": workload.batch,
        "input_len": workload.input_len,
        "context": workload.context,
        "output_len": workload.output_len or _OUTPUT_LEN,
        "tp": str(deployment.tensor_parallel_size),
        "pp": str(deployment.pipeline_parallel_size),
        "dp": str(deployment.data_parallel_size),
        "ep": str(deployment.expert_parallel_size),
        "weights": weights,
        "kv": kv,
        "backend": deployment.backend or "",
        "efficiency": True,
        **{figure.key: typed.get(figure.option, 0) / figure.scale for figure in FIGURES},
        "ttft_ms": TTFT_MS,
        "tpot_ms": TPOT_MS,
        "fixed": {name: _settled(request, name, value) for name, value in full.items() if name not in controlled},
    }


def _settled(request: ResolvedRequest, name: str, value: Any) -> Any:
    """An option that no control changes, as the request has read it: a number where it is one."""
    for owner in (request.deployment, request.deployment.conventions):
        if hasattr(owner, name):
            return getattr(owner, name)
    return value


# Controls, and what they are set to at first

WORKLOAD, DEPLOYMENT, HARDWARE, OBJECTIVES = "Workload", "Deployment", "Hardware", "Objectives"
_SIZES = (1, 2, 4, 8, 16, 32, 64)
_WEIGHTS = (("", "as published"), ("bf16", "bf16"), ("fp8", "fp8"), ("awq", "int4 (AWQ)"), ("nvfp4", "nvfp4"))
_KV = (("", "as activations"), ("bf16", "bf16"), ("fp8", "fp8"))
_BACKENDS = (("", "vLLM's, band of all"), ("vllm", "vLLM"), ("sglang", "SGLang"), ("trtllm", "TensorRT-LLM"))
_MOST_BATCH, _MOST_TOKENS = 65_536.0, 4_194_304.0


def settings(
    values: Values, longest: int, models: Sequence[tuple[str, str]], hardware: Sequence[tuple[str, str]]
) -> tuple[Control, ...]:
    """The controls. `longest` is the model's context; several models make a choice of them, as several hardwares do."""
    tokens = max(float(longest), *(float(values[key]) for key in ("input_len", "context", "output_len")))
    most = min(max(tokens, 2.0), _MOST_TOKENS)
    controls = [_choice("model", "Model", models, values, "")] if len(models) > 1 else []
    controls += [
        _number(
            "batch", "Batch", values, 1, max(_MOST_BATCH, values["batch"]), "sequences", WORKLOAD, "in the whole deployment"
        ),
        _number("input_len", "Prompt", values, 1, most, "tokens", WORKLOAD, "of each sequence, nothing cached"),
        _number(
            "context", "Context", values, min(values["context"], 1), most, "tokens", WORKLOAD, "cached before a decode step"
        ),
        _number("output_len", "Output", values, 1, most, "tokens", WORKLOAD, "generated for each sequence"),
        _choice("hardware", "Hardware", hardware, values, HARDWARE),
        _own("peak_tflops", "Peak", values, 100_000, "TFLOP/s"),
        _own("bandwidth_gbs", "Bandwidth", values, 100_000, "GB/s"),
        _own("memory_gb", "Memory", values, 10_000, "GB"),
        Control(
            key="efficiency",
            label="Measured efficiency",
            kind="switch",
            value=bool(values["efficiency"]),
            help="off: the bound alone, from the datasheet",
            group=HARDWARE,
        ),
        _choice("weights", "Weights", _WEIGHTS, values, DEPLOYMENT),
        _choice("kv", "KV cache", _KV, values, DEPLOYMENT),
        *(_parallel(key, label, values) for key, label in _PARALLEL),
        _choice("backend", "Kernels", _backends(str(values["backend"])), values, DEPLOYMENT),
        _objective("ttft_ms", "TTFT", values, 1e6),
        _objective("tpot_ms", "TPOT", values, 1e5),
    ]
    return tuple(controls)


_PARALLEL = (("tp", "Tensor parallel"), ("pp", "Pipeline parallel"), ("dp", "Data parallel"), ("ep", "Expert parallel"))


def _number(key: str, label: str, values: Values, low: float, high: float, unit: str, group: str, text: str) -> Control:
    value = float(values[key])
    return Control(
        key=key,
        label=label,
        kind="number",
        value=value,
        low=low,
        high=high,
        step=1,
        log=low > 0,
        unit=unit,
        help=text,
        group=group,
    )


def _own(key: str, label: str, values: Values, high: float, unit: str) -> Control:
    return _optional(key, label, values, high, unit, "the datasheet's", HARDWARE)


def _objective(key: str, label: str, values: Values, high: float) -> Control:
    return _optional(key, label, values, high, "ms", "none", OBJECTIVES)


def _optional(key: str, label: str, values: Values, high: float, unit: str, zero: str, group: str) -> Control:
    """A number above zero, or none."""
    value = float(values[key])
    return Control(
        key=key,
        label=label,
        kind="number",
        value=value,
        low=0,
        high=max(high, value),
        unit=unit,
        zero=zero,
        help=f"0: {zero}",
        group=group,
    )


def _backends(chosen: str) -> tuple[tuple[str, str], ...]:
    """The engines' kernels, and the chosen one."""
    return _BACKENDS if chosen in dict(_BACKENDS) else (*_BACKENDS, (chosen, chosen))


def _parallel(key: str, label: str, values: Values) -> Control:
    """A number of devices. Sizes that do not work are refused with those that do."""
    sizes = sorted({*_SIZES, int(values[key])})
    return _choice(key, label, [(str(size), str(size)) for size in sizes], values, DEPLOYMENT)


def _choice(key: str, label: str, listed: Sequence[tuple[str, str]], values: Values, group: str) -> Control:
    choices = tuple(Choice(value=value, text=text) for value, text in listed)
    return Control(key=key, label=label, kind="choice", value=str(values[key]), choices=choices, group=group or "Model")


def longest_context(models: Sequence[Model]) -> int:
    """The longest context of any of them."""
    return max(model.max_position_embeddings for model in models)
