"""Kernels beside the operators of a model, on sequences written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import Precision, parse_dtype
from roofline.graph.build import Graph, build
from roofline.measure.profile.alignment import Aligned, Unit, align, planned_operators
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment


def graph_of(name: str, *segments: Segment) -> tuple[Model, Graph]:
    """A model in bf16, and its operators for a step."""
    model, _ = load_model(name)
    bf16 = parse_dtype("bf16")
    precision = Precision(weight=bf16, activation=bf16, kv=bf16)
    return model, build(model, Deployment(), precision, segments)


def unit(kind: str, fuses: tuple[str, ...] = (), **record: Any) -> Unit:
    """One kernel."""
    return Unit([0], kind, fuses, False, record or None)


def laid(name: str, layer: list[Unit], before: list[Unit], after: list[Unit]) -> Aligned:
    """A step of one sequence of 64 tokens, the kernels of each layer the same."""
    model, graph = graph_of(name, Segment(1, 64, 0))
    planned = planned_operators(model, graph)
    return align(planned, [*before, *layer * model.num_hidden_layers, *after])


def paths(aligned: Aligned, units: int, first: int) -> list[str]:
    """The operators of some kernels, "" of extra ones."""
    chosen = aligned.operator[first : first + units]
    return [aligned.planned[number].path if number >= 0 else "" for number in chosen]


DENSE = [
    unit("norm"), unit("gemm"), unit("rope"), unit("kv_write"), unit("attention"), unit("gemm"), unit("norm"), unit("gemm"),
    unit("activation"), unit("gemm"),
]  # fmt: skip
NAMES = [
    "layers/attention/norm", "layers/attention/qkv_proj", "layers/attention/rope", "layers/attention/kv_write",
    "layers/attention/core", "layers/attention/o_proj", "layers/mlp/norm", "layers/mlp/gate_up_proj", "layers/mlp/activation",
    "layers/mlp/down_proj",
]  # fmt: skip


@pytest.mark.parametrize("layer", [0, 7, 31])
def test_one_kernel_an_operator(layer: int) -> None:
    """Llama 3.1 8B as an engine runs it, by kinds alone."""
    aligned = laid("llama-3.1-8b", DENSE, [unit("embedding")], [unit("norm"), unit("gemm"), unit("sampling")])
    assert paths(aligned, 10, 1 + 10 * layer) == NAMES
    assert paths(aligned, 3, 321) == ["final_norm", "lm_head", "sampling"]


def test_fused_extra_and_missing() -> None:
    """One kernel for rotation and the cache's write; tables and copies before the first layer; and no sampling."""
    fused = [*DENSE[:2], unit("rope", ("kv_write",)), *DENSE[4:]]
    before = [unit("scheduling"), unit("memcpy"), unit("scheduling"), unit("embedding")]
    aligned = laid("llama-3.1-8b", fused, before, [unit("norm"), unit("gemm")])
    assert paths(aligned, 4, 0) == ["", "", "", "embedding"]
    assert paths(aligned, 9, 4 + 9 * 5) == [name for name in NAMES if name != "layers/attention/kv_write"]
    writes = [number for number, entry in enumerate(aligned.planned) if entry.path == "layers/attention/kv_write"]
    assert all(aligned.planned[aligned.fused[number]].path == "layers/attention/rope" for number in writes)
    sampling = next(number for number, entry in enumerate(aligned.planned) if entry.path == "sampling")
    assert aligned.fused[sampling] == -1


def test_operators_of_many_kernels() -> None:
    """Plain torch: three products for queries, keys and values by their shapes, a norm of five passes, a rotation of six."""
    norm = [unit("copy"), unit("elementwise"), unit("reduce"), unit("elementwise"), unit("elementwise")]
    layer = [
        *norm,
        unit("gemm", op="gemm", n=4096, k=4096),
        unit("gemm", op="gemm", n=1024, k=4096),
        unit("gemm", op="gemm", n=1024, k=4096),
        *[unit("elementwise"), unit("elementwise"), unit("copy")] * 2,
        unit("attention"),
        unit("gemm", op="gemm", n=4096, k=4096),
        *norm,
        unit("gemm", op="gemm", n=14336, k=4096),
        unit("activation"),
        unit("gemm", op="gemm", n=14336, k=4096),
        unit("elementwise"),
        unit("gemm", op="gemm", n=4096, k=14336),
    ]
    aligned = laid("llama-3.1-8b", layer, [unit("embedding")], [*norm, unit("gemm"), unit("sampling")])
    second = paths(aligned, len(layer), 1 + len(layer))
    assert second[:5] == ["layers/attention/norm"] * 5
    assert second[5:8] == ["layers/attention/qkv_proj"] * 3
    assert second[14:16] == ["layers/attention/core", "layers/attention/o_proj"]
    assert second[16:21] == ["layers/mlp/norm"] * 5
    assert second[-1] == "layers/mlp/down_proj"


def test_experts_are_one_operator() -> None:
    """gpt-oss 20B: two products of experts, the first with the activation, and the sum are one; its layers alternate."""
    layer = [
        unit("norm"), unit("gemm"), unit("rope"), unit("kv_write"), unit("attention"), unit("gemm"), unit("norm"), unit("gemm"),
        unit("router"), unit("grouped_gemm", ("activation",)), unit("grouped_gemm"), unit("permute"),
    ]  # fmt: skip
    aligned = laid("gpt-oss-20b", layer, [unit("embedding")], [unit("norm"), unit("gemm")])
    kinds = {paths(aligned, 12, 1)[9], paths(aligned, 12, 13)[9]}
    assert kinds == {"layers/sliding/moe/experts", "layers/full/moe/experts"}
    for at in (0, 1):
        assert len(set(paths(aligned, 12, 1 + 12 * at)[9:])) == 1


def test_attention_over_several_lengths_is_one_operator() -> None:
    """Prefill and decode in one step: two entries of the graph, one of the alignment."""
    model, graph = graph_of("llama-3.1-8b", Segment(2, 128, 0), Segment(8, 1, 500, decode=True))
    assert sum("/core/" in path for path in graph) == 2
    entries = planned_operators(model, graph)
    cores = [entry for entry in entries if entry.path == "layers/attention/core"]
    assert len(cores) == 32
    assert all(len(entry.paths) == 2 for entry in cores)
