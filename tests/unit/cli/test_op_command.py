"""`roofline op` on the command line: one screen, JSON, files, lists of operators and dimensions, errors."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roofline

Run = Callable[..., Any]
GEMM = ("op", "gemm", "512", "8192", "28672", "-H", "h100-sxm")
COMMANDS = [
    GEMM[1:-2],
    ("gemm", "--m", "64", "n=4096", "--k=4096", "--quantization", "w4a16"),
    ("attention", "--batch", "32", "--q-len", "1", "--kv-len", "8k", "--heads", "32", "--kv-heads", "8", "--head-dim", "128"),
    ("attention", "--q-len", "8k", "--kv-len", "8k", "--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--window", "1k"),
    ("latent-attention", "--batch", "8", "--kv-len", "4k", "heads=16", "r_kv=512", "d_nope=128", "d_rope=64", "d_v=128"),
    ("all-reduce", "64 MB", "--tp", "8"),
    ("experts", "64", "128", "8", "2048", "768"),
    ("norm", "4096", "8192", "--adds", "1"),
    ("gemm", "n=8192", "k=28672", "--sweep", "m=1:8192:x2"),
    ("gemm", "n=8192", "k=28672", "--sweep", "m=1:100"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_answer_is_one_screen(run: Run, command: tuple[str, ...]) -> None:
    """At most 30 lines of at most 100 columns, without the marks of code."""
    answer = run("op", *command, "-H", "h100-sxm")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 100
    assert not re.search(r"None|True|\\d{9}\\.|e\\+\\d|\\{|_flops|_bytes", answer.out)


def test_json_is_the_result_of_python(run: Run) -> None:
    """The same fields with the same numbers; inputs first."""
    document = json.loads(run(*GEMM, "--json").out)
    result = roofline.op("gemm", m=512, n=8192, k=28672, hardware="h100-sxm")
    assert list(document)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert document["time_s"]["estimate"] == result.time.estimate
    assert document.pop("reproduce") == "roofline op gemm 512 8192 28672 --hardware h100-sxm"
    assert document == json.loads(result.to_json())
    assert document["dims"] == {"m": 512, "n": 8192, "k": 28672, "batch": 1, "bias": False}
    assert {part["subject"]: part["formula"] for part in document["formulas"]}["matrix_flops"] == "2·m·n·k"


def test_points_of_a_sweep_have_the_layout_of_one_shape(run: Run) -> None:
    """Each is what a command for that shape alone gives; sizes in bytes have units in ranges too."""
    document = json.loads(run("op", "all_reduce", "1MB", "8", "-H", "h100-sxm", "--sweep", "bytes=1MB:4MB:x2", "--json").out)
    assert [point["dims"]["bytes"] for point in document["points"]] == [10**6, 2 * 10**6, 4 * 10**6]
    assert document["sweep"]["dimension"] == "bytes"
    alone = json.loads(run("op", "all-reduce", "2 MB", "8", "-H", "h100-sxm", "--json").out)
    assert document["points"][1] == {name: alone[name] for name in document["points"][1]}
    assert document["points"][1]["link_bytes"] == 2 * 10**6 * 2 * 7 / 8  # a ring sends 2 (n - 1) / n of the bytes
    assert document["formula"]["formula"] == "bytes·(2·tp - 2) / tp"


def test_the_ridge_point_is_of_the_peak_in_use(run: Run) -> None:
    """Of a product the matrix peak of its dtype: 989.4 TFLOP/s over 3.35 TB/s."""
    document = json.loads(run(*GEMM, "--json").out)
    assert document["ridge_point"] == document["hardware"]["ridge_point"] == pytest.approx(989.4e12 / 3.35e12, rel=1e-12)
    assert document["formula"] in document["formulas"]
    assert document["formula"]["value"] == document["time_s"]["bound"]


def test_a_sweep_is_a_table_and_files(run: Run, tmp_path: Path) -> None:
    """14 values of m; CSV has a row for each, a page and a picture the curve."""
    sweep = ("op", "gemm", "n=8192", "k=28672", "--sweep", "m=1:8192:x2", "-H", "h100-sxm")
    text = run(*sweep).out
    assert "Compute-bound from m = 310; below that, memory-bound." in text
    for suffix in ("csv", "json", "html", "svg", "md"):
        assert run(*sweep, "-o", tmp_path / f"curve.{suffix}").code == 0
    with (tmp_path / "curve.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["m"]) for row in rows] == [2**power for power in range(14)]
    assert {row["bound_by"] for row in rows} == {"memory", "compute"}
    page = (tmp_path / "curve.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert "roofline op gemm n=8192 k=28672 --hardware h100-sxm --sweep m=1:8192:x2" in page.replace("</span> <span>", " ")
    picture = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert "gemm n=8,192 k=28,672" in picture


def test_points_of_a_long_sweep_are_chosen_evenly(run: Run) -> None:
    """14 of 100, all with -v."""
    long = ("op", "gemm", "n=8192", "k=28672", "--sweep", "m=1:100", "-H", "h100-sxm")
    rows = [line for line in run(*long).out.splitlines() if re.match(r" +\d+ +[\d.]+ ", line)]
    assert len(rows) == 14
    assert (rows[0].split()[0], rows[-1].split()[0]) == ("1", "100")
    assert len([line for line in run(*long, "-v").out.splitlines() if re.match(r" +\d+ +[\d.]+ ", line)]) == 100


def test_without_hardware_it_lists(run: Run) -> None:
    """The operators, or the dimensions of one with what they mean."""
    assert "  gemm m n k [batch] [bias]\n" in run("op").out
    text = run("op", "attention").out
    assert "num_key_value_heads" in text
    assert "  roofline op attention --batch 32" in text
    listed = json.loads(run("op", "experts", "--json").out)["dimensions"]
    assert [entry["dimension"] for entry in listed][:5] == ["tokens", "experts", "top_k", "hidden", "intermediate"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gem", "1"), "unknown operator 'gem'. Did you mean gemm"),
        (("gemm", "1", "2", "3"), "name the hardware with -H: roofline op gemm 512 8192 28672 -H h100-sxm"),
        (("gemm", "--sequence", "3", "-H", "h100-sxm"), "unknown dimension or option of gemm 'sequence'"),
        (("gemm", "1", "2", "--hardwre", "h100-sxm"), "Did you mean hardware"),
        (("gemm", "1", "2", "--k", "-H", "h100-sxm"), "--k needs a value"),
        (("gemm", "1", "2", "3", "-z", "-H", "h100-sxm"), "unknown option -z"),
        (("gemm", "1", "2", "--k", "3", "k=4", "-H", "h100-sxm"), "k is given twice"),
        (("gemm", "1", "2", "3", "-H", "h100-sxm", "--peak-flops", "5"), "--peak-flops"),
        (("gemm", "1", "2", "3", "-H", "h100-sxm", "-o", "x.gif"), "the suffix says the format"),
    ],
    ids=str,
)
def test_errors_name_what_is_allowed(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, one message, nothing on stdout."""
    assert message in run("op", *arguments).refused()
