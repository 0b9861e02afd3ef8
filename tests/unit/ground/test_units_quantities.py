"""Quantities with units: decimal and binary prefixes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from roofline.audit.claims.statement import statement
from roofline.cli.commands.bench import parse_budget
from roofline.errors import UnitError
from roofline.predict.options import read_quantity
from roofline.serving.simulation.arrivals import parse_arrivals
from roofline.serving.simulation.workload import read_workload
from roofline.serving.traffic import load_traffic, single
from roofline.specs.fit import Family
from roofline.teach.worksheets.parsing import parse_answer
from roofline.units import parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("312 TFLOP/s", "FLOP/s", 312 * 10**12),
        ("312 TFLOPS", "FLOP/s", 312 * 10**12),
        ("624 TOP/s", "FLOP/s", 624 * 10**12),
        ("1.5 PFLOP/s", "FLOP/s", 15 * 10**14),
        ("2039 GB/s", "byte/s", 2039 * 10**9),
        ("3.35 TB/s", "byte/s", 3350 * 10**9),
        ("1 GiB/s", "byte/s", 2**30),
        ("80 GB", "byte", 80 * 10**9),
        ("80 GiB", "byte", 80 * 2**30),
        ("81559 MiB", "byte", 81559 * 2**20),
        ("1 TiB", "byte", 2**40),
        ("1410 MHz", "Hz", 1410 * 10**6),
        ("400 W", "W", 400),
        ("2 s", "s", 2),
        ("80GiB", "byte", 80 * 2**30),  # the space is a matter of taste
        (" 80 GiB ", "byte", 80 * 2**30),
        ("1_000 B", "byte", 1000),
        ("1e3 B", "byte", 1000),
        ("0 B", "byte", 0),
    ],
)
def test_whole_quantities_are_exact_ints(text: str, unit: str, value: int) -> None:
    """A decimal prefix is a power of ten, a binary one a power of two, and whole numbers stay ints."""
    parsed = parse_quantity(text, unit)
    assert parsed == value
    assert isinstance(parsed, int)


@pytest.mark.parametrize(("text", "value"), [("50 ms", 0.05), ("3 us", 3e-6), ("3 µs", 3e-6), ("7 ns", 7e-9)])
def test_fractions_of_a_second(text: str, value: float) -> None:
    """Times may be fractions: milli, micro (in both spellings), nano."""
    assert parse_quantity(text, "s") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10 min", 600), ("90min", 5400), ("1 minute", 60), ("2 minutes", 120), ("1.5 h", 5400), ("1 hour", 3600),
        ("36 hours", 129600), ("1 day", 86400), ("0.5 days", 43200), ("30 sec", 30), ("1 second", 1), ("2 seconds", 2),
    ],
)  # fmt: skip
def test_minutes_hours_and_days(text: str, value: int) -> None:
    """A minute has 60 s, an hour 60 minutes, a day 24 hours; whole seconds stay ints."""
    parsed = parse_quantity(text, "s")
    assert parsed == value
    assert isinstance(parsed, int)


@pytest.mark.parametrize("text", ["5 m", "1 M", "1 kmin", "2 mh", "1 fortnight", "1 weeks"])
def test_an_unknown_unit_of_time_names_those_there_are(text: str) -> None:
    """`m` may mean milli or minute: it is refused, as is a prefix before anything but seconds."""
    with pytest.raises(UnitError, match=r"is not a unit of a time.*ns, us, ms, s, min, h or days"):
        parse_quantity(text, "s")


def _of_a_file(folder: Path) -> float:
    path = folder / "traffic.yaml"
    path.write_text("classes: [{name: a, rate: 1, input_len: 9, output_len: 9, ttft: 1.5 min}]\n", encoding="utf-8")
    (one,) = load_traffic(path).classes
    assert one.ttft is not None
    return one.ttft


def _of_a_fit(_: Path) -> float:
    keys = {"form": "x", "parameters": {"fixed": "1.5 min"}, "rows": 0, "shapes": 0, "bands": {}, "range": {}}
    return Family.model_validate(keys).parameters["fixed"]


@pytest.mark.parametrize(
    "read_time",
    [
        lambda _: read_workload(notes=[], rate=1, input_len=9, output_len=9, until="1.5 min").until,
        lambda _: single(rate=1, input_len=9, output_len=9, tpot="1.5 min").classes[0].tpot,
        lambda _: parse_arrivals("closed:4:1.5 min").think,  # type: ignore[union-attr]
        lambda _: parse_arrivals("closed:4:ramp=1.5 min").ramp,  # type: ignore[union-attr]
        lambda _: parse_arrivals("bursty:4:2:1.5 min").seconds,  # type: ignore[union-attr]
        lambda _: read_quantity("ttft", "1.5 min", "s"),  # limits, sweep
        lambda _: statement(None, "gpt2", "h100-sxm", {"ttft": "1.5 min"}).claims[0].value,
        lambda _: statement("TTFT 1.5 minutes for a 4k prompt of Llama 3.1 8B on an H100 SXM", None, None, {}).claims[0].value,
        lambda _: parse_budget("1.5 min"),
        lambda _: parse_budget("1.5m"),
        lambda _: parse_budget("90"),
        lambda _: parse_answer("1.5 min", "s").value,  # of a worksheet's answer
        _of_a_file,
        _of_a_fit,
    ],
)
def test_a_time_is_read_alike_everywhere(read_time: Callable[[Path], float], tmp_path: Path) -> None:
    """A minute and a half is 90 s: as an option, in an argument, as a key of a file, in a claim."""
    assert read_time(tmp_path) == 90


def test_decimal_fractions_do_not_round() -> None:
    """3.35 TB/s is exactly 3,350,000,000,000 B/s although 3.35 is no binary fraction."""
    assert parse_quantity("3.35 TB/s", "byte/s") == 335 * 10**10
    assert parse_quantity("0.1 GB", "byte") == 10**8


def test_gigabyte_and_gibibyte_differ_by_7_percent() -> None:
    """GB is never read as GiB: 2^30 is 1.073741824 times 10^9."""
    assert parse_quantity("1 GiB", "byte") - parse_quantity("1 GB", "byte") == 73_741_824


@pytest.mark.parametrize("naked", ["2039", "2039.5", "1e12", " 80 "])
def test_naked_text_is_refused(naked: str) -> None:
    """A number without a unit is refused, and the message shows how to write one."""
    with pytest.raises(UnitError, match=r'has no unit.*"2039 GB/s"'):
        parse_quantity(naked, "byte/s")


@pytest.mark.parametrize("naked", [80, 80.0, True, None, [80]])
def test_naked_number_is_refused(naked: object) -> None:
    """A Python number has no unit either."""
    with pytest.raises(UnitError, match="has no unit"):
        parse_quantity(naked, "byte")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("312 TFLOP/s", "byte/s"),
        ("2039 GB/s", "byte"),
        ("80 GB", "byte/s"),
        ("50 ms", "Hz"),
        ("80 Gb", "byte"),  # bits
        ("400 Gbit/s", "byte/s"),
        ("1 mB", "byte"),  # a thousandth of a byte is no amount of memory
        ("1 GiFLOP/s", "FLOP/s"),  # rates of computation have no binary prefixes
        ("1 Ts", "s"),
        ("1 tb/s", "byte/s"),
    ],
)
def test_wrong_unit_is_refused(text: str, unit: str) -> None:
    """Another quantity's unit, bits for bytes, or a prefix without sense is refused."""
    with pytest.raises(UnitError, match="is not a unit of"):
        parse_quantity(text, unit)


@pytest.mark.parametrize("text", ["-1 GB", "-0.5 GB"])
def test_negative_is_refused(text: str) -> None:
    """No quantity here can be negative."""
    with pytest.raises(UnitError, match="negative"):
        parse_quantity(text, "byte")


@pytest.mark.parametrize("text", ["1e999999999 B", "1e31 B", "1e-31 B", "9" * 41 + " B"])
def test_huge_exponents_are_refused_at_once(text: str) -> None:
    """10^999999999 would fill memory as an exact fraction: it is refused before it is computed."""
    with pytest.raises(UnitError, match="beyond anything"):
        parse_quantity(text, "byte")


@pytest.mark.parametrize(
    "text", ["", "GB", "eighty GB", "80 GB extra words", "0x10 GB", "nan GB", "inf GB", "1.2.3 GB", "1e GB"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    """Text that is no number with a unit is an error, never a guess."""
    with pytest.raises(UnitError):
        parse_quantity(text, "byte")
