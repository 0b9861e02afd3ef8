"""How many idle conversations stay cached beside the running ones."""

from __future__ import annotations

from roofline.formatting import percent
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


def draw(rng: Rng) -> Problem | None:
    """A model on a card, running sequences, and conversations that wait for their next turn."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    length, history, running = 1024 * rng.choice((2, 4, 8)), 1024 * rng.choice((2, 3, 4, 6)), rng.choice((8, 16, 24, 32))
    used = rng.choice((85, 90, 95)) / 100
    capacity, weights, token = facts.hardware(card).memory_bytes, facts.loaded_bytes(name), facts.kv_bytes_per_token(name)
    left = used * capacity - weights - running * facts.kv_bytes(name, length)
    right = int(left / facts.kv_bytes(name, history))
    if right < 4 or abs(left / facts.kv_bytes(name, history) - right - 0.5) > 0.35:
        return None
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    one = facts.kv_bytes(name, history)
    mistakes = (
        Mistake(
            name="running ones forgotten",
            value=int((used * capacity - weights) / one),
            hint="Running sequences have their caches first: only what they leave can keep prefixes.",
        ),
        Mistake(name="weights forgotten", value=int((left + weights) / one), hint="The weights are in the same memory."),
        Mistake(
            name="all of the memory",
            value=int((left + (1 - used) * capacity) / one),
            hint=f"The engine may use {percent(used, 0)} of the memory.",
        ),
        pitfalls.query_heads(int(left / (one * queries / kv)), queries, kv),
        pitfalls.k_without_v(int(left / (one / 2))),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the last one does not fit whole."),
    )
    return Problem(
        title="Conversations that stay",
        text=(
            f"An engine serves {facts.title(name)} ({facts.parameters(name).total:,} parameters, weights and cache in bf16; "
            f"{facts.shape(name, 'layers', 'queries', 'kv', 'head')}) on one {facts.card(card)} with "
            f"{capacity / 2**30:.2f} GiB of memory, of which it may use {percent(used, 0)}. {running} running sequences have "
            f"{length:,} tokens each. Conversations that wait for their next turn have {history:,} tokens. How many of them "
            "stay cached whole? Activations are too small to matter."
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            worked.explained("A token of the cache takes:", name, "kv_bytes_per_token"),
            worked.formula(
                "What weights and running sequences leave, over a conversation; whole ones stay:",
                "(u * C - b_w * N - B * S_c * k_token) / (H * k_token)",
                {
                    "u": (used, "share of the memory that is used"),
                    "C": (capacity, "capacity [bytes]"),
                    "N": (facts.parameters(name).total, "parameters"),
                    "b_w": (2, ""),
                    "B": (running, ""),
                    "S_c": (length, ""),
                    "H": (history, "tokens of a conversation"),
                    "k_token": (token, "cache of a token [bytes]"),
                },
                "sequences",
            ),
        ),
    )


TEMPLATE = Template(id="prefix-caching-prefixes-that-fit", topic="prefix-caching", minutes=6, draw=draw)
