"""What stands inside a page: templates, styles, scripts, data; and the policy that lists what is inline by its hash."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from roofline.report.controls import written
from roofline.report.svg import svg
from roofline.specs.library import shipped
from roofline.text import clean

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment() -> Environment:
    """The templates. Texts come from files of others: they are escaped, and lose control characters and direction marks."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(shipped("reports")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: cleaned(value) if type(value) is str else value,  # NB: not Markup, which is ours
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["written"] = written
    environment.filters["svg"] = svg
    return environment


def styles(names: Iterable[str]) -> str:
    """Style sheets of `reports`, one after the other, for one element."""
    folder = shipped("reports")
    return inline("".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names))


def page_scripts(names: Iterable[str]) -> str:
    """Scripts of `reports/script`, which share one scope, for one element."""
    folder = shipped("reports") / "script"
    own = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in names)
    return inline(f'(async () => {{\n"use strict";\n{own}}})();\n')


def packed(text: str) -> str:
    """Text as `packed.js` unpacks it: deflate, base64."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def hashed(text: str) -> str:
    """What a policy names an element by that holds this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def inline(text: str) -> str:
    """Text that an element can hold as it is: a parser changes line ends, and ends the element at its tag."""
    if found := re.search(r"</(?:script|style)|<!--|\r|\0", text, re.IGNORECASE):
        raise ValueError(f"cannot stand inline: {found[0]!r} at {found.start()}")
    return text


_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: object) -> str:
    """JSON that an HTML parser sees nothing in."""
    return json.dumps(cleaned(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


def cleaned(value: Any) -> Any:
    """The same value, its texts without control characters and marks that turn the direction of text."""
    if isinstance(value, str):
        return clean(value, keep_lines=True)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(entry) for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [cleaned(entry) for entry in value]
    return value
