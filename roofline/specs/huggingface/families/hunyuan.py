"""Hunyuan: dense (0.5B to 7B), and with experts beside a shared block (A13B, Large). Hy3 has many small
experts."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, FULL, SPARSE, by_kind_and_block, dense_block, listed_blocks
from roofline.specs.huggingface.sections import (
    correction_biases,
    experts_of,
    gated_mlp,
    gqa,
    heads,
    layers_of,
    model_keys,
    moe,
    mtp,
)

# Keys of the authors' class for parts that are off, for images, and for training.
_HARMLESS = (
    "cla_share_factor", "class_num", "dense_list", "pool_type", "pad_id", "org_vocab_size", "norm_type", "capacity_factor",
    "moe_drop_tokens", "moe_random_routing_dropped_token", "group_limited_greedy", "use_rotary_pos_emb", "mask_init_id",
    "im_start_id", "im_end_id", "im_newline_id", "text_start_id", "text_end_id", "anyres_pooling_size", "skip_cls_token",
    "num_media_embeds", "position_embedding_xdrope", "xdrope_section", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim",
    "qk_nope_head_dim", "v_head_dim", "mamba_ssm_ngroups", "mamba_d_state", "mamba_d_conv", "mamba_expand",
    "mamba_head_dim", "mamba_use_seq_idx", "chunk_size", "anyres_vit_two_views", "anyres_vit_max_image_size",
    "vit_norm_type", "vit_used_rms_norm", "vit_remove_prenorm", "vit_token", "vit_input_resolution", "vit_mapping_type",
)  # fmt: skip


@family("hunyuan_v1_dense", architectures=("HunYuanDenseV1ForCausalLM",), source=transformers("hunyuan_v1_dense"))
def hunyuan_dense(config: Config) -> Draft:
    """Reads `hunyuan_v1_dense` configs: Llama with norms of queries and keys."""
    for key in ("num_experts", "num_shared_expert", "moe_topk"):
        config.only(key, 1, "this family is dense")
    config.harmless("moe_intermediate_size", "use_mixed_mlp_moe", "moe_layer_num_skipped")
    layer = Layer("decoder", _attention(config), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), model_keys(config))


@family(
    "hunyuan_v1_moe",
    types=("hunyuan",),
    architectures=("HunYuanMoEV1ForCausalLM", "HunYuanForCausalLM"),
    source=transformers("hunyuan_v1_moe"),
)
def hunyuan_moe(config: Config) -> Draft:
    """Reads `hunyuan_v1_moe` configs.

    Numbers of experts, experts of a token and widths may be lists with an entry for each layer.
    """
    count, mixer = layers_of(config), _attention(config)
    config.only("use_mixed_mlp_moe", True, "this family has a shared block beside its experts")
    config.off("moe_layer_num_skipped")
    width = config.whole("intermediate_size")
    experts = _each(config, count, "num_experts", "num_local_experts")
    chosen = _each(config, count, "moe_topk", "num_experts_per_tok")
    inner = _each(config, count, "moe_intermediate_size", default=width)
    shared = _each(config, count, "num_shared_expert", default=1)
    layers = []
    for of_layer, top_k, wide, num_shared in zip(experts, chosen, inner, shared, strict=True):
        if top_k > of_layer:
            config.refuse("moe_topk", f"{top_k} is more than the {of_layer} experts")
        if wide != width:
            config.refuse("moe_intermediate_size", f"{wide} is not intermediate_size ({width}), as transformers has it")
        layers.append(Layer("decoder", mixer, moe(of_layer, top_k, wide, shared_intermediate_size=num_shared * width)))
    return Draft(layers, model_keys(config))


def _attention(config: Config) -> Section:
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim", "attention_head_dim", default=None))
    config.only("use_qk_norm", True, "this family has norms of queries and keys")
    biased = config.flag("attention_bias")
    if config.raw("use_cla"):
        config.refuse("use_cla", "layers that read the keys of others and norm them again are not understood (Hunyuan-Large)")
    config.off("use_mla", "mamba", "hybrid_override_pattern", "mlp_bias", "add_classification_head")
    config.harmless(*_HARMLESS)
    return gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, qk_norm="head")


def _each(config: Config, count: int, *names: str, default: int | None = None) -> list[int]:
    """A number for each layer: one for all of them, or a list."""
    given = next((name for name in names if isinstance(config.data.get(name), list)), None)
    if given is not None:
        config.harmless(*names)
        return list(config.wholes(given, count, low=1))
    number = config.whole(*names) if default is None else config.whole(*names, default=default)
    return [number] * count


@family("hy_v3", architectures=("HYV3ForCausalLM",), source=transformers("hy_v3"))
def hy_v3(config: Config) -> Draft:
    """Reads `hy_v3` configs: one dense layer, then experts beside shared ones, whose router has corrections."""
    count = layers_of(config)
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    biased = config.flag("attention_bias", default=False)
    config.off("mlp_bias")
    config.only("qk_norm", True, "this family has norms of queries and keys")
    config.harmless("enable_moe_fp32_combine", "enable_attention_fp32_softmax", "enable_lm_head_fp32")
    first = config.whole("first_k_dense_replace", default=1, low=0)
    blocks = listed_blocks(config, count, lambda: [DENSE] * first + [SPARSE] * (count - first))
    mtp(config, "num_nextn_predict_layers", "num_mtp_layers")
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    inner = config.whole("moe_intermediate_size", "expert_hidden_dim")
    shared = inner * config.whole("num_shared_experts")
    feeds = {DENSE: dense_block(config, blocks), SPARSE: moe(experts, top_k, inner, shared_intermediate_size=shared)}
    mixer = gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, qk_norm="head")
    layers = by_kind_and_block([FULL] * count, blocks, {FULL: mixer}, feeds)
    return Draft(layers, model_keys(config, **correction_biases(layers)))
