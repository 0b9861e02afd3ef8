"""A lesson as a notebook, with the outputs of its execution, in the format that nbformat 4.5 describes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from roofline.teach.lessons.execute import Done, Executed
from roofline.teach.lessons.item import Item
from roofline.version import __version__

WHEEL = f"roofline-{__version__}-py3-none-any.whl"
"""The wheel that `lessons/build.py` puts beside the notebooks: the package is not on an index."""
# On Colab and the like; where roofline is there already, nothing happens.
SETUP = f"try:\n    import roofline\nexcept ImportError:  # the wheel lies beside the notebooks\n    %pip install -q ./{WHEEL}"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
    "roofline": {"version": __version__},
}


def notebook(lesson: Executed) -> str:
    """The file's text: the same on every machine for the same version."""
    made: list[dict[str, Any]] = []
    count = 0
    for done in lesson.cells:
        if done.cell.kind == "markdown":
            made.append(_cell("markdown", done.cell.text, len(made)))
            continue
        if count == 0:
            made.append({**_cell("code", SETUP, len(made)), "execution_count": None, "outputs": []})
        count += 1
        own = _cell("code", done.cell.text, len(made))
        if done.cell.open:
            own["metadata"] = {"tags": ["open"]}
        made.append({**own, "execution_count": count, "outputs": _outputs(done, count)})
    whole = {"cells": made, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _cell(kind: str, text: str, place: int) -> dict[str, Any]:
    name = sha256(f"{place} {text}".encode()).hexdigest()[:12]
    return {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}


def _outputs(done: Done, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if done.printed:
        found.append({"output_type": "stream", "name": "stdout", "text": done.printed.splitlines(keepends=True)})
    if done.value is not None:
        data: dict[str, Any] = {"text/plain": repr(done.value).splitlines(keepends=True)}
        if isinstance(done.value, Item):
            data["text/markdown"] = done.value.markdown().splitlines(keepends=True)
        found.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return found
