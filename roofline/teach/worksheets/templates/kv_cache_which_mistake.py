"""Which mistake gives this number?"""

from __future__ import annotations

from roofline.teach.quantities import format_answer
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_NAMES = {
    "values": "keys were counted, values were not",
    "queries": "query heads were taken for KV heads",
    "bits": "bits were taken for bytes",
    "layer": "one layer was counted",
    "none": "no mistake: the number is right",
}


def draw(rng: Rng) -> Problem:
    """A model, a wrong number (or the right one), and the mistakes to choose from."""
    name, tokens = rng.choice(facts.DENSE), 1024 * rng.choice((2, 4, 8, 16, 32))
    attention, layers = facts.mixer(name), facts.model(name).num_hidden_layers
    factors = {
        "values": 0.5,
        "queries": attention.num_attention_heads / attention.num_key_value_heads,
        "bits": 8.0,
        "layer": 1 / layers,
        "none": 1.0,
    }
    if factors["queries"] == factors["bits"]:
        del factors["queries"]  # both give the same number
    made = rng.choice(list(factors))
    order = rng.shuffled([key for key in factors if key != "none"])
    order.append("none")
    size = facts.kv_bytes(name, tokens)
    hints = {
        key: f"That would make it {'right' if factor == 1 else format_answer(size * factor, 'bytes')}: compute it, and compare."
        for key, factor in factors.items()
    }
    hints["none"] = "It is not right. Work it out: 2 x layers x KV heads x head width x bytes per element, for each token."
    return Problem(
        title="Which mistake was it?",
        text=(
            f"A colleague says that {tokens:,} tokens of cache in bf16 take "
            f"**{format_answer(size * factors[made], 'bytes')}** with "
            f"{facts.title(name)}, which has {facts.shape(name, 'layers', 'queries', 'kv', 'head')}. What happened?"
        ),
        answer=Answer(value=order.index(made), kind="choice", choices=tuple(_NAMES[key] for key in order)),
        mistakes=tuple(Mistake(name=_NAMES[key], value=order.index(key), hint=hints[key]) for key in order if key != made),
        solution=(
            worked.explained("A token takes, over all layers:", name, "kv_bytes_per_token"),
            (
                f"{tokens:,} of them take {format_answer(size, 'bytes')}. "
                f"The number is {factors[made]:g} times that: {_NAMES[made]}."
            ),
        ),
    )


TEMPLATE = Template(id="kv-cache-which-mistake", topic="kv-cache", minutes=3, draw=draw)
