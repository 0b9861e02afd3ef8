"""What DeepSeek brought and others took over: latent attention, and layers of experts after a few dense ones."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Layer, Section
from roofline.specs.huggingface.parts import experts_of, gated_mlp, lean, moe

# Names of layers by what works on each token: as `mlp_layer_types` has them, and as ours are called.
_KINDS = {"dense": "dense", "sparse": "moe"}


def mla(config: Config, *, biases: bool = True, **rest_of_it: object) -> Section:
    """Multi-head latent attention. `biases`: whether the family's class heeds `attention_bias`.

    There are no KV heads: what is cached is the latent, whatever num_key_value_heads and head_dim say.
    """
    config.harmless("num_key_value_heads", "head_dim", "qk_head_dim")
    config.only("partial_rotary_factor", 1, "what is rotated is qk_rope_head_dim, all of it")
    biased = config.flag("attention_bias", default=False) if biases else False
    return {
        "kind": "mla",
        "num_attention_heads": config.whole("num_attention_heads"),
        **lean(q_lora_rank=_rank_of_queries(config)),
        "kv_lora_rank": config.whole("kv_lora_rank"),
        "qk_nope_head_dim": config.whole("qk_nope_head_dim"),
        "qk_rope_head_dim": config.whole("qk_rope_head_dim"),
        "v_head_dim": config.whole("v_head_dim"),
        **lean(attention_bias=biased, **rest_of_it),
    }


def _rank_of_queries(config: Config) -> int | None:
    """Null says that queries are not compressed; an absent key says nothing: classes have a rank as their default."""
    if "q_lora_rank" in config.data and config.data["q_lora_rank"] is None:
        config.harmless("q_lora_rank")
        config.note("q_lora_rank", None, "null in config.json: queries are not compressed")
        return None
    return int(config.whole("q_lora_rank"))


# Names that a number has in DeepSeek's configs; and in Kimi Linear's, which has all of both.
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")
Names = dict[str, tuple[str, ...]]
DEEPSEEK: Names = {"chosen": ("num_experts_per_tok",), "shared": ("n_shared_experts",)}
KIMI_LINEAR: Names = {
    "chosen": ("num_experts_per_token", "num_experts_per_tok"), "shared": ("num_shared_experts", "n_shared_experts"),
}  # fmt: skip


def experts(config: Config, names: Names) -> Section:
    """Routed experts of moe_intermediate_size, and shared ones that are one block of their joint width."""
    count, chosen = experts_of(config, _EXPERTS, names["chosen"])
    width = config.whole("moe_intermediate_size")
    return moe(count, chosen, width, shared_intermediate_size=config.whole(*names["shared"]) * width)


def kinds_of_mlp(config: Config, count: int) -> list[str]:
    """`dense` or `moe` for each layer: the first ones are dense."""
    # NB: the class of transformers does not look at the step, older code does; there is no model with another one.
    config.only("moe_layer_freq", 1, "code of different age reads another step in different ways")
    dense = config.whole("first_k_dense_replace", low=0)
    return ["dense" if index < dense else "moe" for index in range(count)]


def listed_kinds_of_mlp(config: Config, count: int) -> list[str]:
    """As `mlp_layer_types` lists them, where it is there; else as before it was."""
    listed = config.words("mlp_layer_types", count, _KINDS, default=None)
    if listed is None:
        return kinds_of_mlp(config, count)
    found = [_KINDS[word] for word in listed]
    if config.has("first_k_dense_replace") and found != kinds_of_mlp(config, count):
        config.needs("has other dense layers than first_k_dense_replace", "mlp_layer_types")
    config.harmless("first_k_dense_replace", "moe_layer_freq")
    return found


def dense_and_moe(config: Config, kinds: list[str], mixers: list[Section], names: Names = DEEPSEEK) -> list[Layer]:
    """Layers whose feed-forward blocks are dense or of experts; each with its mixer."""
    blocks = {"dense": gated_mlp(config.whole("intermediate_size")), "moe": experts(config, names)}
    return [Layer(kind, mixer, blocks[kind]) for kind, mixer in zip(kinds, mixers, strict=True)]


def correction_biases(layers: list[Layer]) -> dict[str, Section]:
    """One number for each expert, which the router adds to choose and not to weigh: a buffer, no parameter."""
    sizes = [layer.mlp["num_experts"] for layer in layers if layer.mlp and layer.mlp["kind"] == "moe"]
    return {"apart": {"router_correction_bias": sum(sizes)}} if sizes else {}
