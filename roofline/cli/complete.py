"""Shell completion of ids."""

from __future__ import annotations


def models(incomplete: str) -> list[str]:
    """Ids of models that start so."""
    return _ids("models", incomplete)


def hardware(incomplete: str) -> list[str]:
    """Ids of hardware that start so."""
    return _ids("hardware", incomplete)


def _ids(kind: str, incomplete: str) -> list[str]:
    from roofline.specs.library import ids

    return [name for name in ids("models" if kind == "models" else "hardware") if name.startswith(incomplete)]
