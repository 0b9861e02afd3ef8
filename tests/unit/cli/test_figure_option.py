"""`--figure NAME -o FILE`: a figure of a page as a file, by each command that has figures."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer

import roofline
from roofline.cli.commands import Commands, analyze, compare, limits, op, plan, preempt, simulate, sweep
from roofline.report.figures import figure_names

Run = Callable[..., Any]
LOAD = ("--input-len", 1024, "--output-len", 64)
_SVG = "{http://www.w3.org/2000/svg}"


def _heading(path: Path) -> list[str]:
    """Title, and what the figure is of."""
    tree = ET.parse(path).getroot()  # noqa: S314 - our own
    return [element.text or "" for element in tree.findall(f"{_SVG}text")]


COMMANDS = {
    "analyze": (("analyze", "llama-3.1-8b", "-H", "h100-sxm"), "memory", "Memory"),
    "report": (("report", "llama-3.1-8b", "-H", "h100-sxm,a100-sxm-80gb"), "memory", "Memory"),
    "op": (("op", "gemm", 512, 8192, 28672, "-H", "h100-sxm"), "resources", "How long each resource is busy"),
    "limits": (("limits", "llama-3.1-8b", "-H", "l4"), "batch-limits", "Batch limits"),
    "claim": (
        ("claim", "llama-3.1-8b on a100-sxm-80gb: 100 tok/s at batch 1 fp16"), "scale-0", "On the scale",
    ),
    "preempt": (("preempt", "llama-3.1-8b", "-H", "l4", "--tokens", 2048), "blocks", "Recompute time over swap time"),
    "sweep": (("sweep", "llama-3.1-8b", "-H", "l4", "--batch", "1,2", "--context", "1k,2k"), "map-decode-0", "TPOT"),
    "simulate": (
        ("simulate", "llama-3.1-8b", "-H", "h100-sxm", "--rate", 5, "--until", "60s", *LOAD), "tail", "Tail: share of the",
    ),
    "plan": (
        ("plan", "llama-3.1-8b", "-H", "h100-sxm", "--rate", 5, "--ttft", "2s", "--tpot", "50ms", *LOAD),
        "cost-ttft",
        "Cost against TTFT",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_figure_by_name(run: Run, tmp_path: Path, command: str) -> None:
    """Its title, and under it what the result is of; another than the first; nothing on stdout."""
    words, name, title = COMMANDS[command]
    path = tmp_path / "figure.svg"
    answer = run(*words, "--figure", name, "-o", path)
    assert (answer.code, answer.out) == (0, "")
    heading = _heading(path)
    assert heading[0].startswith(title)
    assert ("gemm" if command == "op" else "lama") in heading[1]


def test_without_a_name_it_is_the_first(run: Run, tmp_path: Path) -> None:
    """And JSON goes to stdout all the same."""
    path = tmp_path / "figure.svg"
    answer = run(*COMMANDS["analyze"][0], "--json", "-o", path)
    assert json.loads(answer.out)["memory"]["fits"] is True
    assert _heading(path)[0] == "Roofline"


def test_of_measurements(run: Run, tmp_path: Path) -> None:
    """`validate` has figures too."""
    records = tmp_path / "records.csv"
    columns = "source,gpu,op,dtype,m,n,k,latency_us,backend"
    records.write_text(f"{columns}\nown,h100_sxm,gemm,bf16,512,8192,28672,330,vllm\n", encoding="utf-8")
    assert run("validate", records, "--figure", "residuals", "-o", tmp_path / "v.svg").code == 0
    assert _heading(tmp_path / "v.svg")[0] == "Residuals"


def test_of_an_engine_log(run: Run, tmp_path: Path) -> None:
    """`compare` has the figures that its option names."""
    examples = Path(__file__).parents[3] / "docs" / "examples"
    words = ("compare", "--engine-log", examples / "vllm.log", "--bench", examples / "vllm-bench.json", "-H", "h100-sxm")
    for name in compare.FIGURES:
        assert run(*words, "--figure", name, "-o", tmp_path / f"{name}.svg").code == 0
        assert "Qwen3 32B" in _heading(tmp_path / f"{name}.svg")[1]


def test_of_saved_results(run: Run, tmp_path: Path) -> None:
    """`report --from` has the figures of what it was given, and names them."""
    saved, path = tmp_path / "grid.json", tmp_path / "map.svg"
    assert run(*COMMANDS["sweep"][0], "-o", saved).code == 0
    assert run("report", "--from", saved, "--figure", "map-decode-0", "-o", path).code == 0
    assert _heading(path)[0].startswith("TPOT")
    assert "front-decode" in run("report", "--from", saved, "--figure", "memory", "-o", path).refused()
    assert ".html" in run("report", "--calculator", "-o", path).refused()


@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_png_and_pdf(run: Run, tmp_path: Path, suffix: str) -> None:
    """The same figure."""
    pytest.importorskip("typst", reason="the extra 'figures' is not installed")
    words, name, _ = COMMANDS["op"]
    path = tmp_path / f"figure{suffix}"
    assert run(*words, "--figure", name, "-o", path).code == 0
    content = path.read_bytes()
    if suffix == ".pdf":
        assert content.startswith(b"%PDF-")
    else:
        assert struct.unpack(">I", content[16:20]) == (2 * 784,)


def test_a_wrong_name_is_refused_before_the_work(run: Run, tmp_path: Path) -> None:
    """With the nearest and all names; nothing is written."""
    endless = ("simulate", "llama-3.1-8b", "-H", "h100-sxm", "--rate", 1, "--until", "1000000h", *LOAD)
    message = run(*endless, "--figure", "tial", "-o", tmp_path / "f.svg").refused()
    assert "Did you mean tail?" in message
    assert ", ".join(simulate.FIGURES) in message
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_this_result_has_not(run: Run, tmp_path: Path) -> None:
    """A name of another result of the command: those of this one are listed. Where there is none, it says so."""
    words = (*COMMANDS["op"][0], "--figure", "curve", "-o", tmp_path / "f.svg")
    assert "Known: roofline, resources." in run(*words).refused()
    assert "no figures" in run("limits", "llama-3.1-70b", "-H", "l4", "-o", tmp_path / "f.svg").refused()


@pytest.mark.parametrize("output", [(), ("-o", "result.json")])
def test_a_figure_needs_a_picture(run: Run, output: tuple[str, ...]) -> None:
    """The error says what to add."""
    assert "FILE.svg, FILE.png or FILE.pdf" in run(*COMMANDS["analyze"][0], "--figure", "memory", *output).refused()


def test_a_missing_extra_is_named_before_the_work(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 3, as of every extra."""
    monkeypatch.setitem(sys.modules, "typst", None)
    endless = ("simulate", "llama-3.1-8b", "-H", "h100-sxm", "--rate", 1, "--until", "1000000h", *LOAD)
    answer = run(*endless, "-o", tmp_path / "f.pdf")
    assert (answer.code, answer.out) == (3, "")
    assert "roofline[figures]" in answer.err


