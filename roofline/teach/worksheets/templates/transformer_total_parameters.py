"""All parameters of a model, from the numbers of its config.json."""

from __future__ import annotations

from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_TABLES = ("embedding", "lm_head")
_ATTENTION = ("layers/attention/qkv_proj", "layers/attention/o_proj")
_MLP = ("layers/mlp/gate_up_proj", "layers/mlp/down_proj")


def _held(name: str, paths: tuple[str, ...]) -> float:
    """Parameters of some operators, all layers together."""
    counted = facts.parameters_by_path(name)
    return sum(counted[path][0] * counted[path][1] for path in paths)


def draw(rng: Rng) -> Problem:
    """A dense model whose LM head is a matrix of its own."""
    name = facts.of_other_depth(rng, rng.choice(facts.DENSE))
    total, table = facts.parameters(name).total, facts.parameters(name).embedding
    tables, projections, blocks = (_held(name, paths) for paths in (_TABLES, _ATTENTION, _MLP))
    model, attention = facts.model(name), facts.mixer(name)
    layers, hidden, inner = model.num_hidden_layers, model.hidden_size, facts.mlp(name).intermediate_size
    wide = 2 * (attention.num_attention_heads - attention.num_key_value_heads) * attention.head_dim * hidden * layers
    mistakes = (
        Mistake(
            name="one table",
            value=total - table,
            hint="One matrix of vocabulary times hidden size is missing: the embedding and the LM head are two here.",
        ),
        Mistake(
            name="no tables",
            value=total - 2 * table,
            hint="You counted the layers. The embedding and the LM head, each vocabulary times hidden size, come on top.",
        ),
        Mistake(
            name="query heads for KV heads",
            value=total + wide,
            hint="You made K and V as wide as Q. They have KV heads times head width columns each.",
        ),
        Mistake(
            name="gate forgotten",
            value=total - layers * hidden * inner,
            hint="You counted two matrices a feed-forward block. A gated one has three: gate, up and down.",
        ),
    )
    source = "F01 of docs/published-figures.md" if name == "llama-3.1-8b" else ""
    return Problem(
        title="All parameters",
        text=(
            f"From the config.json of {facts.title(name)}: "
            f"{facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head', 'inner', 'vocabulary')}; gated feed-forward "
            "blocks; `tie_word_embeddings` is false. How many parameters does it have, within 1 %?\n\n"
            "Norms and biases may be left out."
        ),
        answer=Answer(value=total, kind="parameters"),
        mistakes=mistakes,
        solution=(
            (
                "The embedding and the LM head hold a row for every token of the vocabulary each. A layer has the "
                "projections of "
                "attention and the three matrices of the feed-forward block; the norms are few weights."
            ),
            worked.of_model("The two tables:", name, _TABLES, "parameters", "parameters"),
            worked.of_model("Attention, in all layers:", name, _ATTENTION, "parameters", "parameters"),
            worked.of_model("The feed-forward blocks:", name, _MLP, "parameters", "parameters"),
            worked.formula(
                "With the norms and biases, which are the rest:",
                "N_tables + N_attention + N_mlp + N_rest",
                {
                    "N_tables": (tables, "parameters of the tables"),
                    "N_attention": (projections, "parameters of the projections"),
                    "N_mlp": (blocks, "parameters of the feed-forward blocks"),
                    "N_rest": (total - tables - projections - blocks, "norms and biases"),
                },
                "parameters",
            ),
        ),
        source=source,
    )


TEMPLATE = Template(id="transformer-total-parameters", topic="transformer", minutes=8, draw=draw)
