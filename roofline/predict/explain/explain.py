"""Explain a quantity, a time or an operator: its formula in symbols, the numbers put in, the value, the source.

Formulas come from the same operators and the same graph as the numbers of `analyze`, built with symbols; the value is
that of the formula, and of times that of `analyze` to the last digit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose
from os import PathLike
from typing import Any, Unpack

import sympy

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.cost import FIELDS, ZERO, Cost
from roofline.dtypes import Precision
from roofline.errors import InputError, UnknownNameError
from roofline.formulas.symbolic import Values, label, quantity, symbol, symbolic_precision
from roofline.operators.base import Operator
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.batch_limits import critical_batch_linear
from roofline.predict.bounds import matrix_dtype
from roofline.predict.drafts import resolve
from roofline.predict.explain import memory_formulas, rate_formulas, roofline_formulas, speculation_formulas
from roofline.predict.explain.explanation import (
    MEMORY_TRAFFIC,
    ROOFLINE,
    WORK,
    Explanation,
    bound,
    explanation,
    intensity,
    peak,
    total,
    traffic,
)
from roofline.predict.explain.symbolic_request import ENCODER, SymbolicRequest, any_hardware, short_cost
from roofline.predict.explain.time_formulas import WORDS, kernel_estimate, operator_bound, time
from roofline.predict.operator_query import OperatorQuery, symbols_of
from roofline.predict.options import ALL, AnalyzeOptions, keywords
from roofline.predict.request import ResolvedRequest, prepare
from roofline.predict.speculation import Speculation
from roofline.specs.deployment import Conventions
from roofline.specs.hardware import Hardware
from roofline.specs.source import Assumption


@dataclass(frozen=True, slots=True)
class Quantity:
    """What can be explained besides the operators."""

    group: str
    about: str
    explain: Callable[..., Explanation]
    """Of the request in symbols and the name of a step; of what is timed also of "bound", "floor", "estimate" or ""."""
    timed: bool = False
    """Whether it has a bound, a floor and an estimate."""
    needs_hardware: bool = True


def _time(name: str) -> Callable[..., Explanation]:
    return lambda symbolic, phase, word="": time(symbolic, name, word)


def _speculative(name: str) -> Callable[..., Explanation]:
    maker: Callable[[Speculation], Explanation] = getattr(speculation_formulas, name)

    def make(symbolic: SymbolicRequest, phase: str) -> Explanation:
        del phase
        if symbolic.speculation is None:
            raise InputError(f"{name} is of speculative decoding: give --num-speculative-tokens, --acceptance and a draft")
        return maker(symbolic.speculation)

    return make


_TIMES, _RATES, _MEMORY, _ROOFLINE = "times", "rates and cost", "memory", "roofline"
_PARALLEL, _PREEMPTION, _DRAFTS = "parallelism", "preemption", "speculative decoding"
QUANTITIES: dict[str, Quantity] = {
    "ttft": Quantity(_TIMES, "time to first token", _time("ttft"), timed=True),
    "tpot": Quantity(_TIMES, "time per output token", _time("tpot"), timed=True),
    "e2e": Quantity(_TIMES, "from the request to its last token (--output-len)", _time("e2e"), timed=True),
    "encoder": Quantity(_TIMES, "time of the encoder of images (--images)", _time("encoder"), timed=True),
    "prefill": Quantity(_TIMES, "time of the prefill step", _time("prefill"), timed=True),
    "decode": Quantity(_TIMES, "time of the decode step", _time("decode"), timed=True),
    "mixed": Quantity(_TIMES, "time of a mixed step (--segments)", _time("mixed"), timed=True),
    "decode_floor": Quantity(_TIMES, "streamed weights at batch 1 over bandwidth", roofline_formulas.decode_floor),
    "tokens_per_s": Quantity(_RATES, "output tokens per second of the batch", rate_formulas.tokens_per_s, timed=True),
    "requests_per_s": Quantity(_RATES, "QPS: batch over E2E (--output-len)", rate_formulas.requests_per_s, timed=True),
    "cost_per_million_input_tokens": Quantity(
        _RATES, "cost of a million prompt tokens (--price FILE)", rate_formulas.input_cost, timed=True
    ),
    "cost_per_million_output_tokens": Quantity(
        _RATES, "cost of a million output tokens (--price FILE)", rate_formulas.output_cost, timed=True
    ),
    "cost_per_million_tokens": Quantity(
        _RATES,
        "cost of a million tokens, prompts and output (--output-len, --price FILE)",
        rate_formulas.total_cost,
        timed=True,
    ),
    "parameters": Quantity(_MEMORY, "parameters of the language model", memory_formulas.parameters, needs_hardware=False),
    "weight_bytes": Quantity(_MEMORY, "weights per device", memory_formulas.weight_bytes, needs_hardware=False),
    "kv_bytes_per_token": Quantity(
        _MEMORY, "KV cache of one more token", memory_formulas.kv_bytes_per_token, needs_hardware=False
    ),
    "state_bytes_per_sequence": Quantity(
        _MEMORY, "recurrent state of a sequence", memory_formulas.state_bytes_per_sequence, needs_hardware=False
    ),
    "max_batch": Quantity(_MEMORY, "largest batch that fits", memory_formulas.max_batch),
    "max_context": Quantity(_MEMORY, "longest context that fits", memory_formulas.max_context),
    "arithmetic_intensity": Quantity(_ROOFLINE, "FLOP per byte of a step", roofline_formulas.intensity, needs_hardware=False),
    "ridge_point": Quantity(_ROOFLINE, "peak over bandwidth", roofline_formulas.ridge_point),
    "critical_batch": Quantity(
        _ROOFLINE, "batch at which the linear layers become compute-bound", roofline_formulas.critical_batch
    ),
    "critical_tp": Quantity(
        _PARALLEL, "tensor-parallel size at which the links take as long as the divided work", roofline_formulas.critical_tp
    ),
    "break_even_link": Quantity(_PREEMPTION, "link at which swap equals recompute", memory_formulas.break_even_link),
    "tokens_per_round": Quantity(_DRAFTS, "expected tokens per round", _speculative("tokens_per_round"), needs_hardware=False),
    "accepted_share": Quantity(
        _DRAFTS, "drafted tokens that are accepted", _speculative("accepted_share"), needs_hardware=False
    ),
    "speculative_tpot": Quantity(_DRAFTS, "a round over its tokens", _speculative("speculative_tpot")),
    "break_even_acceptance": Quantity(_DRAFTS, "acceptance from which drafts pay", _speculative("break_even_acceptance")),
}
"""What can be explained besides the operators, in the order in which it is listed."""


@keywords(*ALL)
def explain(
    model: str | Model,
    subject: str,
    hardware: str | Hardware | None = None,
    *,
    price: str | PathLike[str] | None = None,
    **options: Unpack[AnalyzeOptions],
) -> Explanation:
    """Explain a quantity, a time or an operator: its formula in symbols and with numbers.

    Args:
        model: a shipped id, the path of a file, or a loaded model.
        subject: a quantity (`tpot`, `kv_bytes_per_token`, `critical_batch`, ...) or an operator (`layers/attention/qkv_proj`).
            After a time, a rate or an operator may stand `bound`, `floor` or `estimate`: "tpot bound".
        hardware: a shipped id, the path of a file, or loaded hardware; where the subject does not depend on it, None will do.
        price: a file of prices; None: the dated ranges that are shipped.
        **options: those of `analyze`. An operator is that of decode unless `phase` or `segments` say otherwise.

    Returns:
        The explanation. Numbers are of one device of the fullest pipeline stage, batches of the whole deployment; a time is the
        estimate where there is one, else the bound.

    Raises:
        roofline.errors.RooflineError: an unknown name, a wrong value, a quantity without a closed form for these options.

    >>> result = explain("llama-3.1-8b", "kv_bytes_per_token")
    >>> result.formula, result.substituted, result.value
    ('2·L·n_kv·d_head·b_kv', '2·32·8·128·2', 131072)
    >>> explain("llama-3.1-8b", "tpot bound", "a100-sxm-80gb").substituted
    '15.16 GB / 2.039 TB/s'
    """
    return Explainer(model, hardware, price=price, **options).explain(subject)


class Explainer:
    """`explain` of several subjects of one request, which is read, resolved and timed once for all of them.

    >>> each = Explainer("llama-3.1-8b", "a100-sxm-80gb", batch=4)
    >>> round(each.explain("ridge_point").value, 1), each.explain("kv_bytes_per_token").substituted
    (153.0, '2·32·8·128·2')
    """

    @keywords(*ALL)
    def __init__(
        self,
        model: str | Model,
        hardware: str | Hardware | None = None,
        *,
        price: str | PathLike[str] | None = None,
        **options: Unpack[AnalyzeOptions],
    ) -> None:
        """Arguments are those of `explain`, without the subject."""
        self._model = model if isinstance(model, Model) else load_model(model, options.pop("assume", None))[0]
        self._hardware, self._price, self._options = hardware, price, options

    @cached_property
    def _symbolic(self) -> SymbolicRequest:
        hardware = any_hardware() if self._hardware is None else self._hardware
        request, speculation = resolve(self._model, hardware, **self._options)
        return SymbolicRequest(request, speculation, self._price)

    def explain(self, subject: str) -> Explanation:
        """Return the explanation of a subject, as `explain` does."""
        name, word = _words(subject)
        known = QUANTITIES.get(name)
        if self._hardware is None and (known.needs_hardware if known is not None else word):
            msg = f"{subject} depends on the hardware: name one with --hardware"
            raise InputError(msg)
        if word and known is not None and not known.timed:
            raise InputError(f"{name} is one number, without a bound, a floor or an estimate: leave out {word!r}")
        symbolic = self._symbolic
        request = symbolic.request
        # of both phases an operator is that of decode if it is in both
        phases = tuple(reversed(_phases(request)))
        if known is None:
            result = _operator(symbolic, name, phases, word)
        elif known.timed:
            result = known.explain(symbolic, phases[0], word)
        else:
            result = known.explain(symbolic, phases[0])
            _agrees(result, request)
        about = result.about or (known.about if known is not None else "")
        return replace(result, about=about, assumptions=(*request.assumptions, *result.assumptions))


def _phases(request: ResolvedRequest) -> list[str]:
    """The names of the steps of a request, the encoder of images before its prompts."""
    named: list[str] = [step for step, _ in request.workload.steps]
    return [ENCODER, *named] if request.workload.images and "prefill" in named else named


def _words(subject: str) -> tuple[str, str]:
    """A name, and which of its times is meant.

    >>> _words("tpot"), _words("layers/mlp/down_proj  estimate")
    (('tpot', ''), ('layers/mlp/down_proj', 'estimate'))
    """
    *names, last = subject.split() or [""]
    return (" ".join(names), last) if names and last in WORDS else (subject.strip(), "")


def _agrees(result: Explanation, request: ResolvedRequest) -> None:
    """Refuse a formula whose value is not what `analyze` finds by search: there it leaves something out."""
    memory, workload = request.memory, request.workload
    searched: dict[str, Callable[[], float | None]] = {
        "critical_batch": lambda: critical_batch_linear(memory, request.hardware),
        "max_batch": lambda: memory.max_batch(workload.context),
        "max_context": lambda: memory.max_context(workload.batch),
    }
    if result.subject not in searched:
        return
    value = searched[result.subject]()
    same = result.value is None if value is None else result.value is not None and isclose(result.value, value, rel_tol=1e-6)
    if not same:
        msg = f"{result.subject} has no short closed form for these options: analyze finds {value} by search"
        raise InputError(msg)


def subjects(model: str | Model) -> tuple[str, ...]:
    """Return everything that `explain` knows about a model: quantities, then operator paths.

    Raises:
        roofline.errors.RooflineError: an unknown model, or a file that is not what it should be.
    """
    loaded = model if isinstance(model, Model) else load_model(model)[0]
    images = 0 if loaded.vision is None else 1
    request = prepare(loaded, any_hardware(), images=images)
    return (*QUANTITIES, *_paths(SymbolicRequest(request), ("decode", "prefill", *([ENCODER] if images else []))))


def explain_step(request: ResolvedRequest) -> list[tuple[str, Explanation]]:
    """Return the explanation of every operator of the steps of a request, and of the encoder of its images, each with the name
    of its phase.

    Raises:
        InputError: a step with several kinds of sequences.
    """
    symbolic = SymbolicRequest(request)
    explanations: list[tuple[str, Explanation]] = []
    for name in _phases(request):
        graph = symbolic.own_graph(name)
        explanations += [(name, _explained(symbolic, path, name, graph[path][0])) for path in _paths(symbolic, (name,))]
    return explanations


def _paths(symbolic: SymbolicRequest, phases: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(path for phase in phases for path in symbolic.graph_in_numbers(phase)))


def _operator(symbolic: SymbolicRequest, path: str, phases: tuple[str, ...], word: str) -> Explanation:
    """One operator of the first of these phases that has it, or one of its times."""
    for phase in phases:
        if path in symbolic.graph_in_numbers(phase):
            if word == "floor":
                raise InputError(f"a floor is of a whole step: {path} has a bound and an estimate")
            if word:
                return (operator_bound if word == "bound" else kernel_estimate)(symbolic, path, phase)
            return _explained(symbolic, path, phase, symbolic.own_graph(phase)[path][0])
    if path.startswith("vision/") and symbolic.request.model.vision is not None and not symbolic.request.workload.images:
        raise InputError(f"{path} is of the encoder of images: give their number per prompt with --images")
    raise UnknownNameError(
        "quantity or operator", path, (*QUANTITIES, *_paths(symbolic, phases)), "`roofline explain MODEL` lists them."
    )


def _explained(symbolic: SymbolicRequest, path: str, phase: str, operator: Operator) -> Explanation:
    """One operator of a step, all its repeats together: what it does, what it moves, and the ratio of both."""
    source = _source_of(type(operator))
    cost = symbolic.cost(operator) * symbolic.repeat(path)
    parts = roofline_formulas.fields(symbolic.values, cost, source)
    moved = [name for name in MEMORY_TRAFFIC if name in parts]
    values = {total(name): part.value for name, part in parts.items()}
    if len(moved) > 1:
        parts["bytes"] = explanation("bytes", traffic(moved), values, unit="bytes", source=source)
        values[total("bytes")] = parts["bytes"].value
        moved = ["bytes"]
    worked = [name for name in WORK if name in parts]
    listed = list(parts.values())
    # what makes entries of several tokens does nothing in most steps of decode, and has no intensity there
    if worked and any(parts[name].value for name in moved):
        done = intensity(worked, moved[0])
        listed.append(explanation("arithmetic_intensity", done, values, unit="FLOP/byte", source=ROOFLINE))
    if "link_bytes" not in parts:  # what a link takes depends on how it joins the devices: analyze names it
        listed += _times_of(symbolic.request.hardware, operator, values, moved)
    in_bytes = [part for part in listed if part.unit == "bytes"]
    main = parts.get("matrix_flops") or (in_bytes[-1] if in_bytes else listed[0])
    legend = {entry[0]: entry for part in listed for entry in part.legend}
    note = Assumption("step", phase, "default", "one device's share, all repeats of the operator together")
    return replace(main, subject=path, parts=tuple(listed), legend=tuple(legend.values()), assumptions=(note,))


def _times_of(hardware: Hardware, operator: Operator, values: Values, moved: list[str]) -> list[Explanation]:
    """The time that each resource is busy, and the longest of them, which is the bound; none without hardware.

    `values` are those of the totals, of which `moved` names the one that crosses the bus of device memory.
    """
    if hardware.accelerator is any_hardware().accelerator:
        return []
    peaks = {
        "matrix_flops": hardware.peak(matrix_dtype(operator, hardware)),
        "vector_flops": hardware.vector_peak,
        **dict.fromkeys(moved, hardware.bandwidth),
    }
    used = {name: rate for name, rate in peaks.items() if total(name) in values and rate}
    if not used:
        return []
    known = {**values, **{peak(name): rate for name, rate in used.items()}}
    return [explanation("time_bound", bound(used), known, unit="s", source=ROOFLINE)]


def explain_shape(
    query: OperatorQuery, values: Mapping[str, Any], precision: Precision, conventions: Conventions, hardware: Hardware
) -> tuple[Explanation, ...]:
    """Return the formulas of one operator at a shape: FLOP, bytes, matrix FLOP per byte, and the bound where nothing is sent.

    Args:
        query: the operator, with what makes it from values of its dimensions.
        values: numbers by dimension.
        precision: formats of weights, activations and the KV cache.
        conventions: what is counted, where there is a choice.
        hardware: its peaks and bandwidth.
    """
    formats, known = symbolic_precision(precision)
    symbols = symbols_of(query)
    shape: dict[str, Any] = {}
    for place, entry in enumerate(query.dimensions):
        shape[entry.name] = value = values[entry.name]
        plain = isinstance(value, bool) or not isinstance(value, int) or value in (0, entry.default)
        if plain or entry.name == "kv_len" or (entry.name == "q_len" and value == 1):
            continue  # structure: what is absent, or one
        named, (base, _, index) = symbols.get(entry.name), entry.name.partition("_")
        latex = rf"{base}_{{\mathrm{{{label(index)}}}}}" if index else base
        made = symbol(named) if named else quantity(entry.name, latex, "", entry.meaning, order=place / 100)
        shape[entry.name], known[made] = made, value
    numbers = query.make(values, precision, conventions)
    # which experts are met has a closed form for equally popular ones alone
    operators = query.make(shape, formats, conventions.model_copy(update={"routing_skew": 0.0}))
    if conventions.routing_skew:
        operators = {name: _meeting(operator, numbers[name], known) for name, operator in operators.items()}
    cost = sum((short_cost(operator.cost()) for operator in operators.values()), ZERO)
    if len(operators) > 1:
        fields = {name: sympy.sympify(getattr(cost, name), strict=True) for name in FIELDS}
        cost = Cost(**{name: sympy.factor_terms(sympy.expand(expr)) if expr.is_Add else expr for name, expr in fields.items()})
    first = next(iter(operators.values()))
    source = _source_of(type(first))
    parts = roofline_formulas.fields(known, cost, source)
    moved = [name for name in MEMORY_TRAFFIC if name in parts]
    totals = {total(name): part.value for name, part in parts.items()}
    if len(moved) > 1:
        parts["bytes"] = explanation("bytes", traffic(moved), totals, unit="bytes", source=source)
        totals[total("bytes")], moved = parts["bytes"].value, ["bytes"]
    listed = list(parts.values())
    worked = [name for name in WORK if name in parts][:1]  # the ridge is of matrix FLOP
    if worked and moved and parts[moved[0]].value:
        name = "matrix_intensity" if worked == ["matrix_flops"] else "arithmetic_intensity"
        listed.append(explanation(name, intensity(worked, moved[0]), totals, unit="FLOP/byte", source=ROOFLINE))
    if len(operators) == 1 and "link_bytes" not in parts:
        listed += _times_of(hardware, numbers[""], totals, moved)
    return tuple(listed)


def _meeting(operator: Operator, numbers: Operator, known: Values) -> Operator:
    """An operator in symbols whose experts met are a symbol too, with the number that they are."""
    if not (isinstance(operator, GroupedGemm) and isinstance(numbers, GroupedGemm)):
        return operator
    met = quantity("E_met", r"E_{\mathrm{met}}", "experts", "different experts that the tokens meet")
    known[met] = numbers.cost().weight_bytes * numbers.held / numbers.held_bytes
    return replace(operator, distinct=met)


def _source_of(operator: type[Operator]) -> str:
    """The reference in an operator's docstring."""
    match = re.search(r"Sources?(?: of [^:]*)?: (.*?)(?:\n\s*\n|\Z)", operator.__doc__ or "", re.DOTALL)
    return " ".join(match[1].split()) if match else ""
