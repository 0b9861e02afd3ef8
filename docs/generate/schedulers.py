"""What a simulation can be given by name: schedulers, arrivals, distributions of lengths."""

from __future__ import annotations

from generate.docstring import prose
from generate.table import table
from roofline.serving.simulation.arrivals import kinds as arrivals
from roofline.serving.simulation.schedulers import schedulers
from roofline.serving.traffic.lengths import KINDS

_HEAD = """\
# Schedulers, arrivals, lengths

What [simulations](../simulation.md) and [plans](../capacity.md) are given by name. Each is one file, found by walking its
folder.

## Schedulers

`--scheduler NAME`. A scheduler is made of parts: who is let in, how a step is formed, who goes when a block is missing.
"""


def pages() -> dict[str, str]:
    """One page."""
    listed = [[f"`{one.name}`", prose(one.about), prose(one.source)] for one in schedulers().values()]
    coming = [[f"`{one.form}`", prose(one.about)] for one in arrivals().values()]
    long = [[f"`{one.form}`", f"`{one.example}`", prose(one.about)] for one in KINDS.values()]
    parts = [
        _HEAD,
        table(["name", "what it does", "source"], listed),
        "## Arrivals",
        "`--workload`; `--rate R` is Poisson, and a [trace](../traffic.md) has its own.",
        table(["form", "meaning"], coming),
        "## Lengths",
        "`--input-len` and `--output-len` of plans, simulations and files of [traffic](../traffic.md).",
        table(["form", "for example", "meaning"], long),
    ]
    return {"schedulers.md": "\n\n".join(parts) + "\n"}
