"""What checkpoints call the weights of a model: as Llama does, but for what a family calls otherwise.

Keys are those of `weights`. Several keys with one name are one tensor, in that order. In a layer, names start behind that
of the layer; `{i}` is its number, `{e}` an expert's (without it the experts' matrices are one tensor), `{h}` a head's.
Sources: the checkpoints on https://huggingface.co, and transformers, which knows both their names and its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorName:
    """A name, and how the tensor lies where it is no matrix with its outputs first, called NAME.weight."""

    name: str
    inputs_first: bool = False
    bare: bool = False
    """A parameter of its own: nothing is written behind the name, and the bias is NAME_bias."""
    flat: bool = False
    """The experts' matrices stand below each other, as one matrix."""
    bias: str = ""
    """The name of the bias, where it is another than NAME.bias."""


Place = str | TensorName
Names = dict[str, Place]


def _bare(name: str) -> TensorName:
    return TensorName(name, bare=True)


def _all(prefix: str, **words: str) -> Names:
    """Keys that share the start of their names. An underscore stands for the first dot of a key."""
    return {key.replace("_", ".", 1): f"{prefix}{word}" for key, word in words.items()}


LLAMA: Names = {
    "layer": "model.layers.{i}",
    "embedding": "model.embed_tokens",
    "positions": "model.embed_positions",
    "embedding_norm": "model.embed_layernorm",
    "project_in": "model.project_in",
    "project_out": "model.project_out",
    "final_norm": "model.norm",
    "lm_head": "lm_head",
    "lm_head_bias": _bare("lm_head.bias"),
    "per_layer.embedding": "model.embed_tokens_per_layer",
    "per_layer.projection_of_stream": "model.per_layer_model_projection",
    "per_layer.norm_of_stream": "model.per_layer_projection_norm",
    "per_layer.gate": "per_layer_input_gate",
    "per_layer.projection": "per_layer_projection",
    "per_layer.norm": "post_per_layer_input_norm",
    "norm.pre.before_mixer": "input_layernorm",
    "norm.pre.before_mlp": "post_attention_layernorm",
    "norm.both.before_mixer": "input_layernorm",
    "norm.both.after_mixer": "post_attention_layernorm",
    "norm.both.before_mlp": "pre_feedforward_layernorm",
    "norm.both.after_mlp": "post_feedforward_layernorm",
    "norm.post.after_mixer": "post_attention_layernorm",
    "norm.post.after_mlp": "post_feedforward_layernorm",
    "norm.parallel": "input_layernorm",
    "norm.parallel.mixer": "input_layernorm",
    "norm.parallel.mlp": "post_attention_layernorm",
    **_all("self_attn.", attention_q="q_proj", attention_k="k_proj", attention_v="v_proj", attention_o="o_proj"),
    **_all("self_attn.", attention_gate="g_proj", attention_q_norm="q_norm", attention_k_norm="k_norm"),
    "attention.sinks": _bare("self_attn.sinks"),
    "attention.q_gate": "self_attn.q_proj",
    **_all("self_attn.", mla_q="q_proj", mla_q_a="q_a_proj", mla_q_a_norm="q_a_layernorm", mla_q_b="q_b_proj"),
    **_all("self_attn.", mla_kv_a="kv_a_proj_with_mqa", mla_kv_a_norm="kv_a_layernorm", mla_kv_b="kv_b_proj"),
    **_all("self_attn.", mla_gate="g_proj", mla_o="o_proj"),
    **_all("self_attn.indexer.", indexer_q_b="wq_b", indexer_k="wk", indexer_k_norm="k_norm", indexer_weights="weights_proj"),
    **_all("linear_attn.", delta_qkv="in_proj_qkvz", delta_z="in_proj_qkvz", delta_b="in_proj_ba", delta_a="in_proj_ba"),
    **_all("linear_attn.", delta_conv="conv1d", delta_norm="norm", delta_out="out_proj"),
    "delta.A_log": _bare("linear_attn.A_log"),
    "delta.dt_bias": _bare("linear_attn.dt_bias"),
    **_all("self_attn.", linear_mixer="linear_attn"),
    **_all("mlp.", linear_mlp="linear_mlp", mlp_gate="gate_proj", mlp_up="up_proj", mlp_down="down_proj"),
    "router": "mlp.gate",
    **_all("mlp.experts.{e}.", experts_gate="gate_proj", experts_up="up_proj", experts_down="down_proj"),
    **_all("mlp.shared_experts.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj"),
    "shared.gate_of_output": "mlp.shared_expert_gate",
}

