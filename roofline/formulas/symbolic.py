"""Symbols instead of numbers: the backend of `roofline.numeric`, a model's dimensions, and numbers put back in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, reduce
from typing import Any, Self

import sympy

from roofline.blocks.base import Block
from roofline.blocks.model import LayerType, Model
from roofline.dtypes import Format, Precision
from roofline.numeric import Expr, register
from roofline.symbols import BY_KEY, BY_NAME

Values = dict[sympy.Symbol, Any]
"""What each symbol stands for, as a plain number."""


class _Backend:
    """SymPy's expressions as numbers of a formula."""

    def accepts(self, value: object) -> bool:
        return isinstance(value, sympy.Basic)

    def maximum(self, a: Expr, b: Expr) -> Expr:
        return _maximum(a, b)

    def minimum(self, a: Expr, b: Expr) -> Expr:
        return _minimum(a, b)

    def ceil_div(self, a: Expr, b: Expr) -> Expr:
        return CeilDiv(a, b)


_maximum = lru_cache(maxsize=4096, typed=True)(sympy.Max)
"""SymPy compares the arguments symbol by symbol, which takes long; most layers have the same."""
_minimum = lru_cache(maxsize=4096, typed=True)(sympy.Min)

register(_Backend())


@dataclass(frozen=True, slots=True)
class Name:
    """How a symbol reads, and what it means."""

    latex: str
    meaning: str
    unit: str
    order: float
    """Place in the nomenclature, by which the factors of a product are ordered."""


_by_name: dict[str, Name] = {}
"""How a name reads that comes back as text. What it means is the symbol's own: two explanations may each have a W."""


class _Symbol(sympy.Symbol):  # type: ignore[misc]  # sympy has no types
    """A symbol that knows how it reads; of the same name and another meaning it is another symbol."""

    description: Name

    def __new__(cls, name: str, description: Name, **assumptions: bool) -> Self:
        made: Self = sympy.Symbol.__xnew__(cls, name, **assumptions)
        made.description = description
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str, Name], dict[str, bool]]:
        """For pickle and copy: SymPy's own knows the name alone."""
        return (self.name, self.description), self._assumptions_orig

    def _hashable_content(self) -> tuple[Any, ...]:
        one = self.description
        return (*super()._hashable_content(), one.latex, one.meaning, one.unit)


@cache
def symbol(name: str, variant: str = "") -> sympy.Symbol:
    """Return the symbol of a quantity of the nomenclature.

    Args:
        name: in `roofline.symbols.TABLE`.
        variant: distinguishes the same quantity of several layer types.

    Raises:
        KeyError: the nomenclature has no such name.

    >>> symbol("w", "sliding"), symbol("n_kv").is_integer
    (w_sliding, True)
    """
    entry = BY_NAME[name]
    plain = label(variant)
    full = f"{name}_{plain}" if plain else name
    latex, meaning = entry.latex, entry.meaning
    if plain:
        base, _, below = latex.partition("_")
        inside = below.removeprefix("{").removesuffix("}")
        latex = rf"{base}_{{{inside + ',' if inside else ''}\mathrm{{{plain}}}}}"
        meaning = f"{meaning} ({plain})"
    # NB: a whole symbol is also positive; SymPy simplifies with both.
    assumptions = {"positive": True, "integer": True} if entry.whole else {"positive": True}
    return _new(full, Name(latex, meaning, entry.unit, list(BY_NAME).index(name)), **assumptions)


@cache
def quantity(
    name: str, latex: str, unit: str, meaning: str, *, signed: bool = False, whole: bool = False, order: float | None = None
) -> sympy.Symbol:
    """Return a symbol for the use of one explanation, outside the nomenclature (bytes of all weights, say).

    Args:
        name: as text.
        latex: as LaTeX.
        unit: such as "bytes".
        meaning: in words.
        signed: whether it can be negative.
        whole: whether it takes whole numbers only.
        order: its place in products, where that of the nomenclature begins at 0; None: behind the nomenclature.
    """
    place = len(BY_NAME) if order is None else order
    assumptions = {"real" if signed else "positive": True, **({"integer": True} if whole else {})}
    return _new(name, Name(latex, meaning, unit, place), **assumptions)


