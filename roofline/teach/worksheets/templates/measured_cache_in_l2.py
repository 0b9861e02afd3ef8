"""A benchmark of attention that measures the L2 cache."""

from __future__ import annotations

from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "l40s", "rtx-4090")


def draw(rng: Rng) -> Problem | None:
    """A model, a context, and an accelerator with its L2 cache."""
    name, card, context = rng.choice(facts.DENSE), rng.choice(_CARDS), rng.choice((256, 384, 512, 768, 1024, 1536, 2048))
    l2, layers = facts.hardware(card).accelerator.l2, facts.model(name).num_hidden_layers
    if l2 is None:
        return None
    one = facts.kv_bytes(name, context) / layers
    right = int(l2.value / one)
    if right < 4:
        return None
    attention = facts.mixer(name)
    queries, kv = attention.num_attention_heads, attention.num_key_value_heads
    mistakes = (
        pitfalls.k_without_v(int(l2.value / (one / 2))),
        pitfalls.query_heads(int(l2.value / (one * queries / kv)), queries, kv),
        pitfalls.bits_for_bytes(int(l2.value / (one * 8)), 16),
        Mistake(
            name="GB for GiB",
            value=int(l2.value / 2**20 * 1e6 / one),
            hint="You took 1 MiB for 10^6 bytes: it is 1024^2 bytes, 5 % more.",
        ),
        Mistake(
            name="all layers",
            value=int(l2.value / (one * layers)),
            hint="The benchmark runs one layer again and again: the others have no cache here.",
        ),
        Mistake(name="one too many", value=right + 1, hint="Rounded up, the last one does not fit whole."),
    )
    return Problem(
        title="Measured from the cache",
        text=(
            f"A benchmark times the decode attention of **one layer** of {facts.title(name)} "
            f"({facts.shape(name, 'queries', 'kv', 'head')}; keys and values in bf16), again and again on the same sequences "
            f"of {context:,} cached tokens each, without flushing anything. The L2 cache of an {facts.card(card)} holds "
            f"{l2.value / 2**20:g} MiB. Up to how many sequences can all their keys and values be read from there, so that "
            "memory bandwidth is not measured at all?"
        ),
        answer=Answer(value=right, kind="sequences", tolerance=0),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Keys and values of a sequence in one layer, at two bytes per element:",
                "2 * 2 * n_kv * d_head * S_c",
                {"n_kv": (kv, ""), "d_head": (attention.head_dim, ""), "S_c": (context, "")},
                "bytes",
            ),
            worked.formula(
                "Whole sequences fit, so that this is rounded down:",
                "Z / k_layer",
                {"Z": (l2.value, "L2 cache [bytes]"), "k_layer": (one, "a sequence in one layer [bytes]")},
                "sequences",
            ),
        ),
        source="docs/validation.md",
    )


TEMPLATE = Template(id="measured-cache-in-l2", topic="measured", minutes=4, draw=draw)
