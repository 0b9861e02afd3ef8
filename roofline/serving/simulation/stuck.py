"""When nothing can go on, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.errors import RooflineError

if TYPE_CHECKING:
    from roofline.serving.simulation.replica import Replica


class StuckError(RooflineError):
    """Nothing can go on: a fault of a scheduler, or of a room that is too small for it."""

    exit_code = 4


def stuck(replica: Replica) -> StuckError:
    """What stands in the way of whom."""
    if replica.swapped:
        job, needs = replica.swapped[0], replica.blocks_of(replica.swapped[0].computed + 1)
        what = f"request {job.index} is on the host and needs {needs:,} blocks"
    elif replica.waiting:
        job = replica.waiting.first()
        what = f"request {job.index} ({job.target:,} tokens to compute) waits"
    else:
        what = f"the prompt of request {replica.partial[0].index} cannot go on"
    return StuckError(
        f"nothing can go on at {replica.now:.6g} s under {replica.policy.name}: {what}, and nothing runs that would end; "
        f"{replica.free:,} of {replica.blocks:,} blocks are free, {len(replica.running)} of {replica.seats} seats taken, "
        f"{replica.budget:,} tokens a step"
    )
