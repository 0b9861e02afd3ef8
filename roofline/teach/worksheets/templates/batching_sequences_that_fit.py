"""How many sequences fit in the memory of a device."""

from __future__ import annotations

from roofline.formatting import percent
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h200-sxm", "a100-pcie-40gb", "h100-sxm")


def draw(rng: Rng) -> Problem | None:
    """A model, an accelerator, a length, and the share of memory that the engine may use."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    length, used = 1024 * rng.choice((2, 4, 8, 16)), rng.choice((85, 90, 95)) / 100
    # the token that is being generated has a place too: cached before the step is one less
    right = facts.max_batch(name, card, length - 1, gpu_memory_utilization=used)
    capacity, weights, one = facts.hardware(card).memory_bytes, 2 * facts.parameters(name).total, facts.kv_bytes(name, length)
    left = used * capacity - weights
    # as worked out by hand, without the activations that the toolkit counts: both have to agree
    if right < 4 or int(left / one) != right:
        return None
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = [
        Mistake(
            name="weights forgotten",
            value=int(used * capacity / one),
            hint="The weights are in the same memory. Take them off before you divide.",
        ),
        Mistake(
            name="all of the memory",
            value=int((capacity - weights) / one),
            hint=f"You used all of the memory. The engine may use {percent(used, 0)} of it.",
        ),
        Mistake(
            name="GB for GiB",
            value=int((used * round(capacity / 2**30) * 1e9 - weights) / one),
            hint="You took 1 GiB for 10^9 bytes: it is 1024^3 bytes, 7 % more.",
        ),
        pitfalls.k_without_v(int(left / (one / 2))),
        pitfalls.query_heads(int(left / (one * queries / kv)), queries, kv),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the last one does not fit whole."),
    ]
    return Problem(
        title="Sequences that fit",
        text=(
            f"An engine serves {facts.title(name)} ({facts.parameters(name).total:,} parameters, weights and cache in bf16; "
            f"{facts.shape(name, 'layers', 'queries', 'kv', 'head')}) on one {facts.card(card)} with "
            f"{capacity / 2**30:.2f} GiB of "
            f"memory, of which it may use {percent(used, 0)}. How many sequences of {length:,} tokens fit at the same time? "
            f"Activations are "
            "too small to matter."
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        mistakes=tuple(mistakes),
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                f"Next to the weights ($b_w$ = 2 bytes per parameter, N of them) this number of sequences fits, of "
                f"{length:,} "
                "tokens ($S_c$), of which whole ones fit:",
                "(u * C - b_w * N) / (S_c * k_token)",
                {
                    "u": (used, "share of the memory that is used"),
                    "C": (capacity, "capacity [bytes]"),
                    "N": (facts.parameters(name).total, "parameters"),
                    "b_w": (2, ""),
                    "S_c": (length, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                },
                "sequences",
            ),
            f"So {right} fit.",
        ),
        source="after F19 of docs/published-figures.md",
    )


TEMPLATE = Template(id="batching-sequences-that-fit", topic="batching", minutes=6, draw=draw)
