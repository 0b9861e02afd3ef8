"""Explanations as people read them: what stands on a screen, what is left out of it, and the same in LaTeX and HTML."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.predict.explain.explanation import Explanation
from roofline.predict.explain.rendering import LINES, WIDTH, amount, equation, html, listed, text
from roofline.specs.source import Assumption

pytestmark = pytest.mark.every_case


def made(subject: str, formula: str, numbers: str, value: float | None, unit: str = "s", **more: Any) -> Explanation:
    """An explanation whose LaTeX and MathML are its text in marks."""
    return Explanation(
        subject=subject, formula=formula, latex=f"l({formula})", substituted=numbers, substituted_latex=f"l({numbers})",
        mathml=f"<math>{formula}</math>", substituted_mathml=f"<math>{numbers}</math>", value=value, unit=unit,
        source=more.pop("source", "A book, 2020"), **more,
    )  # fmt: skip


TRAFFIC = made("bytes", "D_weights + D_kv_read", "3 + 4", 7.0, "bytes", about="traffic; of memory")
WHOLE = made(
    "tpot", "D / beta", "7 B / 2 B/s", 3.5, about="time of a token", low=3.0, high=4.2, parts=(TRAFFIC,),
    legend=(("D", 7.0, "traffic of device memory [bytes]"), ("beta", 2.0, "bandwidth [bytes/s]"), ("n", 0.25, "share")),
    assumptions=(
        Assumption("fit.gemm", 0.5, "default", "of a file"), Assumption("batch", 4, "given", "sequences"),
        Assumption("reserve", 2 * 10**9, "assumed", ""), Assumption("step", "decode", "default", "all repeats"),
        Assumption("share_of", None, "transferred", "x"),
    ),
)  # fmt: skip


def test_a_short_one_is_shown_in_full() -> None:
    """Main formula, parts with their symbol and the end of what they are, symbols that no part says, notes of the formula."""
    assert text(WHOLE).splitlines() == [
        "tpot: time of a token",
        "  = D / beta",
        "  = 7 B / 2 B/s",
        "  = ~3.5 s (80 % interval 3.0 to 4.2 s)",
        "",
        "  D, bytes: of memory",
        "    = D_weights + D_kv_read",
        "    = 3 + 4",
        "    = 7 bytes",
        "",
        "where",
        "  beta  2 B/s  bandwidth",
        "  n      0.25  share",
        "",
        "source: A book, 2020",
        "fit.gemm: 0.5 (of a file)",
        "assumed: reserve = 2 GB",
        "step: decode (all repeats)",
        "transferred: share of = none (x)",
    ]
    assert "batch: 4 (sequences)" in text(WHOLE, everything=True).splitlines()


def parts(count: int, formula: str = "a + b") -> tuple[Explanation, ...]:
    """Parts of a sum."""
    return tuple(made(f"part_{number}", formula, "1 + 2", 3.0, "1", about=f"the {number}.") for number in range(count))


@pytest.mark.parametrize(
    ("count", "first", "blank", "length"),
    [
        (3, "  part 0: the 0.", 4, 4 + 4 * 3 + 4 + 1),
        (6, "  part 0: the 0.", 0, 4 + 4 * 6 + 1),
        (7, "  part 0 = a + b", 0, 4 + 2 * 7 + 1),
        (12, "  part 0 = a + b", 0, 4 + 2 * 12 + 1),
        (13, "  part 0 = 3", 0, 4 + 13 + 1),
        (60, "  part 0 = 3", 0, 30 - 1),
    ],
)
def test_formulas_that_do_not_fit_are_two_lines_then_one(count: int, first: str, blank: int, length: int) -> None:
    """At most 30 lines: parts of four lines, apart or close together; of two; of their value alone; or the first ones."""
    whole = made("sum", "x", "9", 9.0, "1", parts=parts(count))
    lines = text(whole).splitlines()
    assert lines[:4] == ["sum", "  = x", "  = 9", "  = 9"]
    assert first in lines
    assert (lines.count(""), len(lines)) == (blank, length)
    if "a + b" in first:
        assert lines[lines.index(first) + 1] == "    = 1 + 2 = 3"
    every = text(whole, everything=True).splitlines()
    assert (every.count("    = a + b"), every.count("")) == (count, count + 1)


def test_symbols_that_do_not_fit_are_counted() -> None:
    """40 symbols: those that are left out are told on the last line of them, and shown with everything."""
    legend = tuple((f"s{number}", number + 0.5, f"meaning {number} [bytes]") for number in range(40))
    lines = text(made("sum", "x", "9", 9.0, "1", legend=legend)).splitlines()
    assert len(lines) == LINES
    shown = [line for line in lines if "meaning" in line]
    assert lines[-2] == f"  {40 - len(shown)} more symbols with -v"
    assert (
        len([line for line in text(made("s", "x", "9", 9.0, legend=legend), everything=True).splitlines() if "meaning" in line])
        == 40
    )


def test_long_lines_are_wrapped_and_cut() -> None:
    """A formula of more than three lines ends in dots, a note of more than two too, unless all is wanted."""
    long = " + ".join(f"term_{number}" for number in range(60))
    notes = (Assumption("fit.gemm", 1234.0, "default", "word " * 60),)
    whole = made("sum", long, "9", 9.0, "1", assumptions=notes, about="what " * 40)
    lines = text(whole).splitlines()
    assert max(map(len, lines)) <= WIDTH
    (cut,) = [number for number, line in enumerate(lines) if line.endswith("... (-v)")]
    assert [line[:4] for line in lines[cut - 2 : cut + 1]] == ["  = ", "    ", "    "]
    assert lines[-1].endswith(" ...")
    assert lines[-2].startswith("fit.gemm: 1,234 (word word")
    every = text(whole, everything=True)
    assert "..." not in every
    assert every.count("term_") == 60
    assert every.count("word") == 60


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1e5, "bytes", "100,000 bytes (100 kB)"), (99_999, "bytes", "99,999 bytes"),
        (2.5e9, "FLOP", "2,500,000,000 FLOP (2.5 GFLOP)"),
        (123_456.5, "bytes", "123.5 kB"), (3.0, "1", "3"), (0.25, "", "0.25"), (2e12, "FLOP/s", "2 TFLOP/s"),
        (1.5, "EUR", "1.50 EUR"), (5.5, "tokens/s", "5.5 tokens/s"), (12, "tokens", "12 tokens"),
    ],
)  # fmt: skip
def test_amounts(value: float, unit: str, shown: str) -> None:
    """Counts in full and short from 100,000 on; rates, money, shares."""
    assert amount(value, unit) == shown


def test_values_with_an_interval() -> None:
    """Both ends apart; without, or with equal ones, the value alone."""
    whole = "~3.5 s (80 % interval 3.0 to 4.2 s)"
    for low, high, shown in ((None, None, "3.5 s"), (3.5, 3.5, "~3.5 s"), (3.0, None, "~3.5 s"), (3.0, 4.2, whole)):
        assert f"  = {shown}" in text(made("t", "a", "b", 3.5, low=low, high=high)).splitlines()


def test_an_operators_main_formula_is_one_of_its_parts() -> None:
    """It is not written twice."""
    part = made("matrix_flops", "2·m", "2·4", 8.0, "FLOP")
    whole = made("layers/mlp", "2·m", "2·4", 8.0, "FLOP", parts=(part,))
    assert listed(whole) == [part]
    assert listed(WHOLE) == [WHOLE, TRAFFIC]
    assert text(whole).count("2·m") == 1
    times = (made("layers/attention_norm bound", "b", "1", 2.0), made("a_b c", "d", "1", 2.0))
    timed = made("tpot", "x", "9", 9.0, parts=times)
    assert "  layers/attention_norm bound" in text(timed).splitlines()
    assert "  a_b c" in text(timed).splitlines()


def test_one_equation() -> None:
    """Counts in full, other values with their prefix or to four digits."""
    for value, unit, end in (
        (1234.0, "bytes", r" = 1{,}234\,\text{bytes}"), (8.0, "1", " = 8"), (None, "tokens", ""),
        (0.123456, "1", " = 0.1235"), (12.34567, "sequences", r" = 12.35\,\text{sequences}"),
    ):  # fmt: skip
        assert equation(made("a_b", "f", "n", value, unit)) == rf"\text{{a\_b}} = l(f) = l(n){end}"


def test_html_has_all_formulas_and_symbols() -> None:
    """Formulas of the whole and of its parts after an equals sign, a table of the symbols, and the source."""
    page = html(made("a<b", "f", "n", 3.0, "1", about="x & y", parts=(TRAFFIC,), legend=WHOLE.legend))
    assert "<p><strong>a&lt;b</strong>: x &amp; y</p>" in page
    for formula in ("f", "n", TRAFFIC.formula, TRAFFIC.substituted):
        assert f'<math displaystyle="true"><mo>=</mo>{formula}</math>' in page
    assert page.count("<tr>") == 3
    assert ">bandwidth</td>" in page
    assert "<p><small>Source: A book, 2020</small></p>" in page
    assert "<details>" not in html(TRAFFIC)
    assert "Source" not in html(made("a", "f", "n", 3.0, source=""))
