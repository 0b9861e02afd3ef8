"""`roofline sweep`: any grid, as a tidy table."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from roofline.cli import complete
from roofline.cli.options import JsonOption, Options, OutputOption, QuietOption, takes
from roofline.cli.options import own as option
from roofline.predict.options import OPTIONS

GRID, KEPT, RUN = "Axes (each: a value, several apart by commas, or a range such as 1:512:x2)", "What is kept", "How it is run"


def register(app: typer.Typer) -> None:
    """Add the command."""
    axes = [replace(entry, group=GRID, kind="text", metavar="LIST") for entry in OPTIONS.values() if entry.axis]
    axes = [replace(entry, default="decode") if entry.name == "phase" else entry for entry in axes]
    app.command(name="sweep")(takes((), changed=(*axes, OPTIONS["ignore_capacity"]))(sweep))


def sweep(  # noqa: PLR0917 - a flag each
    first: Annotated[
        list[str] | None,
        typer.Argument(metavar="SPEC|MODEL...", help="YAML file of a sweep, or models.", autocompletion=complete.models),
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option("--hardware", "-H", metavar="HW", help="Ids or YAML files.", autocompletion=complete.hardware),
    ] = None,
    columns: Annotated[
        str | None, option("--columns", text="Answers that are wanted, apart by commas.", panel=KEPT, metavar="LIST")
    ] = None,
    reduce: Annotated[
        str | None, option("--reduce", text="best, pareto or histogram, of the points that fit.", panel=KEPT, metavar="RULE")
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            help="COLUMN:max or COLUMN:min, by which it is kept; several for pareto.",
            metavar="COLUMN",
            rich_help_panel=KEPT,
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None, option("--by", text="Axes each of whose values has a result of its own.", panel=KEPT, metavar="AXES")
    ] = None,
    ttft: Annotated[str | None, option("--ttft", text='Prefill steps of at most, "500 ms".', panel=KEPT, metavar="T")] = None,
    tpot: Annotated[str | None, option("--tpot", text='Decode steps of at most, "50 ms".', panel=KEPT, metavar="T")] = None,
    executor: Annotated[
        str | None,
        option("--executor", text="processes[:N] or dask[:ADDRESS]. Default: this process.", panel=RUN, metavar="WHO"),
    ] = None,
    part_rows: Annotated[
        str | None, option("--part-rows", text="Points of a part. Default: 1,000,000.", panel=RUN, metavar="N")
    ] = None,
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """Any grid of models, hardware, deployments and workloads: times, rates, memory, what fits and what binds, a row a point.

    A grid larger than memory goes into a folder (-o NAME without a suffix), in parts that a stopped sweep goes on with.

    Example: roofline sweep llama-3.1-8b -H a100-sxm-80gb,h100-sxm --tp 1,2 --batch 1:256:x2 --context 1k,8k
    """
    ignore_capacity = bool(options.pop("ignore_capacity", False))
    grid = {"hardware": hardware, **options}
    from roofline.cli import sweeping

    asked = sweeping.ask(
        first or [],
        grid,
        columns=columns,
        reduce=reduce,
        objectives=objective or [],
        by=by,
        ttft=ttft,
        tpot=tpot,
        part_rows=part_rows,
        ignore_capacity=ignore_capacity,
    )
    return sweeping.answer(asked, executor=executor, json=json, output=output, quiet=quiet)
