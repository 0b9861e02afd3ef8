"""Pages of the calculators of single questions: the first state, the controls, the translated program and its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from roofline import documents
from roofline.audit.claims import names, result, step_rules
from roofline.blocks.model_files import load_model
from roofline.dtypes import FORMATS
from roofline.formulas.javascript import Program, translated
from roofline.predict import drafts, op
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
from roofline.predict.speculation import Speculation, SpeculativeStage
from roofline.report.calculators import claim, operator, plan, preempt
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
from roofline.serving.preemption import copies
from roofline.specs.library import ids, load_hardware

Values = dict[str, Any]

_MODEL, _HARDWARE = "llama-3.1-8b", "h100-sxm"
_WEIGHTS = (("", "as published"), ("bf16", "bf16"), ("fp8", "fp8"), ("awq", "int4 (AWQ)"), ("nvfp4", "nvfp4"))
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


def _claim() -> Calculator:
    """Whether a stated number is possible, of any shipped model on any shipped hardware."""
    values: Values = {
        "kind": "tokens_per_s", "tokens_per_s": 3500.0, "tpot": 7.0, "ttft": 10.0, "peak_flops": 1000.0,
        "scope": "total", "phase": "decode", "model": _MODEL, "hardware": _HARDWARE,
        "weights": "", "kv": "", **dict.fromkeys(claim.SIZES, "0"), **dict.fromkeys(claim.LENGTHS, 0),
    }  # fmt: skip
    values["batch"] = 1
    ends = {"tokens_per_s": (10.0, 1e6), "tpot": (0.1, 1e3), "ttft": (1.0, 1e5), "peak_flops": (10.0, 1e5)}
    kinds = [(key, label) for key, (label, _, _) in claim.KINDS.items()]
    left_open = "chosen in the claim's favor"
    sizes = [("0", left_open), *((str(size), str(size)) for size in (1, 2, 4, 8, 16, 32, 64))]
    rate = ("kind", "tokens_per_s")
    controls = [
        choice_control("kind", "Claimed", kinds, values, "Claim"),
        *(_claimed(key, values, ends[key]) for key in ends),
        choice_control("scope", "Tokens of", [("total", "the whole batch"), ("user", "one user"), ("gpu", "one device")],
                       values, "Claim", needs=rate),
        choice_control("phase", "Counted", [("decode", "generated tokens"), ("prefill", "prompt tokens")],
                       values, "Claim", needs=rate),
        choice_control("model", "Model", _titles("models"), values, "Setting"),
        choice_control("hardware", "Hardware", _titles("hardware"), values, "Setting"),
        *(optional_control(key, label, values, (1.0, most), unit, "left open", "Setting", text=text, whole=True)
          for key, label, most, unit, text in (
              ("batch", "Batch", 4096.0, "sequences", f"0: {left_open}"),
              ("context", "Context", 131072.0, "tokens", "cached before the decode step"),
              ("input_len", "Prompt", 131072.0, "tokens", "of each sequence"))),
        choice_control("weights", "Weights", _WEIGHTS, values, "Deployment"),
        choice_control("kv", "KV cache", [("", "as activations"), ("bf16", "bf16"), ("fp8", "fp8")], values, "Deployment"),
        *(choice_control(key, label, sizes, values, "Deployment") for key, label in _PARALLEL),
    ]  # fmt: skip
    return Calculator(
        name="claim", view=claim.view, program=_claim_program, values=values, controls=tuple(controls),
        models=tuple(ids("models")), hardware=tuple(ids("hardware")),
    )  # fmt: skip


_PARALLEL = (("tp", "Tensor parallel"), ("pp", "Pipeline parallel"), ("dp", "Data parallel"), ("ep", "Expert parallel"))


def _claimed(kind: str, values: Values, ends: tuple[float, float]) -> Control:
    """The claimed number of a kind, for as long as it is the one that is claimed."""
    label, unit, _ = claim.KINDS[kind]
    return Control(
        key=kind, label=label, kind="number", value=float(values[kind]), low=1e-6, high=1e9, log=True, slider=ends, unit=unit,
        group="Claim", needs=("kind", kind),
    )  # fmt: skip


def _claim_program() -> Program:
    natives = {
        **_NATIVES,
        ids: "library.ids",
        names.resolve_name: "((kind, name) => name)",
        result.Judgement.to_dict: "$.fail",
        result.ClaimJudgement.to_dict: "$.fail",
        # no control has drafts, or whole requests
        drafts.read_options: "((options) => [null, options])",
        SpeculativeStage: "(class {})",
        Speculation.of: "$.fail",
        Speculation.tpot: "$.fail",
        Speculation.prefill: "$.fail",
        step_rules.round_ceiling: "$.fail",
        step_rules.ceiling_of_requests: "$.fail",
        step_rules.requests_achievable: "$.fail",
    }
    return view_program(claim.view, spec_classes(), natives)


def _preempt() -> Calculator:
    """Recompute or swap an evicted sequence, of any shipped model on any shipped hardware."""
    values: Values = {
        "model": _MODEL, "hardware": _HARDWARE, "tokens": 8192, "batch": 0, "context": 0, "dtype": "", "kv": "", "tp": "1",
        "block_size": "", "host_link": 0, "pinned": True, "coalesced": True, "per_link": "1",
    }  # fmt: skip
    sizes = [(str(size), str(size)) for size in (1, 2, 4, 8, 16)]
    controls = (
        choice_control("model", "Model", _titles("models"), values, "Sequence"),
        choice_control("hardware", "Hardware", _titles("hardware"), values, "Sequence"),
        number_control("tokens", "Cached tokens", values, 1, 2.0**20, "tokens", "Sequence", "of the evicted sequence"),
        optional_control("batch", "Batch", values, (1.0, 256.0), "sequences", "none", "Running meanwhile", whole=True,
                         text="recomputed tokens share its steps"),
        optional_control("context", "Context", values, (1.0, 131072.0), "tokens", "the same", "Running meanwhile",
                         whole=True, text="cached by each of these"),
        optional_control("host_link", "Link", values, (1.0, 1000.0), "GB/s", "default", "Copies",
                         text="what large copies reach, each way: as measured, or typical"),
        Control(key="pinned", label="Page-locked memory", kind="switch", value=True, group="Copies"),
        Control(key="coalesced", label="Coalesced", kind="switch", value=True, group="Copies",
                help="blocks gathered, and copied in one call"),
        choice_control("per_link", "Devices per link", sizes, values, "Copies"),
        choice_control("block_size", "Block size", [("", "of the engine"), *((str(size), str(size)) for size in _BLOCKS)],
                       values, "Copies"),
        choice_control("dtype", "Weights", [("", "as published"), ("bf16", "bf16"), ("fp8", "fp8")], values, "Deployment"),
        choice_control("kv", "KV cache", [("", "as activations"), ("bf16", "bf16"), ("fp8", "fp8")], values, "Deployment"),
        choice_control("tp", "Tensor parallel", sizes, values, "Deployment"),
    )  # fmt: skip
    return Calculator(
        name="preempt", view=preempt.view, program=_preempt_program, values=values, controls=controls,
        models=tuple(ids("models")), hardware=tuple(ids("hardware")),
    )  # fmt: skip


_BLOCKS = (8, 16, 32, 64, 128, 256)


def _preempt_program() -> Program:
    return view_program(preempt.view, spec_classes(), {**_NATIVES, copies.load_typical: "evaluated"})


def _plan() -> Calculator:
    """Devices for a rate of requests, of any shipped model on up to three shipped hardware."""
    values: Values = {
        "model": _MODEL, "rate": 20.0, "input_len": 1024, "output_len": 256, "ttft_ms": 2000.0, "tpot_ms": 50.0,
        "hardware1": _HARDWARE, "hardware2": "l40s", "hardware3": "", "price1": 0, "price2": 0, "price3": 0,
        "weights": "", "kv": "", "tp": "0",
    }  # fmt: skip
    listed = _titles("hardware")
    dearest = 20.0
    places: list[Control] = []
    for key in plan.PLACES:
        first = key == plan.PLACES[0]
        places += [
            choice_control(
                f"hardware{key}", f"Hardware {key}", listed if first else [("", "none"), *listed], values, "Hardware"
            ),
            optional_control(f"price{key}", f"Price {key}", values, (0.1, dearest), "USD/h", "list price", "Hardware"),
        ]
    controls = (
        choice_control("model", "Model", _titles("models"), values, "Traffic"),
        Control(key="rate", label="Rate", kind="number", value=20.0, low=0.001, high=1e5, log=True, slider=(0.1, 1e3),
                unit="requests/s", group="Traffic", help="at the peak"),
        number_control("input_len", "Prompt", values, 1, 2.0**20, "tokens", "Traffic", "mean, of each request"),
        number_control("output_len", "Output", values, 1, 2.0**20, "tokens", "Traffic", "mean, of each request"),
        optional_control("ttft_ms", "TTFT", values, (10.0, 1e5), "ms", "none", "Objectives"),
        optional_control("tpot_ms", "TPOT", values, (1.0, 1e3), "ms", "none", "Objectives"),
        *places,
        choice_control("weights", "Weights", _WEIGHTS, values, "Deployment"),
        choice_control("kv", "KV cache", [("", "as activations"), ("bf16", "bf16"), ("fp8", "fp8")], values, "Deployment"),
        choice_control("tp", "Tensor parallel", [("0", "fewest devices"), *((str(size), str(size)) for size in plan.SIZES)],
                       values, "Deployment"),
    )  # fmt: skip
    return Calculator(
        name="plan", view=plan.view, program=_plan_program, values=values, controls=controls,
        models=tuple(ids("models")), hardware=tuple(ids("hardware")),
    )  # fmt: skip


def _plan_program() -> Program:
    return view_program(plan.view, spec_classes(), {**_NATIVES, plan.shipped_prices: "evaluated"})


def _titles(kind: Literal["models", "hardware"]) -> list[tuple[str, str]]:
    """Ids and titles of shipped models or hardware."""
    load = load_model if kind == "models" else load_hardware
    return [(name, load(name)[0].title) for name in ids(kind)]


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


_MAKERS: dict[str, Callable[[], Calculator]] = {"op": _operator, "plan": _plan, "preempt": _preempt, "claim": _claim}
CALCULATORS = tuple(_MAKERS)
"""Calculators of single questions, by the name of the command that answers them too."""
