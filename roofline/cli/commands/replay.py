"""`roofline replay`: a measured run beside its simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import Options, complete_models, given, hardware_option, takes
from roofline.cli.output import Output, Result, write_lines, write_stdout
from roofline.cli.tables import print_assumptions, print_table
from roofline.formatting import percent, plural
from roofline.predict.options import DEPLOYMENT
from roofline.serving.options import REPLAY
from roofline.text import Table

if TYPE_CHECKING:
    from roofline.audit.replay.result import Comparison, Replay


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("data_parallel_size", "shared_prefix", "ignore_capacity")
    app.command(name="replay")(takes(DEPLOYMENT, first=REPLAY.values(), without=without)(replay))


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a measured run: requests.jsonl, meta.json.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="Default: what the run names.", autocompletion=complete_models, show_default=False
        ),
    ] = None,
    hardware: Annotated[
        str | None, hardware_option("Id or YAML file. Default: the device that the run names.", show_default=False)
    ] = None,
    fit_first: Annotated[
        str | None,
        typer.Option(
            "--fit-first",
            metavar="N",
            help="Fit FLOP/s, bandwidth and (TP > 1) link on the first N requests.",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """Serve the requests of a measured run by the simulator, and lay TTFT, TPOT and E2E beside the measured ones.

    Options that describe the deployment replace what the run says. -o: .csv, .md, .parquet a row per figure; .json.
    Example: roofline replay runs/rtx4090 --fit-first 100
    """
    query = given({**locals(), **options}, "run")
    from roofline.audit.replay.replay import replay as compute

    result = compute(run, **query)
    out.emit(Result(result.to_dict(), result.rows, lambda: _show(result)))


def _sentences(result: Replay) -> list[str]:
    """What ran, and what was fitted."""
    run, server = result.run, result.server
    version = f" of vLLM {run['engine_version']}" if run["engine_version"] else ""
    capacity = (
        f"{server['blocks']:,} blocks of {server['block_size']} tokens, {server['max_num_seqs']:,} slots, "
        f"{server['max_num_batched_tokens']:,} tokens per step, {plural(server['preemptions'], 'preemption')}"
    )
    name = f"{run['name']}: {run['requests']:,} requests{version}, simulated by {server['scheduler']}"
    lines = [f"{name} with step times by the {server['basis']}; {capacity}."]
    if (card := result.card) is not None:
        lines += _fit_sentences(card, server["max_num_batched_tokens"])
    return lines


_UNITS = {"peak_flops": "FLOP/s", "bandwidth": "B/s", "allreduce_bandwidth": "B/s"}
_STATED = {"peak_flops": "hardware file's", "bandwidth": "hardware file's", "allreduce_bandwidth": "estimate's all-reduces"}


def _fit_sentences(card: dict[str, Any], num_tokens: int) -> list[str]:
    """What was fitted, what it belongs to, and whether the requests tell the link from compute."""
    achieved, link, scope = card["achieved"], card["link"], card["holds_for"]
    rates = [
        f"{formatting.quantity(card[name], unit, 4)} ({card[name] / card['replaces'][name]:.2f} of the {_STATED[name]})"
        for name, unit in _UNITS.items()
        if name in card
    ]
    basis = (
        f"Fitted on the first {card['requests']:,} requests, which are off by {percent(card['error'], 1)} (root mean square)"
    )
    lines = [f"{basis}: {', '.join(rates[:-1])} and {rates[-1]}.", f"These are numbers {scope['text']}."]
    if link is not None:
        stated = formatting.quantity(link["stated"], "B/s", 3)
        lines.append(f"All-reduces: {'estimated' if link['origin'] != 'given' else 'given'} at {stated}; {link['why']}.")
    if link is not None and link["origin"] == "held":
        others = []
        for one in link["profile"]:
            if one["allreduce_bandwidth"] in (link["stated"] / 2, link["stated"] * 2):
                flops, memory, sent = (formatting.quantity(one[name], unit, 3) for name, unit in _UNITS.items())
                others.append(f"at {sent} {flops} and {memory} are off by {percent(one['error'], 1)}")
        lines.append(f"FLOP/s and bandwidth take in what the link has more or less: {', '.join(others)}.")
    lines.append(
        f"With them a step of {num_tokens:,} prompt tokens multiplies at "
        f"{formatting.quantity(achieved['flops'], 'FLOP/s', 3)}, and one that decodes {achieved['sequences']:,} "
        f"sequences reads and writes at {formatting.quantity(achieved['bandwidth'], 'B/s', 3)}, per device."
    )
    flags = f'--peak-flops "{card["peak_flops"] / 1e12:.4g} TFLOP/s" --bandwidth "{card["bandwidth"] / 1e9:.4g} GB/s"'
    if "allreduce_bandwidth" in card:
        flags += f' --allreduce-bandwidth "{card["allreduce_bandwidth"] / 1e9:.4g} GB/s"'
    lines.append(f"For other commands with {scope['model']} at TP {scope['tensor_parallel']}: {flags}")
    return lines


def _table(one: Comparison) -> Table:
    """A comparison, a row per figure."""
    from roofline.audit.replay.result import FIGURES, NAMES

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
    title = f"{one.step_times.capitalize()}, {one.requests:,} requests"
    return Table(title, "", ("", "measured", "simulated", "error"), (False, True, True, True), rows)


def _seconds(value: float | None) -> str:
    return "-" if value is None else formatting.quantity(value, "s", 4)


def _show(result: Replay) -> None:
    from roofline.report import summary

    write_lines([summary.headline(result), summary.subtitle(result), "", *_sentences(result)])
    for one in result.comparisons:
        write_stdout("")
        print_table(_table(one))
    write_stdout("")
    print_assumptions(summary.assumptions_table(result))
