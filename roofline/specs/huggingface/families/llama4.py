"""Llama 4: chunked attention in the layers with rotary positions, and mixtures of experts in all or some layers."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import CHUNKED, DENSE, FULL, SPARSE, attention_kinds, dense_block, layer_names
from roofline.specs.huggingface.sections import experts_of, gqa, heads, layers_of, model_keys, moe


@family("llama4_text", architectures=("Llama4ForConditionalGeneration", "Llama4ForCausalLM"), source=transformers("llama4"))
def llama4(config: Config) -> Draft:
    """Reads `llama4_text` configs.

    `intermediate_size` is the width of an expert, routed or shared, and `intermediate_size_mlp` that of dense layers.
    """
    count = layers_of(config)
    rotated = _rotated(config, count)
    kinds = attention_kinds(config, count, (FULL, CHUNKED), lambda index: CHUNKED if rotated[index] else FULL)
    blocks = _sparse(config, count)
    experts, top_k = experts_of(config, ("num_local_experts",))
    width = config.whole("intermediate_size")
    sparse = moe(experts, top_k, width, shared_intermediate_size=width)
    dense = dense_block(config, blocks, "intermediate_size_mlp")
    mixers = _attention(config, kinds, rotated)
    layers = [
        Layer(name, mixer, sparse if block == SPARSE else dense)
        for name, mixer, block in zip(layer_names(kinds, blocks), mixers, blocks, strict=True)
    ]
    # NB: text parts of published files have no tie_word_embeddings, nor has the file around them: it is false.
    return Draft(layers, model_keys(config, tie=False))


def _attention(config: Config, kinds: list[str], rotated: list[bool]) -> list[Section]:
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    biased, normed = config.flag("attention_bias", default=False), config.flag("use_qk_norm")
    chunk = config.whole("attention_chunk_size") if CHUNKED in kinds else None
    config.harmless("attention_chunk_size", "attn_temperature_tuning", "floor_scale", "attn_scale")
    plain = {"qkv_bias": biased, "o_bias": biased}
    return [
        gqa(
            n_q,
            n_kv,
            head_dim,
            **plain,
            attention_chunk_size=chunk if kind == CHUNKED else None,
            qk_norm="l2" if normed and turns else None,
            rotary_dim=None if turns else 0,
        )
        for kind, turns in zip(kinds, rotated, strict=True)
    ]


def _rotated(config: Config, count: int) -> list[bool]:
    """Whether each layer has rotary positions: `no_rope_layers` says 1 where it has; by default every fourth has none."""
    every = config.whole("no_rope_layer_interval", default=4)
    if config.raw("no_rope_layers") in (None, []):
        return [(index + 1) % every != 0 for index in range(count)]
    return [bool(flag) for flag in config.wholes("no_rope_layers", count)]


def _sparse(config: Config, count: int) -> list[str]:
    """`moe_layers`, or every `interleave_moe_layer_step`-th layer."""
    listed = config.indices("moe_layers", count, default=None)
    if listed is None:
        step = config.whole("interleave_moe_layer_step")
        listed = range(step - 1, count, step)
    config.harmless("interleave_moe_layer_step")
    return [SPARSE if index in listed else DENSE for index in range(count)]
