"""Gemma 3n: several copies of the stream (AltUp), a second path around attention (LAuReL), inputs of each layer's own."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, attention_kinds, layer_names, windows
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, model_keys

_SPARSE_LAYERS = 10


@family("gemma3n_text", architectures=("Gemma3nForConditionalGeneration", "Gemma3nForCausalLM"), source=transformers("gemma3n"))
def gemma3n(config: Config) -> Draft:
    """Reads `gemma3n_text` configs (Gemma 3n: E2B, E4B).

    The last `num_kv_shared_layers` have no keys and values of their own: they read those of the last layer of their kind
    before them. In layers with an activation sparsity most gates become zero, which saves no work: products are dense.
    """
    count = layers_of(config)
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: SLIDING if (index + 1) % 5 else FULL)
    shared = config.whole("num_kv_shared_layers", low=0)
    if shared and (shared >= count or set(kinds[: count - shared]) != set(kinds)):
        message = f"{shared} leaves no layer of each kind that has keys and values of its own"
        config.needs(message, "num_kv_shared_layers", "layer_types")
    hidden, (n_q, n_kv, head_dim) = config.whole("hidden_size"), heads(config, head_dim=config.whole("head_dim"))
    config.divides(("num_attention_heads", n_q), ("hidden_size", hidden))
    biased = config.flag("attention_bias", default=False)
    mixer = gqa(n_q, n_kv, head_dim, qkv_bias=biased, o_bias=biased, qk_norm="head", v_norm=True)
    blocks, layers = _blocks(config, count), []
    for index, (name, window) in enumerate(zip(layer_names(kinds), windows(config, kinds), strict=True)):
        reads = index >= count - shared
        own = {**mixer, **({"sliding_window": window} if window else {}), **({"kv_shared": True} if reads else {})}
        layers.append(Layer(f"{name}_shared" if reads else name, own, blocks[index], {"norms": "both"}))
    copies = config.whole("altup_num_inputs", low=2)
    if config.whole("altup_active_idx", low=0, default=0) >= copies:
        config.refuse("altup_active_idx", f"there are {copies} copies of the stream (altup_num_inputs), numbered from 0")
    config.only("altup_correct_scale", True, "the published models scale what leaves a layer for its own input")
    names = ("laurel_rank", "hidden_size_per_layer_input", "vocab_size_per_layer_input")
    keys = {"altup_num_inputs": copies, **{name: config.whole(name) for name in names}}
    return Draft(layers, model_keys(config, tie=True, **keys))


def _blocks(config: Config, count: int) -> list[Section]:
    """The feed-forward block of each layer: its width, and whether its gates are cut off."""
    widths = config.raw("intermediate_size")
    if isinstance(widths, list):
        widths = config.wholes("intermediate_size", count, low=1)
    else:
        widths = [config.whole("intermediate_size")] * count
    sparse = _sparsity(config, count)
    return [gated_mlp(width, sparse_activation=share > 0) for width, share in zip(widths, sparse, strict=True)]


def _sparsity(config: Config, count: int) -> list[float]:
    """The share of a layer's gates that become zero, layer by layer."""
    key = "activation_sparsity_pattern"
    shares = config.raw(key)
    if shares is None:
        sparse = _SPARSE_LAYERS if count > _SPARSE_LAYERS else 0
        config.note(key, f"0.95 in the first {sparse} layers", "the default of the class, where the key is absent")
        return [0.95] * sparse + [0.0] * (count - sparse)
    if (
        not isinstance(shares, list)
        or len(shares) != count
        or any(isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 <= one < 1 for one in shares)
    ):
        config.refuse(key, f"must be a list of {count} numbers from 0, below 1, one for each layer, not {shares!r:.60}")
    return shares
