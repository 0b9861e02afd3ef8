"""Quantisation schemes: how the weights of a checkpoint are stored.

Names are those of the engines' `--quantization`, or of the checkpoint's format where engines have none. A scheme is a
section of a model's file, whose keys are those of `quantization_config`; with its defaults it is what the name alone
means on the command line. Other packages add theirs by the entry-point group `roofline.quantization`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from roofline.errors import UnknownNameError
from roofline.registry import Registry
from roofline.specs.quantization.base import Scheme
from roofline.specs.quantization.floats import Fp8, Fp8Block, Mxfp4, Mxfp8, Nf4, Nvfp4
from roofline.specs.quantization.integers import Awq, Gptq, Int8, LlmInt8, PackQuantized


def name_of(scheme: type[Scheme]) -> str:
    """The name under which a scheme is registered: the literal of its key `name`."""
    return str(get_args(scheme.model_fields["name"].annotation)[0])


SCHEMES: Registry[type[Scheme]] = Registry(
    "quantisation scheme",
    (Awq, Fp8, Fp8Block, Gptq, Int8, LlmInt8, Mxfp4, Mxfp8, Nf4, Nvfp4, PackQuantized),
    group="roofline.quantization",
    key=name_of,
    accepts=Scheme,
)


@cache
def schemes() -> dict[str, type[Scheme]]:
    """Scheme classes by name, in alphabetical order."""
    return {name: SCHEMES[name] for name in sorted(SCHEMES)}


def scheme(name: str) -> Scheme:
    """The scheme of that name, as it is where nothing more is said.

    >>> scheme("mxfp4").format.bytes, scheme("awq").format.metadata_bytes([(4096, 4096)])
    (0.5, 327680)
    """
    known = _known(name)
    return schemes()[known].model_validate({"name": known})


def _known(name: object) -> str:
    key = name.strip().lower().replace("-", "_") if isinstance(name, str) else name
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


class _OneOrSeveral:
    """Schemes of any name of the registry. NB: looked up when a model is first checked, not on import."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        one: Any = Annotated[reduce(or_, schemes().values()), Field(discriminator="name")]
        read = BeforeValidator(_one_or_several, json_schema_input_type=one | tuple[one, ...] | None)
        return handler.generate_schema(Annotated[tuple[one, ...], read])


ModelQuantization = Annotated[tuple[Scheme, ...], _OneOrSeveral()]
"""How the published weights of a model are quantised: one scheme, or several for different roles."""
