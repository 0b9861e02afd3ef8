"""FP8 of transformers and vLLM: one scale a matrix, or one a block."""

from __future__ import annotations

from roofline.specs.huggingface.methods.base import EXPERTS, Keys, Plan, Rule, kv_cache

METHOD = "fp8"


def plan(keys: Keys, dtype: str) -> Plan:
    """FineGrainedFP8Config of transformers, Fp8Config of vLLM."""
    del dtype
    keys.choice("fmt", of=("e4m3", "float8_e4m3fn", "e5m2", "float8_e5m2"), default="e4m3")
    activations = keys.choice("activation_scheme", of=("dynamic", "static"), default="dynamic")
    in_fp4 = keys.choice("expert_dtype", of=("fp8", "fp4"), default="fp8") == "fp4"
    # NB: scale_fmt alone does not tell: DeepSeek-V3.1 names ue8m0 and stores fp32; beside expert_dtype (V4) it is a byte.
    rounded = keys.choice("scale_fmt", of=("float", "ue8m0"), default="float") == "ue8m0" and "expert_dtype" in keys.data
    if (blocks := keys.get("weight_block_size")) is None:
        scheme = keys.make("fp8", activation_scheme=activations)
    elif activations == "static":
        keys.refuse("activation_scheme", "'static' with weight_block_size is not known; known: dynamic")
    else:
        scheme = keys.make("fp8_block", weight_block_size=blocks, scale_dtype="e8m0" if rounded else "fp32")
    rules = [keys.left("modules_to_not_convert", "ignored_layers")]
    if more := keys.listed("modules_to_convert"):
        rules.append(keys.named(scheme, more, "modules_to_convert"))
    if in_fp4:
        rules.append(Rule(keys.make("mxfp4", activations="fp8"), roles=EXPERTS))
    kv = kv_cache(keys)
    keys.done("dequantize", "is_checkpoint_fp8_serialized")
    return Plan((*rules, Rule(scheme)), kv)
