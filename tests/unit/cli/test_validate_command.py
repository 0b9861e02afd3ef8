"""`roofline validate` and `roofline bench` as commands: tables, codes, messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Run = Callable[..., Any]

HEADER = "source,gpu,op,dtype,m,n,k,latency_us,backend"
ROW = "lab,h100-sxm,gemm,bf16,16,4096,4096,{},torch"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Three products on a shipped card, one with a negative latency. 33.8 MB over 3.35 TB/s are 10.1 us."""
    path = tmp_path / "records.csv"
    path.write_text("\n".join([HEADER, ROW.format(20), ROW.format(-3), ROW.format(25)]) + "\n", encoding="utf-8")
    return path


def test_table(run: Run, records: Path) -> None:
    """The table on stdout, the refused row on stderr, both counts in the first lines; regimes with -v."""
    answer = run("validate", records)
    assert answer.code == 0
    assert answer.out.startswith("2 records of 1 file compared with predictions\nh100-sxm · 1 refused\n\n")
    # 10.1 us predicted against 20 and 25
    assert "Median error of the bound: 55 %." in answer.out
    (row,) = [line.split() for line in answer.out.splitlines() if line.startswith("  gemm ")]
    assert row[:6] == ["gemm", "2", "22.5", "µs", "55", "%"]
    assert "  Faster than bound  none\n" in answer.out
    assert "m<=64" not in answer.out
    assert "\n  gemm  bf16 torch  m<=64 " in run("validate", records, "-v").out
    assert answer.err == f"refused: {records}:3: latency_us: -3 is not above 0\n"


def test_json(run: Run, records: Path) -> None:
    """The keys of the contract, the hash of the hardware that was used."""
    answer = run("validate", records, "--json", "--quiet")
    found = json.loads(answer.out)
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert found["inputs"]["h100-sxm"]["sha256"]
    assert (found["rows"], found["refused"]) == (2, 1)
    (group,) = found["groups"]
    for name in ("hardware", "op", "dtype", "backend", "regime", "n", "bound", "estimate", "coverage"):
        assert name in group
    assert set(group["bound"]) == {"median_ape", "mape", "bias"}
    assert found["overall"]["bound"]["bias"] < 0
    assert answer.err == ""


@pytest.mark.parametrize(("limit", "code"), [("0.9", 0), ("90%", 0), ("0.1", 1), ("10%", 1)])
def test_threshold(run: Run, records: Path, limit: str, code: int) -> None:
    """10 us predicted against 20 and 25: an error of about 55 %. The whole answer is there either way."""
    answer = run("validate", records, "--max-error", limit, "--json")
    assert answer.code == code
    text = run("validate", records, "--max-error", limit).out
    assert f"{'above' if code else 'within'} --max-error {'10' if code else '90'} %." in text
    assert json.loads(answer.out)["within_max_error"] is (code == 0)


def test_output_file(run: Run, records: Path, tmp_path: Path) -> None:
    """One row a group."""
    assert run("validate", records, "-o", tmp_path / "groups.csv").code == 0
    header, *rows = (tmp_path / "groups.csv").read_text(encoding="utf-8").splitlines()
    assert "bound_mape" in header
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["{records}", "--max-error", "much"], "--max-error"),
        (["{records}", "--hardware", "h101"], "unknown hardware 'h101'"),
        (["{records}", "--backend", "other"], "3 rows are of other backends"),
    ],
)
def test_bad_usage(run: Run, records: Path, arguments: list[str], words: str) -> None:
    """One message, nothing on stdout."""
    answer = run("validate", *(argument.format(records=records) for argument in arguments))
    assert answer.code == 2
    assert answer.out == ""
    assert words.replace("3 rows", "2 rows") in answer.err


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "run", "--suite", "all"], ["bench", "list"]])
def test_without_torch(run: Run, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3, and the extra's name."""
    monkeypatch.setitem(sys.modules, "torch", None)
    answer = run(*arguments)
    assert (answer.code, answer.out) == (3, "")
    assert "roofline[bench]" in answer.err


def test_records_can_be_shown_without_torch(run: Run, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at what others measured needs no torch."""
    monkeypatch.setitem(sys.modules, "torch", None)
    answer = run("bench", "show", records.parent)
    assert answer.code == 0
    assert "2 records" in answer.out
    assert f"  Refused  {records}:3" in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suite", "celings"], ["unknown suite 'celings'", "ceilings"]),
        (["--device", "tpu"], ["--device must be cuda or cpu, not 'tpu'"]),
        (["--dtype", "bf17"], ["unknown dtype 'bf17'", "bf16"]),
        (["--budget", "soon"], ["--budget", "540"]),
        (["--budget", "0"], ["--budget", "5 seconds or more"]),
        (["--device", "cpu", "--dtype", "tf32"], ["tf32", "fp32"]),
        (["--device", "cpu", "-o", "{file}"], ["is a file; records go into a folder"]),
        (["--device", "cpu", "-o", "/proc/nowhere/records"], ["/proc/nowhere/records", "cannot be written"]),
    ],
)
def test_bad_usage_of_the_bench(process: Run, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    """One message: what is wrong, what is allowed. In a process of its own, for a run binds its threads to cores."""
    pytest.importorskip("torch", reason="measuring needs torch")
    (tmp_path / "file").write_text("")
    message = process("bench", "run", *(part.format(file=tmp_path / "file") for part in arguments)).refused()
    for word in words:
        assert word in message


def test_cuda_where_there_is_none(process: Run) -> None:
    """Says what is missing and what works."""
    torch = pytest.importorskip("torch", reason="measuring needs torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert "--device cpu" in process("bench", "run", "--device", "cuda").refused()


def test_list(run: Run) -> None:
    """Suites, ops, counts; every point with --json."""
    pytest.importorskip("torch", reason="measuring needs torch")
    answer = run("bench", "list", "--suite", "ceilings,transfers", "--device", "cpu")
    assert answer.code == 0
    assert "copy_d2d" in answer.out
    points = json.loads(run("bench", "list", "--suite", "ceilings", "--device", "cpu", "--json").out)["points"]
    assert {point["suite"] for point in points} == {"ceilings"}
    assert all(point["bytes"] > 0 for point in points)


def test_its_input_is_not_overwritten(run: Run, records: Path) -> None:
    """A slip of -o must not cost a measurement."""
    before = records.read_bytes()
    assert "would be overwritten" in run("validate", records, "-o", records).refused()
    assert records.read_bytes() == before


@pytest.mark.parametrize(
    "content", ['{"runs": 5}', '{"runs": [1, {"after": {"power_w": "hot"}}]}', '{"device": 5, "libraries": "x"}', "[]"]
)
def test_show_with_an_odd_environment(run: Run, records: Path, content: str) -> None:
    """What can be shown is shown."""
    (records.parent / "environment.json").write_text(content)
    answer = run("bench", "show", records.parent)
    assert answer.code == 0
    assert "2 records" in answer.out


def test_show_of_nothing(run: Run, tmp_path: Path) -> None:
    """No folder, and a folder without records."""
    assert "no such folder" in run("bench", "show", tmp_path / "nowhere").refused()
    assert "no records in this folder" in run("bench", "show", tmp_path).refused()
