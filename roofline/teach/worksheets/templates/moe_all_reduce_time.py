"""What tensor parallelism costs a decode step on its links."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.operators.collectives import AllReduce
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "llama-3.1-70b", "qwen3-32b")
_NODES = ("dgx-a100", "dgx-h100")


@cache
def _one(node: str, elements: int, devices: int) -> tuple[float, float]:
    """Seconds that the bytes of one all-reduce take on the links, and the rate of these."""
    joined = facts.hardware(node).connection(devices)
    if joined is None or joined.inside is None:
        return 0.0, 0.0
    sent = AllReduce(elements=elements, world=devices).cost().link_bytes
    return float(joined.seconds(sent, 0, devices)), joined.inside.bandwidth(devices)


def draw(rng: Rng) -> Problem:
    """A model, divided over some devices of a node, and the tokens of a step."""
    name, node, devices = rng.choice(_MODELS), rng.choice(_NODES), rng.choice((2, 4, 8))
    tokens = rng.choice((32, 64, 128, 256, 512, 1024, 2048))
    hidden, layers = facts.model(name).hidden_size, facts.model(name).num_hidden_layers
    one, rate = _one(node, tokens * hidden, devices)
    right = 2 * layers * one
    plain = devices / (2 * (devices - 1))
    mistakes = [
        Mistake(
            name="one pass of the ring",
            value=right / 2,
            hint="A ring goes round twice: once to add up (reduce-scatter), once to hand out the sums (all-gather).",
        ),
        Mistake(
            name="both directions",
            value=right / 2,
            hint="You took the bandwidth of both directions together. What a device sends goes in one of them.",
        ),
        pitfalls.one_layer(right / layers, layers),
        pitfalls.bits_for_bytes(right * 8, 16),
        Mistake(
            name="whole tensor twice",
            value=right * devices / (devices - 1),
            hint="You sent the whole tensor twice. Of its n pieces a device sends n - 1 in each pass.",
        ),
    ]
    if devices > 2:  # of two devices the factor is one
        mistakes.append(
            Mistake(
                name="tensor once",
                value=right * plain,
                hint="You sent the tensor once. A ring sends 2 (n - 1)/n of it from each device.",
            )
        )
    return Problem(
        title="All-reduces of a step",
        text=(
            f"{facts.title(name)} is divided over {devices} devices of an {facts.hardware(node).title} by tensor parallelism: "
            f"in each of its {layers} layers ($L$) two all-reduces, one after attention and one after the feed-forward block "
            f"or the experts, sum the {tokens:,} tokens ($T$) of a step, {hidden:,} elements each ($d_model$) in bf16. A "
            f"device sends at most {formatting.quantity(rate, 'B/s')} in one direction. How long do the bytes of these "
            "all-reduces take "
            "at the least, if each is a ring?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=tuple(mistakes),
        solution=(
            worked.formula(
                "The tensor that is summed:",
                "T * d_model * b_a",
                {"T": (tokens, ""), "d_model": (hidden, ""), "b_a": (facts.element_bytes("bf16"), "")},
                "bytes",
            ),
            worked.formula(
                "Each device sends 2 (n - 1)/n of it, twice a layer:",
                "2 * L * (2 * (n - 1) * Z / n) / R",
                {
                    "L": (layers, ""),
                    "n": (devices, "devices"),
                    "Z": (tokens * hidden * facts.element_bytes("bf16"), "tensor [bytes]"),
                    "R": (rate, "rate of the link [bytes/s]"),
                },
                "s",
            ),
        ),
        source="Thakur et al., IJHPCA 19(1), 2005, section 4.4",
    )


TEMPLATE = Template(id="moe-all-reduce-time", topic="moe", minutes=5, draw=draw)
