"""`roofline simulate`: every request of a workload on a deployment, one event after another."""

from __future__ import annotations

import sys

import typer

from roofline.cli.options import HardwareOption, ModelArgument, Options, changed, command_line, takes
from roofline.cli.output import FIGURE_SUFFIXES, Output, Result, progress
from roofline.cli.tables import markdown_described, print_answer
from roofline.predict.options import DEPLOYMENT, SPECULATION
from roofline.serving.options import PREFIX_CACHING, SIMULATE

_SLOTS = changed("max_num_seqs", default="256")
FIGURES = (
    "distribution", "requests", "replicas", "tail", "kv", "output-tokens", "prompt-tokens", "rates", "confidence", "find-rate",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("shared_prefix", "ignore_capacity")
    app.command(name="simulate")(
        takes(
            (*DEPLOYMENT, SPECULATION),
            first=SIMULATE.values(),
            without=without,
            changed=[PREFIX_CACHING, _SLOTS],
            figures=FIGURES,
            formats=[".html"],
        )(simulate)
    )


def simulate(
    model: ModelArgument,
    hardware: HardwareOption,
    *,
    options: Options,
    out: Output,
) -> int:
    """Simulate a server under a request trace or random arrivals. With -o, writes one row per request (.csv, .parquet),
    the result (.html, .json, .md) or a figure.

    Example: roofline simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 4 --input-len lognormal:1155:900 --output-len 211
    """
    from roofline.report.simulation import summary as simulation
    from roofline.serving.simulation.request_writer import SUFFIXES
    from roofline.serving.simulation.run import Interrupts
    from roofline.serving.simulation.simulate import simulate as run

    out.check_suffix((*SUFFIXES, ".json", ".md", ".html", *FIGURE_SUFFIXES))
    rows = out.file if out.has_suffix(*SUFFIXES) else None
    with progress("runs" if options.get("find_rate") else "requests", quiet=out.quiet) as report, Interrupts() as interrupts:
        result = run(model, hardware, rows=rows, interrupts=interrupts, progress=report, **options)
    if result.interrupted:
        sys.stderr.write("stopped: the result is of what was served so far\n")
    if result.fits:
        for written in filter(None, (rows, options.get("perfetto"))):
            out.note(f"wrote {written}")
    if rows is not None:
        out = Output(out.json, None, out.quiet, out.verbosity)  # the result itself goes to stdout
    line = command_line("simulate", model, hardware, options, without=("perfetto",))

    def page() -> str:
        from roofline.report.simulation.page import simulation_page

        return simulation_page(result, line)

    def markdown() -> str:
        return markdown_described(result, simulation.sentences(result), simulation.tables(result))

    formats = {".md": markdown, ".html": page}

    def show() -> None:
        print_answer(simulation.answer(result), out.verbosity)

    out.emit(Result(result.to_dict(), None, show, formats, lambda: result, line))
    all_refused = result.requests.refused > 0 and result.requests.refused == result.requests.arrived
    no_rate = result.find_rate is not None and result.find_rate["rate"] is None
    return 4 if result.interrupted else int(all_refused or no_rate or not result.fits)
