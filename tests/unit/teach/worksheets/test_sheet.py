"""Sheets: the same for ever, what is printed on them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.documents import DATA_VERSION, __version__
from roofline.errors import InputError, UnknownNameError
from roofline.teach.worksheets import TOPICS, sheet
from roofline.teach.worksheets.export import markdown

ROOT = Path(__file__).resolve().parents[4]
_WRITE = """
import hashlib
from roofline.teach.worksheets import TOPICS, sheet
from roofline.teach.worksheets.export import markdown
from roofline.teach.worksheets.export import notebook
sheets = [sheet(topic, 7) for topic in TOPICS]
text = "".join(markdown(made, answers=True) + notebook(made) for made in sheets)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def _digest(hash_seed: str, folder: Path) -> str:
    """All topics' sheets, written by a process of its own, in a folder of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed, "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", _WRITE], capture_output=True, text=True, check=True, env=environment, cwd=folder, timeout=1200
    )
    return done.stdout.strip()


@pytest.mark.night
def test_two_processes_write_the_same(tmp_path: Path) -> None:
    """Whatever the order of sets, and whatever `ROOFLINE_PATH` has instead of a shipped model."""
    (tmp_path / "models").mkdir()
    first = _digest("1", tmp_path)
    other = (ROOT / "models/llama-3.1-8b.yaml").read_text(encoding="utf-8").replace("repeat: 32", "repeat: 3")
    (tmp_path / "models/llama-3.1-8b.yaml").write_text(other, encoding="utf-8")
    os.environ["ROOFLINE_PATH"] = str(tmp_path)
    try:
        assert _digest("2", tmp_path) == first
    finally:
        del os.environ["ROOFLINE_PATH"]


def test_seeds_differ_and_repeat() -> None:
    for topic in TOPICS:
        assert markdown(sheet(topic, 1)) == markdown(sheet(topic, 1))
        assert markdown(sheet(topic, 1)) != markdown(sheet(topic, 2))


def test_provenance() -> None:
    """Versions, topic and seed stand on a sheet, and the line that makes it again."""
    found = sheet("roofline", 7)
    assert f"roofline {__version__}, data {DATA_VERSION}" in markdown(found)
    assert "seed 7" in found.provenance
    assert found.command == "roofline worksheet roofline --seed 7"
    assert f"About {found.minutes} minutes" in markdown(found)


def test_what_is_no_sheet() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean kv-cache"):
        sheet("kv-cach", 1)
    for seed in (-1, 10**9 + 1, 1.5, True):
        with pytest.raises(InputError, match="a seed is a whole number"):
            sheet("kv-cache", seed)  # type: ignore[arg-type]
