"""Weights of the attention projections of all layers."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-nemo-12b", "qwen3-32b", "llama-3.1-70b")
_PATHS = ("layers/attention/qkv_proj", "layers/attention/o_proj")


def draw(rng: Rng) -> Problem:
    """A model with grouped queries."""
    name = facts.of_other_depth(rng, rng.choice(_MODELS))
    counted = facts.parameters_by_path(name)
    projected, output = (counted[path][0] * counted[path][1] for path in _PATHS)
    attention, hidden, layers = facts.mixer(name), facts.model(name).hidden_size, facts.model(name).num_hidden_layers
    one_head = layers * hidden * attention.head_dim
    keys = one_head * attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="query heads for KV heads",
            value=projected + output + 2 * (one_head * attention.num_attention_heads - keys),
            hint="You made K and V as wide as Q. With grouped queries they have the KV heads' width: heads times head width.",
        ),
        Mistake(name="K without V", value=projected + output - keys, hint="K and V each have a projection of their own."),
        Mistake(
            name="output projection forgotten",
            value=projected,
            hint="Q, K and V are there. What brings the heads' outputs back to the residual stream is a matrix too.",
        ),
        pitfalls.one_layer((projected + output) / layers, layers),
    )
    return Problem(
        title="Projections of attention",
        text=(
            f"{facts.title(name)} has {facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}. How many "
            f"weights do the "
            "projections of attention have: queries, keys, values and output, of all layers together?"
        ),
        answer=Answer(value=projected + output, kind="parameters"),
        mistakes=mistakes,
        solution=(
            (
                "Queries need a column for every query head, keys and values one for every KV head each; the output projection "
                "takes the query heads back to the hidden size."
            ),
            worked.of_model("The four matrices of all layers:", name, _PATHS, "parameters", "parameters"),
        ),
    )


TEMPLATE = Template(id="transformer-attention-weights", topic="transformer", minutes=4, draw=draw)
