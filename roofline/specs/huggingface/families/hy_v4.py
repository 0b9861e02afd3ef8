"""HY 4: latent attention with gates, sinks and shared indexers, experts, and residual streams that are not mixed."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, SPARSE, dense_block, listed_blocks
from roofline.specs.huggingface.sections import correction_biases, experts_of, layers_of, mla, model_keys, moe, mtp

_INDEXED = ("indexed_attention", "deepseek_sparse_attention", "sparse_attention", "sparse")


@family("hy_v4", architectures=("HYV4ForCausalLM",), source=transformers("hy_v4"))
def hy_v4(config: Config) -> Draft:
    """Reads `hy_v4` configs.

    Without `indexer_types` the first layer has an indexer, and then the first of each four; the others see the keys that it
    picked. The LM head gives logits in fp32 from weights of the model's dtype, as vLLM has it.
    """
    count = layers_of(config)
    for name in ("enable_ihc", "gated_mla", "learnable_sink"):
        config.only(name, True, "the class has streams of its own, gates and sinks in every layer")
    config.only("gating_type", "elementwise", "the class gates each element")
    config.only("n_group", 1, "experts are chosen from all")
    config.only("topk_group", 1, "experts are chosen from all")
    config.off("mlp_bias")
    config.harmless("learnable_sink_init", "hc_magnitude", "enable_lm_head_fp32", "head_dtype", "indexer_rope_interleave")
    if config.words("layer_types", count, _INDEXED, default=None) is None:
        config.note("layer_types", _INDEXED[0], "the default of the class, where the key is absent")
    indexers = config.words("indexer_types", count, ("full", "shared"), default=None)
    if indexers is None:
        indexers = ["full" if index == 0 or index % 4 == 1 else "shared" for index in range(count)]
        config.note("indexer_types", "full in the first and in each fourth layer after it", "the default of the class")
    if indexers[0] == "shared":
        config.refuse("indexer_types", "the first layer has no earlier one")
    config.whole("q_lora_rank")  # the indexer reads the compressed queries
    mixers = {"shared": mla(config, index_topk=config.whole("index_topk"), output_gate="elementwise", sinks=True)}
    mixers["full"] = {**mixers["shared"], **{name: config.whole(name) for name in ("index_n_heads", "index_head_dim")}}
    blocks = listed_blocks(config, count, lambda: _first_is_dense(config, count))
    experts, chosen = experts_of(config, ("n_routed_experts", "num_local_experts"))
    width = config.whole("moe_intermediate_size")
    feeds = {
        DENSE: dense_block(config, blocks),
        SPARSE: moe(experts, chosen, width, shared_intermediate_size=width * config.whole("n_shared_experts")),
    }
    words = {DENSE: "dense", SPARSE: "moe"}
    layers = [
        Layer(f"{words[block]}_{indexer}", mixers[indexer], feeds[block])
        for block, indexer in zip(blocks, indexers, strict=True)
    ]
    mtp(config, "num_nextn_predict_layers")
    keys = {"hc_mult": config.whole("hc_mult"), "hc_mixing": False, **correction_biases(layers)}
    return Draft(layers, model_keys(config, **keys))


def _first_is_dense(config: Config, count: int) -> list[str]:
    config.note("mlp_layer_types", "the first is dense", "the default of the class, where the key is absent")
    config.only("first_k_dense_replace", 1, "the class has one dense layer, the first")
    return [DENSE] + [SPARSE] * (count - 1)
