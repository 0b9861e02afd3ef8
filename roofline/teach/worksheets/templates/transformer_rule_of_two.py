"""How far the rule of two FLOP per parameter is off for one token."""

from __future__ import annotations

from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """A model, and the length of the context."""
    name, cached = rng.choice(facts.DENSE), 1024 * rng.choice((2, 4, 8, 16, 32, 64, 96)) - 1
    total = facts.step_flops(name, 1, 1, cached)
    counted, attention, layers = facts.parameters(name), facts.mixer(name), facts.model(name).num_hidden_layers
    queries, kv, width = attention.num_attention_heads, attention.num_key_value_heads, attention.head_dim
    rule = 2 * counted.total
    pairs = total - 2 * (facts.layer_weights(name) + counted.embedding)
    right = total / rule
    mistakes = (
        Mistake(name="rule itself", value=1, hint="That is the rule. It counts the embedding, and leaves attention out."),
        Mistake(
            name="embedding counted",
            value=1 + pairs / rule,
            hint="You multiplied by the embedding. Looking up a row of it is no product.",
        ),
        Mistake(
            name="attention forgotten",
            value=(total - pairs) / rule,
            hint="The embedding is out. Queries and values are multiplied with the cached tokens, too, without any parameter.",
        ),
        Mistake(
            name="KV heads",
            value=(total - pairs + pairs * kv / queries) / rule,
            hint="Every query head does its own products. Sharing keys and values saves bytes, not FLOP.",
        ),
        Mistake(
            name="scores alone",
            value=(total - pairs / 2) / rule,
            hint="Queries times keys are there. Scores times values are a product of the same size.",
        ),
    )
    return Problem(
        title="The rule of two",
        text=(
            f'"A token takes two FLOP per parameter." {facts.title(name)} has {counted.total:,} parameters, of which '
            f"{counted.embedding:,} are the embedding; {facts.shape(name, 'layers', 'queries', 'kv', 'head')}. A decode step "
            f"has its new token and {cached:,} before it. How many times as many FLOP as by the rule do its matrix products "
            "take? Norms and biases may be left out."
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            "Each weight that is multiplied takes 2 FLOP: all but those of the embedding.",
            worked.formula(
                "In attention each pair of the new token and one that it sees takes 4 FLOP per element of a query head:",
                "4 * L * n_q * d_head * (S_c + 1)",
                {"L": (layers, ""), "n_q": (queries, ""), "d_head": (width, ""), "S_c": (cached, "")},
                "FLOP",
            ),
            worked.formula(
                "Both, over the rule:",
                "(2 * (N - M_e) + A) / (2 * N)",
                {
                    "N": (counted.total, "parameters"),
                    "M_e": (counted.embedding, "parameters of the embedding"),
                    "A": (pairs, "attention [FLOP]"),
                },
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="transformer-rule-of-two", topic="transformer", minutes=6, draw=draw)
