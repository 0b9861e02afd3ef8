"""Every rule speaks where it should, and not where it should not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.audit.engine_logs.engine_lines import INIT, MEMORY, RESULT

from roofline.audit.engine_logs.capacity import AIDED
from roofline.audit.engine_logs.compare import Comparison, compare
from roofline.audit.engine_logs.names import Row
from roofline.audit.engine_logs.reasons import REASONS, why
from roofline.errors import InputError


def _why(found: Comparison, quantity: str) -> str:
    return next(row.why for row in found.rows if row.quantity == quantity)


def _bench(folder: Path, **changes: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps({**RESULT, "model_id": "meta-llama/Llama-3.1-8B", **changes}))
    return path


def test_reasons_are_complete() -> None:
    """A rule has rows that it looks at, and a function that says what it is about; none is there twice."""
    assert len({reason.sentence for reason in REASONS}) == len(REASONS) >= 15
    for reason in REASONS:
        assert reason.quantities
        assert reason.sentence.__doc__


def test_nothing_is_explained_within_the_band() -> None:
    """Why is asked where there is a gap."""
    row = Row("tpot_s", "s", measured=1.0, predicted=1.02, low=0.9, high=1.1)
    assert why(row, None) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "changed", "quantity", "wanted"),
    [
        ("14.99 GiB", "17.99 GiB", "weights_bytes", "3.03 GiB more were loaded than the language model"),
        ("14.99 GiB", "8.49 GiB", "weights_bytes", "a smaller format (--quantization)"),
        ("40,960", "81,920", AIDED, "half the bytes (--kv-cache-dtype fp8)"),
        ("40,960", "20,480", AIDED, "twice the bytes (--kv-cache-dtype)"),
        ("40,960", "30,000", AIDED, "the rules of vllm 0.19"),
        ("5.00 GiB", "3.00 GiB", "kv_cache_bytes", "no line says the share of memory: 0.82 instead of 0.9"),
        ("5.00 GiB", "3.00 GiB", "kv_cache_bytes", "no line says max_num_seqs, 256 by default"),
    ],
)
def test_memory(write: Callable[..., Path], line: str, changed: str, quantity: str, wanted: str) -> None:
    """One figure of a log that fits is changed."""
    found = compare(None, "rtx-4090", engine_log_path=write(INIT, *(text.replace(line, changed) for text in MEMORY)))
    assert wanted in _why(found, quantity)


def test_other_card(write: Callable[..., Path]) -> None:
    """A device of 79 GiB is no RTX 4090."""
    line = "INFO [gpu_worker.py:1] Free memory on device (78.6/79.1 GiB) on startup."
    found = compare(None, "rtx-4090", engine_log_path=write(INIT, line, *MEMORY))
    assert "the log's device has 79.1 GiB: it is no rtx-4090" in _why(found, "device_bytes")


@pytest.mark.parametrize(
    ("config", "changes", "quantity", "wanted"),
    [
        ({"enforce_eager=False": "enforce_eager=True"}, {"mean_tpot_ms": 60.0}, "tpot_s", "eager mode"),
        ({}, {"mean_tpot_ms": 1.0}, "tpot_s", "faster than the hardware allows"),
        ({"speculative_config=None": "speculative_config=SpeculativeConfig(method='mtp')"}, {"mean_tpot_ms": 1.0}, "tpot_s",
         "speculative decoding gives several tokens per step"),
        ({}, {"mean_ttft_ms": 10.0}, "ttft_s", "prompts that share a prefix are computed once"),
        ({}, {"mean_ttft_ms": 9000.0}, "ttft_s", "how the prompts arrive together"),
        ({}, {"mean_tpot_ms": 90.0, "completed": 5}, "tpot_s", "5 of 10 requests failed"),
        ({}, {"mean_tpot_ms": 90.0, "output_lens": [10, 190]}, "tpot_s", "outputs differ in length"),
        ({}, {"mean_tpot_ms": 90.0}, "tpot_s", "no kernels were measured on rtx-4090"),
        ({}, {"request_throughput": 0.2}, "requests_per_s", "a short run: 2.5 requests per slot"),
    ],
)  # fmt: skip
def test_load(
    write: Callable[..., Path], tmp_path: Path, config: dict[str, str], changes: dict[str, Any], quantity: str, wanted: str
) -> None:
    """One figure of a result is changed, or one argument of the engine."""
    init = INIT
    for old, new in config.items():
        init = init.replace(old, new)
    found = compare(None, "rtx-4090", engine_log_path=write(init, *MEMORY), bench_path=_bench(tmp_path, **changes))
    assert wanted in _why(found, quantity)


def _open(folder: Path, **changes: Any) -> Path:
    """8 requests a second of 1024 + 256 tokens; 1000 of them, answered in 131.4 s."""
    load = {"num_prompts": 1000, "completed": 1000, "total_input_tokens": 1_024_000, "total_output_tokens": 256_000}
    rates = {"request_throughput": 7.609, "output_throughput": 1947.9, "total_token_throughput": 9739.5}
    times = {"mean_ttft_ms": 150.0, "mean_tpot_ms": 21.7}
    return _bench(folder, **{**load, **rates, **times, "request_rate": 8.0, "max_concurrency": None, **changes})


@pytest.mark.slow
def test_open_loop_is_no_faster_than_the_hardware(tmp_path: Path) -> None:
    """21.7 ms on an A100 can be, and so can 7.6 of 8 a second.

    With the prompts of others a request takes 3.76 s at the bound, and 3.76/(1/8 + 3.76/1000) = 29 are in flight.
    Their caches of 1152 x 128 KiB are 4.4 GB; with 15.0 GB of weights (no embedding) 2.04 TB/s read them in 9.5 ms. No prompt
    of others is in that bound of TPOT; with them it was above 14 ms, which requests whose prompts come together can beat.
    The bound of the rate has them: 1024 x 14 GFLOP are 46 ms of 312 TFLOP/s, 21.8 a second, whatever decode takes.
    """
    found = compare(None, "a100-sxm-80gb", bench_path=_open(tmp_path))
    bound = next(row.bound for row in found.rows if row.quantity == "tpot_s")
    assert bound is not None
    assert 0.0095 < bound < 0.0099
    rate = next(row.bound for row in found.rows if row.quantity == "requests_per_s")
    assert rate is not None
    assert 7.609 < rate < 21.8
    assert not any("faster than the hardware" in row.why for row in found.rows)
    assert "43.2 requests were in flight by Little's law" in _why(found, "tpot_s")  # 7.609 x (0.15 + 255 x 0.0217)
    assert "1,000 random arrivals take 3 % more or less time" in _why(found, "requests_per_s")  # 1 / sqrt(1000)
    fast = compare(None, "a100-sxm-80gb", bench_path=_open(tmp_path, mean_tpot_ms=7.0))  # weights alone take 7.4 ms
    assert "faster than the hardware" in _why(fast, "tpot_s")


def test_the_cache_tells_another_card(write: Callable[..., Path]) -> None:
    """15 GiB of weights and 5 GiB of cache are no 90 % of 80 GiB; no line names the device."""
    found = compare(None, "h100-sxm", engine_log_path=write(INIT, *MEMORY))
    assert "and h100-sxm has 79: another card, or memory that other processes held" in _why(found, "kv_cache_bytes")
    same = compare(None, "rtx-4090", engine_log_path=write(INIT, *MEMORY))
    assert not any("another card" in row.why for row in same.rows)


def test_other_models(write: Callable[..., Path], tmp_path: Path) -> None:
    """Two files of two models are refused unless MODEL says which; MODEL against a file is on record."""
    log, bench = write(INIT, *MEMORY), _bench(tmp_path, model_id="Qwen/Qwen3-8B")
    with pytest.raises(InputError, match=r"the log names meta-llama/Llama-3\.1-8B, the benchmark's result Qwen/Qwen3-8B"):
        compare(None, "rtx-4090", engine_log_path=log, bench_path=bench)
    found = compare("qwen3-8b", "rtx-4090", engine_log_path=log, bench_path=bench)
    assert [note.why for note in found.deployment.notes if note.name == "model"] == [
        "in place of the log's meta-llama/Llama-3.1-8B (line 1)"
    ]
    assert "MODEL qwen3-8b was given in place of" in _why(found, AIDED)
    served_as = compare(None, "rtx-4090", engine_log_path=log, bench_path=_bench(tmp_path, model_id="our-model"))
    assert served_as.request.model.name == "llama-3.1-8b"
