"""The JavaScript program of an interactive page, translated from the Python functions, and the spec files it reads as data.

Functions that read files are replaced by lookups in data on the page (`reports/library.js`); everything else is translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from roofline import errors, numeric
from roofline.blocks import BLOCKS, model_files
from roofline.formulas.javascript import EVALUATED, Program, Translation
from roofline.graph.build import build
from roofline.operators import OPERATORS
from roofline.operators.base import Operator
from roofline.predict import assumptions, request
from roofline.predict.batch_limits import critical_batch_step
from roofline.predict.bounds import times
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import fits_for
from roofline.predict.efficiency.forms import forms_by_op
from roofline.predict.floor import floor_parts
from roofline.predict.result import Analysis
from roofline.predict.timing import calls_bound, deployed
from roofline.registry import Displayed
from roofline.report import svg_shapes
from roofline.report.cells import csv_text
from roofline.report.figure import View
from roofline.report.plotly_figure import plot, plot_height
from roofline.report.svg import svg
from roofline.specs import library, quantization, workload, yaml_file
from roofline.specs.base import Spec
from roofline.units import parse_count, parse_quantity

LIBRARY = library.shipped("reports") / "library.js"
_OF_SPECS = ("roofline.specs.", "roofline.blocks.")
_ENGINES = ("vllm",)
_STEPS = ("vllm", "sglang", "trtllm")
# What replaces a Python function on a page: a JavaScript expression, or its value at translation.
_NATIVES: dict[Any, str] = {
    # numbers: a page has floats alone
    numeric.maximum: "$.maximum",
    numeric.minimum: "$.minimum",
    numeric.ceil_div: "$.ceilDiv",
    numeric.ratio: "$.div",
    numeric.log2: "$.log2",
    # found by walking packages
    Operator.dimensions: EVALUATED,
    forms_by_op: EVALUATED,
    quantization.schemes: EVALUATED,
    # controls give numbers in base units, within their ranges, and names that exist
    request.validated: "$.construct",
    parse_count: "$.int",
    parse_quantity: "$.float",
    workload.parse_segments: "$.fail",
    errors._near: "(() => [])",  # noqa: SLF001 - spelling mistakes cannot be made with controls
    # files
    model_files.load_model: "library.load_model",
    library.load_hardware: "library.load_hardware",
    library.load_engine: "library.load_engine",
    library.load_engine_steps: "library.load_engine_steps",
    library.measured_engines: "library.measured_engines",
    library.load_spread: "library.load_spread",
    library.load_prior: "library.load_prior",
    library.fit_files: "library.fit_files",
    library.load_fit: "library.load_fit",
    yaml_file.cached_text: "library.read_text",
    request.sized: "((hardware, options) => [hardware, options])",  # names on a page have no number of devices
    assumptions.shadowing: "(() => [])",  # a page does not know the folders of who made it
    Path: "library.path",
    # markup
    svg_shapes.escaped: "drawing.safe",
    svg_shapes.id_part: "drawing.name",
    # other forms of a result
    Analysis.to_json: "$.fail",
    Analysis.to_frame: "$.fail",
    Analysis.to_html: "$.fail",
    Displayed: "$.Obj",
}
# What the figures of a page compute again and again with equal arguments: graphs of steps, costs and times of operators.
_REMEMBERED = (
    fits_for,
    build,
    times,
    calls_bound,
    floor_parts,
    deployed,
    critical_batch_step,
    Estimator.interval,
    Estimator.bound,
    Estimator.family,
    *dict.fromkeys(operator.cost for operator in OPERATORS.values()),
)


def new_program(natives: Mapping[Any, str] | None = None) -> Program:
    """An empty program, to which functions can be exported.

    Args:
        natives: JavaScript expressions that replace Python functions or classes, besides those of every page.
    """
    return Program({**_NATIVES, **(natives or {})}, remembered=_REMEMBERED)


def view_program(
    view: Callable[..., View],
    classes: Iterable[type],
    natives: Mapping[Any, str] | None = None,
    parts: Iterable[Callable[..., Any]] = (),
) -> Program:
    """The program of a page whose controls change its view: exports `view` and what `plot_program` does.

    Args:
        view: makes the view from what the controls hold.
        classes: of the data on the page, which the program constructs from JSON.
        natives: as of `new_program`.
        parts: functions that make the same view in parts; exported by their names.
    """
    made = plot_program(natives)
    for cls in classes:
        made.refer(cls)
    made.export("view", view)
    for function in parts:
        made.export(function.__name__, function)
    return made


def plot_program(natives: Mapping[Any, str] | None = None) -> Program:
    """The program of a page of one state: exports `plot`, `svg`, `plot_height` and `csv`."""
    made = new_program(natives)
    made.export("plot", plot)
    made.export("svg", svg)
    made.export("plot_height", plot_height)
    made.export("csv", csv_text)
    return made


def spec_classes() -> list[type[Spec]]:
    """All classes that files of models, hardware, engines and fits consist of, sorted by qualified name."""
    list(BLOCKS.values()), list(quantization.SCHEMES.values())  # imports them all
    specs, stack = {}, [Spec]
    while stack:
        for cls in stack.pop().__subclasses__():
            stack.append(cls)
            if cls.__module__.startswith(_OF_SPECS):
                specs[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return [specs[name] for name in sorted(specs)]


OF_A_RESULT = ("plain.js", "drawing.js", "page.js")
"""Files that call the program of a page whose numbers are there already."""


def page_script(program: str, parts: Iterable[str] = ("library.js", "plain.js", "drawing.js", "model.js")) -> str:
    """The JavaScript of a page: its translated program, then files of `reports` that call it."""
    folder = library.shipped("reports")
    return "\n".join([program, *((folder / name).read_text(encoding="utf-8") for name in parts)])


def spec_data(
    into: Program | Translation,
    models: Iterable[str],
    hardware: Iterable[str],
    assume: str | None = None,
    engine: str | None = None,
) -> dict[str, Any]:
    """The spec files that translated functions read, as JSON, by kind (models, hardware, engines, ...) and name.

    Args:
        into: encodes the specs; their classes become part of it.
        models: ids or paths.
        hardware: ids or paths.
        assume: the family that a config.json is read as, where its own is not known.
        engine: of the deployment, besides the default one.

    Raises:
        RooflineError: a model, hardware or engine that does not exist or cannot be read.
    """
    fits = {f"{name}/{path.stem}": library.load_fit(path)[0] for name, paths in library.fit_files().items() for path in paths}
    engines = dict.fromkeys((*_ENGINES, *([engine] if engine else [])))
    steps = {name: measured[0] for name in _STEPS if (measured := library.load_engine_steps([name])) is not None}
    specs: dict[str, dict[str, Any]] = {
        "models": {name: into.encode(model_files.load_model(name, assume)[0]) for name in models},
        "hardware": {name: into.encode(library.load_hardware(name)[0]) for name in hardware},
        "engines": {name: into.encode(library.load_engine(name)[0]) for name in engines},
        "steps": {name: into.encode(entry) for name, entry in steps.items()},
        "fits": {name: into.encode(fit) for name, fit in fits.items()},
        "spread": into.encode(library.load_spread()),
        "prior": into.encode(library.load_prior()[0]),
    }
    return {kind: _lean(entries) for kind, entries in specs.items()}


# Keys of files that are for readers: no function uses them.
_UNREAD = frozenset({"note", "notes", "aliases", "driver_names", "form_factor", "read", "meaning", "fitted"})


def _lean(data: Any) -> Any:
    """Data without the keys that no function on a page uses."""
    if isinstance(data, dict):
        return {key: _lean(value) for key, value in data.items() if key not in _UNREAD}
    return [_lean(value) for value in data] if isinstance(data, list) else data
