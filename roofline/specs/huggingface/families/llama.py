"""Llama 1 to 3 and what has its shape but for a bias, an activation or a window: CodeLlama, Yi, Vicuna, TinyLlama, IQuest-
Coder, CWM, Arcee's AFM, Seed-OSS, MiniCPM, Jais 2, Helium, ..."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import FULL, SLIDING, attention_kinds, layer_names, window_width, windows
from roofline.specs.huggingface.sections import (
    explicit_kv_heads,
    gated_mlp,
    gqa,
    head_dim_from_hidden,
    heads,
    layers_of,
    mla,
    mlp,
    model_keys,
)


@family(
    "llama",
    types=("yi", "Yi", "iquestcoder", "telechat3"),
    architectures=(
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "YiForCausalLM",
        "IQuestCoderForCausalLM",
        "TeleChat3ForCausalLM",
    ),
    source=transformers("llama"),
)
def llama(config: Config) -> Draft:
    """Reads `llama` configs.

    One bias switch for the four projections of attention, one for the three of the feed-forward block.
    """
    n_q, n_kv, head_dim = heads(config)
    config.off("clip_qkv", "use_sliding_window")
    # NB: both came with later versions of the class; without them there are none.
    biased, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=mlp_bias),
    )
    return Draft([layer] * layers_of(config), model_keys(config, tie=False))


@family("cwm", architectures=("CwmForCausalLM",), source=transformers("cwm"))
def cwm(config: Config) -> Draft:
    """Reads `cwm` configs: Llama with a window on most layers, and no biases."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config), head_dim=128)
    config.off("attention_bias", "mlp_bias")
    kinds = attention_kinds(config, layers_of(config), (FULL, SLIDING), lambda index: SLIDING if index % 4 else FULL)
    feed = gated_mlp(config.whole("intermediate_size"))
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, sliding_window=width), feed)
        for name, width in zip(layer_names(kinds), windows(config, kinds), strict=True)
    ]
    return Draft(layers, model_keys(config))


@family("helium", architectures=("HeliumForCausalLM",), source=transformers("helium"))
def helium(config: Config) -> Draft:
    """Reads `helium` configs: a bias switch for queries, keys and values, and one for the feed-forward block."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    if n_q * head_dim != config.whole("hidden_size"):
        config.refuse("head_dim", "the class has an output projection of hidden_size rows and columns")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=config.flag("attention_bias")),
        gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False)),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("jais2", architectures=("Jais2ForCausalLM",), source=transformers("jais2"))
def jais2(config: Config) -> Draft:
    """Reads `jais2` configs: layer norms, and a plain feed-forward block."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias")),
    )
    return Draft([layer] * layers_of(config), model_keys(config, norm={"function": "layernorm", "bias": True}))


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


@family("minicpm3", architectures=("MiniCPM3ForCausalLM",), source=transformers("minicpm3"))
def minicpm3(config: Config) -> Draft:
    """Reads `minicpm3` configs: latent attention; a value head is as wide as hidden_size over the heads if nothing says."""
    config.harmless("dim_model_base")
    config.off("mlp_bias")
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    wide = config.whole("v_head_dim", default=None)
    if wide is None:
        config.divides(("num_attention_heads", n_q), ("hidden_size", hidden))
        wide = hidden // n_q
        config.note("v_head_dim", wide, "absent: hidden_size over num_attention_heads")
    layer = Layer("decoder", mla(config, v_head_dim=wide), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), model_keys(config, tie=True))


@family("teleflm", types=("TeleFLM",), architectures=("TeleFLMForCausalLM",), source=vllm("teleflm"))
def teleflm(config: Config) -> Draft:
    """Reads `teleflm` configs: Llama with factors on embedding and logits, which change no count."""
    config.harmless("use_mup", "input_mult", "output_mult")
    return llama.read(config)


@family("solar", architectures=("SolarForCausalLM",), source=vllm("solar"))
def solar(config: Config) -> Draft:
    """Reads `solar` configs (Solar Pro): Llama whose stream is mixed with that of earlier layers, by fixed factors."""
    config.harmless("bskcn_1", "bskcn_2", "bskcn_3", "bskcn_4", "bskcn_tv")
    if window_width(config, config.whole("max_position_embeddings"), default=None) is not None:
        config.refuse("sliding_window", "which layers have the window is not known: one of the longest context is read")
    return llama.read(config)


