"""`roofline doctor`: requirements as `packaging` reads them; what is wrong comes first, with the command that mends it."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import roofline
from roofline.cli.commands import doctor
from roofline.specs.library import ids

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LISTED = [("", text) for text in PROJECT["dependencies"]]
LISTED += [(extra, text) for extra, texts in PROJECT["optional-dependencies"].items() for text in texts]
MACHINES = [
    {"python_version": "3.11", "sys_platform": "linux", "platform_python_implementation": "CPython"},
    {"python_version": "3.14", "sys_platform": "darwin", "platform_python_implementation": "CPython"},
    {"python_version": "3.13", "sys_platform": "win32", "platform_python_implementation": "PyPy"},
]


def _by_packaging(machine: dict[str, str]) -> set[tuple[str, str, str]]:
    """Requirements of a machine: name, lower bound, extra."""
    found = set()
    for extra, text in LISTED:
        entry = Requirement(text)
        if entry.marker is None or entry.marker.evaluate(machine):
            found.add((entry.name, next((one.version for one in entry.specifier), "0"), extra))
    return found


@pytest.fixture
def no_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed wheel: what the package needs stands in its metadata, where extras are a part of the marker."""

    def with_extra(extra: str, text: str) -> str:
        name, _, marker = (part.strip() for part in text.partition(";"))
        both = [*([f"({marker})"] if marker and extra else [marker] if marker else [])]
        both += [f'extra == "{extra}"'] if extra else []
        return f"{name}; {' and '.join(both)}" if both else name

    monkeypatch.setattr(doctor, "PACKAGE", tmp_path / "roofline")
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: [with_extra(extra, text) for extra, text in LISTED])
    monkeypatch.setattr(doctor, "_version", lambda _: roofline.__version__)


