"""InternLM 1 to 3: Llama's shape, each with switches of its own for biases."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family
from roofline.specs.huggingface.sections import explicit_kv_heads, gated_mlp, gqa, heads, layers_of, model_keys


@family(
    "internlm",
    architectures=("InternLMForCausalLM",),
    source="https://huggingface.co/internlm/internlm-7b/blob/main/modeling_internlm.py",
)
def internlm(config: Config) -> Draft:
    """Reads `internlm` configs: multi-head; `bias` is for the four projections of attention."""
    config.harmless("rotary")
    config.off("num_key_value_heads", "head_dim")
    n_q, n_kv, head_dim = heads(config, kv=config.whole("num_attention_heads"))
    return _decoder(config, (n_q, n_kv, head_dim), config.flag("bias"))


@family(
    "internlm2",
    architectures=("InternLM2ForCausalLM",),
    source="https://huggingface.co/internlm/internlm2-7b/blob/main/modeling_internlm2.py",
)
def internlm2(config: Config) -> Draft:
    """Reads `internlm2` configs: grouped-query attention; `bias` is for its four projections."""
    return _decoder(config, heads(config, kv=explicit_kv_heads(config)), config.flag("bias"))


@family(
    "internlm3",
    architectures=("InternLM3ForCausalLM",),
    source="https://huggingface.co/internlm/internlm3-8b-instruct/blob/main/modeling_internlm3.py",
)
def internlm3(config: Config) -> Draft:
    """Reads `internlm3` configs.

    `qkv_bias` for queries, keys and values, `bias` for the output projection and the feed-forward block.
    """
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("bias", "mlp_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=config.flag("qkv_bias", "attention_bias"), o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=biased),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


def _decoder(config: Config, sizes: tuple[int, int, int], biased: bool) -> Draft:
    layer = Layer("decoder", gqa(*sizes, qkv_bias=biased, o_bias=biased), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), model_keys(config))
