"""Shell completion of ids."""

from __future__ import annotations


def models(incomplete: str) -> list[str]:
    """Ids of models that start so."""
    return _ids("models", incomplete)


def hardware(incomplete: str) -> list[str]:
    """Ids of hardware that start so."""
    return _ids("hardware", incomplete)


def _ids(kind: str, incomplete: str) -> list[str]:
    from roofline.errors import RooflineError
    from roofline.specs.library import ids

    try:
        known = ids("models" if kind == "models" else "hardware")
    except RooflineError:  # of ROOFLINE_PATH: the command itself will say it
        return []
    return [name for name in known if name.startswith(incomplete)]
