"""Pages of the calculators of single questions: the first state, the controls, the translated program and its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from roofline import documents
from roofline.dtypes import FORMATS
from roofline.formulas.javascript import Program, translated
from roofline.predict import op
from roofline.predict.engine_command import shell_line
from roofline.predict.operator_query import (
    OperatorQuery,
    construct_block,
    construct_operator,
    example_values,
    operator_names,
    operator_queries,
    operator_query,
)
from roofline.report.calculators import operator
from roofline.report.controls import (
    FIRST_STATE,
    Control,
    PageState,
    choice_control,
    number_control,
    optional_control,
    values_of,
    with_state,
)
from roofline.report.figure import View
from roofline.report.page import live_page
from roofline.report.page_program import page_script, spec_classes, spec_data, view_program
from roofline.specs.library import ids, load_hardware

Values = dict[str, Any]

_HARDWARE = "h100-sxm"
_ENGINES = (("", "vLLM's, band of all"), ("vllm", "vLLM"), ("sglang", "SGLang"), ("trtllm", "TensorRT-LLM"))
_NATIVES: dict[Any, str] = {documents.dump_json: "$.fail", documents.envelope: "$.dict"}
"""What only other forms of a result need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calculator:
    """A page on which a question can be changed. `values` is its first state; `models` and `hardware` are ids."""

    name: str
    view: Callable[[Values], View]
    program: Callable[[], Program]
    values: Values
    controls: tuple[Control, ...]
    models: tuple[str, ...]
    hardware: tuple[str, ...]

    def script(self) -> tuple[str, dict[str, Any]]:
        """The translated program with the scripts that call it, and the data of the page."""
        program, specs = translated(self.program, lambda into: spec_data(into, self.models, self.hardware))
        return page_script(program), {"specs": specs, "values": {**self.values, "fixed": {}}}

    def page(self, opened: PageState = FIRST_STATE) -> str:
        """The page as a complete HTML document.

        Args:
            opened: what its controls are set to, where they have another state than the first.

        Raises:
            ValueError: a control cannot be set so.
        """
        script, data = self.script()
        controls = with_state(self.controls, opened.state)
        values = {**self.values, **values_of(controls)}
        line = shell_line(("roofline", "report", self.name, "--calculator", "--output", f"{self.name}.html"))
        saved = {"kind": "calculator", "name": self.name}
        return live_page(
            self.view(values), controls, script, {**data, "values": {**values, "fixed": {}}}, line,
            saved=saved, pinned=opened.pinned,
        )  # fmt: skip


def calculator(name: str) -> Calculator:
    """The calculator of a command, by its name: one of `CALCULATORS`."""
    return _MAKERS[name]()


def _operator() -> Calculator:
    """Any operator, on any shipped hardware."""
    queries = [operator_query(name) for name in operator_names()]
    values: Values = {"operator": queries[0].name, "dtype": "", "kv": "", "backend": "", "hardware": _HARDWARE}
    values |= {figure.key: 0 for figure in operator.OVERRIDES}
    controls = [choice_control("operator", "Operator", [(query.name, query.name) for query in queries], values, "Operator")]
    for query in queries:
        shape = example_values(query)
        values |= {f"{query.name}.{entry.name}": shape[entry.name] for entry in operator.dimensions(query)}
        values[f"{query.name}.curve"] = next(iter(operator.swept(query)), "")
        controls += _shape(query, values)
    dtypes = [("", "bf16, or fp16"), *((name, name) for name in FORMATS)]
    controls += [
        choice_control("dtype", "Dtype", dtypes, values, "Formats"),
        choice_control("kv", "KV cache", [("", "as activations"), ("bf16", "bf16"), ("fp8", "fp8")], values, "Formats"),
        choice_control("backend", "Kernels", _ENGINES, values, "Hardware"),
        *_hardware(values),
    ]
    return Calculator(
        name="op", view=operator.view, program=_operator_program, values=values, controls=tuple(controls),
        models=(), hardware=tuple(ids("hardware")),
    )  # fmt: skip


def _operator_program() -> Program:
    natives = {
        **_NATIVES,
        operator_queries: "evaluated",
        construct_operator: "$.construct",
        construct_block: "$.construct",
        op.formulas_of: "$.fail",
        op.OpResult.to_json: "$.fail",
    }
    return view_program(operator.view, spec_classes(), natives)


def _shape(query: OperatorQuery, values: Values) -> Iterable[Control]:
    """The controls of the dimensions of an operator, for as long as it is the one that is chosen."""
    needs = ("operator", query.name)
    for entry in operator.dimensions(query):
        key, most = f"{query.name}.{entry.name}", 2.0**40 if entry.kind == "bytes" else 2.0**24
        unit = "B" if entry.kind == "bytes" else ""
        yield number_control(key, entry.name, values, entry.minimum, most, unit, "Operator", entry.meaning, needs=needs)
    if names := operator.swept(query):
        listed = [(name, name) for name in names]
        yield choice_control(f"{query.name}.curve", "Curve over", listed, values, "Operator", needs=needs)


def _hardware(values: Values) -> Iterable[Control]:
    """The hardware, and figures that replace its datasheet's."""
    sheets = [(name, load_hardware(name)[0]) for name in ids("hardware")]
    yield choice_control("hardware", "Hardware", [(name, sheet.title) for name, sheet in sheets], values, "Hardware")
    published = {
        "peak_flops": ("Peak", [max(sheet.peaks.values()) for _, sheet in sheets]),
        "bandwidth": ("Bandwidth", [sheet.bandwidth for _, sheet in sheets]),
    }
    for figure in operator.OVERRIDES:
        label, rates = published[figure.option]
        ends = (min(rates) / figure.scale / 10, 10 * max(rates) / figure.scale)
        yield optional_control(figure.key, label, values, ends, figure.unit, "datasheet", "Hardware")


_MAKERS: dict[str, Callable[[], Calculator]] = {"op": _operator}
CALCULATORS = tuple(_MAKERS)
"""Calculators of single questions, by the name of the command that answers them too."""
