"""The context at which attention computes as much as the matrices of weights."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem:
    """A model, as it is or with another number of layers."""
    name = facts.of_other_depth(rng, rng.choice(facts.DENSE))
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    queries, kv, width = attention.num_attention_heads, attention.num_key_value_heads, attention.head_dim
    weights = facts.layer_weights(name) + facts.parameters(name).embedding
    # what one more cached token adds to a step, and what the matrices take
    slope = facts.step_flops(name, 1, 1, 2048) - facts.step_flops(name, 1, 1, 2047)
    right = 2 * weights / slope
    mistakes = (
        Mistake(
            name="scores alone",
            value=2 * right,
            hint="You counted queries times keys. Scores times values are a product of the same size.",
        ),
        Mistake(
            name="KV heads",
            value=right * queries / kv,
            hint="Every query head does its own products. Sharing keys and values saves bytes, not FLOP.",
        ),
        pitfalls.one_layer(right * layers, layers),
        Mistake(
            name="one FLOP a weight",
            value=right / 2,
            hint="A weight takes 2 FLOP: a product and its sum.",
        ),
    )
    return Problem(
        title="Where attention catches up",
        text=(
            f"In a decode step of {facts.title(name)} a token is multiplied with {weights:,} weights, those of the LM head "
            f"included. The model has {facts.shape(name, 'layers', 'queries', 'kv', 'head')}. After how many tokens of context "
            "do the products of attention take as many FLOP as those with weights?"
        ),
        answer=Answer(value=right, kind="tokens"),
        mistakes=mistakes,
        solution=(
            "Weights take the same in every step. Attention takes 4 FLOP for each token and element of a query head.",
            worked.formula(
                "Both are equal after:",
                "2 * N / (4 * L * n_q * d_head)",
                {
                    "N": (weights, "weights that are multiplied"),
                    "L": (layers, ""),
                    "n_q": (queries, ""),
                    "d_head": (width, ""),
                },
                "tokens",
            ),
        ),
    )


TEMPLATE = Template(id="transformer-equal-context", topic="transformer", minutes=5, draw=draw)
