"""Fits of the forms to measured records: what is held out, the least squares, the errors on what was not seen."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, UnknownNameError
from roofline.formatting import percent
from roofline.measure.calibrate.family import KNEE, QUANTILES, Fitting, Kernels, fit, kernels, once
from roofline.measure.records.read import Refusal, read
from roofline.measure.records.row_groups import operators_of, own_kernel
from roofline.measure.validate.predict import Library
from roofline.measure.validate.serving import validate_serving
from roofline.predict.efficiency.form import Form, chip
from roofline.predict.efficiency.forms import FORMS, forms_by_op
from roofline.predict.efficiency.kernels import family_key
from roofline.specs.engine import EngineSteps, ServingErrors
from roofline.specs.fit import Family, Fit, Spread
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input
from roofline.specs.source import Source

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]

Progress = Callable[[str], None]


@dataclass
class Calibration:
    """A fit, what it was fitted to, and what was left out and why."""

    fit: Fit
    fittings: list[Fitting]
    inputs: list[Input]
    refusals: list[Refusal]
    files: list[Path]
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows by the reason for which they were not used."""


def calibrate(
    paths: Iterable[str | Path],
    hardware: str,
    backend: str | None = None,
    progress: Progress = lambda _: None,
    today: date | None = None,
) -> Calibration:
    """Fit the records of one accelerator and backend. Without a backend the records must be of one alone."""
    records = read(paths)
    library = Library((hardware,))
    device: Hardware = library.only[0]
    left_out: dict[str, int] = {}
    frame = records.frame
    frame = _only(
        frame,
        [gpu for gpu in frame["gpu"].unique() if library.of(str(gpu), Path()) is not None],
        "gpu",
        "other hardware",
        left_out,
    )
    chosen = _backend(frame, backend)
    frame = _only(frame, [chosen], "backend", "other backends", left_out)
    frame = _only(frame, [op for op in frame["op"].unique() if op in forms_by_op()], "op", "ops without a form", left_out)
    if frame.empty:
        why = "; ".join(f"{count:,} rows of {what}" for what, count in left_out.items())
        kernels_of = f", kernels of {chosen}," if chosen else ""
        msg = f"no record of {device.name}{kernels_of} is left to fit{': ' + why if why else ''}"
        raise InputError(msg)
    fittings = []
    for key, rows in families(frame, device, left_out):
        progress(f"{key}: {len(rows.measured):,} records")
        fittings.append(fit(key, [form for form in forms_by_op()[rows.op] if form.suits(key)], rows))
        progress(f"{key}: {_summary(fittings[-1])}")
    sources = tuple(Source(title=title) for title in sorted(set(frame["source"])) if title)
    made = assemble(device, chosen, fittings, sources, today)
    return Calibration(made, fittings, list(library.inputs.values()), records.refusals, records.files, left_out)


def assemble(
    device: Hardware, backend: str, fittings: list[Fitting], sources: tuple[Source, ...], today: date | None = None
) -> Fit:
    """Fitted families as one fit."""
    versions = {str(version) for fitting in fittings for version in fitting.train.frame()["version"]} - {""}
    return Fit(
        schema_version=1,
        kind="fit",
        accelerator=device.accelerator.name,
        backend=backend,
        versions=tuple(sorted(versions, key=_order)),
        fitted=today or date.today(),  # noqa: DTZ011 - a day in the place where the fit is made
        sources=sources,
        families={fitting.key: fitting.family for fitting in fittings},
    )


def _summary(fitting: Fitting) -> str:
    """How far off a fit is, and what it does not know, in a line."""
    held, unknown = fitting.family.held_out, fitting.family.undetermined
    error = (
        "no second shape to hold out"
        if held is None
        else f"off by {percent(held.median_ape, 1)} in the median of {held.rows:,} unseen"
    )
    return error + (f"; not determined: {', '.join(unknown)}" if unknown else "")


def _only(frame: pd.DataFrame, values: list[str], column: str, what: str, left_out: dict[str, int]) -> pd.DataFrame:
    keep = frame[column].isin(values)
    if count := int((~keep).sum()):
        left_out[what] = count
    return frame[keep]


