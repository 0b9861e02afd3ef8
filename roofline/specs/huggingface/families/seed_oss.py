"""Seed-OSS: Llama's shape with a switch for the biases of the output projection alone."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gated_mlp, gqa, grouped, heads, layers_of, stream


@family("seed_oss", architectures=("SeedOssForCausalLM",), source=transformers("seed_oss"))
def seed_oss(config: Config) -> Draft:
    """`attention_bias` is for queries, keys and values."""
    n_q, n_kv, head_dim = heads(config, kv=grouped(config), head_dim=128)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=config.flag("attention_bias"), o_bias=config.flag("attention_out_bias")),
        gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")),
    )
    return Draft([layer] * layers_of(config), stream(config))
