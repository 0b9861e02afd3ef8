"""More devices than KV heads: what each of them holds."""

from __future__ import annotations

from functools import cache

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CASES = (("qwen3-30b-a3b", 8), ("qwen3-30b-a3b", 16), ("mixtral-8x7b", 16), ("mixtral-8x7b", 32), ("llama-3.1-70b", 16))


@cache
def _of_a_token(name: str, devices: int) -> float:
    """Bytes of the cache that a token takes on each device of a tensor-parallel group."""
    return facts.request(name, "dgx-h100", tp=devices).memory.fullest_stage.kv_bytes_per_token


def draw(rng: Rng) -> Problem:
    """A model with fewer KV heads than devices, and a length."""
    (name, devices), tokens = rng.choice(_CASES), 1024 * rng.integer(1, 32)
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    right = tokens * _of_a_token(name, devices)
    whole = facts.kv_bytes(name, tokens)
    mistakes = (
        Mistake(
            name="divided by the devices",
            value=whole / devices,
            hint="You divided by the number of devices. A head is not cut: a device holds one at the least.",
        ),
        Mistake(
            name="nothing divided", value=whole, hint="That is the whole cache. A device holds only the heads that it needs."
        ),
        pitfalls.k_without_v(right / 2),
        pitfalls.query_heads(right * queries / devices, queries, kv),
        pitfalls.one_layer(right / layers, layers),
        pitfalls.bits_for_bytes(right * 8, 16),
    )
    return Problem(
        title="More devices than KV heads",
        text=(
            f"{facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache in bf16) runs on {devices} "
            f"tensor-parallel devices, which divide the query heads evenly. Each device keeps the KV heads that its query "
            f"heads use, whole. How much memory does the cache of a sequence of {tokens:,} tokens take on each of them?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            (
                f"A device has {queries} / {devices} = {queries // devices} query heads. {queries // kv} query heads share a "
                f"KV head, so that a device needs one KV head, and {devices // kv} devices hold the same one."
            ),
            worked.formula(
                "K and V of that one head, in every layer:",
                "2 * L * d_head * S_c * b_kv",
                {
                    "L": (layers, ""),
                    "d_head": (attention.head_dim, ""),
                    "S_c": (tokens, ""),
                    "b_kv": (facts.element_bytes("bf16"), ""),
                },
                "bytes",
            ),
        ),
    )


TEMPLATE = Template(id="moe-replicated-cache", topic="moe", minutes=4, draw=draw)