def _backend(frame: pd.DataFrame, wanted: str | None) -> str:
    """The backend whose records are fitted."""
    backends = [str(name) for name in frame["backend"].value_counts().index]
    if wanted is not None:
        if backends and wanted not in backends:
            raise UnknownNameError("backend of these records", wanted, backends, list_all=True)
        return wanted
    if len(backends) > 1:
        msg = f"the records are of {len(backends)} backends ({', '.join(backends)}): choose one with --backend"
        raise InputError(msg)
    return backends[0] if backends else ""


def families(frame: pd.DataFrame, device: Hardware, left_out: dict[str, int]) -> list[tuple[str, Kernels]]:
    """The measured kernels of one accelerator and backend by family: each point once, of the newest version."""
    import pandas as pd

    by_key: dict[str, list[pd.DataFrame]] = {}
    joined = [world for world in frame["world"].dropna().unique() if _joins(device, int(world))]
    if count := int((unmatched := frame["world"].notna() & ~frame["world"].isin(joined)).sum()):
        left_out[f"more ranks than {device.name} joins"] = count
        frame = frame[~unmatched]
    for (op, _, _, ungated), rows in frame.groupby(["op", "dtype", "kv_dtype", own_kernel(frame)], observed=True, sort=True):
        operator = next(iter(operators_of(rows.iloc[:1]).values()))[0]
        key = family_key(str(op), operator.dtypes, multiplies_weights=operator.multiplies_weights, ungated=bool(ungated))
        by_key.setdefault(key, []).append(rows)
    newest = {key: once(_newest(pd.concat(parts), left_out)) for key, parts in by_key.items()}
    return [(key, kernels(rows, chip(device))) for key, rows in newest.items()]


def _joins(device: Hardware, world: int) -> bool:
    """Whether the hardware's links join this many devices."""
    try:
        return world == 1 or device.connection(world) is not None
    except InputError:
        return False


def _newest(rows: pd.DataFrame, left_out: dict[str, int]) -> pd.DataFrame:
    """Of several versions of a backend the newest: kernels change."""
    versions = sorted({str(version) for version in rows["version"]}, key=_order)
    keep = rows["version"] == versions[-1]
    if count := int((~keep).sum()):
        left_out["older versions"] = left_out.get("older versions", 0) + count
    return rows[keep]


def _order(version: str) -> list[tuple[int, int, str]]:
    """Numbers by value, a release after its candidates.

    >>> sorted(["1.3.0", "1.3.0rc20", "1.3.0rc5", "0.24.0", "0.5.6.post2", "0.5.6"], key=_order)
    ['0.5.6', '0.5.6.post2', '0.24.0', '1.3.0rc5', '1.3.0rc20', '1.3.0']
    """
    words = {"post": (1, 0, "")}
    parts = re.findall(r"\d+|[a-z]+", version)
    return [*((1, int(part), "") if part.isdigit() else words.get(part, (0, 0, part)) for part in parts), (0, 1, "")]


# A fit as YAML, in the layout of the shipped ones, with the digits that mean something.


def as_yaml(fit: Fit) -> str:
    """The text of a file for `hardware/fits/<accelerator>/<backend>.yaml`."""
    lines = [
        "# Written by `roofline calibrate`. Bands: 10 % and 90 % quantiles of measured/estimate on shapes not seen by a fit.",
        f"schema_version: {fit.schema_version}",
        "kind: fit",
        f"accelerator: {fit.accelerator}",
        f"backend: {_text(fit.backend)}",
        f"versions: [{', '.join(_text(version) for version in fit.versions)}]",
        f"fitted: {fit.fitted.isoformat()}",
    ]
    if fit.sources:
        lines.append("sources:")
        for source in fit.sources:
            url = f", url: {_text(source.url)}" if source.url else ""
            lines.append(f"  - {{title: {_text(source.title)}{url}}}")
    lines.append("families:")
    for key, family in fit.families.items():
        lines += [f"  {key}:", *(f"    {line}" for line in _family(family))]
    lines += ["notes:", *(f"  - {_text(note)}" for note in fit.notes)] if fit.notes else []
    return "\n".join(lines) + "\n"


