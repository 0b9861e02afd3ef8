"""The workloads that figures look at beside the one that is asked about: batches, prompts, contexts."""

from __future__ import annotations

from roofline.predict.memory import UNLIMITED
from roofline.predict.request import Request
from roofline.predict.result import Analysis

_MOST = 2**16
_FEWEST = 128


def batches(request: Request, result: Analysis) -> list[int]:
    """Powers of two up to what memory holds and one beyond, the batch that is asked about, and the most that fit."""
    most = result.memory.max_batch if result.memory.max_batch < UNLIMITED else _MOST
    asked = request.workload.batch
    last = min(max(most * 2, asked * 2, 16), _MOST)
    found = {asked, max(most, 1)} if most <= last else {asked}
    step = request.deployment.data_parallel_size
    size = 1
    while size <= last:
        found.add(size)
        size *= 2
    return sorted(size for size in found if size >= min(step, asked))


def lengths(request: Request) -> list[int]:
    """Powers of two from 128 to the model's longest context, and the length that is asked about."""
    longest = request.model.max_position_embeddings
    found = {request.workload.input_len, longest}
    length = _FEWEST
    while length < longest:
        found.add(length)
        length *= 2
    return sorted(found)


def spread(values: list[int], most: int) -> list[int]:
    """At most so many of some values, evenly, the first and the last of them always."""
    if len(values) <= most:
        return values
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]
