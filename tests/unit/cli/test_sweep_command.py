"""`roofline sweep`: rows in every form, files of sweeps, what is refused and when."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import roofline
from roofline.specs.library import shipped

Run = Callable[..., Any]
ASK = ("sweep", "llama-3.1-8b", "-H", "l4,h100-sxm", "--batch", "1,64", "--context", "1k,8k")
FILE = """\
schema_version: 1
kind: sweep
grid:
  model: llama-3.1-8b
  hardware: [l4, h100-sxm]
  batch: 1:64:x2
  context: 1k
reduce: best
by: [hardware]
tpot: 30 ms
"""


def test_json(run: Run) -> None:
    """The head of every result, the question, and a row a point; null where a step does not fit."""
    answer = run(*ASK, "--json")
    found = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert list(found)[:5] == ["schema_version", "tool_version", "data_version", "inputs", "kind"]
    assert found["kind"] == "sweep"
    assert found["sweep"]["grid"]["context"] == [1024, 8192]
    assert {entry["name"] for entry in found["inputs"].values()} == {"llama-3.1-8b", "l4", "h100-sxm"}
    assert len(found["rows"]) == found["points"] == 8
    for row in found["rows"]:
        assert row["fits"] is (row["time_bound_s"] is not None)
        assert isinstance(row["batch"], int)
    first = roofline.analyze("llama-3.1-8b", "l4", context="1k", phase="decode").decode
    assert found["rows"][0]["time_estimate_s"] == pytest.approx(first.time.estimate, rel=1e-12)


def test_files_hold_the_same_rows(run: Run, tmp_path: Path) -> None:
    """CSV, Parquet, JSON, Markdown, and a folder of parts."""
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    rows = json.loads(run(*ASK, "--json").out)["rows"]
    for name in ("a.csv", "a.parquet", "a.json", "a.md", "folder"):
        answer = run(*ASK, "-o", str(tmp_path / name))
        assert (answer.code, answer.out) == (0, "")
        assert "wrote" in answer.err
    with (tmp_path / "a.csv").open(newline="") as file:
        (first, *_) = csv.DictReader(file)
    assert list(first) == list(rows[0])
    assert float(first["time_estimate_s"]) == rows[0]["time_estimate_s"]
    for frame in (pd.read_parquet(tmp_path / "a.parquet"), pd.read_parquet(tmp_path / "folder")):
        assert list(frame["time_estimate_s"].dropna()) == [row["time_estimate_s"] for row in rows if row["fits"]]
    assert json.loads((tmp_path / "a.json").read_text())["rows"] == rows
    assert (tmp_path / "a.md").read_text().count("\n") == len(rows) + 2


def test_what_cannot_be_is_told_beside_the_rows(run: Run) -> None:
    answer = run(*ASK, "--tp", "1,3")
    assert answer.code == 0
    assert "8 of 16 points cannot be:" in answer.err
    assert "8: tensor-parallel size 3 does not work" in answer.err
    assert "8 rows of 16 points" in answer.out
    assert run(*ASK, "--tp", "1,3", "-q").err == ""
    none = run(*ASK, "--tp", "3")
    assert (none.code, none.out) == (2, "")
    assert "no point of the grid can be" in none.err


def test_many_rows_are_those_of_the_highest_throughput(run: Run) -> None:
    """On one screen the best rows, best first, and how to see the others; with -v all in the order of the grid."""
    ask = ("sweep", "llama-3.1-8b", "-H", "l4,h100-sxm", "--batch", "1:64:x2", "--context", "1k,8k")
    rows = json.loads(run(*ask, "--json").out)["rows"]
    best = max((row for row in rows if row["fits"]), key=lambda row: row["tokens_per_s_estimate"])
    out, whole = (run(*ask, *more).out.splitlines() for more in ((), ("-v",)))
    fit = sum(row["fits"] for row in rows)
    verdict = f"{fit} of {len(rows)} points fit in memory. Highest throughput: "
    assert any(line.startswith(verdict) and f"({best['hardware']}, batch {best['batch']}," in line for line in out)
    at = next(index for index, line in enumerate(out) if line.startswith("  hardware "))
    printed = [line.split()[:2] for line in out[at + 1 :][:16]]
    assert printed[0] == [best["hardware"], str(best["batch"])]
    assert f"  {len(rows) - 16} more rows: -v    All columns: -o FILE.csv" in out
    start = next(index for index, line in enumerate(whole) if line.startswith("  hardware "))
    printed = [line.split()[:2] for line in whole[start + 1 :][: len(rows)]]
    assert printed == [[row["hardware"], str(row["batch"])] for row in rows]


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (("best", "--by", "hardware"), "Best: highest tokens/s per device, for each hardware."),
        (("pareto",), "Pareto front: lowest step time, highest tokens/s per device."),
        (("histogram", "--tpot", "1 s"), "Histogram: step time; decode steps of at most 1 s."),
        (("best", "--tpot", "1 us"), "No point fits and meets the limits. Best: highest tokens/s per device; decode steps of"),
    ],
)
def test_what_a_reduction_keeps_is_a_sentence(run: Run, rule: tuple[str, ...], verdict: str) -> None:
    assert f"\n{verdict}" in run(*ASK, "--reduce", *rule).out


def test_a_sweep_s_file(run: Run, tmp_path: Path) -> None:
    """Its keys count, flags beside it come first; the same as by flags alone."""
    path = tmp_path / "s.yaml"
    path.write_text(FILE)
    by_file = json.loads(run("sweep", str(path), "--json").out)
    by_flags = json.loads(
        run(
            "sweep", "llama-3.1-8b", "-H", "l4,h100-sxm", "--batch", "1:64:x2", "--context", "1k", "--reduce", "best", "--by",
            "hardware", "--tpot", "30ms", "--json",
        ).out
    )  # fmt: skip
    assert by_file == by_flags
    assert [row["hardware"] for row in by_file["rows"]] == ["h100-sxm"]  # an L4 takes longer than 30 ms for any step
    both = json.loads(run("sweep", str(path), "--tpot", "1 s", "--batch", "1:8", "--json").out)
    assert [(row["hardware"], row["batch"]) for row in both["rows"]] == [("l4", 8), ("h100-sxm", 8)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch:", "bacth:", r"s.yaml:6:3: unknown axis 'bacth'. Did you mean batch"),
        ("1:64:x2", "64:1", r"s.yaml:6:3: .*'64:1' is no range"),
        ("reduce:", "redcue:", r"s.yaml:8:1: unknown key 'redcue'. Did you mean reduce"),
        ("best", "bets", r"unknown reduction 'bets'. Did you mean best"),
        ("[hardware]", "[hardwear]", r"unknown axis 'hardwear'. Did you mean hardware"),
        ("30 ms", "30", r"s.yaml:10:1: tpot"),
        ("schema_version: 1", "schema_version: 9", r"s.yaml:1:1: schema_version"),
    ],
)
def test_wrong_files_of_sweeps(run: Run, tmp_path: Path, old: str, new: str, message: str) -> None:
    """By line, with the nearest name; nothing on stdout."""
    import re

    path = tmp_path / "s.yaml"
    path.write_text(FILE.replace(old, new, 1))
    answer = run("sweep", str(path))
    assert (answer.code, answer.out) == (2, "")
    assert re.search(message, answer.err), answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "what is swept?"),
        (("llama-3.1-8b",), "needs the axis 'hardware'"),
        (("llama-3.1-8b", "-H", "l4", "--batch", "1:2000"), "2,000 points are too many to read"),
        (("llama-3.1-8b", "-H", "l4", "--columns", "fit"), "unknown column 'fit'"),
        (("llama-3.1-8b", "-H", "l4", "--by", "tp"), "give --reduce"),
        (("llama-3.1-8b", "-H", "l4", "-o", "x.toml"), "must be one of .csv, .html, .json, .md, .parquet"),
        (("llama-3.1-8b", "-H", "l4", "-o", "no/such/x.csv"), "there is no folder no/such"),
        (("llama-3.1-8b", "-H", "l4", "--part-rows", "0"), "part-rows"),
        (("llama-3.1-8b", "-H", "l4", "--executor", "ray", "-o", "folder"), "unknown executor 'ray'"),
    ],
)
def test_bad_questions(run: Run, arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run("sweep", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == []


def test_a_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    answer = run(*ASK, "-o", str(tmp_path / "folder"))
    assert answer.code == 2
    assert "cannot make the folder" in answer.err


def test_names_are_text(run: Run, tmp_path: Path) -> None:
    """A model whose name is a formula to a spreadsheet, or moves the cursor."""
    text = (shipped("models") / "gpt2.yaml").read_text(encoding="utf-8")
    path = tmp_path / "evil.yaml"
    path.write_text(text.replace("name: gpt2\n", 'name: "=cmd()"\n', 1))
    answer = run("sweep", str(path), "-H", "l4", "-o", str(tmp_path / "x.csv"))
    if answer.code:  # such a name is refused
        assert answer.code == 2
    else:
        assert "\n=" not in (tmp_path / "x.csv").read_text()
