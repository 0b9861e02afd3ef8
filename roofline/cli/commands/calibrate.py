"""`roofline calibrate`: from measured records to a fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.help import OUTPUT
from roofline.cli.options import JsonOption, QuietOption, VerboseOption, hardware_option, own
from roofline.cli.output import Output, Result, Rows, by_name
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.formatting import about_percent, percent
from roofline.text import Answer, Table

if TYPE_CHECKING:
    from roofline.measure.calibrate import Calibration
    from roofline.measure.calibrate.family import Fitting

_PRINTED = 10  # refusals that are printed one by one
_FORMATS = (".yaml", ".yml", ".json", ".csv", ".md", ".parquet")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="calibrate")(calibrate)


def calibrate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Measurement records: .csv or .parquet files, or folders of them.")
    ],
    hardware: Annotated[str, hardware_option("Accelerator that was measured: id or YAML file.")],
    backend: Annotated[
        str | None, own("--backend", metavar="NAME", text="Kernel library to fit; required if the records contain several.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the fit (.yaml, for `analyze --backend FILE`) or the full result (.json).",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> int:
    """Fit kernel efficiencies to measurements.

    Holds out a third of the shapes and reports the errors on those. Lists the parameters that the records do not determine.

    Example: roofline calibrate measurements/h200-sxm -H h200-sxm --backend torch -o h200.yaml
    """
    from roofline.measure.calibrate import as_yaml, calibrate

    out = Output(json, output, quiet)
    out.check_suffix(_FORMATS)
    calibration = calibrate(paths, hardware, backend, lambda text: out.note(f"fitting {text}"))
    for refusal in calibration.refusals[:_PRINTED]:
        out.note(f"refused: {refusal}")
    for what, count in calibration.left_out.items():
        out.note(f"left out: {count:,} rows of {what}")
    yaml = as_yaml(calibration.fit)
    formats = {".yaml": lambda: yaml, ".yml": lambda: yaml}
    out.emit(
        Result(_document(calibration), lambda: _rows(calibration), lambda: print_answer(_answer(calibration), verbose), formats)
    )
    return 0


def _parameters(fitting: Fitting) -> dict[str, Any]:
    values, undetermined = fitting.family.parameters, fitting.family.undetermined
    return {
        entry.name: {
            "value": values[entry.name],
            "unit": entry.unit,
            "meaning": entry.meaning,
            "within_factor": fitting.factors[entry.name],
            "determined": entry.name not in undetermined,
        }
        for entry in fitting.form.parameters
    }


def _document(calibration: Calibration) -> dict[str, Any]:
    fit = calibration.fit
    return {
        **envelope(by_name(calibration.inputs)),
        "accelerator": fit.accelerator,
        "backend": fit.backend,
        "versions": list(fit.versions),
        "fitted": fit.fitted.isoformat(),
        "rows": sum(fitting.family.rows for fitting in calibration.fittings),
        "refused": sum(refusal.rows for refusal in calibration.refusals),
        "left_out": calibration.left_out,
        "parameters": {fitting.key: _parameters(fitting) for fitting in calibration.fittings},
        "held_out": {
            fitting.key: fitting.family.held_out.model_dump() if fitting.family.held_out else None
            for fitting in calibration.fittings
        },
        "undetermined": [f"{fitting.key}.{name}" for fitting in calibration.fittings for name in fitting.family.undetermined],
        "fit": fit.model_dump(mode="json"),
    }


def _rows(calibration: Calibration) -> Rows:
    """A row per parameter."""
    return [
        {"family": fitting.key, "parameter": name, **entry}
        for fitting in calibration.fittings
        for name, entry in _parameters(fitting).items()
    ]


def _answer(calibration: Calibration) -> Answer:
    """How far the fit is off on shapes that it has not seen, by family; with -v its parameters."""
    fit, fittings = calibration.fit, calibration.fittings
    held = [fitting.family.held_out for fitting in fittings if fitting.family.held_out]
    ranges = sorted(entry.median_ape for entry in held)
    verdict = "No shape could be held out: measure at least two shapes of an op to know the error."
    if held:
        verdict = f"Median error on shapes held out: {about_percent(ranges[0])} to {about_percent(ranges[-1])} by family."
    listed = sorted(sorted(fittings, key=lambda one: -one.family.rows)[:_ROWS], key=fittings.index)
    more = len(fittings) - len(listed)
    parameters = sum(len(fitting.form.parameters) for fitting in fittings)
    open_ones = sum(len(fitting.family.undetermined) for fitting in fittings)
    families = f"{len(fittings)} {'family' if len(fittings) == 1 else 'families'}"
    rest = f"{more} more families, parameters" if more > 0 else "Parameters"
    return Answer(
        title=f"Fit of {fit.accelerator}, kernels of {fit.backend} {', '.join(fit.versions)}".rstrip(),
        settings=f"{sum(one.family.rows for one in fittings):,} rows of {families}",
        verdict=verdict,
        brief=(_errors(listed),),
        details=(_errors(fittings), _values(fittings)),
        notes=(
            ("Errors", "of the shapes held out; in 80 %: share of them inside the 80 % interval"),
            ("Parameters", f"{parameters - open_ones} of {parameters} are determined by these records"),
        ),
        hint=f"{rest}: -v    To use it: -o FILE.yaml, then --backend FILE.yaml",
    )


_ROWS = 16
"""Families on one screen."""


def _errors(fittings: list[Fitting]) -> Table:
    rows = []
    for fitting in fittings:
        family, held = fitting.family, fitting.family.held_out
        errors = ("", "", "", "", "0")
        if held:
            bias = about_percent(held.bias, sign=True)
            errors = (
                about_percent(held.median_ape),
                about_percent(held.mape),
                bias,
                about_percent(held.coverage),
                f"{held.rows:,}",
            )
        rows.append((fitting.key, f"{family.rows:,}", f"{family.shapes:,}", *errors))
    columns = ("family", "rows", "shapes", "median error", "mean error", "bias", "in 80 %", "held out")
    return Table("", "", columns, (False, *([True] * 7)), tuple(rows))


def _values(fittings: list[Fitting]) -> Table:
    from roofline.measure.calibrate import quantity

    rows = tuple(
        (
            fitting.key,
            entry.name,
            quantity(fitting.family.parameters[entry.name], entry.unit),
            "not determined by these records"
            if entry.name in fitting.family.undetermined
            else f"± {percent(fitting.factors[entry.name] - 1, 1)}",
            entry.meaning,
        )
        for fitting in fittings
        for entry in fitting.form.parameters
    )
    return Table(
        "Parameters", "", ("family", "parameter", "value", "certain", "note"), (False, False, True, False, False), rows
    )
