"""Baichuan 1 and 2: Llama's shape, multi-head; the 13B models have alibi instead of rotation."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family
from roofline.specs.huggingface.sections import gated_mlp, gqa, head_dim_from_hidden, layers_of, tied_and_dtype


@family(
    "baichuan",
    architectures=("BaichuanForCausalLM", "BaiChuanForCausalLM"),
    source="https://huggingface.co/baichuan-inc/Baichuan2-7B-Base/blob/main/modeling_baichuan.py",
)
def baichuan(config: Config) -> Draft:
    """Reads `baichuan` configs: no biases. Where only model_max_length is given, the code is that of the 13B models."""
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    head_dim = head_dim_from_hidden(config, ("num_attention_heads", n_q), ("hidden_size", hidden))
    rotated = config.has("max_position_embeddings")
    longest = config.whole("max_position_embeddings", default=None)
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, rotary_dim=None if rotated else 0),
        gated_mlp(config.whole("intermediate_size")),
    )
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": longest or config.whole("model_max_length"),
        **tied_and_dtype(config),
    }
    return Draft([layer] * layers_of(config), keys)
