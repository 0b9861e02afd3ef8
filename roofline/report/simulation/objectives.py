"""Distributions and objectives of a simulation, as its page holds them."""

from __future__ import annotations

from roofline import formatting
from roofline.report.figure import Mark
from roofline.report.simulation.told import Curve
from roofline.serving.simulation.result import Simulation

_ORDER = (("ttft", "TTFT", "requests"), ("e2e", "E2E", "requests"), ("tpot", "TPOT", "requests"), ("itl", "ITL", "tokens"))


def curves(result: Simulation) -> tuple[Curve, ...]:
    """Of each latency that there was, longer than nothing."""
    found = []
    for key, name, of in _ORDER:
        one = result.distributions.get(f"{key}_s")
        if one and one["seconds"] and one["seconds"][0] > 0:
            found.append(Curve(key=key, name=name, of=of, seconds=tuple(one["seconds"]), share=tuple(one["share"])))
    return tuple(found)


def objectives(result: Simulation) -> tuple[Mark, ...]:
    """Those of the classes, each time once, with the classes that have it."""
    listed: dict[tuple[str, float], list[str]] = {}
    classes = result.workload["classes"]
    for one in classes:
        for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
            if one[key] is not None:
                listed.setdefault((name, one[key]), []).append(one["name"])
    return tuple(
        Mark(
            text=f"{name} {formatting.seconds(at)}" + (f" ({', '.join(of)})" if len(of) < len(classes) else ""),
            x=at,
            role="slo",
        )
        for (name, at), of in listed.items()
    )
