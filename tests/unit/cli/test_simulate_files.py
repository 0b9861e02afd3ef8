"""What `roofline simulate` writes beside its answer: a page, a trace; and what it refuses before it does the work."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ASK = (
    "simulate", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--rate", "4", "--input-len", "300", "--output-len", "20",
    "--requests", "60",
)  # fmt: skip


def test_a_page(run: Run, tmp_path: Path) -> None:
    """With the command that makes it again; nothing on stdout."""
    path = tmp_path / "page.html"
    answer = run(*ASK, "--ttft", "1 s", "--preemption", "swap", "--pageable", "-o", str(path))
    assert (answer.code, answer.out, answer.err) == (0, "", f"wrote {path}\n")
    text = path.read_text(encoding="utf-8").replace("</span> <span>", " ")
    assert "60 of 60 requests completed" in text
    line = (
        "simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 4 --requests 60 --ttft &#39;1 s&#39; "
        "--input-len 300 --output-len 20 --preemption swap --pageable"
    )
    assert f"{line}</span></code>" in text
    assert f"{line} --output page.html</span></code>" in text


def test_a_trace_beside_the_answer(run: Run, tmp_path: Path) -> None:
    """Its requests are those of the answer, which is the same with it and without."""
    path = tmp_path / "trace.json.gz"
    answer = run(*ASK, "--perfetto", str(path), "--json")
    assert (answer.code, answer.err) == (0, f"wrote {path}\n")
    assert answer.out == run(*ASK, "--json").out
    found = json.loads(gzip.decompress(path.read_bytes()))
    assert found["otherData"]["model"] == "llama-3.1-8b"
    ended = [event for event in found["traceEvents"] if "e2e_s" in event.get("args", {})]
    assert {event["args"]["request"] for event in ended} == set(range(60))
    mean = sum(event["args"]["e2e_s"] for event in ended) / 60
    assert mean == pytest.approx(json.loads(answer.out)["e2e_s"]["mean"], rel=1e-4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "page.htm"), "the suffix says the format, and must be one of .csv, .parquet, .json, .md, .html"),
        (("-o", "none/page.html"), "cannot write none/page.html: there is no folder none"),
        (("--perfetto", "none/trace.json"), "cannot write none/trace.json: there is no folder none"),
        (("--perfetto", "trace.txt"), "the name must end in .json or .json.gz"),
        (("--perfetto", "trace.json", "--replications", "3"), "--perfetto shows one run: leave out --replications"),
        (("--perfetto", "a.json", "-o", "a.json"), "--perfetto and --output are both a.json"),
        (("-o", "folder.html"), "cannot write folder.html: it is a folder"),
    ],
)
def test_refusals(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str) -> None:
    """Exit 2, before a request is served, and no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    monkeypatch.setattr("roofline.serving.simulation.simulate.run", lambda *_, **__: pytest.fail("the work was done"))
    answer = run(*ASK, *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_what_does_not_fit_is_said_and_not_traced(run: Run, tmp_path: Path) -> None:
    """Exit 1; the page says why, and there is no trace to speak of."""
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    answer = run(*ASK, "--memory", "10 GiB", "-o", str(page), "--perfetto", str(trace))
    assert (answer.code, answer.out) == (1, "")
    assert "does not run on" in page.read_text(encoding="utf-8")
    assert str(trace) not in answer.err
    assert not trace.exists()
