"""Nemotron 3 and 4 and Minitron: a plain feed-forward block with a squared ReLU, and layer norms around one."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.gpt2 import LAYERNORM
from roofline.specs.huggingface.parts import gqa, heads, layers_of, mlp, rotary, stream


@family("nemotron", architectures=("NemotronForCausalLM",), source=transformers("nemotron"))
def nemotron(config: Config) -> Draft:
    """One bias switch for the four projections of attention, one for the two of the feed-forward block."""
    n_q, n_kv, head_dim = heads(config, widths=("head_dim", "kv_channels"))
    why = "the default of the class, which came after Minitron"
    biased = config.flag("attention_bias", default=False, why=why)
    share = rotary(config, head_dim, 0.5, "rope_percent", "rotary_percent", "rotary_percentage")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, **share, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False, why=why)),
    )
    return Draft([layer] * layers_of(config), stream(config, norm=LAYERNORM))
