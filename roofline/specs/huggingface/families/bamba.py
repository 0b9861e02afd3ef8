"""Bamba: Mamba-2, with attention in a few layers; half of each head is rotated."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import gated_mlp, gqa, heads, layers_of, stream
from roofline.specs.huggingface.recurrent import mamba2_of_bamba


@family("bamba", architectures=("BambaForCausalLM",), source=transformers("bamba"))
def bamba(config: Config) -> Draft:
    """Which layers have attention is listed; all others have Mamba-2."""
    config.harmless("attn_rotary_emb")  # half of a head, as the class has it, whatever this says
    count = layers_of(config)
    attention = set(config.indices("attn_layer_indices", count))
    n_q, n_kv, head_dim = heads(config)
    biased = config.flag("attention_bias", default=False)
    mixers = {
        True: gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, rotary_dim=head_dim // 2),
        False: mamba2_of_bamba(config),
    }
    mlp = gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False))
    layers = [Layer("attention" if index in attention else "mamba", mixers[index in attention], mlp) for index in range(count)]
    return Draft(layers, stream(config))
