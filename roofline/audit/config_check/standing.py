"""A deployment as it stands: whether the engine starts, what memory holds, and the replica that serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.audit.config_check.subject import Subject
from roofline.errors import RooflineError, SpecError
from roofline.predict.request import Request, prepare
from roofline.serving.planning.search import Option, longest_held, slots_in_memory, with_chosen
from roofline.serving.planning.sizing import SizedReplica, size_replica
from roofline.serving.queueing.replica import Replica
from roofline.specs.workload import Segment


@dataclass(frozen=True)
class Standing:
    """What one replica holds.

    Attributes:
        request: the deployment, resolved.
        longest: tokens of the longest sequence that the engine is asked for.
        held: tokens of the longest sequence that memory holds, up to that; 0: not even the weights fit.
        seats: requests of mean length that memory holds on a rank.
        needed_bytes: of the fullest device, for one sequence of that length on each rank, weights and activations included.
        budget_bytes: what a device has for it.
        weights_bytes: of the fullest device.
        option: None where the engine does not start, or holds no request of mean length.
    """

    request: Request
    longest: int
    held: int
    seats: int
    needed_bytes: float
    budget_bytes: float
    weights_bytes: float
    option: Option | None

    @property
    def starts(self) -> bool:
        """Whether the engine has room for the longest sequence: it refuses to start without."""
        return self.held >= self.longest

    @property
    def one(self) -> SizedReplica | None:
        """The replica that serves."""
        return None if self.option is None else self.option.sized["both"]


def standing(subject: Subject) -> Standing:
    """The deployment on its hardware.

    Raises:
        SpecError: sizes that no engine could run, with the place of the option.
    """
    question = subject.question
    request = _prepared(subject)
    ranks = request.deployment.data_parallel_size
    wanted = subject.longest or question.model.max_position_embeddings
    held = longest_held(request, wanted) if request.memory.fits((Segment(ranks, 1, 0, decode=True),)) else 0
    if subject.longest is None:
        wanted = max(held, 1)
    step = (Segment(ranks, 1, wanted - 1, decode=True),)
    part = request.memory.tightest(step)
    needed = (
        part.weights_bytes + float(part.activation_bytes(step)) + request.deployment.reserve + float(part.needed_bytes(step))
    )
    seats = slots_in_memory(request, question.load) if held >= wanted else 0
    option = None
    if seats:
        mine = min(seats, subject.seats)
        budget = request.memory.max_num_batched_tokens
        one = size_replica(Replica(request, mine, (budget,)), question.load, [(mine, budget)], seats)
        hardware = question.hardware[0]
        option = Option(hardware, _precision(request), _layout(request), {"both": with_chosen(one)}, (), wanted)
    return Standing(request, wanted, held, seats, needed, part.budget_bytes, part.weights_bytes, option)


def _prepared(subject: Subject) -> Request:
    question = subject.question
    ranks = question.fixed.get("data_parallel_size") or 1
    asked: dict[str, Any] = {**question.fixed, "batch": ranks, "input_len": 1, "phase": "decode"}
    try:
        return prepare(question.model, question.hardware[0], **asked)
    except SpecError:
        raise
    except RooflineError as error:
        words = str(error).lower().replace("-", " ")
        for name, said in subject.places.items():
            if name.replace("_", " ") in words:
                raise said.wrong(str(error)) from None
        raise subject.run.place.wrong(str(error)) from None


def _precision(request: Request) -> str:
    deployment, model = request.deployment, request.model
    given = [str(name) for name in (deployment.dtype, deployment.quantization) if name is not None]
    published = model.quantization
    return "/".join(given) or (published[0].name if published else model.dtype)


def _layout(request: Request) -> dict[str, int]:
    found = request.deployment
    sizes = {
        "tp": found.tensor_parallel_size, "pp": found.pipeline_parallel_size, "dp": found.data_parallel_size,
        "ep": found.expert_parallel_size, "cp": found.context_parallel_size,
    }  # fmt: skip
    return {name: size for name, size in sizes.items() if size > 1}
