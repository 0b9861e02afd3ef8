"""A request in symbols: the same graph as the numbers', built from a model whose dimensions are symbols.

Layers are not written out: what a layer type costs is multiplied by a symbol for how often it occurs, and blocks that
cost the same in several layer types are written once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import sympy

from roofline.blocks.base import Cache
from roofline.cost import Cost
from roofline.dtypes import Precision
from roofline.errors import InputError
from roofline.formulas.symbolic import SymbolicModel, Values, repeats, symbol, symbolic_model, symbolic_precision
from roofline.graph.build import Graph, build
from roofline.graph.sharding import Stage, caches, states
from roofline.numeric import Expr
from roofline.operators.base import Operator
from roofline.predict.request import ResolvedRequest
from roofline.specs.workload import Segment, Step

Phase = str


@dataclass(frozen=True)
class SymbolicRequest:
    """The model, the formats and the steps of a request, with symbols for numbers, and the values of all of them."""

    request: ResolvedRequest

    def __post_init__(self) -> None:
        if self.request.deployment.conventions.routing_skew:
            msg = "explain knows uniform routing only: leave out --routing-skew"
            raise InputError(msg)

    @cached_property
    def symbolic_model(self) -> SymbolicModel:
        """The model."""
        return symbolic_model(self.request.model)

    @cached_property
    def _precision(self) -> tuple[Precision, Values]:
        return symbolic_precision(self.request.precision)

    @property
    def precision(self) -> Precision:
        """The formats."""
        return self._precision[0]

    @property
    def stage(self) -> Stage:
        """The fullest pipeline stage: formulas are of one of its devices, as all numbers are."""
        return self.request.memory.stage

    @cached_property
    def _repeats(self) -> tuple[dict[str, sympy.Symbol], Values]:
        return repeats(dict(self.stage.layers), self.symbolic_model.labels)

    @cached_property
    def values(self) -> Values:
        """What every symbol stands for."""
        workload = self.request.workload
        own = {symbol("B"): workload.batch, symbol("S_q"): workload.input_len, symbol("S_c"): workload.context}
        own[symbol("L")] = sum(count for _, count in self.stage.layers)
        return {**own, **self.symbolic_model.values, **self._precision[1], **self._repeats[1]}

    def step(self, phase: Phase) -> Step:
        """B sequences, each with a prompt of S_q tokens or with one new token after S_c."""
        if phase == "decode":
            # NB: of a sequence with nothing cached no state is read, which a positive symbol cannot say.
            cached = symbol("S_c") if self.request.workload.context else 0
            return (Segment(symbol("B"), 1, cached, decode=True),)
        return (Segment(symbol("B"), symbol("S_q"), 0),)

    def graph(self, step: Step, **deployment: Any) -> Graph:
        """The operators of a step in symbols, on one device of the fullest stage."""
        changed = self.request.deployment.model_copy(update=deployment)
        return build(self.symbolic_model.model, changed, self.precision, step, self.stage)

    def cost(self, operator: Operator) -> Cost:
        """What an operator costs, in a form that is short to read."""
        cost = operator.cost()
        matrix, vector = (_one_query(sympy.sympify(flops)) for flops in (cost.matrix_flops, cost.vector_flops))
        return replace(cost, matrix_flops=matrix, vector_flops=vector)

    def repeat(self, path: str) -> Expr:
        """The symbol for how often an operator runs; 1 outside of the layers."""
        layer = self.layer_of(path)
        return 1 if layer is None else self._repeats[0][layer]

    def layer_of(self, path: str) -> str | None:
        """The layer type that an operator belongs to."""
        if not path.startswith("layers/"):
            return None
        types = list(self.request.model.layer_types)
        return types[0] if len(types) == 1 else next(name for name in types if path.startswith(f"layers/{name}/"))

    def total(self, graph: Graph, rule: Callable[[Operator], Expr]) -> Expr:
        """The sum of a rule over all operators and layers."""
        return sum(self.blocks(graph, rule).values(), start=sympy.Integer(0))

    def blocks(self, graph: Graph, rule: Callable[[Operator], Expr]) -> dict[str, Expr]:
        """The sum of a rule over the operators of each block, all layers of it together, by the block's path."""
        by_block: dict[tuple[str | None, str], Expr] = {}
        for path, (operator, _) in graph.items():
            layer = self.layer_of(path)
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
        """What the layers keep, and how many layers: equal ones together."""
        by_cache: dict[Cache, list[str]] = {}
        for name, count in self.stage.layers:
            alone = replace(self.stage, layers=((name, count),))
            for cache, _ in caches(self.symbolic_model.model, self.request.deployment, alone):
                by_cache.setdefault(cache, []).append(name)
        return [(cache, self._times(layers)) for cache, layers in by_cache.items()]

    def state(self) -> Expr:
        """Bytes of recurrent state that a sequence has on a device, as an engine allocates them."""
        by_size: dict[Expr, list[str]] = {}
        for name, count in self.stage.layers:
            alone = replace(self.stage, layers=((name, count),))
            for state, _ in states(self.symbolic_model.model, self.request.deployment, alone):
                by_size.setdefault(state.bytes(self.precision, allocated=True), []).append(name)
        return sum((size * self._times(layers) for size, layers in by_size.items()), start=sympy.Integer(0))


def _shortest(expr: Expr) -> Expr:
    """The expression with what all terms have in common in front, where that makes it shorter."""
    factored = sympy.factor_terms(expr)
    return factored if sympy.count_ops(factored) < sympy.count_ops(expr) else expr


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
