"""SGLang: what is free when it starts, times `mem_fraction_static`, less what loading the weights took.

Activations and CUDA graphs live in the rest, which the fraction leaves.

Source: SGLang, python/sglang/srt/model_executor/model_runner.py, profile_max_num_token.
"""

from __future__ import annotations

from roofline.audit.engine_logs.budgets.base import GIB, Budget, Part
from roofline.audit.engine_logs.budgets.device import seen
from roofline.predict.memory import StageMemory
from roofline.predict.request import Request

CONTEXT, CONTEXT_ROOM = 0.5 * GIB, 0.4 * GIB
"""The CUDA context and the process groups, which are there before it looks at what is free."""
OTHER, OTHER_ROOM = 0.3 * GIB, 0.4 * GIB
"""What loading takes beside the weights: workspaces of libraries, tables of positions."""


def budget(request: Request, part: StageMemory, release: tuple[int, ...] | None, *, eager: bool) -> Budget:
    """The budget on a device of a pipeline stage; neither version nor graphs matter."""
    device = seen(request.hardware)
    room = (CONTEXT_ROOM**2 + (device.size - device.low) ** 2) ** 0.5
    free = Part.around("free at the start", device.size - CONTEXT, room, device.why)
    taken = [Part.around("weights", part.weights_bytes, 0.0), Part.around("other", OTHER, OTHER_ROOM)]
    if request.deployment.reserve:
        taken.append(Part.around("reserve", request.deployment.reserve, 0.0))
    return Budget(part.utilization, free, tuple(taken))
