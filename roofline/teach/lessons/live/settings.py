"""The controls that lessons choose from, by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roofline.blocks.model_files import load_model
from roofline.errors import UnknownNameError
from roofline.report.controls import Choice, Control
from roofline.specs.library import load_hardware
from roofline.teach.lessons.live.evicted import LINK

Values = dict[str, Any]
_OWN = ("0", "the model's own")
_MOST_BATCH, _MOST_TOKENS = 4096.0, 131072.0
_LOAD, _SHAPE, _MACHINE = "Load", "Model", "Hardware"


def controls(keys: Sequence[str], values: Values, models: Sequence[str], hardware: Sequence[str]) -> tuple[Control, ...]:
    """Controls in the order in which they are named. `values` are what they are set to at first.

    Raises:
        UnknownNameError: there is no such control.
    """
    made: dict[str, Callable[[Any], Control]] = {
        "model": lambda value: _choice("model", "Model", value, [(name, load_model(name)[0].title) for name in models], _SHAPE),
        "hardware": lambda value: _choice(
            "hardware", "Hardware", value, [(name, load_hardware(name)[0].title) for name in hardware], _MACHINE
        ),
        **_FIXED,
    }
    for key in keys:
        if key not in made:
            raise UnknownNameError("control", key, made, list_all=True)
    return tuple(made[key](values[key]) for key in keys)


def first_values(keys: Sequence[str], given: Values) -> Values:
    """What each control is set to at first: what is given, or what leaves the model as it is."""
    return {**{key: _FIRST[key] for key in keys if key in _FIRST}, **given}


def _choice(key: str, label: str, value: str, listed: Sequence[tuple[str, str]], group: str, help: str = "") -> Control:
    choices = tuple(Choice(value=name, text=text) for name, text in listed)
    return Control(key=key, label=label, kind="choice", value=str(value), choices=choices, group=group, help=help)


def _count(key: str, label: str, unit: str, high: float, help: str, low: float = 1) -> Callable[[float], Control]:
    return lambda value: Control(
        key=key,
        label=label,
        kind="number",
        value=value,
        low=low,
        high=high,
        step=1,
        log=low > 0,
        unit=unit,
        help=help,
        group=_LOAD,
    )


def _rate(key: str, label: str, high: float, unit: str) -> Callable[[float], Control]:
    return lambda value: Control(
        key=key, label=label, kind="number", value=value, low=0, high=high, unit=unit, zero="the datasheet's",
        help="0: the datasheet's", group=_MACHINE,
    )  # fmt: skip


def _powers(*counts: int) -> list[tuple[str, str]]:
    return [_OWN, *((str(count), f"{count:,}") for count in counts)]


_FIXED: dict[str, Callable[[Any], Control]] = {
    "batch": _count("batch", "Batch", "sequences", _MOST_BATCH, "sequences in one step"),
    "context": _count("context", "Context", "tokens", _MOST_TOKENS, "cached before a decode step"),
    "input_len": _count("input_len", "Prompt", "tokens", _MOST_TOKENS, "of each sequence, nothing cached"),
    "answer": _count("answer", "Answer", "tokens", 16384, "of each request", low=2),
    "price": lambda value: Control(
        key="price", label="Price", kind="number", value=value, low=0, high=100, unit="USD/h", help="of a device",
        group=_MACHINE,
    ),
    "attention": lambda value: _choice(
        "attention", "Attention", value, [("", _OWN[1]), ("mla", "latent (MLA)")], _SHAPE,
        "latent: in the place of heads of K and V",
    ),
    "kv_heads": lambda value: _choice(
        "kv_heads", "KV heads", value, _powers(1, 2, 4, 8, 16, 32, 64), _SHAPE, "must divide query heads"
    ),
    "heads": lambda value: _choice("heads", "Query heads", value, _powers(8, 16, 32, 64, 128), _SHAPE),
    "window": lambda value: _choice(
        "window", "Sliding window", value, [_OWN, ("-1", "none"), *_powers(512, 1024, 2048, 4096, 8192)[1:]], _SHAPE,
        "tokens; has no effect on latent attention",
    ),
    "latent": lambda value: _choice(
        "latent", "Latent size", value, _powers(128, 256, 512, 1024, 2048), _SHAPE,
        "elements a token and layer, of latent attention",
    ),
    "layers": lambda value: _choice("layers", "Layers", value, _powers(1, 2, 4, 8, 16, 32, 64, 128), _SHAPE),
    "d_model": lambda value: _choice("d_model", "Hidden size", value, _powers(1024, 2048, 4096, 8192, 16384), _SHAPE),
    "d_ff": lambda value: _choice("d_ff", "Width of the MLP", value, _powers(3584, 7168, 11008, 14336, 28672, 57344), _SHAPE),
    "experts": lambda value: _choice("experts", "Experts", value, _powers(4, 8, 16, 32, 64, 128, 256), _SHAPE, "of a layer"),
    "top_k": lambda value: _choice("top_k", "Experts of a token", value, _powers(1, 2, 4, 8, 16), _SHAPE),
    "vocab": lambda value: _choice("vocab", "Vocabulary", value, _powers(32000, 64128, 128256, 256000), _SHAPE),
    "bandwidth_gbs": _rate("bandwidth_gbs", "Bandwidth", 20_000, "GB/s"),
    "peak_tflops": _rate("peak_tflops", "Peak", 20_000, "TFLOP/s"),
    "memory_gb": _rate("memory_gb", "Memory", 2_000, "GB"),
    "weights": lambda value: _choice(
        "weights", "Weights", value, [("", "as published"), ("fp8", "fp8"), ("awq", "int4 (AWQ)")], _SHAPE
    ),
    "kv": lambda value: _choice("kv", "KV cache", value, [("", "as activations"), ("fp8", "fp8")], _SHAPE),
    "tp": lambda value: _choice("tp", "Tensor parallel", value, [(str(n), str(n)) for n in (1, 2, 4, 8)], _MACHINE, "devices"),
    "link_gbs": lambda value: Control(
        key="link_gbs", label="Link to the host", kind="number", value=value, low=1, high=500, log=True, unit="GB/s",
        help="what large copies reach, one way", group=_MACHINE,
    ),
    "block": lambda value: _choice(
        "block", "Copies", value,
        [*((str(count), f"by blocks of {count} tokens") for count in (8, 16, 32, 64, 128)), ("0", "in one call each way")],
        _MACHINE,
    ),
    "efficiency": lambda value: Control(
        key="efficiency", label="Measured efficiency", kind="switch", value=value, group=_MACHINE,
        help="off: the bound alone, from the datasheet",
    ),
}  # fmt: skip
_FIRST: Values = {
    "batch": 1, "context": 4095, "input_len": 1000, "attention": "", "kv_heads": "0", "heads": "0", "window": "0",
    "latent": "0", "layers": "0", "d_model": "0", "d_ff": "0", "vocab": "0",
    "experts": "0", "top_k": "0", "bandwidth_gbs": 0, "peak_tflops": 0,
    "memory_gb": 0, "weights": "", "kv": "", "tp": "1", "efficiency": False,
    "link_gbs": LINK, "block": "16", "answer": 256, "price": 2.0,
}  # fmt: skip
