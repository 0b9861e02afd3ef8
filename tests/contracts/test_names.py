"""One name for each quantity: a path in a JSON document is the path of attributes in Python, and the name of a column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import roofline

DOCS = Path(__file__).resolve().parents[2] / "docs"
MODEL, HARDWARE = "llama-3.1-8b", "h100-sxm"
LOAD = {"input_len": 1024, "output_len": 64}
OTHERWISE: dict[str, tuple[str, ...]] = {
    # documents only: what a program needs that reads a file, and texts that Python has as objects
    "": ("schema_version", "tool_version", "data_version", "asked"),
    "analyze": ("phases.operators.tokens_per_s",),
    "op": ("formula", "formulas", "points", "grid", "compute_bound_from", "sweep"),
    "limits": ("rows.max_batch_slo_interval", "slo.basis"),
    "plan": (
        "candidates.spare", "candidates.deployment", "candidates.engine_flags", "candidates.engine_files", "candidates.pools",
        "candidates.classes", "candidates.throughput", "candidates.utilisation", "candidates.running", "candidates.currency",
        "candidates.cost_per_hour_range", "candidates.cost_per_hour_scaled", "candidates.price", "candidates.offers",
        "candidates.power", "candidates.breaks_first", "candidates.ttft_s", "candidates.tpot_s",
    ),
    "preempt": (
        "kept_tokens", "block_size", "basis", "certain", "ratio", "steals", "host", "partial", "variants",
        "curves", "heatmap", "break_even",
        "recompute.bound_s", "recompute.low_s", "recompute.high_s", "recompute.basis", "recompute.batch",
        "recompute.context", "recompute.alone",
        "swap.pinned", "swap.coalesced", "swap.overlapped", "swap.gpus_per_link",
    ),
    "simulate": (
        "requests", "refusals", "workload", "server", "steps", "series", "distributions", "preemption", "ttft_s", "tpot_s",
        "itl_s", "e2e_s", "fits", "why",
    ),
}  # fmt: skip


def _results() -> dict[str, Any]:
    return {
        "analyze": roofline.analyze(MODEL, HARDWARE, batch=8, output_len=64),
        "op": roofline.op("gemm", 512, 8192, 28672, hardware=HARDWARE),
        "limits": roofline.limits(MODEL, HARDWARE, context="1k,8k", ttft="1 s", tpot="50 ms"),
        "preempt": roofline.preempt(MODEL, HARDWARE, tokens=2048),
        "plan": roofline.plan(MODEL, hardware=HARDWARE, rate=5, ttft="2 s", tpot="50 ms", tp=1, dtype="bf16", **LOAD),
        "simulate": roofline.simulate(MODEL, HARDWARE, workload="poisson:5", requests=50, **LOAD),
    }


def _leaves(value: Any, python: Any, path: str, without: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    """Path, number in the document, and what Python has there."""
    if path in without:
        return
    if isinstance(value, dict):
        for name, inside in value.items():
            below = f"{path}.{name}" if path else name
            if below not in without:
                at = python[name] if isinstance(python, dict) else getattr(python, name)
                yield from _leaves(inside, at, below, without)
    elif isinstance(value, list):
        assert len(value) == len(python), path
        for one, other in zip(value, python, strict=True):
            yield from _leaves(one, other, path, without)
    else:
        yield path, value, python


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in OTHERWISE if kind])
def test_a_path_in_json_is_a_path_of_attributes(kind: str) -> None:
    """With the same value at its end."""
    result = _results()[kind]
    leaves = list(_leaves(result.to_dict(), result, "", (*OTHERWISE[""], *OTHERWISE[kind])))
    assert len(leaves) > 20
    for path, value, python in leaves:
        assert value == python, path


def test_columns_are_paths_or_have_the_unit_last() -> None:
    """`to_frame(names="json")` has the paths of the documents; flat names of the same quantities have the same values."""
    result = roofline.analyze(MODEL, HARDWARE, batch=8)
    paths, flat = result.to_frame(names="json"), result.to_frame()
    operators = [op for phase in result.to_dict()["phases"] for op in phase["operators"]]
    for path in ("time_s.bound", "time_s.estimate", "flops.matrix", "bytes.total", "tokens_per_s.bound"):
        head, leaf = path.split(".")
        assert list(paths[path]) == [op[head][leaf] for op in operators]
    gemm = paths["kind"] == "gemm"
    assert list(paths.loc[gemm, "dims.m"]) == [op["dims"]["m"] for op in operators if op["kind"] == "gemm"]
    assert [dims["m"] for dims in flat.loc[gemm, "dims"]] == list(paths.loc[gemm, "dims.m"])
    for path, column in NAMES.items():
        pd.testing.assert_series_equal(paths[path], flat[column], check_names=False, check_dtype=False)


NAMES = {
    "time_s.bound": "time_bound_s", "time_s.sum": "time_sum_s", "time_s.estimate": "time_estimate_s",
    "time_s.low": "time_low_s",
    "time_s.high": "time_high_s", "flops.matrix": "matrix_flops", "flops.vector": "vector_flops",
    "bytes.weights": "weight_bytes",
    "bytes.activations": "activation_bytes", "bytes.kv_read": "kv_read_bytes", "bytes.kv_write": "kv_write_bytes",
    "bytes.total": "bytes", "link_bytes": "link_bytes", "arithmetic_intensity": "arithmetic_intensity", "bound_by": "bound_by",
}  # fmt: skip
"""Paths and the flat names of columns, of operators."""
SWEPT = {
    "time_s.floor": "time_floor_s", "time_s.bound": "time_bound_s", "time_s.estimate": "time_estimate_s",
    "time_s.low": "time_low_s", "time_s.high": "time_high_s", "tokens_per_s.bound": "tokens_per_s",
    "tokens_per_s.estimate": "tokens_per_s_estimate", "flops.total": "flops", "bytes.total": "bytes",
    "arithmetic_intensity": "arithmetic_intensity", "bound_by": "bound_by",
}  # fmt: skip
"""The same, of steps in `compile` and `sweep`."""


def test_columns_of_sweeps_are_of_the_same_quantities() -> None:
    """A step in a sweep, and the same step of an analysis."""
    row = roofline.sweep(model=MODEL, hardware=HARDWARE, batch=8, context=2048, columns=SWEPT.values()).iloc[0]
    step = roofline.analyze(MODEL, HARDWARE, batch=8, context=2048).decode
    for path, column in SWEPT.items():
        value: Any = step
        for name in path.split("."):
            value = getattr(value, name)
        assert row[column] == (value if isinstance(value, str) else pytest.approx(value)), path


def test_the_tutorial_lists_the_names() -> None:
    """Every path with its column."""
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    for path, column in (NAMES | SWEPT).items():
        assert f"`{path}`" in text, path
        assert f"`{column}`" in text, column
