"""How many times its bound a product of matrices takes."""

from __future__ import annotations

from functools import cache

from roofline import formatting
from roofline.formatting import number
from roofline.operators.gemm import Gemm
from roofline.predict.efficiency.kernels import Kernel
from roofline.teach.worksheets import facts, pitfalls, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_CARDS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s")
_MODELS = ("llama-3.1-8b", "qwen3-8b", "qwen2.5-7b", "qwen3-32b", "llama-3.1-70b")


@cache
def _kernel(card: str, m: int, n: int, k: int) -> tuple[float, float, float]:
    """FLOP and bytes of a product in bf16, and the seconds that kernels like it were measured to take."""
    gemm = Gemm(m=m, n=n, k=k)
    cost = gemm.cost()
    seconds = facts.request("llama-3.1-8b", card).estimator.seconds(Kernel("gemm", {"": gemm}, ("",), 1))
    return float(cost.matrix_flops), float(cost.bytes), float(seconds)


def draw(rng: Rng) -> Problem | None:
    """A down projection, by some tokens, whose two ceilings are not too far apart."""
    name, card = rng.choice(_MODELS), rng.choice(_CARDS)
    tokens = rng.choice((16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
    hidden, inner = facts.model(name).hidden_size, facts.mlp(name).intermediate_size
    flops, moved, estimate = _kernel(card, tokens, hidden, inner)
    peak, bandwidth = facts.hardware(card).peak("bf16"), facts.hardware(card).bandwidth
    compute, memory, seconds = flops / peak, moved / bandwidth, float(f"{estimate:.3g}")
    bound, other = max(compute, memory), min(compute, memory)
    if seconds < 1.04 * bound or other < 0.05 * bound:
        return None
    if len(number(seconds / bound)) < 5:  # a rounder one might stand in the text by chance
        return None
    weights = hidden * inner * facts.element_bytes("bf16")
    mistakes = (
        Mistake(
            name="sum of both",
            value=seconds / (compute + memory),
            hint="You added the two times. Memory and matrix units work at the same time: the bound is the longer one.",
        ),
        Mistake(
            name="the other ceiling",
            value=seconds / other,
            hint="That is over the shorter of the two times. No kernel is faster than the longer one.",
        ),
        pitfalls.sparse_peak(seconds / max(compute / 2, memory), formatting.quantity(peak, "FLOP/s")),
        pitfalls.multiply_accumulates(seconds / max(compute / 2, memory)),
        Mistake(
            name="upside down",
            value=bound / seconds,
            hint=(
                "That is the share of the bound's speed that is reached. The answer is how many times its time the kernel "
                "takes."
            ),
        ),
        Mistake(
            name="activations alone",
            value=seconds / max(compute, (moved - weights) / bandwidth),
            hint="The weights cross the bus too: a matrix of inner width times hidden size.",
        ),
    )
    # of a product on the other side of the ridge the peak, or the weights, change nothing: that is no mistake then
    possible = tuple(one for one in mistakes if abs(one.value * bound / seconds - 1) > 1e-9)
    return Problem(
        title="Over the bound",
        text=(
            f"The down projection of {facts.title(name)} multiplies {tokens:,} tokens ($T$) of width {inner:,} ($d_ff$) by a "
            f"matrix that makes them {hidden:,} wide ($d_model$). Going by measured kernels, this takes "
            f"{formatting.quantity(seconds, 's')} on an {facts.card(card)}, which has "
            f"{facts.peak_and_bandwidth(card)}. Weights, inputs "
            "and outputs are in bf16, and each crosses the memory bus once. How many times the roofline's bound is that?"
        ),
        answer=Answer(value=seconds / bound, kind="ratio"),
        mistakes=possible,
        solution=(
            worked.formula(
                "At the peak its products would take:",
                "2 * T * d_model * d_ff / P",
                {"T": (tokens, ""), "d_model": (hidden, ""), "d_ff": (inner, ""), "P": (peak, "")},
                "s",
            ),
            worked.formula(
                "The memory needs for weights, inputs and outputs, two bytes per element:",
                "2 * (d_model * d_ff + T * d_ff + T * d_model) / beta",
                {"T": (tokens, ""), "d_model": (hidden, ""), "d_ff": (inner, ""), "beta": (bandwidth, "")},
                "s",
            ),
            worked.formula(
                "The longer one is the bound:",
                "t / max(t_compute, t_memory)",
                {
                    "t": (seconds, "time of the kernel [s]"),
                    "t_compute": (compute, "products at the peak [s]"),
                    "t_memory": (memory, "bytes at the bandwidth [s]"),
                },
                "1",
            ),
        ),
        source="docs/estimates.md, docs/validation.md",
    )


TEMPLATE = Template(id="measured-over-the-bound", topic="measured", minutes=6, draw=draw)
