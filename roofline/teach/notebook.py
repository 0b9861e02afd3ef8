"""Jupyter notebooks as JSON, in the format that nbformat 4.5 describes.

Source: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def markdown_cell(id: str, text: str) -> dict[str, Any]:
    """Return a cell of Markdown."""
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": text.splitlines(keepends=True)}


def code_cell(id: str, text: str, *, count: int | None = None, outputs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return a cell of Python, with the number of its execution and its outputs if it was executed."""
    cell = {**markdown_cell(id, text), "cell_type": "code"}
    return {**cell, "execution_count": count, "outputs": list(outputs)}


def notebook_json(cells: Sequence[dict[str, Any]], **metadata: Any) -> str:
    """Return the text of a notebook: the same on every machine."""
    notebook = {"cells": list(cells), "metadata": {**_METADATA, **metadata}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
