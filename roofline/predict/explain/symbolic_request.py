"""A request in symbols: the same graph as the numbers', built from a model whose dimensions are symbols.

Layers are not written out: what a layer type costs is multiplied by a symbol for how often it occurs, and blocks that
cost the same in several layer types are written once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any

import sympy

from roofline.blocks.base import Cache
from roofline.cost import FIELDS, Cost
from roofline.dtypes import Dtypes, Precision, parse_dtype
from roofline.errors import InputError
from roofline.formulas.symbolic import (
    SymbolicModel,
    Values,
    label,
    quantity,
    repeats,
    symbol,
    symbolic_model,
    symbolic_precision,
)
from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, caches, states
from roofline.graph.vision import encoder_graph
from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.predict.duration import Duration
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import encoder, replica, request_times
from roofline.specs.hardware import MATRIX_DTYPES, Accelerator, Hardware
from roofline.specs.workload import Segment, Step, decode, prefill

if TYPE_CHECKING:
    from roofline.predict.speculation import Speculation

Phase = str
ENCODER = "encoder"
"""Name of the encoder of images among the names of steps."""
_VISION = "vision"
"""What its paths begin with, and its symbols are told apart by."""
_OF_PRODUCT = (("rows", "r", "rows"), ("inputs", "k", "inputs"), ("outputs", "n", "outputs"))
"""Dimensions of a product around its layers: field, letter, meaning."""


@cache
def any_hardware() -> Hardware:
    """Stands in where no hardware is given: multiplies every format; its figures reach no result."""
    rate, size = {"value": "1 TFLOP/s", "source": "none"}, {"value": "1 TB", "source": "none"}
    accelerator = Accelerator(
        schema_version=1,
        kind="accelerator",
        name="any",
        title="any hardware",
        vendor="",
        architecture="",
        peak_flops=dict.fromkeys(MATRIX_DTYPES, rate),
        vector_flops=rate,
        memory={"type": "", "label": size, "reported": size, "bandwidth": {"value": "1 TB/s", "source": "none"}},
        links=({"name": "any", "per_direction": {"value": "1 TB/s", "source": "none"}},),
        sources={"none": {"title": "none"}},
    )
    return Hardware(accelerator)


@dataclass(frozen=True)
class SymbolicRequest:
    """The model, the formats and the steps of a request, with symbols for numbers, and the values of all of them."""

    request: ResolvedRequest
    speculation: Speculation | None = None
    price: str | PathLike[str] | None = None
    """A file of prices; None: the shipped ranges."""
    timed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By name of a time the steps that it is of, kept by `time_formulas`: its bound, floor and estimate are of the same."""

    @cached_property
    def served(self) -> dict[str, Duration]:
        """Return `ttft_s`, `tpot_s` and `e2e_s` of the request, with its draft if it has one; it has an output."""
        if self.speculation is not None:
            return self.speculation.request_times()
        served = request_times(self.request, timed=True)
        assert served is not None  # noqa: S101 - of a request with an output
        return served

    @cached_property
    def symbolic_model(self) -> SymbolicModel:
        """Return the model with symbols for its dimensions.

        Raises:
            InputError: a convention that formulas do not know. Times, which are of numbers, know all of them.
        """
        if self.request.deployment.conventions.routing_skew:
            msg = "formulas in symbols know uniform routing only: leave out --routing-skew"
            raise InputError(msg)
        if self.request.workload.segmented and self.request.deployment.conventions.shared_prefix:
            raise InputError("formulas do not know which of several --segments reads the prefix: leave out --shared-prefix")
        return symbolic_model(self.request.model)

    @cached_property
    def _precision(self) -> tuple[Precision, Values]:
        return symbolic_precision(self.request.precision)

    @property
    def precision(self) -> Precision:
        """Return the formats with symbols for their sizes."""
        return self._precision[0]

    @property
    def stage(self) -> Stage:
        """Return the fullest pipeline stage: formulas are of one of its devices, as all numbers are."""
        return self.request.memory.stage

    @cached_property
    def _repeats(self) -> tuple[dict[str, sympy.Symbol], Values]:
        return repeats(dict(self.stage.layers), self.symbolic_model.labels)

    @cached_property
    def values(self) -> Values:
        """Return the number of every symbol."""
        workload = self.request.workload
        own = {
            symbol("B"): workload.batch,
            symbol("S_q"): workload.input_len - workload.cached_prefix,
            symbol("S_c"): workload.context,
        }
        if workload.cached_prefix:
            own[symbol("S_c", "prefix")] = workload.cached_prefix
        own[symbol("L")] = sum(count for _, count in self.stage.layers)
        known = {**self.symbolic_model.values, **self._precision[1], **self._repeats[1], **self._encoder[1]}
        return {**own, **self._segments[1], **known}

    def step(self, phase: Phase) -> Step:
        """Return B sequences in symbols, each with S_q tokens of a prompt or with one new token after S_c."""
        if phase == "decode":
            # NB: of a sequence with nothing cached no state is read, which a positive symbol cannot say.
            cached = symbol("S_c") if self.request.workload.context else 0
            return (Segment(symbol("B"), 1, cached, decode=True),)
        return (Segment(symbol("B"), symbol("S_q"), symbol("S_c", "prefix") if self.request.workload.cached_prefix else 0),)

    def graph_in_numbers(self, phase: Phase) -> Graph:
        """The operators of a step by its name; of one that the request does not have, of one sequence."""
        if phase not in self._in_numbers:
            request, workload = self.request, self.request.workload
            if phase == ENCODER:
                graph = encoder(request, workload.prompts)
            else:
                steps: dict[str, Step] = {"decode": decode(1, workload.context), "prefill": prefill(1, workload.input_len)}
                steps.update(workload.steps)
                graph = build(request.model, request.deployment, request.precision, steps[phase], self.stage)
            self._in_numbers[phase] = graph
        return self._in_numbers[phase]

    @cached_property
    def _in_numbers(self) -> dict[Phase, Graph]:
        return {}

    def own_graph(self, phase: Phase) -> Graph:
        """The operators of the request's step of this name: of one kind of sequence, or as given segment by segment; of the
        name "encoder" those of the images of its prompts.
        """
        if phase == ENCODER:
            return self._encoder[0]
        if phase not in self._in_symbols:
            self._in_symbols[phase] = self._own_graph(phase)
        return self._in_symbols[phase]

    @cached_property
    def _in_symbols(self) -> dict[Phase, Graph]:
        return {}

    def _own_graph(self, phase: Phase) -> Graph:
        if not self.request.workload.segmented:
            return self.graph(self.step(phase))
        graph = self.graph(self._segments[0])
        for position, segment in enumerate(self.request.workload.steps[0][1]):
            # what is computed segment by segment is named by the segment where it has numbers, else by its place
            graph = {re.sub(rf"/{position}$", f"/{segment}", path): entry for path, entry in graph.items()}
        return graph

    @cached_property
    def _encoder(self) -> tuple[Graph, Values]:
        """The vision tower in symbols, for the images of the prompts, and what they stand for; empty without images."""
        request, values = self.request, dict[sympy.Symbol, Any]()
        tower = request.model.vision
        if tower is None or not request.workload.images:
            return {}, values

        def whole(name: str, latex: str, unit: str, meaning: str, value: int) -> sympy.Symbol:
            made = quantity(name, latex, unit, meaning, whole=True)
            values[made] = value
            return made

        def of_tower(name: str, value: Expr) -> sympy.Symbol:
            made = symbol(name, _VISION)
            values[made] = value
            return made

        format = parse_dtype(request.model.dtype)
        weight, activation = (replace(format, bytes=of_tower(name, format.bytes)) for name in ("b_w", "b_a"))
        images = request.workload.images * replica(request, request.workload.prompts)
        of_tower("d_head", tower.hidden_size // tower.num_attention_heads)
        of_tower("L", tower.num_hidden_layers)
        products = tuple(
            product.model_copy(
                update={
                    field: whole(
                        f"{letter}_{label(product.name)}", rf"{letter}_{{\mathrm{{{label(product.name)}}}}}", "elements",
                        f"{meaning} of {product.name.rpartition('/')[2]}, of an image", getattr(product, field),
                    )
                    for field, letter, meaning in _OF_PRODUCT
                }
            )
            for product in tower.products
        )  # fmt: skip
        rows = whole(
            "r_img", r"r_{\mathrm{img}}", "rows", "patches of an image, and its class token where it has one", tower.rows
        )
        update = {
            "rows": rows,
            "hidden_size": of_tower("d_model", tower.hidden_size),
            "num_attention_heads": of_tower("n_q", tower.num_attention_heads),
            "intermediate_size": of_tower("d_ff", tower.intermediate_size),
            "products": products,
        }
        count = whole("n_img", r"n_{\mathrm{img}}", "images", "images of the prompts of a replica", images)
        dtypes = Dtypes(weight=weight, activation=activation, kv=activation)
        size = request.deployment.tensor_parallel_size
        return encoder_graph(tower.model_copy(update=update), count, dtypes, size), values

    @cached_property
    def _segments(self) -> tuple[Step, Values]:
        """A step that was given segment by segment, with symbols of each segment's own, and what they stand for."""
        values: Values = {}

        def known(name: str, number: int, value: Expr) -> Expr:
            made = symbol(name, f"seg{number}")
            values[made] = value
            return made

        if not self.request.workload.segmented:
            return (), values
        ((_, step),) = self.request.workload.steps
        segments = tuple(
            Segment(
                known("B", number, segment.count),
                1 if segment.new == 1 else known("S_q", number, segment.new),
                known("S_c", number, segment.cached) if segment.cached else 0,
                decode=segment.decode,
            )
            for number, segment in enumerate(step, 1)
        )
        return segments, values

    def graph(self, step: Step, **deployment: Any) -> Graph:
        """Return the operators of a step in symbols by path, on one device of the fullest stage.

        Args:
            step: segments in symbols or numbers.
            **deployment: fields of the deployment to replace.
        """
        key = (step, tuple(sorted(deployment.items())))
        if key not in self._graphs:
            changed = self.request.deployment.model_copy(update=deployment)
            self._graphs[key] = build(self.symbolic_model.model, changed, self.precision, step, self.stage)
        return self._graphs[key]

    @cached_property
    def _graphs(self) -> dict[tuple[Any, ...], Graph]:
        return {}

    def cost(self, operator: Operator) -> Cost:
        """Return the cost of one call of an operator, in a form that is short to read."""
        cost = operator.cost()
        if self._encoder[0]:
            width = sympy.floor(symbol("d_model", _VISION) / symbol("n_q", _VISION))
            terms = {name: sympy.sympify(getattr(cost, name), strict=True) for name in FIELDS}
            cost = replace(cost, **{name: term.xreplace({width: symbol("d_head", _VISION)}) for name, term in terms.items()})
        return short_cost(cost)

    def repeat(self, path: str) -> Expr:
        """Return the symbol for how often an operator occurs; 1 outside of the layers."""
        if path.startswith(f"{_VISION}/layers/"):
            return symbol("L", _VISION)
        layer = self._layer_of(path)
        return 1 if layer is None else self._repeats[0][layer]

    def _layer_of(self, path: str) -> str | None:
        """The layer type that an operator belongs to."""
        if not path.startswith("layers/"):
            return None
        types = list(self.request.model.layer_types)
        return types[0] if len(types) == 1 else next(name for name in types if path.startswith(f"layers/{name}/"))

    def total(self, graph: Graph, rule: Callable[[Operator], Expr]) -> Expr:
        """Return the sum of a rule over all operators and layers."""
        return sum(self.blocks(graph, rule).values(), start=sympy.Integer(0))

    def blocks(self, graph: Graph, rule: Callable[[Operator], Expr]) -> dict[str, Expr]:
        """Return the sum of a rule over the operators of each block, all its layers together, by path of the block."""
        by_block: dict[tuple[str | None, str], Expr] = {}
        for path, (operator, _) in graph.items():
            layer = self._layer_of(path)
            inside = path if layer is None else path.removeprefix("layers/").removeprefix(f"{layer}/")
            key = (layer, inside.split("/")[0])
            by_block[key] = by_block.get(key, 0) + rule(operator)
        merged: dict[tuple[str, Expr], list[str]] = {}
        blocks: dict[str, Expr] = {}
        for (layer, block), expr in by_block.items():
            if expr == 0:
                continue
            if layer is None:
                blocks[block] = expr
            else:
                merged.setdefault((block, _shortest(expr)), []).append(layer)
        shared = Counter(block for block, _ in merged)
        for (block, expr), layers in merged.items():
            name = f"layers/{block}" if shared[block] == 1 else f"layers/{'+'.join(layers)}/{block}"
            blocks[name] = self._times(layers) * expr
        return blocks

    def _times(self, layers: list[str]) -> Expr:
        made, _ = self._repeats
        return symbol("L") if set(layers) == set(made) else sum(made[name] for name in layers)

    def caches(self) -> list[tuple[Cache, Expr]]:
        """Return the caches of the layers, each with its number of layers; equal ones together."""
        by_cache: dict[Cache, list[str]] = {}
        for name, count in self.stage.layers:
            alone = replace(self.stage, layers=((name, count),))
            for retained, _ in caches(self.symbolic_model.model, self.request.deployment, alone):
                by_cache.setdefault(retained, []).append(name)
        return [(retained, self._times(layers)) for retained, layers in by_cache.items()]

    def state(self, *, allocated: bool) -> Expr:
        """Return the bytes of recurrent state of a sequence on a device; `allocated`: as an engine lays it out."""
        by_size: dict[Expr, list[str]] = {}
        for name, count in self.stage.layers:
            alone = replace(self.stage, layers=((name, count),))
            for state, _ in states(self.symbolic_model.model, self.request.deployment, alone):
                by_size.setdefault(state.bytes(self.precision, allocated=allocated), []).append(name)
        return sum((size * self._times(layers) for size, layers in by_size.items()), start=sympy.Integer(0))


@lru_cache(maxsize=4096)
def _shortest(expr: Expr) -> Expr:
    """The expression with what all terms have in common in front, where that makes it shorter."""
    factored = sympy.factor_terms(expr)
    return factored if sympy.count_ops(factored) < sympy.count_ops(expr) else expr


def short_cost(cost: Cost) -> Cost:
    """Return a cost in symbols, in a form that is short to read."""
    matrix, vector = (_one_query(sympy.sympify(flops, strict=True)) for flops in (cost.matrix_flops, cost.vector_flops))
    return replace(cost, matrix_flops=matrix, vector_flops=vector)


def _one_query(expr: Any) -> Any:
    """Pairs of a single query in a window, min(S_c + 1, w), instead of the sum over queries inside and beyond it.

    Of one query either one or none stands where the window does not bind yet. Where it binds, a cost is a function of
    w alone; if that function at w = S_c + 1 is the cost where it does not bind, the minimum selects between both.
    """
    cached, new = symbol("S_c"), sympy.Integer(1)
    for inside in expr.atoms(sympy.Min):
        if new not in inside.args:
            continue
        binds, free = expr.subs(inside, 0), expr.subs(inside, 1)
        for window in inside.free_symbols - {cached}:
            if sympy.expand(binds.subs(window, cached + 1) - free) == 0:
                expr = binds.subs(window, sympy.Min(cached + 1, window))
    return expr
