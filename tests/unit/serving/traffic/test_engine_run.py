"""Measured runs: folders with the requests that an engine has served, read as they stand, and as traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError, SpecError
from roofline.serving.traffic import read_run, read_trace, write_trace

CLOCK = 5000.0  # of the engine; `arrival_time` is of another


def line(queued: float, first: float, last: float, prompt: int = 100, answer: int = 11, **other: Any) -> dict[str, Any]:
    """A request, with times from the first arrival."""
    return {
        "request_id": "r", "input_toks": prompt, "output_toks": answer, "arrival_time": 1.7e9 + 9 * queued,
        "queued_ts": CLOCK + queued, "first_token_ts": CLOCK + first, "last_token_ts": CLOCK + last, **other,
    }  # fmt: skip


THREE = (line(0.0, 0.5, 1.5), line(0.25, 1.0, 3.0, 7, 1), line(2.0, 2.5, 2.75, 4000, 2))


def folder(path: Path, *lines: dict[str, Any] | str, meta: Any = None) -> Path:
    """A run."""
    text = "\n".join(entry if isinstance(entry, str) else json.dumps(entry) for entry in lines)
    (path / "requests.jsonl").write_text(text + "\n", encoding="utf-8")
    if meta is not None:
        (path / "meta.json").write_text(meta if isinstance(meta, str) else json.dumps(meta), encoding="utf-8")
    return path


def test_requests(tmp_path: Path) -> None:
    """From the first `queued_ts`, whatever the other clock says."""
    run = read_run(folder(tmp_path, *THREE))
    assert run.trace.prompts.tolist() == [100, 7, 4000]
    assert run.trace.outputs.tolist() == [11, 1, 2]
    assert run.arrived.tolist() == [0.0, 0.25, 2.0]
    assert run.first.tolist() == [0.5, 1.0, 2.5]
    assert run.last.tolist() == [1.5, 3.0, 2.75]
    assert run.meta is None
    assert (run.trace.name, run.trace.path) == (tmp_path.name, str(tmp_path / "requests.jsonl"))


def test_sorted_by_arrival(tmp_path: Path) -> None:
    """And said so; every column goes with it."""
    run = read_run(folder(tmp_path, THREE[2], "", THREE[0], THREE[1]))
    assert run.arrived.tolist() == [0.0, 0.25, 2.0]
    assert run.last.tolist() == [1.5, 3.0, 2.75]
    assert run.trace.notes == ("1 lines arrived before the one above them: sorted by arrival",)


def test_a_trace(tmp_path: Path) -> None:
    """A folder is read where a trace is asked for; written as a file it is the same trace."""
    found = read_trace(folder(tmp_path, *THREE))
    write_trace(found, tmp_path / "trace.csv")
    text = (tmp_path / "trace.csv").read_text()
    assert text.splitlines()[:2] == ["arrived_at,num_prefill_tokens,num_decode_tokens", "0.000000,100,11"]
    again = read_trace(tmp_path / "trace.csv")
    assert again.arrived is not None
    assert (again.arrived.tolist(), again.prompts.tolist()) == ([0.0, 0.25, 2.0], [100, 7, 4000])
    with pytest.raises(InputError, match=r"written as \.csv"):
        write_trace(found, tmp_path / "trace.txt")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{", "is no JSON"),
        ("[1]", "no object in braces"),
        ({"input_toks": 3}, "output_toks is missing; the line has input_toks"),
        (line(1, 2, 3, prompt=0), "input_toks must be a whole number of tokens, at least 1, not 0"),
        (line(1, 2, 3, answer=2.5), "output_toks must be a whole number of tokens, at least 1, not 2.5"),  # type: ignore[arg-type]
        (line(1, 2, 3, queued_ts=None), "queued_ts must be a number of seconds, not null"),
        ({**line(1, 2, 3), "last_token_ts": "late"}, "last_token_ts must be a number of seconds, not 'late'"),
        (line(1, 2, 3, first_token_ts=float("nan")), "first_token_ts must be a number of seconds, not NaN"),
        (line(2, 1.5, 3), "first_token_ts is 0.5 s before queued_ts"),
        (line(1, 2, 1.5), "last_token_ts is 0.5 s before first_token_ts"),
    ],
)
def test_a_broken_line(tmp_path: Path, bad: dict[str, Any] | str, why: str) -> None:
    """One error with line and key; or it is left out, and counted."""
    place = folder(tmp_path, THREE[0], "", bad, THREE[1])
    with pytest.raises(SpecError) as caught:
        read_run(place)
    assert caught.value.line == 3
    assert why in str(caught.value)
    found = read_run(place, skip_bad_rows=True)
    assert len(found) == 2
    assert found.trace.skipped == 1
    assert why in found.trace.reasons[0]


def test_no_run(tmp_path: Path) -> None:
    """Nothing there, a folder of something else, an empty file, no line that is whole."""
    with pytest.raises(SpecError, match="no such folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(SpecError, match=r"is a folder without requests\.jsonl"):
        read_trace(tmp_path)
    (tmp_path / "requests.jsonl").write_text("\n")
    with pytest.raises(SpecError, match="empty"):
        read_run(tmp_path)
    with pytest.raises(SpecError, match="No line of the 2 is whole"):
        read_run(folder(tmp_path, "{}", "{}"), skip_bad_rows=True)


META = {
    "model": "meta-llama/Llama-3.1-8B",
    "vllm_version": "0.19.0",
    "engine_kwargs": {
        "tensor_parallel_size": 2, "data_parallel_size": 1, "enable_expert_parallel": False, "max_num_seqs": 64,
        "max_num_batched_tokens": None, "max_model_len": None, "dtype": "torch.bfloat16", "kv_cache_dtype": "auto",
    },
    "kv_cache": {"num_gpu_blocks": 2588, "block_size": 16, "gpu_memory_utilization": 0.9, "enable_prefix_caching": True},
    "hardware": {"device_name": "NVIDIA GeForce RTX 4090", "device_total_memory_bytes": 25250627584},
    "resolved_config": {"scheduler_config": {"max_num_batched_tokens": 2048, "async_scheduling": True}},
}  # fmt: skip


def test_the_engine(tmp_path: Path) -> None:
    """What it was started with, what it made of it, and what it found: in the words of `roofline simulate`."""
    meta = read_run(folder(tmp_path, *THREE, meta=META)).meta
    assert meta is not None
    assert (meta.model, meta.version, meta.release) == ("meta-llama/Llama-3.1-8B", "0.19.0", (0, 19, 0))
    assert (meta.device, meta.device_bytes) == ("NVIDIA GeForce RTX 4090", 25250627584)
    assert meta.options == {
        "tensor_parallel_size": 2, "max_num_seqs": 64, "max_num_batched_tokens": 2048, "block_size": 16,
        "num_gpu_blocks_override": 2588, "gpu_memory_utilization": 0.9, "dtype": "bfloat16", "enable_prefix_caching": True,
    }  # fmt: skip
    assert (meta.prefix_caching, meta.asynchronous) == (True, True)


def test_an_engine_of_which_little_is_known(tmp_path: Path) -> None:
    """Nothing is made up."""
    meta = read_run(folder(tmp_path, *THREE, meta={"engine_kwargs": {"tensor_parallel_size": 1}})).meta
    assert meta is not None
    assert (meta.options, meta.model, meta.version, meta.release, meta.device) == ({}, None, None, (), None)
    assert (meta.prefix_caching, meta.asynchronous) == (None, None)


def test_experts_over_all_devices(tmp_path: Path) -> None:
    """`--enable-expert-parallel`: as many as tensor- and data-parallel devices together."""
    kwargs = {"tensor_parallel_size": 2, "data_parallel_size": 2, "enable_expert_parallel": True}
    meta = read_run(folder(tmp_path, *THREE, meta={"engine_kwargs": kwargs})).meta
    assert meta is not None
    assert meta.options == {"tensor_parallel_size": 2, "expert_parallel_size": 4}
    assert meta.data_parallel_size == 2


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ("{", r"meta\.json:1:2: is no JSON"),
        ("[]", "has to be an object in braces"),
        ({"model": 3}, "model must be a text, not 3"),
        ({"kv_cache": {"num_gpu_blocks": -1}}, r"kv_cache\.num_gpu_blocks must be a whole number, at least 1, not -1"),
        ({"engine_kwargs": {"max_num_seqs": "many"}}, r"engine_kwargs\.max_num_seqs must be a whole number"),
        ({"kv_cache": {"gpu_memory_utilization": 90}}, "must be a share, more than 0 and at most 1, not 90"),
        ({"kv_cache": {"enable_prefix_caching": "yes"}}, "must be true or false"),
    ],
)
def test_a_broken_meta(tmp_path: Path, meta: Any, why: str) -> None:
    """One error with the key."""
    with pytest.raises(SpecError, match=why):
        read_run(folder(tmp_path, *THREE, meta=meta))
