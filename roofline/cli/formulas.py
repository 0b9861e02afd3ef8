"""Showing formulas: one explained in full, and those of every operator of an analysis."""

from __future__ import annotations

from typing import Any

from roofline import formatting
from roofline.blocks.model_files import load_model
from roofline.cli.output import Answer, write_stdout
from roofline.errors import UnknownNameError
from roofline.graph import build
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.explain import Explanation, explain, subjects
from roofline.predict.request import Request
from roofline.predict.result import dump_json
from roofline.specs.library import load_hardware
from roofline.text import clean
from roofline.version import envelope

FORMATS = ("text", "latex", "json")


def of_operators(request: Request) -> list[dict[str, Any]]:
    """The formulas of every operator of a request's steps, by phase and path."""
    from roofline.predict.explain import explain_step

    estimated = _estimates(request)
    return [
        {
            "phase": phase,
            "path": found.subject,
            "parts": [*(_entry(part) for part in found.parts), *estimated.get((phase, found.subject), [])],
        }
        for phase, found in explain_step(request)
    ]


def _estimates(request: Request) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What the estimate of each kernel is made of, by phase and path of its first operator."""
    estimator = request.estimator
    if not estimator.applies:
        return {}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for phase, step in request.workload.steps:
        graph = build(request.model, request.deployment, request.precision, step, request.memory.stage)
        for kernel in kernels(graph):
            fitted, terms = estimator.fitted(kernel), estimator.terms(kernel)
            parts = {name: float(value) for name, value in terms.items()}
            found[phase, kernel.paths[0]] = [
                {
                    "name": "time_estimate of one call",
                    "formula": fitted.form.about if fitted else "a launch, then compute, memory and link times in turn",
                    "latex": "",
                    "substituted": ", ".join(f"{name} {formatting.seconds(value)}" for name, value in parts.items() if value),
                    "value": parts["total"],
                    "unit": "s",
                    "terms": parts,
                    "parameters": dict(fitted.values) if fitted else {},
                    "source": fitted.source if fitted else "no measurement",
                }
            ]
    return found


def _entry(part: Explanation) -> dict[str, Any]:
    return {
        "name": part.subject,
        "formula": part.formula,
        "latex": part.latex,
        "substituted": part.substituted,
        "value": part.value,
        "unit": part.unit,
    }


def list_subjects(model: str, assume: str | None = None) -> Answer:
    """What can be explained."""
    listed = subjects(load_model(model, assume)[0])
    text = "\n".join(("Quantities and operators that `roofline explain` knows:", *(f"  {name}" for name in listed)))
    return Answer(
        {**envelope({}), "subjects": listed},
        lambda: [{"subject": name} for name in listed],
        lambda: write_stdout(text),
    )


def explain_one(model: str, subject: str, hardware: str | None, options: dict[str, Any], format: str) -> Answer:
    """One quantity or operator."""
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS, list_all=True)
    found = explain(model, subject, hardware, **options)
    read = [load_model(model, options.get("assume"))[1], *(load_hardware(hardware)[1] if hardware else [])]
    inputs = {entry.role: {"name": entry.name, "path": entry.path, "sha256": entry.sha256} for entry in read}
    document = {
        **envelope(inputs),
        "subject": found.subject,
        **{name: value for name, value in _entry(found).items() if name != "name"},
        "substituted_latex": found.substituted_latex,
        "source": found.source,
        "legend": [{"symbol": symbol, "value": value, "meaning": meaning} for symbol, value, meaning in found.legend],
        "parts": [_entry(part) for part in found.parts],
        "assumptions": [
            {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in found.assumptions
        ],
    }
    shows = {
        "text": lambda: clean(_text(found), keep_lines=True),
        "latex": lambda: "\n".join(_latex(part) for part in _listed(found)),
        "json": lambda: dump_json(document),
    }
    return Answer(
        document,
        lambda: [_entry(part) for part in _listed(found)],
        lambda: write_stdout(shows[format]()),
        {".tex": lambda: shows["latex"]() + "\n", ".txt": lambda: shows["text"]() + "\n"},
    )


def _listed(found: Explanation) -> list[Explanation]:
    """The main formula, then those of its parts. An operator's main formula is one of its parts already."""
    if any(part.formula == found.formula for part in found.parts):
        return list(found.parts)
    return [found, *found.parts]


def _latex(part: Explanation) -> str:
    name = part.subject.replace("_", r"\_")
    value = "" if part.value is None else f" = {_number(part.value).replace(',', '{,}')}"
    unit = rf"\,\text{{{part.unit}}}" if part.unit else ""
    return rf"\text{{{name}}} = {part.latex} = {part.substituted_latex}{value}{unit}"


def _text(found: Explanation) -> str:
    lines = [found.subject]
    for part in _listed(found):
        if part is not found:
            lines += ["", f"  {part.subject}"]
        lines += [f"    = {part.formula}", f"    = {part.substituted}"]
        value = "no limit" if part.value is None else _number(part.value)
        lines.append(f"    = {value} {part.unit}".rstrip())
    if found.legend:
        numbers = [_number(value) for _, value, _ in found.legend]
        wide, right = max(len(symbol) for symbol, _, _ in found.legend), max(map(len, numbers))
        lines += ["", "where"]
        lines += [
            f"  {symbol:<{wide}}  {number:>{right}}  {meaning}"
            for (symbol, _, meaning), number in zip(found.legend, numbers, strict=True)
        ]
    lines += ["", f"source: {found.source}"]
    told = [note for note in found.assumptions if note.origin in ("assumed", "transferred")]
    lines += [f"{note.origin}: {note.name} = {note.value}{f' ({note.why})' if note.why else ''}" for note in told]
    return "\n".join(lines)


def _number(value: float) -> str:
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.6g}"
