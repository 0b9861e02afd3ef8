"""Llama 1 to 3 and what has its shape but for a bias or an activation: CodeLlama, Yi, Vicuna, TinyLlama, Arcee's AFM, Seed-
OSS, MiniCPM, ..."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, mlp, model_keys


@family("llama", types=("yi", "Yi"), architectures=("LlamaForCausalLM", "YiForCausalLM"), source=transformers("llama"))
def llama(config: Config) -> Draft:
    """Reads `llama` configs.

    One bias switch for the four projections of attention, one for the three of the feed-forward block.
    """
    n_q, n_kv, head_dim = heads(config)
    # NB: both came with later versions of the class; without them there are none.
    biased, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=mlp_bias),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("arcee", architectures=("ArceeForCausalLM",), source=transformers("arcee"))
def arcee(config: Config) -> Draft:
    """Reads `arcee` configs.

    One bias switch for the four projections of attention, one for the two of the feed-forward block.
    """
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("seed_oss", architectures=("SeedOssForCausalLM",), source=transformers("seed_oss"))
def seed_oss(config: Config) -> Draft:
    """Reads `seed_oss` configs: `attention_bias` is for queries, keys and values."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config), head_dim=128)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=config.flag("attention_bias"), o_bias=config.flag("attention_out_bias")),
        gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family(
    "minicpm",
    architectures=("MiniCPMForCausalLM",),
    source="https://huggingface.co/openbmb/MiniCPM-2B-sft-bf16/blob/main/modeling_minicpm.py",
)
def minicpm(config: Config) -> Draft:
    """Reads `minicpm` configs: dense and with full attention; the models with experts or sparse attention are refused."""
    config.off("num_experts", "num_experts_per_tok", "sparse_config", "attention_bias")
    config.harmless("dim_model_base")
    layer = Layer("decoder", gqa(*heads(config)), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), model_keys(config, tie=True))
