"""What a replica of a deployment holds: the blocks that an engine makes of the memory that is left, its seats, its tokens a
step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline import formatting
from roofline.errors import InputError, RooflineError
from roofline.predict.memory import StageMemory
from roofline.predict.request import Request
from roofline.serving.simulation.schedulers.base import Scheduler
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment
from roofline.units import parse_count

SEATS = 256
"""vLLM's `max_num_seqs` where nobody says another (its server has 1,024 on GPUs of 70 GiB and more)."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a replica holds: blocks of so many tokens, `own` of them to every sequence beside its tokens; requests that run at a
    time; new tokens a step. `keeps`: with prefix caching a preempted request finds those of its blocks that nobody has taken
    meanwhile."""

    blocks: int
    block_size: int
    seats: int
    budget: int
    own: int = 0
    keeps: bool = False


class NoRoomError(RooflineError):
    """Not one block: the model does not run there."""


def longest(request: Request) -> int:
    """The most tokens of a sequence, prompt and answer."""
    return request.deployment.max_model_len or request.model.max_position_embeddings


def room(request: Request, scheduler: Scheduler, notes: list[Assumption], override: Any = None, *, keeps: bool = False) -> Room:
    """Of the stage with the fewest blocks. Activations are those of the largest step, as engines measure them before they
    start.

    Where all layers keep all tokens a block is the engine's. Else it is as many bytes of the layers that keep all tokens, and
    what a sequence has beside them (a state; the blocks of a window once it is full) counts as `own` blocks from its first
    token, which is more than a short sequence takes.

    `override` is vLLM's `--num-gpu-blocks-override`: so many blocks in place of those, such as an engine's log has. `keeps`:
    see `Room`.

    Raises:
        NoRoomError: not one block.
        InputError: more blocks than the memory holds beside the weights; fewer tokens a step than seats.
    """
    deployment = request.deployment
    seats = deployment.max_num_seqs or SEATS
    if deployment.max_num_seqs is None:
        notes.append(Assumption("max_num_seqs", SEATS, "assumed", "requests that run at a time; engines have 256 to 1,024"))
    lanes = deployment.pipeline_parallel_size
    budget = deployment.max_num_batched_tokens or scheduler.budget or request.memory.max_num_batched_tokens
    if deployment.max_num_batched_tokens is None and scheduler.budget is not None:
        notes.append(Assumption("budget", budget, "default", f"new tokens a step, of the scheduler {scheduler.name}"))
    if budget < seats:
        msg = f"--max-num-batched-tokens {budget:,} is less than the {seats:,} sequences that may run (--max-num-seqs)"
        raise InputError(f"{msg}: each of them takes a token a step")
    step = (Segment(1, min(budget, longest(request)), 0),)
    found = [_blocks(stage, stage.usable_bytes(step), longest(request)) for stage in request.memory.stages]
    blocks, size, own = min(found)
    if blocks < 1:
        least = min(stage.usable_bytes(step) for stage in request.memory.stages)
        left = f"{formatting.binary(max(least, 0))} are left for the KV cache" if least > 0 else "the weights alone do not fit"
        raise NoRoomError(
            f"{request.model.name} does not run on {request.hardware.name}: {left}; roofline analyze says what would fit"
        )
    if override is not None:
        beside = [_blocks(stage, stage.capacity - stage.weights_bytes, longest(request)) for stage in request.memory.stages]
        blocks = _override(override, min(beside)[0], size)
        notes.append(Assumption("blocks", blocks, "given", f"of {size} tokens, in a replica"))
    elif own:
        why = f"of {size} tokens, {own} of them for what a sequence has beside its tokens (state, full windows)"
        notes.append(Assumption("blocks", blocks, "assumed", why))
    else:
        notes.append(Assumption("blocks", blocks, "default", f"of {size} tokens, in a replica"))
    return Room(blocks, size, seats, budget * lanes, own, keeps=keeps)


def _override(override: Any, most: int, size: int) -> int:
    """So many blocks as are asked for; `most` fill the memory beside the weights."""
    wanted = parse_count(override, "--num-gpu-blocks-override", minimum=1)
    if wanted > most:
        raise InputError(
            f"--num-gpu-blocks-override {wanted:,}: beside the weights there is room for {most:,} blocks of {size} tokens"
        )
    return wanted


def _blocks(stage: StageMemory, usable: float, most: int) -> tuple[int, int, int]:
    """How many, tokens in each, and how many a sequence has beside its tokens."""
    layout = stage.layout
    growing = [kind for kind in layout.kinds if kind.window is kind.chunk is None]
    others = [kind for kind in layout.kinds if kind not in growing]
    # a window or chunk, once it is full, on the way to a step of one token
    fixed = layout.state_bytes + sum(kind.blocks(most, 1) * kind.block_bytes for kind in others)
    if not growing:  # a sequence takes the same, however long it is: one block holds it
        return int(usable // fixed) if fixed else 2**40, most, 0
    size = growing[0].block * (growing[0].ratio or 1)
    block = sum(kind.block_bytes * size / (kind.block * (kind.ratio or 1)) for kind in growing)
    return int(usable // block), size, -int(-fixed // block)
