"""Granite 3: dense, with experts, and with experts and a shared one. Its multipliers change no count."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import experts_of, gated_mlp, gqa, grouped, heads, layers_of, moe, stream


@family("granite", architectures=("GraniteForCausalLM",), source=transformers("granite"))
def granite(config: Config) -> Draft:
    """Llama's shape."""
    return _decoder(config, gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")))


@family("granitemoe", architectures=("GraniteMoeForCausalLM",), source=transformers("granitemoe"))
def granitemoe(config: Config) -> Draft:
    """Experts of width `intermediate_size`."""
    return _decoder(config, moe(*_experts(config)))


@family("granitemoeshared", architectures=("GraniteMoeSharedForCausalLM",), source=transformers("granitemoeshared"))
def granitemoeshared(config: Config) -> Draft:
    """The same, beside one dense block for every token."""
    shared = config.whole("shared_intermediate_size", low=0)
    return _decoder(config, moe(*_experts(config), shared_intermediate_size=shared))


def _experts(config: Config) -> tuple[int, int, int]:
    config.off("mlp_bias")
    return *experts_of(config, ("num_local_experts",)), config.whole("intermediate_size")


def _decoder(config: Config, feed: Section) -> Draft:
    n_q, n_kv, head_dim = heads(config, kv=grouped(config))
    biased = config.flag("attention_bias")
    layer = Layer("decoder", gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased), feed)
    return Draft([layer] * layers_of(config), stream(config))
