"""Versions of the code and of the shipped data, which change apart from one another."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
DATA_VERSION = "2026.11.20"
SCHEMA_VERSION = 1


def envelope(inputs: dict[str, Any]) -> dict[str, Any]:
    """The first keys of every JSON result."""
    return {"schema_version": SCHEMA_VERSION, "tool_version": __version__, "data_version": DATA_VERSION, "inputs": inputs}
