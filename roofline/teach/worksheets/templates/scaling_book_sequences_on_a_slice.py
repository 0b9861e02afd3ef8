"""Sequences whose caches fit on a slice beside the weights, after the inference chapters of "How to Scale Your Model"."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

BOOK = (
    ("llama-3.1-70b", "tpu-v5e", 8, 8192),
    ("scaling-book", "tpu-v5e", 16, 128_000),
    ("scaling-book-mqa", "tpu-v5e", 16, 128_000),
)
_NOTES = {
    BOOK[0]: (
        "The book has 43 in its table of slices for bf16, which rounds to 70e9 parameters and 324 kB a token; its 52 "
        "of int8 does "
        "not follow from its own formula."
    ),
    BOOK[1]: "With 131,072 tokens for 128k it would be one fewer.",
}
_NAMES = ("llama-3.1-70b", "scaling-book", "scaling-book-mqa", "llama-3.1-8b", "qwen3-32b")


def problem(name: str, card: str, devices: int, length: int) -> Problem | None:
    """The problem of a model in int8 on a slice; None if what is worked out by hand is not what the toolkit has."""
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    memory, weights = devices * int(facts.hardware(card).memory_bytes), facts.parameters(name).total
    one = facts.kv_bytes(name, length, "int8")
    if not 3 * one < memory - weights < 999 * one:
        return None
    right = facts.max_batch(
        name, card, length - 1, tp=devices, decode_context_parallel_size=max(1, devices // kv), dtype="int8",
        activation_dtype="bf16", kv_cache_dtype="int8", gpu_memory_utilization=1,
    )  # fmt: skip
    # by hand, without the activations that the toolkit counts: both have to agree
    if int((memory - weights) / one) != right:
        return None
    setting = (name, card, devices, length)
    mistakes = [
        Mistake(
            name="weights forgotten",
            value=int(memory / one),
            hint="The weights are in the same memory. Take them off before you divide.",
        ),
        Mistake(
            name="bf16",
            value=int((memory - 2 * weights) / (2 * one)),
            hint="That is with two bytes for a weight and an element of the cache. In int8 each is one.",
        ),
        pitfalls.k_without_v(int((memory - weights) / (one / 2))),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the last one does not fit whole."),
    ]
    if devices > kv:
        mistakes.append(
            Mistake(
                name="KV heads held twice",
                value=int((memory - weights) / (one * devices / kv)),
                hint=(
                    f"You held a KV head on several of the {devices} chips. Here the cache is divided over all of them, and "
                    "none is held twice."
                ),
            )
        )
    if queries != kv:
        mistakes.append(pitfalls.query_heads(int((memory - weights) / (one * queries / kv)), queries, kv))
    return Problem(
        title="Sequences on a slice",
        text=(
            f"{facts.title(name)} ({weights:,} parameters; {facts.shape(name, 'layers', 'queries', 'kv', 'head')}) is "
            "served on "
            f"{devices} {facts.card(card)} of {formatting.quantity(facts.hardware(card).memory_bytes, 'B')}, weights "
            "and cache in "
            f"int8, both divided over all chips. How many sequences of {length:,} tokens fit at the same time? Nothing is kept "
            "for activations."
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        # few long sequences: some mistakes come to the right number
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            *((_NOTES[setting],) if setting in _NOTES else ()),
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token", kv_cache_dtype="int8"),
            worked.formula(
                "Next to the weights this number of sequences fits, of which whole ones count:",
                "(n * C - N) / (S_c * k_token)",
                {
                    "n": (devices, "chips"),
                    "C": (facts.hardware(card).memory_bytes, "memory of a chip [bytes]"),
                    "N": (weights, "parameters, a byte each"),
                    "S_c": (length, ""),
                    "k_token": (facts.kv_bytes_per_token(name, "int8"), "cache of a token [bytes]"),
                },
                "sequences",
            ),
        ),
        source=facts.scaling_book(
            "inference" if name.startswith("scaling-book") else "applied-inference",
            "question 2 of Worked Problems" if name.startswith("scaling-book") else "caches that fit on a slice",
            own=setting in BOOK,
        ),
    )


def draw(rng: Rng) -> Problem | None:
    """A model, a slice and a length."""
    return problem(
        rng.choice(_NAMES), rng.choice(facts.TPUS), rng.choice((4, 8, 16)), rng.choice((8192, 16384, 32768, 128_000))
    )


TEMPLATE = Template(id="scaling-book-sequences-on-a-slice", topic="scaling-book", minutes=6, draw=draw)
