"""Clients that wait for their answers: what most load generators do.

NB: clients that begin at once with prompts of one length stay in step, and TTFT is then many prompts long. How they begin, how
many prompts each sends, which of them count and how equal lengths are decides TTFT more than the server does
(docs/closed-loop.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roofline.errors import InputError, UnknownNameError
from roofline.serving.simulation.arrivals.base import Clients, Kind, seconds
from roofline.serving.traffic.lengths import parse_range
from roofline.units import parse_count


def _time(text: str) -> float:
    return 0.0 if text == "0" else seconds(text)


_NAMED: dict[str, Callable[[str], Any]] = {
    "think": _time,
    "ramp": _time,
    "prompts": lambda text: parse_count(text, "prompts a client", minimum=1),
    "spread": parse_range,
    "warm-up": lambda text: parse_count(text, "prompts a client"),
}
_PLACED = ("think", "ramp")


def _read(given: Sequence[str]) -> Clients:
    clients, *rest = given
    found: dict[str, str] = {}
    for place, text in enumerate(rest):
        name, named, value = (part.strip() for part in text.partition("="))
        if not named:
            # NB: what has no name comes first, and is told by its place
            if place >= len(_PLACED) or len(found) < place or any(one not in _PLACED[:place] for one in found):
                raise ValueError(text)
            name, value = _PLACED[place], text
        name = name.replace("_", "-")
        if name not in _NAMED:
            raise UnknownNameError("input of a closed loop", name, _NAMED, list_all=True)
        if name in found:
            raise InputError(f"{name} is given twice")
        found[name] = value
    read = {name.replace("-", "_"): _value(name, value) for name, value in found.items()}
    made = Clients(parse_count(clients, "clients", minimum=1), **read)
    if made.prompts is not None and made.warm_up >= made.prompts:
        raise InputError(f"warm-up={made.warm_up} leaves none of the {made.prompts} prompts of a client to count")
    return made


def _value(name: str, value: str) -> Any:
    try:
        return _NAMED[name](value)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


KIND = Kind(
    "closed",
    "closed:CLIENTS[:THINK[:RAMP]][:prompts=N][:spread=LO-HI][:warm-up=N]",
    "each client sends its next request THINK after its answer, N in all; they begin over RAMP; lengths are drawn from LO to "
    "HI of the nominal ones; the first prompts of each client are not counted",
    _read,
)
