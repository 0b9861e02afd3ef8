"""The numbers of a simulation in large type."""

from __future__ import annotations

from roofline.formatting import percent, plural
from roofline.formatting import seconds as text
from roofline.report.figure import Cell, Tile
from roofline.report.view.cells import figure, seconds, share, whole
from roofline.serving.simulation.result import Simulation


def tiles(result: Simulation) -> tuple[Tile, ...]:
    """Latencies, rates, what fills the memory, and who keeps to the SLO."""
    counts, rates, server = result.requests, result.throughput, result.server
    if not result.fits:
        return ()
    if not counts.completed:
        return (Tile(label="refused", cell=whole(counts.refused), note=f"of {plural(counts.arrived, 'request')}"),)
    ttft, tpot = result.ttft_s, result.tpot_s
    come = "" if result.offered_rate is None else f"of {figure(result.offered_rate).text} that come"
    found = [
        Tile(label="TTFT, mean", cell=seconds(ttft.mean), note=f"p99: {text(ttft.p99)}"),
        *([] if tpot.mean is None else [Tile(label="TPOT, mean", cell=seconds(tpot.mean), note=f"p99: {text(tpot.p99)}")]),
        Tile(label="requests/s", cell=figure(rates["requests_per_s"]), note=come),
        Tile(label="output tokens/s", cell=figure(rates["output_tokens_per_s"]), note=_of(server["replicas"])),
        Tile(label="KV blocks taken", cell=share(result.utilisation["kv"]), note="mean over time"),
    ]
    if result.within_slo is not None:
        note = f"goodput: {figure(result.goodput).text} requests/s"
        found.append(
            Tile(
                label="keep to the SLO",
                cell=Cell(text=percent(result.within_slo, digits=4), value=result.within_slo),
                note=note,
            )
        )
    if counts.preemptions:
        found.append(
            Tile(label="preemptions", cell=whole(counts.preemptions), note=f"of {plural(counts.preempted, 'request')}")
        )
    return tuple(found)


def _of(replicas: int) -> str:
    return "" if replicas == 1 else f"of {replicas:,} replicas together"
