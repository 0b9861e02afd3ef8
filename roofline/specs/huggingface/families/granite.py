"""Granite 3 (dense, with experts, and with experts and a shared one), the same with windows and attention sinks, and
Granite 4 (Mamba-2 or attention, then experts beside a shared MLP, or that MLP alone). HyperCLOVA X is Granite 3 with norms
after the blocks too. The multipliers change no count."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, attention_kinds, layer_names, windows
from roofline.specs.huggingface.sections import (
    KEYS_OF_BAMBA,
    experts_of,
    explicit_kv_heads,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    mamba2_of_bamba,
    model_keys,
    moe,
)


@family(
    "granite",
    types=("granite4_vision_text",),
    architectures=("GraniteForCausalLM",),
    source=transformers("granite"),
)
def granite(config: Config) -> Draft:
    """Reads `granite` configs: layers like Llama's, grouped-query attention and a gated MLP."""
    return _decoder(config, gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")))


@family("granitemoe", architectures=("GraniteMoeForCausalLM",), source=transformers("granitemoe"))
def granitemoe(config: Config) -> Draft:
    """Reads `granitemoe` configs: a mixture of experts, each `intermediate_size` wide."""
    return _decoder(config, moe(*_experts(config)))


@family("granitemoeshared", architectures=("GraniteMoeSharedForCausalLM",), source=transformers("granitemoeshared"))
def granitemoeshared(config: Config) -> Draft:
    """Reads `granitemoeshared` configs: experts as in `granitemoe`, and shared experts for every token."""
    shared = config.whole("shared_intermediate_size", low=0)
    return _decoder(config, moe(*_experts(config), shared_intermediate_size=shared))


def _experts(config: Config) -> tuple[int, int, int]:
    config.off("mlp_bias")
    return *experts_of(config, ("num_local_experts",)), config.whole("intermediate_size")


def _decoder(config: Config, feed: Section) -> Draft:
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    layer = Layer("decoder", gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased), feed)
    return Draft([layer] * layers_of(config), model_keys(config))


@family("hyperclovax", architectures=("HyperCLOVAXForCausalLM",), source=transformers("hyperclovax"))
def hyperclovax(config: Config) -> Draft:
    """Reads `hyperclovax` configs: `use_post_norm` adds a norm after each block."""
    after = config.flag("use_post_norm", default=True, why="the default of the class, where the key is absent")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")),
        {"norms": "both"} if after else {},
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("granite_swa", architectures=("GraniteSWAForCausalLM",), source=transformers("granite_swa"))
def granite_swa(config: Config) -> Draft:
    """Reads `granite_swa` configs: Granite 3 with a window on most layers, and an attention sink in every head."""
    return _windowed(config, gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")))


@family("granitemoe_swa", architectures=("GraniteMoeSWAForCausalLM",), source=transformers("granitemoe_swa"))
def granitemoe_swa(config: Config) -> Draft:
    """Reads `granitemoe_swa` configs: `granite_swa` with experts, and shared ones where their width is not 0."""
    shared = config.whole("shared_intermediate_size", low=0)
    return _windowed(config, moe(*_experts(config), shared_intermediate_size=shared))


def _windowed(config: Config, feed: Section) -> Draft:
    """Layers are rotated with a base of their own, those of base 0 not at all."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    count = layers_of(config)
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: SLIDING if index % 4 else FULL)
    bases = config.raw("layer_rope_theta", default=[1] * count)
    if not isinstance(bases, list) or len(bases) != count:
        config.refuse("layer_rope_theta", f"must be a list with one number for each of the {count} layers")
    layers = [
        Layer(
            name,
            gqa(
                n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, sliding_window=width, sinks=True,
                rotary_dim=None if base else 0,
            ),
            feed,
        )
        for name, width, base in zip(layer_names(kinds), windows(config, kinds), bases, strict=True)
    ]  # fmt: skip
    return Draft(layers, model_keys(config))


_WORDS = {"mamba": "mamba", "attention": "attention", "linear_attention": "mamba", "full_attention": "attention"}


@family("granitemoehybrid", architectures=("GraniteMoeHybridForCausalLM",), source=transformers("granitemoehybrid"))
def granitemoehybrid(config: Config) -> Draft:
    """Reads `granitemoehybrid` configs.

    Intermediate_size is the experts' width. Most models of the family have no positions.
    """
    config.choice("normalization_function", of=("rmsnorm",), default=None)
    count = layers_of(config)
    kinds = [_WORDS[word] for word in config.words("layer_types", count, _WORDS)]
    mixers = {"attention": _attention(config)}
    if "mamba" in kinds:
        mixers["mamba"] = mamba2_of_bamba(config)
    config.harmless(*KEYS_OF_BAMBA)
    mlp = _mlp(config)
    return Draft([Layer(kind, mixers[kind], mlp) for kind in kinds], model_keys(config))


def _attention(config: Config) -> Section:
    biased = config.flag("attention_bias", default=False)
    positions = config.choice("position_embedding_type", of=("rope", "nope"), default="nope")
    rotary = {} if positions == "rope" else {"rotary_dim": 0}
    return gqa(*heads(config), qkv_bias=biased, o_bias=biased) | rotary


def _mlp(config: Config) -> Section:
    shared, experts = config.whole("shared_intermediate_size"), config.whole("num_local_experts", low=0)
    if experts == 0:
        config.harmless("num_experts_per_tok", "intermediate_size")
        return gated_mlp(shared)
    experts, chosen = experts_of(config, ("num_local_experts",))
    return moe(experts, chosen, config.whole("intermediate_size"), shared_intermediate_size=shared)
