"""The answer of `roofline calibrate`: a fit as YAML, and what it was fitted to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roofline.cli.lists import by_name
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.measure.calibrate import Calibration, as_yaml, calibrate, quantity
from roofline.measure.calibrate.family import Fitting
from roofline.report.summary import Table
from roofline.text import clean
from roofline.version import envelope

_FIRST = 10
_FORMATS = (".yaml", ".yml", ".json", ".csv", ".md", ".parquet")


def answer(paths: list[str], hardware: str, backend: str | None, output: Path | None, *, quiet: bool) -> Answer:
    """Fit, and the fit in every form."""
    if output is not None and output.suffix.lower() not in _FORMATS:
        msg = f"cannot write {output}: the suffix says the format, and must be one of {', '.join(_FORMATS)}"
        raise InputError(msg)

    def progress(text: str) -> None:
        if not quiet:
            sys.stderr.write(f"fitting {clean(text)}\n")

    found = calibrate(paths, hardware, backend, progress)
    if not quiet:
        _warn(found)
    text = as_yaml(found.fit)
    formats = {".yaml": lambda: text, ".yml": lambda: text}
    return Answer(_whole(found), lambda: _rows(found), lambda: _show(found), formats)


def _warn(found: Calibration) -> None:
    for refusal in found.refusals[:_FIRST]:
        sys.stderr.write(f"refused: {clean(refusal)}\n")
    for what, count in found.left_out.items():
        sys.stderr.write(f"left out: {count:,} rows of {what}\n")


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


def _whole(found: Calibration) -> dict[str, Any]:
    fit = found.fit
    return {
        **envelope(by_name(found.inputs)),
        "accelerator": fit.accelerator,
        "backend": fit.backend,
        "versions": list(fit.versions),
        "fitted": fit.fitted.isoformat(),
        "rows": sum(fitting.family.rows for fitting in found.fittings),
        "refused": sum(refusal.rows for refusal in found.refusals),
        "left_out": found.left_out,
        "parameters": {fitting.key: _parameters(fitting) for fitting in found.fittings},
        "held_out": {
            fitting.key: fitting.family.held_out.model_dump() if fitting.family.held_out else None for fitting in found.fittings
        },
        "undetermined": [f"{fitting.key}.{name}" for fitting in found.fittings for name in fitting.family.undetermined],
        "fit": fit.model_dump(mode="json"),
    }


def _rows(found: Calibration) -> Rows:
    """A row a parameter."""
    return [
        {"family": fitting.key, "parameter": name, **entry}
        for fitting in found.fittings
        for name, entry in _parameters(fitting).items()
    ]


def _show(found: Calibration) -> None:
    fit = found.fit
    write_stdout(f"Fit of {fit.accelerator}, kernels of {fit.backend} {', '.join(fit.versions)}".rstrip())
    print_table(_errors(found.fittings))
    write_stdout("")
    print_table(_values(found.fittings))
    if not any(fitting.family.held_out for fitting in found.fittings):
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
    rows = tuple(
        (
            fitting.key,
            entry.name,
            quantity(fitting.family.parameters[entry.name], entry.unit),
            "not determined by these records"
            if entry.name in fitting.family.undetermined
            else _within(fitting.factors[entry.name]),
            entry.meaning,
        )
        for fitting in fittings
        for entry in fitting.form.parameters
    )
    return Table(
        "Parameters", "", ("family", "parameter", "value", "certain", "note"), (False, False, True, False, False), rows
    )


def _within(factor: float) -> str:
    return f"± {percent(factor - 1, 1)}"
