"""`roofline replay`: a measured run beside its simulation."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import Options, complete_models, given, hardware_option, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import print_answer
from roofline.formatting import percent, plural
from roofline.predict.options import DEPLOYMENT
from roofline.serving.options import PREFIX_CACHING, REPLAY
from roofline.text import Answer, Table

if TYPE_CHECKING:
    from roofline.audit.replay.result import Comparison, Replay


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("data_parallel_size", "shared_prefix", "ignore_capacity")
    app.command(name="replay")(takes(DEPLOYMENT, first=REPLAY.values(), without=without, changed=[PREFIX_CACHING])(replay))


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a measured run, with requests.jsonl and meta.json.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Model. Default: set by the run.",
            autocompletion=complete_models,
            show_default=False,
        ),
    ] = None,
    hardware: Annotated[
        str | None, hardware_option("Accelerator or node: id or YAML file. Default: set by the run.", show_default=False)
    ] = None,
    fit_first: Annotated[
        str | None,
        typer.Option(
            "--fit-first",
            metavar="N",
            help="Fit FLOP/s, memory bandwidth and, with TP, link bandwidth to the first N requests; compare the others.",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """Replay a measured run in the simulator.

    Compares the simulated TTFT, TPOT and E2E with the measured values. Deployment options override those of the run; their
    defaults apply to what the run does not state. With -o, writes the metrics (.csv, .parquet, .md) or the
    result (.json).

    Example: roofline replay runs/rtx4090 --fit-first 100
    """
    query = given({**locals(), **options}, "run")
    from roofline.audit.replay.replay import replay as compute

    result = compute(run, **query)
    out.emit(Result(result.to_dict(), result.rows, lambda: print_answer(_answer(result), out.verbosity)))


def _answer(result: Replay) -> Answer:
    from roofline.report import answer, summary

    run, server, card = result.run, result.server, result.card
    version = f" of vLLM {run['engine_version']}" if run["engine_version"] else ""
    capacity = (
        f"{server['blocks']:,} blocks of {server['block_size']} tokens; at most {server['max_num_seqs']:,} running requests, "
        f"{server['max_num_batched_tokens']:,} tokens per step; {plural(server['preemptions'], 'preemption')}"
    )
    fit = [] if card is None else _fit_lines(card, server["max_num_batched_tokens"])
    flags = [] if card is None else [_flags(card)]
    return Answer(
        title=summary.headline(result),
        settings=answer.settings_line(result, f"{run['name']}: {run['requests']:,} requests{version}", server["scheduler"]),
        verdict=" ".join(_errors(result)),
        brief=(_brief(result), (("KV cache size", capacity), *fit[:_FIT_LINES]), *flags),
        details=(*map(_table, result.comparisons), (("KV cache size", capacity), *fit), *flags),
        notes=tuple(answer.provenance(result, result.estimate_basis)),
        assumptions=summary.assumptions_table(result),
        hint="All figures: -v    Every assumption: -vv    Rows: -o rows.csv",
    )


_FIT_LINES = 2
"""Lines of a fit on one screen."""


def _errors(result: Replay) -> list[str]:
    """How far mean latencies are off, in a sentence for the hardware file's step times and one for fitted ones."""
    from roofline.audit.replay.result import NAMES

    def errors(one: Comparison) -> str:
        known = {name: one.error(f"{name}_s", "mean") for name in NAMES}
        return ", ".join(f"{name.upper()} {_error(error)}" for name, error in known.items() if error is not None)

    texts = [f"Simulated against measured, means: {errors(result.unfitted)}."]
    if result.fitted is not None:
        texts.append(f"Fitted, on the {plural(result.fitted.requests, 'request')} not fitted on: {errors(result.fitted)}.")
    return texts