def test_commands_without_figures_have_no_such_option(run: Run, tmp_path: Path) -> None:
    """`explain` has formulas, and no picture of them."""
    assert "--figure" in run("explain", "llama-3.1-8b", "--figure", "x").refused()
    assert ".json" in run("explain", "llama-3.1-8b", "-o", tmp_path / "x.svg").refused()


@pytest.mark.slow
def test_names_of_the_option_are_those_of_the_results() -> None:
    """What help and shell completion offer is there, and nothing else is."""
    load = {"input_len": "1024", "output_len": "64"}
    results: dict[Any, list[Any]] = {
        analyze: [
            roofline.analyze("llama-3.1-8b", "h100-sxm"),
            roofline.analyze("llama-3.1-8b", "h100-sxm", segments="4x1@1024,1x512@0"),
            roofline.analyze("gemma-3-12b", "h100-sxm", images=1),
        ],
        op: [roofline.op("gemm", n=8192, k=28672, hardware="h100-sxm", sweep="m=1:1024:x2")],
        limits: [roofline.limits("llama-3.1-8b", "l4", tpot="100 ms")],
        preempt: [roofline.preempt("llama-3.1-8b", "l4", tokens=2048)],
        simulate: [
            roofline.simulate("llama-3.1-8b", "h100-sxm", rate=5, until="60s", **load),
            roofline.simulate("llama-3.1-8b", "h100-sxm", rate=5, until="20s", autoscale="max=2,start-up=5 s", **load),
            roofline.simulate("llama-3.1-8b", "h100-sxm", find_rate=True, ttft="1 s", requests=60, replications=1, **load),
        ],
        plan: [
            roofline.plan("llama-3.1-8b", hardware=["h100-sxm"], dtype="bf16", rate=20, ttft="1s", tpot="50ms", **load),
            roofline.plan("llama-3.1-8b", hardware=["h100-sxm"], dtype="bf16", tokens="10M", deadline="12 h", **load),
        ],
    }
    for command, several in results.items():
        assert {name for result in several for name in figure_names(result)} == set(command.FIGURES), command
    both = {"model": "llama-3.1-8b", "hardware": ["l4"], "batch": [1, 2], "phase": "prefill,decode"}
    grids = [
        roofline.sweep({**both, "context": "1k,2k", "input_len": "1k,2k"}),
        roofline.sweep({**both, "batch": [1, 2, 4, 8, 16, 32, 64], "context": "1k"}),
    ]
    names = [name for grid in grids for name in figure_names(grid)]
    assert [name for name in names if not any(fnmatchcase(name, pattern) for pattern in sweep.FIGURES)] == []


def test_the_shell_completes_names() -> None:
    """Those that begin so; names that stand for several are left to the error."""
    commands = Commands()
    for name, start, expected in (
        ("analyze", "time", "time-encoder time-prefill time-decode time-mixed"),
        ("sweep", "map", ""),
    ):
        (option,) = [entry for entry in commands[name].params if entry.name == "figure"]
        context = typer.Context(commands[name])
        assert [item.value for item in option.shell_complete(context, start)] == expected.split()
