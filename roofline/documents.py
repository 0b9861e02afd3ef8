"""JSON documents and notebooks: the versions that each one names, its first keys, and its text.

Versions of the code and of the shipped data change independently of one another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roofline.errors import SpecError
from roofline.text import escaped

__version__ = "0.1.0"
DATA_VERSION = "2026.11.20"
SCHEMA_VERSION = 2
"""Of JSON documents. A new key does not change it. A key that is renamed, is gone or means something else does, and gets a step
in `_MIGRATIONS`, by which results of earlier versions are read."""


def envelope(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the first keys of every JSON document: `schema_version`, `tool_version`, `data_version` and `inputs`.

    Args:
        inputs: the files read, by role; each with its name, path and SHA-256 digest.
    """
    return {"schema_version": SCHEMA_VERSION, "tool_version": __version__, "data_version": DATA_VERSION, "inputs": inputs}


def _router(content: dict[str, Any]) -> None:
    """1 to 2: how a simulation spreads requests over replicas was `balancer`."""
    server = content.get("server")
    if isinstance(server, dict) and "balancer" in server:
        server["router"] = server.pop("balancer")


_MIGRATIONS: dict[int, Callable[[dict[str, Any]], None]] = {1: _router}
"""What brings a document of a version, in place, to the next one."""


def migrated(content: Any, path: Path | str) -> Any:
    """Return a saved document in the layout of this version; it is changed in place.

    Args:
        content: a JSON value; one that is no object with `schema_version` is returned as it is.
        path: of its file, for messages.

    Raises:
        SpecError: a later version has written it, or `schema_version` is no version.
    """
    if not isinstance(content, dict) or "schema_version" not in content:
        return content
    version = content["schema_version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SpecError(f"schema_version must be a whole number from 1, not {version!r:.40}", path=path)
    if version > SCHEMA_VERSION:
        by = f"roofline {content.get('tool_version')!s:.40}, schema_version {version}"
        raise SpecError(
            f"was written by a later version ({by}; this is {__version__}, which reads up to {SCHEMA_VERSION}): update "
            "roofline, or compute the result again with this version", path=path,
        )  # fmt: skip
    for before in range(version, SCHEMA_VERSION):
        _MIGRATIONS[before](content)
    content["schema_version"] = SCHEMA_VERSION
    return content


def dump_json(data: object, indent: int | None = 2) -> str:
    r"""Return data as JSON text that every parser accepts and no terminal obeys.

    NaN and infinities become null, floats that are whole numbers below 2^53 become integers, and control characters in strings
    are escaped: JSON itself escapes only the first 32.

    Args:
        data: dicts, lists, tuples, strings, numbers, truth values and None, nested.
        indent: spaces per level; None: one line.

    Raises:
        TypeError: a value of another type.

    >>> print(dump_json({"name": "\u202egnp", "batch": 2.0, "limit": float("inf")}, indent=None))
    {"name": "\u202egnp", "batch": 2, "limit": null}
    """
    import json

    return escaped(json.dumps(_finite(data), indent=indent, allow_nan=False, ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def markdown_cell(id: str, text: str) -> dict[str, Any]:
    """Return a cell of Markdown; `id` is unique in its notebook."""
    return {"cell_type": "markdown", "id": id, "metadata": {}, "source": text.splitlines(keepends=True)}


def code_cell(id: str, text: str, *, count: int | None = None, outputs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return a cell of Python; `count` is the number of its execution and `outputs` are its outputs, if it was executed."""
    cell = {**markdown_cell(id, text), "cell_type": "code"}
    return {**cell, "execution_count": count, "outputs": list(outputs)}


def notebook_json(cells: Sequence[dict[str, Any]], **metadata: Any) -> str:
    """Return the JSON text of a notebook, the same on every machine; `metadata` is added to that of Python notebooks."""
    notebook = {"cells": list(cells), "metadata": {**_METADATA, **metadata}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
