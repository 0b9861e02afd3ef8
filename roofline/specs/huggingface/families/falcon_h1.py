"""Falcon-H1: attention and Mamba-2 side by side in every layer."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, mamba2, model_keys


@family("falcon_h1", architectures=("FalconH1ForCausalLM",), source=transformers("falcon_h1"))
def falcon_h1(config: Config) -> Draft:
    """Reads `falcon_h1` configs: `mamba_d_ssm` is the width of the state-space part, else `mamba_expand` times the stream's."""
    n_q, n_kv, head_dim = heads(config)
    biased = config.flag("attention_bias", default=False)
    inner = config.whole("mamba_d_ssm", default=None)
    if inner is None:
        inner = config.whole("mamba_expand") * config.whole("hidden_size")
    config.harmless("mamba_expand", "mamba_norm_before_gate", "mamba_use_mlp", "mlp_expansion_factor")
    count = config.whole("mamba_n_heads")
    config.divides(("mamba_n_heads", count), ("the state-space part's width", inner))
    if config.data.get("mamba_d_head") == "auto":
        config.harmless("mamba_d_head")
    elif (given := config.whole("mamba_d_head")) != inner // count:
        config.refuse("mamba_d_head", f"{given} times mamba_n_heads ({count}) is not the state-space part's width ({inner})")
    ssm = mamba2(
        config,
        count,
        inner // count,
        config.whole("mamba_n_groups"),
        config.whole("mamba_d_state"),
        conv_kernel=config.whole("mamba_d_conv"),
        conv_bias=config.flag("mamba_conv_bias"),
        chunk_size=config.whole("mamba_chunk_size"),
    )
    # NB: the class takes another switch for the projection out than for that in.
    into = config.flag("mamba_proj_bias", default=False)
    if into != config.flag("projectors_bias", default=False):
        config.refuse("projectors_bias", "is another than mamba_proj_bias: one switch for both projections is understood")
    normed = config.flag("mamba_rms_norm")
    mixer = {
        **ssm,
        **gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        **({"use_bias": True} if into else {}),
        "mamba_rms_norm": normed,
        "kind": "gqa_and_mamba2",
    }
    mlp = gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False))
    return Draft([Layer("decoder", mixer, mlp)] * layers_of(config), model_keys(config))
