"""The walks of docs/how-it-works.md lead where they say: files that exist, names in them, layers in one direction."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import roofline

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(roofline.__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
MAX_STOPS = 8


def walks() -> dict[str, list[tuple[str, str]]]:
    """The stops of each walk, (file, name), by what it follows."""
    listed = re.findall(r"^The \w+ walk follows `([^`]+)` .*?:\n\n(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    return {what: re.findall(r"^\d\. `(\S+\.py)`, `(\w+)`", text, re.MULTILINE) for what, text in listed}


def layer_of(file: str) -> int:
    """The place of a module in the contract of layers, from the top."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(entry["layers"] for entry in config["tool"]["importlinter"]["contracts"] if entry["type"] == "layers")
    module = file.removesuffix(".py").replace("/", ".")
    return next(
        place for place, layer in enumerate(layers) if any(f"{module}.".startswith(f"{name}.") for name in layer.split(" | "))
    )


def test_there_are_two_walks() -> None:
    """One of a flag, one of a key of a model's file."""
    assert list(walks()) == ["--batch 32", "num_key_value_heads: 8"]


@pytest.mark.parametrize("what", walks())
def test_stops_exist(what: str) -> None:
    """Each file defines the name."""
    stops = walks()[what]
    assert 5 <= len(stops) <= MAX_STOPS
    for file, name in stops:
        tree = ast.parse((INSTALLED / file).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in defined, f"{file} has no {name}"


@pytest.mark.parametrize(("what", "down"), [("--batch 32", True), ("num_key_value_heads: 8", False)])
def test_a_walk_goes_in_one_direction(what: str, down: bool) -> None:
    """From layer to layer, never back."""
    layers = [layer_of(file) for file, _ in walks()[what]]
    assert all(first <= second if down else first >= second for first, second in pairwise(layers))
