"""What the building takes beyond its machines in a year."""

from __future__ import annotations

from roofline import formatting
from roofline.serving.planning.candidates import watts
from roofline.teach.worksheets import facts, worked
from roofline.teach.worksheets.problem import Answer, Mistake, Problem, Rng, Template

_NODES = ("dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200")
_HOURS = 8760


def draw(rng: Rng) -> Problem | None:
    """Some nodes, the share of their power that they draw, and a PUE."""
    node, count = rng.choice(_NODES), rng.integer(2, 64)
    share, pue = rng.integer(50, 90, 5) / 100, rng.integer(108, 160, 2) / 100
    hardware = facts.hardware(node)
    if hardware.node is None or (power := watts(hardware, hardware.node.count)) is None:
        return None
    machines = count * power * share * _HOURS * 3600
    right = (pue - 1) * machines
    mistakes = (
        Mistake(
            name="whole building",
            value=pue * machines,
            hint="That is the whole building. The question is what it takes beyond its machines.",
        ),
        Mistake(
            name="share of the building",
            value=(1 - 1 / pue) * machines,
            hint=(
                "PUE is energy of the building over that of the machines, so that what comes on top is a share of the "
                "machines'."
            ),
        ),
        Mistake(
            name="full power",
            value=right / share,
            hint=f"That is at full power. The boards draw {formatting.percent(share, 0)} of it on average.",
        ),
        Mistake(
            name="one GPU in a node",
            value=right / hardware.node.count,
            hint=f"You counted one GPU in each node. There are {hardware.node.count}.",
        ),
        Mistake(
            name="joules for watt-hours",
            value=right * 3600,
            hint="You took joules for watt-hours: an hour has 3,600 seconds.",
        ),
    )
    return Problem(
        title="Power usage effectiveness",
        text=(
            f"{count} {hardware.title} run all year ({_HOURS:,} hours), each with {hardware.node.count} GPUs of "
            f"{formatting.quantity(power / hardware.node.count, 'W')} that draw {formatting.percent(share, 0)} of it on "
            f"average. Count the GPUs alone as the machines. The building has a PUE of {pue:g}. How much energy does it take "
            "in the year beyond that of its machines?"
        ),
        answer=Answer(value=right, kind="joules"),
        mistakes=mistakes,
        solution=(
            worked.formula(
                "The machines, in a year:",
                "n_nodes * n_gpu * P_board * u * t_year * 3600",
                {
                    "n_nodes": (count, "nodes"),
                    "n_gpu": (hardware.node.count, "GPUs of a node"),
                    "P_board": (power / hardware.node.count, "power of a board [W]"),
                    "u": (share, "share drawn"),
                    "t_year": (_HOURS, "hours of a year"),
                },
                "J",
            ),
            worked.formula(
                "PUE is all over the machines; what comes on top:",
                "(p_pue - 1) * E_machines",
                {"p_pue": (pue, "PUE"), "E_machines": (machines, "energy of the machines [J]")},
                "J",
            ),
            f"A watt-hour is 3,600 joules: {formatting.quantity(right / 3600, 'Wh')}.",
        ),
        source="docs/capacity.md, costs and energy",
    )


TEMPLATE = Template(id="energy-pue", topic="energy", minutes=4, draw=draw)
