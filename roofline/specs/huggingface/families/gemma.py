"""Gemma 1 to 3. The embedding is the LM head unless a file says otherwise, so that files leave the key out."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers, vllm
from roofline.specs.huggingface.layer_types import CHUNKED, FULL, SLIDING, attention_kinds, layer_names, windows
from roofline.specs.huggingface.sections import gated_mlp, gqa, heads, layers_of, model_keys

# NB: nested files hold what differs from the class and no more, as published ones show: PaliGemma has no head_dim, Gemma 3
# no vocab_size, Gemma 3 4B no heads.
_NESTED = "the default of the class, which files that nest the language model leave out"


@family("gemma", architectures=("GemmaForCausalLM",), source=transformers("gemma"))
def gemma(config: Config) -> Draft:
    """Reads `gemma` configs: norms before each block."""
    layer = Layer("decoder", _attention(config), gated_mlp(config.whole("intermediate_size")))
    return Draft([layer] * layers_of(config), model_keys(config, tie=True, positions=_unless_nested(config, 8192)))


@family("gemma2", architectures=("Gemma2ForCausalLM",), source=transformers("gemma2"))
def gemma2(config: Config) -> Draft:
    """Reads `gemma2` configs: norms before and after each block; even layers have a sliding window."""
    kinds = attention_kinds(config, layers_of(config), (FULL, SLIDING), lambda index: FULL if index % 2 else SLIDING)
    # NB: the first files had the window twice.
    layers = _layers(config, kinds, windows(config, kinds, "sliding_window", "sliding_window_size"), _attention(config))
    return Draft(layers, model_keys(config, tie=True, positions=_unless_nested(config, 8192)))


@family("vaultgemma", architectures=("VaultGemmaForCausalLM",), source=transformers("vaultgemma"))
def vaultgemma(config: Config) -> Draft:
    """Reads `vaultgemma` configs: Gemma 2 without the norms after the blocks."""
    draft = gemma2.read(config)
    layers = [Layer(layer.name, layer.mixer, layer.mlp) for layer in draft.layers]
    return Draft(layers, draft.keys, draft.notes)


@family("gemma3_text", architectures=("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"), source=transformers("gemma3"))
def gemma3(config: Config) -> Draft:
    """Reads `gemma3_text` configs: Gemma 2 with norms of queries and keys; every sixth layer has full attention by default."""
    count = layers_of(config)
    every = config.whole("sliding_window_pattern", default=6)
    kinds = attention_kinds(config, count, (FULL, SLIDING), lambda index: SLIDING if (index + 1) % every else FULL)
    layers = _layers(config, kinds, windows(config, kinds), {**_attention(config, n_q=8, n_kv=4), "qk_norm": "head"})
    vocab = config.whole("vocab_size", default=_unless_nested(config, 262_208), why=_NESTED)
    return Draft(layers, model_keys(config, tie=True, vocab=vocab, positions=_unless_nested(config, 131_072)))


def _unless_nested(config: Config, default: int) -> Any:
    return default if config.place else REQUIRED


def _attention(config: Config, *, n_q: int | None = None, n_kv: int | None = None) -> Section:
    """The attention of every layer. `n_q`, `n_kv`: what the class has where a nested file has neither."""
    if config.place and (
        config.document.data.get("model_type") == "paligemma"
        or config.document.data.get("architectures") == ["PaliGemmaForConditionalGeneration"]
    ):
        config.harmless("use_bidirectional_attention")
        config.note("attention", "causal", "tokens of a prompt see each other both ways, of which one way is counted")
    else:
        config.off("use_bidirectional_attention")  # encoders: embeddings, not text
    config.harmless("query_pre_attn_scalar", "cache_implementation")
    if config.place and n_q and not (config.has("num_attention_heads") or config.has("num_key_value_heads")):
        q = config.whole("num_attention_heads", default=n_q, why=_NESTED)
        kv = config.whole("num_key_value_heads", default=n_kv, why=_NESTED)
        head_dim = config.whole("head_dim", default=256, why=_NESTED)
    else:
        config.whole("head_dim", default=_unless_nested(config, 256))
        q, kv, head_dim = heads(config, head_dim=256)
    biased = config.flag("attention_bias", default=False)
    return gqa(q, kv, head_dim, qkv_bias=biased, o_bias=biased)


def _layers(config: Config, kinds: list[str], widths: list[int | None], mixer: Section) -> list[Layer]:
    block = gated_mlp(config.whole("intermediate_size"))
    return [
        Layer(name, {**mixer, "sliding_window": window} if window else mixer, block, {"norms": "both"})
        for name, window in zip(layer_names(kinds), widths, strict=True)
    ]


@family("rnj1", architectures=("Rnj1ForCausalLM",), source=vllm("rnj1"))
def rnj1(config: Config) -> Draft:
    """Reads `rnj1` configs: Gemma 3 with full attention; layers that see two chunks of the context are refused."""
    kinds = attention_kinds(config, layers_of(config), (FULL, CHUNKED))
    if CHUNKED in kinds:
        config.refuse("layer_types", "chunked_attention: a query sees its chunk and the one before, which is not understood")
    config.harmless("sliding_window", "sliding_window_pattern")
    biased = config.flag("attention_bias")
    layer = Layer(
        "decoder",
        gqa(*heads(config, head_dim=config.whole("head_dim")), qkv_bias=biased, o_bias=biased, qk_norm="head"),
        gated_mlp(config.whole("intermediate_size")),
        {"norms": "both"},
    )
    return Draft([layer] * len(kinds), model_keys(config, tie=True))
