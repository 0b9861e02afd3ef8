"""Goodput of a GPU, colocated and in two pools."""

from __future__ import annotations

from roofline.formatting import number
from roofline.teach.worksheets import worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template


def draw(rng: Rng) -> Problem | None:
    """Two deployments, and the rates up to which each keeps to both objectives."""
    fill, decode, replicas = rng.integer(1, 4), rng.integer(2, 8), rng.integer(2, 10)
    together, disaggregated = rng.integer(10, 60) / 10, rng.integer(30, 400) / 10
    size = rng.choice((1, 2, 4))
    pools = fill + decode
    right = (disaggregated / (size * pools)) / (together / size)
    if not 0.6 < right < 4 or len(number(right)) < 5 or fill == decode or replicas == pools:
        return None
    mistakes = (
        Mistake(
            name="rates compared",
            value=disaggregated / (replicas * together),
            hint="You compared the rates of both deployments. They have different numbers of GPUs.",
        ),
        Mistake(
            name="decode pool alone",
            value=disaggregated / decode / together,
            hint="You divided by the decode pool. The prefill GPUs are paid for too.",
        ),
        Mistake(
            name="upside down",
            value=1 / right,
            hint="That is colocated over disaggregated. The question is the other way round.",
        ),
        Mistake(
            name="one replica for all",
            value=disaggregated / together,
            hint="You compared all of the two pools with one colocated replica.",
        ),
    )
    return Problem(
        title="Goodput per GPU",
        text=(
            f"A colocated service of {replicas} replicas keeps to its objectives for TTFT and TPOT up to "
            f"{number(replicas * together)} requests/s. Disaggregated, {fill} prefill and {decode} decode replicas keep to "
            f"them up to {disaggregated:g} requests/s. Every replica of both has {size} {'GPU' if size == 1 else 'GPUs'}. "
            "How many "
            "times the goodput per GPU does the disaggregated service have?"
        ),
        answer=Answer(value=right, kind="ratio"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "Colocated, requests/s of a GPU:",
                "r_colocated / (n_replicas * n_gpu)",
                {
                    "r_colocated": (replicas * together, "goodput of all colocated replicas [requests/s]"),
                    "n_replicas": (replicas, "colocated replicas"),
                    "n_gpu": (size, "GPUs of a replica"),
                },
                "requests/s",
            ),
            worked.formula(
                "In two pools, over that:",
                "r_pools / ((n_prefill + n_decode) * n_gpu) / g_colocated",
                {
                    "r_pools": (disaggregated, "goodput of the two pools [requests/s]"),
                    "n_prefill": (fill, "prefill replicas"),
                    "n_decode": (decode, "decode replicas"),
                    "n_gpu": (size, "GPUs of a replica"),
                    "g_colocated": (together / size, "goodput of a colocated GPU [requests/s]"),
                },
                "1",
            ),
        ),
        source="Zhong et al. 2024 (DistServe), arXiv:2401.09670, section 6",
    )


TEMPLATE = Template(id="disaggregation-goodput-per-gpu", topic="disaggregation", minutes=4, draw=draw)
