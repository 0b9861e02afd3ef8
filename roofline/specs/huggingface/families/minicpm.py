"""MiniCPM 1B, 2B and 4: Llama's shape; what is scaled changes no count."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family
from roofline.specs.huggingface.parts import gated_mlp, gqa, heads, layers_of, stream


@family(
    "minicpm",
    architectures=("MiniCPMForCausalLM",),
    source="https://huggingface.co/openbmb/MiniCPM-2B-sft-bf16/blob/main/modeling_minicpm.py",
)
def minicpm(config: Config) -> Draft:
    """Dense and with full attention; the models with experts or sparse attention are refused."""
    config.off("num_experts", "num_experts_per_tok", "sparse_config", "attention_bias")
    config.harmless("dim_model_base")
    layer = Layer("decoder", gqa(*heads(config)), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), stream(config, tie=True))
