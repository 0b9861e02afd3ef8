"""The memory of a device as a process sees it: less than the driver reports, for the driver keeps some for itself.

`cudaMemGetInfo`, which engines ask, gives some 0.5 GiB less than `nvidia-smi`: what firmware, page tables and error
correction take. It grows a little with the capacity.

Source: totals in public logs beside the capacity that the driver reports: vLLM issue 7553 and pull request 10511 (24564
and 81559 MiB), and others of the cards L4, RTX 3090, RTX 5090, A100, H200; they differ by 330 to 870 MiB.
"""

from __future__ import annotations

from roofline.audit.engine_logs.budgets.base import GIB, Part
from roofline.specs.hardware import Hardware

_MIB = 2**20
# Of the NVIDIA cards above: a part that all have and a share of the capacity, and likewise the room for error.
KEPT, KEPT_SHARE = 450 * _MIB, 0.0015
ROOM, ROOM_SHARE = 0.1 * GIB, 0.004


def seen(hardware: Hardware) -> Part:
    """Bytes of a device that a process can ask for. A capacity that the user gave is taken as it is."""
    reported = hardware.memory_bytes
    room = ROOM + ROOM_SHARE * reported
    if "memory_bytes" in hardware.overrides:
        return Part.around("device", reported, 0.0, "given")
    if hardware.accelerator.vendor != "nvidia":
        return Part("device", reported, reported - room, reported, "as reported: what the driver keeps is not known")
    return Part.around("device", reported - KEPT - KEPT_SHARE * reported, room, "as reported, less what the driver keeps")
