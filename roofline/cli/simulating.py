"""The answer of `roofline simulate`, in sentences and tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofline.cli.output import Answer, as_markdown, emit, write_stdout
from roofline.cli.page import print_assumptions, print_table
from roofline.cli.text import clean, markdown_cell
from roofline.errors import InputError
from roofline.report import summary
from roofline.report.summary import Table
from roofline.simulation.result import Latency, Simulation
from roofline.simulation.rows import SUFFIXES
from roofline.simulation.simulate import simulate
from roofline.units import format_si

_SUFFIXES = (*SUFFIXES, ".json", ".md")
_NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}


def answer(model: str, hardware: str, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> int:
    """Give the result in the form that was asked for; the exit code."""
    if output is not None and output.suffix.lower() not in _SUFFIXES:  # before the work is done
        allowed = ", ".join(_SUFFIXES)
        raise InputError(f"cannot write {output}: the suffix says the format, and must be one of {allowed}")
    rows = output if output is not None and output.suffix.lower() in SUFFIXES else None
    result = simulate(model, hardware, rows=rows, **given)
    if rows is not None:
        if not quiet:
            sys.stderr.write(f"wrote {clean(rows)}\n")
        output = None  # the result itself goes to stdout
    formats = {".md": lambda: _markdown(result)}
    emit(Answer(result.to_dict(), None, lambda: _show(result), formats), json=json, output=output, quiet=quiet)
    return 0


def sentences(result: Simulation) -> list[str]:
    """What came, what became of it, and whether the server keeps up."""
    counts, server = result.requests, result.server
    several = f"{server['replicas']} replicas, {server['balancer']}, " if server["replicas"] > 1 else ""
    took = f"{counts.completed:,} of {counts.arrived:,} requests answered in {_seconds(result.duration_s)}"
    found = [f"{took} ({several}{server['scheduler']}, step times by the {server['basis']})."]
    if result.saturated:
        rates = f"{result.offered_rate:.4g} requests/s come, {result.throughput['requests_per_s']:.4g} are answered"
        found.append(f"Saturated: more comes than the server can do ({rates}); waits grow as long as it goes on so.")
    if counts.refused:
        first = result.refusals[0]
        found.append(
            f"{summary.plural(counts.refused, 'request')} refused, such as request {first['request']}: {first['why']}."
        )
    if counts.preemptions:
        found.append(
            f"{summary.plural(counts.preemptions, 'preemption')} of {summary.plural(counts.preempted, 'request')}"
            f" ({server['preemption']})."
        )
    if result.within_slo is not None:
        found.append(f"{result.within_slo:.1%} of the requests keep to the SLO: a goodput of {result.goodput:.4g} requests/s.")
    return found


def latency_table(result: Simulation) -> Table:
    """Latencies, a row each."""
    rows = tuple((label, *(_seconds(value) for value in _cells(getattr(result, name)))) for name, label in _NAMES.items())
    note = "over requests; ITL: over tokens; percentiles to 0.1 %"
    return Table("Latency", note, ("", "mean", "p50", "p90", "p95", "p99", "most"), (False, *[True] * 6), rows)


def _cells(one: Latency) -> tuple[float | None, ...]:
    return one.mean, one.p50, one.p90, one.p95, one.p99, one.most


def load_table(result: Simulation) -> Table:
    """What the server does."""
    rates, busy = result.throughput, result.utilisation
    rows = [
        ("offered", "-" if result.offered_rate is None else f"{result.offered_rate:.4g} requests/s"),
        ("answered", f"{rates['requests_per_s']:.4g} requests/s"),
        ("output", f"{rates['output_tokens_per_s']:,.0f} tokens/s"),
        ("prompts", f"{rates['prompt_tokens_per_s']:,.0f} tokens/s"),
        ("compute", _share(busy["compute"])),
        ("memory", _share(busy["memory"])),
        ("KV blocks", f"{_share(busy['kv'])} of {result.server['blocks']:,} a replica"),
    ]
    note = "compute: FLOP of matrix products over the peak's; memory: bytes over the bandwidth's; all means over time"
    return Table("Load", note, ("", "value"), (False, True), tuple(rows))


def interval_table(result: Simulation) -> Table | None:
    """Of several runs: means with their confidence intervals."""
    found = result.replications
    if found is None:
        return None
    names = (
        ("ttft_s.mean", "TTFT, mean"), ("ttft_s.p99", "TTFT, p99"), ("tpot_s.mean", "TPOT, mean"), ("tpot_s.p99", "TPOT, p99"),
        ("e2e_s.mean", "E2E, mean"),
    )  # fmt: skip
    rows = [
        (label, *(_seconds(found["figures"][name][key]) for key in ("mean", "low", "high")))
        for name, label in names if name in found["figures"]
    ]  # fmt: skip
    if (rate := found["figures"].get("throughput.requests_per_s")) is not None:
        rows.append(("requests/s", *(f"{rate[key]:.4g}" for key in ("mean", "low", "high"))))
    note = f"{found['runs']} runs with other seeds; {found['confidence']:.0%} confidence"
    return Table("Between runs", note, ("", "mean", "from", "to"), (False, True, True, True), tuple(rows))


def _tables(result: Simulation) -> list[Table]:
    return [table for table in (latency_table(result), load_table(result), interval_table(result)) if table is not None]


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_si(value, "s", 3)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _show(result: Simulation) -> None:
    """Print to stdout; on a terminal the defaults among the assumptions are left to files and pipes."""
    terminal = sys.stdout.isatty()
    lines = [summary.headline(result), summary.subtitle(result), "", *sentences(result), ""]
    write_stdout(clean("\n".join(lines), keep_lines=True))
    for table in _tables(result):
        print_table(table)
        if not terminal:
            write_stdout("\n")
    print_assumptions(summary.assumptions_table(result))


def _markdown(result: Simulation) -> str:
    parts = [
        f"# {markdown_cell(summary.headline(result))}",
        markdown_cell(summary.subtitle(result)),
        *map(markdown_cell, sentences(result)),
    ]
    for table in [*_tables(result), summary.assumptions_table(result)]:
        parts += [f"## {table.title}", *([markdown_cell(table.note)] if table.note else [])]
        parts.append(as_markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
