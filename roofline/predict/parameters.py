"""Parameters of a model, counted from the weights that its operators hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline.blocks.model import Model
from roofline.dtypes import BF16, Precision
from roofline.graph import CANONICAL, build
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.specs.deployment import Deployment


@dataclass(frozen=True, slots=True)
class Parameters:
    """Of the language model alone. `active` leaves out the routed experts that a token does not use; `embedding` is
    the input tables (tokens, learned positions, embeddings of the layers); `apart` lists what is not counted in `total`."""

    total: int
    active: int
    embedding: int
    apart: dict[str, int] = field(default_factory=dict)


def count_parameters(model: Model) -> Parameters:
    """Count every parameter once; tied weights once."""
    precision = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
    graph = build(model, Deployment(), precision, CANONICAL)
    total = sum(operator.parameters * repeat for operator, repeat in graph.values())
    idle = sum(
        operator.parameters // operator.experts * (operator.experts - operator.top_k) * repeat
        for operator, repeat in graph.values()
        if isinstance(operator, GroupedGemm)
    )
    rows, width = model.per_layer_embedding
    embedding = model.vocab_size * model.embedding_width + model.learned_positions * model.hidden_size + rows * width
    return Parameters(total, total - idle, embedding, dict(model.apart))