def _family(family: Family) -> list[str]:
    form = FORMS[family.form]
    lines = [f"form: {family.form}", f"parameters: {_mapping(_parameters(form, family))}"]
    if family.undetermined:
        lines.append(f"undetermined: [{', '.join(family.undetermined)}]")
    lines.append(f"rows: {family.rows}")
    lines.append(f"shapes: {family.shapes}")
    if (held := family.held_out) is not None:
        figures = {name: f"{getattr(held, name):.4f}" for name in ("median_ape", "mape", "bias", "coverage")}
        lines.append(f"held_out: {_mapping({'rows': str(held.rows), 'shapes': str(held.shapes), **figures})}")
    lines.append(f"bands: {_mapping({_text(name): f'[{low:.4f}, {high:.4f}]' for name, (low, high) in family.bands.items()})}")
    lines.append(f"range: {_mapping({name: f'[{low:.12g}, {high:.12g}]' for name, (low, high) in family.range.items()})}")
    return lines


def _parameters(form: Form, family: Family) -> dict[str, str]:
    """Values with their units, in the order of the form."""
    return {entry.name: quantity(family.parameters[entry.name], entry.unit) for entry in form.parameters}


def quantity(value: float, unit: str) -> str:
    """A parameter as a file has it: a plain number where it has no unit.

    >>> quantity(1.67e-6, "s"), quantity(0.81, "1"), quantity(4.2e9, "byte/s")
    ('1.67 us', '0.81', '4.2 GB/s')
    """
    if unit == "1":
        return f"{value:.5g}"
    scale, prefix = (1e-6, "u") if unit == "s" else (1e9, "G") if "/s" in unit else (1e3, "k")
    return f"{value / scale:.5g} {prefix}{unit.replace('byte', 'B')}"


def _mapping(entries: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in entries.items()) + "}"


def _text(value: str) -> str:
    """A scalar that YAML reads back as the same text."""
    return json.dumps(value, ensure_ascii=False)


def spread_yaml(spread: Spread, about: str) -> str:
    """The text of `hardware/fits/_spread.yaml`."""
    lines = [f"# {about}", "schema_version: 1", "kind: spread", f"measured: {spread.measured.isoformat()}", "allowances:"]
    for op, allowance in spread.allowances.items():
        lines.append(f"  {op}: {_mapping({name: f'{value:.3f}' for name, value in allowance.model_dump().items()})}")
    return "\n".join([*lines, f"doubling: {spread.doubling:.3f}"]) + "\n"


def steps_yaml(steps: EngineSteps) -> str:
    """The text of `engines/steps/<engine>.yaml`."""
    lines = [
        "# Fitted to half of the serving points of a closed loop, judged by the other half; see docs/decisions/0018.",
        f"schema_version: {steps.schema_version}",
        "kind: steps",
        f"engine: {steps.engine}",
        f"versions: [{', '.join(_text(version) for version in steps.versions)}]",
        f"fitted: {steps.fitted.isoformat()}",
        f"rows: {steps.rows}",
        *(f"{name}: {quantity(getattr(steps, name), 's')}" for name in ("step", "sequence", "rank")),
        f"hidden: {steps.hidden:.4g}",
        f"band: [{steps.band[0]:.4f}, {steps.band[1]:.4f}]",
    ]
    if (held := steps.held_out) is not None:
        figures = {name: f"{getattr(held, name):.4f}" for name in ("median_ape", "mape", "bias", "coverage")}
        lines.append(f"held_out: {_mapping({'rows': str(held.rows), **figures})}")
    if steps.sources:
        lines.append("sources:")
        lines += [f"  - {{title: {_text(source.title)}, url: {_text(source.url)}}}" for source in steps.sources]
    return "\n".join(lines) + "\n"


# What an engine adds to the kernels of a step, from serving points measured in a closed loop.

