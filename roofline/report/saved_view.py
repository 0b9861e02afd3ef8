"""A view read from the JSON that a page's own button downloads, so that its numbers can be opened again."""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from roofline.errors import SpecError
from roofline.predict.engine_command import shell_line
from roofline.report.figure import View
from roofline.report.page import static_page


def is_saved_view(content: object) -> bool:
    """Whether a JSON value was downloaded from a page."""
    return isinstance(content, dict) and isinstance(content.get("view"), dict)


def saved_view(content: dict[str, Any], path: Path) -> View:
    """The view that a page showed when it was downloaded.

    Args:
        content: for which `is_saved_view` is true.
        path: file that it was read from, for messages.

    Raises:
        SpecError: the view is not as a page writes it.
    """
    try:
        view: View = _read(View, content["view"])
    except (TypeError, ValueError) as error:
        raise SpecError(f"`view` is not as pages write it: {error}", path=path) from None
    return view


def saved_view_page(content: dict[str, Any], path: Path) -> str:
    """The page of a downloaded view, as a complete HTML document without controls; arguments are as for `saved_view`."""
    line = shell_line(("roofline", "report", "--from", str(path), "--output", "page.html"))
    return static_page(saved_view(content, path), line)


def _read(kind: Any, value: Any) -> Any:
    """A JSON value as what a field of that type holds."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return _read_any(parts, value)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(parts[0], entry) for entry in value)
    if origin is Literal and value in parts:
        return value
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        hints = get_type_hints(kind)
        return kind(**{name: _read(hints[name], entry) for name, entry in value.items() if name in hints})
    allowed = (int, float) if kind is float else kind
    if (
        origin is None
        and isinstance(kind, type)
        and isinstance(value, allowed)
        and (kind is bool or not isinstance(value, bool))
    ):
        return value
    raise TypeError(f"{value!r:.60} where {getattr(kind, '__name__', kind)} is expected")


def _read_any(kinds: tuple[Any, ...], value: Any) -> Any:
    """The value as the first of several types that it can be."""
    if value is None and NoneType in kinds:
        return None
    for kind in kinds:
        try:
            return _read(kind, value)
        except TypeError:
            continue
    raise TypeError(f"{value!r:.60} is none of what is expected")