@family("orion", architectures=("OrionForCausalLM",), source=vllm("orion"))
def orion(config: Config) -> Draft:
    """Reads `orion` configs: Llama with layer norms."""
    config.off("attention_bias", "mlp_bias", "head_dim")
    draft = llama.read(config)
    return Draft(draft.layers, {**draft.keys, "norm": {"function": "layernorm", "bias": True}})


@family("telechat", architectures=("TeleChat2ForCausalLM",), source=vllm("telechat2"))
def telechat2(config: Config) -> Draft:
    """Reads `telechat` configs: biases of the output projection and of the last of the feed-forward block alone."""
    config.off("embed_layernorm", "apply_residual_connection_post_layernorm")
    config.harmless("flash_attn", "logn", "num_key_value_heads", "multi_query_attention")
    hidden, n_q = config.whole("hidden_size"), config.whole("n_head", "num_attention_heads")
    n_kv = config.whole("num_key_value_heads", default=n_q)
    config.divides(("n_head", n_q), ("hidden_size", hidden))
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, hidden // n_q, o_bias=True),
        gated_mlp(config.whole("ffn_hidden_size", "intermediate_size"), down_bias=True),
    )
    positions = config.whole("max_position_embeddings", "seq_length")
    return Draft([layer] * config.whole("n_layer", "num_hidden_layers"), model_keys(config, positions=positions, tie=False))


@family("step1", architectures=("Step1ForCausalLM",), source=vllm("step1"))
def step1(config: Config) -> Draft:
    """Reads `step1` configs: attention with slopes (ALiBi) instead of rotation, and groups of KV heads under another name."""
    n_q = config.whole("num_attention_heads")
    n_kv = config.whole("num_attention_groups", "num_key_value_heads")
    config.divides(("num_attention_groups", n_kv), ("num_attention_heads", n_q))
    biased = config.flag("attention_bias", default=False)
    head_dim = head_dim_from_hidden(config, ("num_attention_heads", n_q), ("hidden_size", config.whole("hidden_size")))
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, rotary_dim=0, qkv_bias=biased, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False)),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("PanguEmbedded", types=("pangu_embedded",), architectures=("PanguEmbeddedForCausalLM",), source=vllm("openpangu"))
def pangu_embedded(config: Config) -> Draft:
    """Reads `PanguEmbedded` configs: Llama; `bias` is for the four projections of attention, `qkv_bias` for three of them."""
    config.off("param_sink_number", "interleaved_sliding_window", "n_routed_experts", "kv_lora_rank", "sandwich_norm")
    config.only("is_causal", True, "text is generated from left to right")
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    biased = config.flag("bias", "attention_bias")
    into = config.flag("qkv_bias", default=biased)
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=into, o_bias=biased),
        gated_mlp(config.whole("intermediate_size"), bias=config.flag("mlp_bias", default=False)),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("bitnet", architectures=("BitNetForCausalLM", "BitnetForCausalLM"), source=transformers("bitnet"))
def bitnet(config: Config) -> Draft:
    """Reads `bitnet` configs: Llama with a norm before the last matrix of each block."""
    n_q, n_kv, head_dim = heads(config, kv=explicit_kv_heads(config))
    if n_q * head_dim != config.whole("hidden_size"):
        config.refuse("head_dim", "the class has a norm of hidden_size elements before the output projection")
    biased = config.flag("attention_bias", default=False)
    config.off("mlp_bias")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, output_norm=True),
        gated_mlp(config.whole("intermediate_size"), inner_norm=True),
    )
    return Draft([layer] * layers_of(config), model_keys(config))


@family("plamo3", architectures=("Plamo3ForCausalLM",), source=vllm("plamo3"))
def plamo3(config: Config) -> Draft:
    """Reads `plamo3` configs: norms around the blocks and of each head; windows are listed layer by layer, null for none."""
    count = layers_of(config)
    listed = config.raw("interleaved_sliding_window", "sliding_window")
    good = isinstance(listed, list) and len(listed) == count
    if not good or not all(width is None or (type(width) is int and width > 0) for width in listed):
        config.refuse("sliding_window", f"must be a list with a width in tokens, or null, for each of the {count} layers")
    kinds = [FULL if width is None else SLIDING for width in listed]
    config.only("layer_types", kinds, "sliding_window has windows on other layers")
    config.harmless("sliding_window_pattern", "rope_local_theta")
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    feed = gated_mlp(config.whole("intermediate_size"))
    layers = [
        Layer(name, gqa(n_q, n_kv, head_dim, sliding_window=width, qk_norm="head"), feed, {"norms": "both"})
        for name, width in zip(layer_names(kinds), listed, strict=True)
    ]
    return Draft(layers, model_keys(config))
