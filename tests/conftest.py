"""For all tests: time for slow machines, and where the measured and exact facts are that are no part of the repository."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# An example may take as long as the machine needs for it; none is written down in the checkout, which may be read-only.
settings.register_profile("any machine", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

collect_ignore = ["mutation/plugin.py"]
"""Loaded by `just mutate` alone, which says what is asked of it."""

_BESIDE = Path(__file__).resolve().parents[1].parent / "shared"


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where workers of one run share what is slow to make (`shared_results.py`); pytest removes it with its folders.

    A folder that is given is shared by several runs on the same sources.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("ROOFLINE_SHARED_FOLDER", str(tmp_path_factory.getbasetemp().parent))


@pytest.fixture(scope="session")
def truth() -> Path:
    """The folder of facts from outside; tests that need it are skipped where there is none."""
    given = os.environ.get("ROOFLINE_TRUTH")
    if given and not Path(given).is_dir():
        pytest.fail(f"ROOFLINE_TRUTH is set to {given}, which is no folder")
    folder = Path(given) if given else _BESIDE
    if not folder.is_dir():
        pytest.skip("the measured and exact facts are not part of the repository; set ROOFLINE_TRUTH")
    return folder


@pytest.fixture(scope="session")
def facts(truth: Path) -> dict[str, Any]:
    """Exact facts of models, by id: parameters, cache sizes, FLOP of PyTorch's counter."""
    found: dict[str, Any] = json.loads(_there(truth / "truth" / "models" / "facts.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="session")
def published(truth: Path) -> list[dict[str, str]]:
    """Figures that others published, one row each, with a verdict on every one."""
    with _there(truth / "published_figures.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _there(path: Path) -> Path:
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path
