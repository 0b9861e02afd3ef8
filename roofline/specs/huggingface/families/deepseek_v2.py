"""DeepSeek-V2: latent attention, and many small experts of which a few are shared. DeepSeek-VL2 and OCR hold it too."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.latent import dense_and_moe, kinds_of_mlp, mla
from roofline.specs.huggingface.parts import layers_of, stream


@family("deepseek_v2", architectures=("DeepseekV2ForCausalLM",), source=transformers("deepseek_v2"))
def deepseek_v2(config: Config) -> Draft:
    """The router has no correction; the language models of DeepSeek-VL2 do not say whether embeddings are tied."""
    config.only("use_mla", True, "without latent attention it is the family of DeepSeek-V1's experts, which has no reader")
    config.choice("topk_method", of=("greedy", "group_limited_greedy"), default=None)  # a router with a correction is V3's
    config.off("mlp_bias", "rm_head")
    config.only("lm_head", True, "what is counted here has an LM head")
    count = layers_of(config)
    layers = dense_and_moe(config, kinds_of_mlp(config, count), [mla(config)] * count)
    return Draft(layers, stream(config, tie=False))
