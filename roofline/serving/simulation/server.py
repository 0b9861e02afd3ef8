"""The server that is simulated: replicas of a deployment, and how each of them schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError, UnknownNameError
from roofline.predict.request import Request, prepare
from roofline.serving.preemption.copies import HostCopyOptions
from roofline.serving.simulation.balancers import BALANCERS
from roofline.serving.simulation.costs import preempting
from roofline.serving.simulation.eviction import Preempting
from roofline.serving.simulation.parts import Basis
from roofline.serving.simulation.room import Room, longest, room
from roofline.serving.simulation.schedulers import Scheduler, scheduler
from roofline.serving.simulation.tables import StepTables
from roofline.serving.simulation.workload import MOST_AT_ONCE
from roofline.specs.source import Assumption
from roofline.units import parse_count

_DEFAULT = "vllm-v1"
MOST_REPLICAS = 10_000
"""Replicas of a run: each has a state of its own."""


@dataclass(frozen=True)
class Server:
    """Replicas of a deployment, all that a run needs of them."""

    request: Request
    scheduler: Scheduler
    room: Room
    longest: int
    tables: StepTables
    preempting: Preempting
    replicas: int
    balancer: str
    stepwise: bool = False


def deployed(model: Any, hardware: Any, deployment: dict[str, Any]) -> Request:
    """The deployment of each replica.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, something that is not simulated.
    """
    request = prepare(model, hardware, **deployment, batch=1, input_len=1, context=1)
    if request.deployment.data_parallel_size > 1:
        raise InputError("--data-parallel-size: replicas here are independent of each other; give --replicas")
    if request.deployment.conventions.shared_prefix:
        raise InputError("--shared-prefix is not simulated: leave it out")
    return request


def serve(
    request: Request, *, scheduler: str | None, preemption: str | None, basis: str | None,
    replicas: Any, balancer: str | None, stepwise: bool, notes: list[Assumption], num_gpu_blocks_override: Any = None,
    copies_to: HostCopyOptions | None = None, keeps: bool = False,
) -> Server:  # fmt: skip
    """A server from what `simulate` was given.

    Raises:
        NoRoomError: it does not fit.
        InputError: an unknown name, a wrong value.
    """
    policy = _scheduler(scheduler, notes)
    held = room(request, policy, notes, num_gpu_blocks_override, keeps=keeps)
    chosen = _basis(basis, request, notes)
    copies = 1 if replicas is None else parse_count(replicas, "--replicas", minimum=1)
    if copies > MOST_REPLICAS:
        raise InputError(
            f"--replicas must be at most {MOST_REPLICAS:,}, not {copies:,}: all are alike, so simulate a part of them under "
            "its part of the load"
        )
    way = balancer or "round-robin"
    if way not in BALANCERS:
        raise UnknownNameError("balancer", way, BALANCERS, list_all=True)
    if copies > 1 and balancer is None:
        notes.append(Assumption("balancer", way, "default", "requests are dealt to the replicas in turn"))
    most = longest(request)
    if keeps:
        why = "a preempted request finds what nobody has taken since; prompts have nothing in common"
        notes.append(Assumption("prefix_caching", True, "given", why))
    else:
        why = "no prompt finds its tokens cached, nor does one that is computed again"
        notes.append(Assumption("prefix_caching", False, "default", why))
    return Server(
        request=request,
        scheduler=policy,
        room=held,
        longest=most,
        # a sequence that runs has a block at least
        tables=StepTables(request, chosen, most, min(held.seats, held.blocks, MOST_AT_ONCE)),
        preempting=preempting(request, preemption, notes, copies_to),
        replicas=copies,
        balancer=way,
        stepwise=stepwise,
    )


def _scheduler(name: str | None, notes: list[Assumption]) -> Scheduler:
    found = scheduler(name or _DEFAULT)
    notes.append(Assumption("scheduler", found.name, "given" if name else "default", found.about))
    return found


def _basis(name: str | None, request: Request, notes: list[Assumption]) -> Basis:
    if name not in (None, "estimate", "bound"):
        raise UnknownNameError("basis", name, ("estimate", "bound"), list_all=True)
    applies = request.estimator.applies
    if name == "estimate" and not applies:
        raise InputError(f"--basis estimate: no kernels of {request.hardware.name} were measured; the bound is known")
    if name == "bound" or not applies:
        why = "no kernel is faster than the hardware, and the engine adds nothing: no server is as quick"
        notes.append(Assumption("basis", "bound", "given" if name else "assumed", why))
        return "bound"
    notes.append(
        Assumption("basis", "estimate", "given" if name else "default", "step times as measured kernels and the engine take")
    )
    return "estimate"
