"""One message to a neighbour: a launch, and its bytes at a fraction of the link's rate."""

from __future__ import annotations

from roofline.errors import InputError
from roofline.numeric import Expr
from roofline.operators.send_recv import SendRecv
from roofline.predict.efficiency.chip import Chip
from roofline.predict.efficiency.form import Conditions, Form, Operators, Parameter, Values


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    (operator,) = operators.values()
    if not isinstance(operator, SendRecv):
        msg = f"{operator.kind} is no message to a neighbour"
        raise InputError(msg)
    joined = chip.link(operator.span)
    if joined is None:
        return {"total": 0.0}
    size = operator.cost().link_bytes
    crossing = size * operator.crossing(joined.together)
    link = joined.seconds(size, crossing, operator.peers(joined.together)) / values["link"]
    return {"launch": values["launch"], "link": link, "total": values["launch"] + link}


P2P = Form(
    name="p2p",
    ops=("p2p",),
    about="one message to a neighbour: a launch, and its bytes",
    parameters=(
        Parameter(name="launch", unit="s", meaning="time of an empty message", start=8e-6, low=1e-7, high=1e-3),
        Parameter(name="link", unit="1", meaning="fraction of the link's bandwidth", start=0.7, low=0.01, high=1.0),
    ),
    terms=_terms,
)
