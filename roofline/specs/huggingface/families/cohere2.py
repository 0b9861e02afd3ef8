"""Cohere 2: Command R7B, Command A. Layers with a sliding window and rotated heads, and every fourth with neither."""

from __future__ import annotations

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.cohere import LAYERNORM, longest
from roofline.specs.huggingface.kinds import SLIDING, names
from roofline.specs.huggingface.parts import gated_mlp, gqa, grouped, heads, layers_of, stream


@family("cohere2", architectures=("Cohere2ForCausalLM",), source=transformers("cohere2"))
def cohere2(config: Config) -> Draft:
    """As Cohere, without norms of queries and keys."""
    _only_published(config)
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    biased = config.flag("attention_bias")
    feed = gated_mlp(config.whole("intermediate_size"))
    keys = {**stream(config, tie=True, norm=LAYERNORM), **longest(config)}
    width = windows.window(config, keys["max_position_embeddings"])
    every = config.whole("sliding_window_pattern", "layer_switch", default=4)
    kinds = windows.last_of_each(config, layers_of(config), every, "the rule of Cohere 2, where there are no layer_types")
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, head_dim, **windows.of(kind, width),
                rotary_dim=None if kind == SLIDING else 0, qkv_bias=biased, o_bias=biased,
            ),
            feed,
            {"parallel": True},
        )
        for name, kind in zip(names(kinds), kinds, strict=True)
    ]  # fmt: skip
    return Draft(layers, keys)


def _only_published(config: Config) -> None:
    """Switches of the code that Command R7B was trained with: one value of each is what transformers builds."""
    for name, value in (
        ("order_of_interleaved_layers", "local_attn_first"),
        ("position_embedding_type", "rope_gptj"),
        ("rotary_pct", 1.0),
        ("use_embedding_sharing", True),
        ("use_gated_activation", True),
        ("use_parallel_block", True),
    ):
        config.only(name, value, "transformers builds no other Cohere 2 model")
    config.off("use_qk_norm")
    config.harmless("use_parallel_embedding", "cache_implementation")
