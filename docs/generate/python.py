"""The reference of the Python interface: what `roofline` exports, the results that it gives back, and the errors."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from sphinx.pycode import ModuleAnalyzer

from generate.docstring import first, markdown, prose
from generate.table import table, toctree

_HEAD = """\
# Python API

```python
>>> import roofline
>>> result = roofline.analyze("llama-3.1-8b", "a100-sxm-80gb", batch=32, context="4k")
>>> result.decode.bound_by
'memory'
```

Names are looked up when they are first used: `import roofline` loads neither NumPy nor pandas. Options are those of the
[command line](../cli/index.md) with underscores; quantities are numbers in base units or texts with a unit. Results are
frozen; each has `to_dict()` and `to_json()`, and a table of its own in a notebook. Whatever is wrong with an input is a
[RooflineError](errors.md).
"""

_CALLED = ("Compiled",)  # is called, not looked into


def pages() -> dict[str, str]:
    """Functions, specs, results, errors, and their index."""
    rows = [[f"[`{name}`]({_page_of(name)}.md{_anchor(name)})", first(_doc(getattr(_package(), name)))] for name in exported()]
    names = ["functions", "torch", "specs", "results", "errors"]
    index = "\n".join([_HEAD, table(["name", "what it is"], rows), "", toctree(names), ""])
    return {
        "python/index.md": index,
        "python/functions.md": _listed("Functions", [(f"roofline.{name}", found) for name, found in functions().items()]),
        "python/torch.md": _listed("PyTorch", [(f"roofline.torch.{name}", found) for name, found in torch().items()]),
        "python/specs.md": _listed("Specs", [(f"roofline.{name}", found) for name, found in specs().items()]),
        "python/results.md": _listed("Results", [(f"{cls.__module__}.{cls.__name__}", cls) for cls in results()]),
        "python/errors.md": _listed("Errors", [(f"roofline.errors.{cls.__name__}", cls) for cls in errors()]),
    }


def _package() -> Any:
    return importlib.import_module("roofline")


def exported() -> list[str]:
    """Public names of the package."""
    return [name for name in _package().__all__ if not name.startswith("__")]


def functions() -> dict[str, Any]:
    """Exported functions by name."""
    return {name: found for name in exported() if inspect.isfunction(found := getattr(_package(), name))}


def specs() -> dict[str, type]:
    """Exported classes by name."""
    return {name: found for name in exported() if inspect.isclass(found := getattr(_package(), name))}


def torch() -> dict[str, Any]:
    """Public names of `roofline.torch`, the functions first."""
    module = importlib.import_module("roofline.torch")
    return {name: getattr(module, name) for name in sorted(module.__all__, key=str.swapcase)}


def errors() -> list[type]:
    """Errors, the base first."""
    module = importlib.import_module("roofline.errors")
    return [found for found in vars(module).values() if inspect.isclass(found) and found.__module__ == module.__name__]


def results() -> list[type]:
    """What the functions give back, and the public classes that their fields are of."""
    found: list[type] = []

    def add(cls: type) -> None:
        if cls in found or cls in specs().values() or not cls.__module__.startswith("roofline."):
            return
        found.append(cls)
        for inner in _classes_in(cls) if cls.__name__ not in _CALLED else ():
            add(inner)

    for function in functions().values():
        if inspect.isclass(given := _named(str(function.__annotations__["return"]), function)):
            add(given)
    return found


def _classes_in(cls: type) -> Iterator[type]:
    """Classes of ours that annotations of fields and of properties name."""
    texts = [str(note) for note in vars(cls).get("__annotations__", {}).values()]
    getters = [member.fget for member in vars(cls).values() if isinstance(member, property) and member.fget is not None]
    texts += [str(getter.__annotations__.get("return", "")) for getter in getters]
    for name in dict.fromkeys(re.findall(r"\b[A-Z]\w+", " ".join(texts))):
        inner = _named(name, cls)
        if inspect.isclass(inner) and inner.__module__.startswith("roofline.") and dataclasses.is_dataclass(inner):
            yield inner


def _named(text: str, owner: Any) -> Any:
    """The class that an annotation names where it stands, imports for type checkers included."""
    module = sys.modules[owner.__module__]
    if hasattr(module, text):
        return getattr(module, text)
    imported = re.search(rf"^    from ([\w.]+) import [^\n]*\b{text}\b", inspect.getsource(module), re.MULTILINE)
    return getattr(importlib.import_module(imported[1]), text, None) if imported else None


def _page_of(name: str) -> str:
    if name in ("errors", "torch"):
        return name
    return "specs" if name in specs() else "functions"


def _anchor(name: str) -> str:
    return "" if name in ("errors", "torch") else f"#{name.lower()}"


def _doc(found: Any) -> str | None:
    """The docstring that was written: dataclasses without one get a signature in its place."""
    text = inspect.getdoc(found)
    generated = inspect.isclass(found) and (text or "").startswith(f"{found.__name__}(")
    return None if generated else text


def _listed(title: str, members: list[tuple[str, Any]]) -> str:
    return "\n\n".join([f"# {title}", *(part for name, found in members for part in _member(name, found))]) + "\n"


def _member(name: str, found: Any) -> list[str]:
    kind = "class" if inspect.isclass(found) else "function"
    signature = "" if kind == "class" else _signature(found)
    return [f"## {name.rpartition('.')[2]}", f"::::{{py:{kind}}} {name}{signature}\n\n{_body(found)}\n\n::::"]


def _signature(found: Any, *, bound: bool = False) -> str:
    signature = inspect.signature(found)
    given = [one for index, one in enumerate(signature.parameters.values()) if not (bound and index == 0)]
    bare = [one.replace(annotation=_Text(str(one.annotation))) if one.annotation is not one.empty else one for one in given]
    back = signature.return_annotation
    return str(signature.replace(parameters=bare, return_annotation=back if back is signature.empty else _Text(str(back))))


class _Text(str):
    """An annotation as it is written, without quotes around it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _body(found: Any) -> str:
    parts = [markdown(_doc(found))]
    if inspect.isclass(found):
        rows = list(_attributes(found)) if found.__name__ not in _CALLED else []
        parts += [table(["attribute", "type", "meaning"], rows)] if rows else []
        for name, method in _methods(found):
            parts.append(f":::{{py:method}} {name}{_signature(method, bound=True)}\n\n{markdown(_doc(method))}\n\n:::")
    return "\n\n".join(parts)


