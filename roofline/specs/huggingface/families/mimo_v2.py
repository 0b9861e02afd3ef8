"""MiMo-V2-Flash: values narrower than keys, and sliding layers with more KV heads and with attention sinks."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, FULL, SLIDING, SPARSE, dense_block, layer_names
from roofline.specs.huggingface.sections import experts_of, gqa, heads, layers_of, model_keys, moe, mtp, rotary, rotary_of


@family(
    "mimo_v2_flash",
    types=("mimo_v2",),
    architectures=("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
    source=transformers("mimo_v2_flash"),
)
def mimo_v2_flash(config: Config) -> Draft:
    """Reads `mimo_v2_flash` configs, and `mimo_v2` ones (V2.5), whose layers with a window have heads of their own.

    Files of the authors list layers as 0 and 1 (`hybrid_layer_pattern`, `moe_layer_freq`), those of transformers by name.
    """
    count = layers_of(config)
    kinds = _kinds(config, count, "hybrid_layer_pattern", "layer_types", (FULL, SLIDING))
    blocks = _kinds(config, count, "moe_layer_freq", "mlp_layer_types", (DENSE, SPARSE))
    mixers = _attention(config, kinds)
    experts, top_k = experts_of(config, ("n_routed_experts", "num_local_experts"))
    config.off("n_shared_experts")
    mtp(config, "num_nextn_predict_layers")
    # NB: for other engines; it says no more than sliding_window.
    config.harmless("attention_chunk_size", "hybrid_block_size")
    sparse, dense = moe(experts, top_k, config.whole("moe_intermediate_size")), dense_block(config, blocks)
    layers = [
        Layer(name, mixers[kind], dense if block == DENSE else sparse)
        for name, kind, block in zip(layer_names(kinds, blocks), kinds, blocks, strict=True)
    ]
    return Draft(layers, model_keys(config, apart={"router_correction_bias": experts * blocks.count(SPARSE)}))


def _kinds(config: Config, count: int, flags: str, words: str, of: tuple[str, str]) -> list[str]:
    """Kinds of layers by name, or by 0 and 1."""
    if not config.has(flags):
        return list(config.words(words, count, of))
    listed = config.wholes(flags, count)
    if max(listed) > 1:
        config.refuse(flags, f"must hold 0 ({of[0]}) and 1 ({of[1]}), not {max(listed)}")
    kinds = [of[flag] for flag in listed]
    if config.words(words, count, of, default=kinds) != kinds:
        config.needs(f"says something else than {words}", flags, words)
    return kinds


def _attention(config: Config, kinds: list[str]) -> dict[str, Section]:
    n_q, n_kv, d_head = heads(config, head_dim=config.whole("head_dim"))
    d_v, biased = config.whole("v_head_dim"), config.flag("attention_bias", default=False)
    if config.data.get("model_type") == "mimo_v2":
        return _of_v2_5(config, kinds, (n_q, n_kv, d_head, d_v), biased=biased)
    config.only("add_swa_attention_sink_bias", True, "sliding layers of this family have sinks")
    config.only("add_full_attention_sink_bias", False, "full layers of this family have none")
    for key, same in (("swa_num_attention_heads", n_q), ("swa_head_dim", d_head), ("swa_v_head_dim", d_v)):
        config.only(key, same, "sliding layers of this family differ in KV heads alone")
    more = config.whole("swa_num_key_value_heads", default=2 * n_kv, why="the class doubles num_key_value_heads")
    config.divides(("swa_num_key_value_heads", more), ("num_attention_heads", n_q))

    def section(kind: str, kv_heads: int, **rest: object) -> Section:
        turned = rotary_of(config, kind, d_head) or rotary(config, d_head)
        return gqa(n_q, kv_heads, d_head, v_head_dim=d_v, qkv_bias=biased, **turned, **rest)

    sections = {FULL: section(FULL, n_kv)}
    if SLIDING in kinds:
        sections[SLIDING] = section(SLIDING, more, sinks=True, sliding_window=_window(config))
    return sections


def _of_v2_5(config: Config, kinds: list[str], sizes: tuple[int, int, int, int], *, biased: bool) -> dict[str, Section]:
    """Both kinds of layers, whose heads may differ in number and in width; sinks of each are switched on or off."""
    n_q, n_kv, d_head, d_v = sizes

    def sinks(key: str) -> dict[str, object]:
        return {"sinks": True} if config.flag(key, default=False) else {}

    full = gqa(
        n_q, n_kv, d_head, v_head_dim=d_v, qkv_bias=biased, **(rotary_of(config, FULL, d_head) or rotary(config, d_head)),
        **sinks("add_full_attention_sink_bias"),
    )  # fmt: skip
    config.harmless("attention_projection_layout", "attention_value_scale")
    if SLIDING not in kinds:
        return {FULL: full}
    heads_of_windows, kv_heads, width = (
        config.whole(f"swa_{name}") for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    config.divides(("swa_num_key_value_heads", kv_heads), ("swa_num_attention_heads", heads_of_windows))
    slides = gqa(
        heads_of_windows, kv_heads, width, v_head_dim=config.whole("swa_v_head_dim", default=width), qkv_bias=biased,
        sliding_window=_window(config), **(rotary_of(config, SLIDING, width) or rotary(config, width)),
        **sinks("add_swa_attention_sink_bias"),
    )  # fmt: skip
    return {FULL: full, SLIDING: slides}


def _window(config: Config) -> int:
    """Tokens that a query sees, itself included: `sliding_window_size` counts those before it."""
    before = config.whole("sliding_window_size", default=None)
    if before is None:
        return int(config.whole("sliding_window"))
    config.harmless("sliding_window")
    config.note("sliding_window", before + 1, "sliding_window_size tokens, and the query's own, as in transformers")
    return int(before + 1)
