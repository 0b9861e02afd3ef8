"""`roofline study`: a grid of simulations, kept run by run in a folder, and compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from roofline import files
from roofline.cli.help import OUTPUT
from roofline.cli.options import JsonOption, QuietOption, VerboseOption, own
from roofline.cli.output import Output, Result, progress, write_file
from roofline.cli.tables import print_answer
from roofline.errors import InputError
from roofline.text import clean

FIGURES = ("goodput", "within-slo", "ttft-p99", "tpot-p99", "e2e-mean", "e2e-p99", "throughput", "fairness", "cost")
PAGE = "comparison.html"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="study")(study)


def study(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="YAML file of the study.")],
    executor: Annotated[
        str | None,
        own(
            "--executor",
            text="Run in N processes (processes[:N]) or on a Dask cluster (dask[:ADDRESS]). Default: one process.",
            metavar="NAME",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", rich_help_panel=OUTPUT, show_default=False,
            help="Folder of the runs, the tables (study.json, table.csv) and the page (comparison.html).",
        ),
    ] = None,
    json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> int:  # fmt: skip
    """Compare policies by simulations at several rates and seeds.

    Every policy is simulated on every deployment at every rate with every seed. Each finished run is a file of the folder; an
    interrupted study resumes there.

    Example: roofline study docs/examples/study.yaml --executor processes -o study
    """
    from roofline.report.study.page import study_page
    from roofline.report.study.summary import answer
    from roofline.serving.study.run import run_study
    from roofline.serving.study.spec import load_study

    out = Output(json, None, quiet, verbose)
    if output is None:
        raise InputError("a study keeps its runs: say in which folder with -o FOLDER")
    if output.suffix and not files.is_folder(output):
        raise InputError(f"{output}: the runs of a study are kept in a folder; name one without a suffix")
    wanted = load_study(file)
    try:
        with progress("runs", quiet=quiet) as report:
            result = run_study(wanted, output, executor, report)
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped: the runs in {clean(output)} are whole, and the same command goes on with them\n")
        return 4
    from roofline.predict.engine_command import shell_line

    line = shell_line(("roofline", "report", "--from", str(output), "--output", "page.html"))
    page = study_page(result, line)
    write_file(output / PAGE, {".html": lambda: page}, None)
    out.note(f"wrote {output}: study.json, table.csv, {PAGE}")

    def show() -> None:
        print_answer(answer(result), verbose)

    out.emit(Result(result.to_dict(), None, show))
    return int(all(row["failed"] for row in result.table))