def _new(name: str, description: Name, **assumptions: bool) -> sympy.Symbol:
    _by_name[name] = description
    return _Symbol(name, description, **assumptions)


def described(one: sympy.Symbol) -> Name:
    """Return how a symbol reads and what it means; a symbol made elsewhere reads as it is named."""
    if isinstance(one, _Symbol):
        return one.description
    return _by_name.get(one.name) or Name(label(one.name), "", "", len(BY_NAME) + 1)


def label(text: str) -> str:
    r"""A name out of a file, reduced to what is harmless in LaTeX, in code and on a page.

    >>> label("full-attention"), label(r"a_b}$\\input{x}")
    ('full-attention', 'a-b-input-x')
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


@dataclass(frozen=True, slots=True)
class SymbolicModel:
    """A model whose dimensions are symbols, and what they stand for."""

    model: Model
    values: Values
    labels: dict[str, str]
    """What tells the symbols of each layer type apart; empty where there is one type."""


def symbolic_model(model: Model) -> SymbolicModel:
    """A copy of a model in which every dimension of the nomenclature is a symbol.

    What is absent (no window) or zero (no shared experts) stays so: it is structure. A quantity that differs between
    layer types has a symbol for each. How often a layer repeats stays a number in the model; see `repeats`.
    """
    values: Values = {}
    labels = _labels(model)
    keyed = _by_key(model)

    def put(name: str, value: int, variant: str = "") -> sympy.Symbol:
        made = symbol(name, variant)
        values[made] = value
        return made

    def section(block: Block | None, layer: str) -> Block | None:
        if block is None:
            return None
        update = {
            key: put(BY_KEY[key].name, value, labels[layer] if len(set(keyed[key].values())) > 1 else "")
            for key, value in _dimensions(block).items()
        }
        return block.model_copy(update=update)

    layers = {
        name: layer.model_copy(update={"mixer": section(layer.mixer, name), "mlp": section(layer.mlp, name)})
        for name, layer in model.layer_types.items()
    }
    wide = ("hidden_size", "vocab_size", "hc_mult")
    top = {key: put(BY_KEY[key].name, value) for key in wide if (value := getattr(model, key)) is not None}
    return SymbolicModel(model.model_copy(update={**top, "layer_types": layers}), values, labels)


def _labels(model: Model) -> dict[str, str]:
    if len(model.layer_types) == 1:
        return dict.fromkeys(model.layer_types, "")
    plain = {name: label(name) for name in model.layer_types}
    if len(set(plain.values())) == len(plain) and all(plain.values()):
        return plain
    return {name: f"type-{index + 1}" for index, name in enumerate(plain)}  # names that differ in punctuation alone


def _blocks(layer: LayerType) -> Iterable[Block]:
    return (block for block in (layer.mixer, layer.mlp) if block is not None)


def _dimensions(block: Block) -> dict[str, int]:
    fields = ((key, getattr(block, key)) for key in type(block).model_fields if key in BY_KEY)
    return {key: value for key, value in fields if isinstance(value, int) and not isinstance(value, bool) and value}


def _by_key(model: Model) -> dict[str, dict[str, int]]:
    """Values of each key by layer type."""
    keys: dict[str, dict[str, int]] = {}
    for name, layer in model.layer_types.items():
        for block in _blocks(layer):
            for key, value in _dimensions(block).items():
                keys.setdefault(key, {})[name] = value
    return keys


def symbolic_precision(precision: Precision) -> tuple[Precision, Values]:
    """Formats whose sizes are symbols: b_w, b_a, b_kv, b_s, and b_w of a role whose weights are in another format.

    Scales keep their numbers: they are the geometry of a format, not a size to be varied.
    """
    values: Values = {}

    def put(format: Format, name: str, variant: str = "") -> Format:
        made = symbol(name, variant)
        values[made] = format.bytes
        return replace(format, bytes=made)

    plain = put(precision.weight, "b_w")
    return Precision(
        weight=plain,
        activation=put(precision.activation, "b_a"),
        kv=put(precision.kv, "b_kv"),
        state=put(precision.state, "b_s"),
        roles=tuple((role, put(format, "b_w", role)) for role, format in precision.roles),
        layers=tuple(
            (
                name,
                tuple(
                    (role, plain if format == precision.weight else put(format, "b_w", f"{role} of {name}"))
                    for role, format in own
                ),
            )
            for name, own in precision.layers
        ),
    ), values


def repeats(counts: Mapping[str, int], labels: Mapping[str, str]) -> tuple[dict[str, sympy.Symbol], Values]:
    """Return a symbol for the number of layers of each type (L, with the label of the type), and the numbers."""
    made = {name: symbol("L", labels[name]) for name in counts}
    return made, {made[name]: count for name, count in counts.items()}


def evaluate(expr: Expr, values: Mapping[sympy.Symbol, Any]) -> int | float:
    """Return the number that an expression has for given values: exact as far as it is rational, an int where it is whole.

    Args:
        expr: made of sums, products, powers, `Max`, `Min`, `floor` and `CeilDiv`.
        values: the number of each symbol.

    Raises:
        KeyError: a symbol has no value, or a function is not one of these.

    >>> B, n = symbol("B"), symbol("n_q")
    >>> evaluate(2 * B * n, {B: 10**18, n: 3}), evaluate(B / n, {B: 6, n: 4})
    (6000000000000000000, 1.5)
    """
    value = _evaluate(sympy.sympify(expr, strict=True), {variable: _exact(number) for variable, number in values.items()})
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    return value


def _exact(number: Any) -> Fraction:
    return Fraction(number)


def _evaluate(expr: Any, values: Mapping[sympy.Symbol, Fraction]) -> Fraction | float:
    # NB: not `subs`, which makes a fraction of a million digits of (63/64)^100000.
    if expr.is_Symbol:
        return values[expr]
    if expr.is_Rational:
        return Fraction(int(expr.p), int(expr.q))
    if expr.is_Float:
        return float(expr)
    args = [_evaluate(arg, values) for arg in expr.args]
    if expr.is_Add:
        return reduce(lambda a, b: a + b, args)
    if expr.is_Mul:
        return reduce(lambda a, b: a * b, args)
    if expr.is_Pow:
        return _power(*args)
    rules: dict[Any, Callable[..., Fraction | float]] = {
        sympy.Max: max,
        sympy.Min: min,
        sympy.floor: lambda a: Fraction(a // 1),
        CeilDiv: lambda a, b: Fraction(-(-a // b)),
    }
    return rules[expr.func](*args)


def _power(base: Fraction | float, exponent: Fraction | float) -> Fraction | float:
    whole = isinstance(exponent, Fraction) and exponent.denominator == 1
    if isinstance(base, Fraction) and whole and abs(float(exponent)) <= 64:
        return Fraction(base ** int(exponent))
    return float(float(base) ** float(exponent))


# Ceiling division


class CeilDiv(sympy.Function):  # type: ignore[misc, unused-ignore] # SymPy is not typed
    """The smallest whole number that is at least a/b.

    >>> CeilDiv(525, 75), CeilDiv(7, 2), CeilDiv(sympy.Symbol("n"), 2)
    (7, 4, CeilDiv(n, 2))
    """

    nargs = 2

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        """A number where both are known, a itself where it is whole and divided by 1; None: stays as it is."""
        if a.is_Rational and b.is_Rational:
            return sympy.ceiling(a / b)  # exact: these are fractions of integers
        return a if b is sympy.S.One and a.is_integer else None

    def _eval_is_integer(self) -> bool:
        return True

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if a.is_nonnegative and b.is_positive else None

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = rf"\left\lceil \frac{{{printer._print(self.args[0])}}}{{{printer._print(self.args[1])}}} \right\rceil"  # noqa: SLF001
        return body if exp is None else f"{body}^{{{exp}}}"

    def _numpycode(self, printer: Any) -> str:
        # Floor division rounds after dividing exactly.
        a, b = (printer._print(arg) for arg in self.args)  # noqa: SLF001
        return f"(-(-({a}) // ({b})))"

    _pythoncode = _numpycode

    def _javascript(self, printer: Any) -> str:
        a, b = (printer._print(arg) for arg in self.args)  # noqa: SLF001
        return f"ceilDiv({a}, {b})"
