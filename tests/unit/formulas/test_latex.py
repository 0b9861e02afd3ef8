"""Formulas as a reader would write them."""

from __future__ import annotations

import pytest
import sympy

from roofline.formulas.latex import latex, number, substituted, text
from roofline.formulas.symbolic import symbol
from roofline.numeric import ceil_div, floor_div

B, L, N_Q, N_KV, D, D_MODEL, S, W, E, K, B_KV = (
    symbol(name) for name in ("B", "L", "n_q", "n_kv", "d_head", "d_model", "S_c", "w", "E", "k", "b_kv")
)

CASES = [
    (2 * L * N_KV * D * B_KV, "2·L·n_kv·d_head·b_kv", r"2 \, L \, n_{kv} \, d_{head} \, b_{kv}"),
    (
        D_MODEL * (N_Q + 2 * N_KV) * D,
        "d_model·(n_q + 2·n_kv)·d_head",
        r"d_{model} \, \left(n_q + 2 \, n_{kv}\right) \, d_{head}",
    ),
    (symbol("P") / symbol("beta"), "P / β", r"\frac{P}{\beta}"),
    (B / (2 * D_MODEL), "B / (2·d_model)", r"\frac{B}{2 \, d_{model}}"),
    (B * (B + 1) / 2, "B·(B + 1) / 2", r"\frac{B \, \left(B + 1\right)}{2}"),
    (sympy.Min(S, W - 1), "min(S_c, w - 1)", r"\min\left(S_c, w - 1\right)"),
    (E * (1 - (1 - K / E) ** B), "E·(1 - (1 - k / E)^B)", r"E \, \left(1 - \left(1 - \frac{k}{E}\right)^{B}\right)"),
    (sympy.floor(B / L), "⌊B / L⌋", r"\left\lfloor \frac{B}{L} \right\rfloor"),
    (floor_div(S + 1, W), "⌊(S_c + 1) / w⌋", r"\left\lfloor \frac{S_c + 1}{w} \right\rfloor"),
    (ceil_div(S + 1, W), "⌈(S_c + 1) / w⌉", r"\left\lceil \frac{S_c + 1}{w} \right\rceil"),
    (D_MODEL**2, "d_model²", "d_{model}^{2}"),
    (B - L, "B - L", "B - L"),
    (L - B, "L - B", "L - B"),
    (-B, "-B", "-B"),
    (1 / B, "1 / B", r"\frac{1}{B}"),
    (sympy.Rational(3, 4) * B, "3·B / 4", r"\frac{3 \, B}{4}"),
    ((B + 1) ** 2, "(B + 1)²", r"\left(B + 1\right)^{2}"),
    (B / (L * (D + 1)), "B / (L·(d_head + 1))", r"\frac{B}{L \, \left(d_{head} + 1\right)}"),
    (2 * sympy.sqrt(B), "2·√B", r"2 \, \sqrt{B}"),
    (L / sympy.sqrt(B + 1), "L / √(B + 1)", r"\frac{L}{\sqrt{B + 1}}"),
    (sympy.Integer(12), "12", "12"),
    (sympy.Integer(-12), "-12", "-12"),
]


@pytest.mark.parametrize(("expr", "in_text", "in_latex"), CASES, ids=[case[1] for case in CASES])
def test_both_tongues(expr: sympy.Expr, in_text: str, in_latex: str) -> None:
    """Numbers first, then the order of the nomenclature; brackets where they are needed and nowhere else."""
    assert (text(expr), latex(expr)) == (in_text, in_latex)


def test_numbers_are_put_in_and_not_worked_out() -> None:
    """The product of Llama 3.1 8B's cache: 2*32*8*128*2."""
    values = {L: 32, N_KV: 8, D: 128, B_KV: 2}
    assert substituted(2 * L * N_KV * D * B_KV, values) == "2·32·8·128·2"
    assert substituted(2 * L * N_KV * D * B_KV, values, as_latex=True) == r"2 \cdot 32 \cdot 8 \cdot 128 \cdot 2"


def test_equal_symbols_and_numbers_stay_apart() -> None:
    """8 + 2*8 is not merged into 24, nor is 3*(8 + 1) multiplied out."""
    assert substituted(L * (N_Q + 2 * N_KV), {L: 3, N_Q: 8, N_KV: 8}) == "3·(8 + 2·8)"


def test_text_of_a_formula_means_what_it_says() -> None:
    """Python reads the substituted text (with its signs replaced) as the same number."""
    expr = L * (N_Q + 2 * N_KV) * D / (B * (S + 1)) - K
    values = {L: 3, N_Q: 32, N_KV: 8, D: 128, B: 5, S: 16, K: 7}
    assert eval(substituted(expr, values).replace("·", "*")) == pytest.approx(3 * 48 * 128 / (5 * 17) - 7)  # noqa: S307


@pytest.mark.parametrize(
    ("value", "shown"), [(14336, "14336"), (2.0, "2"), (0.53125, "0.53125"), (2.039e12, "2039000000000"), (1 / 3, "0.333333")]
)
def test_numbers(value: float, shown: str) -> None:
    """Whole numbers in full, others to six digits."""
    assert number(value) == shown


def test_small_numbers_in_latex() -> None:
    """A power of ten, in the way of print."""
    assert number(2.5e-7, as_latex=True) == r"2.5 \cdot 10^{-7}"
