"""`roofline limits`: the keys of the contract, exit codes, files, and what a person reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ASK = ("limits", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--context", "1k,8k")


def test_keys(run: Run) -> None:
    """The head of every result, and the keys of a row."""
    answer = run(*ASK, "--json")
    found = json.loads(answer.out)
    assert answer.code == 0
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert found["inputs"]["model"]["sha256"]
    assert [row["context"] for row in found["rows"]] == [1024, 8192]
    for row in found["rows"]:
        assert row["max_batch_slo"] is None
        assert row["first"] == "memory"
        assert row["max_batch_memory"] == row["batch"] > 0
        assert row["critical_batch"] is None
    assert {"variant", "context", "max_batch_memory", "kv_bytes_per_sequence"} <= set(found["variants"][0])
    assert found["slo"] == {"ttft_s": None, "tpot_s": None, "basis": None}
    assert {"name", "value", "origin", "why"} == set(found["assumptions"][0])


def test_an_slo_is_first(run: Run) -> None:
    """A TPOT that memory's batch misses, by the estimate; the bound allows more."""
    found = json.loads(run(*ASK, "--tpot", "20 ms", "--json").out)
    (row, _) = found["rows"]
    assert found["slo"] == {"ttft_s": None, "tpot_s": 0.02, "basis": "estimate"}
    assert (row["first"], row["batch"]) == ("slo", row["max_batch_slo"])
    assert row["max_batch_slo"] < row["max_batch_slo_bound"]
    low, high = row["max_batch_slo_interval"]
    assert low <= row["max_batch_slo"] <= high
    assert row["tpot_s"]["estimate"] <= 0.02
    assert row["tokens_per_s"]["low"] < row["tokens_per_s"]["estimate"] < row["tokens_per_s"]["high"]


def test_the_answer_is_no(run: Run) -> None:
    """1 where no context has a batch; the whole object is on stdout, and stderr says why."""
    answer = run(*ASK, "--tpot", "1 ms", "--json")
    assert answer.code == 1
    assert {row["max_batch_slo"] for row in json.loads(answer.out)["rows"]} == {0}
    assert "From 1,024 to 8,192 tokens of context, no batch meets the SLO: a decode step of one sequence takes" in answer.err
    answer = run("limits", "llama-3.1-70b", "--hardware", "h100-sxm")
    assert answer.code == 1
    assert "not even one sequence fits" in answer.out
    assert "--tensor-parallel-size 2" in answer.out
    assert answer.err == ""


def test_one_context_is_enough(run: Run) -> None:
    """0 as long as something is possible somewhere."""
    answer = run(*ASK[:4], "--context", "1k,100m", "--json")
    assert answer.code == 0
    assert [row["max_batch_memory"] > 0 for row in json.loads(answer.out)["rows"]] == [True, False]
    assert "context_length" in {note["name"] for note in json.loads(answer.out)["assumptions"]}


def test_bad_input(run: Run) -> None:
    """One message, nothing on stdout."""
    assert "has no unit" in run(*ASK, "--tpot", "50").refused()
    assert "'x'" in run(*ASK[:4], "--context", "x").refused()


def test_files(run: Run, tmp_path: Path) -> None:
    """A row a context in tables; the same sentences in Markdown and on a page."""
    assert run(*ASK, "--tpot", "20ms", "-o", tmp_path / "a.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["context"] for row in rows] == ["1024", "8192"]
    assert float(rows[0]["tpot_estimate_s"]) <= 0.02
    for name in ("a.md", "a.html", "a.json"):
        assert run(*ASK, "-o", tmp_path / name).code == 0
    sentence = "tokens of context, memory limits the batch"
    assert sentence in (tmp_path / "a.md").read_text(encoding="utf-8")
    assert sentence in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_a_person_reads(run: Run) -> None:
    """The verdict and a table on one screen; the comparison with -v; every assumption with -vv."""
    query = ("limits", "deepseek-v3", "--hardware", "h200-sxm", "--tp", 8, "--tpot", "50ms", "--context", "1k,32k")
    out = run(*query).out
    lines = out.splitlines()
    assert lines[0] == "DeepSeek-V3 on 8 x NVIDIA H200 SXM 141GB"
    assert lines[1].startswith("fp8")
    assert "limits the batch" in lines[3]
    assert "80 % interval" in out
    assert "full K and V, no latent" not in out
    more = run(*query, "-v").out
    assert "full K and V, no latent" in more
    assert "as the activations" not in more
    assert "max_num_batched_tokens" in run(*query, "-vv").out
