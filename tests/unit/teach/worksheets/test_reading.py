"""What students write, as numbers: spellings that are read, those that are refused, and agreement with `roofline.units`."""

from __future__ import annotations

import pytest

from roofline.errors import UnitError
from roofline.teach.worksheets.parsing import BASE, EXAMPLES, MEANING, UNITS, ParsedAnswer, parse_answer
from roofline.units import parse_count, parse_quantity


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("131072", "bytes", 131072),
        ("131,072 B", "bytes", 131072),
        ("131 072 bytes", "bytes", 131072),
        ("131\u202f072", "bytes", 131072),
        ("131_072", "bytes", 131072),
        ("128 KiB", "bytes", 128 * 1024),
        ("128KiB", "bytes", 128 * 1024),
        ("128 kib", "bytes", 128 * 1024),
        ("128 KiB per token", "bytes", 128 * 1024),
        ("128 KiB/token", "bytes", 128 * 1024),
        ("0.131 MB", "bytes", 131000),
        (".131MB", "bytes", 131000),
        ("5. GB", "bytes", 5e9),
        ("1.048576 Mbit", "bytes", 131072),
        ("1.31e5", "bytes", 131000),
        ("1.31E+5 B", "bytes", 131000),
        ("1.31 x 10^5", "bytes", 131000),
        ("1.31·10⁵ B", "bytes", 131000),
        ("1.31*10**5", "bytes", 131000),
        ("2^17", "bytes", 131072),
        ("2 * 32 * 8 * 128 * 2", "bytes", 131072),
        ("= 2×32×8×128×2 B", "bytes", 131072),
        ("≈ 1/2 GiB", "bytes", 2**29),
        ("2^-1 GiB", "bytes", 2**29),
        ("1,234,567.5", "bytes", 1234567.5),
        ("156", "flop/byte", 156),
        ("156 FLOP/byte", "flop/byte", 156),
        ("156 FLOPs/B", "flop/byte", 156),
        ("156 FLOP per byte", "flop/byte", 156),
        ("7.36 ms", "s", 0.00736),
        ("7360 us", "s", 0.00736),
        ("7360 µs", "s", 0.00736),
        ("0.00736 seconds", "s", 0.00736),
        ("2 min", "s", 120),
        ("15 GFLOP", "flop", 15e9),
        ("15 gflops", "flop", 15e9),
        ("15 billion", "flop", 15e9),
        ("312 TFLOPS", "flop/s", 312e12),
        ("312 TFLOP/s", "flop/s", 312e12),
        ("2.039 TB/s", "bytes/s", 2.039e12),
        ("64 Gbit/s", "bytes/s", 8e9),
        ("8k", "tokens", 8192),
        ("8k tokens", "tokens", 8192),
        ("8192 tok", "tokens", 8192),
        ("3.5k tok/s", "tokens/s", 3500),
        ("3500", "tokens/s", 3500),
        ("113 sequences", "sequences", 113),
        ("8.03 B", "parameters", 8.03e9),
        ("8.03 billion", "parameters", 8.03e9),
        ("8030M", "parameters", 8.03e9),
        ("0.64%", "share", 0.0064),
        ("0.64 percent", "share", 0.0064),
        ("1/156", "share", 1 / 156),
        ("25x", "ratio", 25),
        ("25 times", "ratio", 25),
        ("$0.35", "usd", 0.35),
        ("35 cents", "usd", 0.35),
    ],
)
def test_spellings(text: str, kind: str, value: float) -> None:
    found = parse_answer(text, kind)
    assert found.problem == ""
    assert found.value == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("a lot", "bytes", "not read as a number"),
        ("", "bytes", "not read as a number"),
        ("-3 GB", "bytes", "Below zero"),
        ("−3 GB", "bytes", "Below zero"),
        ("0,131 MB", "bytes", "A comma stands between thousands"),
        ("1,5 GB", "bytes", "A comma stands between thousands"),
        ("16 gb", "bytes", "could be GB or Gb"),
        ("16 zB", "bytes", "“zB” is not known here"),
        ("12 34", "bytes", "“34” is not known here"),
        ("5 GFLOP", "bytes", "a unit of an amount of work"),
        ("5 GB", "flop", "a unit of an amount of memory"),
        ("15 GFLOPS", "flop", "a unit of a rate of work"),
        ("1e400", "bytes", "far too large"),
        ("9" * 50, "bytes", "far too large"),
        ("9" * 200, "bytes", "too long"),
        ("10^9999", "bytes", "far too large"),
        ("10^999999999999", "bytes", "far too large"),
        ("2^", "bytes", "After ^ a whole number"),
        ("0^-1", "bytes", "A power of zero"),
        ("1/0", "bytes", "divides by zero"),
    ],
)
def test_refusals(text: str, kind: str, problem: str) -> None:
    """A sentence, and no number."""
    found = parse_answer(text, kind)
    assert problem in found.problem
    assert found.value == 0


def test_bits_are_marked() -> None:
    """A small b is a bit: 16 Gb are 2 GB, and the checker can say so."""
    assert parse_answer("16 Gb", "bytes").bits
    assert parse_answer("256 Kib", "bytes") == ParsedAnswer(32768.0, "", bits=True)  # 256 x 1,024 / 8
    assert parse_answer("1 Gib/s", "bytes/s").bits
    assert parse_answer("16 Gb", "bytes").value == 2e9
    assert not parse_answer("16 GB", "bytes").bits


_OF_UNITS = {"bytes": "byte", "flop/s": "FLOP/s", "bytes/s": "byte/s", "s": "s"}
_QUANTITIES = [
    "3.35 TB/s", "900 GB/s", "2 GiB/s", "1 bytes/s", "80 GiB", "80 GB", "128 KiB", "128 kB", "128 KB", "1_000 MB",
    "1 B", "2 bytes", "7 EB", "1e3 MiB", ".5 TiB", "5. PB", "312 TFLOP/s", "312 TFLOPS", "10 POP/s", "1 OPS", "50 ms",
    "50 us", "3 µs", "12 ns", "1 s", "1.5e-3 s",
]  # fmt: skip


@pytest.mark.parametrize("text", _QUANTITIES)
def test_same_as_the_toolkit_reads(text: str) -> None:
    """A quantity of the command line is the same number on a sheet, and of no other kind."""
    read_by = {}
    for kind, unit in _OF_UNITS.items():
        try:
            read_by[kind] = parse_quantity(text, unit)
        except UnitError:
            assert parse_answer(text, kind).problem != "", f"{text} is no {unit}, yet read as one"
    assert len(read_by) == 1
    ((kind, value),) = read_by.items()
    assert parse_answer(text, kind).value == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("text", ["8k", "8 K", "1M", "1m", "1.5k", "4096", "4,096", "4_096", " 12 "])
def test_counts_are_those_of_the_toolkit(text: str) -> None:
    """`8k` tokens are 8192, here as there."""
    assert parse_answer(text, "tokens").value == parse_count(text)
    assert parse_answer(text, "sequences").value == parse_count(text)


def test_every_kind_is_described() -> None:
    """Each has a base unit that it reads as 1, a meaning, and examples that it reads itself."""
    for kind, spellings in UNITS.items():
        assert BASE[kind] == "" or spellings[BASE[kind]] == 1
        assert MEANING[kind]
        for example in EXAMPLES[kind].replace(" or ", ", ").split(", "):
            assert parse_answer(example, kind).problem == "", (kind, example)
            assert parse_answer(example, kind).value > 0
