"""Registries: what a package's modules define is in its registry; nobody forgot to import it there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import pytest

from roofline import blocks, operators
from roofline.blocks.base import Block
from roofline.operators.base import Operator
from roofline.predict.efficiency import forms
from roofline.predict.efficiency.form import KernelForm
from roofline.registry import Registry
from roofline.serving.traffic import lengths
from roofline.serving.traffic.lengths.base import DistributionFamily
from roofline.specs import quantization
from roofline.specs.huggingface import families, methods
from roofline.specs.huggingface.families.base import Family
from roofline.specs.huggingface.methods.base import Method
from roofline.specs.quantization.base import Scheme
from roofline.teach.worksheets import templates
from roofline.teach.worksheets.problem import Template


class Home(NamedTuple):
    """A registry, the package whose modules define what is in it, and how such a thing is told from other values."""

    registry: Registry[Any]
    package: Any
    belongs: Callable[[object], bool]


def _section(base: type, key: str) -> Callable[[object], bool]:
    """Classes of one name: those whose key has a literal."""

    def belongs(value: object) -> bool:
        return inspect.isclass(value) and issubclass(value, base) and bool(get_args(value.model_fields[key].annotation))

    return belongs


def _operator(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Operator) and "kind" in vars(value)


HOMES = {
    "operators": Home(operators.OPERATORS, operators, _operator),
    "blocks": Home(blocks.BLOCKS, blocks, _section(Block, "kind")),
    "quantization": Home(quantization.SCHEMES, quantization, _section(Scheme, "name")),
    "quantization_methods": Home(methods.METHODS, methods, lambda value: isinstance(value, Method)),
    "families": Home(families.FAMILIES, families, lambda value: isinstance(value, Family)),
    "forms": Home(forms.FORMS, forms, lambda value: isinstance(value, KernelForm)),
    "lengths": Home(lengths.DISTRIBUTIONS, lengths, lambda value: isinstance(value, DistributionFamily)),
    "worksheets": Home(templates.TEMPLATES, templates, lambda value: isinstance(value, Template)),
}
each = pytest.mark.parametrize("name", HOMES)


def _defined(home: Home) -> Iterator[tuple[str, object]]:
    for module in pkgutil.iter_modules(home.package.__path__):
        path = f"{home.package.__name__}.{module.name}"
        for name, value in vars(importlib.import_module(path)).items():
            if home.belongs(value):
                yield f"{path}.{name}", value


@each
def test_no_module_was_forgotten(name: str) -> None:
    """Everything that a module of the package defines is registered."""
    home = HOMES[name]
    known = list(home.registry.values())
    assert [path for path, value in _defined(home) if value not in known] == []


@each
def test_other_packages_may_add(name: str) -> None:
    """Each is open by an entry-point group of its name."""
    assert HOMES[name].registry.group == f"roofline.{name}"
