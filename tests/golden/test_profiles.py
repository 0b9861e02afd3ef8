"""Real traces: PyTorch on an H100, SGLang and vLLM on an MI300X (test data of TraceLens, MIT)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from roofline.measure.profile.profile import Profile, profile

H100 = "h100_torch_eager_qwen1.5-0.5b-chat.json.gz"
SGLANG = "mi300x_sglang_qwen3-8b_prefill_decode.json.gz"
VLLM = "mi300x_vllm_gpt-oss_prefill_decode_piecewise.json.gz"
CAPTURE = "mi300x_vllm_gpt-oss_graph_capture.json.gz"


@pytest.fixture(scope="module")
def folder(truth: Path) -> Path:
    """Of the traces."""
    path = truth / "truth" / "profiles"
    if not path.is_dir():
        pytest.skip("the traces are not there")
    return path


@cache
def read(path: Path, model: str | None = None, hardware: str | None = None) -> Profile:
    """A trace, analysed once."""
    return profile(path, model, hardware)


@pytest.mark.parametrize("name", [H100, SGLANG, VLLM, CAPTURE])
def test_kernels_are_understood(folder: Path, name: str) -> None:
    """At least 99 % of the time (95 % are promised), and the times of the table add up to the trace's."""
    result = read(folder / name)
    assert result.understood_share > 0.99
    assert sum(entry.time_s for entry in result.details) == pytest.approx(sum(result.trace.kernels.duration_s), rel=1e-9)
    assert sum(entry.time_s for entry in result.operators) == pytest.approx(result.time_s, rel=1e-9)


def test_steps_by_shapes(folder: Path) -> None:
    """Plain PyTorch: 16 prompts of 559 tokens, as the shape of the embedding's indices and of attention says."""
    (step,) = read(folder / H100).steps
    assert (step.kind, step.batch, step.new_tokens, step.cached_tokens) == ("prefill", 16, 16 * 559, 0)
    assert step.inferred


def test_steps_by_annotations(folder: Path) -> None:
    """SGLang and vLLM: what the annotations say, `sk` less `sq` being the tokens in the cache."""
    (step,) = read(folder / SGLANG).steps
    assert (step.kind, step.batch, step.new_tokens, step.cached_tokens) == ("prefill", 15, 15360, 0)
    (step,) = read(folder / VLLM).steps
    assert (step.kind, step.batch, step.new_tokens, step.cached_tokens) == (
        "mixed",
        9 + 37,
        8155 + 37,
        8430 - 8155 + 34489 - 37,
    )
    assert {step.kind for step in read(folder / CAPTURE).steps} == {"capture"}


def test_flops_of_products_by_hand(folder: Path) -> None:
    """Qwen1.5 0.5B on 8,944 tokens: a layer's products are four of 1024 x 1024 and three of 1024 x 2816, 24 layers."""
    result = read(folder / H100)
    flops = sum(entry.flops or 0 for entry in result.details if entry.kind == "gemm" and entry.host_operator != "aten::bmm")
    assert flops == 24 * 2 * 8944 * (4 * 1024 * 1024 + 3 * 1024 * 2816)


def test_no_point_above_its_roof_without_a_reason(folder: Path) -> None:
    """Nor an estimate below the bound."""
    for name, model, hardware in ((H100, None, None), (SGLANG, None, None), (VLLM, "gpt-oss-20b", "mi300x")):
        for entry in read(folder / name, model, hardware).details:
            if entry.bound_s is not None and entry.known_s < entry.bound_s:
                assert entry.why_faster, entry.label
            if entry.estimate_s is not None and entry.bound_s is not None:
                assert entry.estimate_s >= entry.bound_s * (1 - 1e-9), entry.label


def test_qwen3_beside_its_kernels(folder: Path) -> None:
    """All operators of the model ran, each once in each of 36 layers, and the FLOP of both agree."""
    result = read(folder / SGLANG, "qwen3-8b")
    rows = {row.path: row for row in result.alignment if row.status != "extra"}
    layers = [row for path, row in rows.items() if path.startswith("layers/")]
    assert len(layers) == 12
    assert all((row.status, row.planned, row.measured) == ("matched", 36, 36) for row in layers)
    assert rows["lm_head"].status == rows["embedding"].status == rows["sampling"].status == "matched"
    by_shape = read(folder / SGLANG)
    products = sum(entry.flops or 0 for entry in by_shape.details if entry.kind == "gemm")
    planned = sum(entry.flops or 0 for entry in result.details if entry.kind == "gemm")
    assert (
        planned
        == products
        == 2 * 15360 * 36 * (4096 * 6144 + 4096 * 4096 + 4096 * 24576 + 12288 * 4096) + 2 * 15 * 4096 * 151936
    )


def test_gpt_oss_in_graphs_beside_its_kernels(folder: Path) -> None:
    """Without shapes: 24 layers of two kinds, the experts in three kernels each, their activation in the first."""
    result = read(folder / VLLM, "gpt-oss-20b", "mi300x")
    rows = {row.path: row for row in result.alignment}
    for kind in ("sliding", "full"):
        experts = rows[f"layers/{kind}/moe/experts"]
        assert (experts.status, experts.planned, experts.measured, experts.kernels) == ("matched", 12, 12, 36)
        activation = rows[f"layers/{kind}/moe/experts/activation"]
        assert (activation.status, activation.into) == ("fused", f"layers/{kind}/moe/experts")
        assert rows[f"layers/{kind}/attention/core"].measured == 12
    extra = sum(row.time_s for row in result.alignment if row.status == "extra")
    assert extra < 0.01 * result.time_s


def test_the_difference_of_a_step_is_that_of_its_parts(folder: Path) -> None:
    """Sums over operators, idle and overlapped time: nothing of the difference is left out, and no kernel counts twice."""
    for name, model, hardware in ((SGLANG, "qwen3-8b", None), (VLLM, "gpt-oss-20b", "mi300x")):
        result = read(folder / name, model, hardware)
        found = result.difference
        assert found is not None
        assert found.measured_s == pytest.approx(sum(step.duration_s for step in result.steps))
        assert found.estimate_s == pytest.approx(sum(estimate or 0.0 for _, estimate in result.step_estimates))
        assert sum(part.measured_s for part in found.parts) == pytest.approx(found.measured_s)
        assert sum(part.estimate_s for part in found.parts) == pytest.approx(found.estimate_s)
        kernels = sum(part.measured_s for part in found.parts if part.status != "device")
        assert kernels == pytest.approx(result.time_s - result.outside_s)
        idle = next(part for part in found.parts if part.name == "idle")
        assert idle.measured_s >= result.gaps.idle_s * (1 - 1e-9)  # and what a step has before its first kernel


def test_host_and_queue(folder: Path) -> None:
    """The eager run leaves the device idle, in graphs it hardly is; parts add up."""
    eager, graphs = read(folder / H100).gaps, read(folder / VLLM).gaps
    assert eager.idle_s / eager.span_s > 0.05
    assert graphs.idle_s / graphs.span_s < 0.01
    for gaps in (eager, graphs):
        assert gaps.launch_bound_s + gaps.queued_s + gaps.unknown_s == pytest.approx(gaps.idle_s)