_W123 = {"experts.gate": "w1", "experts.up": "w3", "experts.down": "w2"}
_SPARSE: Names = {
    "router": "block_sparse_moe.gate",
    **{key: f"block_sparse_moe.experts.{{e}}.{word}" for key, word in _W123.items()},
}
_SHARED_EXPERT: Names = _all("mlp.shared_expert.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj")
_GATE_UP: Names = _all("mlp.", mlp_gate="gate_up_proj", mlp_up="gate_up_proj")
_GLM4_NORMS: Names = {
    "norm.both.after_mixer": "post_self_attn_layernorm",
    "norm.both.before_mlp": "post_attention_layernorm",
    "norm.both.after_mlp": "post_mlp_layernorm",
}
_FEED_FORWARD: Names = _all("feed_forward.", mlp_gate="gate_proj", mlp_up="up_proj", mlp_down="down_proj")


def _mamba(prefix: str) -> Names:
    words = {"mamba.in": "in_proj", "mamba.conv": "conv1d", "mamba.x": "x_proj", "mamba.dt": "dt_proj", "mamba.norm": "norm"}
    words |= {"mamba.out": "out_proj", **{f"mamba.{name}_norm": f"{name}_layernorm" for name in ("dt", "b", "c")}}
    bare = {f"mamba.{name}": _bare(f"{prefix}.{name}") for name in ("A_log", "D", "dt_bias")}
    return {**{key: f"{prefix}.{word}" for key, word in words.items()}, **bare}


def _stacked(prefix: str, *, inputs_first: bool = False) -> Names:
    """Experts as two tensors, gate and up in one of them."""
    up = TensorName(f"{prefix}.gate_up_proj", inputs_first=inputs_first, bare=True)
    return {"experts.gate": up, "experts.up": up, "experts.down": TensorName(f"{prefix}.down_proj", inputs_first, bare=True)}


def _qkv(name: str, *, inputs_first: bool = False) -> Names:
    return {f"attention.{part}": TensorName(name, inputs_first) for part in "qkv"}


