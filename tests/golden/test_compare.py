"""`roofline compare` against two measured servers of vLLM 0.19.

Llama 3.1 8B on an RTX 4090, and Qwen3 32B on two RTX PRO 6000: 300 requests each, which arrive at 10 a second. What they
measured is read from where it is; of the log, which is not there, the lines are put together as this version prints them.

Source: LLMServingSim (MIT), runs of vLLM 0.19.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.compare import Comparison, compare
from roofline.audit.engine_logs.names import Row

TOKEN = 32 * 2 * 8 * 128 * 2  # Llama 3.1 8B: 128 KiB a token


@dataclass(frozen=True)
class Run:
    """A measured run: what its server was started with, and its requests."""

    meta: dict[str, Any]
    requests: list[dict[str, Any]]


def _run(truth: Path, name: str) -> Run:
    folder = truth / "truth" / "serving" / "vllm_runs" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    lines = (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    return Run(json.loads((folder / "meta.json").read_text(encoding="utf-8")), [json.loads(line) for line in lines])


def _log(run: Run, folder: Path, *more: str) -> Path:
    """The start-up lines of the run, with those about memory that are known."""
    args = {name: value for name, value in run.meta["engine_kwargs"].items() if value is not None}
    config = (
        f"model='{run.meta['model']}', dtype=torch.bfloat16, tensor_parallel_size={args['tensor_parallel_size']}, "
        "quantization=None, enforce_eager=False, kv_cache_dtype=auto"
    )
    start = f"Initializing a V1 LLM engine (v{run.meta['vllm_version']})"
    lines = [
        f"(APIServer pid=1) INFO 08-20 23:19:40 [utils.py:233] non-default args: {args}",
        f"(EngineCore pid=9) INFO 08-20 23:19:50 [core.py:105] {start} with config: {config}",
        *(f"(EngineCore pid=9) INFO 08-20 23:20:09 {line}" for line in more),
    ]
    path = folder / "engine.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _bench(run: Run, folder: Path) -> Path:
    """The run as `vllm bench serve` writes it, from the times of its requests."""
    asked = run.requests
    ttft = [entry["first_token_ts"] - entry["queued_ts"] for entry in asked]
    tpot = [
        (entry["last_token_ts"] - entry["first_token_ts"]) / (entry["output_toks"] - 1)
        for entry in asked
        if entry["output_toks"] > 1
    ]
    took = max(entry["last_token_ts"] for entry in asked) - min(entry["queued_ts"] for entry in asked)
    result = {
        "endpoint_type": "vllm", "backend": "vllm", "model_id": run.meta["model"], "num_prompts": len(asked),
        "request_rate": 10.0, "max_concurrency": None, "duration": took, "completed": len(asked),
        "total_input_tokens": sum(entry["input_toks"] for entry in asked),
        "total_output_tokens": sum(entry["output_toks"] for entry in asked),
        "request_throughput": len(asked) / took, "mean_ttft_ms": 1e3 * mean(ttft), "mean_tpot_ms": 1e3 * mean(tpot),
    }  # fmt: skip
    path = folder / "bench.json"
    path.write_text(json.dumps(result), encoding="utf-8")
    return path


def _row(found: Comparison, quantity: str) -> Row:
    return next(row for row in found.rows if row.quantity == quantity)


@pytest.fixture
def small(truth: Path, tmp_path: Path) -> Comparison:
    """The RTX 4090, with every line about its cache."""
    run = _run(truth, "rtx4090_llama-3.1-8b")
    cache = run.meta["kv_cache"]
    available = cache["num_gpu_blocks"] * cache["block_size"] * TOKEN / 2**30
    log = _log(
        run,
        tmp_path,
        f"[gpu_worker.py:436] Available KV cache memory: {available:.2f} GiB",
        f"[kv_cache_utils.py:1319] GPU KV cache size: {cache['num_kv_tokens']:,} tokens",
    )
    return compare(None, "rtx-4090", engine_log_path=log, bench_path=_bench(run, tmp_path))


def test_capacity_unaided(small: Comparison) -> None:
    """From the model, the card and the arguments alone: within 5 % of the blocks that vLLM found, and in the band."""
    row = _row(small, "kv_capacity_tokens")
    assert row.ratio == pytest.approx(1, abs=0.05)
    assert row.low is not None
    assert row.high is not None
    assert row.low <= row.measured <= row.high


def test_capacity_from_the_logs_memory(small: Comparison) -> None:
    """With the memory that the log names: within 1 %. NB: two decimals of GiB are 0.1 % of these tokens."""
    assert _row(small, AIDED).ratio == pytest.approx(1, abs=0.01)


def test_device(truth: Path) -> None:
    """What the process saw of the card, against what is predicted from what the driver reports."""
    from roofline.audit.engine_logs.budgets import device_memory
    from roofline.specs.library import load_hardware

    total = _run(truth, "rtx4090_llama-3.1-8b").meta["hardware"]["device_total_memory_bytes"]
    assert device_memory(load_hardware("rtx-4090")[0]).size == pytest.approx(total, rel=0.005)


def test_times_where_the_cache_binds(small: Comparison) -> None:
    """Ten requests a second are more than the card takes: the cache binds.

    TPOT, throughput and the time in the queue are in their bands. No kernel was measured on this card.
    """
    assert small.load is not None
    assert small.load.saturated
    assert "the cache" in small.load.description
    for quantity, room in (("tpot_s", 0.15), ("requests_per_s", 0.15), ("ttft_s", 0.25)):
        row = _row(small, quantity)
        assert row.ratio == pytest.approx(1, abs=room), quantity
        assert row.within, quantity


def test_times_where_the_engine_binds(truth: Path, tmp_path: Path) -> None:
    """Two RTX PRO 6000 at TP 2: max_num_seqs of 128 binds, not the cache.

    TPOT is predicted a sixth too short, and its interval holds it: on PCIe the estimate is that of devices with a way of their
    own to their peers, and no host's collectives but an L40S server's were measured.
    """
    run = _run(truth, "rtxpro6000_qwen3-32b")
    log = _log(run, tmp_path, "[gpu_model_runner.py:1] Model loading took 30.59 GiB memory and 20.0 seconds")
    found = compare(None, "rtx-pro-6000-server", engine_log_path=log, bench_path=_bench(run, tmp_path))
    assert found.load is not None
    assert found.load.concurrency == 128
    assert "max_num_seqs" in found.load.description
    assert _row(found, "tpot_s").ratio == pytest.approx(1, abs=0.18)
    assert _row(found, "tpot_s").within
    assert _row(found, "requests_per_s").within  # a short run: the band reaches down to a whole answer with slots running empty
    assert _row(found, "weights_bytes").ratio == pytest.approx(1, abs=0.01)


def test_ttft_of_closed_loops(truth: Path) -> None:
    """TTFT of vLLM on H100: half of the points within 25 %.

    It is mostly queueing, and how many requests a client sent is not told; ten are taken.
    """
    import csv
    import math

    from roofline.audit.engine_logs.bench_result import Load
    from roofline.audit.engine_logs.load_prediction import LoadPredictor
    from roofline.serving.queueing.closed_loop import ClosedLoop

    path = truth / "truth" / "serving" / "end_to_end.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["backend"], row["system"]) == ("vllm", "h100_sxm")]
    assert len(rows) >= 40
    errors = []
    loops: dict[tuple[str, str], ClosedLoop] = {}
    for row in rows:
        model = "llama-3.1-70b" if "70B" in row["model_path"] else "llama-3.1-8b"
        key = (model, row["tp_size"])
        if key not in loops:
            loops[key] = ClosedLoop.of(model, "h100-sxm", tp=int(float(row["tp_size"])), quantization="fp8", backend="vllm")
        clients = int(float(row["batch_size"]))
        load = Load(10 * clients, float(row["isl"]), float(row["osl"]), math.inf, clients)
        found = LoadPredictor(loops[key], load, 1e9, 1024).predict().ttft.estimate
        assert found is not None
        errors.append(abs(found / (float(row["silicon_ttft_ms"]) * 1e-3) - 1))
    assert sorted(errors)[len(errors) // 2] < 0.25
