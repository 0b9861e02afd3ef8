"""Drafts of the model's own layer for multi-token prediction (MTP).

A step is one more layer of the model, which reads the hidden state and the embedding of the newest token, each normalised,
side by side, projected back to the width of the stream; embedding and LM head are the model's. DeepSeek-V3 report,
arXiv:2412.19437, section 2.2, eq. (21) to (23).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.blocks.model import LayerGroup, Model
from roofline.graph import CANONICAL, Graph, build
from roofline.numeric import ceil_div
from roofline.operators.gemm import Gemm
from roofline.operators.norm import Norm
from roofline.predict.memory import weights_by_path
from roofline.predict.request import Request
from roofline.predict.result import Duration
from roofline.predict.speculative.asked import Asked
from roofline.predict.speculative.draft import Draft, timed
from roofline.specs.assumption import Assumption
from roofline.specs.workload import Step

NAME = "mtp"
_SAID = ("nextn", "mtp", "multi-token prediction")


def draft(request: Request, asked: Asked, options: dict[str, Any]) -> Draft:
    """One more layer of the last type. NB: its first step of a round computes the tokens that were accepted, not one."""
    del asked, options
    model = request.model
    last = model.layer_sequence[-1]
    layer = LayerGroup(pattern=(last,), repeat=1)
    one: Model = model.model_copy(update={"layers": (layer,), "layer_types": {last: model.layer_types[last]}})
    only = replace(request, model=one, steps=None)
    # the model's embedding and LM head serve it too; the projection is on every tensor-parallel device
    held = weights_by_path(_graph(only, CANONICAL))
    weights = sum(size for path, size in held.items() if path.startswith(("layers/", "mtp/")))

    def step(step: Step) -> Duration:
        return timed(only, _graph(only, step))

    return Draft(
        name="the model's own layer",
        step=step,
        memory=replace(request.memory, model=one),
        weights_bytes=weights,
        notes=(_note(model, last),),
    )


def _graph(request: Request, step: Step) -> Graph:
    """The layer between the model's embedding and LM head, and what joins the two inputs."""
    replicas, width = request.deployment.data_parallel_size, request.model.hidden_size
    rows = sum(ceil_div(segment.count, replicas) * segment.new for segment in step)
    vector, linear = request.precision.dtypes("norm"), request.precision.dtypes("linear/projection")
    return {
        **build(request.model, request.deployment, request.precision, step),
        "mtp/embedding_norm": (Norm(rows=rows, width=width, dtypes=vector), 1),
        "mtp/hidden_norm": (Norm(rows=rows, width=width, dtypes=vector), 1),
        "mtp/projection": (Gemm(m=rows, n=width, k=2 * width, dtypes=linear), 1),
    }


def _note(model: Model, layer: str) -> Assumption:
    """What is counted, and whether the model's file speaks of such a layer."""
    said = " ".join([*model.notes, *(f"{choice.name} {choice.why}" for choice in model.assumptions)]).lower()
    what = f"one more layer ({layer}), a projection of two widths to one, two norms, the model's embedding and LM head"
    if any(word in said for word in _SAID):
        return Assumption("draft", "mtp", "default", what)
    return Assumption(
        "draft", "mtp", "assumed", f"the model's file speaks of no layer for multi-token prediction; counted: {what}"
    )
