"""GPT-2 and GPT-BigCode (SantaCoder, StarCoder), GPT-Neo, GPT-NeoX (Pythia, Dolly, RedPajama-INCITE, StableLM-Alpha) and
GPT-J.

GPT-2's keys have names of their own, and it has learned positions and biases everywhere. Layers of GPT-Neo see all tokens
and the last few by turns; GPT-J has both blocks side by side under one norm.
"""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.layer_types import FULL, SLIDING, layer_names, window_key
from roofline.specs.huggingface.sections import gqa, head_dim_from_hidden, layers_of, mlp, model_keys, rotary, tied_and_dtype

LAYERNORM = {"function": "layernorm", "bias": True}


def layers(config: Config) -> int:
    """The number of layers, `n_layer` or `num_hidden_layers`."""
    return int(config.whole("n_layer", "num_hidden_layers"))


def heads_and_width(config: Config, width: str = "n_embd") -> tuple[int, int, int]:
    """The number of query heads, the elements of a head, and those of the residual stream (`width`: the name of its key)."""
    n_q, hidden = config.whole("n_head", "num_attention_heads"), config.whole(width, "hidden_size")
    return int(n_q), head_dim_from_hidden(config, ("n_head", n_q), (width, hidden)), int(hidden)


def inner(config: Config, hidden: int) -> int:
    """The inner width of the feed-forward block in elements: `n_inner`, or four times `hidden` where it is null or absent."""
    return int(config.whole("n_inner", default=None) or 4 * hidden)


def learned(config: Config, hidden: int) -> Section:
    """The keys of a model's file that are not layers, for a model with a table of learned positions and LayerNorm."""
    positions = config.whole("n_positions", "max_position_embeddings")
    return {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": positions,
        "learned_positions": positions,
        "norm": LAYERNORM,
        **tied_and_dtype(config, tie=True),
    }


@family("gpt2", architectures=("GPT2LMHeadModel",), source=transformers("gpt2"))
def gpt2(config: Config) -> Draft:
    """Reads `gpt2` configs: as many KV heads as query heads, none of them rotated."""
    config.harmless("n_ctx")  # size of a mask that old versions kept
    n_q, head_dim, hidden = heads_and_width(config)
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, rotary_dim=0, qkv_bias=True, o_bias=True),
        mlp(inner(config, hidden), bias=True),
    )
    return Draft([layer] * layers(config), learned(config, hidden))


@family("gpt_bigcode", architectures=("GPTBigCodeForCausalLM",), source=transformers("gpt_bigcode"))
def gpt_bigcode(config: Config) -> Draft:
    """Reads `gpt_bigcode` configs: one KV head for all query heads, or with `multi_query: false` one for each."""
    config.harmless("n_ctx", "inference_runner", "validate_runner_input", "pre_allocate_kv_cache", "max_batch_size")
    config.harmless("pad_key_length")
    n_q, head_dim, hidden = heads_and_width(config)
    n_kv = 1 if config.flag("multi_query") else n_q
    config.only("num_key_value_heads", n_kv, "multi_query says how many there are")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, rotary_dim=0, qkv_bias=True, o_bias=True),
        mlp(inner(config, hidden), bias=True),
    )
    return Draft([layer] * layers(config), learned(config, hidden))


_KINDS = {"global": FULL, "local": SLIDING}


@family("gpt_neo", architectures=("GPTNeoForCausalLM",), source=transformers("gpt_neo"))
def gpt_neo(config: Config) -> Draft:
    """Reads `gpt_neo` configs: multi-head; only the output projection has a bias."""
    n_q, hidden = config.whole("num_heads", "num_attention_heads"), config.whole("hidden_size")
    head_dim = head_dim_from_hidden(config, ("num_heads", n_q), ("hidden_size", hidden))
    feed = mlp(config.whole("intermediate_size", default=None) or 4 * hidden, bias=True)
    kinds = _layers(config, config.whole("num_layers", "num_hidden_layers"))
    width = config.whole("window_size")
    layers = [
        Layer(name, gqa(n_q, n_q, head_dim, **window_key(kind, width), rotary_dim=0, o_bias=True), feed)
        for name, kind in zip(layer_names(kinds), kinds, strict=True)
    ]
    keys = model_keys(config, tie=True, norm=LAYERNORM)
    return Draft(layers, {**keys, "learned_positions": keys["max_position_embeddings"]})


def _layers(config: Config, count: int) -> list[str]:
    """`attention_types`: patterns of global and local, and how often each is repeated."""
    types: Any = config.raw("attention_types")
    kinds: list[str] = []
    try:
        for pattern, repeat in types:
            kinds += list(pattern) * repeat
    except (TypeError, ValueError):
        config.refuse("attention_types", 'must be patterns and how often each comes, as [[["global", "local"], 12]]')
    if len(kinds) != count or not set(kinds) <= set(_KINDS):
        config.refuse("attention_types", f"must spell global or local for each of the {count} layers; it spells {len(kinds)}")
    spelled = config.words("attention_layers", count, _KINDS, default=kinds)
    if spelled != kinds:
        config.needs("says something else than attention_types", "attention_layers")
    return [_KINDS[word] for word in kinds]


@family("gpt_neox", architectures=("GPTNeoXForCausalLM",), source=transformers("gpt_neox"))
def gpt_neox(config: Config) -> Draft:
    """Reads `gpt_neox` configs.

    Multi-head attention with biases; both blocks side by side, each under a norm of its own, or one after the other.
    """
    n_q, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    head_dim = head_dim_from_hidden(config, ("num_attention_heads", n_q), ("hidden_size", hidden))
    config.only("num_key_value_heads", n_q, "GPT-NeoX has as many KV heads as query heads")
    biased = config.flag("attention_bias", default=True, why="configs written before the key was made have biases")
    parallel = config.flag("use_parallel_residual", default=True, why="the default of the class, on which GPT-NeoX-20B relies")
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, **rotary(config, head_dim, 0.25, "rotary_pct"), qkv_bias=biased, o_bias=biased),
        mlp(config.whole("intermediate_size"), bias=True),
        {"parallel": True, "parallel_norms": 2} if parallel else {},
    )
    return Draft([layer] * layers_of(config), model_keys(config, norm=LAYERNORM))


@family("gptj", architectures=("GPTJForCausalLM",), source=transformers("gptj"))
def gptj(config: Config) -> Draft:
    """Reads `gptj` configs: multi-head attention without biases, of whose heads `rotary_dim` elements are rotated."""
    config.only("rotary", True, "GPT-J rotates queries and keys, and has no other positions")
    config.harmless("n_ctx")
    n_q, head_dim, hidden = heads_and_width(config)
    layer = Layer(
        "decoder",
        gqa(n_q, n_q, head_dim, rotary_dim=config.whole("rotary_dim")),
        mlp(inner(config, hidden), bias=True),
        {"parallel": True},
    )
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole("n_positions", "max_position_embeddings"),
        "norm": LAYERNORM,
        "lm_head_bias": True,
        **tied_and_dtype(config),
    }
    return Draft([layer] * layers(config), keys)
