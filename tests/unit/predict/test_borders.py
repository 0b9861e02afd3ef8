"""`max_batch` and `max_context` are exact: so many fit, and one more does not."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.errors import InputError
from roofline.predict.request import prepare
from roofline.specs.workload import decode

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama-3.1-8b", "a100-sxm-80gb", {}),
    ("llama-3.1-8b", "l4", {"kv_cache_dtype": "fp8"}),
    ("llama-3.1-70b", "dgx-h100", {"tp": 4}),
    ("llama-3.1-8b", "dgx-h100", {"dp": 3}),
    ("llama-3.1-8b", "dgx-h100", {"pp": 3}),
    ("mistral-7b-v0.1", "a100-sxm-40gb", {}),
    ("gemma-3-12b", "h100-sxm", {}),
    ("gpt-oss-20b", "l40s", {}),
    ("deepseek-v2-lite", "a100-sxm-40gb", {}),
    ("mixtral-8x7b", "dgx-h100", {"tp": 2}),
    ("gpt2", "t4", {"reserve": "1 GiB"}),
    ("llama-3.1-8b", "a100-sxm-80gb", {"block_size": 128}),
]
IDS = [f"{model} on {hardware} {options or ''}" for model, hardware, options in CASES]


def _fits(model: str, hardware: str, options: dict[str, Any], batch: int, context: int) -> bool:
    """What `analyze` says of a batch, without the limits that it looks for besides."""
    return prepare(model, hardware, **options).memory.fits(decode(batch, context))


@pytest.mark.parametrize("context", [0, 1000, 8000])
@pytest.mark.parametrize(("model", "hardware", "options"), CASES, ids=IDS)
def test_max_batch_is_the_border(model: str, hardware: str, options: dict[str, Any], context: int) -> None:
    """So many sequences fit, one more does not, also with several replicas."""
    most = roofline.analyze(model, hardware, context=context, phase="decode", **options).memory.max_batch
    assert most > 0
    assert _fits(model, hardware, options, most, context)
    assert not _fits(model, hardware, options, most + 1, context)


@pytest.mark.parametrize("batch", [1, 37])
@pytest.mark.parametrize(("model", "hardware", "options"), CASES, ids=IDS)
def test_max_context_is_the_border(model: str, hardware: str, options: dict[str, Any], batch: int) -> None:
    """So many cached tokens fit, one more does not; None means that the windows set no limit: 2^40 tokens fit."""
    longest = roofline.analyze(model, hardware, batch=batch, context=0, phase="decode", **options).memory.max_context
    if longest is None:
        assert model == "mistral-7b-v0.1"
        assert _fits(model, hardware, options, batch, 2**40)
        return
    assert longest > 0
    assert _fits(model, hardware, options, batch, longest)
    assert not _fits(model, hardware, options, batch, longest + 1)


def test_windows_everywhere_set_no_limit() -> None:
    """Every layer of Mistral 7B keeps at most 4096 tokens: one sequence of any length fits."""
    assert roofline.analyze("mistral-7b-v0.1", "h100-sxm", batch=1).memory.max_context is None


def test_windows_that_do_not_fit_set_one() -> None:
    """A batch whose windows do not all fit has a longest context, which is shorter than the window."""
    memory = roofline.analyze("mistral-7b-v0.1", "h100-sxm", batch=300, context=0, phase="decode").memory
    assert memory.max_context is not None
    assert 0 < memory.max_context < 4096
    assert _fits("mistral-7b-v0.1", "h100-sxm", {}, 300, memory.max_context)
    assert not _fits("mistral-7b-v0.1", "h100-sxm", {}, 300, memory.max_context + 1)


def test_weights_that_do_not_fit_leave_nothing() -> None:
    """70 billion parameters of two bytes are more than one H100: no batch and no context fit."""
    memory = roofline.analyze("llama-3.1-70b", "h100-sxm").memory
    assert (memory.fits, memory.max_batch, memory.max_context, memory.kv_capacity_tokens) == (False, 0, 0, 0)


def test_max_num_seqs_caps_the_batch() -> None:
    """The engine's limit of sequences holds for each replica, however much memory there is."""
    assert roofline.analyze("llama-3.1-8b", "dgx-h100", max_num_seqs=20, dp=2).memory.max_batch == 40


