"""The section "Renamed" of the changelog: every name that it gives as today's can be imported."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (?P<before>[^|]+) \| (?P<now>[^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"^(?:(?P<module>[a-z_]+(?:\.[a-z_]+)*):)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\(.*\))?$")


def _rows() -> list[tuple[str, str]]:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.split("\n### Renamed\n", 1)[1].split("\n### ", 1)[0]
    return [(match["before"], match["now"]) for match in ROW.finditer(section) if not match["before"].endswith("before")]


def _modules() -> list[str]:
    """Today's packages and modules: of the first table, and of names with a colon."""
    words = [word for _, now in _rows() for word in re.findall(r"`([^`]+)`", now)]
    dotted = [word for word in words if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", word)]
    return list(dict.fromkeys([*dotted, *(word.split(":")[0] for word in words if ":" in word)]))


def _names() -> list[tuple[str, str]]:
    """Today's names with their modules; a name without one is of the module before it."""
    names: list[tuple[str, str]] = []
    for _, now in _rows():
        matches = [match for word in re.findall(r"`([^`]+)`", now) if (match := NAME.match(word)) is not None]
        modules = list(accumulate((match["module"] or "" for match in matches), lambda last, own: own or last))
        names += [(module, match["name"]) for module, match in zip(modules, matches, strict=True) if module]
    return names


def _import(module: str) -> Any:
    """Import a module of today; without torch the kernels of benchmarks cannot be."""
    try:
        return import_module(f"roofline.{module}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        pytest.skip("torch is not installed")


@pytest.mark.parametrize("module", _modules())
def test_modules(module: str) -> None:
    """Importable where the table says."""
    assert _import(module) is not None


@pytest.mark.parametrize(("module", "name"), _names())
def test_names(module: str, name: str) -> None:
    """In the module, or a field or method of a class in it that the row names before."""
    imported = _import(module)
    assert hasattr(imported, name) or any(hasattr(one, name) for one in vars(imported).values() if isinstance(one, type)), name


def test_the_table_is_read() -> None:
    """Both tables, and names of several kinds of plug-ins."""
    assert len(_rows()) > 40
    for name in ("LinePattern", "DistributionFamily", "RecordOp", "RecordsFile", "RequestClass", "ServerConfig", "KernelForm"):
        assert name in [known for _, known in _names()]
