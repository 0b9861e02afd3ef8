"""What a replica keeps as sums, counted anew: done after every step where every step is done on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.serving.simulation.replica import Replica


def audit(replica: Replica) -> None:
    """Count the tokens and the blocks of every sequence, and compare.

    Raises:
        AssertionError: what is kept is not what there is.
    """
    decoding = [job for job in replica.running if job.done_at >= 0]
    cached = sum([job.base + replica.steps for job in decoding])
    if replica.policy.reserves:
        taken = sum([job.blocks for job in replica.running]) + replica.held
    else:
        now = 1 if replica.decodes or not replica.chunks else 0  # the token of the step that is planned
        taken = sum([replica.blocks_of(job.base + replica.steps + now) for job in decoding])
        taken += sum([job.blocks for job in replica.partial]) + replica.soon
    if (len(decoding), cached, taken) != (replica.many, replica.cached, replica.blocks - replica.free):
        counted = f"{len(decoding)} decode with {cached} tokens cached, and {taken} blocks are taken"
        kept = f"{replica.many}, {replica.cached} and {replica.blocks - replica.free} are kept"
        raise AssertionError(f"at {replica.now} s under {replica.policy.name} {counted}; {kept}")
