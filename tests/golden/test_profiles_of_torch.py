"""Traces of a small Llama on the host, made here by PyTorch's profiler: eager and compiled, with and without shapes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
from small_llama import SMALL, TracedRun, traced

from roofline.measure.profile.profile import Profile, profile

HARDWARE = "epyc-9654"


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> TracedRun:
    """A prompt and some generated tokens, with shapes."""
    return traced(tmp_path_factory.mktemp("eager") / "trace.json.gz")


def products(result: Profile) -> float:
    """FLOP of matrix products and attention."""
    return sum(entry.flops or 0.0 for entry in result.details if entry.kind in ("gemm", "attention"))


def by_hand(run: TracedRun) -> float:
    """FLOP of the products of all layers: queries and outputs, keys and values, gate, up and down."""
    hidden, inner, heads = SMALL.hidden_size, SMALL.intermediate_size, SMALL.num_attention_heads * SMALL.head_dim
    key_values = SMALL.num_key_value_heads * SMALL.head_dim
    layer = 2 * hidden * heads + 2 * hidden * key_values + 3 * hidden * inner
    return sum(2 * step.batch * step.new * SMALL.num_hidden_layers * layer for step in run.steps)


def test_every_operator_is_understood_and_times_add_up(eager: TracedRun) -> None:
    """Unknown below 2 % of the time; the times of the table are those of the trace."""
    result = profile(eager.path)
    assert result.understood_share > 0.98
    assert sum(entry.time_s for entry in result.details) == pytest.approx(sum(result.trace.kernels.duration_s), rel=1e-9)


def test_steps_are_those_that_ran(eager: TracedRun) -> None:
    """By the annotations, and the lengths of contexts by the shapes of attention."""
    steps = profile(eager.path).steps
    assert [(step.kind, step.batch, step.new_tokens, step.cached_tokens) for step in steps] == [
        (one.phase, one.batch, one.batch * one.new, one.batch * one.cached) for one in eager.steps
    ]


def test_steps_without_annotations(tmp_path: Path) -> None:
    """By the lookups in the embedding, whose table is too small to be told from one of positions: one step, then."""
    run = traced(tmp_path / "trace.json", annotated=False)
    result = profile(run.path)
    assert len(result.steps) == 1
    assert result.understood_share > 0.98


def test_flop_of_every_product(eager: TracedRun) -> None:
    """Those of the layers by hand; each product has its shape."""
    result = profile(eager.path)
    gemms = [entry for entry in result.details if entry.kind == "gemm"]
    head = sum(entry.flops or 0 for entry in gemms if f"x{SMALL.vocab_size}x" in entry.label)
    assert sum(entry.flops or 0 for entry in gemms) - head == by_hand(eager)


def test_the_model_beside_its_operators(eager: TracedRun) -> None:
    """Each operator of each layer of each step has its own calls, and FLOP of products are the model's."""
    result = profile(eager.path, eager.model_file, HARDWARE)
    rows = {row.path: row for row in result.alignment if row.status != "extra"}
    steps = len(eager.steps)
    for path, row in rows.items():
        layers = SMALL.num_hidden_layers if path.startswith("layers/") else 1
        assert (row.status, row.planned, row.measured) == ("matched", steps * layers, steps * layers), path
    planned = Counter({entry.label: entry.flops or 0 for entry in result.details if entry.path})
    assert sum(planned[path] for path in planned if path.endswith("_proj")) == by_hand(eager)


def test_without_shapes(tmp_path: Path) -> None:
    """Kinds alone, but for the model, which says the rest."""
    run = traced(tmp_path / "trace.json.gz", record_shapes=False)
    alone = profile(run.path)
    assert alone.understood_share > 0.98
    assert products(alone) == 0
    beside = profile(run.path, run.model_file, HARDWARE)
    rows = {row.path: row for row in beside.alignment if row.status == "matched"}
    assert {"layers/attention/core", "layers/mlp/down_proj", "lm_head"} <= set(rows)


@pytest.mark.slow
@pytest.mark.night
def test_compiled(tmp_path: Path) -> None:
    """Code of the compiler is known by its name, products by their operators."""
    run = traced(tmp_path / "trace.json.gz", compiled=True)
    result = profile(run.path)
    assert result.understood_share > 0.98
    gemms = [entry for entry in result.details if entry.kind == "gemm"]
    head = sum(entry.flops or 0 for entry in gemms if f"x{SMALL.vocab_size}x" in entry.label)
    assert sum(entry.flops or 0 for entry in gemms) - head == by_hand(run)
