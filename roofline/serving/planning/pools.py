"""Prompts and answers on servers of their own (disaggregated prefill and decode), and the cache that moves between them.

A prompt is computed by one pool, its keys and values are sent to the other, and the answer is decoded there: neither waits
for the other's steps. The first token is counted when the cache has arrived: kv bytes of the prompt over the links of the
devices of a replica, each of which sends its part. Sending keeps no step busy.

Source: Splitwise, arXiv:2311.18677, section 4; DistServe, arXiv:2401.09670, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.predict.request import Request
from roofline.serving.planning.load import Load
from roofline.specs.hardware import Hardware

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def way(hardware: Hardware) -> tuple[str, float] | None:
    """What caches move over, and its bytes a second of one device: the network of a node, else its link to the host."""
    if hardware.node is not None and hardware.node.network is not None:
        link = hardware.node.network
        return f"{link.name} between nodes", link.per_direction.value
    host = (hardware.node.host_link if hardware.node is not None else None) or hardware.accelerator.host_link
    return None if host is None else (f"{host.name}, the link to the host", host.per_direction.value)


def transfer_s(request: Request, load: Load, rate: float) -> tuple[Array, ...]:
    """Seconds in which the cache of each prompt of each class is sent, (K,): a device's part of it over its link."""
    import numpy as np

    found = []
    for service in load.services:
        lengths = np.unique(service.mix.prompts)
        size = [max(float(stage.kv_bytes(int(length), allocated=False)) + stage.state_bytes(allocated=False)
                    for stage in request.memory.stages) for length in _points(lengths)]  # fmt: skip
        found.append(np.interp(service.mix.prompts, _points(lengths), size) / rate)
    return tuple(found)


def _points(lengths: Array) -> Array:
    """Some of the lengths, with both ends."""
    import numpy as np

    return np.asarray(lengths[np.unique(np.linspace(0, len(lengths) - 1, 12).round().astype(int))])
