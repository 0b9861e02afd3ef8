"""The reference leaves nothing out: public names, commands, operators, models and hardware stand in it, each explained."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytest.importorskip("sphinx", reason="Sphinx is not installed")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed")
if str(DOCS) not in sys.path:
    sys.path.append(str(DOCS))

from generate import commands, docstring, hardware, links, mathml, models, operators, python, readable, table

from roofline.operators import OPERATORS
from roofline.specs.library import ids

_pages_of = cache(lambda module: module.pages())
"""The pages of a writer, made once for all tests."""


def _own_doc(found: Any) -> str:
    """What was written; not the signature that a dataclass without a docstring is given."""
    text = inspect.getdoc(found) or ""
    return "" if inspect.isclass(found) and text.startswith(f"{found.__name__}(") else text


@pytest.mark.slow
@pytest.mark.parametrize("name", python.exported())
def test_exported_names_are_documented(name: str) -> None:
    """Each has a docstring, and stands in the reference by its full name; functions with all of their arguments."""
    found = getattr(importlib.import_module("roofline"), name)
    assert _own_doc(found)
    text = "".join(_pages_of(python).values())
    if inspect.isfunction(found):
        signature = re.search(rf"\{{py:function\}} roofline\.{name}\((.*)\) ->", text)
        assert signature is not None
        assert all(re.search(rf"\b{argument}: ", signature[1]) for argument in inspect.signature(found).parameters)
    elif inspect.isclass(found):
        assert f"{{py:class}} roofline.{name}\n" in text


def test_names_of_the_module_for_pytorch_are_documented() -> None:
    """`roofline.torch`: its functions with their arguments, and its classes."""
    text = _pages_of(python)["python/torch.md"]
    assert "{py:function} roofline.torch.count(module: Callable" in text
    for name in ("profile", "CountResult", "CountedOperator", "TensorSpec"):
        assert f"{{py:class}} roofline.torch.{name}\n" in text


def _public(cls: type) -> list[tuple[str, Any]]:
    """Methods and properties that a user may call."""
    members = [(name, getattr(member, "__func__", member)) for name, member in vars(cls).items() if not name.startswith("_")]
    return [(name, member) for name, member in members if inspect.isfunction(member) or isinstance(member, property)]


@pytest.mark.parametrize(
    "cls",
    [*python.specs().values(), *python.results(), *python.errors(), *filter(inspect.isclass, python.torch().values())],
    ids=lambda cls: cls.__qualname__,
)
def test_public_classes_are_documented(cls: type) -> None:
    """What functions take and give back: the class, its methods and its properties say what they are."""
    assert _own_doc(cls)
    assert [name for name, member in _public(cls) if not inspect.getdoc(member)] == []


def test_results_are_followed_into_what_they_hold() -> None:
    """From what `analyze` is said to give back, by its fields, to the bytes of one operator."""
    named = {cls.__name__ for cls in python.results()}
    assert {"Analysis", "Phase", "OperatorResult", "Memory", "Plan", "Simulation", "Preempted", "Explanation"} <= named


def _commands() -> list[tuple[str, Any]]:
    """Commands, those of groups as `group name`."""
    found: list[tuple[str, Any]] = []
    for name, command in commands.commands().items():
        inside = getattr(command, "commands", None)
        found += [(name, command)] if inside is None else [(f"{name} {below}", sub) for below, sub in inside.items()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "command"), _commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_are_documented(name: str, command: Any) -> None:
    """A command says what it answers, each of its options what it does, and all of them stand on its page."""
    page = _pages_of(commands)[f"cli/{name.split(maxsplit=1)[0]}.md"]
    assert command.help
    assert f"roofline {name}" in page
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    assert [one.name for one in shown if not getattr(one, "help", None)] == []
    assert [flag for one in shown if one.param_type_name == "option" for flag in one.opts if f"`{flag}`" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPERATORS)
def test_operators_are_derived(kind: str) -> None:
    """Each has words, arithmetic beside an example, and a source; its page has the formulas of all costs."""
    cls = OPERATORS[kind]
    text = inspect.getdoc(cls) or ""
    examples = doctest.DocTestParser().get_examples(text)
    assert any(".cost()" in one.source and "#" in one.source for one in examples), "no arithmetic beside an example"
    words = re.sub(r"^(>>>|\.\.\.).*$", "", text, flags=re.MULTILINE)
    assert re.search(r"FLOP|[Bb]ytes|read|sent", words), "what it costs is not said in words"
    assert docstring.source(text), "no source"
    page = _pages_of(operators)[f"operators/{kind}.md"]
    found = operators.formulas(cls)
    assert found
    assert all(one.latex in page and one.unit for one in found)


def test_formulas_of_the_catalogue_are_those_of_the_code() -> None:
    """A product of m x k by k x n is 2mnk FLOP; weights are n k elements."""
    product = {one.meaning: one.latex for one in operators.formulas(OPERATORS["gemm"])}
    assert product["FLOP of matrix products"] == r"F_{\mathrm{matrix}} = 2 \, k \, m \, n"
    assert product["weights read"] == r"D_{\mathrm{weights}} = b_w \, k \, n"


@pytest.mark.slow
def test_models_and_hardware_are_listed() -> None:
    """Every shipped file has a row, and every one of hardware a page with a grade for each of its numbers."""
    listed = _pages_of(models)["models.md"]
    assert [name for name in ids("models") if f"`{name}`" not in listed] == []
    pages = _pages_of(hardware)
    assert [name for name in ids("hardware") if f"`{name}`" not in pages["hardware/index.md"]] == []
    assert {f"hardware/{name}.md" for name in ids("hardware")} == pages.keys() - {"hardware/index.md"}


@pytest.mark.parametrize("module", [docstring, links, mathml, readable, table], ids=lambda module: module.__name__)
def test_examples_in_the_writers(module: Any) -> None:
    """Their docstrings show what they do."""
    outcome = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 0
    assert outcome.failed == 0
