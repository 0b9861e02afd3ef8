"""Reading results of benchmarks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from unit.audit.engine_logs.engine_lines import RESULT, SAMPLES

from roofline.audit.engine_logs.bench_result import BENCH_FORMATS, read
from roofline.errors import InputError


def _file(folder: Path, **changes: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps({name: value for name, value in {**RESULT, **changes}.items() if value is not ...}))
    return path


def test_command(tmp_path: Path) -> None:
    """Means of lengths are totals over requests; times are in seconds."""
    bench = read(_file(tmp_path))
    assert (bench.load.requests, bench.load.input_len, bench.load.output_len) == (10, 1000, 100)
    assert (bench.load.rate, bench.load.concurrency, bench.failed) == (math.inf, 4, 0)
    assert bench.measured["ttft_s"] == pytest.approx(0.1)
    assert bench.measured["tpot_s"] == pytest.approx(0.0125)
    assert bench.measured["requests_per_s"] == 2
    assert bench.model == "org/m"


@pytest.mark.parametrize(
    ("name", "title", "rate", "concurrency"),
    [
        ("vllm-bench-serve-0.10.json", "vllm bench serve (0.9 and later)", math.inf, 32),
        ("vllm-benchmark-serving-0.7.json", "vllm benchmark_serving.py (0.5 to 0.8)", 2.0, None),
        ("sglang-bench-serving-0.5.jsonl", "sglang bench_serving (0.4 and 0.5)", math.inf, 64),
    ],
)
def test_samples(name: str, title: str, rate: float, concurrency: int | None) -> None:
    """Each composed result is known by its keys."""
    bench = read(SAMPLES / name)
    assert (bench.format.title, bench.load.rate, bench.load.concurrency) == (title, rate, concurrency)


def test_last_line_counts() -> None:
    """SGLang appends its results: the last one has 640 requests."""
    bench = read(SAMPLES / "sglang-bench-serving-0.5.jsonl")
    assert bench.load.requests == 640
    assert bench.notes == ("the file holds 2 results; the last is taken",)
    assert bench.measured["e2e_s"] == pytest.approx(3.14)


def test_oldest(tmp_path: Path) -> None:
    """0.4 calls the rate of requests request_inthroughput."""
    bench = read(_file(tmp_path, endpoint_type=..., request_throughput=..., request_inthroughput=3.0))
    assert bench.format.title == "vllm benchmark_serving.py (0.4)"
    assert bench.measured["requests_per_s"] == 3


def test_failures_and_variation(tmp_path: Path) -> None:
    """Means are over the requests that were answered; lengths 50 and 150 are 100, give or take half."""
    bench = read(_file(tmp_path, completed=8, total_input_tokens=8000, total_output_tokens=800, output_lens=[50, 150]))
    assert (bench.failed, bench.load.requests, bench.load.input_len) == (2, 10, 1000)
    assert bench.load.output_variation == pytest.approx(0.5)


def test_medians(tmp_path: Path) -> None:
    """Without a mean the median is taken, and said."""
    bench = read(_file(tmp_path, mean_ttft_ms=..., median_ttft_ms=90.0))
    assert bench.measured["ttft_s"] == pytest.approx(0.09)
    assert bench.medians == ("ttft_s",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"completed": 0}, "no request was answered"),
        ({"request_rate": "fast"}, "request_rate must be a number above 0 or inf, not 'fast'"),
        ({"request_rate": -1}, "request_rate"),
        ({"request_rate": "trace"}, "as in a trace"),
        ({"total_input_tokens": "many"}, "total_input_tokens must be a number, at least 0, not 'many'"),
        ({"total_output_tokens": 0}, "nothing was generated"),
        ({"mean_tpot_ms": True}, "mean_tpot_ms must be a number"),
        ({"max_concurrency": -3}, "max_concurrency"),
        ({"total_output_tokens": ...}, "the keys are of no benchmark that is known"),
    ],
)
def test_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A wrong value is named with its key, a strange file with what is known."""
    with pytest.raises(InputError, match=message):
        read(_file(tmp_path, **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("{", r"result\.json:1:2: not JSON"),
        ("[]", "an object in braces, not list"),
        ('{"elapsed_time": 1, "tokens_per_second": 2}', "vllm bench throughput"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_no_result(tmp_path: Path, text: str, message: str) -> None:
    """Files that are no result at all."""
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(path)


def test_formats_do_not_overlap() -> None:
    """A sample fits one format."""
    for path in SAMPLES.glob("*.json*"):
        data = json.loads(path.read_text().splitlines()[-1])
        assert sum(form.matches(data) for form in BENCH_FORMATS.values()) == 1
