"""`roofline simulate`: the keys of the contract, exit codes, files, and what a person reads."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ON = ("simulate", "llama-3.1-8b", "--hardware", "a100-sxm-80gb")
ASK = (*ON, "--rate", "4", "--input-len", "lognormal:800:400", "--output-len", "60", "--requests", "200")
LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")


def test_keys(run: Run) -> None:
    """The head of every result, and the keys of the contract."""
    answer = run(*ASK, "--ttft", "1 s", "--tpot", "50 ms", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert {"completed", "refused", "preemptions"} <= found["requests"].keys()
    assert found["requests"]["completed"] == 200
    for name in LATENCIES:
        latency = found[name]
        assert {"mean", "p50", "p90", "p95", "p99"} <= latency.keys()
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p95"] <= latency["p99"] <= latency["max"]
    assert found["throughput"].keys() >= {"requests_per_s", "output_tokens_per_s"}
    assert found["utilisation"].keys() == {"compute", "memory", "kv"}
    assert found["offered_rate"] == pytest.approx(4, rel=0.25)
    assert found["saturated"] is False
    assert found["goodput"] <= found["throughput"]["requests_per_s"]
    assert found["duration_s"] == pytest.approx(50, rel=0.25)
    assert {"name", "value", "origin", "why"} == set(found["assumptions"][0])
    assert len({note["name"] for note in found["assumptions"]}) == len(found["assumptions"])


@pytest.mark.slow
def test_a_trace(run: Run, tmp_path: Path) -> None:
    """Its arrivals, stretched by --rate, cut by --until; broken rows are errors, or left out."""
    path = tmp_path / "trace.csv"
    rows = "".join(f"{second},{100 + second},10\n" for second in range(20))
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + rows)
    found = json.loads(run(*ON, "--trace", path, "--json").out)
    assert found["offered_rate"] == pytest.approx(1)
    assert found["inputs"]["trace"]["sha256"]
    assert json.loads(run(*ON, "--trace", path, "--rate", "4", "--json").out)["offered_rate"] == pytest.approx(4)
    assert json.loads(run(*ON, "--trace", path, "--until", "9.5 s", "--json").out)["requests"]["completed"] == 10
    path.write_text(path.read_text() + "x,1,1\n")
    assert f"{path}:22: arrived_at must be a number" in run(*ON, "--trace", path).refused()
    assert run(*ON, "--trace", path, "--skip-bad-rows", "--json").code == 0


def test_what_a_person_reads(run: Run) -> None:
    """The verdict, latencies and load on one screen; every assumption with -vv; a pipe has no box characters."""
    query = (*ASK, "--ttft", "1 s", "--replicas", "2", "--scheduler", "sarathi")
    text = run(*query).out
    lines = text.splitlines()
    assert lines[0] == "Llama 3.1 8B on NVIDIA A100 SXM4 80GB"
    words = " ".join(text.split())
    assert "2 replicas (round-robin) · scheduler sarathi 200 of 200 requests completed in" in words
    assert "of the requests meet the SLO: goodput" in words
    for word in ("TTFT", "TPOT", "ITL", "E2E", "p99", "Utilization", "KV cache size"):
        assert word in text
    assert "│" not in text
    assert "means over time" not in text
    assert "means over time" in run(*query, "-v").out
    every = run(*query, "-vv").out.splitlines()
    names = [line.split()[0] for line in every[every.index("Assumptions") + 1 :] if line.startswith("  ") and line[2] != " "]
    assert {"max_num_seqs", "gpu_memory_utilization"} <= set(names)
    assert not {"batch", "input_len", "context"} & set(names)  # of `analyze`: here the workload says it


def test_saturated_and_refused(run: Run, tmp_path: Path) -> None:
    """Both are said in a sentence, with numbers."""
    answer = run(*ON, "--rate", "500", "--input-len", "2000", "--output-len", "100", "--requests", "2000")
    assert "Saturated: " in answer.out
    assert "req/s; queues grow" in " ".join(answer.out.split())
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n1,200000,5\n")
    text = " ".join(run(*ON, "--trace", path).out.split())
    assert "1 request refused, such as request 1: 200,005 tokens are more than" in text


def test_replications(run: Run) -> None:
    """A table of confidence intervals."""
    answer = run(*ASK, "--replications", "3")
    assert "3 runs with other seeds; 95 % confidence: TTFT p99" in answer.out
    found = json.loads(run(*ASK, "--replications", "3", "--json").out)
    assert found["replications"]["figures"]["ttft_s.mean"].keys() == {"mean", "low", "high"}


def test_files(run: Run, tmp_path: Path) -> None:
    """Rows as they end beside the answer on stdout; the answer itself as JSON or Markdown."""
    rows = tmp_path / "rows.csv"
    answer = run(*ASK, "-o", rows)
    assert answer.err == f"wrote {rows}\n"
    assert "200 of 200 requests completed" in answer.out
    with rows.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 200
    whole = tmp_path / "whole.json"
    answer = run(*ASK, "-o", whole, "--quiet")
    assert (answer.out, answer.err) == ("", "")
    assert json.loads(whole.read_text())["requests"]["completed"] == 200
    page = tmp_path / "page.md"
    run(*ASK, "-o", page)
    assert page.read_text().startswith("# Llama 3.1 8B on ")
    assert "must be one of" in run(*ASK, "-o", tmp_path / "page.xyz").refused()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--scheduler", "fifo"), "unknown scheduler 'fifo'"),
        (("--replications", "0"), "--replications"),
        (("--until", "5"), "--until"),
        (("--workload", "poison:3"), "unknown arrivals 'poison'"),
    ],
)
def test_refused(run: Run, more: tuple[str, ...], message: str) -> None:
    """2, one message, nothing on stdout."""
    assert message in run(*ASK, *more).refused()


def test_no_room(run: Run) -> None:
    """1, the whole object, no figures."""
    answer = run(*ASK, "--memory", "10 GiB", "--json")
    found = json.loads(answer.out)
    assert (answer.code, found["fits"], found["requests"]["completed"]) == (1, False, 0)
    text = run(*ASK, "--memory", "10 GiB").out
    assert "does not run on a100-sxm-80gb: the weights alone do not fit" in " ".join(text.split())


def test_whom_it_serves(run: Run) -> None:
    """1 where everybody who came is refused; 0 where somebody is served, and where nobody came."""
    lengths = ("--input-len", "800", "--output-len", "60", "--json")
    refused = run(*ON, "--rate", "4", *lengths, "--max-model-len", "500", "--requests", "5")
    assert (refused.code, json.loads(refused.out)["requests"]["refused"]) == (1, 5)
    nobody = run(*ON, "--rate", "0.001", *lengths, "--until", "1 ms")
    assert (nobody.code, json.loads(nobody.out)["requests"]["arrived"]) == (0, 0)


@pytest.mark.slow
def test_interrupted(tmp_path: Path) -> None:
    """4, and a result of what was served."""
    rows = tmp_path / "rows.csv"
    command = [sys.executable, "-m", "roofline", *ASK, "--requests", "100000000", "--json", "-o", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 600
        while not any(
            path.stat().st_size > 2**16 for path in tmp_path.iterdir()
        ):  # rows have a name of their own until the end
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    found = json.loads(out)
    assert process.returncode == 4
    assert "stopped: the result is of what was served so far" in err
    assert found["interrupted"]
    lines = rows.read_text().splitlines()
    assert len(lines) - 1 == found["requests"]["completed"] > 0
    assert len({line.count(",") for line in lines}) == 1


def test_nothing_to_simulate(run: Run) -> None:
    """What would say it."""
    assert "give --rate, --workload" in run(*ON).refused()


@pytest.mark.slow
def test_the_highest_rate(run: Run, tmp_path: Path) -> None:
    """JSON, what a person reads, the page of the saved result, and exit code 1 where no rate holds."""
    load = ("--find-rate", "--input-len", "500", "--output-len", "60", "--requests", "100", "--replications", "2")
    answer = run(*ON, *load, "--tpot", "25 ms", "--json")
    assert answer.code == 0
    found = json.loads(answer.out)["find_rate"]
    assert {"rate", "low", "high", "binds", "points", "rates", "percentile"} <= found.keys()
    assert found["binds"] == "tpot"
    (tmp_path / "found.json").write_text(answer.out)
    assert run("report", "--from", str(tmp_path / "found.json"), "-o", str(tmp_path / "page.html")).code == 0
    assert "Rates tried" in (tmp_path / "page.html").read_text()
    text = run(*ON, *load, "--tpot", "25 ms", "-v")
    assert "beyond it TPOT exceeds its objective first" in " ".join(text.out.split())
    assert "Rates tried" in text.out
    assert run(*ON, *load, "--tpot", "1 ms").code == 1
    assert run(*ON, *load).code == 2


def test_confidence_in_json(run: Run) -> None:
    """An interval of each figure, or why there is none; 200 requests have no 99th percentile to speak of."""
    found = json.loads(run(*ASK, "--ttft", "1 s", "--json").out)
    for name in LATENCIES:
        one = found[name]["confidence"]
        assert (one["level"], one["method"]) == (0.95, "batch-means")
        for figure in ("mean", "p50", "p90", "p95", "p99"):
            assert (one[figure]["low"] is None) == ("why" in one[figure])
    assert found["ttft_s"]["confidence"]["p99"]["why"] == "200 requests: at least 1,000 are needed"
    assert found["warm_up"] == {"requests": 0, "method": "none", "why": "of fewer than 1,000 requests all count"}
