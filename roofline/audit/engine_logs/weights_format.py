"""How the weights are stored, from what an engine says about quantisation."""

from __future__ import annotations

from roofline.errors import InputError

_SCHEMES = {
    "fp8": "fp8", "ptpc_fp8": "fp8", "fbgemm_fp8": "fp8", "modelopt": "fp8", "modelopt_fp8": "fp8", "w8a8_fp8": "fp8",
    "w8a8_int8": "int8", "awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq", "bitsandbytes": "nf4",
    "mxfp4": "mxfp4", "modelopt_fp4": "nvfp4", "petit_nvfp4": "nvfp4",
}  # fmt: skip
# compressed-tensors names the container, not the format: the model's name usually does.
_IN_NAMES = {"fp8": "fp8", "w8a8": "int8", "int8": "int8", "nvfp4": "nvfp4", "w4a16": "gptq", "int4": "gptq", "awq": "awq"}


def scheme(quantization: str | None, model: str) -> str | None:
    """The scheme of the weights by our name; None where they are not quantised.

    >>> scheme("awq_marlin", "org/m"), scheme("compressed-tensors", "org/m-FP8-dynamic"), scheme(None, "org/m")
    ('awq', 'fp8', None)

    Raises:
        InputError: a method whose format is not known.
    """
    if quantization is None:
        return None
    name = quantization.strip().lower()
    if name in _SCHEMES:
        return _SCHEMES[name]
    for part, found in _IN_NAMES.items():
        if part in model.lower():
            return found
    raise InputError(
        f"the log says quantization {quantization}, which does not tell the format of the weights: give --quantization"
    )
