"""Fits of the forms to measured records: what is held out, the least squares, the errors on what was not seen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError, UnknownNameError
from roofline.formatting import percent
from roofline.measure.calibrate.family import KNEE, QUANTILES, Fitting, Kernels, fit, kernels, once
from roofline.measure.records.read import Refusal, read
from roofline.measure.records.row_groups import operators_of, own_kernel
from roofline.measure.validate.predict import Library
from roofline.measure.validate.serving import validate_serving
from roofline.predict.efficiency.form import KernelForm, chip
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
    """Fit the efficiency forms to the records of one accelerator and backend, family by family.

    Args:
        paths: tables of records (.csv, .parquet), or folders of them.
        hardware: the id or file of the accelerator; records of others are left out.
        backend: the backend to fit; records of others are left out. None: the records must be of one backend.
        progress: gets a line before and after the fit of each family.
        today: the date that the fit carries. None: the current date.

    Raises:
        InputError: if a path holds no records, no record is left to fit, or the records are of several backends and none
            is named.
        UnknownNameError: if the hardware, or the backend among the records, is not known.
        MissingExtraError: if reading Parquet needs a package that is not installed.
    """
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
        fittings.append(fit(key, [form for form in forms_by_op()[rows.op] if form.applies_to(key)], rows))
        progress(f"{key}: {_summary(fittings[-1])}")
    sources = tuple(Source(title=title) for title in sorted(set(frame["source"])) if title)
    made = assemble(device, chosen, fittings, sources, today)
    return Calibration(made, fittings, list(library.inputs.values()), records.refusals, records.files, left_out)


def assemble(
    device: Hardware, backend: str, fittings: list[Fitting], sources: tuple[Source, ...], today: date | None = None
) -> Fit:
    """Fitted families as one `Fit`, the content of a fit file.

    Args:
        device: the accelerator that was measured.
        backend: whose kernels were measured.
        fittings: one per family; the versions of the backend are those of their training records.
        sources: where the records are from.
        today: the date that the fit carries. None: the current date.
    """
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
    """The measured kernels of one accelerator and backend by family: each point once, of the newest version.

    Args:
        frame: records with the columns of `roofline.measure.records.read`, of ops that have a form.
        device: the accelerator that was measured.
        left_out: gets the number of rows that are not used, by the reason.

    Returns:
        Pairs of a family's key, such as "gemm/bf16", and its kernels.
    """
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
    """A fit as the YAML text of `hardware/fits/<accelerator>/<backend>.yaml`, parameters with their units."""
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
    if family.worlds:
        lines += [f"worlds: {list(family.worlds)}", f"per_doubling: {family.per_doubling:.3f}"]
    return lines


def _parameters(form: KernelForm, family: Family) -> dict[str, str]:
    """Values with their units, in the order of the form."""
    return {entry.name: quantity(family.parameters[entry.name], entry.unit) for entry in form.parameters}


def quantity(value: float, unit: str) -> str:
    """A parameter with five digits and its unit, as fit files have it; a plain number where the unit is "1".

    Args:
        value: in `unit`.
        unit: "1", "s", or a unit of bytes or FLOP, per second or not.

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
    """The YAML text of `hardware/fits/_spread.yaml`: allowances by op, after a comment with the text `about`."""
    lines = [f"# {about}", "schema_version: 1", "kind: spread", f"measured: {spread.measured.isoformat()}", "allowances:"]
    for op, allowance in spread.allowances.items():
        lines.append(f"  {op}: {_mapping({name: f'{value:.3f}' for name, value in allowance.model_dump().items()})}")
    return "\n".join([*lines, f"doubling: {spread.doubling:.3f}"]) + "\n"


