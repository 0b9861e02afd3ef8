"""`roofline explain`: a number's formula in symbols, with numbers put in, and where it comes from."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.help import OUTPUT
from roofline.cli.options import ModelArgument, Options, changed, complete_subjects, hardware_option, takes
from roofline.cli.output import Output, Result, by_role, write_lines, write_stdout
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
    of_sequence = changed("output_len", help="Number of output tokens per sequence.")
    app.command(name="explain")(takes(ALL, changed=[of_sequence], formats=[".tex", ".txt"])(explain))


def explain(
    model: ModelArgument,
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUANTITY|PATH]",
            help="Metric, or path of an operator. Default: list them.",
            autocompletion=complete_subjects,
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Argument(metavar="[FIELD]", help="Which time to explain: bound, floor or estimate. Default: all three."),
    ] = None,
    hardware: Annotated[str | None, hardware_option("Accelerator or node, as in `analyze`.")] = None,
    price: Annotated[
        str | None,
        typer.Option(
            "--price", metavar="FILE", help="YAML file of prices. Default: built-in price ranges.", show_default=False
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Output format: text, latex or json.", rich_help_panel=OUTPUT)
    ] = "text",
    *,
    options: Options,
    out: Output,
) -> None:
    """Show the formula, values and source behind a number.

    QUANTITY is a metric, such as ttft, tpot, max_batch or cost_per_million_output_tokens. PATH names an operator, such as
    layers/mlp/up_proj. Without either, lists the metrics and operators.

    Example: roofline explain llama-3.1-8b tpot --hardware a100-sxm-80gb
    """
    if subject is None:
        out.emit(_subjects(model, options.get("assume")))
    else:
        wanted = subject if field is None else f"{subject} {field}"
        out.emit(_explained(model, wanted, hardware, price, options, format, everything=out.verbosity > 0))


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
    from roofline.predict.explain import QUANTITIES, subjects

    loaded, read = load_model(model, assume)
    known = subjects(loaded)
    groups: dict[str, list[str]] = {}
    for name in known:
        groups.setdefault(QUANTITIES[name].group if name in QUANTITIES else "operators", []).append(name)
    rows = [
        {"subject": name, "group": group, "about": QUANTITIES[name].about if name in QUANTITIES else ""}
        for group, names in groups.items()
        for name in names
    ]
    wide = max(map(len, groups)) + 2
    lines = [f"roofline explain {loaded.name} QUANTITY [--hardware HW]"]
    for group, names in groups.items():
        start = f"{group:<{wide}}"
        lines += textwrap.wrap(
            "  ".join(names), 100, initial_indent=start, subsequent_indent=" " * wide, break_on_hyphens=False
        )
    lines.append('"bound", "floor" or "estimate" after a time or an operator selects that time, for example tpot bound')
    return Result({**envelope(by_role([read])), "subjects": known, "groups": groups}, lambda: rows, lambda: write_lines(lines))


def _explained(
    model: str, subject: str, hardware: str | None, price: str | None, options: dict[str, Any], format: str, *, everything: bool
) -> Result:
    """One quantity or operator."""
    from roofline.blocks.model_files import load_model
    from roofline.predict.explain import explain
    from roofline.predict.explain.rendering import equation, listed, text
    from roofline.specs.library import load_hardware, split_count

    if format not in _FORMATS:
        raise UnknownNameError("format", format, _FORMATS, list_all=True)
    result = explain(model, subject, hardware, price=price, **options)
    inputs = [load_model(model, options.get("assume"))[1], *(load_hardware(split_count(hardware)[1])[1] if hardware else [])]
    document = {
        **envelope(by_role(inputs)),
        "subject": result.subject,
        **{name: value for name, value in _entry(result).items() if name != "name"},
        "substituted_latex": result.substituted_latex,
        "about": result.about,
        "low": result.low,
        "high": result.high,
        "source": result.source,
        "legend": [{"symbol": symbol, "value": value, "meaning": meaning} for symbol, value, meaning in result.legend],
        "parts": [_entry(part) for part in result.parts],
        "assumptions": [
            {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in result.assumptions
        ],
    }
    shows = {
        "text": lambda: clean(text(result, everything=everything), keep_lines=True),
        "latex": lambda: "\n".join(equation(part) for part in listed(result)),
        "json": lambda: dump_json(document),
    }
    return Result(
        document,
        lambda: [_entry(part) for part in listed(result)],
        lambda: write_stdout(shows[format]()),
        {".tex": lambda: shows["latex"]() + "\n", ".txt": lambda: shows["text"]() + "\n"},
    )
