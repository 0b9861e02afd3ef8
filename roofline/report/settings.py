"""The controls of a page, and what they are set to at first."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.blocks.model import Model
from roofline.report.controls import Choice, Control
from roofline.report.view.state import Values

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
    found = [_choice("model", "Model", models, values, "")] if len(models) > 1 else []
    found += [
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
    return tuple(found)


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


def _backends(asked: str) -> tuple[tuple[str, str], ...]:
    """The engines' kernels, and others where those were asked for."""
    return _BACKENDS if asked in dict(_BACKENDS) else (*_BACKENDS, (asked, asked))


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
