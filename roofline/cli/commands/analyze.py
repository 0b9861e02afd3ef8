"""`roofline analyze`: one model on one hardware at one workload."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from roofline.cli.options import HardwareOption, JsonOption, ModelArgument, Options, OutputOption, QuietOption, takes
from roofline.predict.options import ALL


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="analyze")(takes(ALL)(analyze))


def analyze(
    model: ModelArgument,
    hardware: HardwareOption,
    options: Options,
    explain: Annotated[bool, typer.Option("--explain", help="Show the formula of each operator.")] = False,
    json: JsonOption = False,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """What a model costs on hardware: memory, time bounds operator by operator, limits, and why.

    Exit code 1 when it does not fit. Example: roofline analyze llama-3.1-8b --hardware a100-sxm-80gb --batch 32 --context 4k
    """  # fmt: skip
    return _answer(model, hardware, options, json=json, output=output, quiet=quiet, explain=explain)  # fmt: skip


def _answer(model: str, hardware: str, given: dict[str, Any], *, json: bool, output: Any, quiet: bool, explain: bool) -> int:
    from roofline.cli.output import Answer, emit
    from roofline.predict.analyze import answer as answered
    from roofline.predict.result import operator_rows

    request, result = answered(model, hardware, **given)
    formulas: list[dict[str, Any]] = []
    if explain:
        from roofline.cli.formulas import of_operators

        formulas = of_operators(request)

    def show() -> None:
        from roofline.cli import page

        page.show(result, formulas)

    def markdown() -> str:
        from roofline.cli import page

        return page.markdown(result)

    whole = {**result.to_dict(), **({"formulas": formulas} if explain else {})}
    answer = Answer(whole, lambda: operator_rows(result), show, {".html": result.to_html, ".md": markdown})
    emit(answer, json=json, output=output, quiet=quiet)
    if result.memory.fits or request.ignore_capacity:
        return 0
    if not quiet and (json or output is not None):
        from roofline.report.summary import verdict

        sys.stderr.write(f"{verdict(result)}\n")
    return 1