def test_table_is_the_border_at_every_context() -> None:
    """The rows of `max_batch_by_context` are what `max_batch` says at that context, and never grow with it."""
    rows = roofline.analyze("gemma-3-12b", "h100-sxm", context=3000).limits.max_batch_by_context
    assert {1024, 2048, 3000, 131072} <= {context for context, _ in rows}
    batches = [batch for _, batch in rows]
    assert batches == sorted(batches, reverse=True)
    for context, batch in rows[:4]:
        assert _fits("gemma-3-12b", "h100-sxm", {}, batch, context)
        assert not _fits("gemma-3-12b", "h100-sxm", {}, batch + 1, context)


def test_what_would_fit_does_fit() -> None:
    """Each suggestion of a deployment that does not fit is one that does."""
    memory = roofline.analyze("llama-3.1-8b", "l4", batch=64, context=8192).memory
    assert not memory.fits
    assert memory.would_fit
    for text in memory.would_fit:
        flag, value = text.split()[:2]
        changed = {"batch": 64, "context": 8192, flag.removeprefix("--").replace("-", "_"): value}
        assert roofline.analyze("llama-3.1-8b", "l4", **changed).memory.fits, text  # type: ignore[arg-type]


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("llama-3.1-8b", "l4", {"batch": 64, "context": 8192, "input_len": 100}),
        ("llama-3.1-70b", "dgx-h100", {"batch": 2, "context": 1000, "input_len": 1000}),
        ("llama-3.1-8b", "dgx-h100", {"batch": 100, "input_len": 8000, "output_len": 100}),
        ("llama-3.1-8b", "h100-sxm", {"segments": "400x1@9000"}),
        ("llama-3.1-8b", "h100-sxm", {"phase": "prefill", "batch": 480, "input_len": 1000}),
        ("llama-3.1-70b", "dgx-h100", {"quantization": "fp8", "tp": 1, "batch": 90, "context": 4000, "input_len": 10}),
    ],
    ids=str,
)
def test_every_change_that_would_fit(model: str, hardware: str, options: dict[str, Any]) -> None:
    """One flag at a time, smallest change first: each that fits is listed, by trying all of them; the least of more devices."""

    def fits(**changes: Any) -> bool:
        try:
            return prepare(model, hardware, **{**options, **changes}).all_fit()
        except InputError:
            return False

    memory = roofline.analyze(model, hardware, **options).memory
    assert not memory.fits
    expected = []
    if "segments" not in options and options["batch"] > 1:
        batch = next((batch for batch in range(options["batch"] - 1, 0, -1) if fits(batch=batch)), 0)
        expected += [f"--batch {batch}"] if batch else []
        assert memory.max_batch_of_steps == batch
    if "context" in options and "output_len" not in options:
        shorter = [length for length in range(options["context"] - 1, 0, -397) if fits(context=length)]
        if fits(context=1):
            (flag,) = [text for text in memory.would_fit if text.startswith("--context")]
            length = int(flag.split()[1])
            assert fits(context=length)
            assert length == options["context"] - 1 or not fits(context=length + 1)
            assert length >= max(shorter, default=1)
            expected.append(flag)
    for name, value in (("kv_cache_dtype", "fp8"), ("quantization", "fp8"), ("quantization", "awq")):
        if name not in options and fits(**{name: value}):
            expected.append(f"--{name.replace('_', '-')} {value}")
    larger = [size for size in (2, 4, 8, 16) if fits(tp=options.get("tp", 1) * size)]
    expected += [f"--tensor-parallel-size {options.get('tp', 1) * larger[0]}"] if larger else []
    assert list(memory.would_fit) == expected
