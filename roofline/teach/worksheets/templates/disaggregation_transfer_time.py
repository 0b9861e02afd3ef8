"""Sending the cache of a prompt from the prefill pool to the decode pool."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_NODES = ("dgx-a100", "dgx-h100", "dgx-h200")
_MODELS = ("llama-3.1-8b", "qwen3-8b", "mistral-nemo-12b", "qwen3-32b", "llama-3.1-70b")


def draw(rng: Rng) -> Problem | None:
    """A prompt, two nodes, and the GPUs that hold a share of the cache each."""
    name, node, tokens = rng.choice(_MODELS), rng.choice(_NODES), 1024 * rng.choice((2, 4, 8, 16, 24, 32))
    parts = rng.choice((2, 4, 8))
    connection = facts.hardware(node).connection(16)
    if connection is None or connection.network is None or connection.inside is None:
        return None
    size, rate = facts.kv_bytes(name, tokens), connection.network.per_direction.value
    right = float(connection.seconds(size / parts, size / parts, parts))
    attention, inside = facts.mixer(name), connection.inside.per_direction.value
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        Mistake(
            name="one GPU",
            value=right * parts,
            hint=f"You sent the whole cache over one port. Each of the {parts} GPUs sends its own KV heads over its own.",
        ),
        Mistake(
            name="bits for bytes of the port",
            value=right / 8,
            hint="The port's rate is in bits per second. Eight bits are a byte.",
        ),
        Mistake(
            name="the link inside the node",
            value=size / parts / inside,
            hint="That is the rate inside a node. The two pools are on different nodes: the network is between them.",
        ),
        Mistake(
            name="there and back",
            value=2 * right,
            hint="You sent it there and back. The cache goes one way: the prefill GPU frees its blocks.",
        ),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.k_without_v(right / 2),
    )
    return Problem(
        title="From pool to pool",
        text=(
            f"A prompt of {tokens:,} tokens of {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, "
            f"cache in bf16) was computed on {parts} GPUs with tensor parallelism: each holds its share of the KV heads. "
            f"The decode pool is another {facts.hardware(node).title}, with the same parallelism. Within a node a GPU sends "
            f"{formatting.quantity(inside, 'B/s')}; to other nodes each GPU has a port of {rate * 8 / 1e9:g} Gbit/s. How long "
            "does the transfer of the cache take at the least?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                f"A port carries {rate * 8 / 1e9:g} / 8 GB/s, and each GPU sends its part of {tokens:,} tokens ($S_c$):",
                "S_c * k_token / (n_gpu * R)",
                {
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                    "n_gpu": (parts, "GPUs"),
                    "R": (rate, "rate of a port [bytes/s]"),
                },
                "s",
            ),
        ),
        source="docs/simulation.md",
    )


TEMPLATE = Template(id="disaggregation-transfer-time", topic="disaggregation", minutes=5, draw=draw)
