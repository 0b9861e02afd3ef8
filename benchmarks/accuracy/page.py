"""Write docs/accuracy.md: `python benchmarks/accuracy/page.py RECORDS FOLDER [SERVING]`, after `fits.py` and `spread.py`.

Its section on serving alone: `python benchmarks/accuracy/page.py --serving SERVING...`. Some ops alone, the rest of the page as
it is: `--only OP` (may be repeated).

Every error is of shapes that no fit has seen. The datasheet bound and a three-parameter roofline, fitted to the same rows,
stand beside each fit; each parameter is taken out in turn; fits of one accelerator are tried on another.
"""

from __future__ import annotations

import argparse
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
from roofline.measure.calibrate.family import Kernels, held_out, solve_family, worlds_left_out
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
TERMS = "## What the terms are worth"
MERGED = ("## In one table", "## Every fit", "## With one number of ranks left out", "## On accelerators that were not fitted")
SHORT = 256 * 1024
"""Bytes of messages of which latency is most of the time."""


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


def study(task: tuple[str, str, str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """All figures of some ops of one accelerator and backend."""
    records, gpu, backend, ops = task
    frame = read([records]).frame
    frame = frame[(frame["gpu"] == gpu) & (frame["backend"] == backend) & frame["op"].isin(ops)]
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
        found.append(_cell(gpu, backend, key, parts, fitted[key]) | {"worlds": _worlds(rows, fitted[key])})
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


def _worlds(rows: Kernels, family: Family) -> list[dict[str, Any]]:
    """Errors on each number of ranks of a collective by a fit to the others, of short and of long messages."""
    if len(family.worlds) < 2:
        return []
    size = np.concatenate([part.frame["bytes"].to_numpy(dtype=float) for part in rows.parts])
    found = []
    for world, unseen, estimate in worlds_left_out(FORMS[family.form], rows):
        error, short = estimate / rows.measured[unseen] - 1, size[unseen] <= SHORT
        found.append(
            {"ranks": world, "rows": len(error)}
            | {
                name: {"median": float(np.median(np.abs(some))), "bias": float(np.median(some))}
                for name, some in (("short", error[short]), ("long", error[~short]))
            }
        )
    return found


def tasks(records: str, ops: tuple[str, ...]) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Every accelerator and backend that has a fit."""
    for gpu, paths in fit_files().items():
        for path in paths:
            yield records, gpu, load_fit(path)[0].backend, ops


def study_all(records: str, kept: Path, ops: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every accelerator and backend, two at a time; kept as JSON, so that the page can be written again without them."""
    with ProcessPoolExecutor(2) as pool:
        found = [cell for some in pool.map(study, list(tasks(records, ops))) for cell in some]
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


def _merged(made: str, page: str, ops: tuple[str, ...]) -> str:
    """A page that was made of some ops alone, with the rows of the others, and the tables of their forms, as they were."""
    before = {part.split("\n")[0]: part for part in sections(page)}
    parts = sections(made)
    for place, part in enumerate(parts):
        title = part.split("\n")[0]
        if title.startswith(SERVING) and title in before:
            parts[place] = before[title]
        elif title == TERMS:
            text, *forms = re.split(r"(?m)^(?=### )", part)
            of_ops = {f"### `{name}`" for name, form in FORMS.items() if form.ops and set(form.ops) <= set(ops)}
            forms = [form for form in forms if form.split("\n")[0] in of_ops]
            forms += [form for form in re.split(r"(?m)^(?=### )", before[title])[1:] if form.split("\n")[0] not in of_ops]
            parts[place] = text + "".join(f"{form.rstrip()}\n\n" for form in sorted(forms, key=lambda form: form.split("`")[1]))
        elif title in MERGED:
            head, rule, table = part.partition("\n|---")
            columns, *rows = table.rstrip().split("\n")
            others = before.get(title, "").partition(rule)[2].rstrip().split("\n")[1:]
            rows += [row for row in others if row.strip("| ").split(" | ")[0].split("/")[0] not in ops]
            parts[place] = head + rule + "\n".join([columns, *sorted(rows, key=lambda row: row.split(" | ")[:3])]) + "\n\n"
    return "".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serving", nargs="+", type=Path, help="write the section on serving alone")
    parser.add_argument("--only", action="append", default=[], metavar="OP")
    parser.add_argument("records", nargs="?")
    parser.add_argument("folder", nargs="?", type=Path, help="figures are kept in cells.json; transfers.json is spread.py's")
    parser.add_argument("points", nargs="*", type=Path)
    arguments = parser.parse_intermixed_args()
    if arguments.serving:
        write_serving(arguments.serving)
        raise SystemExit
    kept, ops = arguments.folder / "cells.json", tuple(arguments.only)
    cells = json.loads(kept.read_text()) if kept.exists() else study_all(arguments.records, kept, ops or tuple(forms_by_op()))
    transfers = json.loads((arguments.folder / "transfers.json").read_text(encoding="utf-8"))
    now = PAGE.read_text(encoding="utf-8")
    made = render.page(cells, transfers, arguments.points)
    if ops:
        made = _merged(made, now, ops)
    # Sections that scripts of docs/ write are carried over.
    others = {part.split("\n")[0]: part for part in sections(now) if "written by docs/build_" in part}
    parts = [others.pop(title, part) for part in sections(made) if (title := part.split("\n")[0])]
    first = next(place for place, part in enumerate(parts) if part.startswith(WEAK) or "written by docs/build_" in part)
    PAGE.write_text("".join([*parts[:first], *others.values(), *parts[first:]]), encoding="utf-8")
