"""Falcon 1 and 2, and the names that its configs had before transformers knew it: RefinedWeb, RefinedWebModel."""

from __future__ import annotations

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.draft import Draft, Layer, Section
from roofline.specs.huggingface.families.base import family, transformers
from roofline.specs.huggingface.families.gpt import LAYERNORM
from roofline.specs.huggingface.sections import gqa, head_dim_from_hidden, mlp, tied_and_dtype

_HEADS = ("num_attention_heads", "n_head")
_KV_HEADS = ("num_kv_heads", "n_head_kv")


@family(
    "falcon",
    types=("RefinedWeb", "RefinedWebModel"),
    architectures=("FalconForCausalLM", "RWForCausalLM"),
    source=transformers("falcon"),
)
def falcon(config: Config) -> Draft:
    """Reads `falcon` configs.

    Two decoders: the old (7B: one KV head, one norm) and the new (40B and up: KV heads, and two norms by default).
    """
    config.harmless("apply_residual_connection_post_layernorm")  # which of two tensors goes around the block
    config.only("ff_factor", 4, "ffn_hidden_size says how wide the feed-forward block is")
    n_q, hidden = config.whole(*_HEADS), config.whole("hidden_size", "n_embed")
    head_dim = head_dim_from_hidden(config, (_HEADS[0], n_q), ("hidden_size", hidden))
    n_kv, rest_of_layer = _new(config, n_q) if _is_new(config) else _old(config, n_q)
    biased, alibi = config.flag("bias"), config.flag("alibi")
    layer = Layer(
        "decoder",
        gqa(n_q, n_kv, head_dim, rotary_dim=0 if alibi else None, qkv_bias=biased, o_bias=biased),
        mlp(config.whole("ffn_hidden_size", default=None) or 4 * hidden, bias=biased),
        rest_of_layer,
    )
    keys = {
        "hidden_size": hidden,
        "vocab_size": config.whole("vocab_size"),
        "max_position_embeddings": config.whole(
            "max_position_embeddings", default=2048, why="the default of the class, on which Falcon 1 relies"
        ),
        "norm": LAYERNORM,
        **tied_and_dtype(config, tie=True),
    }
    return Draft([layer] * int(config.whole("num_hidden_layers", "n_layer")), keys)


def _is_new(config: Config) -> bool:
    named = config.data.get("model_type")
    if named in ("RefinedWeb", "RefinedWebModel"):
        # Their code had no such key: the new decoder was RefinedWeb's, the old one RefinedWebModel's.
        return bool(config.flag("new_decoder_architecture", default=named == "RefinedWeb"))
    return bool(config.flag("new_decoder_architecture"))


def _new(config: Config, n_q: int) -> tuple[int, Section]:
    config.harmless("multi_query")  # the new decoder does not look at it
    config.only(
        "parallel_attn", True, "the new decoder (new_decoder_architecture) has attention and feed-forward block side by side"
    )
    if not any(config.has(name) for name in _KV_HEADS):
        config.refuse("new_decoder_architecture", f"the new decoder needs {' or '.join(_KV_HEADS)}, and there is none")
    n_kv = config.whole(*_KV_HEADS)
    if n_q % n_kv:
        config.refuse(_KV_HEADS[0], f"{n_kv} must divide num_attention_heads ({n_q})")
    norms = config.whole("num_ln_in_parallel_attn", default=2, why="the rule of the new decoder, on which Falcon-40B relies")
    if norms > 2:
        config.refuse("num_ln_in_parallel_attn", f"must be 1 or 2, not {norms}")
    return n_kv, {"parallel": True, "parallel_norms": norms}


def _old(config: Config, n_q: int) -> tuple[int, Section]:
    config.only("num_ln_in_parallel_attn", 1, "the old decoder has one norm for both blocks")
    given = config.whole(*_KV_HEADS, default=n_q)
    single = config.flag("multi_query")
    if not single and given != n_q:
        config.needs(f"{given} is not num_attention_heads ({n_q}), with multi_query: false", _KV_HEADS[0], "multi_query")
    return 1 if single else n_q, {"parallel": True} if config.flag("parallel_attn") else {}
