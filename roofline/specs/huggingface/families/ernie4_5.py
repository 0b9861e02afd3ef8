"""ERNIE 4.5: dense, and with experts from some layer on. One switch for all biases."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.sections import (
    experts_of,
    explicit_kv_heads,
    flat_notes,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
)


@family("ernie4_5", types=("paddleocr_vl_text",), architectures=("Ernie4_5ForCausalLM",), source=transformers("ernie4_5"))
def ernie4_5(config: Config) -> Draft:
    """Reads `ernie4_5` configs, also those of PaddleOCR-VL's language model.

    Layers like Llama's, grouped-query attention and a gated MLP.
    """
    biased = config.flag("use_bias")
    layer = Layer("decoder", _attention(config, biased, 128), gated_mlp(config.whole("intermediate_size"), bias=biased))
    return Draft([layer] * layers_of(config), model_keys(config, tie=True))


@family(
    "ernie4_5_moe",
    architectures=("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"),
    source=transformers("ernie4_5_moe"),
)
def ernie4_5_moe(config: Config) -> Draft:
    """Reads `ernie4_5_moe` configs.

    Layers with experts lie between two given ones, `moe_layer_interval` apart; the others are dense.
    """
    config.harmless("moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free", "moe_group")
    mtp(config, "num_nextn_predict_layers")
    config.only("use_bias", False, "the experts of transformers have no biases, where the rest of the model has")
    count = layers_of(config)
    experts, top_k = experts_of(config, ("moe_num_experts", "num_experts"), ("moe_k", "num_experts_per_tok"))
    width, shared = config.whole("moe_intermediate_size"), config.whole("moe_num_shared_experts", low=0)
    # NB: the correction of the router's scores is a parameter of the module here, one for each expert.
    sparse = moe(experts, top_k, width, shared_intermediate_size=shared * width, router_bias=True)
    dense, mixer = gated_mlp(config.whole("intermediate_size")), _attention(config, biased=False, head_dim=None)
    first, last = config.whole("moe_layer_start_index", low=0), config.whole("moe_layer_end_index", low=-1)
    every = config.whole("moe_layer_interval")
    last = count - 1 if last == -1 else last
    chosen = [first <= index <= last and (index + 1) % every == 0 for index in range(count)]
    layers = [Layer("moe", mixer, sparse) if one else Layer("dense", mixer, dense) for one in chosen]
    return Draft(layers, model_keys(config, tie=True))


@family(
    "ernie4_5_vl_moe_text",
    types=("ernie4_5_moe_vl",),
    architectures=("Ernie4_5_VLMoeForConditionalGeneration",),
    source=transformers("ernie4_5_vl_moe"),
)
def ernie4_5_vl_moe(config: Config) -> Draft:
    """Reads `ernie4_5_vl_moe_text` configs, and the flat `ernie4_5_moe_vl` ones of the first publication.

    Layers with experts have two sets of them, for tokens of text and of images; shared ones work on both. Those of images
    are apart: no token of text uses them.
    """
    config.harmless(
        "moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free", "moe_group", "moe_multimodal_paired_experts"
    )
    config.off("use_bias")
    count, hidden = layers_of(config), config.whole("hidden_size")
    widths, experts = _pair(config, "moe_intermediate_size"), _pair(config, "moe_num_experts", "num_experts")
    top_k = config.whole("moe_k", "num_experts_per_tok")
    if top_k > min(experts):
        config.refuse("moe_k", f"{top_k} is more than the {min(experts)} experts")
    shared = config.whole("moe_num_shared_experts", low=0)
    text = moe(experts[0], top_k, widths[0], shared_intermediate_size=shared * widths[0], router_bias=True)
    dense, mixer = gated_mlp(config.whole("intermediate_size")), _attention(config, biased=False, head_dim=None)
    sparse, sighted = _with_experts(config, count)
    image = experts[1] * (3 * hidden * widths[1] + hidden + 1)  # with the router and its correction
    layers = [Layer("moe", mixer, text) if one else Layer("dense", mixer, dense) for one in sparse]
    keys = model_keys(config, tie=True, apart={"vision_experts": sum(sighted) * image})
    return Draft(layers, keys, flat_notes(config))


def _pair(config: Config, *names: str) -> tuple[int, int]:
    """A number for the experts of text and of images, or a list of two."""
    value = config.raw(*names)
    pair = value if isinstance(value, list) else [value, value]
    if len(pair) != 2 or not all(isinstance(one, int) and not isinstance(one, bool) and 0 < one < 2**31 for one in pair):
        config.refuse(names[0], f"must be a whole number above 0, or two of them (text, images), not {value!r:.60}")
    return pair[0], pair[1]


def _with_experts(config: Config, count: int) -> tuple[list[bool], list[bool]]:
    """Whether each layer has experts for text, and for images: as listed, or between two layers for each."""
    if listed := config.words("mlp_layer_types", count, ("dense", "sparse"), default=None):
        chosen = [word == "sparse" for word in listed]
        return chosen, chosen
    first, last = config.raw("moe_layer_start_index"), config.raw("moe_layer_end_index")
    config.only("moe_layer_interval", 1, "the layers with experts are neighbours in this family")
    firsts, lasts = (one if isinstance(one, list) else [one, one] for one in (first, last))
    for name, pair in (("moe_layer_start_index", firsts), ("moe_layer_end_index", lasts)):
        if len(pair) != 2 or not all(isinstance(one, int) and not isinstance(one, bool) and one >= -1 for one in pair):
            config.refuse(name, f"must be a whole number, or two of them (text, images), not {pair!r:.60}")
    spans = [(start, count - 1 if end == -1 else end) for start, end in zip(firsts, lasts, strict=True)]
    text, image = ([start <= index <= end for index in range(count)] for start, end in spans)
    if any(seen and not read for seen, read in zip(image, text, strict=True)):
        config.refuse("moe_layer_start_index", "a layer has experts for images and none for text, which is not understood")
    return text, image


def _attention(config: Config, biased: bool, head_dim: int | None) -> Section:
    n_q, n_kv, width = heads(config, kv=explicit_kv_heads(config), head_dim=head_dim)
    return gqa(n_q, n_kv, width, qkv_bias=biased, o_bias=biased)
