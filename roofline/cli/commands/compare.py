"""`roofline compare`: predictions and what an engine measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.options import Options, given, hardware_option, invocation, model_argument, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.errors import AmbiguousNameError, InputError
from roofline.predict.options import DEPLOYMENT, SPECULATION

FIGURES = ("ratios", "times")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="compare")(takes((*DEPLOYMENT, SPECULATION), figures=FIGURES, formats=[".html"])(compare))


def compare(
    names: Annotated[list[str] | None, model_argument("Model. Default: the one named in the files.", "[MODEL]")] = None,
    hardware: Annotated[
        str | None,
        hardware_option("Accelerator or node: id or YAML file. Required unless the files name it.", show_default=False),
    ] = None,
    engine_log: Annotated[
        Path | None,
        typer.Option(
            "--engine-log", metavar="FILE", help="Server log of vLLM, SGLang, TensorRT-LLM or llama.cpp.", show_default=False
        ),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(
            "--bench",
            metavar="FILE",
            help="JSON result of `vllm bench serve --save-result` or `sglang.bench_serving`.",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """Compare predictions with an engine's log and benchmark results.

    Reads the deployment from the log; options override it, and their defaults apply to what the log does not state. A ratio is
    predicted / measured. To compare accelerators, use `roofline report MODEL -H A,B` or `roofline sweep MODEL -H A,B`.

    Example: roofline compare --engine-log vllm.log --bench result.json --hardware rtx-4090
    """
    from roofline.audit.engine_logs.compare import compare as run

    if names and len(names) > 1:
        raise _several(names)
    result = run(names[0] if names else None, hardware, engine_log_path=engine_log, bench_path=bench, **options)
    document = {**envelope(result.inputs), **result.to_dict()}
    rows = [row.to_dict() for row in result.rows]
    from roofline.report import engine_comparison as text

    read = {"hardware": hardware, "engine_log": engine_log, "bench": bench, **options}
    line = invocation("compare", names or [], given(read))

    def page() -> str:
        return text.comparison_page(result, line)

    for note in text.notes(result):
        out.verdict(note)

    def show() -> None:
        print_answer(text.answer(result), out.verbosity)

    out.emit(Result(document, lambda: rows, show, {".html": page}, lambda: text.view(result, ""), line))


def _several(names: list[str]) -> InputError:
    """The error for several names: it says which command compares models or accelerators."""
    from roofline.specs.library import find

    def is_hardware(name: str) -> bool:
        try:
            find("hardware", name)
        except AmbiguousNameError:
            return True
        except InputError:
            return False
        return True

    cards = [name for name in names if is_hardware(name)]
    models = [name for name in names if name not in cards]
    line = f"{' '.join(models) or 'MODEL'} -H {','.join(cards) or 'HW'}"
    page = f"`roofline report {line} -o report.html` or " if len(models) < 2 else ""
    return InputError(
        f"compare takes one MODEL and the log of its engine. To compare {names[0]} and {names[1]}, "
        f"run {page}`roofline sweep {line}`"
    )
