"""A step with some layers' weights in host memory."""

from __future__ import annotations

from roofline import formatting
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("rtx-4090", "l40s", "a100-pcie-40gb", "h100-sxm")
_MODELS = ("qwen3-8b", "mistral-nemo-12b", "qwen3-32b", "llama-3.1-70b")


def draw(rng: Rng) -> Problem | None:
    """A model, an accelerator with its link to the host, and how many layers stay there."""
    name, card = rng.choice(_MODELS), rng.choice(_CARDS)
    layers, hardware = facts.model(name).num_hidden_layers, facts.hardware(card)
    away = rng.integer(4, layers - 4, 4)
    layer = 2 * facts.layer_weights(name) / layers
    if (layers - away) * layer > 0.8 * hardware.memory_bytes:
        return None
    rate, bandwidth = hardware.to_host().within(2), hardware.bandwidth
    over_link = float(hardware.to_host().seconds(away * layer, 0, 2))
    right = over_link + (layers - away) * layer / bandwidth
    here = layers * layer / bandwidth
    mistakes = (
        Mistake(
            name="all in device memory",
            value=here,
            hint="That is a step with all layers in device memory. Some come over the link to the host.",
        ),
        Mistake(
            name="both directions",
            value=right - over_link / 2,
            hint="You used the rate of both directions together. Weights come in one direction.",
        ),
        Mistake(
            name="all over the link",
            value=layers * layer / rate,
            hint=f"You sent all layers over the link. {layers - away} of them are in device memory.",
        ),
        Mistake(
            name="one layer away",
            value=layer / rate + (layers - 1) * layer / bandwidth,
            hint=f"You sent one layer. {away} of them are in host memory, and every step needs each of them.",
        ),
        Mistake(
            name="one FLOP, one byte",
            value=right / 2,
            hint="You read a byte for each weight. In bf16 there are two.",
        ),
    )
    return Problem(
        title="Offloaded layers",
        text=(
            f"{away} of the {layers} layers of {facts.title(name)} are in host memory, the others in that of an "
            f"{facts.card(card)}. A layer has {facts.layer_weights(name) // layers:,} weights in bf16. The link to the host "
            f"carries {formatting.quantity(rate, 'B/s')} in one direction, device memory "
            f"{formatting.quantity(bandwidth, 'B/s')}. A decode step fetches a layer, computes it, and drops it, one after the "
            "other; batch 1, and only reading the layers' weights counts. How long is a step at the least?"
        ),
        answer=Answer(value=right, kind="s"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Over the link:",
                "n_host * w_layer / R",
                {
                    "n_host": (away, "layers in host memory"),
                    "w_layer": (layer, "weights of a layer [bytes]"),
                    "R": (rate, "rate of the link [bytes/s]"),
                },
                "s",
            ),
            worked.formula(
                "With what is read from device memory:",
                "t_link + (L - n_host) * w_layer / beta",
                {
                    "t_link": (over_link, "over the link [s]"),
                    "L": (layers, ""),
                    "n_host": (away, "layers in host memory"),
                    "w_layer": (layer, "weights of a layer [bytes]"),
                    "beta": (bandwidth, ""),
                },
                "s",
            ),
            f"That is {formatting.number(right / here, 3)} times a step with all layers in device memory.",
        ),
        source="docs/preemption.md on the link to the host",
    )


TEMPLATE = Template(id="memory-hierarchy-offloaded-layers", topic="memory-hierarchy", minutes=5, draw=draw)
