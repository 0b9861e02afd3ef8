"""The three-parameter roofline: a launch, and ceilings that are fractions of the datasheet's. What other forms have to beat."""

from __future__ import annotations

from roofline.numeric import Expr, maximum
from roofline.predict.bounds import times
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import Conditions, Form, Operators, Parameter, Values


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    busy = [times(operator, operator.cost(), chip.hardware) for operator in operators.values()]
    compute = sum(time.matrix for time in busy) / values["compute"]
    memory = maximum(sum(time.memory for time in busy), sum(time.link for time in busy)) / values["memory"]
    return {
        "launch": values["launch"],
        "compute": compute,
        "memory": memory,
        "total": values["launch"] + maximum(compute, memory),
    }


CEILINGS = Form(
    name="ceilings",
    ops=(),
    about="a launch, and the slower of two ceilings",
    parameters=(
        Parameter(name="launch", unit="s", meaning="time of an empty call", start=3e-6, low=1e-7, high=1e-3),
        Parameter(name="compute", unit="1", meaning="fraction of the matrix peak", start=0.7, low=0.01, high=1.5),
        Parameter(
            name="memory", unit="1", meaning="fraction of the bandwidth of memory or link", start=0.7, low=0.01, high=1.5
        ),
    ),
    terms=_terms,
)
