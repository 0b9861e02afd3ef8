"""Controls: what they refuse, and numbers as JavaScript writes them."""

from __future__ import annotations

import json
import math
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.report.controls import Choice, Control, written

NODE = shutil.which("node")


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "number", "value": 0, "low": 1, "high": 8},
        {"kind": "number", "value": 9, "low": 1, "high": 8},
        {"kind": "number", "value": 4},
        {"kind": "number", "value": True, "low": 0, "high": 8},
        {"kind": "number", "value": "4", "low": 0, "high": 8},
        {"kind": "number", "value": 2.5, "low": 1, "high": 8, "step": 1},
        {"kind": "number", "value": 4, "low": 0, "high": 8, "log": True},
        {"kind": "choice", "value": "c", "choices": (Choice(value="a", text="A"),)},
        {"kind": "switch", "value": 1},
        {"kind": "text", "value": False},
    ],
)
def test_what_no_control_can_be_is_refused(wrong):
    with pytest.raises(ValueError, match="key: "):
        Control(key="key", label="Label", **wrong)


def test_steps_count_from_the_low_end():
    assert Control(key="key", label="Label", kind="number", value=0.3, low=0.1, high=2, step=0.1).text == "0.3"
    assert Control(key="key", label="Label", kind="number", value=1 << 20, low=1, high=1 << 30, step=1).text == "1048576"


def test_a_zero_that_means_none_says_so():
    made = [
        Control(key="key", label="Label", kind="number", value=value, low=0, high=9, unit="ms", zero="none") for value in (0, 5)
    ]
    assert [control.text for control in made] == ["none", "5 ms"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (8.0, "8"), (0.1 + 0.2, "0.30000000000000004"), (1e-6, "0.000001"), (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (-2.5e22, "-2.5e+22"), (5e-324, "5e-324"),
        (math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"), (2**53, "9007199254740992"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_javascript_writes_them(value, text):
    # ECMA-262, Number::toString: digits up to 1e21 and down to 1e-6, else an exponent with its sign
    assert written(value) == text


@pytest.mark.slow
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_reads_back(value):
    assert float(written(value)) == value


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@settings(max_examples=5, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=200, max_size=400))
def test_node_writes_the_same(values):
    program = "console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0)).map(String)))"
    done = subprocess.run([NODE, "-e", program], input=json.dumps(values), capture_output=True, text=True, check=True)
    assert [written(value) for value in values] == json.loads(done.stdout)