def _attributes(cls: type) -> Iterator[list[str]]:
    """Fields and properties, with what is written about them."""
    notes = _notes(cls)
    for name, note in vars(cls).get("__annotations__", {}).items():
        if not name.startswith("_") and not str(note).startswith("ClassVar"):
            described = getattr(getattr(cls, "model_fields", {}).get(name), "description", None)
            yield [f"`{name}`", _type(note), prose(described or notes.get(name, ""))]
    for name, member in list(vars(cls).items()):
        if not name.startswith("_") and (getter := getattr(member, "fget", None) or getattr(member, "func", None)):
            yield [f"`{name}`", _type(getter.__annotations__.get("return", "")), first(getter.__doc__)]


def _type(note: Any) -> str:
    text = note if isinstance(note, str) else getattr(note, "__name__", str(note))
    return f"`{text}`".replace("|", r"\|")


def _notes(cls: type) -> dict[str, str]:
    texts = ModuleAnalyzer.for_module(cls.__module__).find_attr_docs()
    return {name: " ".join(text) for (owner, name), text in texts.items() if owner == cls.__name__}


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, member in list(vars(cls).items()):
        plain = getattr(member, "__func__", member)  # a class method
        if inspect.isfunction(plain) and (name == "__call__" or not name.startswith("_")):
            yield name, plain
