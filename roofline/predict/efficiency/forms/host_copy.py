"""Copies between device memory and the host: a latency a call, and the link at a fraction of its rate.

Memory of the host that is not page-locked takes a detour through a buffer that is: a family of its own, with a lower fraction.
"""

from __future__ import annotations

from roofline.numeric import Expr
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import Conditions, Form, Operators, Parameter, Values


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    (operator,) = operators.values()
    cost = operator.cost()
    calls = values["call"] * cost.messages
    link = chip.hardware.to_host().seconds(cost.link_bytes, 0, 2) / values["link"]
    return {"calls": calls, "link": link, "total": calls + link}


HOST_COPY = Form(
    name="host_copy",
    ops=("copy_h2d", "copy_d2h"),
    about="a copy over the link to the host: a latency for each of its calls, and its bytes",
    parameters=(
        Parameter(name="call", unit="s", meaning="latency of a call", start=8e-6, low=1e-7, high=1e-3),
        Parameter(name="link", unit="1", meaning="fraction of the link's bandwidth", start=0.8, low=0.01, high=1.0),
    ),
    terms=_terms,
)
