"""Measure what estimates cost that stand on something else: `python benchmarks/accuracy/spread.py RECORDS`, after fits.py.

`--only OP` (may be repeated) measures these ops and leaves the other allowances as they are. Writes
hardware/fits/_spread.yaml. Each allowance is what has to be added, in squares, to a fit's own band so that it holds 80 % of the
measurements of another backend, of other formats, of another accelerator.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from roofline.measure.calibrate import families, spread_yaml
from roofline.measure.calibrate.family import Kernels, solve_family
from roofline.measure.records.read import read
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.specs.fit import Allowance, Family, Spread
from roofline.specs.library import fit_files, load_fit, load_hardware, load_spread

ROOT = Path(__file__).resolve().parents[2]
SHARE = 0.8
MOST = 3000
Cell = tuple[str, str, str]


def own_band(family: Family) -> float:
    """Half the width of a fit's own band, as a logarithm."""
    low, high = family.bands.get("all", next(iter(family.bands.values())))
    return float(np.log(high / low) / 2)


def reach(rows: Kernels, family: Family, there: Any) -> tuple[float, float]:
    """Of a fit that was made elsewhere, on these rows: the logarithm that 80 % stay within, and the median error."""
    form, values = FORMS[family.form], dict(family.parameters)
    if there is not rows.chip and there.hardware.name != rows.chip.hardware.name:
        if form.transfer is not None:
            values = form.transfer(values, there, rows.chip)
        if form.elsewhere is not None:
            form = FORMS[form.elsewhere(rows.chip)]
    ratio = rows.predicted(form, values) / rows.measured
    return float(np.quantile(np.abs(np.log(ratio)), SHARE)), float(np.median(np.abs(ratio - 1)))


def extra(reached: float, own: float) -> float:
    """What is missing in squares."""
    return float(np.sqrt(max(reached**2 - own**2, 0.0)))


def cells(records: Path, ops: list[str]) -> tuple[dict[Cell, Kernels], dict[Cell, Family]]:
    """Measured kernels and fits by accelerator, backend and family."""
    frame = read([records]).frame
    frame = frame[frame["op"].isin(ops)]
    rows: dict[Cell, Kernels] = {}
    fits: dict[Cell, Family] = {}
    for gpu, paths in fit_files().items():
        device = load_hardware(gpu)[0]
        for path in paths:
            fit = load_fit(path)[0]
            some = frame[(frame["gpu"] == gpu) & (frame["backend"] == fit.backend)]
            for key, found in families(some, device, {}):
                if key in fit.families:
                    rows[gpu, fit.backend, key] = found.thinned(MOST)
                    fits[gpu, fit.backend, key] = fit.families[key]
    return rows, fits


def grown(rows: Kernels, family: Family) -> float | None:
    """What each doubling beyond the range costs: fitted to the smaller half of the rows by bytes, asked about the larger."""
    first = [next(iter(part.operators.values())) for part in rows.parts]
    size = np.concatenate(
        [np.broadcast_to(op.cost().bytes, len(part.frame)) for op, part in zip(first, rows.parts, strict=True)]
    )
    small = size <= np.quantile(size, 0.5)
    if small.sum() < 200 or (~small).sum() < 200:
        return None
    form = FORMS[family.form]
    values = solve_family(form, rows.of(small), form.starts(), 1500).parameters
    ratio = np.abs(np.log(rows.of(~small).predicted(form, values) / rows.of(~small).measured))
    doublings = np.log2(size[~small] / np.quantile(size, 0.5))
    return extra(float(np.quantile(ratio, SHARE)), own_band(family)) / float(np.median(doublings))


def main(records: Path, transfers: Path | None, only: list[str]) -> None:
    """Try every fit on everything that it might stand for."""
    rows, fits = cells(records, only or list(forms_by_op()))
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    tried: list[dict[str, Any]] = []
    for (gpu, backend, key), family in fits.items():
        op = key.split("/", maxsplit=1)[0]
        for (other_gpu, other_backend, other_key), target in rows.items():
            if other_key.split("/")[0] != op or (gpu, backend, key) == (other_gpu, other_backend, other_key):
                continue
            same_chip, same_backend, same_formats = gpu == other_gpu, backend == other_backend, key == other_key
            if [same_chip, same_backend, same_formats].count(False) != 1:
                continue
            there = rows[gpu, backend, key].chip
            alike = there.architecture == target.chip.architecture
            kind = (
                "backend" if not same_backend else "formats" if not same_formats else "architecture" if alike else "accelerator"
            )
            reached, median = reach(target, family, there)
            found[op][kind].append(extra(reached, own_band(family)))
            tried.append(
                {"from": [gpu, backend, key], "to": [other_gpu, other_backend, other_key], "kind": kind, "median": median}
            )
    if only:
        before = load_spread()
        typical, allowances, doubling = before.allowances["all"].model_dump(), dict(before.allowances), before.doubling
    else:
        pooled = {kind: [value for op in found.values() for value in op.get(kind, [])] for kind in Allowance.model_fields}
        typical = {kind: float(np.median(values)) for kind, values in pooled.items()}
        allowances = {"all": Allowance(**typical)}
        doublings = [value for cell, family in fits.items() if (value := grown(rows[cell], family)) is not None]
        doubling = float(np.median(doublings))
    for op, kinds in sorted(found.items()):
        allowances[op] = Allowance(
            **{kind: float(np.median(kinds[kind])) if kinds.get(kind) else typical[kind] for kind in typical}
        )
    spread = Spread(
        schema_version=1,
        kind="spread",
        measured=date.today(),  # noqa: DTZ011 - a day in the place where the fits are made
        allowances=allowances,
        doubling=doubling,
    )
    about = "Written by benchmarks/accuracy/spread.py: medians over all pairs of measured series that differ in this one thing."
    (ROOT / "hardware" / "fits" / "_spread.yaml").write_text(spread_yaml(spread, about), encoding="utf-8")
    if transfers is not None:
        transfers.write_text(json.dumps(tried, indent=1), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path)
    parser.add_argument("transfers", type=Path, nargs="?", help="file for the error of each pair, for page.py")
    parser.add_argument("--only", action="append", default=[], metavar="OP")
    arguments = parser.parse_intermixed_args()
    main(arguments.records, arguments.transfers, arguments.only)
