"""MXFP4 of gpt-oss."""

from __future__ import annotations

from roofline.specs.huggingface.methods.base import EXPERTS, Keys, Plan, Rule

METHOD = "mxfp4"


def plan(keys: Keys, dtype: str) -> Plan:
    """Mxfp4Config of transformers: routed experts alone."""
    del dtype
    left = keys.left("modules_to_not_convert")
    keys.done("dequantize")
    return Plan((left, Rule(keys.make("mxfp4"), roles=EXPERTS)))
