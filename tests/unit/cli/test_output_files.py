"""-o FILE: the format from the suffix, whole or not at all, and each readable by what reads such files."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.documents import SCHEMA_VERSION

Run = Callable[..., Any]
ASK = ("analyze", "llama-3.1-8b", "--hardware", "h100-sxm", "--batch", 3)


@pytest.fixture(scope="module")
def result() -> Any:
    """The same answer from Python."""
    return roofline.analyze("llama-3.1-8b", "h100-sxm", batch=3)


def _write(run: Run, path: Path) -> Path:
    answer = run(*ASK, "-o", path)
    assert (answer.code, answer.out) == (0, "")
    assert str(path) in answer.err
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]  # no temporary file is left
    return path


def test_json(run: Run, tmp_path: Path, result: Any) -> None:
    """The whole object, the same as on stdout."""
    written = json.loads(_write(run, tmp_path / "r.json").read_text(encoding="utf-8"))
    assert written == json.loads(run(*ASK, "--json").out)
    assert written["phases"][1]["bytes"]["total"] == result.decode.cost.bytes


def test_csv(run: Run, tmp_path: Path, result: Any) -> None:
    """A row an operator and phase, numbers as numbers."""
    with _write(run, tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [op.path for phase in result.phases for op in phase.operators]
    decode = sum(float(row["bytes"]) for row in rows if row["phase"] == "decode")
    assert decode == pytest.approx(result.decode.cost.bytes, rel=1e-12)


def test_parquet(run: Run, tmp_path: Path, result: Any) -> None:
    """The same rows with types, and the versions in the metadata."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")
    table = parquet.read_table(_write(run, tmp_path / "r.parquet"))
    assert table.num_rows == sum(len(phase.operators) for phase in result.phases)
    assert sum(table["matrix_flops"].to_pylist()) == pytest.approx(sum(p.cost.matrix_flops for p in result.phases), rel=1e-12)
    assert table.schema.metadata[b"roofline.tool_version"].decode() == roofline.__version__


def test_markdown(run: Run, tmp_path: Path, result: Any) -> None:
    """A heading, and tables whose rows have as many cells as their heads."""
    text = _write(run, tmp_path / "r.md").read_text(encoding="utf-8")
    assert text.startswith("# Llama 3.1 8B on NVIDIA H100 SXM5 80GB\n")
    lines = text.splitlines()
    for rule in (index for index, line in enumerate(lines) if line.startswith("| ---")):
        width = lines[rule].count("|")
        assert lines[rule - 1].count("|") == width
        row = rule + 1
        while row < len(lines) and lines[row].startswith("|"):
            assert lines[row].replace("\\|", "").count("|") == width
            row += 1
    assert all(op.path.replace("_", "\\_") in text for op in result.decode.operators)


@pytest.mark.slow
def test_html(run: Run, tmp_path: Path, result: Any) -> None:
    """The page of `to_html`."""
    assert _write(run, tmp_path / "r.html").read_text(encoding="utf-8") == result.to_html()


def test_upper_case_suffix(run: Run, tmp_path: Path) -> None:
    """The case of a suffix does not matter."""
    assert json.loads(_write(run, tmp_path / "R.JSON").read_text(encoding="utf-8"))["schema_version"] == SCHEMA_VERSION


def test_file_and_stdout(run: Run, tmp_path: Path) -> None:
    """--json and -o together give both, and they are the same."""
    path = tmp_path / "r.json"
    answer = run(*ASK, "--json", "-o", path)
    assert json.loads(answer.out) == json.loads(path.read_text(encoding="utf-8"))


def test_quiet(run: Run, tmp_path: Path) -> None:
    """--quiet leaves stderr empty, also where it does not fit; an error is still told."""
    assert run(*ASK, "-o", tmp_path / "r.json", "--quiet").err == ""
    no = run("analyze", "llama-3.1-70b", "-H", "h100-sxm", "--json", "--quiet")
    assert (no.code, no.err) == (1, "")
    assert "ambiguous" in run("analyze", "gpt2", "-H", "a100", "--quiet").refused()


def test_written_although_it_does_not_fit(run: Run, tmp_path: Path) -> None:
    """Exit 1 writes the file as well: the answer is no, not missing."""
    path = tmp_path / "r.json"
    assert run("analyze", "llama-3.1-70b", "-H", "h100-sxm", "-o", path).code == 1
    assert json.loads(path.read_text(encoding="utf-8"))["memory"]["fits"] is False


@pytest.mark.parametrize("name", ["r.docx", "r", "r.json.bak", ".json"])
def test_unknown_suffix(run: Run, tmp_path: Path, name: str) -> None:
    """A suffix that names no format is refused with those that do, before anything is written."""
    assert ".csv, .html, .json, .md, .parquet" in run(*ASK, "-o", tmp_path / name).refused()
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failure(run: Run, tmp_path: Path) -> None:
    """A wrong question does not destroy the answer of yesterday; a right one replaces it."""
    path = tmp_path / "r.json"
    path.write_text("old")
    run("analyze", "gpt2", "-H", "a100", "-o", path).refused()
    assert path.read_text() == "old"
    assert run(*ASK, "-o", path).code == 0
    assert path.read_text() != "old"


def test_folder_as_a_file(run: Run, tmp_path: Path) -> None:
    """A folder called r.json is not replaced, and nothing is left beside it."""
    (tmp_path / "r.json").mkdir()
    assert "cannot write" in run(*ASK, "-o", tmp_path / "r.json").refused()
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(run: Run, tmp_path: Path) -> None:
    """A folder that cannot be written to is one message."""
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in run(*ASK, "-o", tmp_path / "r.json").refused()
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("kind", ["models", "hardware"])
def test_lists(run: Run, tmp_path: Path, kind: str) -> None:
    """Lists are written too."""
    assert run(kind, "list", "-o", tmp_path / "l.csv").code == 0
    assert run(kind, "list", "-o", tmp_path / "l.json").code == 0
    rows = json.loads((tmp_path / "l.json").read_text(encoding="utf-8"))[kind]
    with (tmp_path / "l.csv").open(encoding="utf-8", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [row["id"] for row in rows]
