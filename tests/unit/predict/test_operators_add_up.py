"""The table of operators adds up to its phase: every kernel at its bound or above, and terms that have a name."""

from __future__ import annotations

from typing import Any

import pytest

import roofline

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama-3.1-8b", "h100-sxm", {}),
    ("llama-3.1-8b", "h100-sxm", {"quantization": "awq"}),
    ("llama-3.1-8b", "h100-sxm", {"mask": "full"}),
    ("llama-3.1-8b", "h100-sxm", {"mfu": 0.5, "mbu": 0.7}),
    ("gemma-3-12b", "mi300x", {}),  # no measurements: the prior
    ("qwen3-30b-a3b", "rtx-4090", {}),
    ("llama-3.1-70b", "dgx-h100", {"tp": 2, "pp": 2}),
    ("llama-3.1-70b", "dgx-h100", {"tp": 4, "allreduce_bandwidth": "20 GB/s"}),
    ("deepseek-v3", "dgx-h200", {"tp": 8, "ep": 8}),
    ("deepseek-v3", "dgx-h200", {"dp": 8, "ep": 8, "microbatch_overlap": True}),
    ("qwen3-235b-a22b", "dgx-h100", {"dp": 8, "ep": 8, "microbatch_overlap": True, "engine": "sglang"}),
]
TERMS = {"engine", "microbatch_overlap"}
"""Paths of rows that are no kernel."""


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize(("model", "hardware", "options"), CASES)
def test_operators_add_up_to_their_phase(model: str, hardware: str, options: dict[str, Any], batch: int) -> None:
    """Bound and estimate: a step is its kernels one after another, and what the engine adds and overlap hides."""
    result = roofline.analyze(model, hardware, batch=batch, input_len=2000, ignore_capacity=True, **options)
    for phase in result.phases:
        assert phase.time.estimate is not None
        for name in ("bound", "estimate"):
            parts = [getattr(op.time, name) for op in phase.operators]
            assert sum(parts) == pytest.approx(getattr(phase.time, name), rel=1e-9), (phase.name, name)
        for op in phase.operators:
            if op.kind != "overhead":
                assert op.time.estimate is not None
                assert op.time.estimate >= op.times.bound * (1 - 1e-9), op.path
        assert {op.path for op in phase.operators if op.kind == "overhead"} <= TERMS


def test_what_overlap_hides_has_a_row() -> None:
    """Two microbatches in turn: at the bound the shorter of collectives and all else is hidden, so the row is that, below 0."""
    options = {"dp": 8, "ep": 8, "batch": 64, "input_len": 2000, "ignore_capacity": True}
    plain = roofline.analyze("deepseek-v3", "dgx-h200", **options)
    turns = roofline.analyze("deepseek-v3", "dgx-h200", **options, microbatch_overlap=True)
    for before, after in zip(plain.phases, turns.phases, strict=True):
        hidden = next(op for op in after.operators if op.path == "microbatch_overlap")
        assert hidden.time.bound == pytest.approx(after.time.bound - before.time.bound)
        assert 0 < -hidden.time.bound <= before.time.bound / 2
        assert not any(op.path == "microbatch_overlap" for op in before.operators)
    rows = [op for phase in turns.to_dict()["phases"] for op in phase["operators"] if op["path"] == "microbatch_overlap"]
    assert [row["tokens_per_s"]["bound"] for row in rows] == [None, None]  # no time below 0 is a rate
