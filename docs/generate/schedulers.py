"""What a simulation can be given by name: schedulers, arrivals, distributions of lengths."""

from __future__ import annotations

from generate.docstring import prose
from generate.table import table
from roofline.serving.simulation.admission import ADMISSION
from roofline.serving.simulation.arrivals import ARRIVALS
from roofline.serving.simulation.candidates import CANDIDATES
from roofline.serving.simulation.schedulers import SCHEDULERS
from roofline.serving.traffic.lengths import DISTRIBUTIONS

_HEAD = """\
# Schedulers, arrivals, lengths

What [simulations](../simulation.md) and [plans](../capacity.md) take by name. Installed packages may
[add more](../extending.md).

## Schedulers

`--scheduler NAME`. A scheduler says how a step is formed, which blocks a request gets at admission, and which request is
preempted when a block is missing.
"""


def pages() -> dict[str, str]:
    """One page."""
    schedulers = [[f"`{one.name}`", prose(one.about), prose(one.source)] for one in SCHEDULERS.values()]
    admission = [[f"`{one.syntax}`", prose(one.about), prose(one.source)] for one in ADMISSION.values()]
    candidates = [[f"`{one.name}`", prose(one.about), prose(one.source)] for one in CANDIDATES.values()]
    arrivals = [[f"`{one.syntax}`", prose(one.about)] for one in ARRIVALS.values()]
    lengths = [[f"`{one.syntax}`", f"`{one.example}`", prose(one.about)] for one in DISTRIBUTIONS.values()]
    parts = [
        _HEAD,
        table(["name", "what it does", "source"], schedulers),
        "## Admission",
        "`--admission`: which requests may wait ([policies](../simulation.md#policies)).",
        table(["form", "what it does", "source"], admission),
        "## Preemption candidates",
        "`--preemption-candidate`: which request is preempted, unless the scheduler says so.",
        table(["name", "which", "source"], candidates),
        "## Arrivals",
        "`--workload`; `--rate R` is Poisson, and a [trace](../traffic.md) has its own.",
        table(["form", "meaning"], arrivals),
        "## Lengths",
        "`--input-len` and `--output-len` of plans, simulations and files of [traffic](../traffic.md).",
        table(["form", "for example", "meaning"], lengths),
    ]
    return {"schedulers.md": "\n\n".join(parts) + "\n"}
