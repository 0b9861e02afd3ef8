"""`preempt`: an evicted sequence of some length on one deployment: recompute its cache, or swap it out and in."""

from __future__ import annotations

from os import PathLike
from typing import Any

from roofline import formatting
from roofline.blocks.model import Model
from roofline.errors import InputError
from roofline.graph.build import build
from roofline.predict import assumptions
from roofline.predict.analyze import facts, run
from roofline.predict.efficiency.kernels import Kernel, kernels
from roofline.predict.request import prepare
from roofline.serving.preemption import curves
from roofline.serving.preemption.break_even import asymptote, exact_link
from roofline.serving.preemption.preemption import Choice, Preemption, devices
from roofline.serving.preemption.recompute import Recompute, Recomputed
from roofline.serving.preemption.result import Answer, Asked, HostRoom, Preempted, Stolen, Swapped
from roofline.serving.preemption.to_host import to_host
from roofline.serving.preemption.variants import variants
from roofline.serving.queueing.replica import BOUND
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption
from roofline.specs.workload import Segment
from roofline.units import parse_count

# Options of `analyze` that say what is run: here it is a sequence of so many tokens.
_WORKLOAD = ("input_len", "output_len", "segments", "phase")
_SPECULATIVE = "speculative_"


def preempt(
    model: str | PathLike[str] | Model,
    hardware: str | PathLike[str] | Hardware,
    *,
    tokens: int | str,
    host_link: str | float | None = None,
    pinned: bool = True,
    coalesced: bool = False,
    overlapped: bool = False,
    gpus_per_link: int | str = 1,
    host_memory: str | float | None = None,
    batch: int | str = 0,
    context: int | str | None = None,
    ignore_capacity: bool = False,
    **options: Any,
) -> Preempted:
    """What bringing back an evicted sequence costs: recomputed, swapped out and in, or both at once.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        hardware: a shipped id of an accelerator or node, the path of a file, or loaded hardware.
        tokens: of the sequence whose cache is evicted; with `shared_prefix` those after the prefix, which stays.
        host_link: bytes/s that large copies reach over the link to the host in one direction, or a text with a unit; default:
            as fitted to records, else a typical share of the link's rate.
        pinned: whether the host's memory is page-locked.
        coalesced: blocks are gathered and cross in one call each way, not in one a block, layer and tensor.
        overlapped: copies run beside the kernels of others, who lose the device memory's time alone.
        gpus_per_link: devices behind one link to the host; those of a replica copy at the same time.
        host_memory: for the evicted sequences of a replica, bytes or a text with a unit; default: its share of the node's.
        batch: sequences of the whole deployment that run while this one is recomputed; 0: it has the device for itself.
        context: cached tokens of each of these; default: as many as the evicted sequence has.
        ignore_capacity: times also where the sequence does not fit on the device.
        **options: those of `roofline analyze` that describe the deployment, with underscores; `block_size` among them.

    Returns:
        The result, in base units; `.to_dict()` has the layout of `roofline preempt --json`.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a file that is not what it should be.
    """
    for name, value in options.items():
        if value not in (None, False) and (name in _WORKLOAD or name.startswith(_SPECULATIVE)):
            what = "drafts are not part of it" if name.startswith(_SPECULATIVE) else "--tokens says how long the sequence is"
            raise InputError(f"{name} is no option of preempt: {what}")
    number, beside = parse_count(tokens, "tokens", minimum=1), parse_count(batch, "batch")
    said = to_host(
        host_link=host_link, pinned=pinned, coalesced=coalesced, gpus_per_link=gpus_per_link, host_memory=host_memory
    )
    prefix = parse_count(options.get("shared_prefix") or 0, "shared-prefix")
    if context is not None and not beside:
        raise InputError("--context is of the sequences that run beside: say how many with --batch")
    reached = parse_count(context, "context", minimum=prefix) if context is not None else prefix + number
    # The decode step with which the sequence goes on: checked against the limits of deployment and model, and has to fit.
    request = prepare(model, hardware, **{**options, "context": prefix + number - 1, "batch": 1, "phase": "decode"})
    asked = Asked(
        number, prefix, beside, reached, request.memory.block_size, pinned, coalesced, overlapped,
        min(said.gpus_per_link, devices(request)),
    )  # fmt: skip
    costs = Preemption.of(request, **said.options, batch=beside, context=reached)
    fits = request.all_fit()
    found = _answer(costs, asked, said.host_link) if fits or ignore_capacity else None
    used = (*request.inputs, *request.estimator.fits.inputs.values(), *costs.swap.copies.inputs)
    return Preempted(
        inputs={entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in used},
        **facts(request),
        asked=asked,
        basis=costs.recompute.basis,
        answer=found,
        assumptions=(*_assumptions(costs, asked, said.host_memory), *_stands_on(costs, asked)),
        unfit=None if fits else run(request),
    )


