"""A server with so many clients, each of which sends its next prompt when it has its answer. Pages run a translation of this
module.

The closed form of `roofline.serving.queueing.closed_loop`, at the mean context of an answer: of C clients with answers of n
tokens a share f = (C - 1)/n of the steps has another's prompt in it, so that a step takes d + f w, d without and w what a
prompt adds.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.predict.timing import pipeline
from roofline.specs.workload import Segment, Step
from roofline.teach.lessons.live.run import Run


@dataclass(frozen=True, slots=True)
class Service:
    """Seconds of a prompt alone and between two tokens, the share of these that prompts take, requests and tokens a second."""

    ttft: float
    tpot: float
    prompts: float
    requests: float
    tokens: float


def service(run: Run, clients: float) -> Service:
    """What so many clients see, if nobody waits for a seat or for another's prompt before the first token."""
    prompt, answer = run.request.workload.input_len, answer_tokens(run)
    decodes = Segment(clients, 1, prompt + answer // 2, decode=True)
    alone = seconds_of(run, (Segment(1, prompt, 0),))
    step = seconds_of(run, (decodes,))
    added = seconds_of(run, (decodes, Segment(1, prompt, 0))) - step
    wait = (clients - 1) / answer * added
    tpot = step + wait
    rate = clients / (alone + (answer - 1) * tpot)
    return Service(ttft=alone, tpot=tpot, prompts=wait / tpot, requests=rate, tokens=rate * answer)


def answer_tokens(run: Run) -> int:
    """Tokens of an answer."""
    return int(run.values.get("answer", 256))


def seats(run: Run) -> float | None:
    """Requests that the memory holds, each at its last token."""
    return run.request.memory.max_batch(run.request.workload.input_len + answer_tokens(run) - 1)


def cost_per_million(run: Run) -> float | None:
    """Price of a million tokens of answers, by that of all devices."""
    found = service(run, run.request.workload.batch)
    hour = float(run.values.get("price", 2.0)) * run.request.deployment.tensor_parallel_size
    return hour / 3600 / found.tokens * 1e6


def seconds_of(run: Run, step: Step) -> float:
    """A step: the estimate where it is asked for, else the bound."""
    found = pipeline(run.request, step)
    took = found.bound if found.estimate is None else found.estimate
    return 0.0 if took is None else took
