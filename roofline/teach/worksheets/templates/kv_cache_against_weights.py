"""The context at which a decode step reads as much of the cache as of the weights."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.graph.sharding import caches
from roofline.specs.deployment import Deployment
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


@cache
def _crossing(name: str, batch: int) -> tuple[float, float]:
    """Cached tokens of each sequence, and the bytes of the weights that a step reads."""
    from roofline.formulas.closed_forms import context_where_kv_overtakes_weights

    weights = facts.floor(name, "h200-sxm", 1, 1, 0).weight_bytes
    layers = [(cache.per_token * 2, cache.window, count) for cache, count in caches(facts.model(name), Deployment())]
    context = context_where_kv_overtakes_weights(int(weights), layers, batch)
    assert context is not None  # noqa: S101 - narrows the type: no layer has a window
    return float(context), weights


def draw(rng: Rng) -> Problem:
    """A model and a batch."""
    name, batch = rng.choice(facts.DENSE), rng.choice((4, 8, 16, 32, 64))
    right, weights = _crossing(name, batch)
    token = facts.kv_bytes_per_token(name)
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="all sequences together",
            value=right * batch,
            hint=f"That is the number of tokens cached in all. They are spread over {batch} sequences.",
        ),
        pitfalls.k_without_v(2 * right),
        pitfalls.query_heads(right * kv / queries, queries, kv),
        Mistake(
            name="parameters for bytes",
            value=right / 2,
            hint="You compared with the number of weights. In bf16 each of them is two bytes.",
        ),
        pitfalls.bits_for_bytes(right / 8, 16),
        pitfalls.one_layer(right * facts.model(name).num_hidden_layers, facts.model(name).num_hidden_layers),
    )
    return Problem(
        title="When the cache outweighs the weights",
        text=(
            f"A decode step of {facts.title(name)} reads {formatting.quantity(weights, 'B')} of weights in bf16, once for all "
            f"sequences, and "
            f"the cache of each. The model has {facts.shape(name, 'layers', 'queries', 'kv', 'head')}; the cache is in "
            f"bf16 too. "
            f"{batch} sequences of equal length are decoded. From how many tokens **each** does a step read more cache "
            f"than weights?"
        ),
        answer=Answer(value=right, kind="tokens"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token takes, over all layers:", name, "kv_bytes_per_token"),
            worked.formula(
                "The caches are as large as the weights at:",
                "W / (B * k_token)",
                {"W": (weights, "weights read [bytes]"), "B": (batch, ""), "k_token": (token, "cache of a token [bytes]")},
                "tokens",
            ),
        ),
        source="after F07 of docs/published-figures.md",
    )


TEMPLATE = Template(id="kv-cache-against-weights", topic="kv-cache", minutes=4, draw=draw)
