"""How a step is formed: which prompts, or parts of them, are computed in it, and whether those that decode take part.

A scheduler is one of these with a queue, an admission and a choice of victims. Whatever forms a step without prompts must, as
long as no request arrives or ends and no block is missing, form the same step again: it is done many times at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.serving.simulation.job import Job
    from roofline.serving.simulation.replica import Replica


def mixed(replica: Replica) -> None:
    """Those that run come first: a token of each that decodes, then prompts that were begun. What is left of the budget goes to
    those that wait, unless somebody had to go."""
    replica.decodes = True
    if replica.many:
        grow(replica)
    left = replica.budget - replica.many
    if replica.partial:
        for job in list(replica.partial):
            new = min(job.target - job.computed, left)
            if new <= 0 or job not in replica.running:
                continue
            if not _room_for_chunk(replica, job, new):
                break
            replica.chunks.append((job, new))
            left -= new
    if not replica.evicted:
        if replica.swapped:
            left -= resume(replica)
        admit(replica, left)


def prompts_first(replica: Replica) -> None:
    """A step has prompts alone, or decodes. Nobody is let in while somebody is on the host."""
    replica.decodes = False
    if not replica.swapped:
        admit(replica, replica.budget)
    if replica.chunks:
        return
    replica.decodes = True
    grow(replica)
    if not replica.evicted:
        resume(replica)


def in_batches(replica: Replica) -> None:
    """A batch is let in when the last has ended; its prompts are computed, then it decodes until the longest answer ends."""
    replica.decodes = False
    if not replica.running:
        admit(replica, 0)
    left = replica.budget
    for job in replica.partial:
        if job.target > left and replica.chunks:
            break
        replica.chunks.append((job, job.target))
        left -= job.target


def grow(replica: Replica) -> None:
    """A block for each that decodes and needs one for its next token. Victims go until there are enough."""
    if replica.policy.reserves:
        return
    at = replica.steps % replica.size
    while replica.grow[at] > replica.free:
        replica.evict(replica.policy.victim(replica))
    replica.free -= replica.grow[at]
    replica.granted = True


def _room_for_chunk(replica: Replica, job: Job, new: int) -> bool:
    """Blocks for the next part of a prompt that holds a seat; False where it was itself the one that had to go."""
    short = replica.blocks_of(job.computed + new) - job.blocks
    while short > replica.free:
        victim = replica.policy.victim(replica)
        replica.evict(victim)
        if victim is job:
            return False
    if short > 0:
        replica.free -= short
        job.blocks += short
    return True


def _to_compute(replica: Replica, job: Job) -> int:
    """Tokens of a prompt, less those that are found in the cache."""
    if replica.keeps and job.preemptions:
        replica.find(job)
    return job.target - job.computed


def resume(replica: Replica) -> int:
    """Those on the host come back, first come first, as long as there are seats and blocks; how many."""
    before = len(replica.running)
    while replica.swapped and len(replica.running) < replica.seats:
        job = replica.swapped[0]
        mark = replica.mark if replica.running else 0
        if replica.blocks_of(job.computed + 1) + mark > replica.free:
            break
        replica.resume(job)
    return len(replica.running) - before


def admit(replica: Replica, left: int) -> None:
    """Those that wait, in their order, as long as there are seats, blocks and `left` tokens. Nobody passes another.

    A prompt that may not be cut, and is longer than the budget, gets the step to itself.
    """
    if replica.swapped:
        return
    policy, waiting, running = replica.policy, replica.waiting, replica.running
    while waiting and len(running) + replica.gone < replica.seats:
        job = waiting.first()
        if job.arrived > replica.known:
            return
        new = _to_compute(replica, job)
        if policy.closed:
            new = 0
        elif new > left:
            if policy.chunked:
                new = left
                if new <= 0:
                    return
            elif replica.chunks:
                return
        blocks = policy.admission(replica, job, new)
        needed = replica.blocks_of(job.target) if policy.whole else blocks
        if needed + (replica.mark if running else 0) > replica.free:
            return
        waiting.popleft()
        replica.admit(job, blocks, new)
        left -= new
