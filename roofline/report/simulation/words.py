"""A simulation in sentences."""

from __future__ import annotations

from roofline.formatting import percent, plural, seconds
from roofline.serving.simulation.result import Simulation


def sentences(result: Simulation) -> list[str]:
    """What came, what became of it, and whether the server keeps up."""
    if result.unfit is not None:
        return [f"{result.unfit}."]
    counts, server = result.requests, result.server
    several = f"{server['replicas']} replicas, {server['balancer']}, " if server["replicas"] > 1 else ""
    took = f"{counts.completed:,} of {counts.arrived:,} requests answered in {seconds(result.duration_s)}"
    found = [f"{took} ({several}{server['scheduler']}, step times by the {server['basis']})."]
    if result.interrupted:
        left = plural(counts.unfinished, "request")
        found.append(f"Interrupted: {left} had come and not ended, and nothing here counts them.")
    if result.saturated:
        rates = f"{result.offered_rate:.4g} requests/s come, {result.throughput['requests_per_s']:.4g} are answered"
        found.append(f"Saturated: more comes than the server can do ({rates}); waits grow as long as it goes on so.")
    if counts.refused:
        first = result.refusals[0]
        found.append(f"{plural(counts.refused, 'request')} refused, such as request {first['request']}: {first['why']}.")
    if counts.preemptions:
        found.append(
            f"{plural(counts.preemptions, 'preemption')} of {plural(counts.preempted, 'request')}"
            f" ({server['preemption']}): {_costs(result.preemption)}."
        )
    if result.within_slo is not None:
        found.append(
            f"{percent(result.within_slo, digits=4)} of the requests keep to the SLO: a goodput of "
            f"{result.goodput:.4g} requests/s."
        )
    return found


def _costs(costs: dict[str, float]) -> str:
    """What preemptions cost, of what there was."""
    found = []
    if costs["recomputed_tokens"]:
        found.append(f"{costs['recomputed_tokens']:,.0f} tokens computed again in {seconds(costs['recompute_s'])}")
    if costs["swapped_tokens"]:
        found.append(
            f"{costs['swapped_tokens']:,.0f} tokens moved to the host, {seconds(costs['swap_s'])} of copies out and in"
        )
    return ", ".join(found) or "nothing was computed twice"
