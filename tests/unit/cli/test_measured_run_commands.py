"""`roofline trace` and `roofline replay` as commands, on a small run written by hand."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.audit.replay.replay import replay

Run = Callable[..., Any]

META = {
    "model": "meta-llama/Llama-3.1-8B", "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 64, "max_num_batched_tokens": 2048, "max_model_len": 8192},
    "kv_cache": {"num_gpu_blocks": 2588, "block_size": 16, "enable_prefix_caching": True},
    "hardware": {"device_name": "NVIDIA GeForce RTX 4090"},
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Twenty requests, a second apart: a prompt of 1,000 tokens takes 150 ms, each of 20 later tokens 25 ms."""
    folder = tmp_path / "my run"
    folder.mkdir()
    lines = [
        {"input_toks": 1000, "output_toks": 21, "queued_ts": at, "first_token_ts": at + 0.15, "last_token_ts": at + 0.65}
        for at in range(20)
    ]
    (folder / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "meta.json").write_text(json.dumps(META))
    return folder


def test_trace(run: Run, place: Path, tmp_path: Path) -> None:
    """What is in it, the engine, and the line that simulates it, which runs."""
    answer = run("trace", place)
    assert answer.code == 0
    for text in ("my run: 20 requests", "1,000 tokens on average", "1 requests/s", "vLLM 0.19.0", "num_gpu_blocks_override"):
        assert text in answer.out
    line = answer.out.partition("Simulate this deployment:\n  ")[2].partition("\n\n")[0].replace("\\\n", "")
    line = " ".join(line.split())
    assert line.startswith("roofline simulate llama-3.1-8b --hardware rtx-4090 --trace ")
    assert "--num-gpu-blocks-override 2588 --enable-prefix-caching" in line
    import shlex

    found = json.loads(run(*shlex.split(line)[1:], "--json").out)
    assert (found["requests"]["completed"], found["server"]["blocks"]) == (20, 2588)
    assert run("trace", place, "-o", tmp_path / "trace.csv").code == 0
    rows = list(csv.reader((tmp_path / "trace.csv").read_text().splitlines()))
    assert rows[0] == ["arrived_at", "num_prefill_tokens", "num_decode_tokens"]
    assert rows[-1] == ["19.000000", "1000", "21"]
    assert "20 requests" in run("trace", tmp_path / "trace.csv").out


def test_trace_as_json(run: Run, place: Path) -> None:
    """The header, figures in base units, the engine."""
    found = json.loads(run("trace", place, "--json").out)
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert (found["requests"], found["rate"], found["duration_s"]) == (20, 1.0, 19.0)
    assert found["input_tokens"] == {"mean": 1000.0, "max": 1000}
    assert found["engine"]["options"]["num_gpu_blocks_override"] == 2588


def test_replay(run: Run, place: Path, tmp_path: Path) -> None:
    """Measured beside simulated; as JSON; as rows."""
    answer = run("replay", place)
    assert answer.code == 0
    assert answer.out.startswith("Llama 3.1 8B on NVIDIA GeForce RTX 4090\n")
    for text in ("my run: 20 requests of vLLM 0.19.0", "vllm-v1-async", "2,588 blocks", "Simulated against measured", "150 ms"):
        assert text in " ".join(answer.out.split())
    assert "Unfitted, 20 requests" in run("replay", place, "-v").out
    found = json.loads(run("replay", place, "--json").out)
    assert found["unfitted"]["measured"]["tpot_s"]["p50"] == pytest.approx(0.025)
    assert found["card"] is None
    assert run("replay", place, "-o", tmp_path / "rows.csv").code == 0
    assert (tmp_path / "rows.csv").read_text().startswith("step_times,requests,latency,figure,measured_s,simulated_s,error\n")


@pytest.mark.slow
def test_a_fit(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is alone: TTFT tells of FLOP/s, TPOT of bandwidth, and all are met. So do the flags that are printed.

    The fit, which takes seconds, is made once, and printed twice.
    """
    fits: list[Any] = []

    def once(*words: Any, **options: Any) -> Any:
        if not options.get("fit_first"):
            return replay(*words, **options)
        fits.append(fits[0] if fits else replay(*words, **options))
        return fits[0]

    monkeypatch.setattr(sys.modules[replay.__module__], "replay", once)
    answer = run("replay", place, "--fit-first", "10")
    text = " ".join(answer.out.split())
    assert "Fitted, on the 10 requests not fitted on: TTFT " in text
    assert "first 10 requests, off by" in text
    assert "of this run, llama-3.1-8b and TP 1: not of the card" in text
    more = " ".join(run("replay", place, "--fit-first", "10", "-vv").out.split())
    assert len(fits) == 2
    assert "fitted on the first 10 of 20 requests of my run" in more
    assert len(answer.out.splitlines()) <= 30
    assert max(map(len, answer.out.splitlines())) <= 100
    flags = answer.out.partition("For other commands with llama-3.1-8b at TP 1:\n")[2].partition("\n")[0]
    import shlex

    found = json.loads(run("replay", place, *shlex.split(flags), "--json").out)
    for latency in ("ttft_s", "tpot_s", "e2e_s"):
        assert found["unfitted"]["error"][latency]["mean"] == pytest.approx(0, abs=0.01)


def test_refusals(run: Run, place: Path, tmp_path: Path) -> None:
    """One message each."""
    assert "no such folder" in run("replay", tmp_path / "nowhere").refused()
    assert "--fit-first" in run("replay", place, "--fit-first", "ten").refused()
    assert "there is no folder" in run("replay", place, "-o", tmp_path / "no" / "rows.csv").refused()
    assert "it would be overwritten" in run("trace", place, "-o", place / "requests.jsonl").refused()
    with (place / "requests.jsonl").open("a") as file:
        file.write('\n{"input_toks": 3}\n')
    refused = run("trace", place).refused()
    assert "requests.jsonl:21: output_toks is missing" in refused
    assert run("trace", place, "--skip-bad-rows").code == 0


def test_a_deployment_that_cannot_have_run(run: Run, place: Path) -> None:
    """16 GB of weights on 10 GiB: the run cannot have been of it. There is no result, so that it is bad input and no answer."""
    assert "does not run on rtx-4090: the weights alone" in run("replay", place, "--memory", "10 GiB", "--json").refused()
