"""Granite 4: Mamba-2 or attention, then experts beside a shared MLP, or that MLP alone."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import experts_of, gated_mlp, gqa, heads, layers_of, moe, stream
from roofline.specs.huggingface.recurrent import KEYS_OF_BAMBA, mamba2_of_bamba

_WORDS = {"mamba": "mamba", "attention": "attention", "linear_attention": "mamba", "full_attention": "attention"}


@family("granitemoehybrid", architectures=("GraniteMoeHybridForCausalLM",), source=transformers("granitemoehybrid"))
def granitemoehybrid(config: Config) -> Draft:
    """intermediate_size is the experts' width. Most models of the family have no positions."""
    config.choice("normalization_function", of=("rmsnorm",), default=None)
    count = layers_of(config)
    kinds = [_WORDS[word] for word in config.words("layer_types", count, _WORDS)]
    mixers = {"attention": _attention(config)}
    if "mamba" in kinds:
        mixers["mamba"] = mamba2_of_bamba(config)
    config.harmless(*KEYS_OF_BAMBA)
    mlp = _mlp(config)
    return Draft([Layer(kind, mixers[kind], mlp) for kind in kinds], stream(config))


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
