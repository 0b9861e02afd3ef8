"""Imports only go down: import-linter holds the layers, and CONTRIBUTING names them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_layers() -> None:
    """Every contract of pyproject.toml is kept."""
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run(
        [str(linter), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_contributing_names_every_layer() -> None:
    """What the contract lists stands in the table, each once, in the same order."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    listed = [set(re.findall(r"roofline\.(\w+)", layer)) - {"__main__"} for layer in layers]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## Layers") : text.index("torch is imported")]
    places = {name: table.find(f"`{name}`") for layer in listed for name in layer}
    assert [name for name, place in places.items() if place < 0] == []
    ordered = [sorted(places[name] for name in layer) for layer in listed if layer]
    assert all(above[-1] < below[0] for above, below in pairwise(ordered))
