"""Devices: what they are called, and how a call is timed on them."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.measure.bench.devices.base import Device


def best() -> str:
    """The device to measure where none was named: a CUDA device if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device(name: str) -> Device:
    """The device of that name: cuda (the first one) or cpu."""
    if name == "cpu":
        from roofline.measure.bench.devices.cpu import Cpu

        return Cpu()
    if name == "cuda":
        import torch

        if not torch.cuda.is_available():
            msg = "--device cuda: torch sees no CUDA device here (or is a build without CUDA); --device cpu works everywhere"
            raise InputError(msg)
        from roofline.measure.bench.devices.cuda import Cuda

        return Cuda()
    msg = f"--device must be cuda or cpu, not {name!r}"
    raise InputError(msg)
