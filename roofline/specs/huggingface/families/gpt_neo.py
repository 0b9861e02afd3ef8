"""GPT-Neo: GPT-2 whose layers see all tokens and the last few by turns, with fewer biases in attention."""

from __future__ import annotations

from typing import Any

from roofline.specs.huggingface import windows
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.families.gpt2 import LAYERNORM
from roofline.specs.huggingface.kinds import FULL, SLIDING, names
from roofline.specs.huggingface.parts import divided, gqa, mlp, stream

_KINDS = {"global": FULL, "local": SLIDING}


@family("gpt_neo", architectures=("GPTNeoForCausalLM",), source=transformers("gpt_neo"))
def gpt_neo(config: Config) -> Draft:
    """Multi-head; only the output projection has a bias."""
    n_q, hidden = config.whole("num_heads", "num_attention_heads"), config.whole("hidden_size")
    head_dim = divided(config, ("num_heads", n_q), ("hidden_size", hidden))
    feed = mlp(config.whole("intermediate_size", default=None) or 4 * hidden, bias=True)
    kinds = _layers(config, config.whole("num_layers", "num_hidden_layers"))
    width = config.whole("window_size")
    layers = [
        Layer(name, gqa(n_q, n_q, head_dim, **windows.of(kind, width), rotary_dim=0, o_bias=True), feed)
        for name, kind in zip(names(kinds), kinds, strict=True)
    ]
    keys = stream(config, tie=True, norm=LAYERNORM)
    return Draft(layers, {**keys, "learned_positions": keys["max_position_embeddings"]})


def _layers(config: Config, count: int) -> list[str]:
    """`attention_types`: patterns of global and local, and how often each is repeated."""
    types: Any = config.raw("attention_types")
    found: list[str] = []
    try:
        for pattern, repeat in types:
            found += list(pattern) * repeat
    except (TypeError, ValueError):
        config.refuse("attention_types", 'must be patterns and how often each comes, as [[["global", "local"], 12]]')
    if len(found) != count or not set(found) <= set(_KINDS):
        config.refuse("attention_types", f"must spell global or local for each of the {count} layers; it spells {len(found)}")
    spelled = config.words("attention_layers", count, _KINDS, default=found)
    if spelled != found:
        config.needs("says something else than attention_types", "attention_layers")
    return [_KINDS[word] for word in found]