FEWEST = 12
"""Points below which four numbers are not to be had."""
IMPOSSIBLE = 0.1
"""The share of a series that may be faster than its bound."""
NOTHING = 0.01
"""Of a thousandth of a second, or ten microseconds per sequence: what a bounded fit leaves of a term that earns nothing."""
_CONFIGURATION = ("kernel", "hardware", "dtype", "world", "batch", "q_len", "tokens")


def engine_steps(
    paths: Iterable[str | Path],
    engine: str,
    versions: tuple[str, ...] = (),
    sources: tuple[Source, ...] = (),
    today: date | None = None,
) -> tuple[EngineSteps, pd.DataFrame]:
    """Fit `step`, `sequence`, `rank` and `hidden` to every second configuration of an engine, and judge them by the others.

    The points come back with `fitted_on` and `usable`. A series (a model on hardware by one version) of which more than a tenth
    is faster than the hardware allows is no closed loop of this many clients: it is left out, and reported separately.
    """
    import numpy as np

    frame = validate_serving(paths, (), engine).frame
    if len(frame) < FEWEST or frame["decode_s"].isna().any():
        msg = f"{len(frame)} serving points of {engine} whose kernels can be estimated: at least {FEWEST} are needed"
        raise InputError(msg)
    series = [frame[name].astype(str) for name in ("kernel", "hardware", "version", "dtype")]
    usable = ((frame["why"] != "").groupby(series).transform("mean") <= IMPOSSIBLE).to_numpy()
    fitted_on = usable & np.array(
        [zlib.crc32("/".join(map(str, row)).encode()) % 2 == 0 for row in frame[list(_CONFIGURATION)].to_numpy()]
    )
    step, sequence, rank, hidden = _solve(frame[fitted_on])
    added = step + sequence * frame["replica"] + rank * np.log2(frame["world"]) - hidden * frame["launches_s"]
    frame = frame.assign(fitted_on=fitted_on, usable=usable, estimate_s=frame["decode_s"] + frame["prefill_s"] + added)
    ratio = (frame["measured_s"] / frame["estimate_s"]).to_numpy()
    low, high = np.quantile(ratio[fitted_on], QUANTILES)
    judged = ratio[usable & ~fitted_on]
    error = 1 / judged - 1
    held_out = ServingErrors(
        rows=len(error),
        median_ape=float(np.median(np.abs(error))),
        mape=float(np.mean(np.abs(error))),
        bias=float(np.median(error)),
        coverage=float(np.mean((judged >= low) & (judged <= high))),
    )
    made = EngineSteps(
        schema_version=1,
        kind="steps",
        engine=engine,
        versions=versions,
        fitted=today or date.today(),  # noqa: DTZ011 - a day in the place where the fit is made
        rows=int(fitted_on.sum()),
        step=step,
        sequence=sequence,
        rank=rank,
        hidden=hidden,
        band=(float(low), float(high)),
        held_out=held_out,
        sources=sources,
    )
    return made, frame


def _solve(frame: pd.DataFrame) -> tuple[float, float, float, float]:
    """Seconds per step, per sequence and per doubling of ranks, none of them negative; the share of launches that is hidden."""
    import numpy as np
    from scipy.optimize import least_squares

    kernels = (frame["decode_s"] + frame["prefill_s"]).to_numpy()
    columns = (np.ones(len(frame)), frame["replica"], np.log2(frame["world"]), -frame["launches_s"])
    terms = np.stack([np.asarray(column) for column in columns])
    measured, unit = frame["measured_s"].to_numpy(), np.array([1e-3, 1e-5, 1e-3, 1.0])

    def residuals(point: Array) -> Array:
        return np.asarray(np.log((kernels + (point * unit) @ terms) / measured))

    optimum = least_squares(
        residuals, np.array([0.1, 0.1, 0.1, 0.5]), bounds=(0, [1e3, 1e3, 1e3, 1]), loss="soft_l1", f_scale=KNEE
    )
    step, sequence, rank, hidden = np.where(optimum.x < NOTHING, 0, optimum.x * unit).tolist()
    return step, sequence, rank, hidden
