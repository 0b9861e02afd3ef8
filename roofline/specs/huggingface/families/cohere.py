"""Cohere: Command R, Command R+, Aya 23 and Aya Expanse."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gated_mlp, gqa, grouped, heads, layers_of, older, stream

LAYERNORM = {"function": "layernorm"}  # without biases


@family("cohere", architectures=("CohereForCausalLM",), source=transformers("cohere"))
def cohere(config: Config) -> Draft:
    """Both blocks side by side under one norm; one switch for the biases of attention, none in the feed-forward block."""
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    biased = config.flag("attention_bias", default=False, why="the default of the class, which came after Command R")
    if not config.has("use_qk_norm") and config.has("transformers_version") and not older(config, (4, 40)):
        config.refuse("transformers_version", "what wrote this config knew the key use_qk_norm, and it is missing")
    normed = config.flag("use_qk_norm", default=False, why="the default of the class, which came after Command R")
    norm: Section = {"qk_norm": "full", "qk_norm_function": "layernorm"} if normed else {}
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, **norm),
        gated_mlp(config.whole("intermediate_size")),
        {"parallel": True},
    )
    return Draft([layer] * layers_of(config), {**stream(config, tie=True, norm=LAYERNORM), **longest(config)})


def longest(config: Config) -> Section:
    """`model_max_length` is the longest context, where it is given: max_position_embeddings was left at what Command R
    was trained with first."""
    length = config.whole("model_max_length", default=None)
    return {} if length is None else {"max_position_embeddings": length}
