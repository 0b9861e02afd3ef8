"""Chips whose memory holds weights and the caches of a batch, after "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.numeric import ceil_div
from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts, pitfalls
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (("llama-3.1-70b", "tpu-v5e", 240, 32768),)
_NAMES = ("llama-3.1-70b", "qwen3-32b", "llama-3.1-405b", "llama-3.1-8b")


def problem(name: str, card: str, batch: int, length: int) -> Problem:
    """The problem of a model in int8, an accelerator, and sequences of a length."""
    weights, one = facts.parameters(name).total, int(facts.kv_bytes(name, length, "int8"))
    memory, attention = int(facts.hardware(card).memory_bytes), facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads

    def chips(held: float, of: int = memory) -> int:
        return int(ceil_div(int(held), of))

    right, early = chips(weights + batch * one), chips(float(f"{weights:.1g}") + float(f"{batch * one:.2g}"))
    mistakes = [
        Mistake(
            name="weights forgotten",
            value=chips(batch * one),
            hint="Those chips hold the caches. The weights need room as well.",
        ),
        Mistake(
            name="bf16",
            value=chips(2 * (weights + batch * one)),
            hint="You took two bytes for a weight and for an element of the cache. In int8 each is one.",
        ),
        Mistake(
            name="weights alone",
            value=chips(weights),
            hint="Those chips hold the weights. The caches of the batch are larger.",
        ),
        pitfalls.k_without_v(chips(weights + batch * one // 2)),
        pitfalls.query_heads(chips(weights + batch * one * queries // kv), queries, kv),
    ]
    if early != right:
        mistakes.append(
            Mistake(
                name="rounded early",
                value=early,
                hint="Near, but you rounded weights and cache before you added them. Here the number of chips shows it.",
            )
        )
    own = (name, card, batch, length) in BOOK
    notes = (
        (
            (
                f"The book rounds to 70e9 parameters and 1.3 TB of cache, and has {early} chips: at this size two "
                "digits are not "
                "enough to count chips."
            ),
        )
        if own
        else ()
    )
    return Problem(
        title="Chips for a batch",
        text=(
            f"{facts.title(name)} ({weights:,} parameters; {facts.shape(name, 'layers', 'queries', 'kv', 'head')}) serves "
            f"{batch} sequences of {length:,} tokens at once, weights and cache in int8. How many {facts.card(card)} of "
            f"{formatting.quantity(memory, 'B')} hold them, if memory is all that counts?"
        ),
        answer=Answer(value=right, kind="devices", tolerance=0),
        mistakes=tuple(mistakes),
        solution=(
            (
                f"A sequence takes 2 x {facts.model(name).num_hidden_layers} x {kv} x {attention.head_dim} x {length:,} = "
                f"{one:,} B."
            ),
            f"All of them and the weights: {batch} x {one:,} + {weights:,} = {batch * one + weights:,} B.",
            *notes,
            (
                f"Over {memory:,} B that is {formatting.number((batch * one + weights) / memory)}, rounded up "
                f"{format_answer(right, 'devices')}."
            ),
        ),
        source=facts.scaling_book("applied-inference", "the size of the caches", own=own),
    )


def draw(rng: Rng) -> Problem:
    """A model, a TPU, a batch near a ridge point, and a long context."""
    return problem(
        rng.choice(_NAMES), rng.choice(facts.TPUS), rng.choice((120, 240, 240, 256, 512)), 1024 * rng.choice((16, 32, 64))
    )


TEMPLATE = Template(id="scaling-book-chips-for-a-batch", topic="scaling-book", minutes=5, draw=draw)
