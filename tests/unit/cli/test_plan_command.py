"""`roofline plan`: the keys of the contract, exit codes, files, and what a person reads."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.text import shell_lines

Run = Callable[..., Any]
ASK = (
    "plan", "llama-3.1-8b", "--hardware", "h100-sxm", "--tp", "1", "--dtype", "bf16", "--rate", "20",
    "--input-len", "lognormal:1155:900", "--output-len", "lognormal:211:160", "--ttft", "2 s", "--tpot", "50 ms",
)  # fmt: skip


def test_keys(run: Run) -> None:
    answer = run(*ASK, "--json")
    found = json.loads(answer.out)
    assert answer.code == 0
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert {"model", "hardware", "prices"} <= set(found["inputs"])
    one = found["candidates"][0]
    for key in (
        "hardware", "devices", "replicas", "deployment", "engine_flags", "ttft_s", "tpot_s", "throughput", "cost_per_hour",
        "cost_per_million_tokens", "binds", "headroom",
    ):  # fmt: skip
        assert key in one
    assert {"mean", "p50", "pP", "p95", "low", "high"} <= set(one["tpot_s"])
    assert one["tpot_s"]["pP"] == one["tpot_s"]["p95"]
    assert {"requests_per_s", "output_tokens_per_s"} <= set(one["throughput"])
    assert {"input", "output", "total"} == set(one["cost_per_million_tokens"])
    assert one["binds"] in ("memory", "ttft", "tpot", "throughput")
    assert one["engine_flags"]["vllm@0.19"][:2] == ["vllm", "serve"]
    assert found["pareto"][0] == 0
    assert found["infeasible"] is None


def test_no_candidate_is_exit_code_1_with_the_whole_object(run: Run) -> None:
    answer = run(*ASK, "--max-cost", "1", "--json")
    found = json.loads(answer.out)
    assert answer.code == 1
    assert found["candidates"] == []
    assert found["infeasible"]["relax"][0]["constraint"] == "max_cost"
    assert "not within the limits" in answer.err
    said = run(*ASK, "--max-cost", "1")
    assert said.code == 1
    assert "Relax max-cost from 1 to 5.9" in said.out


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--rate", "0"), "--rate"),
        (("--hardware", "h100"), "ambiguous"),
        (("--input-len", "lognormal:5"), "lognormal:MEAN:SD"),
        (("--mode", "apart"), "colocated, disaggregated, any"),
        (("--max-cost", "-3"), "--max-cost"),
        (("--tp", "3"), "Sizes that work"),
    ],
)
def test_bad_input_is_exit_code_2_without_a_word_on_stdout(run: Run, extra: tuple[str, ...], message: str) -> None:
    answer = run(*ASK, *extra)
    assert answer.code == 2
    assert answer.out == ""
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_model_is_needed(run: Run) -> None:
    answer = run("plan", "--rate", "5")
    assert answer.code == 2
    assert "MODEL" in answer.err


def test_a_broken_trace_is_refused_with_its_line_and_skipped_if_asked(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,20\n1,abc,30\n2,200,10\n3,150,12\n")
    ask = (*ASK[:8], "--trace", str(path))
    answer = run(*ask)
    assert answer.code == 2
    assert "trace.csv:3: num_prefill_tokens" in answer.err
    skipped = run(*ask, "--skip-bad-rows", "--json")
    assert skipped.code == 0
    (note,) = [note for note in json.loads(skipped.out)["assumptions"] if note["name"] == "requests.skipped_rows"]
    assert note["value"] == 1
    assert "line 3" in note["why"]


@pytest.mark.slow
def test_files(run: Run, tmp_path: Path) -> None:
    for suffix in (".json", ".csv", ".md", ".html"):
        assert run(*ASK, "-o", str(tmp_path / f"plan{suffix}")).code == 0
    rows = list(csv.DictReader((tmp_path / "plan.csv").read_text().splitlines()))
    found = json.loads((tmp_path / "plan.json").read_text())
    assert [row["hardware"] for row in rows] == [one["hardware"] for one in found["candidates"]]
    assert float(rows[0]["tpot_mean_s"]) == pytest.approx(found["candidates"][0]["tpot_s"]["mean"])
    assert "vllm serve" in (tmp_path / "plan.md").read_text()
    assert "<h1>" in (tmp_path / "plan.html").read_text()
    refused = run(*ASK, "-o", str(tmp_path / "plan.doc"))
    assert refused.code == 2


def test_what_a_person_reads(run: Run) -> None:
    """The best candidate first, then the others, how to start it, and what was assumed; the engines' own with -v."""
    out = run(*ASK).out
    lines = out.splitlines()
    assert lines[0] == "Llama 3.1 8B for 20 requests/s"
    assert lines[3].startswith("Cheapest: 2 x NVIDIA H100 SXM5 80GB, bf16 (")
    assert "5.90 USD/h, 0." in out
    assert "vllm serve meta-llama/Meta-Llama-3.1-8B" in out
    assert "Candidates" not in out
    assert "sglang" not in out
    more = run(*ASK, "-v").out
    assert "Candidates" in more
    assert "sglang" in more