_TRANSFORMER: Names = {
    "layer": "transformer.h.{i}",
    "embedding": "transformer.wte",
    "positions": "transformer.wpe",
    "final_norm": "transformer.ln_f",
    "norm.pre.before_mixer": "ln_1",
    "norm.pre.before_mlp": "ln_2",
    "norm.parallel": "ln_1",
}
_BIGCODE: Names = {
    **_TRANSFORMER,
    **_qkv("attn.c_attn"),
    "attention.o": "attn.c_proj",
    "mlp.up": "mlp.c_fc",
    "mlp.down": "mlp.c_proj",
}
_MEGATRON: Names = {"mlp.up": "mlp.dense_h_to_4h", "mlp.down": "mlp.dense_4h_to_h"}
_FALCON: Names = {
    **_TRANSFORMER,
    **_MEGATRON,
    **_qkv("self_attention.query_key_value"),
    "embedding": "transformer.word_embeddings",
    "embedding_norm": "transformer.word_embeddings_layernorm",
    "attention.o": "self_attention.dense",
    "norm.pre.before_mixer": "input_layernorm",
    "norm.pre.before_mlp": "post_attention_layernorm",
    "norm.parallel": "input_layernorm",
    "norm.parallel.mixer": "ln_attn",
    "norm.parallel.mlp": "ln_mlp",
}
_MOLMO: Names = {
    "layer": "model.transformer.blocks.{i}",
    "embedding": _bare("model.transformer.wte.embedding"),
    "final_norm": "model.transformer.ln_f",
    "lm_head": "model.transformer.ff_out",
    "norm.pre.before_mixer": "attn_norm",
    "norm.pre.before_mlp": "ff_norm",
    "norm.post.after_mixer": "attn_norm",
    "norm.post.after_mlp": "ff_norm",
    **_qkv("att_proj"),
    "attention.o": "attn_out",
    "attention.q_norm": "q_norm",
    "attention.k_norm": "k_norm",
    "mlp.up": "ff_proj",  # the first half, and the gate the second
    "mlp.gate": "ff_proj",
    "mlp.down": "ff_out",
}
_MPT: Names = {
    "layer": "transformer.blocks.{i}",
    "embedding": "transformer.wte",
    "positions": "transformer.wpe",
    "final_norm": "transformer.norm_f",
    "norm.pre.before_mixer": "norm_1",
    "norm.pre.before_mlp": "norm_2",
    **_qkv("attn.Wqkv"),
    "attention.o": "attn.out_proj",
    "mlp.up": "ffn.up_proj",
    "mlp.down": "ffn.down_proj",
}
_DBRX: Names = {
    **_MPT,
    "norm.pre.before_mixer": "norm_attn_norm.norm_1",
    "norm.pre.before_mlp": "norm_attn_norm.norm_2",
    **_qkv("norm_attn_norm.attn.Wqkv"),
    "attention.o": "norm_attn_norm.attn.out_proj",
    "router": "ffn.router.layer",
    "experts.gate": TensorName("ffn.experts.mlp.w1", bare=True, flat=True),
    "experts.up": TensorName("ffn.experts.mlp.v1", bare=True, flat=True),
    "experts.down": TensorName("ffn.experts.mlp.w2", inputs_first=True, bare=True, flat=True),
}
_NEOX: Names = {
    **_MEGATRON,
    "layer": "gpt_neox.layers.{i}",
    "embedding": "gpt_neox.embed_in",
    "final_norm": "gpt_neox.final_layer_norm",
    "lm_head": "embed_out",
    **_qkv("attention.query_key_value"),
    "attention.o": "attention.dense",
}
_OPT: Names = {
    "layer": "model.decoder.layers.{i}",
    **_all("model.decoder.", embedding="embed_tokens", positions="embed_positions"),
    "project_in": "model.decoder.project_in",
    "project_out": "model.decoder.project_out",
    "final_norm": "model.decoder.final_layer_norm",
    "norm.pre.before_mixer": "self_attn_layer_norm",
    "norm.pre.before_mlp": "final_layer_norm",
    "norm.post.after_mixer": "self_attn_layer_norm",
    "norm.post.after_mlp": "final_layer_norm",
    "attention.o": "self_attn.out_proj",
    "mlp.up": "fc1",
    "mlp.down": "fc2",
}
_BACKBONE: Names = {
    "layer": "backbone.layers.{i}",
    "embedding": "backbone.embeddings",
    "final_norm": "backbone.norm_f",
    "norm.pre.before_mixer": "norm",
    "norm.pre.before_mlp": "norm",
    **_mamba("mixer"),
}
_NEMOTRON_H: Names = {
    **_BACKBONE,
    **_all("mixer.", attention_q="q_proj", attention_k="k_proj", attention_v="v_proj", attention_o="o_proj"),
    **_all("mixer.", mlp_up="up_proj", mlp_down="down_proj", latent_down="fc1_latent_proj", latent_up="fc2_latent_proj"),
    "router": "mixer.gate",
    **_all("mixer.experts.{e}.", experts_up="up_proj", experts_down="down_proj"),
    **_all("mixer.shared_experts.", shared_up="up_proj", shared_down="down_proj"),
}
_JAMBA: Names = {
    **_mamba("mamba"),
    **_FEED_FORWARD,
    "final_norm": "model.final_layernorm",
    "norm.pre.before_mlp": "pre_ff_layernorm",
    "router": "feed_forward.router",
    **_all("feed_forward.experts.{e}.", experts_gate="gate_proj", experts_up="up_proj", experts_down="down_proj"),
}
_GRANITE_EXPERTS: Names = {
    "router": "block_sparse_moe.router.layer",
    **_all("block_sparse_moe.", experts_gate="input_linear", experts_up="input_linear", experts_down="output_linear"),
    **_all("shared_mlp.", shared_gate="input_linear", shared_up="input_linear", shared_down="output_linear"),
}
_KIMI_LINEAR: Names = {
    **_SPARSE,
    **_all("block_sparse_moe.shared_experts.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj"),
    **{f"kda.{name}": f"self_attn.{name}_proj" for name in ("q", "k", "v", "f_a", "f_b", "g_a", "g_b", "b", "o")},
    **{f"kda.{name}_conv": f"self_attn.{name}_conv1d" for name in "qkv"},
    **{f"kda.{name}": _bare(f"self_attn.{name}") for name in ("A_log", "dt_bias")},
    "kda.norm": "self_attn.o_norm",
}
_COMPRESSOR = {"kv": "wkv", "gate": "wgate", "norm": "norm"}
_DEEPSEEK_V4: Names = {
    "layer": "layers.{i}",
    "embedding": "embed",
    "final_norm": "norm",
    "lm_head": "head",
    "norm.pre.before_mixer": "attn_norm",
    "norm.pre.before_mlp": "ffn_norm",
    **_all("attn.", csa_q_a="wq_a", csa_q_a_norm="q_norm", csa_q_b="wq_b", csa_kv="wkv", csa_kv_norm="norm"),
    **_all("attn.", csa_o_a="wo_a", csa_o_b="wo_b"),
    "csa.sinks": _bare("attn.attn_sink"),
    "csa.indexer.q_b": "attn.indexer.wq_b",
    "csa.indexer.weights": "attn.indexer.weights_proj",
    **{
        f"csa.{path}.{key}": f"attn.{path}.{word}"
        for path in ("compressor", "indexer.compressor")
        for key, word in _COMPRESSOR.items()
    },
    **{f"csa.{path}.positions": _bare(f"attn.{path}.ape") for path in ("compressor", "indexer.compressor")},
    **{
        f"hyper.{place}.{part}": _bare(f"hc_{word}_{part}")
        for place, word in (("mixer", "attn"), ("mlp", "ffn"), ("final", "head"))
        for part in ("fn", "base", "scale")
    },
    "router": "ffn.gate",
    **{key: f"ffn.experts.{{e}}.{word}" for key, word in _W123.items()},
    **{key.replace("experts", "shared"): f"ffn.shared_experts.{word}" for key, word in _W123.items()},
}
_GEMMA4: Names = {
    "router": "router.proj",
    "router.scale": _bare("router.scale"),
    "router.expert_scale": _bare("router.per_expert_scale"),
    "norm.before_experts": "pre_feedforward_layernorm_2",
    "norm.after_experts": "post_feedforward_layernorm_2",
    "norm.after_shared": "post_feedforward_layernorm_1",
    **_all("mlp.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj"),
}
# NB: Gemma 3n has four copies of the stream; a config with more wants more names.
_GEMMA3N: Names = {
    **_all("altup.", altup_norm="router_norm", altup_router="modality_router", altup_prediction="prediction_coefs"),
    "altup.correction": "altup.correction_coefs",
    "altup.scale": _bare("altup.correct_output_scale"),
    **{
        f"altup.{name}_{number}": f"model.altup_{name}s.{number}"
        for name in ("projection", "unembed_projection")
        for number in range(7)
    },
    **_all("laurel.", laurel_left="linear_left", laurel_right="linear_right", laurel_norm="post_laurel_norm"),
}
_HY_V4: Names = {
    "mla.gate": "self_attn.linear_gate",
    "mla.sinks": _bare("self_attn.learnable_sink_param"),
    **_stacked("mlp.experts"),
    **{
        f"hyper.{place}.{part}": _bare(f"{word}_{part}")
        for place, word in (
            ("mixer", "hc_pre.hc_attn_layer.hc"),
            ("mlp", "hc_pre.hc_mlp_layer.hc"),
            ("final", "model.hc_pre.hc_head.hc_head"),
        )
        for part in ("fn", "base", "scale")
    },
}
_LLAMA4: Names = {
    **_FEED_FORWARD,
    "router": "feed_forward.router",
    **_all("feed_forward.shared_expert.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj"),
}
_LIGHTNING: Names = _all(
    "self_attn.", lightning_qkv="qkv_proj", lightning_norm="norm", lightning_gate="output_gate", lightning_out="out_proj"
)
_MINIMAX_M3: Names = {
    **_SPARSE,
    **_all("block_sparse_moe.shared_experts.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj"),
    **_all("self_attn.index_", indexer_q="q_proj", indexer_k="k_proj", indexer_q_norm="q_norm", indexer_k_norm="k_norm"),
}
# As transformers writes it, where it has the language model alone.
_MINIMAX_M3_SAVED: Names = {
    **_GATE_UP,
    **_stacked("mlp.experts"),
    **_all("mlp.shared_experts.", shared_gate="gate_up_proj", shared_up="gate_up_proj", shared_down="down_proj"),
    **_all("self_attn.indexer.", indexer_q="q_proj", indexer_k="k_proj", indexer_q_norm="q_norm", indexer_k_norm="k_norm"),
}
_INTERNLM2: Names = {
    "embedding": "model.tok_embeddings",
    "lm_head": "output",
    "norm.pre.before_mixer": "attention_norm",
    "norm.pre.before_mlp": "ffn_norm",
    **_qkv("attention.wqkv"),
    "attention.o": "attention.wo",
    **_all("feed_forward.", mlp_gate="w1", mlp_up="w3", mlp_down="w2"),
}
_HUNYUAN: Names = {"attention.q_norm": "self_attn.query_layernorm", "attention.k_norm": "self_attn.key_layernorm"}
_PHI: Names = {
    "attention.o": "self_attn.dense",
    "attention.q_norm": "self_attn.q_layernorm",
    "attention.k_norm": "self_attn.k_layernorm",
    "mlp.up": "mlp.fc1",
    "mlp.down": "mlp.fc2",
    "final_norm": "model.final_layernorm",
}
_STEP: Names = {
    "router": "moe.gate",
    **_all("moe.", experts_gate="gate_proj", experts_up="up_proj", experts_down="down_proj"),
    **_all("share_expert.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj"),
}
_LFM2: Names = {
    "final_norm": "model.embedding_norm",
    "norm.pre.before_mixer": "operator_norm",
    "norm.pre.before_mlp": "ffn_norm",
    **_all("self_attn.", attention_o="out_proj", attention_q_norm="q_layernorm", attention_k_norm="k_layernorm"),
    **_all("feed_forward.", mlp_gate="w1", mlp_up="w3", mlp_down="w2", router="gate"),
    **{key: f"feed_forward.experts.{{e}}.{word}" for key, word in _W123.items()},
    **{f"short_conv.{part}": f"conv.{word}" for part, word in (("in", "in_proj"), ("conv", "conv"), ("out", "out_proj"))},
}
_LFM3: Names = {
    **{key: name for key, name in _LFM2.items() if key.startswith("short_conv")},
    "final_norm": "model.embedding_norm",
    "norm.pre.before_mixer": "operator_norm",
    "norm.pre.before_mlp": "ffn_norm",
    "norm.both.before_mixer": "operator_norm",
    "norm.both.after_mixer": "post_operator_norm",
    "norm.both.before_mlp": "ffn_norm",
    "norm.both.after_mlp": "post_ffn_norm",
    "attention.gate": "self_attn.gate_proj",
    **_all("feed_forward.", mlp_gate="w1", mlp_up="w3", mlp_down="w2"),
}
_QWEN_DELTA: Names = _all(
    "linear_attn.", delta_qkv="in_proj_qkv", delta_z="in_proj_z", delta_b="in_proj_b", delta_a="in_proj_a"
)
_EACH: Names = {}
"""Experts one by one, as Llama-like names have them."""

