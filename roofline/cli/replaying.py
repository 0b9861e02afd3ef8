"""The answer of `roofline replay`: what was measured beside what is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline import formatting
from roofline.audit.replay.replay import replay
from roofline.audit.replay.result import Beside, Replay
from roofline.audit.replay.times import FIGURES, NAMES
from roofline.cli.output import Answer, emit, write_stdout
from roofline.cli.page import print_assumptions, print_table
from roofline.formatting import percent, plural
from roofline.report import summary
from roofline.report.summary import Table
from roofline.text import clean


def answer(run: Path, given: dict[str, Any], *, json: bool, output: Path | None, quiet: bool) -> None:
    """Give the result in the form that was asked for."""
    result = replay(run, **given)
    emit(Answer(result.to_dict(), result.rows, lambda: _show(result)), json=json, output=output, quiet=quiet)


def sentences(result: Replay) -> list[str]:
    """What ran, and what was fitted."""
    run, server = result.run, result.server
    version = f" of vLLM {run['engine_version']}" if run["engine_version"] else ""
    room = f"{server['blocks']:,} blocks of {server['block_size']} tokens, {server['max_num_seqs']:,} seats"
    room += f", {server['max_num_batched_tokens']:,} tokens a step, {plural(server['preemptions'], 'preemption')}"
    who = f"{run['name']}: {run['requests']:,} requests{version}, simulated by {server['scheduler']}"
    found = [f"{who} with step times by the {server['basis']}; {room}."]
    if (card := result.card) is not None:
        parts = [
            f"{formatting.quantity(card[name], unit, 4)} ({card[name] / card['replaces'][name]:.2f} of the hardware file's)"
            for name, unit in (("peak_flops", "FLOP/s"), ("bandwidth", "B/s"))
        ]
        found.append(
            f"Fitted on the first {card['requests']:,} requests, which are off by {percent(card['error'], 1)} (root "
            "mean square): "
            f"{' and '.join(parts)}."
        )
        reached = card["achieved"]
        found.append(
            f"With them a step of {server['max_num_batched_tokens']:,} prompt tokens multiplies at "
            f"{formatting.quantity(reached['flops'], 'FLOP/s', 3)}, and one that decodes {reached['sequences']:,} "
            "sequences reads and "
            f"writes at {formatting.quantity(reached['bandwidth'], 'B/s', 3)}, a device."
        )
        flags = f'--peak-flops "{card["peak_flops"] / 1e12:.4g} TFLOP/s" --bandwidth "{card["bandwidth"] / 1e9:.4g} GB/s"'
        found.append(f"For other commands: {flags}")
    return found


def table(one: Beside) -> Table:
    """A comparison, a row a figure."""
    rows = tuple(
        (
            f"{name.upper()} {figure}",
            _seconds(one.measured[f"{name}_s"][figure]),
            _seconds(one.simulated[f"{name}_s"][figure]),
            "-" if (error := one.error(f"{name}_s", figure)) is None else f"{percent(error, 1, sign=True)}",
        )
        for name in NAMES
        for figure in FIGURES
    )
    title = f"{one.what.capitalize()}, {one.requests:,} requests"
    return Table(title, "", ("", "measured", "simulated", "error"), (False, True, True, True), rows)


def _seconds(value: float | None) -> str:
    return "-" if value is None else formatting.quantity(value, "s", 4)


def _show(result: Replay) -> None:
    lines = [summary.headline(result), summary.subtitle(result), "", *sentences(result)]
    write_stdout(clean("\n".join(lines), keep_lines=True))
    for one in result.comparisons:
        write_stdout("")
        print_table(table(one))
    write_stdout("")
    print_assumptions(summary.assumptions_table(result))