def _brief(result: Replay) -> Table:
    """Mean and tails of each latency: measured and simulated, and simulated with the fit if there is one."""
    from roofline.audit.replay.result import NAMES

    one = result.unfitted if result.unseen is None else result.unseen
    compared = [("simulated", one), *([("fitted", result.fitted)] if result.fitted is not None else [])]
    rows = []
    for name, figure in product(NAMES, _FIGURES if result.fitted is None else _FIGURES_OF_TWO):
        row = [f"{name.upper()} {figure}", formatting.seconds(one.measured[f"{name}_s"][figure])]
        for _, each in compared:
            row += [formatting.seconds(each.simulated[f"{name}_s"][figure]), _error(each.error(f"{name}_s", figure))]
        rows.append(tuple(row))
    columns = ["", "measured"]
    for label, _ in compared:
        columns += [label, "error"]
    return Table("", "", tuple(columns), (False, *[True] * (len(columns) - 1)), tuple(rows))


_FIGURES, _FIGURES_OF_TWO = ("mean", "p50", "p99"), ("mean", "p99")
"""Figures of a latency on one screen; fewer with a fit."""


def _error(share: float | None) -> str:
    return percent(None if share is None else round(share, 3) + 0.0, 1, sign=True)


_UNITS = {"peak_flops": "FLOP/s", "bandwidth": "B/s", "allreduce_bandwidth": "B/s"}
_STATED = {"peak_flops": "hardware file's", "bandwidth": "hardware file's", "allreduce_bandwidth": "estimate's all-reduces"}


def _fit_lines(card: dict[str, Any], num_tokens: int) -> list[tuple[str, str]]:
    """Labels and texts: what was fitted, what it belongs to, and whether the requests tell the link from compute."""
    achieved, link, scope = card["achieved"], card["link"], card["holds_for"]
    rates = [
        f"{formatting.quantity(card[name], unit, 3)} ({card[name] / card['replaces'][name]:.2f} of the {_STATED[name]})"
        for name, unit in _UNITS.items()
        if name in card
    ]
    basis = f"first {card['requests']:,} requests, off by {percent(card['error'], 1)} (root mean square)"
    lines = [("Fitted", f"{', '.join(rates[:-1])} and {rates[-1]}; {basis}"), ("Valid", f"{scope['text']}")]
    if link is not None:
        stated = formatting.quantity(link["stated"], "B/s", 3)
        lines.append(("All-reduces", f"{'given' if link['origin'] == 'given' else 'estimated'} at {stated}; {link['why']}"))
    if link is not None and link["origin"] == "held":
        others = []
        for one in link["profile"]:
            if one["allreduce_bandwidth"] in (link["stated"] / 2, link["stated"] * 2):
                flops, memory, sent = (formatting.quantity(one[name], unit, 3) for name, unit in _UNITS.items())
                others.append(f"with {sent}, {flops} and {memory} are off by {percent(one['error'], 1)}")
        lines.append(("", f"FLOP/s and bandwidth compensate for another link: {', '.join(others)}"))
    compute = formatting.quantity(achieved["flops"], "FLOP/s", 3)
    memory = formatting.quantity(achieved["bandwidth"], "B/s", 3)
    decode = f"{memory} in a decode step of {achieved['sequences']:,} sequences"
    lines.append(("Achieved", f"{compute} in a prefill step of {num_tokens:,} tokens, {decode}, per device"))
    return lines


def _flags(card: dict[str, Any]) -> str:
    """The flags that give other commands the fitted rates, as text whose lines stay as they are."""
    scope = card["holds_for"]
    flags = f'--peak-flops "{card["peak_flops"] / 1e12:.4g} TFLOP/s" --bandwidth "{card["bandwidth"] / 1e9:.4g} GB/s"'
    if "allreduce_bandwidth" in card:
        flags += f' --allreduce-bandwidth "{card["allreduce_bandwidth"] / 1e9:.4g} GB/s"'
    return f"  For other commands with {scope['model']} at TP {scope['tensor_parallel']}:\n    {flags}"


def _table(one: Comparison) -> Table:
    """A comparison, a row per figure."""
    from roofline.audit.replay.result import FIGURES, NAMES

    rows = tuple(
        (
            f"{name.upper()} {figure}",
            formatting.seconds(one.measured[f"{name}_s"][figure]),
            formatting.seconds(one.simulated[f"{name}_s"][figure]),
            _error(one.error(f"{name}_s", figure)),
        )
        for name in NAMES
        for figure in FIGURES
    )
    title = f"{one.step_times.capitalize()}, {one.requests:,} requests"
    return Table(title, "", ("", "measured", "simulated", "error"), (False, True, True, True), rows)
