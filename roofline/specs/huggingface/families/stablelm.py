"""StableLM 3B, 2 and 2 12B: partly rotated heads, layer norms, and in the 12B both blocks side by side under one norm."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.gpt import LAYERNORM
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, model_keys, rotary


@family(
    "stablelm",
    types=("stablelm_epoch",),
    architectures=("StableLmForCausalLM", "StableLMEpochForCausalLM"),
    source=transformers("stablelm"),
)
def stablelm(config: Config) -> Draft:
    """Reads `stablelm` configs: biases of queries, keys and values where switched on, none elsewhere."""
    why = "the default of the class, where the key is absent"
    biased = config.flag("use_qkv_bias", default=False, why=why)
    norm: Section = {}
    if config.flag("qk_layernorm", default=False, why=why):
        norm = {"qk_norm": "full", "qk_norm_function": "layernorm"}  # each head has weights of its own
    n_q, n_kv, head_dim = heads(config)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, **rotary(config, head_dim, 0.25, "rope_pct"), qkv_bias=biased, **norm),
        gated_mlp(config.whole("intermediate_size")),
        {"parallel": True} if config.flag("use_parallel_residual", default=False, why=why) else {},
    )
    return Draft([layer] * layers_of(config), model_keys(config, norm=LAYERNORM))
