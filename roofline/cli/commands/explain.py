"""`roofline explain`: a number's formula in symbols, with numbers put in, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import ModelArgument, Options, hardware_option, takes
from roofline.cli.output import Output, Result, by_role, write_stdout
from roofline.documents import dump_json, envelope
from roofline.errors import UnknownNameError
from roofline.predict.options import ALL
from roofline.text import clean

if TYPE_CHECKING:
    from roofline.predict.explain import Explanation
    from roofline.predict.request import ResolvedRequest

_FORMATS = ("text", "latex", "json")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="explain")(takes(ALL)(explain))


def explain(
    model: ModelArgument,
    subject: Annotated[
        str | None, typer.Argument(metavar="[QUANTITY|PATH]", help="A quantity, or the path of an operator. Default: a list.")
    ] = None,
    hardware: Annotated[str | None, hardware_option("Id or YAML file.")] = None,
    format: Annotated[str, typer.Option("--format", help="text, latex or json.")] = "text",
    *,
    options: Options,
    out: Output,
) -> None:
    """Where a number comes from: formula, numbers put in, value, source.

    Quantities: kv_bytes_per_token, arithmetic_intensity, ridge_point, critical_batch, max_batch, max_context, decode_floor,
    break_even_link, parameters; with speculative decoding tokens_per_round, accepted_share, speculative_tpot,
    break_even_acceptance. Example: roofline explain llama-3.1-8b critical_batch --hardware a100-sxm-80gb
    """  # fmt: skip
    if subject is None:
        out.emit(_subjects(model, options.get("assume")))
    else:
        out.emit(_explained(model, subject, hardware, options, format))


def operator_formulas(request: ResolvedRequest) -> list[dict[str, Any]]:
    """The formulas of every operator of a request's steps, as JSON objects with phase and path, for `analyze --explain`."""
    from roofline.predict.explain import explain_step

    estimates = _estimates(request)
    return [
        {
            "phase": phase,
            "path": operator.subject,
            "parts": [*map(_entry, operator.parts), *estimates.get((phase, operator.subject), [])],
        }
        for phase, operator in explain_step(request)
    ]


def _estimates(request: ResolvedRequest) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What the estimate of each kernel is made of, by phase and path of its first operator."""
    from roofline.graph.build import build
    from roofline.predict.efficiency.kernels import kernels

    estimator = request.estimator
    if not estimator.applies:
        return {}
    estimates: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for phase, step in request.workload.steps:
        graph = build(request.model, request.deployment, request.precision, step, request.memory.stage)
        for kernel in kernels(graph):
            fitted = estimator.fitted(kernel)
            terms = {name: float(value) for name, value in estimator.terms(kernel).items()}
            estimates[phase, kernel.paths[0]] = [
                {
                    "name": "time_estimate of one call",
                    "formula": fitted.form.about if fitted else "a launch, then compute, memory and link times in turn",
                    "latex": "",
                    "substituted": ", ".join(f"{name} {formatting.seconds(value)}" for name, value in terms.items() if value),
                    "value": terms["total"],
                    "unit": "s",
                    "terms": terms,
                    "parameters": dict(fitted.values) if fitted else {},
                    "source": fitted.source if fitted else "no measurement",
                }
            ]
    return estimates


def _entry(part: Explanation) -> dict[str, Any]:
    return {
        "name": part.subject,
        **{name: getattr(part, name) for name in ("formula", "latex", "substituted", "value", "unit")},
    }


def _subjects(model: str, assume: str | None) -> Result:
    """What can be explained."""
    from roofline.blocks.model_files import load_model
    from roofline.predict.explain import subjects

    listed = subjects(load_model(model, assume)[0])
    text = "\n".join(("Quantities and operators that `roofline explain` knows:", *(f"  {name}" for name in listed)))
    rows = [{"subject": name} for name in listed]
    return Result({**envelope({}), "subjects": listed}, lambda: rows, lambda: write_stdout(text))


def _explained(model: str, subject: str, hardware: str | None, options: dict[str, Any], format: str) -> Result:
    """One quantity or operator."""
    from roofline.blocks.model_files import load_model
    from roofline.predict.explain import explain
    from roofline.specs.library import load_hardware

    if format not in _FORMATS:
        raise UnknownNameError("format", format, _FORMATS, list_all=True)
    result = explain(model, subject, hardware, **options)
    inputs = [load_model(model, options.get("assume"))[1], *(load_hardware(hardware)[1] if hardware else [])]
    document = {
        **envelope(by_role(inputs)),
        "subject": result.subject,
        **{name: value for name, value in _entry(result).items() if name != "name"},
        "substituted_latex": result.substituted_latex,
        "source": result.source,
        "legend": [{"symbol": symbol, "value": value, "meaning": meaning} for symbol, value, meaning in result.legend],
        "parts": [_entry(part) for part in result.parts],
        "assumptions": [
            {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in result.assumptions
        ],
    }
    shows = {
        "text": lambda: clean(_text(result), keep_lines=True),
        "latex": lambda: "\n".join(_latex(part) for part in _listed(result)),
        "json": lambda: dump_json(document),
    }
    return Result(
        document,
        lambda: [_entry(part) for part in _listed(result)],
        lambda: write_stdout(shows[format]()),
        {".tex": lambda: shows["latex"]() + "\n", ".txt": lambda: shows["text"]() + "\n"},
    )


def _listed(result: Explanation) -> list[Explanation]:
    """The main formula, then those of its parts. An operator's main formula is one of its parts already."""
    if any(part.formula == result.formula for part in result.parts):
        return list(result.parts)
    return [result, *result.parts]


def _latex(part: Explanation) -> str:
    name = part.subject.replace("_", r"\_")
    value = "" if part.value is None else f" = {_number(part.value).replace(',', '{,}')}"
    unit = rf"\,\text{{{part.unit}}}" if part.unit else ""
    return rf"\text{{{name}}} = {part.latex} = {part.substituted_latex}{value}{unit}"


def _text(result: Explanation) -> str:
    lines = [result.subject]
    for part in _listed(result):
        if part is not result:
            lines += ["", f"  {part.subject}"]
        lines += [f"    = {part.formula}", f"    = {part.substituted}"]
        value = "no limit" if part.value is None else _number(part.value)
        lines.append(f"    = {value} {part.unit}".rstrip())
    if result.legend:
        numbers = [_number(value) for _, value, _ in result.legend]
        wide, right = max(len(symbol) for symbol, _, _ in result.legend), max(map(len, numbers))
        lines += ["", "where"]
        lines += [
            f"  {symbol:<{wide}}  {number:>{right}}  {meaning}"
            for (symbol, _, meaning), number in zip(result.legend, numbers, strict=True)
        ]
    lines += ["", f"source: {result.source}"]
    notes = [note for note in result.assumptions if note.origin in ("assumed", "transferred")]
    lines += [f"{note.origin}: {note.name} = {note.value}{f' ({note.why})' if note.why else ''}" for note in notes]
    return "\n".join(lines)


def _number(value: float) -> str:
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.6g}"
