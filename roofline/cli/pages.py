"""Writing pages: what is asked for, whether it can be written, and the page in one piece."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from roofline import files
from roofline.cli.output import write_file
from roofline.errors import InputError, SpecError
from roofline.text import clean

_MOST_BYTES = 64 * 2**20


def write(
    model: str | None,
    hardware: list[str],
    given: dict[str, Any],
    *,
    calculator: bool,
    saved: Path | None,
    output: Path | None,
    quiet: bool,
) -> None:
    """Write a report, a calculator, or the page of a saved result."""
    if output is None:
        raise InputError("a page is a file: say where with -o FILE.html")
    if output.suffix.lower() != ".html":
        raise InputError(f"cannot write {output}: a page is a .html file")
    if sum((calculator, saved is not None, model is not None)) != 1:
        raise InputError("give one of MODEL with --hardware, --calculator, and --from RESULT")
    if (calculator or saved is not None) and (hardware or given):
        what = "--calculator" if calculator else "--from"
        raise InputError(f"{what} takes no other options: {'the page has controls' if calculator else 'the result has them'}")
    if not quiet:
        sys.stderr.write("drawing figures\n" if saved is not None else "translating formulas, drawing figures\n")
    text = _calculator() if calculator else _saved(saved) if saved is not None else _report(model, hardware, given)
    write_file(output, {".html": lambda: text}, None)
    if not quiet:
        sys.stderr.write(f"wrote {clean(output)} ({len(text.encode()) / 1e6:.1f} MB)\n")


def _calculator() -> str:
    from roofline.report.analysis.page import calculator

    return calculator()


def _report(model: str | None, hardware: list[str], given: dict[str, Any]) -> str:
    from roofline.report.analysis.page import report
    from roofline.report.formulas import formulas

    if model is None or not hardware:
        raise InputError("a report wants --hardware HW, once or several times")
    return report(model, hardware, given, formulas)


def _saved(saved: Path) -> str:
    """The page of what `sweep`, `plan` or `analyze` has written."""
    from roofline.report.plan.load import is_plan
    from roofline.report.plan.page import saved_plan_page
    from roofline.report.sweep.data import TABLES, load_folder, load_json, load_table
    from roofline.report.sweep.page import sweep_page

    if files.is_folder(saved):
        return sweep_page(load_folder(saved))
    if saved.suffix.lower() in TABLES:
        return sweep_page(load_table(saved))
    found = _read(saved)
    if isinstance(found, dict) and found.get("kind") == "sweep":
        return sweep_page(load_json(saved, found))
    if is_plan(found):
        return saved_plan_page(found, saved)
    return _report(*_asked(saved, found))


def _read(saved: Path) -> Any:
    # a sweep that is larger is read as a folder or .parquet
    text = files.read_text(saved, _MOST_BYTES, "a result as JSON")
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SpecError(f"is no JSON: {error}", path=saved) from None


def _asked(saved: Path, found: Any) -> tuple[str, list[str], dict[str, Any]]:
    """The question of a saved result, if its files are still what they were."""
    from roofline.predict.request import prepare

    asked = found.get("asked") if isinstance(found, dict) else None
    if not (isinstance(asked, dict) and isinstance(asked.get("model"), str) and isinstance(asked.get("hardware"), str)):
        why = "has no key `asked`, which says what was asked: save it with `roofline analyze ... -o RESULT.json`"
        raise SpecError(why, path=saved)
    options = asked.get("options")
    if not isinstance(options, dict):
        raise SpecError("asked.options must be an object", path=saved)
    if "speculative" in found:
        raise SpecError("is of speculative decoding, which a page does not compute: analyse it without", path=saved)
    request = prepare(asked["model"], asked["hardware"], **options)
    before = found.get("inputs") if isinstance(found.get("inputs"), dict) else {}
    for entry in request.inputs:
        was = before.get(entry.role)
        if isinstance(was, dict) and was.get("sha256") not in (None, entry.sha256):
            raise SpecError(f"the {entry.role} {entry.name} has changed since: analyse it again", path=saved)
    return asked["model"], [asked["hardware"]], options