def _answer(costs: Preemption, asked: Asked, host_link: float | None) -> Answer:
    """Everything that has a time."""
    tokens, request = asked.tokens, costs.request
    recompute = costs.recompute.answer(tokens)
    alone = Recompute(request, prefix=asked.prefix).answer(tokens) if asked.batch else recompute
    swap = _swapped(costs, tokens)
    host = HostRoom(costs.host_bytes(tokens), costs.host_memory)
    choice = Choice(recompute.seconds, swap.out_s, swap.in_s, fits=host.fits)
    return Answer(
        recompute=recompute,
        alone=alone,
        swap=swap,
        cheaper=choice.cheaper,
        break_even_link=exact_link(costs.swap, recompute.seconds, tokens, asked.prefix),
        asymptote=asymptote(request, recompute.seconds, tokens, costs.swap.share),
        crossover_tokens=tuple(curves.crossover_tokens(costs, tokens)),
        crossover_block_size=curves.crossover_block(costs, tokens, recompute.seconds),
        partial=curves.split(costs, tokens, hidden=asked.overlapped),
        stolen=_stolen(costs, asked, recompute, swap),
        host=host,
        variants=tuple(variants(costs, tokens, recompute.seconds, pinned=asked.pinned, host_link=host_link)),
        curves=tuple(curves.points(costs, curves.lengths(costs, tokens), hidden=asked.overlapped)),
        heat=curves.heat(costs, tokens),
    )


def _swapped(costs: Preemption, tokens: int) -> Swapped:
    """The copies, of the device that has most to copy."""
    swap, prefix = costs.swap, costs.prefix
    out, back = costs.swap_seconds(tokens)
    ends = [sum(map(float, swap.seconds(tokens, prefix, ways))) for ways in (swap.copies.quick, swap.copies.slow)]
    fullest = max(swap.stages, key=lambda stage: float(stage.bytes(tokens, prefix)))
    size, calls = float(fullest.bytes(tokens, prefix)), round(float(swap.calls(fullest, tokens, prefix)))
    ways = swap.copies.ways
    return Swapped(
        out_s=out,
        in_s=back,
        low_s=max(ends[0], float(swap.bound(tokens, prefix))),
        high_s=ends[1],
        bound_s=float(swap.bound(tokens, prefix)),
        bytes=size,
        calls=calls,
        chunk_bytes=size / calls if swap.coalesced else fullest.chunk or size / calls,
        link=ways.rate * swap.share,
        attained=2 * size / (out + back),
        curve=((ways.out.call + ways.back.call) / 2, ways.rate),
        basis=swap.copies.basis,
    )


def _stolen(costs: Preemption, asked: Asked, recompute: Recomputed, swap: Swapped) -> Stolen:
    """What others lose. Copies that are not overlapped hold up the device, as vLLM's did at first."""
    lost = float(costs.swap.beside(asked.tokens, asked.prefix)) if asked.overlapped else swap.seconds
    if not asked.batch:
        return Stolen(recompute.seconds, lost, None, None)
    step = costs.recompute.alone[costs.recompute.basis]
    return Stolen(recompute.seconds, lost, asked.batch * recompute.seconds / step, asked.batch * lost / step)


def _assumptions(costs: Preemption, asked: Asked, host_memory: float | None) -> list[Assumption]:
    """The choices of the request that matter here, and those of the question."""
    request = costs.request
    found = [note for note in request.assumptions if note.name not in ("batch", "input_len", "context")]
    found.append(Assumption("tokens", asked.tokens, "given", "of the evicted sequence"))
    if asked.prefix:
        found.append(Assumption("kept_tokens", asked.prefix, "given", "the shared prefix stays on the device"))
    why = f"chunks of at most {costs.recompute.budget:,} tokens, one after the other through all stages"
    if asked.batch:
        why += f", beside {asked.batch:,} sequences of {asked.context:,} cached tokens: what they add to its steps"
    found.append(
        Assumption("recompute", "beside a batch" if asked.batch else "alone", "given" if asked.batch else "default", why)
    )
    way = "one call each way, blocks gathered before" if asked.coalesced else "a call a block, layer and tensor (K, V), in turn"
    found.append(Assumption("copies", "coalesced" if asked.coalesced else "block by block", "default", way))
    if asked.gpus_per_link > 1:
        why = "devices of a replica that copy over one link at the same time, each as much as the fullest"
        found.append(Assumption("gpus_per_link", asked.gpus_per_link, "given", why))
    if host_memory is not None:
        found.append(Assumption("host_memory", host_memory, "given", "bytes for evicted sequences of a replica"))
    elif costs.host_memory is not None:
        why = f"{formatting.binary(costs.host_memory)}: the node's, by the replica's share of its accelerators, all of it free"
        found.append(Assumption("host_memory", costs.host_memory, "default", why))
    else:
        found.append(Assumption("host_memory", None, "assumed", "no file says how much the host has: no limit"))
    if costs.recompute.basis == BOUND:
        call = formatting.seconds(costs.swap.copies.ways.out.call)
        why = f"recomputing is at its bound, while a copy takes {call} a call: the comparison favours recomputing"
        found.append(Assumption("basis", BOUND, "assumed", why))
    return [*found, *costs.swap.copies.notes]


def _stands_on(costs: Preemption, asked: Asked) -> list[Assumption]:
    """What the estimates stand on, where there are any."""
    request = costs.request
    if not request.estimator.applies:
        return assumptions.no_estimate(request.deployment.backend)
    whole = (asked.tokens - 1) // costs.recompute.budget
    chunks = [asked.tokens - whole * costs.recompute.budget, *([costs.recompute.budget] if whole else [])]
    launched: list[Kernel] = []
    for new in chunks:
        step = (Segment(1, new, asked.prefix),)
        launched += kernels(build(request.model, request.deployment, request.precision, step, request.memory.stage))
    return [*assumptions.estimates(request.estimator, launched), *assumptions.engine_steps(request.steps)]
