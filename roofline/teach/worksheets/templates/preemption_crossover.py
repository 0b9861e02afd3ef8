"""The length from which computing again is the cheaper."""

from __future__ import annotations

from roofline import formatting
from roofline.serving.preemption.crossover import quadratic
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_MODELS = ("llama-2-7b", "phi-3-mini-4k", "yarn-llama-2-7b-64k")
"""Models with a KV head for each query head: a token of theirs is longer to copy than to compute, over a slow link."""
_CARDS = ("a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "h100-pcie")


def draw(rng: Rng) -> Problem | None:
    """A model, a card, and a link so slow that a token takes longer to copy out and in than to compute."""
    name, card, share = rng.choice(_MODELS), rng.choice(_CARDS), rng.integer(50, 75, 5) / 100
    rate = rng.integer(4, 14) * 1e9
    hardware = facts.hardware(card)
    weights = facts.floor(name, card, 1, 1, 1).weight_bytes
    first = float(f"{weights / hardware.bandwidth:.3g}")
    each = float(f"{2 * facts.layer_weights(name) / (share * hardware.peak('bf16')):.3g}")
    copied = float(f"{facts.kv_bytes_per_token(name) / rate:.3g}")  # one way
    if not 1.15 * each < 2 * copied < 6 * each:
        return None
    (right,) = quadratic(c=first, alpha=each, gamma=0, tau=0, sigma=2 * copied)
    if right > 4000:
        return None
    mistakes: tuple[Mistake, ...] = (
        Mistake(
            name="nothing to compute",
            value=first / (2 * copied),
            hint="You left out the time of each token. A longer prompt takes longer to compute, too.",
        ),
        Mistake(
            name="added",
            value=first / (2 * copied + each),
            hint="You added what copying and computing a token take. What counts is by how much copying one takes longer.",
        ),
        Mistake(
            name="both ways twice",
            value=first / (4 * copied - each),
            hint="You went out and in twice. Each token crosses the link once in either direction.",
        ),
    )
    if copied > each:
        one_way = first / (copied - each)
        mistakes += (Mistake(name="one way", value=one_way, hint="A token goes out and comes back: twice the time."),)
    return Problem(
        title="The crossover",
        text=(
            f"To compute an evicted sequence of {facts.title(name)} again, an {facts.card(card)} needs "
            f"{formatting.quantity(first, 's')} to read the weights, however long the sequence is, and "
            f"{formatting.quantity(each, 's')} for each "
            "token; attention is left out. Over its link to the host the cache of a token takes "
            f"{formatting.quantity(copied, 's')} in "
            "one direction. Short sequences are swapped out and in. From which length on is it quicker to compute them again?"
        ),
        answer=Answer(value=right, kind="tokens"),
        mistakes=mistakes,
        solution=(
            "Out and in, a token takes twice as long as in one direction, and that is longer than to compute it.",
            worked.formula(
                "So each token makes up for a part of the time in which the weights are read. Both take as long at:",
                "t_weights / (2 * t_copy - t_compute)",
                {
                    "t_weights": (first, "read the weights [s]"),
                    "t_copy": (copied, "a token in one direction [s]"),
                    "t_compute": (each, "compute a token [s]"),
                },
                "tokens",
            ),
        ),
        source="docs/preemption.md",
    )


TEMPLATE = Template(id="preemption-crossover", topic="preemption", minutes=5, draw=draw)