def test_a_command_that_is_broken_is_the_same_command() -> None:
    """A shell reads the lines as it reads the whole; no line is cut."""
    line = "echo '{a: 1, b: 2}' > file.yaml && vllm serve org/model --json '{\"a\": \"b\", \"c\": 1}' --x 1 --flag --y 'a b'"
    lines = shell_lines(line, 30, 4)
    assert all(len(part) <= 40 for part in lines.splitlines())
    assert len(lines.splitlines()) > 3
    assert shlex.split(lines.replace("\\\n", "")) == shlex.split(line)
    odd = "echo 'it'\"'\"'s' --flag"
    assert shlex.split(shell_lines(odd, 10).replace("\\\n", "")) == shlex.split(odd)


SAMPLES = Path(__file__).parents[2] / "samples" / "deployments"
LOAD = ("--input-len", "lognormal:1155:900:8000", "--output-len", "lognormal:211:160:2000", "--ttft", "2 s")


@pytest.mark.slow
def test_a_deployment_is_checked(run: Run, tmp_path: Path) -> None:
    """Exit code 1 with the reason, the whole object with --json, and 0 where it keeps to everything."""
    ask = ("plan", "--check", str(SAMPLES / "kubernetes.yaml"), "--rate", "12", *LOAD)
    missed = run(*ask, "--tpot", "20 ms")
    assert missed.code == 1
    assert "TPOT p95" in missed.out
    assert "replicas" in missed.out
    found = json.loads(run(*ask, "--tpot", "20 ms", "--json").out)
    assert found["check"]["passed"] is False
    assert len(found["candidates"]) == 1
    fine = run(*ask, "--tpot", "100 ms", "-o", str(tmp_path / "check.md"))
    assert fine.code == 0
    assert "met" in (tmp_path / "check.md").read_text()


def test_what_a_deployment_s_file_does_not_say_is_asked_for(run: Run) -> None:
    answer = run("plan", "--check", str(SAMPLES / "vllm-config.yaml"), "--rate", "2", *LOAD)
    assert answer.code == 2
    assert answer.out == ""
    assert "--hardware" in answer.err
    assert run(*ASK, "--replicas", "3").code == 2


BATCH = (
    "plan", "llama-3.1-8b", "--hardware", "h100-sxm", "--tp", "1", "--dtype", "bf16", "--tokens", "2e6", "--deadline", "10 min",
    "--input-len", "lognormal:1155:900:8k", "--output-len", "200",
)  # fmt: skip


@pytest.mark.slow
def test_offline_batch_work(run: Run, tmp_path: Path) -> None:
    """When it is done and what it costs: in words, as JSON, on the page and as a figure."""
    answer = run(*BATCH)
    assert answer.code == 0
    assert answer.out.startswith("Llama 3.1 8B for 2,000,000 output tokens in 10 min")
    assert "10,000 requests" in answer.out
    assert "deadline 10 min" in answer.out
    one = json.loads(run(*BATCH, "--json").out)["candidates"][0]
    assert one["cost_total"] == pytest.approx(one["cost_per_hour"] * one["finish_s"]["mean"] / 3600)
    assert one["cost_per_million_output_tokens"] == pytest.approx(one["cost_total"] / 2)
    assert run(*BATCH, "-o", str(tmp_path / "plan.html")).code == 0
    page = (tmp_path / "plan.html").read_text()
    assert "generate" in page
    assert "Cost against the finish time" in page or one["replicas"] == 1
    late = run(*BATCH[:-1], "200", "--deadline", "100 ms")
    assert late.code == 1
    assert "Relax deadline from 100 ms to" in late.out


@pytest.mark.slow
def test_a_figure_of_the_finish_time(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "finish.svg"
    assert run("plan", "llama-3.1-8b", "-H", "h100-sxm", *BATCH[8:], "--figure", "finish", "-o", str(path)).code == 0
    assert "deadline" in path.read_text()


@pytest.mark.slow
def test_simulated_beside_predicted(run: Run, tmp_path: Path) -> None:
    """In the table, in JSON and on the page."""
    answer = run(*ASK, "--simulate", "--simulate-top", "1")
    assert answer.code == 0
    assert "sim. TTFT" in answer.out
    assert "1 of 1 candidate hold" in answer.out
    assert run(*ASK, "--simulate-top", "1", "-o", str(tmp_path / "plan.html")).code == 0
    assert "Predicted and simulated" in (tmp_path / "plan.html").read_text()
    refused = run(*ASK, "--simulate", "--check", "deployment.yaml")
    assert refused.code == 2
    assert "--simulate is for what plan finds" in refused.err
