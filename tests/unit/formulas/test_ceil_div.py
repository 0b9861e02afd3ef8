"""The ceiling division in every tongue."""

from __future__ import annotations

import numpy as np
import sympy

from roofline.formulas.latex import latex, text
from roofline.formulas.symbolic import CeilDiv, evaluate, symbol
from roofline.numeric import ceil_div

X, N = sympy.symbols("x n", positive=True, integer=True)


def test_numbers_are_worked_out() -> None:
    """7/2 is 3.5, whose ceiling is 4; 525/75 is 7 exactly; 10^18 + 1 over 10^18 is just above 1."""
    assert [CeilDiv(7, 2), CeilDiv(525, 75), CeilDiv(10**18 + 1, 10**18)] == [4, 7, 2]


def test_division_by_one_leaves_a_whole_number() -> None:
    """Dividing over one device leaves all of it there."""
    assert CeilDiv(X, 1) == X


def test_symbols_reach_it_through_the_formulas() -> None:
    """`numeric.ceil_div`, which all formulas call, knows symbols once this package is imported."""
    assert ceil_div(symbol("S_c"), 16) == CeilDiv(symbol("S_c"), 16)


def test_it_is_known_to_be_whole_and_not_negative() -> None:
    """So that SymPy may simplify what stands around it."""
    assert CeilDiv(X, N).is_integer
    assert CeilDiv(X, N).is_nonnegative


def test_arrays_with_common_subexpressions_named() -> None:
    """Every exact division up to 1000/n: with `cse` a plain ceiling(x/n) is wrong in some of them (525/75 is one)."""
    pairs = np.array([(q * n, n) for n in range(1, 200) for q in range(1, 1000 // n + 1)], dtype=float)
    assert [525.0, 75.0] in pairs.tolist()
    compute = sympy.lambdify((X, N), CeilDiv(X, N) + X / N, "numpy", cse=True)
    x, n = pairs[:, 0], pairs[:, 1]
    np.testing.assert_array_equal(compute(x, n) - x / n, np.round(x / n))


def test_plain_python() -> None:
    """The math module's printer knows it as well."""
    assert sympy.lambdify((X, N), CeilDiv(X, N), "math")(7, 2) == 4


def test_latex_and_text() -> None:
    """A bar and the brackets of a ceiling; SymPy's own printer has the same."""
    blocks = CeilDiv(symbol("S_c") + 1, 16)
    assert latex(blocks) == r"\left\lceil \frac{S_c + 1}{16} \right\rceil"
    assert text(blocks) == "⌈(S_c + 1) / 16⌉"
    assert sympy.latex(CeilDiv(X, N) ** 2) == r"\left\lceil \frac{x}{n} \right\rceil^{2}"


def test_value() -> None:
    """33 tokens take three blocks of 16."""
    assert evaluate(CeilDiv(symbol("S_c"), 16), {symbol("S_c"): 33}) == 3
