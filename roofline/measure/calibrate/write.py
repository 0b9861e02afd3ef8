"""A fit as YAML: as the shipped ones look, numbers to the digits that mean something."""

from __future__ import annotations

import json

from roofline.predict.efficiency.form import Form
from roofline.predict.efficiency.forms import FORMS
from roofline.specs.engine_steps import EngineSteps
from roofline.specs.fit import Family, Fit
from roofline.specs.spread import Spread


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