def steps_yaml(steps: EngineSteps) -> str:
    """The time that an engine adds to each step as the YAML text of `engines/steps/<engine>.yaml`."""
    lines = [
        "# Fitted to serving points of closed loops on all engines, judged with each model left out; see docs/decisions/0018.",
        f"schema_version: {steps.schema_version}",
        "kind: steps",
        f"engine: {steps.engine}",
        f"versions: [{', '.join(_text(version) for version in steps.versions)}]",
        f"fitted: {steps.fitted.isoformat()}",
        f"rows: {steps.rows}",
        *(
            f"{name}: {quantity(getattr(steps, name), 's')}"
            for name in ("step", "sequence", "rank", "experts", "stage", "eager")
        ),
        f"hidden: {steps.hidden:.4g}",
        f"routing_skew: {steps.routing_skew:.4g}",
        *(["fused_quantization: true # published fp8 throughput needs it; the points are bf16"] * steps.fused_quantization),
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

_FEWEST_POINTS = 12
"""Points below which four numbers are not to be had."""
_MAX_FASTER = 0.1
"""The share of a series that may be faster than its bound."""
_MAX_RATIO = 1.25
"""The factor by which two measurements of the same columns may differ; runs of the same differ by up to a tenth."""
_NEGLIGIBLE = 0.01
"""Of a thousandth of a second, or ten microseconds per sequence: what a bounded fit leaves of a term that earns nothing."""
_SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Exponents at which points are predicted; between them times are interpolated."""
_MODEL = ("backend", "kernel")
_SERIES = (*_MODEL, "hardware", "version", "dtype")
_COLUMNS = (*_SERIES, "layout", "batch", "q_len", "tokens")


def engine_steps(
    paths: Iterable[str | Path],
    engine: str,
    versions: tuple[str, ...] = (),
    sources: tuple[Source, ...] = (),
    today: date | None = None,
) -> tuple[EngineSteps, pd.DataFrame]:
    """Fit what an engine adds to the kernels of a step, and judge the fit by leaving out one model after another.

    The fit has five numbers: seconds per `sequence` of the batch, per doubling of the ranks (`rank`) and per layer with routed
    `experts`, the share of kernel launches that is `hidden`, and the exponent of the popularity of experts
    (`routing_skew`): the fewer experts a step meets, the fewer weights it reads. All engines are fitted together, each model
    on each engine with the same weight: of models that were left out, this predicts better than a fit to the engine's own
    points. What a running sequence costs is each engine's own.
    A series (a model on hardware by one version) is left out of the fit, and not of the table, if more than a tenth of it is
    faster than the hardware allows a closed loop of that number of clients, prompts included; or if two measurements with the
    same columns are a quarter apart, because then it mixes configurations (drafts, for example) that no column tells apart.

    Args:
        paths: tables of serving points (`roofline.measure.validate.serving`).
        engine: the value of the column `backend` that is judged.
        versions: of the engine, for the file.
        sources: where the points are from, for the file.
        today: the date that the fit carries. None: the current date.

    Returns:
        The fit, with its errors on models that it had not seen (fractions), and the engine's points: a `Validation.frame`
        whose `estimate_s`, `low_s` and `high_s` are of a fit, and a band, without any point of the same model; `usable` marks
        what fits see.

    Raises:
        InputError: if the engine has fewer than 12 points, some have no estimate, or a file is wrong.
    """
    points = judged_points(paths)
    judged = points.judged
    own = judged[judged["backend"] == engine]
    if len(own) < _FEWEST_POINTS:
        msg = f"{len(own)} serving points of {engine} whose kernels can be estimated: at least {_FEWEST_POINTS} are needed"
        raise InputError(msg)
    mine = own[own["usable"]]
    error = 1 / mine["ratio"] - 1
    made = points.steps(engine).model_copy(
        update={
            "versions": versions,
            "fitted": today or date.today(),  # noqa: DTZ011 - a day in the place where the fit is made
            "held_out": ServingErrors(
                rows=len(mine),
                median_ape=float(error.abs().median()),
                mape=float(error.abs().mean()),
                bias=float(error.median()),
                coverage=float(((mine["measured_s"] >= mine["low_s"]) & (mine["measured_s"] <= mine["high_s"])).mean()),
            ),
            "sources": sources,
        }
    )
    return made, own.sort_index()


@dataclass(frozen=True)
class JudgedPoints:
    """Serving points of all engines, each predicted by a fit without any point of the same model.

    Attributes:
        judged: a `Validation.frame` with `usable`, `ratio` (measured over estimated), and `estimate_s`, `low_s` and `high_s` of
            fit and band without the point's model.
        fits: the numbers of the fit without each model, by model; of all models by "".
        bands: measured over estimated without each model; likewise.
    """

    judged: pd.DataFrame
    fits: dict[str, dict[str, float]]
    bands: dict[str, tuple[float, float]]

    def steps(self, engine: str, without: str = "") -> EngineSteps:
        """What an engine adds to the kernels of a step, fitted without the points of a model ("": with all)."""
        fitted = self.fits[without]
        seen = self.judged["usable"] & (self.judged["kernel"] != without)
        return EngineSteps(
            schema_version=1,
            kind="steps",
            engine=engine,
            fitted=date.today(),  # noqa: DTZ011
            rows=int(seen.sum()),
            step=0.0,
            sequence=fitted.get(engine, 0.0),
            rank=fitted["rank"],
            experts=fitted["experts"],
            hidden=fitted["hidden"],
            routing_skew=fitted["routing_skew"],
            band=self.bands[without],
        )


def judged_points(paths: Iterable[str | Path]) -> JudgedPoints:
    """Predict serving points of all engines, each model left out of the fit in turn.

    Args:
        paths: tables of serving points (`roofline.measure.validate.serving`).

    Raises:
        InputError: some kernels have no estimate, there is one model only, or a file is wrong.
    """
    import pandas as pd

    frame = _predictions(paths)
    if frame["decode_s"].isna().any():
        raise InputError(f"{int(frame['decode_s'].isna().sum())} serving points have kernels that cannot be estimated")
    frame = frame.assign(usable=_usable(frame))
    usable = frame[frame["usable"]]
    models = sorted(set(frame["kernel"]))
    unseen = {model: usable[usable["kernel"] != model] for model in models}
    if any(rest.empty for rest in unseen.values()):
        raise InputError("serving points of a single model: a fit is judged by models that it has not seen")
    fits = {"": _solve(usable), **{model: _solve(rest) for model, rest in unseen.items()}}
    judged = pd.concat(
        rows.assign(estimate_s=_predicted(rows, fits[model]))
        for model, rows in ((model, frame[frame["kernel"] == model]) for model in models)
    )
    judged = judged.assign(ratio=judged["measured_s"] / judged["estimate_s"])
    bands = {model: _band(judged[judged["usable"] & (judged["kernel"] != model)]) for model in ("", *models)}
    for side, name in enumerate(("low_s", "high_s")):
        judged[name] = judged["estimate_s"] * judged["kernel"].map({model: ends[side] for model, ends in bands.items()})
    return JudgedPoints(judged, fits, bands)


def _usable(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether a point is of a series that can be of the closed loop that its columns describe, and of one configuration."""
    series = [frame[name].astype(str) for name in _SERIES]
    faster = frame["measured_s"] < frame["shared_bound_s"]
    repeated = frame.groupby([frame[name].astype(str) for name in _COLUMNS])["measured_s"]
    mixed = repeated.transform("max") > _MAX_RATIO * repeated.transform("min")
    return (faster.groupby(series).transform("mean") <= _MAX_FASTER) & ~mixed.groupby(series).transform("any")


def _band(judged: pd.DataFrame) -> tuple[float, float]:
    """Measured over estimated of points whose model the fit had not seen: 10 % and 90 % quantiles, each model on each engine
    with the same weight, so that it is the spread between models."""
    import numpy as np

    order = judged.sort_values("ratio")
    weights = (1 / order.groupby(list(_MODEL))["ratio"].transform("size")).to_numpy()
    places = (np.cumsum(weights) - weights / 2) / weights.sum()
    low, high = np.interp(QUANTILES, places, order["ratio"].to_numpy()).tolist()
    return low, high


def _predictions(paths: Iterable[str | Path]) -> pd.DataFrame:
    """The points with the times of their kernels at each exponent of `_SKEWS`: `kernels_0`, `launches_0` and so on, seconds."""
    tables = tuple(Path(path) for path in paths)
    known = tuple((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in tables if files.is_file(path))
    if known not in _KNOWN:
        frames = [validate_serving(tables, routing_skew=skew).frame for skew in _SKEWS]
        added = {
            f"{name}_{index}": sum(frame[part] for part in parts)
            for index, frame in enumerate(frames)
            for name, parts in (("kernels", ("decode_s", "prefill_s")), ("launches", ("launches_s",)))
        }
        _KNOWN.clear()
        _KNOWN[known] = frames[0].assign(**added)
    return _KNOWN[known]


_KNOWN: dict[tuple[tuple[str, int, int], ...], pd.DataFrame] = {}
"""The last predictions, by the files and when they were written: three engines are fitted to the same."""


def _at(frame: pd.DataFrame, name: str, skew: float) -> Array:
    """`kernels` or `launches` of each point in seconds, interpolated between the exponents at which they were predicted."""
    import numpy as np

    place = float(np.interp(skew, _SKEWS, range(len(_SKEWS))))
    low = min(int(place), len(_SKEWS) - 2)
    first, second = (frame[f"{name}_{index}"].to_numpy(dtype=float) for index in (low, low + 1))
    return np.asarray(first + (place - low) * (second - first))


def _predicted(frame: pd.DataFrame, fitted: dict[str, float]) -> Array:
    """TPOT in seconds."""
    import numpy as np

    skew = fitted["routing_skew"]
    added = sum(fitted[name] * term for name, term in _terms(frame, sorted(set(frame["backend"]))).items())
    kernels = _at(frame, "kernels", skew) - fitted["hidden"] * _at(frame, "launches", skew)
    return np.asarray(np.maximum(kernels + added, frame["bound_s"].to_numpy()))


def _terms(frame: pd.DataFrame, engines: list[str]) -> dict[str, Array]:
    """What the seconds of a fit are multiplied by; those per sequence of an engine by the engine's name."""
    import numpy as np

    own = {name: (frame["replica"] * (frame["backend"] == name)).to_numpy(dtype=float) for name in engines}
    return {
        **own,
        "rank": np.log2(frame["world"].to_numpy(dtype=float)),
        "experts": frame["expert_layers"].to_numpy(dtype=float),
    }


def _solve(frame: pd.DataFrame) -> dict[str, float]:
    """Seconds per sequence by engine, per doubling of ranks and per layer with experts, none negative; the hidden share, and
    the exponent of the popularity of experts."""
    import numpy as np
    from scipy.optimize import least_squares

    terms = _terms(frame, sorted(set(frame["backend"])))
    named = [*terms, "hidden", "routing_skew"]
    of_terms = np.stack(list(terms.values()))
    units = {"rank": 1e-3, "hidden": 1.0, "routing_skew": 1.0}
    measured, unit = frame["measured_s"].to_numpy(), np.array([units.get(name, 1e-5) for name in named])
    weights = frame.groupby(list(_MODEL))["measured_s"].transform("size").to_numpy() ** -0.5
    weights = weights / np.sqrt(np.mean(weights**2))

    def residuals(point: Array) -> Array:
        *seconds, hidden, skew = point * unit
        alone = _at(frame, "kernels", skew)
        kernels = alone - hidden * _at(frame, "launches", skew) + np.array(seconds) @ of_terms
        return np.asarray(weights * np.log(np.maximum(kernels, alone / 10) / measured))

    most = [1.0 if name in ("hidden", "routing_skew") else 1e3 for name in named]
    optimum = least_squares(residuals, np.full(len(named), 0.3), bounds=(0, most), loss="soft_l1", f_scale=KNEE)
    return dict(zip(named, np.where(optimum.x < _NEGLIGIBLE, 0, optimum.x * unit).tolist(), strict=True))
