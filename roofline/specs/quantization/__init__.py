"""Quantisation schemes: how the weights of a checkpoint are stored.

Names are those of the engines' `--quantization`, or of the checkpoint's format where engines have none. A scheme is a
section of a model's file, whose keys are those of `quantization_config`; with its defaults it is what the name alone
means on the command line. Other packages add theirs by the entry-point group `roofline.quantization`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator

from roofline.errors import UnknownNameError
from roofline.registry import Registry
from roofline.specs.base import AnyOf
from roofline.specs.quantization.base import Scheme
from roofline.specs.quantization.ggml import TYPES


def name_of(scheme: type[Scheme]) -> str:
    """The name of a class of schemes: the only value that its key `name` allows."""
    return str(get_args(scheme.model_fields["name"].annotation)[0])


SCHEMES: Registry[type[Scheme]] = Registry(
    "quantisation scheme",
    {
        "affine": "roofline.specs.quantization.groups:Affine",
        "aqlm": "roofline.specs.quantization.groups:Aqlm",
        "awq": "roofline.specs.quantization.integers:Awq",
        "bitnet": "roofline.specs.quantization.groups:BitNet",
        "fp8": "roofline.specs.quantization.floats:Fp8",
        "fp8_block": "roofline.specs.quantization.floats:Fp8Block",
        "ggml": "roofline.specs.quantization.ggml:Ggml",
        "gptq": "roofline.specs.quantization.integers:Gptq",
        "higgs": "roofline.specs.quantization.groups:Higgs",
        "int8": "roofline.specs.quantization.integers:Int8",
        "llm_int8": "roofline.specs.quantization.integers:LlmInt8",
        "mean_bits": "roofline.specs.quantization.groups:MeanBits",
        "mxfp4": "roofline.specs.quantization.floats:Mxfp4",
        "mxfp8": "roofline.specs.quantization.floats:Mxfp8",
        "nf4": "roofline.specs.quantization.floats:Nf4",
        "nvfp4": "roofline.specs.quantization.floats:Nvfp4",
        "pack_quantized": "roofline.specs.quantization.integers:PackQuantized",
        "w4a16": "roofline.specs.quantization.widths:W4A16",
        "w4a4": "roofline.specs.quantization.widths:W4A4",
        "w4a8": "roofline.specs.quantization.widths:W4A8",
        "w8a16": "roofline.specs.quantization.widths:W8A16",
        "w8a8": "roofline.specs.quantization.widths:W8A8",
    },
    group="roofline.quantization",
    key=name_of,
    accepts=Scheme,
)


_BLOCKS = tuple(name for name, (elements, _) in TYPES.items() if elements > 1 and name not in SCHEMES)
"""Tensor types of GGML that are no scheme of another name."""
_SIZES = ("s", "m", "l", "xl", "xs", "xxs")
"""Endings of the names of mixtures of tensor types, such as q4_k_m."""


@cache
def schemes() -> dict[str, type[Scheme]]:
    """Scheme classes by name, in alphabetical order."""
    return {name: SCHEMES[name] for name in sorted(SCHEMES)}


def scheme(name: str) -> Scheme:
    """The scheme of that name with default values of its other keys. Case does not matter, and `-` is `_`.

    A tensor type of GGML (`q4_k`) is the scheme `ggml` with all weights in it.

    >>> scheme("mxfp4").format.bytes, scheme("awq").format.metadata_bytes([(4096, 4096)])
    (0.5, 327680)
    >>> scheme("Q4_K").format.bytes
    0.5625

    Raises:
        UnknownNameError: no such scheme; the message lists all.
    """
    if (key := _key(name)) in _BLOCKS:
        return schemes()["ggml"].model_validate({"name": "ggml", "types": ((key, 1),)})
    known = _known(name)
    return schemes()[known].model_validate({"name": known})


def canonical(name: str) -> str:
    """The name of a scheme, or of a tensor type that is one, as it is written in results.

    Raises:
        UnknownNameError: no such scheme.
    """
    return key if (key := _key(name)) in _BLOCKS else scheme(name).name


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _known(name: object) -> str:
    key = _key(name) if isinstance(name, str) else name
    if isinstance(key, str):
        start, _, size = key.rpartition("_")
        if start in _BLOCKS and size in _SIZES:
            hint = "A mixture of types by layer: give the GGUF file, or --bits-per-weight."
            raise UnknownNameError("quantization", key, [start], hint)
    if not isinstance(key, str) or key not in schemes():
        raise UnknownNameError("quantization", str(name), schemes(), list_all=True)
    return key


def _one_or_several(value: Any) -> Any:
    """A scheme, or a list of them, as a list whose names are known."""
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else [] if value is None else [value]
    for entry in listed:
        if isinstance(entry, dict):
            if "name" not in entry:
                msg = f"name is missing; allowed: {', '.join(schemes())}"
                raise ValueError(msg)
            try:
                _known(entry["name"])
            except UnknownNameError as error:
                raise ValueError(str(error)) from None
    return listed


_One: Any = Annotated[Scheme, AnyOf("name", SCHEMES.get, lambda: schemes().values())]
ModelQuantization = Annotated[
    tuple[_One, ...], BeforeValidator(_one_or_several, json_schema_input_type=_One | tuple[_One, ...] | None)
]
"""How the published weights of a model are quantised: one scheme, or several for different roles."""
