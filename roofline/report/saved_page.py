"""A page opened again from the JSON that its own button downloads: it starts with the settings that were downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from roofline.errors import SpecError
from roofline.predict.engine_command import shell_line
from roofline.report.controls import PageState
from roofline.report.figure import View
from roofline.report.page import static_page


def is_saved_page(content: object) -> bool:
    """Whether a JSON value was downloaded from a page."""
    return isinstance(content, dict) and isinstance(content.get("view"), dict)


def saved_view(content: Mapping[str, Any], path: Path) -> View:
    """The view that a page showed when it was downloaded.

    Args:
        content: for which `is_saved_page` is true.
        path: file that it was read from, for messages.

    Raises:
        SpecError: the view is not as a page writes it.
    """
    view: View = _checked(View, content["view"], "view", path)
    return view


def saved_page(content: Mapping[str, Any], path: Path) -> str:
    """The page that was downloaded, as a complete HTML document, with its controls set as they were.

    A page without controls shows what it showed. Arguments are as for `saved_view`.

    Raises:
        SpecError: the content is not as a page writes it, or files that the page was computed from have changed.
    """
    page = content.get("page")
    if page is None:
        line = shell_line(("roofline", "report", "--from", str(path), "--output", "page.html"))
        return static_page(saved_view(content, path), line)
    kind = page.get("kind") if isinstance(page, dict) else None
    if kind not in _KINDS:
        raise SpecError(f"`page.kind` must be one of {', '.join(sorted(_KINDS))}, not {kind!r}", path=path)
    state, pinned = content.get("state"), content.get("pinned")
    if not isinstance(state, dict) or not isinstance(pinned, dict | NoneType):
        raise SpecError("`state` must be an object, and `pinned` an object or null", path=path)
    try:
        return _KINDS[kind](page, PageState(state=state, pinned=pinned), str(content.get("reproduce") or ""), path)
    except (TypeError, ValueError, KeyError) as error:
        raise SpecError(f"is not as pages write it: {error}", path=path) from None


def check_inputs(files: Mapping[str, Any], inputs: Mapping[str, Any], path: Path) -> None:
    """Refuse a result whose files have changed.

    Args:
        files: the files as they are now, by role, each with `name` and `sha256`.
        inputs: those of the saved result.
        path: file of the saved result.

    Raises:
        SpecError: a file has another digest.
    """
    for role, entry in files.items():
        was = inputs.get(role)
        if isinstance(was, dict) and was.get("sha256") not in (None, entry["sha256"]):
            raise SpecError(f"the {role} {entry.get('name', '')} has changed since: analyse it again", path=path)


# The kinds of pages with controls


def _report(page: dict[str, Any], state: PageState, reproduce: str, path: Path) -> str:
    from roofline.report.analysis.page import report, report_inputs
    from roofline.report.formulas import formulas

    model, hardware, options = str(page["model"]), [str(name) for name in page["hardware"]], dict(page["options"])
    check_inputs(report_inputs(model, hardware, options), dict(page["inputs"]), path)
    return report(model, hardware, options, formulas, state)


def _calculator(page: dict[str, Any], state: PageState, reproduce: str, path: Path) -> str:
    from roofline.report.analysis.page import calculator as of_all
    from roofline.report.calculators.pages import CALCULATORS, calculator

    name = page["name"]
    if name == "":
        return of_all(state)
    if name not in CALCULATORS:
        raise SpecError(f"`page.name` must be one of {', '.join(CALCULATORS)}, not {name!r}", path=path)
    return calculator(name).page(state)


def _plan(page: dict[str, Any], state: PageState, reproduce: str, path: Path) -> str:
    from roofline.report.plan.load import Planned
    from roofline.report.plan.page import page_of

    return page_of(_checked(Planned, page["data"], "page.data", path), reproduce, state)


def _simulation(page: dict[str, Any], state: PageState, reproduce: str, path: Path) -> str:
    from roofline.report.simulation.figures import PageData
    from roofline.report.simulation.page import page_of

    return page_of(_checked(PageData, page["data"], "page.data", path), reproduce, state)


def _validation(page: dict[str, Any], state: PageState, reproduce: str, path: Path) -> str:
    from roofline.report.validation_page import ValidationData, page_of

    return page_of(_checked(ValidationData, page["data"], "page.data", path), reproduce, state)


_KINDS: dict[str, Callable[[dict[str, Any], PageState, str, Path], str]] = {
    "report": _report,
    "calculator": _calculator,
    "plan": _plan,
    "simulation": _simulation,
    "validation": _validation,
}


# JSON as dataclasses


def _checked(kind: Any, value: Any, key: str, path: Path) -> Any:
    """A JSON value as an object of a dataclass.

    Raises:
        SpecError: it is not one; `key` says where it stands in the file.
    """
    try:
        return _read(kind, value)
    except (TypeError, ValueError) as error:
        raise SpecError(f"`{key}` is not as pages write it: {error}", path=path) from None


def _read(kind: Any, value: Any) -> Any:
    """A JSON value as what a field of that type holds, written plainly or as `formulas.javascript` encodes objects."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is dict and isinstance(value, dict):
        return {key: _read(parts[1], entry) for key, entry in value.get("$o", value).items()}
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
