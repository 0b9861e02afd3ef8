"""`roofline report`: a page of its own, with controls that compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from roofline import files
from roofline.cli.options import Options, OutputOption, QuietOption, hardware_option, model_argument, takes
from roofline.cli.output import Output, write_file
from roofline.errors import InputError, SpecError
from roofline.predict.options import ALL

_MAX_BYTES = 64 * 2**20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report")(takes(ALL)(report))


def report(
    model: Annotated[str | None, model_argument()] = None,
    hardware: Annotated[list[str] | None, hardware_option("Id or YAML file; several side by side.")] = None,
    calculator: Annotated[
        bool, typer.Option("--calculator", help="A page in which any shipped model and hardware can be chosen.")
    ] = False,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RESULT", help="The page of what `analyze` has written as JSON, or `sweep` as a folder or file."
        ),
    ] = None,
    *,
    options: Options,
    output: OutputOption = None,
    quiet: QuietOption = False,
) -> int:
    """One HTML file that works without a network: the answer, figures, and controls that compute in the browser.

    With --phase, --segments or speculative decoding it has no controls.

    Example: roofline report llama-3.1-8b --hardware a100-sxm-80gb --hardware h200-sxm -o report.html
    """
    write_page(model, hardware or [], options, calculator=calculator, saved=saved, out=Output(False, output, quiet))
    return 0


def write_page(
    model: str | None,
    hardware: list[str],
    options: dict[str, Any],
    *,
    calculator: bool,
    saved: Path | None,
    out: Output,
) -> None:
    """Write a report, a calculator, or the page of a saved result to the file of `out`.

    Raises:
        InputError: not one of the three, or no `.html` file to write to.
        SpecError: the saved result is not one, or its inputs have changed.
    """
    output = out.file
    if output is None:
        raise InputError("a page is a file: say where with -o FILE.html")
    if output.suffix.lower() != ".html":
        raise InputError(f"cannot write {output}: a page is a .html file")
    if sum((calculator, saved is not None, model is not None)) != 1:
        raise InputError("give one of MODEL with --hardware, --calculator, and --from RESULT")
    if (calculator or saved is not None) and (hardware or options):
        what = "--calculator" if calculator else "--from"
        raise InputError(f"{what} takes no other options: {'the page has controls' if calculator else 'the result has them'}")
    out.note("drawing figures" if saved is not None else "translating formulas, drawing figures")
    text = _calculator() if calculator else _saved(saved) if saved is not None else _report(model, hardware, options)
    write_file(output, {".html": lambda: text}, None)
    out.note(f"wrote {output} ({len(text.encode()) / 1e6:.1f} MB)")


def _calculator() -> str:
    from roofline.report.analysis.page import calculator

    return calculator()


def _report(model: str | None, hardware: list[str], options: dict[str, Any]) -> str:
    from roofline.report.analysis.page import report
    from roofline.report.formulas import formulas

    if model is None or not hardware:
        raise InputError("a report wants --hardware HW, once or several times")
    return report(model, hardware, options, formulas)


def _saved(saved: Path) -> str:
    """The page of what `sweep`, `plan` or `analyze` has written."""
    from roofline.report.plan.load import is_plan
    from roofline.report.plan.page import saved_plan_page
    from roofline.report.sweep.data import TABLES, load_folder, load_json, load_table
    from roofline.report.sweep.page import sweep_page

    if files.is_folder(saved):
        return sweep_page(load_folder(saved))
    if saved.suffix.lower() in TABLES:
        return sweep_page(load_table(saved))
    content = _read(saved)
    if isinstance(content, dict) and content.get("kind") == "sweep":
        return sweep_page(load_json(saved, content))
    if is_plan(content):
        return saved_plan_page(content, saved)
    return _report(*_request(saved, content))


def _read(saved: Path) -> Any:
    # a sweep that is larger is read as a folder or .parquet
    text = files.read_text(saved, _MAX_BYTES, "a result as JSON")
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SpecError(f"is no JSON: {error}", path=saved) from None


def _request(saved: Path, content: Any) -> tuple[str, list[str], dict[str, Any]]:
    """The model, hardware and options of a saved result, if its files are still what they were."""
    from roofline.predict.drafts import resolve

    query = content.get("asked") if isinstance(content, dict) else None
    if not (isinstance(query, dict) and isinstance(query.get("model"), str) and isinstance(query.get("hardware"), str)):
        why = "has no key `asked`, which says what was asked: save it with `roofline analyze ... -o RESULT.json`"
        raise SpecError(why, path=saved)
    options = query.get("options")
    if not isinstance(options, dict):
        raise SpecError("asked.options must be an object", path=saved)
    request, _ = resolve(query["model"], query["hardware"], **options)
    before = content.get("inputs") if isinstance(content.get("inputs"), dict) else {}
    for entry in request.inputs:
        was = before.get(entry.role)
        if isinstance(was, dict) and was.get("sha256") not in (None, entry.sha256):
            raise SpecError(f"the {entry.role} {entry.name} has changed since: analyse it again", path=saved)
    return query["model"], [query["hardware"]], options
