"""A benchmark's result file: JSON, or JSON lines of which the last is taken."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from roofline import files
from roofline.audit.engine_logs.benches import Bench, formats
from roofline.audit.engine_logs.benches.base import read as read_as
from roofline.errors import InputError

_MOST_BYTES = 256 * 2**20


def read(path: str | Path) -> Bench:
    """The result of a benchmark.

    Raises:
        InputError: no such file, no JSON, or a result of no tool that is known; the message lists those that are.
    """
    place = Path(path)
    raw = files.read_bytes(place, _MOST_BYTES, "a benchmark's result")
    data, notes = _object(place, raw.decode("utf-8-sig", errors="replace"))
    for form in formats():
        if form.fits(data):
            return read_as(place, hashlib.sha256(raw).hexdigest(), form, data, notes)
    raise InputError(f"{place}: the keys are of no benchmark that is known. Known: {_known()}.{_hint(data)}")


def _known() -> str:
    """Every format, for messages."""
    return "; ".join(form.title for form in formats())


def _hint(data: dict[str, Any]) -> str:
    if "elapsed_time" in data and "tokens_per_second" in data:
        return " This is a result of `vllm bench throughput`, which measures no server: run `vllm bench serve`."
    if "avg_latency" in data:
        return " This is a result of `vllm bench latency`, which measures no server: run `vllm bench serve`."
    return ""


def _object(path: Path, text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The object in a file, or the last of several on lines of their own."""
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    decoder, found, at = json.JSONDecoder(), list[Any](), 0
    try:
        while at < len(text):
            while at < len(text) and text[at].isspace():
                at += 1
            if at < len(text):
                value, at = decoder.raw_decode(text, at)
                found.append(value)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}. Known: {_known()}.") from None
    except RecursionError:
        raise InputError(f"{path}: not the JSON of a benchmark: nested too deep") from None
    data = found[-1]
    if isinstance(data, list) and data and isinstance(data[-1], dict):
        found, data = data, data[-1]
    if not isinstance(data, dict):
        raise InputError(f"{path}: a result is an object in braces, not {type(data).__name__}")
    return data, (f"the file holds {len(found)} results; the last is taken",) if len(found) > 1 else ()
