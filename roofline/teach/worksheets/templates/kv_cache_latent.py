"""The cache of multi-head latent attention."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("deepseek-v2", "deepseek-v2-lite", "deepseek-v3")


def draw(rng: Rng) -> Problem:
    """A model with MLA, and a length."""
    name, tokens = rng.choice(_MODELS), 1024 * rng.choice((1, 2, 4, 8, 16, 32))
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    rank, rotated, heads = attention.kv_lora_rank, attention.qk_rope_head_dim, attention.num_attention_heads
    size = facts.kv_bytes(name, tokens)
    element = size / (rank + rotated)
    expanded = heads * (attention.qk_nope_head_dim + rotated + attention.v_head_dim)
    mistakes = (
        Mistake(
            name="rotated part forgotten",
            value=element * rank,
            hint="The latent is there. The rotated part of the key cannot be compressed with it, and is cached separately.",
        ),
        Mistake(
            name="expanded keys and values",
            value=element * expanded,
            hint="Those are the keys and values of all heads. MLA keeps the latent that they are computed from.",
        ),
        Mistake(
            name="K and V",
            value=2 * size,
            hint="You counted two tensors. Keys and values come from one latent, which is cached once.",
        ),
        pitfalls.one_layer(size / layers, layers),
        pitfalls.bits_for_bytes(size * 8, 16),
        pitfalls.gb_for_gib(size),
    )
    return Problem(
        title="A latent cache",
        text=(
            f"{facts.title(name)} has {layers} layers ($L$) of multi-head latent attention with {heads} heads. Of each "
            f"token per layer "
            f"keeps a latent of {rank} elements ($r_kv$) for keys and values, and a rotated part of the key of "
            f"{rotated} elements "
            f"($d_rope$) that all heads share. How much memory does the cache of {tokens:,} tokens take in bf16?"
        ),
        answer=Answer(value=size, kind="bytes"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token takes, over all layers:", name, "kv_bytes_per_token"),
            worked.formula(
                f"Of {tokens:,} tokens ($S_c$):",
                "S_c * k_token",
                {"S_c": (tokens, ""), "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]")},
                "bytes",
            ),
        ),
        source="F26 of docs/published-figures.md" if name == "deepseek-v2" else "DeepSeek-V2, arXiv:2405.04434",
    )


TEMPLATE = Template(id="kv-cache-latent", topic="kv-cache", minutes=5, draw=draw)
