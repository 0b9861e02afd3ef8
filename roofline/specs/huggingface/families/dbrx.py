"""DBRX: a mixture of experts whose attention and feed-forward keys stand in objects of their own."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.cohere import LAYERNORM
from roofline.specs.huggingface.sections import experts_of, gqa, head_dim_from_hidden, moe, tied_and_dtype


@family("dbrx", architectures=("DbrxForCausalLM",), source=transformers("dbrx"))
def dbrx(config: Config) -> Draft:
    """Reads `dbrx` configs: grouped-query attention and gated experts, without biases."""
    attention, feed = config.part("attn_config"), config.part("ffn_config")
    attention.harmless("clip_qkv")
    feed.harmless("ffn_act_fn", "moe_loss_weight", "moe_normalize_expert_weights")
    feed.off("uniform_expert_assignment")  # routing that ignores the router, for measurements
    n_q, hidden = config.whole("n_heads"), config.whole("d_model")
    head_dim = head_dim_from_hidden(config, ("n_heads", n_q), ("d_model", hidden))
    n_kv = attention.whole("kv_n_heads")
    config.only("num_key_value_heads", n_kv, "attn_config says kv_n_heads")
    if n_q % n_kv:
        attention.refuse("kv_n_heads", f"{n_kv} must divide n_heads ({n_q})")
    feed.only("hidden_size", hidden, "the width of the stream is d_model")
    experts, top_k = experts_of(feed, ("moe_num_experts",), ("moe_top_k",))
    layer = Layer("decoder", gqa(n_q, n_kv, head_dim), moe(experts, top_k, feed.whole("ffn_hidden_size")))
    config.only("tie_word_embeddings", False, "DBRX has an LM head of its own")
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole("max_seq_len"),
        "norm": LAYERNORM,
        **tied_and_dtype(config, tie=False),
    }
    return Draft([layer] * int(config.whole("n_layers")), keys)
