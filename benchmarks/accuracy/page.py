"""Write docs/accuracy.md: `python benchmarks/accuracy/page.py RECORDS FOLDER [SERVING]`, after `fits.py` and `spread.py`.

Its section on serving alone: `python benchmarks/accuracy/page.py --serving SERVING...`.

Every error is of shapes that no fit has seen. The datasheet bound and a three-parameter roofline, fitted to the same rows,
stand beside each fit; each parameter is taken out in turn; fits of one accelerator are tried on another.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import render

from roofline.measure.calibrate import families
from roofline.measure.calibrate.family import Kernels, held_out, solve_family
from roofline.measure.records.read import read
from roofline.predict.bounds import times
from roofline.predict.efficiency.form import KernelForm, Parameter, Values
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.specs.fit import Family
from roofline.specs.library import fit_files, load_fit, load_hardware

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
FEW = 2000
WEAK = "## Where the estimates are weak"
SERVING = "## Serving: time per output token"


def split(rows: Kernels) -> tuple[Kernels, Kernels] | None:
    """Rows that fits see, and rows that they are judged by."""
    out = held_out(rows.shapes)
    unseen = np.array([shape in out for shape in rows.shapes])
    return (rows.of(~unseen), rows.of(unseen)) if unseen.any() else None


def errors(predicted: Any, rows: Kernels) -> dict[str, float]:
    """Median and mean of |predicted/measured - 1|, and the median with its sign."""
    error = predicted / rows.measured - 1
    return {"median": float(np.median(np.abs(error))), "mean": float(np.mean(np.abs(error))), "bias": float(np.median(error))}


def bound(rows: Kernels) -> Any:
    """The datasheet roofline of each row."""
    found = []
    for part in rows.parts:
        total = np.zeros(len(part.frame))
        for operator in part.operators.values():
            total = total + times(operator, operator.cost(), rows.chip.hardware).bound
        found.append(total)
    return np.concatenate(found)


def without(form: KernelForm, name: str) -> tuple[KernelForm, dict[str, float]] | None:
    """A form with one term taken out, by holding its parameter where the term is gone."""
    entry = next(parameter for parameter in form.parameters if parameter.name == name)
    if entry.neutral is None:
        return None
    kept: tuple[Parameter, ...] = tuple(parameter for parameter in form.parameters if parameter.name != name)
    held = {name: entry.neutral}

    def terms(operators: Any, chip: Any, conditions: Any, values: Values) -> dict[str, Any]:
        return form.terms(operators, chip, conditions, {**values, **held})

    return replace(form, parameters=kept, terms=terms), held


def study(task: tuple[str, str, str]) -> list[dict[str, Any]]:
    """All figures of one accelerator and backend."""
    records, gpu, backend = task
    frame = read([records]).frame
    frame = frame[(frame["gpu"] == gpu) & (frame["backend"] == backend) & frame["op"].isin(list(forms_by_op()))]
    device = load_hardware(gpu)[0]
    fitted = {
        key: family
        for path in fit_files().get(gpu, [])
        if (fit := load_fit(path)[0]).backend == backend
        for key, family in fit.families.items()
    }
    found = []
    for key, rows in families(frame, device, {}):
        parts = split(rows)
        if parts is None or key not in fitted:
            continue
        found.append(_cell(gpu, backend, key, parts, fitted[key]))
        sys.stderr.write(f"{gpu} {backend} {key}\n")
    return found


def _cell(gpu: str, backend: str, key: str, parts: tuple[Kernels, Kernels], family: Family) -> dict[str, Any]:
    train, test = parts
    form = FORMS[family.form]
    baseline = FORMS["ceilings"]
    simple = solve_family(baseline, train, baseline.starts(), FEW).parameters
    cell: dict[str, Any] = {
        "gpu": gpu, "backend": backend, "key": key, "rows": len(test.measured), "shapes": len(set(test.shapes)),
        "seen": len(set(train.shapes)), "bound": errors(bound(test), test),
        "ceilings": errors(test.predicted(baseline, simple), test),
        "form": errors(test.predicted(form, family.parameters), test),
        "coverage": family.held_out.coverage if family.held_out else None, "without": {}, "parameters": len(form.parameters),
    }  # fmt: skip
    reference = errors(test.predicted(form, solve_family(form, train, family.parameters, FEW).parameters), test)["median"]
    for parameter in form.parameters:
        reduced = without(form, parameter.name)
        if reduced is not None:
            starts = {name: value for name, value in family.parameters.items() if name != parameter.name}
            values = solve_family(reduced[0], train, starts, FEW).parameters
            cell["without"][parameter.name] = errors(test.predicted(reduced[0], values), test)["median"] - reference
    return cell


def tasks(records: str) -> Iterator[tuple[str, str, str]]:
    """Every accelerator and backend that has a fit."""
    for gpu, paths in fit_files().items():
        for path in paths:
            yield records, gpu, load_fit(path)[0].backend


def study_all(records: str, kept: Path) -> list[dict[str, Any]]:
    """Every accelerator and backend, two at a time; kept as JSON, so that the page can be written again without them."""
    with ProcessPoolExecutor(2) as pool:
        found = [cell for some in pool.map(study, list(tasks(records))) for cell in some]
    kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def sections(page: str) -> list[str]:
    """A page, in front of each of its headings of the second level."""
    return re.split(r"(?m)^(?=## )", page)


def write_serving(points: list[Path]) -> None:
    """Write the section on serving and that on what is weak again, and leave the others."""
    words = {part.split("\n")[0]: part for part in sections((Path(__file__).parent / "words.md").read_text(encoding="utf-8"))}
    page = sections(PAGE.read_text(encoding="utf-8"))
    for place, part in enumerate(page):
        if part.startswith(SERVING):
            page[place] = words[part.split("\n")[0]].replace("<!-- SERVING -->", "\n".join(render.serving(points)))
        elif part.startswith(WEAK):
            page[place] = words[part.split("\n")[0]]
    PAGE.write_text("".join(page), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--serving":
        write_serving([Path(path) for path in sys.argv[2:]])
        raise SystemExit
    # RECORDS FOLDER [SERVING...]: figures are kept in FOLDER/cells.json; FOLDER/transfers.json is spread.py's.
    folder = Path(sys.argv[2])
    cells = (
        json.loads((folder / "cells.json").read_text())
        if (folder / "cells.json").exists()
        else study_all(sys.argv[1], folder / "cells.json")
    )
    transfers = json.loads((folder / "transfers.json").read_text(encoding="utf-8"))
    # Sections that scripts of docs/ write are carried over.
    others = [part for part in sections(PAGE.read_text(encoding="utf-8")) if "written by docs/build_" in part]
    before, weak, after = render.page(cells, transfers, [Path(path) for path in sys.argv[3:]]).partition(WEAK)
    PAGE.write_text("".join([before, *others, weak, after]), encoding="utf-8")
