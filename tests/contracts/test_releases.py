"""What a release promises: the form of the changelog, the same Pythons everywhere, a template for bug reports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from roofline.documents import __version__

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("Breaking", "Added", "Changed", "Renamed", "Deprecated", "Removed", "Fixed", "Numbers changed", "Not there yet")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _changelog() -> dict[str, dict[str, str]]:
    """Texts of the sections of each version, in their order."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *versions = re.split(r"^## ", text, flags=re.MULTILINE)
    listed: dict[str, dict[str, str]] = {}
    for version in versions:
        heading, *sections = re.split(r"^### ", version, flags=re.MULTILINE)
        name = re.match(r"\[([^]]+)\]", heading)
        assert name is not None, heading
        assert name[1] not in listed
        assert len({part.partition("\n")[0] for part in sections}) == len(sections), f"{name[1]}: a section stands there twice"
        listed[name[1]] = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in sections}
    return listed


def test_versions_of_the_changelog() -> None:
    """What is not released first, then numbers that fall; that of the code is there."""
    first, *released = _changelog()
    assert first == "Unreleased"
    numbers = [tuple(map(int, version.split("."))) for version in released]
    assert numbers == sorted(numbers, reverse=True)
    assert __version__ in released


def test_sections_of_the_changelog() -> None:
    """Breaking changes come before all else; no section is empty."""
    for version, sections in _changelog().items():
        assert list(sections) == [name for name in SECTIONS if name in sections], version
        assert all(sections.values()), version


def test_breaking_changes_say_what_to_write() -> None:
    """Each names what it is about, as it is typed, and what is now in its place."""
    for version, sections in _changelog().items():
        for entry in re.findall(r"^- .*(?:\n  .*)*", sections.get("Breaking", ""), re.MULTILINE):
            assert "`" in entry, (version, entry)
            assert re.search(r"\b(now|instead)\b", entry), (version, entry)


def test_pythons_are_the_same_everywhere() -> None:
    """The oldest of the classifiers is what is required and what the linter takes; the matrix has them all."""
    classifiers = PROJECT["project"]["classifiers"]
    pythons = [entry.rpartition(" ")[2] for entry in classifiers if re.search(r":: Python :: 3\.\d+$", entry)]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{pythons[0].replace('.', '')}"
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    if not workflow.exists():
        pytest.skip("a copy without the files of the hosted CI")
    jobs = YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["fast"]["strategy"]["matrix"]
    assert matrix["python"] == pythons
    assert [system.partition("-")[0] for system in matrix["system"]] == ["ubuntu", "macos", "windows"]


def test_bug_reports_ask_for_the_installation() -> None:
    """As `roofline doctor` prints it; without it a report cannot be sent."""
    template = ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml"
    if not template.exists():
        pytest.skip("a copy without the files of the hosted CI")
    fields = YAML(typ="safe").load(template.read_text(encoding="utf-8"))["body"]
    (doctor,) = [field for field in fields if field.get("id") == "doctor"]
    assert "`roofline doctor`" in doctor["attributes"]["label"]
    assert doctor["validations"]["required"]
