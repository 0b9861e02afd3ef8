"""Drafts of a smaller model with the same vocabulary, which decodes them one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.errors import InputError
from roofline.predict.request import Request, prepare
from roofline.predict.speculative.asked import Asked
from roofline.predict.speculative.draft import Draft
from roofline.predict.timing import pipeline
from roofline.specs.assumption import Assumption

NAME = "draft_model"
# Of the model's options, those that hold for its draft. Formats of weights are those of the draft's own file.
_SHARED = (
    "engine", "backend", "activation_dtype", "kv_cache_dtype", "mamba_ssm_cache_dtype", "block_size", "gpu_memory_utilization",
    "max_num_batched_tokens", "mask", "attention", "mla", "routing_skew", "shared_prefix", "data_parallel_size", "dp",
    "context_parallel_size", "cp", "prefill_context_parallel_size", "expert_imbalance",
)  # fmt: skip


def draft(request: Request, asked: Asked, options: dict[str, Any]) -> Draft:
    """The draft on the same devices, over as many of them as the model unless another number is asked for."""
    assert asked.model is not None  # noqa: S101 - narrows the type: checked with the options
    size = asked.draft_tensor_parallel_size or request.deployment.tensor_parallel_size
    if size > request.deployment.tensor_parallel_size:
        most = request.deployment.tensor_parallel_size
        raise InputError(
            f"--speculative-draft-tensor-parallel-size {size} is more than the {most} devices that the model is on"
        )
    shared = {name: options[name] for name in _SHARED if options.get(name) is not None}
    small = prepare(asked.model, request.hardware, **shared, tensor_parallel_size=size, context=0, phase="decode")
    model, target = small.model, request.model
    if model.vocab_size != target.vocab_size:
        sizes = f"{model.vocab_size:,} tokens, not {target.vocab_size:,}"
        msg = f"{model.name} cannot draft for {target.name}: its vocabulary has {sizes}"
        raise InputError(msg)
    # what the engine adds to a step, it adds once a round
    kernels = replace(small, steps=None)
    given = asked.draft_tensor_parallel_size is not None
    weights = small.precision.dtypes("linear").weight.name
    notes = (
        Assumption("draft", model.name, "given", f"{weights} weights, as its own file says; formats of cache as the model's"),
        Assumption("draft_tensor_parallel_size", size, "given" if given else "default", "" if given else "as the model's"),
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
