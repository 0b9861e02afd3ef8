"""GPT-2 and GPT-BigCode (SantaCoder, StarCoder): learned positions, biases everywhere, and keys with names of their own."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families import family, transformers
from roofline.specs.huggingface.parts import divided, gqa, mlp, rest

LAYERNORM = {"function": "layernorm", "bias": True}


def layers(config: Config) -> int:
    """How many layers there are."""
    return int(config.whole("n_layer", "num_hidden_layers"))


def heads_and_width(config: Config, width: str = "n_embd") -> tuple[int, int, int]:
    """Query heads, the width of a head, and that of the stream (`width`: the name it has)."""
    n_q, hidden = config.whole("n_head", "num_attention_heads"), config.whole(width, "hidden_size")
    return int(n_q), divided(config, ("n_head", n_q), (width, hidden)), int(hidden)


def inner(config: Config, hidden: int) -> int:
    """The inner width of the feed-forward block: four times the stream's where n_inner is null or absent."""
    return int(config.whole("n_inner", default=None) or 4 * hidden)


def learned(config: Config, hidden: int) -> Section:
    """The stream of a model with a table of positions."""
    positions = config.whole("n_positions", "max_position_embeddings")
    return {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": positions,
        "learned_positions": positions,
        "norm": LAYERNORM,
        **rest(config, tie=True),
    }


@family("gpt2", architectures=("GPT2LMHeadModel",), source=transformers("gpt2"))
def gpt2(config: Config) -> Draft:
    """As many KV heads as query heads, none of them rotated."""
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
    """One KV head for all query heads, or with `multi_query: false` one for each."""
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
