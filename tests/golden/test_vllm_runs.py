"""The simulator against two measured servers of vLLM 0.19, request by request.

Llama 3.1 8B on an RTX 4090, where the KV cache binds, and Qwen3 32B on two RTX PRO 6000, where the limit of 128 sequences does:
300 requests each, which arrive at 10 a second, an open loop. TTFT is `first_token_ts - queued_ts`, which reproduces the
summary beside the run.

Source: LLMServingSim (MIT), runs of vLLM 0.19.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofline.audit.replay.replay import replay
from roofline.audit.replay.result import Comparison, Replay
from roofline.serving.traffic import read_run

RUNS = {"rtx4090_llama-3.1-8b": None, "rtxpro6000_qwen3-32b": "rtx-pro-6000-server"}
"""With the hardware, where the run does not name it."""
FIRST = 100
_KEPT: dict[str, Replay] = {}


@pytest.fixture(params=["rtx4090_llama-3.1-8b", pytest.param("rtxpro6000_qwen3-32b", marks=pytest.mark.night)])
def run(request: pytest.FixtureRequest, truth: Path) -> Path:
    """The folder of a run."""
    folder = truth / "truth" / "serving" / "vllm_runs" / str(request.param)
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


@pytest.fixture
def replayed(run: Path) -> Replay:
    """With two constants fitted on the first 100 requests; done once."""
    if run.name not in _KEPT:
        _KEPT[run.name] = replay(run, hardware=RUNS[run.name], fit_first=FIRST)
    return _KEPT[run.name]


def _off(one: Comparison, latency: str, figure: str) -> float:
    error = one.error(latency, figure)
    assert error is not None
    return abs(error)


def test_what_was_measured(run: Path, replayed: Replay) -> None:
    """The figures that the run's own summary gives, to its last digit."""
    words = {"TTFT": "ttft_s", "TPOT": "tpot_s", "Latency": "e2e_s"}
    figures = {"Mean": "mean", "Median": "p50", "P90": "p90", "P99": "p99"}
    seen = 0
    for line in (run / "summary.txt").read_text().splitlines():
        cells = line.split()
        if len(cells) > 2 and cells[0] in words and cells[1] in figures:
            measured = replayed.unfitted.measured[words[cells[0]]][figures[cells[1]]]
            assert measured is not None
            assert 1e3 * measured == pytest.approx(float(cells[2]), abs=0.051)
            seen += 1
    assert seen == 12


def test_unfitted(replayed: Replay) -> None:
    """Kernels of neither card were measured: mean TPOT within 40 %."""
    assert replayed.unfitted.requests == 300
    assert _off(replayed.unfitted, "tpot_s", "mean") <= 0.4


def test_fitted(replayed: Replay) -> None:
    """On the 200 requests that the fit has not seen: TPOT within 10 %, its P90 too, E2E within 15 %, TTFT within 20 %."""
    fitted = replayed.fitted
    assert fitted is not None
    assert fitted.requests == 200
    assert _off(fitted, "tpot_s", "mean") <= 0.10
    assert _off(fitted, "tpot_s", "p90") <= 0.10
    assert _off(fitted, "e2e_s", "mean") <= 0.15
    assert _off(fitted, "ttft_s", "mean") <= 0.20


def test_the_fit_says_what_it_belongs_to(run: Path, replayed: Replay) -> None:
    """One device has no link; on two the first 100 requests do not tell it from compute, over a factor of 8 and more.

    With all-reduces at 12 to 62 GB/s the best fits are off by 6.8 to 7.1 %, with 712 to 233 TFLOP/s: no rate stands out.
    """
    card = replayed.card
    assert card is not None
    assert card["holds_for"]["run"] == run.name
    if run.name.startswith("rtx4090"):
        assert card["link"] is None
        return
    link = card["link"]
    assert (link["origin"], card["holds_for"]["tensor_parallel"]) == ("held", 2)
    assert link["high"] > 8 * link["low"]
    assert link["low"] < link["stated"] < link["high"]


def test_what_binds(run: Path, replayed: Replay) -> None:
    """On the RTX 4090 the KV blocks that vLLM had, and requests are preempted; on the other the seats, and none is."""
    server = replayed.server
    if run.name.startswith("rtx4090"):
        assert (server["blocks"], server["max_num_seqs"]) == (2588, 256)
        assert server["preemptions"] > 100
    else:
        assert server["max_num_seqs"] == 128
        assert server["preemptions"] == 0


def test_the_other_clock(run: Path) -> None:
    """Arrivals are of `queued_ts`: the first at 0, all within half a minute."""
    arrived = read_run(run).arrived
    assert arrived[0] == 0
    assert 28 < arrived[-1] < 30


QWEN3_30B_A3B = {"tpot_s": 0.0473, "e2e_s": 32.34}
"""Measured means of 300 requests by the same benchmark, vLLM 0.19: Qwen3 30B A3B Instruct 2507 on two RTX PRO 6000 Server, DP 2
with expert parallelism."""


def test_experts_over_two_ranks(truth: Path, tmp_path: Path) -> None:
    """Unfitted, both means are within 10 %; the traffic is that of the run of Qwen3 32B.

    The measured means give (32.34 - 1.09)/0.0473 + 1 = 662 tokens per output, where this traffic has 665.
    """
    folder = truth / "truth" / "serving" / "vllm_runs" / "rtxpro6000_qwen3-32b"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    (tmp_path / "requests.jsonl").write_text((folder / "requests.jsonl").read_text())
    meta = json.loads((folder / "meta.json").read_text())
    meta["engine_kwargs"] |= {"tensor_parallel_size": 1, "data_parallel_size": 2, "enable_expert_parallel": True}
    (tmp_path / "meta.json").write_text(json.dumps({**meta, "model": "Qwen/Qwen3-30B-A3B-Instruct-2507"}))
    run = replay(tmp_path, hardware="rtx-pro-6000-server")
    assert run.deployment["expert_parallel"] == 2
    for latency, measured in QWEN3_30B_A3B.items():
        assert run.unfitted.simulated[latency]["mean"] == pytest.approx(measured, rel=0.1)
