"""The methods that a `quantization_config` may name, and what the keys of each mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.errors import InputError, UnknownNameError
from roofline.registry import Registry
from roofline.specs.huggingface.methods.base import Keys, Method, Plan
from roofline.specs.huggingface.methods.compressed_tensors import compressed_tensors
from roofline.specs.huggingface.methods.libraries import (
    aqlm,
    auto_round,
    bitnet,
    eetq,
    exl2,
    exl3,
    higgs,
    hqq,
    mlx,
    quark,
    torchao,
)
from roofline.specs.huggingface.methods.transformers import awq, bitsandbytes, fbgemm_fp8, fp8, gptq, modelopt, mxfp4

METHODS: Registry[Method] = Registry(
    "quantization method",
    (
        aqlm,
        auto_round,
        awq,
        bitnet,
        bitsandbytes,
        compressed_tensors,
        eetq,
        exl2,
        exl3,
        fbgemm_fp8,
        fp8,
        gptq,
        higgs,
        hqq,
        mlx,
        modelopt,
        mxfp4,
        quark,
        torchao,
    ),
    group="roofline.quantization_methods",
    accepts=Method,
)
"""Those that ship, and those of other packages (entry-point group `roofline.quantization_methods`)."""


def plan(config: Mapping[str, Any], dtype: str) -> Plan:
    """The rules of a `quantization_config`: how it stores which modules.

    Args:
        config: its keys, `quant_method` among them.
        dtype: of weights that are not quantised.

    Raises:
        InputError: the method is missing or unknown, or a key of it is wrong or not understood.
    """
    name = config.get("quant_method")
    if name is None and "w_bit" in config:  # quant_config.json of AutoAWQ
        name = "awq"
    if name is None and {"group_size", "bits"} <= config.keys():  # `quantization` of mlx-lm
        name = "mlx"
    if name is None:
        msg = (
            "quantization_config: quant_method is missing: it says what the other keys mean (mlx-lm has group_size and bits "
            f"instead, AutoAWQ w_bit). Known: {', '.join(METHODS)}."
        )
        raise InputError(msg)
    method: Method | None = METHODS.get(str(name).lower().removeprefix("intel/").replace("_", "-"))
    if method is None:
        raise InputError(f"quantization_config: {UnknownNameError('quant_method', name, METHODS, list_all=True)}")
    keys = Keys(config)
    try:
        rules = method.plan(keys, dtype)
        keys.finish()
    except InputError as error:
        if config.get("quant_method") is None:
            raise InputError(f"{error} (read as keys of {method.name}, since there is no quant_method)") from None
        raise
    return rules
