"""Drafts of a smaller model with the same vocabulary, which decodes them one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.errors import InputError
from roofline.predict.options import ALIASES, COUNTING, ENGINE, PARALLELISM, PRECISION, of_groups
from roofline.predict.request import Request, prepare
from roofline.predict.speculative.asked import Asked
from roofline.predict.speculative.draft import Draft
from roofline.predict.timing import pipeline
from roofline.specs.assumption import Assumption

NAME = "draft_model"
_OWN = ("max_model_len", "max_num_seqs", "reserve", "sequence_parallel", "logits", "ignore_capacity", "enable_prefix_caching")
"""Options of a deployment that do not hold for a draft; other sizes are given apart, and formats of weights are those
of the draft's own file."""
_NOT_SHARED = {*_OWN, "dtype", "quantization", "tensor_parallel_size", "pipeline_parallel_size", "expert_parallel_size"}
_SHARED = [entry.name for entry in of_groups((PRECISION, PARALLELISM, ENGINE, COUNTING)) if entry.name not in _NOT_SHARED]


def draft(request: Request, asked: Asked, options: dict[str, Any]) -> Draft:
    """The draft on the same devices, over as many of them as the model unless another number is asked for."""
    assert asked.model is not None  # noqa: S101 - narrows the type: checked with the options
    size = asked.draft_tensor_parallel_size or request.deployment.tensor_parallel_size
    if size > request.deployment.tensor_parallel_size:
        most = request.deployment.tensor_parallel_size
        raise InputError(
            f"--speculative-draft-tensor-parallel-size {size} is more than the {most} devices that the model is on"
        )
    given = {ALIASES.get(name, name): value for name, value in options.items() if value is not None}
    shared = {name: given[name] for name in _SHARED if name in given}
    small = prepare(asked.model, request.hardware, **shared, tensor_parallel_size=size, context=0, phase="decode")
    model, target = small.model, request.model
    if model.vocab_size != target.vocab_size:
        sizes = f"{model.vocab_size:,} tokens, not {target.vocab_size:,}"
        msg = f"{model.name} cannot draft for {target.name}: its vocabulary has {sizes}"
        raise InputError(msg)
    # what the engine adds to a step, it adds once a round
    kernels = replace(small, steps=None)
    size_given = asked.draft_tensor_parallel_size is not None
    weights = small.precision.dtypes("linear").weight.name
    notes = (
        Assumption("draft", model.name, "given", f"{weights} weights, as its own file says; formats of cache as the model's"),
        Assumption(
            "draft_tensor_parallel_size", size, "given" if size_given else "default", "" if size_given else "as the model's"
        ),
    )
    read = tuple(replace(entry, role="draft") for entry in small.inputs if entry.role == "model")
    return Draft(
        name=model.name,
        step=lambda step: pipeline(kernels, step),
        memory=small.memory,
        weights_bytes=small.memory.fullest.weights_bytes,
        notes=notes,
        inputs=read,
    )
