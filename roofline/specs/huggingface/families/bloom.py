"""BLOOM: alibi instead of positions, biases everywhere, and a norm right after the embedding."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.gpt import LAYERNORM, heads_and_width, layers
from roofline.specs.huggingface.sections import gqa, mlp, tied_and_dtype


@family("bloom", architectures=("BloomForCausalLM",), source=transformers("bloom"))
def bloom(config: Config) -> Draft:
    """Reads `bloom` configs: multi-head attention; a feed-forward block four times as wide as the stream."""
    config.harmless("apply_residual_connection_post_layernorm", "slow_but_exact", "offset_alibi")
    config.harmless("bias_dropout_fusion", "masked_softmax_fusion", "skip_bias_add", "skip_bias_add_qkv")
    n_q, head_dim, hidden = heads_and_width(config, "n_embed")
    config.only("n_inner", 4 * hidden, "BLOOM's feed-forward block is four times as wide as the stream")
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, rotary_dim=0, qkv_bias=True, o_bias=True),
        mlp(4 * hidden, bias=True),
    )
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole(
            "seq_length", default=2048, why="alibi has no longest context; BLOOM was trained with this one"
        ),
        "norm": LAYERNORM,
        "embedding_norm": True,
        **tied_and_dtype(config, tie=True),
    }
    return Draft([layer] * layers(config), keys)
