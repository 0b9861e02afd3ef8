"""The rows of measurements that lesson 5 shows are rows of the project's records, unchanged."""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
LESSON = ROOT / "lessons" / "05_measured_against_predicted.py"
FOLDER = ROOT / "measurements" / "amd-epyc-x2" / "2026-11-20"


def constant(name):
    """A constant of the lesson's source, evaluated."""
    for node in ast.parse(LESSON.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"the lesson has no {name}")


def test_rows_are_those_of_the_records():
    shown = list(csv.DictReader(io.StringIO(constant("RECORDS"))))
    columns = tuple(shown[0])
    with (FOLDER / "records.csv").open(encoding="utf-8", newline="") as file:
        recorded = {tuple(row[column] for column in columns) for row in csv.DictReader(file)}
    assert len(shown) > 20
    assert [row for row in shown if tuple(row.values()) not in recorded] == []


def test_the_last_cache_is_that_of_the_machine():
    text = (FOLDER / "hardware.yaml").read_text(encoding="utf-8")
    assert f"l2: {{value: {constant('LAST_CACHE')} B" in text
