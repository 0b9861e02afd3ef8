"""LongCat-Flash: two latent attentions and two dense blocks in a layer, whose experts start beside the first dense block.

A layer is read as two: the experts' block has the first dense block as its shared expert, since both read one input; when
their output is added, behind the second dense block, changes no count.
"""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import experts_of, gated_mlp, mla, model_keys, moe, mtp, of_class


@family(
    "longcat_flash",
    types=("longcat_flash_ngram",),
    architectures=("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM"),
    source=transformers("longcat_flash"),
)
def longcat_flash(config: Config) -> Draft:
    """Reads `longcat_flash` configs.

    `zero_expert_num` experts return their input: of the experts that the router chooses as many compute as their share.
    With `ngram_vocab_size_ratio` (LongCat-Flash-Lite) tokens have embeddings of the n-grams that they end.
    """
    config.harmless("attention_method", "mla_scale_q_lora", "mla_scale_kv_lora", "zero_expert_type", "num_hidden_layers")
    config.only("zero_expert_type", "identity", "experts that compute nothing return their input")
    experts, chosen = experts_of(config, ("n_routed_experts",), ("moe_topk",))
    idle = config.whole("zero_expert_num", default=0, low=0, why="the default of the class")
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
    keys = model_keys(config, tie=False, apart={"router_correction_bias": count * (experts + idle)})
    return Draft(layers, {**keys, **_ngrams(config)})


def _ngrams(config: Config) -> Section:
    """The tables of n-gram embeddings: `emb_split_num` for each length from two tokens to `emb_neighbor_num`.

    Their rows differ, so that hashes do: ratio x vocab_size + 2 i + 1 in table i, from 0.

    Source: https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/longcat_flash_ngram.py
    """
    named = config.data.get("model_type") == "longcat_flash_ngram" or of_class(config, "LongcatFlashNgramForCausalLM")
    if not named and not config.has("ngram_vocab_size_ratio"):
        config.off("ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num")
        return {}
    rows = config.whole("ngram_vocab_size_ratio") * config.whole("vocab_size")
    tables = config.whole("emb_split_num") * (config.whole("emb_neighbor_num", low=2) - 1)
    config.divides(("emb_split_num", tables), ("hidden_size", config.whole("hidden_size")))
    return {"ngram_embedders": tables, "ngram_rows": sum(rows + 2 * index + 1 for index in range(tables))}
