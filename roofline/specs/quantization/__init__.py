"""Quantisation schemes: how the weights of a checkpoint are stored. One file a scheme; `schemes` walks this package.

Names are those of the engines' `--quantization`, or of the checkpoint's format where engines have none. A scheme is a
section of a model's file, whose keys are those of `quantization_config`; with its defaults it is what the name alone
means on the command line.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import BeforeValidator, Field

from roofline.errors import UnknownNameError
from roofline.specs.quantization.base import Scheme


@cache
def schemes() -> dict[str, type[Scheme]]:
    """Scheme classes by name."""
    found: dict[str, type[Scheme]] = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Scheme) and value is not Scheme:
                name = get_args(value.model_fields["name"].annotation)[0]
                if found.setdefault(name, value) is not value:
                    msg = f"two quantisation schemes named {name!r}: {found[name].__module__} and {value.__module__}"
                    raise TypeError(msg)
    return dict(sorted(found.items()))


def scheme(name: str) -> Scheme:
    """The scheme of that name, as it is where nothing more is said.

    >>> scheme("mxfp4").format.bytes, scheme("awq").format.beside_bytes([(4096, 4096)])
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


if TYPE_CHECKING:
    ModelQuantization = tuple[Scheme, ...]
else:
    _Any = Annotated[reduce(or_, schemes().values()), Field(discriminator="name")]
    ModelQuantization = Annotated[
        tuple[_Any, ...], BeforeValidator(_one_or_several, json_schema_input_type=_Any | tuple[_Any, ...] | None)
    ]
"""How the published weights of a model are quantised: one scheme, or several for different roles."""
