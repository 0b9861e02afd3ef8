"""FP8 of FBGEMM."""

from __future__ import annotations

from roofline.specs.huggingface.methods.base import Keys, Plan, Rule

METHOD = "fbgemm-fp8"


def plan(keys: Keys, dtype: str) -> Plan:
    """FbgemmFp8Config of transformers: an fp32 scale an output."""
    del dtype
    left = keys.left("modules_to_not_convert")
    keys.done("activation_scale_ub")
    return Plan((left, Rule(keys.make("fp8", strategy="channel"))))
