"""A roofline for code that has no model file: what a PyTorch module or function costs, operator by operator.

`count` runs it on tensors without data and without memory; `profile` measures a real run and reads the trace.

>>> import roofline
>>> import torch
>>> layer = torch.nn.Linear(4096, 4096, bias=False, device="meta", dtype=torch.bfloat16)
>>> result = roofline.torch.count(layer, torch.empty(8, 4096, device="meta", dtype=torch.bfloat16))
>>> result.cost.matrix_flops  # 2*8*4096*4096
268435456
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from roofline.errors import InputError, MissingExtraError
from roofline.specs.hardware import Hardware
from roofline.specs.library import load_hardware
from roofline.torch.result import CountedOperator, CountResult, TensorSpec, counted_result

if TYPE_CHECKING:
    from roofline.measure.profile.profile import Profile

__all__ = ["CountResult", "CountedOperator", "TensorSpec", "count", "profile"]


def count(
    module: Callable[..., Any],
    inputs: Any,
    *,
    hardware: str | PathLike[str] | Hardware | None = None,
    fake: bool = True,
) -> CountResult:
    """Count what a PyTorch module or function does: FLOP and bytes of each operator, and its bound on hardware.

    It is called once, under `torch.inference_mode`, with tensors that have shapes and no data: a module on the meta device, or
    with weights, takes no memory and no time on a device. Each operator that PyTorch dispatches is counted as one kernel.

    FLOP are those of `torch.utils.flop_counter`: matrix products, convolutions and attention, whose products are counted whole
    under a causal mask too. Operators that have a formula of yours (`register_flop_formula`) are counted by it. A kernel reads
    each of its inputs once and writes its outputs once; views move nothing; a broadcast tensor has its own size; an embedding
    reads the rows that it looks up, and at most the table. SDPA (which does not write its scores) and `rms_norm` are one kernel
    each, as on accelerators.

    Args:
        module: a `torch.nn.Module`, or any function of tensors.
        inputs: one tensor, a sequence of positional arguments, or a mapping of keyword arguments; tensors on any device, on
            the meta device among them. State of Python objects among them (a cache) changes as in any call.
        hardware: a shipped id, the path of a file, or loaded hardware: adds times. None: counts alone.
        fake: False runs it for real instead, on the data that there is, for code whose control flow depends on data.

    Returns:
        Operators with module paths such as `layers.0.self_attn`, totals, what was not counted and, with hardware, bounds.

    Raises:
        MissingExtraError: PyTorch is not installed.
        InputError: the module raises, or decides by the values of tensors; the message names the operator or module.
        UnknownNameError: no hardware has that name.
    """
    _need_torch("counting a PyTorch module")
    from roofline.torch.counting import run

    device = hardware if isinstance(hardware, Hardware) or hardware is None else load_hardware(hardware)[0]
    return counted_result(run(module, inputs, fake=fake), device)


class profile:  # noqa: N801 - a context manager, named as torch.profiler.profile is
    """Measure a block of code with torch.profiler, and read the trace as `roofline profile` does.

        with roofline.torch.profile(model="llama-3.1-8b", hardware="h100-sxm") as p:
            model.generate(...)
        print(p.result)

    Args:
        model: what ran, a shipped id or a path; None: operators alone are known.
        hardware: where it ran, a shipped id or a path; None: by the name of the device in the trace.
        trace: a path, `.json` or `.json.gz`, where the trace is kept; None: it is deleted once it is read.
        options: of `roofline profile`.

    Raises:
        MissingExtraError: PyTorch is not installed.
    """

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        hardware: str | PathLike[str] | None = None,
        *,
        trace: str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        _need_torch("profiling PyTorch")
        self._options: dict[str, Any] = {"model": model, "hardware": hardware, **options}
        self._path = None if trace is None else Path(trace)
        self._profiler: Any = None
        self._result: Profile | None = None

    @property
    def result(self) -> Profile:
        """What `roofline profile` gives for the trace.

        Raises:
            InputError: the block has not ended, or it raised.
        """
        if self._result is None:
            raise InputError("profile has no result: the block has not ended, or it raised")
        return self._result

    def __enter__(self) -> Self:
        from torch import profiler

        self._profiler = profiler.profile(record_shapes=True)
        self._profiler.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        # What is still running on a device belongs to the block.
        from torch import accelerator

        if error is None and accelerator.is_available():
            accelerator.synchronize()
        self._profiler.__exit__(kind, error, traceback)
        if error is not None:
            return
        if self._path is not None:
            self._result = self._read(self._path)
            return
        with tempfile.TemporaryDirectory() as folder:
            self._result = self._read(Path(folder) / "trace.json.gz")

    def _read(self, path: Path) -> Profile:
        self._profiler.export_chrome_trace(str(path))
        from roofline.measure.profile.profile import profile as read

        return read(path, **self._options)


def _need_torch(what: str) -> None:
    # NB: an entry of None in sys.modules is how a test takes a library away
    if ("torch" in sys.modules and sys.modules["torch"] is None) or importlib.util.find_spec("torch") is None:
        raise MissingExtraError(what, "torch")
