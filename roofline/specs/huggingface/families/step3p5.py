"""Step 3.5 and 3.7: a gate for each head, more query heads in sliding layers, and one shared expert."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import DENSE, FULL, SLIDING, SPARSE, dense_block, layer_names, sparse_after, windows
from roofline.specs.huggingface.sections import experts_of, gqa, layers_of, model_keys, moe, mtp

_KV, _EXPERTS = ("num_key_value_heads", "num_attention_groups"), ("n_routed_experts", "moe_num_experts", "num_experts")
# Numerics, positions, and what says again what is known.
_HARMLESS = (
    "partial_rotary_factors", "rope_theta", "yarn_only_types", "use_rope_layers", "swiglu_limits", "swiglu_limits_shared",
    "query_pre_attn_scalar", "moe_router_activation", "need_fp32_gate", "norm_expert_weight", "zero_centered", "sink",
    "max_seq_len", "use_moe", "moe_router_scaling_factor", "att_impl_type", "mtp_layer_types", "mtp_mlp_layer_types",
    "projector_bias", "moe_every_n_layer", "moe_layer_offset",
)  # fmt: skip


@family(
    "step3p5",
    types=("step3p7",),
    architectures=("Step3p5ForCausalLM", "Step3p7FlashForCausalLM", "Step3p7ForConditionalGeneration"),
    source=transformers("step3p7"),
)
def step3p5(config: Config) -> Draft:
    """Reads `step3p5` configs: lists by layer continue with entries for the MTP layers."""
    if config.data.get("model_type") == "step3p7" and not config.place:
        config.refuse("model_type", "a step3p7 config describes its language model in text_config, and this one has none")
    count = layers_of(config)
    behind = config.whole("num_nextn_predict_layers", "num_mtp_layers", default=0, low=0)
    mtp(config, "num_nextn_predict_layers")
    kinds = _listed(config, "layer_types", count, behind, (FULL, SLIDING))
    blocks = _blocks(config, count, behind)
    config.only("use_head_wise_attn_gate", True, "this family has a gate for each head")
    config.only("use_qk_norm", True, "this family has norms of queries and keys")
    config.only("use_moe_router_bias", True, "this family corrects its routing")
    config.only("n_shared_experts", 1, "this family has one shared expert, as wide as share_expert_dim says")
    config.only("att_impl_type", "GQA", "this family has grouped-query attention")
    config.off("mlp_bias", "use_mfa", "use_bidirectional_attention")
    config.harmless(*_HARMLESS)
    experts, top_k = experts_of(config, _EXPERTS, ("num_experts_per_tok", "moe_top_k"))
    shared = config.whole("share_expert_dim", "share_expert_dims")
    sparse = moe(experts, top_k, config.whole("moe_intermediate_size"), shared_intermediate_size=shared)
    dense, mixers = dense_block(config, blocks), _attention(config, kinds)
    layers = [
        Layer(name, mixer, dense if block == DENSE else sparse)
        for name, mixer, block in zip(layer_names(kinds, blocks), mixers, blocks, strict=True)
    ]
    keys = model_keys(config, tie=False, apart={"router_correction_bias": experts * blocks.count(SPARSE)})
    return Draft(layers, keys)


def _attention(config: Config, kinds: list[str]) -> list[Section]:
    n_q, head_dim = config.whole("num_attention_heads"), config.whole("head_dim")
    n_kv = config.whole(*_KV)
    config.divides((_KV[0] if config.has(_KV[0]) else _KV[1], n_kv), ("num_attention_heads", n_q))
    biased = config.flag("attention_bias", default=False)
    sliding = _heads_of_sliding(config, n_q, n_kv, head_dim)
    rest = {"qkv_bias": biased, "o_bias": biased, "qk_norm": "head", "output_gate": "headwise"}
    return [gqa(sliding if window else n_q, n_kv, head_dim, **rest, sliding_window=window) for window in windows(config, kinds)]


def _heads_of_sliding(config: Config, n_q: int, n_kv: int, head_dim: int) -> int:
    """Query heads of sliding layers: a number, or in `attention_other_setting`; without either as many as elsewhere."""
    number = config.whole("num_sliding_attention_heads", default=None)
    other = config.part("attention_other_setting", default=None)
    if number is None and other is not None:
        number = other.whole("num_attention_heads")
        other.only("attention_type", SLIDING, "it holds for sliding layers")
        for key, same in (("num_attention_groups", n_kv), ("head_dim", head_dim), ("true_head_dim", head_dim)):
            other.only(key, same, "sliding layers of this family differ in query heads alone")
    number = n_q if number is None else number
    if number % n_kv:
        config.refuse("attention_other_setting", f"{n_kv} KV heads do not divide {number} query heads of sliding layers")
    return int(number)


def _listed(config: Config, name: str, count: int, behind: int, of: tuple[str, str]) -> list[str]:
    given = config.data.get(name)
    padded = isinstance(given, list) and len(given) == count + behind
    return list(config.words(name, count + behind if padded else count, of))[:count]


def _blocks(config: Config, count: int, behind: int) -> list[str]:
    """Which layers are sparse: by name, by number ("3,4,5"), or all behind the first few."""
    if config.has("mlp_layer_types"):
        return _listed(config, "mlp_layer_types", count, behind, (DENSE, SPARSE))
    if not config.has("moe_layers_enum"):
        return sparse_after(config, count)
    given = config.raw("moe_layers_enum")
    numbers = given.split(",") if isinstance(given, str) else given
    try:
        chosen = {int(number) for number in numbers}
    except (TypeError, ValueError):
        config.refuse("moe_layers_enum", 'must be numbers of layers, as in "3,4,5"')
    if not chosen <= set(range(count)):
        config.refuse("moe_layers_enum", f"holds {max(chosen)}; layers are numbered from 0 to {count - 1}")
    return [SPARSE if index in chosen else DENSE for index in range(count)]


@family(
    "step3_text",
    types=("step3",),
    architectures=("Step3TextForCausalLM",),
    source=vllm("step3_text"),
)
def step3(config: Config) -> Draft:
    """Reads `step3_text` configs (Step-3): queries from a shared, normed factor, and one KV head for all of them."""
    if config.data.get("model_type") == "step3" and not config.place:
        config.refuse("model_type", "a step3 config describes its language model in text_config, and this one has none")
    count = layers_of(config)
    config.only("num_attention_groups", 1, "this family has one KV head")
    config.only("num_key_value_heads", 1, "this family has one KV head")
    config.harmless("max_seq_len", "norm_expert_weight", "need_fp32_gate", "num_nextn_predict_layers")
    config.off("attention_bias", "mlp_bias", "sliding_window", "use_moe_router_bias", "use_mfa_gate")
    mtp(config, "num_nextn_predict_layers")
    n_q, head_dim = config.whole("num_attention_heads"), config.whole("head_dim")
    mixer = gqa(n_q, 1, head_dim, q_lora_rank=config.whole("share_q_dim"))
    chosen = set(range(1, count)) if not config.has("moe_layers_enum") else set(_numbered(config, count))
    experts, top_k = experts_of(config, ("moe_num_experts",), ("moe_top_k",))
    inner = config.whole("moe_intermediate_size")
    sparse = moe(experts, top_k, inner, shared_intermediate_size=config.whole("share_expert_dim", "share_expert_dims"))
    blocks = [SPARSE if index in chosen else DENSE for index in range(count)]
    dense = dense_block(config, blocks)
    layers = [
        Layer(name, mixer, dense if block == DENSE else sparse) for name, block in zip(layer_names(blocks), blocks, strict=True)
    ]
    positions = config.whole("max_position_embeddings", "max_position_embedding")
    return Draft(layers, model_keys(config, positions=positions, tie=False))


def _numbered(config: Config, count: int) -> list[int]:
    """Layers with experts, as numbers in a text: "4,5,6"."""
    parts = config.text("moe_layers_enum").split(",")
    if not all(part.strip().isdigit() and int(part) < count for part in parts):
        config.refuse("moe_layers_enum", f"must be numbers of layers from 0 to {count - 1} with commas between them")
    return [int(part) for part in parts]
