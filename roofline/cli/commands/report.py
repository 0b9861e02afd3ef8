"""`roofline report`: a page of its own, with controls that compute."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files
from roofline.cli.commands.analyze import FIGURES
from roofline.cli.options import (
    Options,
    QuietOption,
    TpotLimit,
    TtftLimit,
    figure_option,
    given,
    hardware_option,
    model_argument,
    output_option,
    several,
    takes,
)  # fmt: skip
from roofline.cli.output import FIGURE_SUFFIXES, Output, Result, checked_by, write_file
from roofline.documents import migrated
from roofline.errors import InputError, SpecError, UnknownNameError
from roofline.predict.options import ALL

if TYPE_CHECKING:
    from roofline.report.sweep.data import SweepData

_Makers = tuple[Callable[[], str], Callable[[], Any] | None]
"""What makes the page, and what makes that of which its figures are."""
_MAX_BYTES = 64 * 2**20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="report")(takes(ALL)(report))


def report(
    model: Annotated[str | None, model_argument()] = None,
    hardware: Annotated[list[str] | None, hardware_option("Accelerators or nodes, separated by commas.")] = None,
    calculator: Annotated[
        bool,
        typer.Option(
            "--calculator",
            help="Write a calculator with all built-in models and hardware. MODEL may be op, plan, preempt or claim.",
        ),
    ] = False,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RESULT",
            help="Open a saved result: JSON from a command or a page's button, or a file or folder from `sweep` or `study`.",
        ),
    ] = None,
    ttft: TtftLimit = None,
    tpot: TpotLimit = None,
    *,
    options: Options,
    output: Annotated[Path | None, output_option([".html", *FIGURE_SUFFIXES])] = None,
    figure: Annotated[str | None, figure_option(FIGURES)] = None,
    quiet: QuietOption = False,
) -> int:
    """Write a self-contained, interactive HTML report of a prediction.

    The page contains results, figures and controls that recompute in the browser, and works offline. With --phase, --segments
    or speculative decoding, it has no controls.

    Example: roofline report llama-3.1-8b --hardware a100-sxm-80gb --hardware h200-sxm -o report.html
    """
    write_page(
        model,
        several(hardware),
        {**options, **given({"ttft": ttft, "tpot": tpot})},
        calculator=calculator,
        saved=saved,
        out=Output(False, output, quiet, figure=figure),
    )
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
    pictures = () if calculator else FIGURE_SUFFIXES
    if not out.has_suffix(".html", *pictures):
        figures = f", a figure of it {', '.join(pictures[:-1])} or {pictures[-1]}" if pictures else ""
        raise InputError(f"cannot write {output}: a page is a .html file{figures}")
    if sum((calculator, saved is not None, model is not None and not calculator)) != 1:
        raise InputError("give one of MODEL with --hardware, --calculator, and --from RESULT")
    if (calculator or saved is not None) and (hardware or options):
        what = "--calculator" if calculator else "--from"
        raise InputError(f"{what} takes no other options: {'the page has controls' if calculator else 'the result has them'}")
    out.check_figure(FIGURES if saved is None else ("*",))
    content = None if saved is None else _read(saved)
    if saved is not None and content is not None and (line := _command(content)):
        run_again(line, content, saved, out)
        return
    page, source = (
        _calculator(model) if calculator else _saved(saved, content) if saved is not None else _report(model, hardware, options)
    )
    if not out.has_suffix(".html"):
        write_file(output, out.figure_writers(Result({}, None, lambda: None, figures=source)), None)
        out.note(f"wrote {output}")
        return
    out.note("drawing figures" if saved is not None else "translating formulas, drawing figures")
    text = page()
    write_file(output, {".html": lambda: text}, None)
    out.note(f"wrote {output} ({len(text.encode()) / 1e6:.1f} MB)")


def _calculator(name: str | None) -> _Makers:
    from roofline.report.analysis import page
    from roofline.report.calculators import pages

    if name is not None and name not in pages.CALCULATORS:
        raise UnknownNameError("calculator", name, pages.CALCULATORS, list_all=True)
    return page.calculator if name is None else pages.calculator(name).page, None


def _report(model: str | None, hardware: list[str], options: dict[str, Any]) -> _Makers:
    from roofline.report.analysis.page import report, report_view
    from roofline.report.formulas import formulas

    if model is None or not hardware:
        raise InputError("a report needs --hardware HW, or several: --hardware HW,HW")
    return partial(report, model, hardware, options, formulas), partial(report_view, model, hardware, options)


def _saved(saved: Path, content: Any) -> _Makers:
    """Of what `sweep`, `plan`, `simulate` or `analyze` has written, or a page has downloaded."""
    from roofline.report.plan.load import is_plan
    from roofline.report.plan.page import saved_plan_page, saved_plan_view
    from roofline.report.saved_page import is_saved_page, saved_page, saved_view
    from roofline.report.sweep.data import load_folder, load_json, load_table
    from roofline.serving.study.folder import is_study_folder, load_result

    if files.is_folder(saved):
        return _studied(saved, load_result(saved)) if is_study_folder(saved) else _swept(load_folder(saved))
    if content is None:
        return _swept(load_table(saved))
    if isinstance(content, dict) and content.get("kind") == "sweep":
        return _swept(load_json(saved, content))
    if isinstance(content, dict) and content.get("kind") == "study":
        return _studied(saved, content)
    if is_plan(content):
        line = f"{content['reproduce']} --output plan.html" if isinstance(content.get("reproduce"), str) else ""
        return partial(saved_plan_page, content, saved, line), partial(saved_plan_view, content, saved)
    if is_saved_page(content):
        return partial(saved_page, content, saved), partial(saved_view, content, saved)
    if isinstance(content, dict) and {"requests", "server", "distributions"} <= content.keys():
        return _simulated(saved, content)
    return _report(*_request(saved, content))


def _studied(saved: Path, content: dict[str, Any]) -> _Makers:
    from roofline.predict.engine_command import shell_line
    from roofline.report.study.page import study_page
    from roofline.serving.study.result import StudyResult

    try:
        result = StudyResult.from_dict(content)
    except (KeyError, TypeError) as error:
        raise SpecError(f"is not as `roofline study` writes it: {error}", path=saved) from None
    line = shell_line(("roofline", "report", "--from", str(saved), "--output", "page.html"))
    return partial(study_page, result, line), lambda: result


def _simulated(saved: Path, content: dict[str, Any]) -> _Makers:
    from roofline.report.simulation.page import simulation_page
    from roofline.serving.simulation.result import Simulation

    try:
        result = Simulation.from_dict(content)
    except (KeyError, TypeError) as error:
        raise SpecError(f"is not as `roofline simulate` writes it: {error}", path=saved) from None
    line = content.get("reproduce")
    return partial(simulation_page, result, line if isinstance(line, str) else ""), lambda: result


_QUICK = ("claim", "compare", "limits", "op", "preempt", "validate")
"""Commands of which a saved result is computed again: it takes a second, and their JSON has less than their pages."""


def _command(content: Any) -> str:
    """The line of a saved result that is computed again; "" of others."""
    line = content.get("reproduce") if isinstance(content, dict) and "view" not in content else None
    words = line.split(maxsplit=2) if isinstance(line, str) else []
    return str(line) if words[:1] == ["roofline"] and words[1:2] and words[1] in _QUICK else ""


def run_again(line: str, content: Mapping[str, Any], saved: Path, out: Output) -> None:
    """Write the page, or a figure, of a saved result by its own command, if its files are still what they were.

    Args:
        line: the command.
        content: the result.
        saved: file that it was read from.
        out: where the page goes.

    Raises:
        SpecError: a file has changed since, or the line is none.
        RooflineError: what the command refuses.
    """
    from roofline.cli.app import app
    from roofline.report.saved_page import check_inputs

    before = content.get("inputs")

    def check(document: Mapping[str, Any]) -> None:
        check_inputs(document["inputs"], before if isinstance(before, dict) else {}, saved)

    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        raise SpecError(f"`reproduce` is no command: {error}", path=saved) from None
    figure = ["--figure", out.figure] if out.figure is not None else []
    with checked_by(check):
        app([*words, *figure, "--output", str(out.file), *["--quiet"] * out.quiet], standalone_mode=False, prog_name="roofline")


def _swept(sweep: SweepData) -> _Makers:
    from roofline.report.sweep.page import sweep_page, view

    return partial(sweep_page, sweep), partial(view, sweep)


def _read(saved: Path) -> Any:
    """The JSON of a saved result; None of a folder or a table."""
    from roofline.report.sweep.data import TABLES

    if files.is_folder(saved) or saved.suffix.lower() in TABLES:
        return None
    # a sweep that is larger is read as a folder or .parquet
    text = files.read_text(saved, _MAX_BYTES, "a result as JSON", encoding="utf-8-sig")
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SpecError(f"is no JSON: {error}", path=saved) from None
    return migrated(content, saved)


def _request(saved: Path, content: Any) -> tuple[str, list[str], dict[str, Any]]:
    """The model, hardware and options of a saved result, if its files are still what they were."""
    from roofline.predict.drafts import resolve
    from roofline.report.saved_page import check_inputs

    query = content.get("asked") if isinstance(content, dict) else None
    if not (isinstance(query, dict) and isinstance(query.get("model"), str) and isinstance(query.get("hardware"), str)):
        why = "has no key `asked`, which says what was asked: save it with `roofline analyze ... -o RESULT.json`"
        raise SpecError(why, path=saved)
    options = query.get("options")
    if not isinstance(options, dict):
        raise SpecError("asked.options must be an object", path=saved)
    request, _ = resolve(query["model"], query["hardware"], **options)
    before = content.get("inputs") if isinstance(content.get("inputs"), dict) else {}
    check_inputs({entry.role: {"name": entry.name, "sha256": entry.sha256} for entry in request.inputs}, before, saved)
    return query["model"], [query["hardware"]], options