# What a family calls otherwise. Where its checkpoints do not agree, one entry for each way, the commonest first.
BY_FAMILY: dict[str, tuple[Names, ...]] = {
    **dict.fromkeys(
        (
            "llama", "arcee", "cohere", "cohere2", "deepseek_ocr2_text", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1",
            "ernie4_5", "mllama_text_model",
            "exaone4", "gemma", "gemma2", "gemma3_text", "glm4_moe", "glm4_moe_lite", "glm4v_moe_text",
            "glm_moe_dsa", "granite", "internlm", "internlm3", "mimo", "minicpm", "ministral", "mistral", "nemotron",
            "nemotron-nas", "olmo", "olmo2", "olmo3", "qwen2", "qwen2_vl", "qwen3", "qwen3_moe", "qwen3_vl_text", "seed_oss",
            "smollm3", "cohere2_moe", "cwm", "exaone_moe", "flex_olmo", "granite_swa", "helium", "jais2", "mellum",
            "minicpm3", "olmoe", "teleflm", "solar", "orion", "PanguEmbedded", "deepseek", "rnj1", "solar_open", "youtu",
        ),
        ({},),
    ),
    "afmoe": (
        {"attention.q_gate": "self_attn.gate_proj", "router": TensorName("mlp.router.gate", bias="mlp.expert_bias"),
         "norm.both.before_mlp": "pre_mlp_layernorm", "norm.both.after_mlp": "post_mlp_layernorm"},
    ),
    "laguna": (
        {**_SHARED_EXPERT, "attention.q_gate": "self_attn.g_proj",
         "router": TensorName("mlp.gate", bias="mlp.experts.e_score_correction_bias")},
    ),
    "hy_v3": (
        {"router": "mlp.router.gate",
         **_all("mlp.shared_mlp.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj")},
    ),
    "beam": (
        {"attention.q_gate": "self_attn.gate_proj", "attention.gate_bias": _bare("self_attn.gate_bias")},
    ),
    "muse_glimmer_text": ({"attention.q_gate": "self_attn.gate_proj"},),
    "nemotron_h_puzzle": (_NEMOTRON_H,),
    "domynedge": (
        {**_all("attention.", attention_q="q_proj", attention_k="k_proj", attention_v="v_proj", attention_o="o_proj"),
         "attention.k_norm": "attention.k_norm",
         **_all("feedforward.", mlp_gate="gate_proj", mlp_up="up_proj", mlp_down="down_proj"),
         "norm.both.before_mixer": "pre_attention_norm", "norm.both.after_mixer": "post_attention_norm",
         "norm.both.before_mlp": "pre_feedforward_norm", "norm.both.after_mlp": "post_feedforward_norm"},
    ),
    "hyperclovax": (
        {"norm.both.after_mixer": "post_norm1", "norm.both.before_mlp": "post_attention_layernorm",
         "norm.both.after_mlp": "post_norm2"},
    ),
    "granitemoe_swa": (
        {**_GRANITE_EXPERTS, **_stacked("block_sparse_moe.experts"), "router": "block_sparse_moe.router"},
    ),
    "axk1": ({"norm.both.before_mlp": "post_attention_layernorm", "norm.both.after_mlp": "post_mlp_layernorm"},),
    "mistral4": (_stacked("mlp.experts"), _EACH),
    "bitnet": ({"attention.output_norm": "self_attn.attn_sub_norm", "mlp.inner_norm": "mlp.ffn_sub_norm"},),
    "flint": ({**_SHARED_EXPERT, "attention.sinks": _bare("self_attn.softmax_offset")},),
    "vaultgemma": ({"norm.pre.before_mlp": "pre_feedforward_layernorm"},),
    "kolibri1": (
        {"norm.both.after_mixer": "post_attn_norm", "norm.both.before_mlp": "post_attention_layernorm",
         "norm.both.after_mlp": "post_ffn_norm"},
    ),
    "falcon_h1": (
        {**_mamba("mamba"), "final_norm": "model.final_layernorm", "norm.pre.before_mlp": "pre_ff_layernorm",
         **_all("feed_forward.", mlp_gate="gate_proj", mlp_up="up_proj", mlp_down="down_proj")},
    ),
    "lfm2": (_LFM2,),
    "lfm2_moe": (_LFM2,),
    "lfm3": (_LFM3,),
    "apertus": (
        {"norm.pre.before_mixer": "attention_layernorm", "norm.pre.before_mlp": "feedforward_layernorm",
         "mlp.activation_0": _bare("mlp.act_fn.alpha_p"), "mlp.activation_1": _bare("mlp.act_fn.alpha_n")},
    ),
    "aria_text": (
        {"router": "mlp.router",
         **dict.fromkeys(("experts.gate", "experts.up"), TensorName("mlp.experts.fc1", inputs_first=True)),
         "experts.down": TensorName("mlp.experts.fc2", inputs_first=True)},
    ),
    "baichuan": (_qkv("self_attn.W_pack"),),
    "bamba": ({**_JAMBA},),
    "bloom": (_FALCON,),
    "cosmos3_edge_text": ({"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"},),
    "dbrx": (_DBRX,),
    "deepseek_v4": (_DEEPSEEK_V4,),
    "ernie4_5_moe": ({"router": TensorName("mlp.gate", bias="mlp.moe_statics.e_score_correction_bias")},),
    "ernie4_5_vl_moe_text": (
        {"router": TensorName("mlp.gate", inputs_first=True, bias="mlp.moe_statics.e_score_correction_bias")},
    ),
    "falcon": (_FALCON,),
    "falcon_mamba": (_BACKBONE,),
    "gemma3n_text": (_GEMMA3N,),
    "gemma4_text": (
        {**_GEMMA4, **_stacked("experts")},
        {**_GEMMA4, **_all("experts.{e}.", experts_gate="gate_proj", experts_up="up_proj", experts_down="down_proj")},
    ),
    "glm": (_GATE_UP,),
    "glm4": ({**_GATE_UP, **_GLM4_NORMS},),
    "glm4v_text": ({**_GATE_UP, **_GLM4_NORMS},),
    "glm_ocr_text": ({**_GATE_UP, **_GLM4_NORMS},),
    "gpt2": ({**_BIGCODE, **_qkv("attn.c_attn", inputs_first=True), "attention.o": TensorName("attn.c_proj", inputs_first=True),
              "mlp.up": TensorName("mlp.c_fc", inputs_first=True), "mlp.down": TensorName("mlp.c_proj", inputs_first=True)},),
    "gpt_bigcode": (_BIGCODE,),
    "gpt_neo": (
        {**_BIGCODE, **{f"attention.{part}": f"attn.attention.{part}_proj" for part in "qkv"},
         "attention.o": "attn.attention.out_proj"},
    ),
    "gpt_neox": (_NEOX,),
    "gpt_oss": (
        {"router": "mlp.router", **_stacked("mlp.experts", inputs_first=True)},
        {"router": "mlp.router"},
    ),
    "gptj": (
        {**_TRANSFORMER, **{f"attention.{part}": f"attn.{part}_proj" for part in "qkv"}, "attention.o": "attn.out_proj",
         "mlp.up": "mlp.fc_in", "mlp.down": "mlp.fc_out"},
    ),
    "granitemoe": (_GRANITE_EXPERTS,),
    "granitemoeshared": (_GRANITE_EXPERTS,),
    "granitemoehybrid": (
        {**_GRANITE_EXPERTS, **_mamba("mamba"), **_all("shared_mlp.", mlp_gate="input_linear", mlp_up="input_linear",
                                                       mlp_down="output_linear")},
    ),
    "hunyuan_v1_dense": (_HUNYUAN,),
    "hunyuan_v1_moe": (
        {**_HUNYUAN, "router": "mlp.gate.wg",
         **_all("mlp.shared_mlp.", shared_gate="gate_proj", shared_up="up_proj", shared_down="down_proj")},
    ),
    "hy_v4": (_HY_V4, {key: name for key, name in _HY_V4.items() if not key.startswith("experts")}),
    "internlm2": (_INTERNLM2,),
    "jamba": (_JAMBA,),
    "kimi_linear": (_KIMI_LINEAR,),
    "llama4_text": (
        {**_LLAMA4, **_stacked("feed_forward.experts", inputs_first=True)},
        {**_LLAMA4, **_all("feed_forward.experts.{e}.", experts_gate="gate_proj", experts_up="up_proj",
                           experts_down="down_proj")},
    ),
    "mamba": (_BACKBONE,),
    "mamba2": (_BACKBONE,),
    "mimo_v2_flash": ({"attention.sinks": _bare("self_attn.attention_sink_bias")},),
    "minimax": ({**_SPARSE, **_LIGHTNING},),
    "minimax_m2": (_SPARSE,),
    "minimax_m3_vl_text": (_MINIMAX_M3, _MINIMAX_M3_SAVED),
    "mixtral": (_SPARSE,),
    "molmo": (_MOLMO,),
    "molmo2_text": (
        {**_MOLMO, **_all("self_attn.", attention_o="attn_out", attention_q_norm="q_norm", attention_k_norm="k_norm"),
         **_qkv("self_attn.att_proj"), **_all("mlp.", mlp_up="ff_proj", mlp_gate="ff_proj", mlp_down="ff_out"),
         "lm_head": "lm_head"},
    ),
    "mpt": (_MPT,),
    "nemotron_h": (_NEMOTRON_H,),
    "opt": (_OPT,),
    "phi": (_PHI,),
    "phi3": ({**_GATE_UP, **_qkv("self_attn.qkv_proj")},),
    "phimoe": (_SPARSE,),
    "qwen": (
        {**_TRANSFORMER, **_qkv("attn.c_attn"), "attention.o": "attn.c_proj", "mlp.gate": "mlp.w2", "mlp.up": "mlp.w1",
         "mlp.down": "mlp.c_proj"},
    ),
    "qwen2_moe": (_SHARED_EXPERT,),
    "qwen3_next": (_SHARED_EXPERT,),
    "qwen3_5_text": (_QWEN_DELTA,),
    "qwen3_5_moe_text": (
        {**_SHARED_EXPERT, **_QWEN_DELTA, **_stacked("mlp.experts")},
        {**_SHARED_EXPERT, **_QWEN_DELTA},
    ),
    "qwen3_vl_moe_text": (_stacked("mlp.experts", inputs_first=True), _EACH),
    "stablelm": (
        {f"attention.{part}_norm": f"self_attn.{part}_layernorm.norms.{{h}}" for part in "qk"},
    ),
    "starcoder2": ({"mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj"},),
    "step3p5": (_STEP,),
}  # fmt: skip


def names(family: str) -> tuple[Names, ...]:
    """The names that checkpoints of a family may have for their weights, the usual ones first; empty for an unknown family."""
    return tuple({**LLAMA, **own} for own in BY_FAMILY.get(family, ()))
