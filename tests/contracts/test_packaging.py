"""What is shipped: one package with its library of specs, the same from wheel, sdist and checkout."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    *(
        pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"the package `{name}` is not installed")
        for name in ("build", "hatchling")
    ),
]


def _build(what: str, source: Path, into: Path, umask: int = -1, **environment: str) -> Path:
    command = [sys.executable, "-m", "build", f"--{what}", "--no-isolation", "--outdir", str(into), str(source)]  # no network
    done = subprocess.run(command, capture_output=True, text=True, check=False, umask=umask, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = into.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    return _build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of the checkout."""
    return _build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed, without its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--disable-pip-version-check",
        "--target",
        str(folder),
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def _contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist() if not name.endswith("RECORD")
        }


def _analyze(code_at: Path, cwd: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "roofline", "analyze", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(code_at), "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_one_top_level_package(wheel: Path) -> None:
    """The wheel puts `roofline` beside its metadata into site-packages, and nothing else: no `models`, no `tests`."""
    tops = {name.partition("/")[0] for name in _contents(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"roofline"}


@pytest.mark.parametrize("kind", ["models", "hardware", "engines", "prices"])
def test_library_is_inside(wheel: Path, kind: str) -> None:
    """Every YAML file of the checkout is in the wheel, under `roofline/_library`, byte for byte."""
    contents, prefix = _contents(wheel), f"roofline/_library/{kind}/"
    folder = ROOT / kind
    expected = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.yaml")
    }
    assert expected
    assert {
        name.removeprefix(prefix): digest
        for name, digest in contents.items()
        if name.startswith(prefix) and name.endswith(".yaml")
    } == expected


def test_code_is_inside(wheel: Path) -> None:
    """Every module of the checkout, and the marker of a typed package; nothing that was compiled or cached."""
    contents = set(_contents(wheel))
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "roofline").rglob("*.py")} <= contents
    assert "roofline/py.typed" in contents
    assert not [name for name in contents if name.endswith((".pyc", ".orig")) or "__pycache__" in name]


def test_metadata(wheel: Path) -> None:
    """Name, licence, command, and the extras that errors name."""
    with zipfile.ZipFile(wheel) as archive:
        (info,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(info).decode()
        points = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert "\nName: roofline\n" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert "License-File: LICENSE" in metadata
    assert "Provides-Extra: parquet" in metadata
    assert "roofline = roofline.cli.app:main" in points


def test_what_is_built_of_the_sdist_is_the_same(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Byte by byte what we build from the checkout: in another folder, time zone and language, later, with another umask.

    So packagers, and whoever checks a release, can build it again.
    """
    # Python 3.11.0 to 3.11.3 have no filters; our own archive needs none there.
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", **safely)  # type: ignore[arg-type]  # noqa: S202 - our own archive
    (source,) = (tmp_path / "source").iterdir()
    for path in source.rglob("*"):
        os.utime(path)
        path.chmod(path.stat().st_mode & 0o700)
    for what, built in (("wheel", wheel), ("sdist", sdist)):
        again = _build(what, source, tmp_path / what, 0o077, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
        if what == "wheel":
            assert _contents(again) == _contents(built)  # says which file differs
            (source / "PKG-INFO").unlink()  # an sdist has it, a checkout has not
        assert (again.name, again.read_bytes()) == (built.name, built.read_bytes())


def test_sdist_holds_the_tests(sdist: Path) -> None:
    """Whoever packages it can run the tests, which read our measurements; CI stays at home."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert "pyproject.toml" in names
    assert "models/_template.yaml" in names
    assert any(name.startswith("tests/") for name in names)
    assert "measurements/README.md" in names
    assert not [name for name in names if name.startswith((".ci/", ".git/", ".github/"))]


def test_installed_wheel_answers(installed: Path, tmp_path: Path) -> None:
    """From any folder, with the library in the package, the wheel says what the checkout says."""
    from_wheel, from_checkout = _analyze(installed, tmp_path), _analyze(ROOT, tmp_path)
    assert from_wheel == from_checkout


def test_checkout_answers_from_another_folder(tmp_path: Path) -> None:
    """As an editable install runs it: the checkout on the path, another folder around, with names that could mislead."""
    for name in ("models", "hardware", "llama-3.1-8b"):
        (tmp_path / name).mkdir()
    (tmp_path / "models" / "llama-3.1-8b.yaml").write_text("not: this\n")
    answer = _analyze(ROOT, tmp_path)
    assert answer["model"]["parameters"]["total"] == 8_030_261_248  # type: ignore[index]
    assert {entry["path"] for entry in answer["inputs"].values()} == {"shipped"}  # type: ignore[attr-defined]
