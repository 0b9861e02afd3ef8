"""`roofline compare` as a command: tables, JSON, files, messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "engine_logs"
LOG, BENCH = SAMPLES / "vllm-0.10.0-tp2.log", SAMPLES / "vllm-bench-serve-0.10.json"


def test_tables(run: Run, tmp_path: Path) -> None:
    """What was read, what is predicted, and what was assumed; every line fits a terminal of 80.

    The sample's TPOT, 22.75 ms, lies in the interval (14.4 to 26.3 ms: 0.77 to 1.40 of 18.8 ms): nothing is explained.
    60 ms are more than three times the estimate.
    """
    agreed = run("compare", "--engine-log", LOG, "--bench", BENCH, "--hardware", "h100-sxm")
    assert agreed.code == 0
    assert "Likely because" not in agreed.out
    assert "Prediction and measurement agree in all 11 quantities." in agreed.out
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps({**json.loads(BENCH.read_text(encoding="utf-8")), "mean_tpot_ms": 60.0}), encoding="utf-8")
    answer = run("compare", "--engine-log", LOG, "--bench", slow, "--hardware", "h100-sxm")
    assert answer.code == 0
    assert answer.out.startswith("Qwen3 32B on 2 x NVIDIA H100 SXM5 80GB\n")
    # the bound of TPOT is below 60 ms as well, and ITL is what it was
    assert "10 of 11 quantities agree. Furthest off, predicted over measured: TPOT 0.3" in answer.out
    whole = run("compare", "--engine-log", LOG, "--bench", slow, "--hardware", "h100-sxm", "-v").out
    for text in ("vllm 0.10.0", "KV cache tokens", "317,104", "TTFT", "requests/s", "Likely because"):
        assert text in answer.out
        assert text in whole
    assert "  Taken as   closed loop of 32\n" in whole
    assert "  max_num_seqs            256 " in whole
    table = answer.out.partition("  weights ")[2].partition("Likely because")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_json(run: Run) -> None:
    """The header, and rows with the keys of the contract; fractions and base units."""
    answer = run("compare", "--engine-log", LOG, "--bench", BENCH, "-H", "h100-sxm", "--json", "-q")
    found = json.loads(answer.out)
    assert list(found)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert {"engine log", "benchmark", "model", "hardware", "engine"} <= set(found["inputs"])
    for row in found["rows"]:
        assert {"quantity", "measured", "predicted", "ratio", "why"} <= set(row)
        assert row["ratio"] == pytest.approx(row["predicted"] / row["measured"])
    rows = {row["quantity"]: row for row in found["rows"]}
    assert rows["kv_capacity_tokens"]["measured"] == 317_104
    assert rows["tpot_s"]["measured"] == pytest.approx(0.02275)
    assert rows["requests_per_s"]["measured"] == pytest.approx(2.6144)
    assert answer.err == ""


def test_speculative_decoding(run: Run) -> None:
    """With a draft more is loaded, the cache holds less, and a piece of the stream (ITL) has the tokens of a round."""
    flags = ("--speculative-model", "qwen3-8b", "--num-speculative-tokens", "3", "--acceptance", "0.7")
    files = ("compare", "--engine-log", LOG, "--bench", BENCH, "-H", "h100-sxm", "--json", "-q")
    plain, drafted = (
        {row["quantity"]: row["predicted"] for row in json.loads(run(*files, *more).out)["rows"]} for more in ((), flags)
    )
    # 8,190,735,360 parameters of the draft in two bytes on two devices
    assert drafted["weights_bytes"] - plain["weights_bytes"] == pytest.approx(8_190_735_360, rel=1e-3)
    assert drafted["kv_capacity_tokens"] < plain["kv_capacity_tokens"]
    assert drafted["itl_s"] == pytest.approx(drafted["tpot_s"] * (1 + 0.7 + 0.49 + 0.343))


def test_one_file_is_enough(run: Run) -> None:
    """A log has rows of memory, a benchmark rows of times."""
    log = json.loads(run("compare", "--engine-log", LOG, "-H", "h100-sxm", "--json").out)
    bench = json.loads(run("compare", "--bench", BENCH, "-H", "h100-sxm", "--tp", "2", "--json").out)
    assert {row["unit"] for row in log["rows"]} == {"byte", "token", "x"}
    assert {row["unit"] for row in bench["rows"]} == {"s", "1/s"}
    assert bench["engine_log"] is None


@pytest.mark.parametrize("suffix", [".json", ".csv", ".md", ".html"])
def test_files(run: Run, tmp_path: Path, suffix: str) -> None:
    """The answer in a file; the notes about ranks stay on stderr."""
    path = tmp_path / f"answer{suffix}"
    answer = run("compare", "--engine-log", LOG, "-H", "h100-sxm", "-o", path)
    assert (answer.code, answer.out) == (0, "")
    assert "2 ranks report" in answer.err
    assert "317" in path.read_text(encoding="utf-8")


def test_refusals(run: Run, tmp_path: Path) -> None:
    """Cause first, then what to give."""
    assert "give --engine-log FILE, --bench FILE, or both" in run("compare").refused()
    assert "give --hardware" in run("compare", "--engine-log", LOG).refused()
    assert "give --hardware" in run("compare", "--bench", BENCH).refused()
    sglang = SAMPLES / "sglang-bench-serving-0.5.jsonl"
    assert "give MODEL" in run("compare", "--bench", sglang, "-H", "h100-sxm").refused()
    other = tmp_path / "other.log"
    other.write_text("a server of another kind\n")
    assert "Known formats: sglang" in run("compare", "--engine-log", other, "-H", "h100-sxm").refused()
    assert "not JSON" in run("compare", "--bench", other, "-H", "h100-sxm").refused()
    assert "it would be overwritten" in run("compare", "--engine-log", other, "-H", "l4", "-o", other).refused()
    assert "unknown hardware" in run("compare", "--engine-log", LOG, "-H", "h999").refused()


def test_names_from_files_are_harmless(run: Run, tmp_path: Path) -> None:
    """A log that colours what it prints does not colour our terminal."""
    path = tmp_path / "engine.log"
    text = LOG.read_text(encoding="utf-8").replace("dtype=torch.bfloat16", "dtype=torch.bfloat16, kv_x='\x1b[31m'")
    path.write_text(text.replace("'max_num_seqs': 256", "'max_num_seqs': 256, 'block_size': '16\u202e\x07'"), encoding="utf-8")
    answer = run("compare", "--engine-log", path, "-H", "h100-sxm")
    assert not set("\x1b\x07\u202e") & set(answer.out + answer.err)


def test_files_in_each_others_place(run: Run, tmp_path: Path) -> None:
    """A result as a log, a log as a result, and a file that is neither."""
    refused = run("compare", "--engine-log", BENCH, "-H", "h100-sxm").refused()
    assert "this is a result of vllm bench serve (0.9 and later), no log: give it as --bench" in refused
    assert "this is a log of vllm, no result: give it as --engine-log" in run("compare", "--bench", LOG, "-H", "l4").refused()
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)))
    assert "Known: vllm benchmark_serving.py" in run("compare", "--bench", binary, "-H", "l4").refused()


def test_model_against_the_log(run: Run) -> None:
    """A model that is not the log's is noted on the screen, and once among the assumptions."""
    ask = ("compare", "llama-3.1-8b", "--engine-log", LOG, "-H", "h100-sxm")
    assert "Note llama-3.1-8b is compared in place of the log's Qwen/Qwen3-32B" in " ".join(run(*ask).out.split())
    assert run(*ask, "-v").out.partition("Assumptions")[2].count("in place of the log's Qwen/Qwen3-32B") == 1
