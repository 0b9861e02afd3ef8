"""Gemma 4: sliding layers with narrow heads, full ones with wide heads; per-layer embeddings or experts in some sizes."""

from __future__ import annotations

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, attention_kinds, layer_names, windows
from roofline.specs.huggingface.sections import experts_of, gated_mlp, gqa, heads, layers_of, model_keys, moe, rotary_of


@family(
    "gemma4_text",
    types=("gemma4_unified_text",),
    architectures=("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"),
    source=transformers("gemma4"),
)
def gemma4(config: Config) -> Draft:
    """Reads `gemma4_text` configs.

    The last `num_kv_shared_layers` have no keys and values of their own: they read those of the last layer of their kind
    before them, which has the same sizes.
    """
    count = layers_of(config)
    kinds = attention_kinds(config, count, (FULL, SLIDING))
    if kinds[-1] != FULL:
        config.refuse("layer_types", "the last layer has to be full_attention in this family")
    shared = config.whole("num_kv_shared_layers", low=0)
    if shared and (shared >= count or set(kinds[: count - shared]) != set(kinds)):
        config.refuse("num_kv_shared_layers", f"{shared} leaves no layer of each kind that has keys and values of its own")
    mixers, window_of_layers = _attention(config, kinds), windows(config, kinds)
    widths, layers = _widths(config, count, shared), []
    for index, (name, kind, window) in enumerate(zip(layer_names(kinds), kinds, window_of_layers, strict=True)):
        reads = index >= count - shared
        mixer = {**mixers[kind], **({"sliding_window": window} if window else {})}
        if reads:
            mixer = {**mixer, "kv_shared": True}
        layers.append(Layer(f"{name}_shared" if reads else name, mixer, widths[index], {"norms": "both"}))
    keys = model_keys(config, tie=True)
    # NB: the unified model has neither embeddings per layer nor experts, and no keys for them
    unified = config.data.get("model_type") == "gemma4_unified_text"
    if width := config.whole("hidden_size_per_layer_input", low=0, default=0 if unified else REQUIRED):
        keys |= {"hidden_size_per_layer_input": width, "vocab_size_per_layer_input": config.whole("vocab_size_per_layer_input")}
    config.harmless("vocab_size_per_layer_input")
    return Draft(layers, {**keys, "apart": {"layer_scalars": count}})


def _attention(config: Config, kinds: list[str]) -> dict[str, Section]:
    """Sections of the two kinds. Where values are the keys' projection, full layers have KV heads of their own number."""
    if config.raw("use_bidirectional_attention") not in (None, "vision"):
        config.refuse("use_bidirectional_attention", "is understood for images alone ('vision'): elsewhere text is causal")
    n_q, n_kv, head_dim = heads(config, head_dim=config.whole("head_dim"))
    one_projection = config.flag("attention_k_eq_v")
    if config.has("per_layer_config"):
        wide, n_full = _of_full_layers(config, kinds, head_dim, n_kv)
    else:
        wide, n_full = config.whole("global_head_dim"), n_kv
        if one_projection:
            n_full = config.whole("num_global_key_value_heads")
            config.divides(("num_global_key_value_heads", n_full), ("num_attention_heads", n_q))
    config.harmless("num_global_key_value_heads")
    biased = config.flag("attention_bias", default=False)
    rest = {"qkv_bias": biased, "o_bias": biased, "qk_norm": "head", "v_norm": True}
    return {
        SLIDING: gqa(n_q, n_kv, head_dim, **rest, **rotary_of(config, SLIDING, head_dim)),
        FULL: gqa(n_q, n_full, wide, **rest, attention_k_eq_v=one_projection, **rotary_of(config, FULL, wide, 0.25)),
    }


def _of_full_layers(config: Config, kinds: list[str], head_dim: int, n_kv: int) -> tuple[int, int]:
    """The head width and the number of KV heads of full layers, from what transformers 5 writes: keys that differ, by layer."""
    config.only("global_head_dim", None, "per_layer_config says how wide heads are")
    differing = config.part("per_layer_config")
    full = [index for index, kind in enumerate(kinds) if kind == FULL]
    sections = {int(name): differing.part(name) for name in differing.data if str(name).isdigit()}
    if sorted(sections) != full:
        config.refuse("per_layer_config", f"has to have one entry for each layer of full_attention: {full!r:.60}")
    sizes = {
        (section.whole("head_dim", default=head_dim), section.whole("num_key_value_heads", default=n_kv))
        for section in sections.values()
    }
    if len(sizes) > 1:
        config.refuse("per_layer_config", "layers of full_attention differ in their heads, which is not understood")
    wide, n_full = sizes.pop()
    if config.whole("num_attention_heads") % n_full:
        config.refuse("per_layer_config", f"{n_full} KV heads do not divide the query heads")
    return wide, n_full


def _widths(config: Config, count: int, shared: int) -> list[Section]:
    """The feed-forward block of each layer. Experts stand beside the dense block, each with norms of its own."""
    width, doubled = config.whole("intermediate_size"), config.flag("use_double_wide_mlp")
    widths = [width * (2 if doubled and index >= count - shared else 1) for index in range(count)]
    unified = config.data.get("model_type") == "gemma4_unified_text"
    if not config.flag("enable_moe_block", default=False if unified else REQUIRED):
        config.harmless("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
        return [gated_mlp(each) for each in widths]
    experts, top_k = experts_of(config, ("num_experts",), ("top_k_experts",))
    inner = config.whole("moe_intermediate_size", "expert_intermediate_size")
    rest = {"router_norm": True, "expert_scale": True, "branch_norms": True}
    return [moe(experts, top_k, inner, shared_intermediate_size=each, **rest) for each in widths]
