"""ERNIE 4.5: dense, and with experts from some layer on. One switch for all biases."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import (
    experts_of,
    explicit_kv_heads,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
)


@family("ernie4_5", architectures=("Ernie4_5ForCausalLM",), source=transformers("ernie4_5"))
def ernie4_5(config: Config) -> Draft:
    """Reads `ernie4_5` configs: layers like Llama's, grouped-query attention and a gated MLP."""
    biased = config.flag("use_bias")
    layer = Layer("decoder", _attention(config, biased, 128), gated_mlp(config.whole("intermediate_size"), bias=biased))
    return Draft([layer] * layers_of(config), model_keys(config, tie=True))


@family(
    "ernie4_5_moe",
    architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"),
    source=transformers("ernie4_5_moe"),
)
def ernie4_5_moe(config: Config) -> Draft:
    """Reads `ernie4_5_moe` configs.

    Layers with experts lie between two given ones, `moe_layer_interval` apart; the others are dense.
    """
    config.harmless("moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free", "moe_group")
    mtp(config, "num_nextn_predict_layers")
    config.only("use_bias", False, "the experts of transformers have no biases, where the rest of the model has")
    count = layers_of(config)
    experts, top_k = experts_of(config, ("moe_num_experts", "num_experts"), ("moe_k", "num_experts_per_tok"))
    width, shared = config.whole("moe_intermediate_size"), config.whole("moe_num_shared_experts", low=0)
    # NB: the correction of the router's scores is a parameter of the module here, one for each expert.
    sparse = moe(experts, top_k, width, shared_intermediate_size=shared * width, router_bias=True)
    dense, mixer = gated_mlp(config.whole("intermediate_size")), _attention(config, biased=False, head_dim=None)
    first, last = config.whole("moe_layer_start_index", low=0), config.whole("moe_layer_end_index", low=-1)
    every = config.whole("moe_layer_interval")
    last = count - 1 if last == -1 else last
    chosen = [first <= index <= last and (index + 1) % every == 0 for index in range(count)]
    layers = [Layer("moe", mixer, sparse) if one else Layer("dense", mixer, dense) for one in chosen]
    return Draft(layers, model_keys(config, tie=True))


def _attention(config: Config, biased: bool, head_dim: int | None) -> Section:
    n_q, n_kv, width = heads(config, kv=explicit_kv_heads(config), head_dim=head_dim)
    return gqa(n_q, n_kv, width, qkv_bias=biased, o_bias=biased)
