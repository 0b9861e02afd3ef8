"""What is known of outside tables beside their columns."""

from __future__ import annotations

import pandas as pd
import pytest

from roofline.measure.records.row_groups import gathered, own_kernel, ungated

NEMOTRON = {"hidden": 2688, "inter": 1856, "experts": 128, "topk": 6}
QWEN3 = {"hidden": 4096, "inter": 1536, "experts": 128, "topk": 8}
MIXTRAL = {"hidden": 4096, "inter": 14336, "experts": 8, "topk": 2}


def row(backend: str, kernel: str, version: str = "", ranks: int = 4, op: str = "moe", **sizes: int) -> pd.DataFrame:
    """One row of AIConfigurator's table."""
    texts = {"source": "aiconfigurator", "op": op, "backend": backend, "kernel": kernel, "version": version}
    return pd.DataFrame([{**texts, "moe_ep": ranks, **sizes}])


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (row("trtllm", "moe_torch_flow_nongated", **QWEN3), True),
        (row("trtllm", "moe_torch_flow_cutlass", **QWEN3), False),
        (row("sglang", "sglang_flashinfer_cutlass_moe", **NEMOTRON), True),
        (row("sglang", "sglang_fused_moe_triton", **NEMOTRON), False),  # 0.5.10 was measured with a gate
        (row("vllm", "vllm_unquantizedfusedmoe_triton_tritonexperts", **NEMOTRON), True),
        (row("vllm", "vllm_unquantizedfusedmoe_triton_tritonexperts", **QWEN3), False),
        (row("vllm", "vllm_fused_moe", **NEMOTRON), False),  # 0.14 too
    ],
)
def test_ungated(frame: pd.DataFrame, expected: bool) -> None:
    """By the kernel's name, and of vLLM's newer rows by the model."""
    assert ungated(frame).tolist() == [expected]


def test_only_sglang_has_a_kernel_of_its_own_for_ungated_experts() -> None:
    """TensorRT-LLM's is the one of the gated ones."""
    assert own_kernel(row("sglang", "sglang_flashinfer_cutlass_moe", **NEMOTRON)).all()
    assert not own_kernel(row("trtllm", "moe_torch_flow_nongated", **NEMOTRON)).any()


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (row("sglang", "sglang_fused_moe_triton", "0.5.10", **QWEN3), True),
        (row("sglang", "sglang_fused_moe_triton", "0.5.10", ranks=1, **QWEN3), False),  # no other rank, nothing to gather
        (row("sglang", "sglang_fused_moe_triton", "0.5.14", **QWEN3), False),
        (row("sglang", "sglang_fused_moe_triton", "0.5.14", **MIXTRAL), True),
        (row("vllm", "vllm_fused_moe", "0.14.0", **MIXTRAL), False),
    ],
)
def test_gathered(frame: pd.DataFrame, expected: bool) -> None:
    """SGLang's fused function called by itself, with several ranks."""
    assert gathered(frame).tolist() == [expected]


def test_other_ops_are_neither() -> None:
    """A product has no experts."""
    frame = row("sglang", "cublas", op="gemm")
    frame[["hidden", "inter", "experts", "topk"]] = float("nan")
    assert not ungated(frame).any()
    assert not gathered(frame).any()
