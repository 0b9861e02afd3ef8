"""`roofline replay`: a measured run beside its simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli import complete, plan_options
from roofline.cli import simulate_options as own
from roofline.cli.options import JsonOption, Options, OutputOption, QuietOption, takes
from roofline.cli.options import own as option
from roofline.predict.options import DEPLOYMENT


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("data_parallel_size", "shared_prefix", "ignore_capacity")
    app.command(name="replay")(takes(DEPLOYMENT, without=without)(replay))


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a measured run: requests.jsonl, meta.json.")],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="MODEL", help="Default: what the run names.", autocompletion=complete.models, show_default=False
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-H",
            metavar="HW",
            help="Id or YAML file. Default: the device that the run names.",
            autocompletion=complete.hardware,
            show_default=False,
        ),
    ] = None,
    fit_first: Annotated[
        str | None,
        typer.Option(
            "--fit-first", metavar="N", help="Fit FLOP/s and bandwidth of the card on the first N requests.", show_default=False
        ),
    ] = None,
    skip_bad_rows: plan_options.SkipBadRows = False,
    scheduler: Annotated[
        str | None,
        option(
            "--scheduler",
            text="As of simulate. Default: vllm-v1-async or vllm-v1, as the run had it.",
            panel=own.SERVER,
            metavar="NAME",
        ),
    ] = None,
    num_gpu_blocks_override: Annotated[
        str | None,
        option(
            "--num-gpu-blocks-override",
            text="KV blocks of a replica. Default: the run's, else what there is room for.",
            panel=own.SERVER,
            metavar="N",
        ),
    ] = None,
    basis: own.Basis = None,
    *,
    options: Options,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> None:
    """Serve the requests of a measured run by the simulator, and lay TTFT, TPOT and E2E beside the measured ones.

    Options that describe the deployment stand in place of what the run says. -o: .csv, .md, .parquet a row a figure; .json.
    Example: roofline replay runs/rtx4090 --fit-first 100
    """
    given = {**locals(), **options}
    for name in ("run", "options", "json", "output", "quiet"):
        given.pop(name)
    from roofline.cli import replaying

    given = {name: value for name, value in given.items() if value not in (None, False)}
    replaying.answer(run, given, json=json, output=output, quiet=quiet)
