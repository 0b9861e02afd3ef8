"""The log is of another card than the hardware that was given, or of a slice of it."""

from __future__ import annotations

from roofline.comparison.case import CACHE, GIB, Case
from roofline.comparison.rows import Row

RANK = 0
QUANTITIES = ("device_bytes", *CACHE)
_OFF = 0.05


def reason(row: Row, case: Case) -> str:
    """Where the memory that the log names is far from the hardware's."""
    device = case.row("device_bytes")
    if device is None or device.within or device.ratio is None or abs(device.ratio - 1) < _OFF:
        return ""
    name = case.request.hardware.accelerator.name
    if case.log is not None and case.log.engine == "sglang" and device.ratio > 1:
        return f"{device.measured / GIB:.1f} GiB were free at the start: other processes held memory, or it is no {name}"
    return f"the log's device has {device.measured / GIB:.1f} GiB: it is no {name}, or a slice of one"
