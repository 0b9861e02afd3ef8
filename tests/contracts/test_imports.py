"""What a command loads: heavy libraries only where they are needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("sympy", "pandas", "plotly", "torch", "numpy", "scipy")


def _loaded(code: str) -> set[str]:
    """The heavy libraries in memory after a piece of code ran in a process of its own."""
    ending = f"\nimport sys, json\nsys.stderr.write('LOADED ' + json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + ending],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.rpartition("LOADED ")[2]))


def _command(*arguments: str) -> str:
    """Code that runs a command line and goes on."""
    return f"""
import sys, roofline.__main__ as program
from roofline.cli.app import main
sys.argv = ["roofline", *{list(arguments)!r}]
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
"""


def test_the_probe_sees_what_is_loaded() -> None:
    """A process that does load one of them is found out."""
    assert "numpy" in _loaded("import numpy")


def test_import_loads_nothing_heavy() -> None:
    """`import roofline` is free."""
    assert _loaded("import roofline") == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("analyze", "--help"),
        ("analyze", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--json"),
        ("analyze", "deepseek-v3", "--hardware", "dgx-h100", "--tp", "8", "--output-len", "100", "--ignore-capacity"),
        ("models", "list", "--json"),
        ("hardware", "show", "h100-sxm"),
        ("schema", "model"),
    ],
    ids=" ".join,
)
def test_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """Help, a single answer, lists: Python floats are enough; not even NumPy is loaded."""
    assert _loaded(_command(*arguments)) == set()


def test_help_of_the_module_form() -> None:
    """`python -m roofline --help` is the same program."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "roofline", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0
    assert "analyze" in done.stdout
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert not imported & set(HEAVY)


def test_a_typed_package() -> None:
    """Type checkers of others see our annotations."""
    assert (files("roofline") / "py.typed").is_file()


@pytest.mark.slow
def test_pages_have_every_kind_of_spec_whatever_was_imported() -> None:
    """Blocks and schemes are imported when a file names them; a page's program, which is cached, has them all."""
    code = """
import sys
from roofline.report.page_program import spec_classes
specs = spec_classes()
from roofline.blocks import BLOCKS
from roofline.specs.quantization import SCHEMES
assert not {*BLOCKS.values(), *SCHEMES.values()} - {*specs}
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.slow
def test_an_answer_imports_the_blocks_that_its_model_has() -> None:
    """Llama has grouped-query attention and a gated MLP; what other models are made of stays on disk."""
    arguments = ("analyze", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--json")
    code = (
        _command(*arguments) + "\nassert 'roofline.blocks.gqa' in sys.modules\nassert 'roofline.blocks.mla' not in sys.modules"
    )
    _loaded(code)
