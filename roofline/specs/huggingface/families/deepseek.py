"""DeepSeek-V2 to V3.2, and what has their shape: latent attention, and many small experts of which a few are shared.

V3 (R1, Kimi-K2, Moonlight) adds a correction of the router and multi-token prediction; V3.2 and GLM-5 an indexer, which
picks the keys that a query sees.
"""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import indexers
from roofline.specs.huggingface.sections import (
    correction_biases,
    dense_and_moe,
    explicit_kv_heads,
    gated_mlp,
    gqa,
    heads,
    kinds_of_mlp,
    layers_of,
    listed_kinds_of_mlp,
    mla,
    model_keys,
    mtp,
)


@family("deepseek_v2", architectures=("DeepseekV2ForCausalLM",), source=transformers("deepseek_v2"))
def deepseek_v2(config: Config) -> Draft:
    """Reads `deepseek_v2` configs.

    The router has no correction; the language models of DeepSeek-VL2 do not say whether embeddings are tied. Those of its
    smallest size and of DeepSeek-OCR have plain attention (`use_mla` false), and zeros for the sizes of latent attention.
    """
    latent = config.flag("use_mla", default=True)
    config.choice("topk_method", of=("greedy", "group_limited_greedy"), default=None)  # a router with a correction is V3's
    config.off("mlp_bias", "rm_head")
    config.only("lm_head", True, "what is counted here has an LM head")
    count = layers_of(config)
    mixer = mla(config) if latent else _plain_attention(config)
    layers = dense_and_moe(config, kinds_of_mlp(config, count), [mixer] * count)
    return Draft(layers, model_keys(config, tie=False))


def _plain_attention(config: Config) -> Section:
    config.harmless("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    biased = config.flag("attention_bias", default=False)
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    return gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased)


@family("deepseek_ocr2_text", architectures=("DeepseekOcr2ForConditionalGeneration",), source=transformers("deepseek_ocr2"))
def deepseek_ocr2(config: Config) -> Draft:
    """Reads `deepseek_ocr2_text` configs: DeepSeek-V2's experts with plain attention."""
    config.off("mlp_bias")
    count = layers_of(config)
    layers = dense_and_moe(config, listed_kinds_of_mlp(config, count), [_plain_attention(config)] * count)
    return Draft(layers, model_keys(config, tie=False))


@family(
    "deepseek_v3",
    types=("kimi_k2",),
    architectures=("DeepseekV3ForCausalLM", "MistralLarge3ForCausalLM"),
    source=transformers("deepseek_v3"),
)
def deepseek_v3(config: Config) -> Draft:
    """Reads `deepseek_v3` configs.

    Like DeepSeek-V2, with a correction in the router, and a module for multi-token prediction that is not counted.
    """
    count = layers_of(config)
    layers = dense_and_moe(config, kinds_of_mlp(config, count), [mla(config)] * count)
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    return Draft(layers, model_keys(config, **correction_biases(layers)))


@family("deepseek", architectures=("DeepseekForCausalLM",), source=vllm("deepseek_v2"))
def deepseek(config: Config) -> Draft:
    """Reads `deepseek` configs (DeepSeekMoE 16B): V2's experts behind plain attention without biases."""
    config.off("attention_bias", "q_lora_rank", "kv_lora_rank", "head_dim", "n_group", "topk_group", "rswa_window")
    count = layers_of(config)
    layers = dense_and_moe(config, kinds_of_mlp(config, count), [gqa(*heads(config))] * count)
    return Draft(layers, model_keys(config, tie=False))


@family("axk1", types=("AXK1",), architectures=("AXK1ForCausalLM",), source=transformers("axk1"))
def axk1(config: Config) -> Draft:
    """Reads `axk1` configs: DeepSeek-V3 with a norm behind the experts."""
    count = layers_of(config)
    if not (config.has("first_k_dense_replace") or config.has("mlp_layer_types")):
        config.whole("first_k_dense_replace", low=0)
    mixer = mla(config)
    if "q_lora_rank" not in mixer:
        config.refuse("q_lora_rank", "the class compresses queries")
    layers = [
        Layer(layer.name, layer.mixer, layer.mlp, {"norms": "pre_and_after_mlp"} if layer.name == "moe" else {})
        for layer in dense_and_moe(config, listed_kinds_of_mlp(config, count), [mixer] * count)
    ]
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    return Draft(layers, model_keys(config, **correction_biases(layers)))


@family("youtu", architectures=("YoutuForCausalLM",), source=transformers("youtu"))
def youtu(config: Config) -> Draft:
    """Reads `youtu` configs: DeepSeek's latent attention with a dense feed-forward block in every layer."""
    config.off("mlp_bias")
    layer = Layer("decoder", mla(config), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), model_keys(config))


@family("mistral4", architectures=("Mistral4ForCausalLM",), source=transformers("mistral4"))
def mistral4(config: Config) -> Draft:
    """Reads `mistral4` configs: DeepSeek-V2's latent attention and experts; the router has no correction."""
    count = layers_of(config)
    share = config.fraction("partial_rotary_factor", default=None)
    sizes = {name: config.whole(name) for name in ("qk_rope_head_dim", "qk_nope_head_dim")}
    if share not in (None, 1) and share * sum(sizes.values()) != sizes["qk_rope_head_dim"]:
        config.refuse("partial_rotary_factor", "what is rotated is qk_rope_head_dim, all of it")
    layers = dense_and_moe(config, kinds_of_mlp(config, count), [mla(config, any_share=True)] * count)
    return Draft(layers, model_keys(config))


@family("deepseek_v32", architectures=("DeepseekV32ForCausalLM",), source=transformers("deepseek_v32"))
def deepseek_v32(config: Config) -> Draft:
    """Reads `deepseek_v32` configs: every layer has an indexer of its own."""
    return _indexed(config, ["full"] * layers_of(config))


@family("glm_moe_dsa", architectures=("GlmMoeDsaForCausalLM",), source=transformers("glm_moe_dsa"))
def glm_moe_dsa(config: Config) -> Draft:
    """Reads `glm_moe_dsa` configs.

    From GLM-5.2 on some layers see the keys that the indexer of an earlier layer picked, and have none themselves.
    """
    config.harmless("index_share_for_mtp_iteration")
    return _indexed(config, indexers(config, layers_of(config)))


def _indexed(config: Config, kinds_of_indexers: list[str]) -> Draft:
    config.off("mlp_bias")
    if not all(config.has(name) for name in ("q_lora_rank", "kv_lora_rank")):
        config.whole("q_lora_rank")  # the indexer reads the compressed queries
    config.words("layer_types", len(kinds_of_indexers), ("indexed_attention", "deepseek_sparse_attention"), default=None)
    config.harmless("indexer_rope_interleave")
    own = {name: config.whole(name) for name in ("index_n_heads", "index_head_dim")}
    top = config.whole("index_topk")
    mixers = {"full": mla(config, index_topk=top, **own), "shared": mla(config, index_topk=top)}
    kinds = listed_kinds_of_mlp(config, len(kinds_of_indexers))
    layers = dense_and_moe(config, kinds, [mixers[indexer] for indexer in kinds_of_indexers])
    if "shared" in kinds_of_indexers:
        layers = [
            Layer(f"{layer.name}_{each}", layer.mixer, layer.mlp) for layer, each in zip(layers, kinds_of_indexers, strict=True)
        ]
    mtp(config, "num_nextn_predict_layers")
    return Draft(layers, model_keys(config, **correction_biases(layers)))
