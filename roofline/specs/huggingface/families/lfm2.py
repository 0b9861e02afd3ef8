"""LFM2 and LFM3: gated short convolutions in most layers, attention in the others; dense, and with experts."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import DENSE, FULL, SLIDING, SPARSE, attention_kinds, dense_block, sparse_after
from roofline.specs.huggingface.sections import experts_of, gated_mlp, gqa, heads, layers_of, model_keys, moe, rotary_of

CONV = "conv"
_CALLED = {FULL: "attention", SLIDING: "sliding", CONV: "conv"}


@family("lfm2", architectures=("Lfm2ForCausalLM",), source=transformers("lfm2"))
def lfm2(config: Config) -> Draft:
    """Reads `lfm2` configs: the feed-forward width is made of the one that is given, unless a switch says otherwise."""
    count = layers_of(config)
    if config.has("layer_types"):
        kinds = attention_kinds(config, count, (FULL, CONV))
        config.harmless("full_attn_idxs")
    else:
        full = config.indices("full_attn_idxs", count)
        kinds = [FULL if index in full else CONV for index in range(count)]
    mixers = {FULL: _attention(config), CONV: _conv(config)}
    config.harmless(*_OF_OTHER_CODE)
    layers = [Layer(_CALLED[kind], mixers[kind], gated_mlp(_adjusted(config))) for kind in kinds]
    return Draft(layers, _keys(config))


@family("lfm2_moe", architectures=("Lfm2MoeForCausalLM",), source=transformers("lfm2_moe"))
def lfm2_moe(config: Config) -> Draft:
    """Reads `lfm2_moe` configs: the first layers are dense. The router's corrections are a buffer."""
    count = layers_of(config)
    kinds = attention_kinds(config, count, (FULL, CONV))
    mixers = {FULL: _attention(config), CONV: _conv(config)}
    blocks = sparse_after(config, count, "num_dense_layers")
    experts, top_k = experts_of(config, ("num_experts", "num_local_experts"))
    feeds = {DENSE: dense_block(config, blocks), SPARSE: moe(experts, top_k, config.whole("moe_intermediate_size"))}
    corrected = config.flag("use_expert_bias", default=True, why="the default of the class, where the key is absent")
    layers = [
        Layer(f"{_CALLED[kind]}_{'moe' if block == SPARSE else 'dense'}", mixers[kind], feeds[block])
        for kind, block in zip(kinds, blocks, strict=True)
    ]
    apart = {"apart": {"router_correction_bias": experts * blocks.count(SPARSE)}} if corrected else {}
    return Draft(layers, {**_keys(config), **apart})


@family("lfm3", architectures=("Lfm3ForCausalLM",), source=transformers("lfm3"))
def lfm3(config: Config) -> Draft:
    """Reads `lfm3` configs: windows on some layers with attention, a gate on each of its heads, norms around the blocks."""
    count = layers_of(config)
    biased = config.flag("attention_bias", default=False)
    gate = config.flag("use_attention_gate", default=True, why="the default of the class, where the key is absent")
    both = config.flag("use_sandwich_norm", default=True, why="the default of the class, where the key is absent")
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    rule = {0: SLIDING, 2: FULL}
    kinds = attention_kinds(config, count, (FULL, SLIDING, CONV), lambda index: rule.get(index % 4, CONV) if index else CONV)

    def attention(kind: str) -> Section:
        width = config.whole("sliding_window") if kind == SLIDING else None
        turned = rotary_of(config, kind, head_dim, 0.5 if kind == FULL else None)
        gated = {"output_gate": "headwise"} if gate else {}
        return gqa(n_q, n_kv, head_dim, sliding_window=width, **turned, **gated, qkv_bias=biased, o_bias=biased, qk_norm="head")

    config.harmless("sliding_window")
    mixers = {kind: _conv(config) if kind == CONV else attention(kind) for kind in set(kinds)}
    feed = gated_mlp(config.whole("intermediate_size"))
    return Draft([Layer(_CALLED[kind], mixers[kind], feed, {"norms": "both"} if both else {}) for kind in kinds], _keys(config))


# Keys of the authors' code that say again what the others say, for a class that does not read them.
_OF_OTHER_CODE = (
    "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu", "block_use_xavier_init",
    "conv_dim", "conv_dim_out", "conv_use_xavier_init", "num_heads", "use_pos_enc", "theta",
)  # fmt: skip


def _attention(config: Config) -> Section:
    n_q, n_kv, head_dim = heads(config)
    return gqa(n_q, n_kv, head_dim, qk_norm="head")


def _conv(config: Config) -> Section:
    biased = config.flag("conv_bias", default=False, why="the default of the class, where the key is absent")
    return {
        "kind": "short_conv",
        "conv_dim": config.whole("hidden_size"),
        "conv_kernel": config.whole("conv_L_cache"),
        **({"use_bias": True} if biased else {}),
    }


def _adjusted(config: Config) -> int:
    """Two thirds of the width that is given, times a factor, rounded up; or that width."""
    width = config.whole("block_ff_dim", "intermediate_size")
    if not config.flag("block_auto_adjust_ff_dim", default=True, why="the default of the class, where the key is absent"):
        config.harmless("block_ffn_dim_multiplier", "block_multiple_of")
        return int(width)
    width = int(2 * width / 3)
    factor = config.raw("block_ffn_dim_multiplier", default=1.0)
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor <= 100:
        config.refuse("block_ffn_dim_multiplier", f"must be a number above 0, at most 100, not {factor!r:.60}")
    every = config.whole("block_multiple_of", default=256, why="the default of the class, where the key is absent")
    return int(-(-int(factor * width) // every) * every)


def _keys(config: Config) -> Section:
    tied = config.flag("tie_embedding", default=None)
    if tied is not None:
        config.harmless("tie_word_embeddings")
        return {**model_keys(config, tie=tied), "tie_word_embeddings": tied}
    return model_keys(config, tie=True)
