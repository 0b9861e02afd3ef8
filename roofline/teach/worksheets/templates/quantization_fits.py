"""How many sequences fit once the weights are quantised."""

from __future__ import annotations

from roofline.formatting import percent
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s", "h200-sxm", "a100-pcie-40gb")
_BITS = 4.125  # and a scale of 16 bits for each 128 weights


def draw(rng: Rng) -> Problem | None:
    """A model in W4A16 on a card, a length, and the share of memory that the engine may use."""
    name, card = rng.choice(facts.DENSE), rng.choice(_CARDS)
    length, used = 1024 * rng.choice((2, 4, 8, 16)), rng.choice((85, 90, 95)) / 100
    right = facts.max_batch(name, card, length - 1, gpu_memory_utilization=used, quantization="w4a16")
    total, layers = facts.parameters(name).total, facts.layer_weights(name)
    capacity, one = facts.hardware(card).memory_bytes, facts.kv_bytes(name, length)
    rest = 2 * (total - layers)
    left = used * capacity - layers * _BITS / 8 - rest
    # as worked out by hand, without the activations that the toolkit counts: both have to agree
    if right < 4 or int(left / one) != right:
        return None

    def mistake(title: str, bytes_left: float, hint: str) -> Mistake:
        return Mistake(name=title, value=int(bytes_left / one), hint=hint)

    mistakes = (
        mistake("weights in bf16", used * capacity - 2 * total, "You took off the weights in bf16: that is before."),
        mistake(
            "all in four bits",
            used * capacity - total * _BITS / 8,
            "You quantised the embedding and the LM head too. They stay in bf16 here.",
        ),
        mistake("rest forgotten", used * capacity - layers * _BITS / 8, "What is not quantised is in memory as well."),
        mistake("scales left out", used * capacity - layers / 2 - rest, "You left the scales out: 16 bits for 128 weights."),
        mistake("all of the memory", capacity - layers * _BITS / 8 - rest, f"The engine may use {percent(used, 0)} of it."),
        mistake("weights forgotten", used * capacity, "The weights are in the same memory: they are smaller, not gone."),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the last one does not fit whole."),
    )
    return Problem(
        title="What fits after quantising",
        text=(
            f"The layers of {facts.title(name)} have {layers:,} weights in linear layers. They are stored in four bits, with a "
            f"scale of 16 bits for each group of 128. The other {total - layers:,} parameters stay in bf16. On one "
            f"{facts.card(card)} with {capacity / 2**30:.2f} GiB of memory the engine may use {percent(used, 0)}. The cache is "
            f"in bf16, {facts.kv_bytes_per_token(name):,} bytes per token. How many sequences of {length:,} tokens fit at the "
            "same time? Activations are too small to matter."
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        # a small mistake often leaves the same number of whole sequences
        mistakes=tuple(one for one in mistakes if one.value != right),
        solution=(
            worked.formula(
                "The weights, in 4 + 16/128 = 4.125 bits each, and the rest in two bytes:",
                "N_q * (4 * 128 + 16) / 128 / 8 + b_w * N_r",
                {
                    "N_q": (layers, "quantised weights"),
                    "N_r": (total - layers, "parameters in bf16"),
                    "b_w": (2, ""),
                },
                "bytes",
            ),
            worked.formula(
                "What is left of the memory, over the cache of a sequence; whole ones fit:",
                "(u * C - W) / (S_c * k_token)",
                {
                    "u": (used, "share of the memory that is used"),
                    "C": (capacity, "capacity [bytes]"),
                    "W": (layers * _BITS / 8 + rest, "weights [bytes]"),
                    "S_c": (length, ""),
                    "k_token": (facts.kv_bytes_per_token(name), "cache of a token [bytes]"),
                },
                "sequences",
            ),
        ),
    )


TEMPLATE = Template(id="quantization-fits", topic="quantization", minutes=7, draw=draw)
