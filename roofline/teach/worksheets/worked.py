"""Worked steps of solutions: formulas of `explain`, of operators, and of a few symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from roofline.operators.base import Operator
from roofline.teach.worksheets.problem import Worked

_SHEET = "worksheet"


def explained(lead: str, model: str, subject: str, card: str | None = None, **options: Any) -> Worked:
    """A step with the formula that `roofline explain` has for a quantity."""

    def make() -> Any:
        from roofline.predict.explain import explain
        from roofline.teach.worksheets import facts

        hardware = None if card is None else facts.hardware(card)
        return explain(facts.model(model), subject, hardware, **options)

    return Worked(lead, make)


def of_model(
    lead: str,
    model: str,
    paths: Iterable[str],
    field: str,
    unit: str,
    *,
    phase: Literal["decode", "prefill"] = "decode",
    **options: Any,
) -> Worked:
    """A step with the sum of a field of the costs of some operators of a model, or of their `parameters`, over all layers.

    Symbols are those of the nomenclature, with the model's numbers.
    """
    chosen = tuple(paths)

    def make() -> Any:
        from roofline.predict.explain.explanation import explanation
        from roofline.predict.explain.symbolic_request import SymbolicRequest
        from roofline.teach.worksheets import facts

        symbolic = SymbolicRequest(facts.request(model, "a100-sxm-80gb", **options))
        graph = symbolic.graph(symbolic.step(phase))
        some = {path: graph[path] for path in chosen}

        def rule(operator: Operator) -> Any:
            return operator.parameters if field == "parameters" else getattr(symbolic.cost(operator), field)

        return explanation(_SHEET, symbolic.total(some, rule), symbolic.values, unit=unit, source="")

    return Worked(lead, make)


def of_operator(
    lead: str, kind: type[Operator], field: str, dimensions: Mapping[str, tuple[str, float]], unit: str, **others: Any
) -> Worked:
    """A step with a field of an operator's cost (`matrix_flops`, `weight_bytes`, ...) or its `parameters`.

    `dimensions` gives each parameter of the operator its symbol of the nomenclature and its number; `others` are passed on.
    """

    def make() -> Any:
        from roofline.formulas.symbolic import symbol
        from roofline.predict.explain.explanation import explanation

        values = {symbol(name): value for name, value in dimensions.values()}
        operator = kind(**{parameter: symbol(name) for parameter, (name, _) in dimensions.items()}, **others)
        expr = operator.parameters if field == "parameters" else getattr(operator.cost(), field)
        return explanation(_SHEET, expr, values, unit=unit, source="")

    return Worked(lead, make)


def formula(lead: str, written: str, values: Mapping[str, tuple[float, str]], unit: str) -> Worked:
    """A step with a formula of a few symbols, in the syntax of Python: `"W / beta"`.

    `values` gives each symbol its number and, if it is not one of the nomenclature, its meaning. Only products, quotients,
    sums, integers, `max` and `min` are allowed.
    """

    def make() -> Any:
        from roofline.formulas.symbolic import quantity, symbol
        from roofline.predict.explain.explanation import explanation
        from roofline.symbols import BY_NAME

        named = {
            name: symbol(name) if name in BY_NAME else quantity(name, _latex(name), unit_of(meaning), meaning)
            for name, (_, meaning) in values.items()
        }
        expr = _expression(written, named)
        numbers = {named[name]: value for name, (value, _) in values.items()}
        return explanation(_SHEET, expr, numbers, unit=unit, source="")

    return Worked(lead, make)


def unit_of(meaning: str) -> str:
    """The unit in brackets at the end of a meaning.

    >>> unit_of("weights read [bytes]"), unit_of("share")
    ('bytes', '1')
    """
    return meaning.rpartition("[")[2].removesuffix("]") if meaning.endswith("]") else "1"


def _latex(name: str) -> str:
    r"""A name with its index set upright.

    >>> _latex("W"), _latex("t_step")
    ('W', 't_{\\mathrm{step}}')
    """
    base, _, index = name.partition("_")
    return f"{base}_{{\\mathrm{{{index}}}}}" if index else base


def _expression(written: str, named: Mapping[str, Any]) -> Any:
    """Parse a formula of these symbols into an expression."""
    import ast
    import operator

    from roofline.numeric import maximum, minimum

    does = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
    functions = {"max": maximum, "min": minimum}

    def build(node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return does[type(op)](build(left), build(right))
            case ast.Name(id=name):
                return named[name]
            case ast.Constant(value=int(value)):
                return value
            case ast.Call(func=ast.Name(id=name), args=[first, second]):
                return functions[name](build(first), build(second))
        raise ValueError(f"no formula: {ast.unparse(node)}")

    return build(ast.parse(written, mode="eval").body)
