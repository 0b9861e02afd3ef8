"""GLM-5.3-Flash (GLM-5-Next): Kimi Delta Attention, latent attention to pools of keys, experts, several residual streams."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, SPARSE, dense_block, indexers, listed_blocks
from roofline.specs.huggingface.sections import correction_biases, experts_of, layers_of, mla, model_keys, moe, mtp

_DELTA, _LATENT = "linear_attention", "indexed_attention"
_WORDS = {_DELTA: _DELTA, _LATENT: _LATENT, "full_attention": _LATENT}
_DENSE_LAYERS = 3


@family(
    "glm5_next_text",
    architectures=("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration"),
    source=transformers("glm5_next"),
)
def glm5_next(config: Config) -> Draft:
    """Reads `glm5_next_text` configs: three delta layers, and one with latent attention, which is not rotated.

    The final norm reads the mean of the streams. What an indexer scores is one key for each pool of `index_kpool` tokens; the
    tokens after the last whole pool are always seen.
    """
    count = layers_of(config)
    config.only("index_kpool_always_select_tail", True, "engines always see the keys that are in no whole pool yet")
    config.only("qk_rope_head_dim", 0, "the class has no positions in its attention")
    config.only("num_key_value_heads", config.whole("num_attention_heads"), "the class has as many as query heads")
    config.off("mlp_bias")
    words = config.words("layer_types", count, _WORDS, default=None)
    if words is None:
        config.note("layer_types", "each fourth is indexed_attention", "the default of the class, where the key is absent")
        words = [_LATENT if index % 4 == 3 else _DELTA for index in range(count)]
    kinds = [_WORDS[word] for word in words]
    own = indexers(config, count, lambda index: kinds[index] == _LATENT)
    mixers = {_DELTA: _delta(config), **_latent(config)}
    blocks = listed_blocks(config, count, lambda: _first_are_dense(config, count))
    experts, chosen = experts_of(config, ("n_routed_experts", "num_local_experts"))
    width = config.whole("moe_intermediate_size")
    limited = {name: config.whole(name, default=1) for name in ("n_group", "topk_group")}
    feeds = {
        DENSE: dense_block(config, blocks),
        SPARSE: moe(
            experts, chosen, width, shared_intermediate_size=width * config.whole("n_shared_experts"),
            **(limited if limited["topk_group"] < limited["n_group"] else {}),
        ),
    }  # fmt: skip
    words_of_blocks = {DENSE: "dense", SPARSE: "moe"}
    layers = []
    for kind, indexer, block in zip(kinds, own, blocks, strict=True):
        name = "kda" if kind == _DELTA else f"mla_{indexer}"
        layers.append(Layer(f"{name}_{words_of_blocks[block]}", mixers[kind if kind == _DELTA else indexer], feeds[block]))
    mtp(config, "num_nextn_predict_layers")
    streams = {name: config.whole(name) for name in ("hc_mult", "hc_sinkhorn_iters")}
    return Draft(layers, model_keys(config, **streams, hc_head="mean", **correction_biases(layers)))


def _latent(config: Config) -> dict[str, Section]:
    """Sections of latent attention with an indexer ("full"), and with the choice of an earlier one ("shared")."""
    config.whole("q_lora_rank")  # the indexer reads the compressed queries
    config.harmless("qk_rope_head_dim")
    sizes = {name: config.whole(name) for name in ("index_topk", "index_kpool")}
    config.divides(("index_kpool", sizes["index_kpool"]), ("index_topk", sizes["index_topk"]))
    if sizes["index_kpool"] == 1:
        del sizes["index_kpool"]
        config.refuse("index_kpool", "1 makes pools of one key, with weights that are not understood")
    section = mla(config, rotated=0, **sizes)
    return {
        "shared": section,
        "full": {**section, **{name: config.whole(name) for name in ("index_n_heads", "index_head_dim")}},
    }


def _delta(config: Config) -> Section:
    """Sizes of the delta layers: beside the others, or in a part of their own, which then counts."""
    keys = {"linear_num_heads": "num_heads", "linear_head_dim": "head_dim", "linear_conv_kernel_dim": "short_conv_kernel_size"}
    inner = config.part("linear_attn_config", default=None)
    config.harmless("linear_lower_bound")
    if inner is None:
        return {"kind": "kda", **{name: config.whole(name) for name in keys}}
    inner.harmless("gate_lower_bound", "safe_gate", "kda_layers", "full_attn_layers")
    config.harmless(*keys)
    return {"kind": "kda", **{name: inner.whole(spelled) for name, spelled in keys.items()}}


def _first_are_dense(config: Config, count: int) -> list[str]:
    config.note("mlp_layer_types", "the first three are dense", "the default of the class, where the key is absent")
    config.only("first_k_dense_replace", _DENSE_LAYERS, "the class has three dense layers, the first")
    return [DENSE] * min(_DENSE_LAYERS, count) + [SPARSE] * (count - _DENSE_LAYERS)
