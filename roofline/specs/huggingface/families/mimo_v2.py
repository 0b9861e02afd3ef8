"""MiMo-V2-Flash: values narrower than keys, and sliding layers with more KV heads and with attention sinks."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, FULL, SLIDING, SPARSE, dense_block, layer_names
from roofline.specs.huggingface.sections import experts_of, gqa, heads, layers_of, model_keys, moe, mtp, rotary, rotary_of


@family("mimo_v2_flash", architectures=("MiMoV2FlashForCausalLM",), source=transformers("mimo_v2_flash"))
def mimo_v2_flash(config: Config) -> Draft:
    """Reads `mimo_v2_flash` configs.

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


def _window(config: Config) -> int:
    """Tokens that a query sees, itself included: `sliding_window_size` counts those before it."""
    before = config.whole("sliding_window_size", default=None)
    if before is None:
        return int(config.whole("sliding_window"))
    config.harmless("sliding_window")
    config.note("sliding_window", before + 1, "sliding_window_size tokens, and the query's own, as in transformers")
    return int(before + 1)
