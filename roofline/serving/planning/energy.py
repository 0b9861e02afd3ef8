"""Power and energy of accelerators, at most.

NB: from TDP, as if each drew all that it may all the time. A step that waits for memory draws less, an idle accelerator a
fraction; nothing here was measured, and hosts, switches and storage are not in it.
"""

from __future__ import annotations

from roofline.specs.hardware import Hardware

PUE = 1.3
"""Energy of the building over that of its machines, where nobody says it. Between the 1.1 that the largest operators report of
theirs and the 1.56 that the Uptime Institute's survey of 2024 finds on average."""


def watts(hardware: Hardware, devices: int = 1) -> float | None:
    """TDP of so many accelerators, W; None where the file of the hardware has no `power`."""
    power = hardware.accelerator.power
    return None if power is None else power.value * devices


def energy(hardware: Hardware, devices: int, seconds: float, pue: float = 1.0) -> float | None:
    """Joules that so many accelerators draw at most in so many seconds: TDP x devices x seconds x PUE.

    Args:
        hardware: the accelerator, or a node of it.
        devices: accelerators.
        seconds: how long.
        pue: energy of the building over that of its machines; 1: of the accelerators alone.

    Returns:
        J; None where the file of the hardware has no `power`.
    """
    drawn = watts(hardware, devices)
    return None if drawn is None else drawn * seconds * pue