@pytest.mark.same_calls  # of the package beside its pyproject.toml
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine["sys_platform"])
def test_requirements_of_a_checkout(machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pyproject.toml whose markers hold there."""
    monkeypatch.setattr(doctor, "_environment", lambda: machine)
    assert {(entry.name, entry.bound, entry.extra) for entry in doctor.requirements()} == _by_packaging(machine)


@pytest.mark.usefixtures("no_checkout")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine["sys_platform"])
def test_requirements_of_a_wheel(machine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same from the metadata."""
    monkeypatch.setattr(doctor, "_environment", lambda: machine)
    assert {(entry.name, entry.bound, entry.extra) for entry in doctor.requirements()} == _by_packaging(machine)


def test_what_it_prints(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """0 on stdout; the number of problems first; versions, data files and extras."""
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    answer = run("doctor")
    assert (answer.code, answer.err) == (0, "")
    assert re.match(r"(No problems|\d+ problems?) found\.\n", answer.out)
    assert f"roofline      {roofline.__version__} (data " in answer.out
    assert f"{len(ids('models'))} models, " in answer.out
    assert f"Python        {sys.version_info.major}.{sys.version_info.minor}." in answer.out
    document = json.loads(run("doctor", "--json").out)
    assert list(document)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert {*document} >= {"problems", "roofline", "python", "system", "dependencies", "extras", "data", "gpus", "torch"}
    assert {entry["name"] for entry in document["dependencies"]} >= {"numpy", "pydantic", "typer"}
    assert {entry["name"] for entry in document["extras"]["cluster"]} == {"pyarrow", "distributed"}  # cluster holds parquet
    run("doctor", "-o", tmp_path / "doctor.json")
    assert json.loads((tmp_path / "doctor.json").read_text(encoding="utf-8")) == document


VERSIONS = {"pydantic": "2.10.6", "pandas": "3.0.0rc1", "torch": "2.4.1+cu121", "pyarrow": None, "plotly": None}


def test_versions_that_are_too_old(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older than the bound, or missing: a problem; missing for an extra alone: none. 3.0.0rc1 is not older than 2.2."""
    monkeypatch.setattr(doctor, "_version", lambda name: VERSIONS.get(name, "9999"))
    monkeypatch.setattr(doctor, "_import_error", lambda _: None)
    monkeypatch.setattr(doctor, "_gpus", lambda _: {"devices": [], "nvidia_smi": False})
    problems = json.loads(run("doctor", "--json").out)["problems"]
    said = {entry["problem"]: entry["mend"] for entry in problems}
    assert {what.split()[0] for what in said} == {"pydantic", "plotly", "torch", "the"}  # the code is of another version
    bound = next(entry.bound for entry in doctor.requirements() if entry.name == "pydantic")
    mend = said[f"pydantic 2.10.6 is older than {bound}, the oldest that works"]
    assert mend.endswith(f' -m pip install "pydantic>={bound}"')
    assert next(what for what in said if what.startswith("torch")).startswith("torch 2.4.1+cu121 is older than ")
    answer = run("doctor")
    assert answer.code == 0
    assert answer.out.startswith("4 problems found.\n  plotly is not installed.\n    To mend it: ")


def test_a_dependency_that_cannot_be_imported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed, and broken: its own words."""
    load = doctor.importlib.import_module

    def broken(name: str, package: str | None = None) -> Any:
        if name == "sympy":
            raise OSError("DLL load failed")
        return load(name, package)

    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    problems = json.loads(run("doctor", "--json").out)["problems"]
    (sympy,) = [entry for entry in problems if entry["problem"].startswith("sympy")]
    assert "cannot be imported: OSError: DLL load failed" in sympy["problem"]
    assert '--force-reinstall "sympy>=' in sympy["mend"]


def test_a_wrong_roofline_path(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other commands refuse it; this one says what is wrong with it, and goes on. Files of a good one are counted."""
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path / "nowhere"))
    document = json.loads(run("doctor", "--json").out)
    assert any("nowhere does not exist" in entry["problem"] for entry in document["problems"])
    assert document["data"]["kinds"]["models"] == {"shipped": document["data"]["kinds"]["models"]["shipped"]}
    assert document["system"]["environment"]["ROOFLINE_PATH"] == str(tmp_path / "nowhere")
    (tmp_path / "models").mkdir()
    for name in ("gpt2", "mine"):
        (tmp_path / "models" / f"{name}.yaml").write_text("", encoding="utf-8")
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))
    models = json.loads(run("doctor", "--json").out)["data"]["kinds"]["models"]
    assert (models["own"], models["instead_of_shipped"]) == (2, ["gpt2"])


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for the program of the driver")
@pytest.mark.parametrize(
    ("script", "devices", "problem"),
    [
        ("echo 'NVIDIA H100 80GB HBM3, 570.86.15, 81559'; echo 'Odd Card, 570.86.15, 1'", 2, None),
        ("echo 'NVIDIA-SMI has failed: no driver'; exit 9", 0, "nvidia-smi is installed and fails: NVIDIA-SMI has failed"),
        ("echo 'one line of something else'", 0, "nvidia-smi is installed and fails: one line"),
    ],
)
def test_gpus(
    script: str, devices: int, problem: str | None, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As `nvidia-smi` lists them, with the id that `--hardware` takes; what it says where it fails."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(doctor.shutil, "which", lambda _: str(program))
    monkeypatch.setattr(doctor, "_torch", lambda: {"version": "2.13.0+cpu", "cuda": None, "hip": None})
    document = json.loads(run("doctor", "--json").out)
    said = [entry["problem"] for entry in document["problems"]]
    assert len(document["gpus"]["devices"]) == devices
    if devices:
        assert [one["hardware"] for one in document["gpus"]["devices"]] == ["h100-sxm", None]
        assert any("torch was built without CUDA" in text for text in said)
        assert "1 x NVIDIA H100 80GB HBM3, 81559 MiB, driver 570.86.15 (h100-sxm)" in " ".join(run("doctor").out.split())
    else:
        assert any(text.startswith(str(problem)) for text in said)


def test_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its version and what it was built for stand in a file of its own."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    text = "__version__ = '2.6.0'\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n"
    (tmp_path / "torch" / "version.py").write_text(text, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "_version", lambda _: "2.6.0")
    assert doctor._torch() == {"version": "2.6.0", "cuda": "12.4", "hip": None}
