"""`roofline calibrate`: from measured records to a fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.options import JsonOption, QuietOption, hardware_option, own
from roofline.cli.output import Output, Result, Rows, by_name, write_stdout
from roofline.cli.tables import print_table
from roofline.documents import envelope
from roofline.formatting import percent, plural
from roofline.text import Table

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
        list[str], typer.Argument(metavar="PATH", help="Records: .csv or .parquet files, or folders that hold them.")
    ],
    hardware: Annotated[str, hardware_option("Id or YAML file of the accelerator that was measured.")],
    backend: Annotated[
        str | None, own("--backend", metavar="NAME", text="Whose kernels; needed where the records are of several.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the fit goes (.yaml): `analyze --backend FILE` uses it. .json: the whole answer.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Fit the efficiencies of an accelerator's kernels to measured records, and say how far off the fit is.

    A third of the shapes is held out: the fit never sees them, and the errors are of them. Parameters that the data do not
    determine are named. Example: roofline calibrate measurements/h200-sxm -H h200-sxm --backend torch -o h200.yaml
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
    out.emit(Result(_document(calibration), lambda: _rows(calibration), lambda: _show(calibration), formats))
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


def _show(calibration: Calibration) -> None:
    fit = calibration.fit
    write_stdout(f"Fit of {fit.accelerator}, kernels of {fit.backend} {', '.join(fit.versions)}".rstrip())
    print_table(_errors(calibration.fittings))
    write_stdout("")
    print_table(_values(calibration.fittings))
    if not any(fitting.family.held_out for fitting in calibration.fittings):
        write_stdout("No shape could be held out: measure at least two shapes of an op for an honest error.")


def _errors(fittings: list[Fitting]) -> Table:
    rows = []
    for fitting in fittings:
        family, held = fitting.family, fitting.family.held_out
        errors = (
            (
                percent(held.median_ape, 1),
                percent(held.mape, 1),
                percent(held.bias, 1, sign=True),
                percent(held.coverage, 1),
                f"{held.rows:,}",
            )
            if held
            else ("", "", "", "", "0")
        )
        rows.append((fitting.key, f"{family.rows:,}", plural(family.shapes, "shape"), *errors))
    columns = ("family", "rows", "of", "median error", "mean error", "bias", "in band", "held out")
    note = "errors are of the shapes held out; in band: share of them inside the 80 % interval"
    return Table("Families", note, columns, (False, True, False, *([True] * 5)), tuple(rows))


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
