"""DeepSeek-V3 and R1, and what has their shape: Kimi-K2 (alone, or inside Kimi-K2.5 and Kimi-VL), Moonlight, ..."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.latent import correction_biases, dense_and_moe, kinds_of_mlp, mla
from roofline.specs.huggingface.parts import layers_of, mtp, stream


@family("deepseek_v3", types=("kimi_k2",), architectures=("DeepseekV3ForCausalLM",), source=transformers("deepseek_v3"))
def deepseek_v3(config: Config) -> Draft:
    """As DeepSeek-V2, with a correction in the router, and a module for multi-token prediction that stands apart."""
    count = layers_of(config)
    layers = dense_and_moe(config, kinds_of_mlp(config, count), [mla(config)] * count)
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    return Draft(layers, stream(config, **correction_biases(layers)))
