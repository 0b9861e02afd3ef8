"""GLM-4.7-Flash: DeepSeek-V3's attention and experts, at other widths."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.latent import correction_biases, dense_and_moe, listed_kinds_of_mlp, mla
from roofline.specs.huggingface.parts import layers_of, mtp, stream


@family("glm4_moe_lite", architectures=("Glm4MoeLiteForCausalLM",), source=transformers("glm4_moe_lite"))
def glm4_moe_lite(config: Config) -> Draft:
    """The first layer is dense unless `mlp_layer_types` says otherwise; the class does not look at another count."""
    if not config.has("mlp_layer_types"):
        config.only("first_k_dense_replace", 1, "the class has one dense layer, the first")
    count = layers_of(config)
    layers = dense_and_moe(config, listed_kinds_of_mlp(config, count), [mla(config)] * count)
    mtp(config, "num_nextn_predict_layers")
    return Draft(layers, stream(config, **correction_biases(layers)))
