"""The tutorial: its examples are the cells of a notebook, which runs from top to bottom."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _notebook() -> str:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        (text,) = importlib.import_module("generate.tutorial").pages().values()
    finally:
        sys.path.pop(0)
    return str(text)


def test_cells_are_those_of_the_page() -> None:
    """Every example of the page is in a cell, in order, without its prompts and without links that lead nowhere."""
    cells = json.loads(_notebook())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert code.splitlines() == [line[4:] for line in page.splitlines() if line.startswith((">>> ", "... "))]
    for name in ("analyze", "explain", "op", "sweep", "limits", "plan", "simulate"):
        assert f"roofline.{name}(" in code
    assert not any("](" in line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(tmp_path: Path) -> None:
    """In a kernel; results are there as HTML, with a figure."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    made = nbformat.reads(_notebook(), as_version=4)
    nbformat.validate(made)
    written = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    client = nbclient.NotebookClient(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"})
    outputs = [output for cell in made.cells if cell.cell_type == "code" for output in cell.outputs]
    assert len(outputs) == len(written)
    shown = [
        output.data["text/html"] for output in outputs if output.output_type == "execute_result" and "text/html" in output.data
    ]
    assert any("<svg" in text and "roofline-result" in text for text in shown)
