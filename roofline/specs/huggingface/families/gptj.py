"""GPT-J: attention and feed-forward block side by side under one norm, biases in the latter and in the LM head."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.gpt2 import LAYERNORM, heads_and_width, inner, layers
from roofline.specs.huggingface.parts import gqa, mlp, rest


@family("gptj", architectures=("GPTJForCausalLM",), source=transformers("gptj"))
def gptj(config: Config) -> Draft:
    """Multi-head attention without biases, of whose heads `rotary_dim` elements are rotated."""
    config.only("rotary", True, "GPT-J rotates queries and keys, and has no other positions")
    config.harmless("n_ctx")
    n_q, head_dim, hidden = heads_and_width(config)
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, rotary_dim=config.whole("rotary_dim")),
        mlp(inner(config, hidden), bias=True),
        {"parallel": True},
    )
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole("n_positions", "max_position_embeddings"),
        "norm": LAYERNORM,
        "lm_head_bias": True,
        **rest(config),
    }
    return Draft([layer] * layers(config), keys)
