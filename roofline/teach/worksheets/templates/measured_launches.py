"""A decode step without a graph of kernels: how long the device waits for the host."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.graph.build import build
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.parameters import TWO_BYTES
from roofline.specs.deployment import Deployment
from roofline.specs.workload import decode
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("llama-3.2-1b", "gpt2", "llama-3.1-8b", "qwen3-8b", "phi-3-mini-4k")
_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm")


@cache
def _calls(name: str) -> tuple[int, int]:
    """Kernels of a decode step: of a layer, and of all layers with what comes before and after them."""
    launched = kernels(build(facts.model(name), Deployment(), TWO_BYTES, decode(1, 512)))
    layer = sum(1 for kernel in launched if kernel.paths[0].startswith("layers/"))
    return layer, sum(int(kernel.repeat) for kernel in launched)


def draw(rng: Rng) -> Problem | None:
    """A small step on a quick card, and a host that takes some microseconds for each kernel."""
    name, card, each = rng.choice(_MODELS), rng.choice(_CARDS), rng.choice((6, 8, 10, 12, 15, 20)) * 1e-6
    layer, calls = _calls(name)
    layers = facts.model(name).num_hidden_layers
    if layer * layers >= calls:
        return None
    work = float(f"{facts.floor(name, card, 1, 1, 512).seconds / (rng.integer(60, 90) / 100):.3g}")
    host = calls * each
    if work > 0.85 * host or work < 0.05 * host:
        return None
    mistakes = (
        Mistake(
            name="working share",
            value=work / host,
            hint="That is the share of the step in which the device works. The answer is the rest.",
        ),
        Mistake(
            name="one after the other",
            value=host / (host + work),
            hint="You added the two times. While the device works on a kernel the host starts the next ones.",
        ),
        Mistake(
            name="one layer",
            value=layers * each / (layers * each + work),
            hint="A layer is several kernels, and each of them is started on its own.",
        ),
        Mistake(
            name="over the work",
            value=(host - work) / work,
            hint="That is the wait over the time of the work. The answer is its share of the whole step.",
        ),
    )
    return Problem(
        title="Waiting for launches",
        text=(
            f"A decode step of {facts.title(name)} is {layer} kernels in each of {layers} layers, and {calls - layer * layers} "
            f"besides. Replayed as a CUDA graph on an {facts.card(card)} it takes {formatting.quantity(work, 's')}: "
            "the kernels follow "
            f"each other without gaps. Without a graph the host needs {each * 1e6:g} µs to start each kernel; it does not wait "
            "for kernels to end, but the device cannot begin one before it was started. (The step is then as long as "
            "the longer of these times; what the last kernel adds does not count.) For what share of it is the device idle?"
        ),
        answer=Answer(value=1 - work / host, kind="share"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "To start all kernels the host needs longer than the device to work on them, and so long is the step:",
                "(n_layer * L + n_more) * t_launch",
                {
                    "n_layer": (layer, "kernels of a layer"),
                    "L": (layers, ""),
                    "n_more": (calls - layer * layers, "other kernels"),
                    "t_launch": (each, "start of a kernel [s]"),
                },
                "s",
            ),
            worked.formula(
                "In the rest of it the device waits:",
                "(t_host - t_work) / t_host",
                {"t_host": (host, "starts [s]"), "t_work": (work, "work [s]")},
                "1",
            ),
        ),
    )


TEMPLATE = Template(id="measured-launches", topic="measured", minutes=5, draw=draw)
