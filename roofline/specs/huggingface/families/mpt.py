"""MPT: alibi instead of positions, layer norms without biases, no biases elsewhere."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.cohere import LAYERNORM
from roofline.specs.huggingface.sections import gqa, head_dim_from_hidden, mlp, tied_and_dtype


@family("mpt", architectures=("MptForCausalLM", "MPTForCausalLM"), source=transformers("mpt"))
def mpt(config: Config) -> Draft:
    """Reads `mpt` configs: what MosaicML published; its code could build more, which transformers does not."""
    attention = config.part("attn_config")
    attention.harmless("alibi_bias_max", "attn_impl", "attn_uses_sequence_id", "clip_qkv", "softmax_scale")
    attention.only("attn_type", "multihead_attention", "the KV heads of another kind of attention are not known here")
    attention.only("alibi", True, "without alibi there is a learned table of positions")
    attention.off("qk_ln", "prefix_lm", "rope", "sliding_window_size")
    config.harmless("learned_pos_emb", "embedding_fraction", "init_config", "verbose")  # alibi has no learned positions
    config.only("no_bias", True, "MPT is known here without biases")
    config.only("expansion_ratio", 4, "MPT's feed-forward block is four times as wide as the stream")
    config.choice("norm_type", of=("low_precision_layernorm", "layernorm"), default=None)
    n_q, hidden = config.whole("n_heads"), config.whole("d_model")
    head_dim = head_dim_from_hidden(config, ("n_heads", n_q), ("d_model", hidden))
    layer = Layer("decoder", gqa(n_q, n_q, head_dim, rotary_dim=0), mlp(4 * hidden))
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole("max_seq_len"),
        "norm": LAYERNORM,
        **tied_and_dtype(config, tie=True),
    }
    return Draft([layer] * int(config.whole("n_layers")), keys)
