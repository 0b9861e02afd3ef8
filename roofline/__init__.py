"""roofline: how fast, how big and how expensive an LLM is on given hardware, and why.

>>> import roofline
>>> roofline.analyze("llama-3.1-8b", "a100-sxm-80gb", context=4095).decode.cost.matrix_flops
17156800512
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from roofline import errors, registry
from roofline.documents import __version__

if TYPE_CHECKING:
    from roofline.blocks.model import Model
    from roofline.predict.analyze import analyze
    from roofline.predict.compiled import compile
    from roofline.predict.explain.explain import explain
    from roofline.predict.limits import limits
    from roofline.predict.op import op
    from roofline.predict.sweeps import sweep
    from roofline.report.figures import figure
    from roofline.serving.planning.plan import plan
    from roofline.serving.preemption.preempt import preempt
    from roofline.serving.simulation.simulate import simulate
    from roofline.serving.study import study
    from roofline.specs.hardware import Hardware

_LAZY = {
    "analyze": "roofline.predict.analyze",
    "compile": "roofline.predict.compiled",
    "plan": "roofline.serving.planning.plan",
    "preempt": "roofline.serving.preemption.preempt",
    "simulate": "roofline.serving.simulation.simulate",
    "study": "roofline.serving.study",
    "explain": "roofline.predict.explain",
    "figure": "roofline.report.figures",
    "limits": "roofline.predict.limits",
    "op": "roofline.predict.op",
    "sweep": "roofline.predict.sweeps",
    "Model": "roofline.blocks.model",
    "Hardware": "roofline.specs.hardware",
}

__all__ = [
    "Hardware", "Model", "__version__", "analyze", "compile", "errors", "explain", "figure", "limits", "load_hardware",
    "load_model", "op", "plan", "preempt", "simulate", "study", "sweep", "torch",
]  # fmt: skip


def load_model(name: str | PathLike[str], assume: str | None = None) -> Model:
    """Read a model from its file.

    Args:
        name: a shipped id, or the path of a YAML file or of a Hugging Face `config.json`.
        assume: the model type as which a `config.json` of an unknown family is read; None: its own.

    Raises:
        roofline.errors.UnknownNameError: no model has that name.
        roofline.errors.SpecError: the file cannot be read, or a key or value in it is wrong.
    """
    from roofline.blocks.model_files import load_model

    return load_model(name, assume)[0]


def load_hardware(name: str | PathLike[str]) -> Hardware:
    """Read an accelerator or node from its file.

    Args:
        name: a shipped id, an alias, or the path of a YAML file.

    Raises:
        roofline.errors.UnknownNameError: no hardware has that name.
        roofline.errors.AmbiguousNameError: the name is the beginning of several.
        roofline.errors.SpecError: the file cannot be read, or a key or value in it is wrong.
    """
    from roofline.specs.library import load_hardware

    return load_hardware(name)[0]


def _renderer() -> registry.Renderer:
    from roofline.report import html

    return html


def _figure_renderer() -> registry.FigureRenderer:
    from roofline.report.figures import figure

    return figure


registry.RENDERER.provide(_renderer)
registry.FIGURE.provide(_figure_renderer)


def __getattr__(name: str) -> Any:
    # Public names are looked up when they are first used, so that `import roofline` costs next to nothing.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    if name == "torch":
        import importlib

        return importlib.import_module("roofline.torch")
    msg = f"module 'roofline' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, "torch"})
