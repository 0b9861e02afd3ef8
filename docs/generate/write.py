"""All generated pages, written into their folder."""

from __future__ import annotations

from pathlib import Path

from generate import (
    adopted,
    commands,
    decisions,
    hardware,
    how_accurate,
    licences,
    models,
    operators,
    python,
    schedulers,
    tutorial,
)

_WRITERS = (adopted, commands, decisions, hardware, how_accurate, licences, models, operators, python, schedulers, tutorial)


def texts() -> dict[str, str]:
    """All generated pages by their path in the folder."""
    found: dict[str, str] = {}
    for module in _WRITERS:
        for path, text in module.pages().items():
            if path in found:
                raise ValueError(f"two pages are called {path}")
            found[path] = text
    return found


def write(folder: Path) -> None:
    """Write what has changed, remove what is no longer there: Sphinx reads again only what is newer than its own copy."""
    written = texts()
    for path, text in written.items():
        file = folder / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            beside = file.with_suffix(".tmp")
            beside.write_text(text, encoding="utf-8")
            beside.replace(file)
    for file in folder.rglob("*.md"):
        if str(file.relative_to(folder)) not in written:
            file.unlink()
