"""How many preempted sequences the host holds."""

from __future__ import annotations

from functools import cache

from roofline.serving.preemption.costs import SequenceCache, sequence_cache
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


@cache
def _sequence_memory(name: str) -> SequenceCache:
    """What a device holds of a sequence, in blocks of 16 tokens."""
    return sequence_cache(facts.request(name, "h200-sxm", block_size=16, gpu_memory_utilization=0.95).memory.fullest_stage)


def draw(rng: Rng) -> Problem | None:
    """A model, a length, and the swap space of the host."""
    name, tokens = rng.choice(facts.DENSE), 1024 * rng.choice((2, 4, 6, 8, 12, 16))
    space = rng.choice((24, 32, 48, 64, 96, 128))
    one = float(_sequence_memory(name).bytes(tokens))
    right = int(space * 2**30 / one)
    if not 5 <= right <= 400:
        return None
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        pitfalls.k_without_v(int(space * 2**30 / (one / 2))),
        pitfalls.query_heads(int(space * 2**30 / (one * queries / kv)), queries, kv),
        pitfalls.hidden_size(int(space * 2**30 / (one * facts.model(name).hidden_size / (kv * attention.head_dim))),
                          facts.model(name).hidden_size),
        pitfalls.bits_for_bytes(int(space * 2**30 / (one * 8)), 16),
        Mistake(
            name="GB for GiB",
            value=int(space * 1e9 / one),
            hint="You took 1 GiB for 10^9 bytes: it is 1024^3 bytes, 7 % more.",
        ),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the last one does not fit whole."),
    )  # fmt: skip
    return Problem(
        title="Swap space of the host",
        text=(
            f"{space} GiB of a host's memory are reserved for the caches of preempted sequences of {facts.title(name)} "
            f"({facts.shape(name, 'layers', 'hidden', 'queries', 'kv', 'head')}, cache in bf16). Each has {tokens:,} tokens, "
            "all of them in full blocks. How many can be swapped out before others have to be computed again?"
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        mistakes=mistakes,
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                f"Whole sequences of {tokens:,} tokens ($S_c$) fit, so that this is rounded down:",
                "Z / (S_c * k_token)",
                {
                    "Z": (space * 2**30, "memory of the host [bytes]"),
                    "S_c": (tokens, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                },
                "sequences",
            ),
        ),
        source="docs/preemption.md",
    )


TEMPLATE = Template(id="preemption-host-memory", topic="preemption", minutes=4, draw=draw)
