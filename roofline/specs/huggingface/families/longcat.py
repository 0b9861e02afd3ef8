"""LongCat-Flash: two latent attentions and two dense blocks in a layer, whose experts start beside the first dense block.

A layer is read as two: the experts' block has the first dense block as its shared expert, since both read one input; when
their output is added, behind the second dense block, changes no count.
"""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import experts_of, gated_mlp, mla, model_keys, moe, mtp


@family("longcat_flash", architectures=("LongcatFlashForCausalLM",), source=transformers("longcat_flash"))
def longcat_flash(config: Config) -> Draft:
    """Reads `longcat_flash` configs.

    `zero_expert_num` experts return their input: of the experts that the router chooses as many compute as their share.
    """
    config.harmless("attention_method", "mla_scale_q_lora", "mla_scale_kv_lora", "zero_expert_type", "num_hidden_layers")
    config.only("zero_expert_type", "identity", "experts that compute nothing return their input")
    config.off("ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num")
    experts, chosen = experts_of(config, ("n_routed_experts",), ("moe_topk",))
    idle = config.whole("zero_expert_num", default=0, low=0)
    if chosen * experts % (experts + idle):
        config.refuse(
            "moe_topk", f"{chosen} of {experts} experts and {idle} that compute nothing is no whole number of experts"
        )
    working = chosen * experts // (experts + idle)
    if idle:
        config.note("num_experts_per_tok", working, f"in expectation: {chosen} of {experts} experts and {idle} that do nothing")
    dense = config.whole("ffn_hidden_size", "intermediate_size")
    sparse = moe(
        experts, working, config.whole("expert_ffn_hidden_size"), shared_intermediate_size=dense, zero_expert_num=idle,
        router_bias=config.flag("router_bias", default=False),
    )  # fmt: skip
    mtp(config, "num_nextn_predict_layers")
    config.harmless("mtp_num_layers", "mtp_disable_over_tokenizer", "mtp_replace_modules")
    mixer = mla(config)
    count = config.whole("num_layers")
    layers = [Layer("experts", mixer, sparse), Layer("dense", mixer, gated_mlp(dense))] * count
    return Draft(layers, model_keys(config, tie=False, apart={"router_correction_bias": count * (experts + idle)}))
