"""Worked steps of solutions: formulas of `explain`, of operators, and of a few symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from roofline.operators.base import Operator
from roofline.symbols import BY_NAME
from roofline.teach.worksheets.feedback import KnownQuantity
from roofline.teach.worksheets.problem import Worked

_SHEET = "worksheet"
_NAMES = {
    "B": "the batch", "S_q": "the number of new tokens", "S_c": "the number of cached tokens", "T": "the number of tokens",
    "L": "the number of layers", "d_model": "the hidden size", "d_ff": "the inner width", "n_q": "the number of query heads",
    "n_kv": "the number of KV heads", "d_head": "the head width", "E": "the number of experts",
    "k": "the number of experts that a token uses", "b_w": "the bytes of a weight", "b_kv": "the bytes of a cached element",
    "P": "the peak", "beta": "the bandwidth", "V": "the size of the vocabulary",
}  # fmt: skip
"""Quantities as feedback names them."""


def _inputs(values: Mapping[str, tuple[float, str]]) -> tuple[KnownQuantity, ...]:
    """Symbols with their numbers, and the meanings of those that are not of the nomenclature."""
    return tuple(KnownQuantity(value=float(value), name=_name(symbol, meaning)) for symbol, (value, meaning) in values.items())


def _name(symbol: str, meaning: str) -> str:
    """What a symbol stands for, without its unit, as it stands in a sentence."""
    if symbol in _NAMES:
        return _NAMES[symbol]
    text = (meaning or BY_NAME[symbol].meaning).partition(" [")[0].partition(":")[0]
    return text if text.startswith(("the ", "a ")) else f"the {text}"


def _dimensions(model: str) -> tuple[KnownQuantity, ...]:
    """The dimensions of a model that formulas of it are made of."""
    from roofline.teach.worksheets import facts

    spec, mixer = facts.model(model), facts.mixer(model)
    values = {
        "L": spec.num_hidden_layers, "d_model": spec.hidden_size, "n_q": getattr(mixer, "num_attention_heads", 0),
        "n_kv": getattr(mixer, "num_key_value_heads", 0), "d_head": getattr(mixer, "head_dim", 0),
    }  # fmt: skip
    own = facts.model(model.partition("@")[0]).num_hidden_layers
    published = {"L_0": (own, "the published number of layers")} if own != spec.num_hidden_layers else {}
    return _inputs({**{name: (value, "") for name, value in values.items() if value}, **published})


def explained(lead: str, model: str, subject: str, card: str | None = None, **options: Any) -> Worked:
    """Return a step with the formula of a quantity, as `roofline explain` has it.

    Args:
        lead: the text before it.
        model: a model as in `facts.model`.
        subject: the quantity.
        card: the id of shipped hardware; None: the formula needs none.
        **options: those of `roofline.explain`.
    """

    def make() -> Any:
        from roofline.predict.explain import explain
        from roofline.teach.worksheets import facts

        hardware = None if card is None else facts.hardware(card)
        return explain(facts.model(model), subject, hardware, **options)

    return Worked(lead, make, _dimensions(model))


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
    """Return a step with the sum over operators and layers of a model of a field of their costs, or of their `parameters`.

    Symbols are those of the nomenclature, with the model's numbers.

    Args:
        lead: the text before it.
        model: a model as in `facts.model`.
        paths: of the operators.
        field: of `roofline.cost.Cost`, or "parameters".
        unit: of the value.
        phase: the step.
        **options: those of `roofline.analyze`.
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

    return Worked(lead, make, _dimensions(model))


def of_operator(
    lead: str, kind: type[Operator], field: str, dimensions: Mapping[str, tuple[str, float]], unit: str, **others: Any
) -> Worked:
    """Return a step with a field of an operator's cost, or its `parameters`.

    Args:
        lead: the text before it.
        kind: the class of the operator.
        field: of `roofline.cost.Cost`, or "parameters".
        dimensions: the symbol of the nomenclature and the number of each dimension of the operator.
        unit: of the value.
        **others: the operator's other arguments.
    """

    def make() -> Any:
        from roofline.formulas.symbolic import symbol
        from roofline.predict.explain.explanation import explanation

        values = {symbol(name): value for name, value in dimensions.values()}
        operator = kind(**{parameter: symbol(name) for parameter, (name, _) in dimensions.items()}, **others)
        expr = operator.parameters if field == "parameters" else getattr(operator.cost(), field)
        return explanation(_SHEET, expr, values, unit=unit, source="")

    return Worked(lead, make, _inputs({name: (value, "") for name, value in dimensions.values()}))


def formula(lead: str, written: str, values: Mapping[str, tuple[float, str]], unit: str) -> Worked:
    """Return a step with a formula of a few symbols.

    Args:
        lead: the text before it.
        written: the formula in the syntax of Python, such as "W / beta": sums, differences, products, quotients, integers,
            `max` and `min` of two; anything else is a ValueError when the step is printed.
        values: the number of each symbol and, if it is not one of the nomenclature, its meaning with the unit in brackets.
        unit: of the value.
    """

    def make() -> Any:
        from roofline.formulas.symbolic import quantity, symbol
        from roofline.predict.explain.explanation import explanation, unit_of

        named = {
            name: symbol(name) if name in BY_NAME else quantity(name, _latex(name), unit_of(meaning), meaning)
            for name, (_, meaning) in values.items()
        }
        expr = _expression(written, named)
        numbers = {named[name]: value for name, (value, _) in values.items()}
        return explanation(_SHEET, expr, numbers, unit=unit, source="")

    return Worked(lead, make, _inputs(values))


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
