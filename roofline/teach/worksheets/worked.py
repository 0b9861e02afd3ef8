"""Steps of a solution that are formulas: those of `explain` and of operators, written out when they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from roofline.operators.base import Operator
from roofline.teach.worksheets.problem import Worked

_SHEET = "worksheet"


def explained(lead: str, model: str, subject: str, card: str | None = None, **options: Any) -> Worked:
    """What `roofline explain` says of a quantity."""

    def made() -> Any:
        from roofline.predict.explain import explain
        from roofline.teach.worksheets import facts

        hardware = None if card is None else facts.hardware(card)
        return explain(facts.model(model), subject, hardware, **options)

    return Worked(lead, made)


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
    """The sum over some operators of a model's step, by their paths: a field of their cost, or `parameters`.

    It is of all layers; symbols are those of the nomenclature with the model's numbers.
    """
    chosen = tuple(paths)

    def made() -> Any:
        from roofline.predict.explain.in_symbols import InSymbols
        from roofline.predict.explain.value import explanation
        from roofline.teach.worksheets import facts

        ask = InSymbols(facts.request(model, "a100-sxm-80gb", **options))
        graph = ask.graph(ask.step(phase))
        some = {path: graph[path] for path in chosen}

        def rule(operator: Operator) -> Any:
            return operator.parameters if field == "parameters" else getattr(ask.cost(operator), field)

        return explanation(_SHEET, ask.total(some, rule), ask.values, unit=unit, source="")

    return Worked(lead, made)


def of_operator(
    lead: str, kind: type[Operator], field: str, dimensions: Mapping[str, tuple[str, float]], unit: str, **others: Any
) -> Worked:
    """A field of an operator's cost (`matrix_flops`, `weight_bytes`, ...) or `parameters`, in symbols and with numbers.

    `dimensions` gives each parameter of the operator its symbol of the nomenclature and its number; `others` are passed on.
    """

    def made() -> Any:
        from roofline.formulas.symbolic import symbol
        from roofline.predict.explain.value import explanation

        values = {symbol(name): value for name, value in dimensions.values()}
        operator = kind(**{parameter: symbol(name) for parameter, (name, _) in dimensions.items()}, **others)
        expr = operator.parameters if field == "parameters" else getattr(operator.cost(), field)
        return explanation(_SHEET, expr, values, unit=unit, source="")

    return Worked(lead, made)


def formula(lead: str, written: str, values: Mapping[str, tuple[float, str]], unit: str) -> Worked:
    """A formula of a few symbols, as Python writes it: `"W / beta"`.

    `values` gives each symbol its number and, if it is not one of the nomenclature, its meaning. Products, quotients, sums
    and whole numbers are all that is read.
    """

    def made() -> Any:
        from roofline.formulas.symbolic import quantity, symbol
        from roofline.predict.explain.value import explanation
        from roofline.symbols import BY_NAME

        named = {
            name: symbol(name) if name in BY_NAME else quantity(name, _latex(name), unit_of(meaning), meaning)
            for name, (_, meaning) in values.items()
        }
        expr = _expression(written, named)
        numbers = {named[name]: value for name, (value, _) in values.items()}
        return explanation(_SHEET, expr, numbers, unit=unit, source="")

    return Worked(lead, made)


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
    """The expression that a text of ours writes, of these symbols alone."""
    import ast
    import operator

    from roofline.numeric import maximum, minimum

    does = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
    functions = {"max": maximum, "min": minimum}

    def made(node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return does[type(op)](made(left), made(right))
            case ast.Name(id=name):
                return named[name]
            case ast.Constant(value=int(value)):
                return value
            case ast.Call(func=ast.Name(id=name), args=[first, second]):
                return functions[name](made(first), made(second))
        raise ValueError(f"no formula: {ast.unparse(node)}")

    return made(ast.parse(written, mode="eval").body)
