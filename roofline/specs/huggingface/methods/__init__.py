"""The methods that a `quantization_config` may name. One file a method: which one (`METHOD`) and what its keys mean (`plan`).

The package is walked: there is no list to forget.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from roofline.errors import InputError, UnknownNameError
from roofline.specs.huggingface.methods.base import Keys, Plan


@cache
def methods() -> dict[str, Callable[[Keys, str], Plan]]:
    """What each `quant_method` makes of its keys."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    return {module.METHOD: module.plan for module in modules if hasattr(module, "METHOD")}


def plan(config: Mapping[str, Any], dtype: str) -> Plan:
    """The rules of a `quantization_config`; `dtype` is that of the weights which are not quantised."""
    method = config.get("quant_method")
    if method is None and "w_bit" in config:  # quant_config.json of AutoAWQ
        method = "awq"
    if method is None:
        msg = f"quantization_config: quant_method is missing: it says what the other keys mean. Known: {', '.join(methods())}."
        raise InputError(msg)
    known = methods().get(str(method).lower().replace("_", "-"))
    if known is None:
        raise InputError(f"quantization_config: {UnknownNameError('quant_method', method, methods(), list_all=True)}")
    return known(Keys(config), dtype)
