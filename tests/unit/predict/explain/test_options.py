"""What `analyze` prints with a flag, `explain` derives with the same flag."""

from __future__ import annotations

from typing import Any

import pytest

import roofline


@pytest.mark.parametrize(
    ("model", "hardware", "options"),
    [
        ("llama-3.1-8b", "a100-sxm-80gb", {"batch": 4, "context": 2048, "shared_prefix": 512}),
        ("llama-3.1-8b", "a100-sxm-80gb", {"batch": 4, "input_len": 300, "attention": "eager", "mask": "full"}),
        ("llama-3.1-8b", "dgx-h100", {"batch": 8, "logits": "all", "tp": 4, "sequence_parallel": True}),
        ("mixtral-8x7b", "dgx-h100", {"batch": 64, "dp": 8, "ep": 8, "expert_imbalance": 1.5}),
        ("llama-3.1-8b", "dgx-h100", {"input_len": 4096, "cp": 4, "max_num_batched_tokens": 2048}),
    ],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_operator(model: str, hardware: str, options: dict[str, Any], phase: str) -> None:
    """FLOP and bytes of each operator of a phase are those of its formula."""
    result = roofline.analyze(model, hardware, **options, ignore_capacity=True)
    operators = {"prefill": result.prefill, "decode": result.decode}[phase].operators
    for operator in operators:
        if operator.path == "engine":  # seconds that the engine adds: they have no FLOP and no bytes
            continue
        parts = {
            part.subject: part.value for part in roofline.explain(model, operator.path, hardware, phase=phase, **options).parts
        }
        assert parts.get("matrix_flops", 0) == pytest.approx(operator.cost.matrix_flops, rel=1e-9), operator.path
        if "bytes" in parts:
            assert parts["bytes"] == pytest.approx(operator.cost.bytes, rel=1e-9), operator.path
