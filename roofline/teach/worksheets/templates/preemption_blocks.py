"""Memory that sequences take in whole blocks."""

from __future__ import annotations

from functools import cache

from roofline.serving.preemption.costs import SequenceCache, sequence_cache
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


@cache
def _sequence_memory(name: str, block: int) -> SequenceCache:
    """What a device holds of a sequence, in blocks of `block` tokens."""
    return sequence_cache(facts.request(name, "h200-sxm", block_size=block, gpu_memory_utilization=0.95).memory.fullest_stage)


def draw(rng: Rng) -> Problem:
    """A model, a block, and a few short sequences."""
    name, block = rng.choice(facts.DENSE), rng.choice((32, 64, 128))
    lengths = [rng.integer(block // 2, 6 * block) for _ in range(rng.choice((3, 4)))]
    attention, layers, held = facts.mixer(name), facts.model(name).num_hidden_layers, _sequence_memory(name, block)
    queries, kv, token = attention.num_attention_heads, attention.num_key_value_heads, facts.kv_bytes_per_token(name)
    right = float(sum(held.bytes(length) for length in lengths))
    blocks = [round(held.calls(length) / (2 * layers)) for length in lengths]
    mistakes = (
        Mistake(
            name="tokens as they are",
            value=sum(lengths) * token,
            hint="You counted tokens. Sequences take whole blocks, of which the last one is seldom full.",
        ),
        Mistake(
            name="rounded down",
            value=sum(length // block for length in lengths) * block * token,
            hint="You rounded down. The tokens that are left over need a block, too.",
        ),
        Mistake(
            name="one sum",
            value=float(held.bytes(sum(lengths))),
            hint="You put all tokens in one row. Sequences share no block: round up for each of them.",
        ),
        pitfalls.k_without_v(right / 2),
        pitfalls.query_heads(right * queries / kv, queries, kv),
        pitfalls.one_layer(right / layers, layers),
    )
    listed = ", ".join(map(str, lengths[:-1]))
    return Problem(
        title="Whole blocks",
        text=(
            f"An engine with paged attention gives a sequence memory in blocks of {block} tokens (all layers together). It "
            f"serves {facts.title(name)} ({facts.shape(name, 'layers', 'queries', 'kv', 'head')}, cache in bf16). "
            f"{len(lengths)} sequences have {listed} and {lengths[-1]} tokens in the cache. How much memory do their blocks "
            f"take "
            f"together?"
        ),
        answer=Answer(value=right, kind="bytes"),
        mistakes=mistakes,
        solution=(
            (
                "Rounded up, "
                + ", ".join(f"{length}/{block} is {count}" for length, count in zip(lengths, blocks, strict=True))
                + f": {sum(blocks)} blocks in all."
            ),
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                "Blocks, the tokens of each, and the bytes of a token:",
                "n_blocks * b * k_token",
                {
                    "n_blocks": (sum(blocks), "blocks"),
                    "b": (block, "tokens of a block"),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "bytes",
            ),
        ),
        source="Kwon et al. 2023, arXiv:2309.06180, section 4",
    )


TEMPLATE = Template(id="preemption-blocks", topic="preemption", minutes=4, draw=draw)
