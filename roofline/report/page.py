"""A view as one HTML file that holds all it needs: text, style, plots and the scripts that make it interactive.

The file makes no network requests, which a content security policy enforces: inline content is listed there by its hash.
Same inputs, same bytes.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from numbers import Integral
from typing import TYPE_CHECKING, Any

from roofline.report.controls import LONGEST_TEXT, Control, written
from roofline.report.figure import View
from roofline.report.svg import svg
from roofline.specs.library import shipped
from roofline.text import clean

if TYPE_CHECKING:
    from jinja2 import Environment

_PLOTLY = "plotly-cartesian.min.js.deflate"
"""Packed once, so that pages of every machine hold the same bytes; a third of its size, which a page unpacks when it is up."""
_COMPUTING = "computing.js"
"""Runs after the script that defines `model`, in the page and in its worker."""
LARGEST_FORMULAS = 75_000
"""Bytes of formulas from which on they are packed, so that only the page's script can show them."""
_STYLES = ("figures", "style", "formulas", "print")
_SCRIPTS = ("packed", "state", "controls", "elements", "view", "points", "plots", "actions", "bar", "worker", "main")
"""The page's own scripts, in the order in which they stand in the page; they share one scope."""


def live_page(
    view: View,
    controls: Sequence[Control],
    script: str,
    data: Mapping[str, Any],
    reproduce: str,
    formulas: str = "",
    *,
    settings_title: str = "Settings",
    saved: Mapping[str, Any] | None = None,
    pinned: Mapping[str, Any] | None = None,
) -> str:
    """An interactive page: a complete HTML document with controls, figures that respond to them, and no other files.

    Args:
        view: what the controls' initial values give; what is read without JavaScript.
        controls: settings of the page, in order.
        script: JavaScript that defines the global `model` (`load`, `view`, `plot`, `csv`).
        data: what `model.load` is called with.
        reproduce: the command line that writes this page.
        formulas: trusted HTML fragment, as of `report.formulas.formulas`; a click on a point opens the element `op-KEY`.
        settings_title: heading of the controls.
        saved: what the JSON that the page downloads says of the page, so that `report.saved_page` makes it again.
        pinned: the state that is pinned at first, if one is.

    Raises:
        ValueError: a script or style holds what would end its element early.
    """
    style = style_sheets(_STYLES)
    own = page_scripts(_SCRIPTS)
    script = inlined(f"{script}\n{(shipped('reports') / _COMPUTING).read_text(encoding='utf-8')}")
    bundle = (shipped("reports") / _PLOTLY).read_bytes()
    plotly = inlined(zlib.decompress(bundle, wbits=-zlib.MAX_WBITS).decode())
    facts = {"reproduce": reproduce, "longest_text": LONGEST_TEXT, "saved": saved, "pinned": pinned}
    content = as_json({"data": data, "view": asdict(view), **facts})
    packed = {"data": deflated(content), "model": deflated(script), "plotly": b64encode(bundle).decode()}
    if len(formulas.encode(errors="replace")) > LARGEST_FORMULAS:
        packed["formulas"] = deflated(formulas)
    template = environment().get_template("page.html.j2")
    return template.render(
        view=view,
        controls=controls,
        values={control.key: control.value for control in controls},
        longest_text=LONGEST_TEXT,
        reproduce=reproduce,
        formulas="" if "formulas" in packed else formulas,
        settings_title=settings_title,
        style=style,
        script=own,
        packed=packed,
        policy=content_policy(style, (script, own, plotly), plots=True),
        controls_json=as_json([asdict(control) for control in controls]),
    )


def static_page(view: View, reproduce: str) -> str:
    """A complete HTML document without controls: the shell and the figures of `live_page`, of one state.

    `view` and `reproduce` are as for `live_page`.
    """
    from roofline.formulas.javascript import translated
    from roofline.report.page_program import OF_A_RESULT, page_script, plot_program

    script, _ = translated(plot_program, lambda _: None)
    return live_page(view, (), page_script(script, OF_A_RESULT), {}, reproduce)


# NB: plotly.js fills an empty style element through the DOM, which is no inline style, and writes two style attributes: an
# empty one on colour bars, this one on heat maps. With `unsafe-hashes` hashes count for attributes too; no other may be set.
_CRISP = "".join(
    f"image-rendering: {way}; "
    for way in (
        "optimizeSpeed",
        "-moz-crisp-edges",
        "-o-crisp-edges",
        "-webkit-optimize-contrast",
        "optimize-contrast",
        "crisp-edges",
        "pixelated",
    )
)


def content_policy(style: str, scripts: Sequence[str] = (), *, plots: bool = False) -> str:
    """Return what a page may do, as a content security policy: use this style, run these scripts, show images that it holds.

    It may load nothing, send nothing, and run nothing that text in it could bring along: neither other scripts, nor attributes
    such as `onclick`, nor addresses of the form `javascript:`.

    Args:
        style: the content of the `style` element.
        scripts: the contents of the `script` elements, and of what they add themselves.
        plots: whether plotly.js draws in it, in images and with the style that it writes, and a worker computes.
    """
    directives = {
        "default-src": "'none'",
        "script-src": " ".join(map(csp_hash, scripts)) or "'none'",
        "style-src": csp_hash(style),
        "img-src": "data:",
        "connect-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if plots:
        directives |= {
            "style-src": f"'unsafe-hashes' {' '.join(map(csp_hash, (style, '', _CRISP)))}",
            "img-src": "data: blob:",
            "worker-src": "blob:",
        }
    return "; ".join(f"{name} {values}" for name, values in directives.items())


# Content of a page: templates, styles, scripts, data; and the hashes by which the policy lists what is inline


@cache
def environment() -> Environment:
    """The jinja2 environment of the pages' templates: texts are escaped, and lose control characters and direction marks."""
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


def style_sheets(names: Iterable[str]) -> str:
    """Style sheets of `reports` by name, joined for one `style` element."""
    folder = shipped("reports")
    return inlined("".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names))


def page_scripts(names: Iterable[str]) -> str:
    """Scripts of `reports/script` by name, in one scope, joined for one `script` element."""
    folder = shipped("reports") / "script"
    own = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in names)
    return inlined(f'(async () => {{\n"use strict";\n{own}}})();\n')


def deflated(text: str) -> str:
    """The text compressed (raw deflate) and in base64, as `packed.js` unpacks it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def csp_hash(text: str) -> str:
    """The hash source by which a content security policy allows the inline element that holds this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def inlined(text: str) -> str:
    """The text unchanged, checked to be safe inside a `script` or `style` element.

    Raises:
        ValueError: it has a closing tag, `<!--`, a carriage return or a null character, which an HTML parser would not keep.
    """
    if forbidden := re.search(r"</(?:script|style)|<!--|\r|\0", text, re.IGNORECASE):
        raise ValueError(f"cannot stand inline: {forbidden[0]!r} at {forbidden.start()}")
    return text


_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: object) -> str:
    """The value as JSON in which an HTML parser finds no markup; texts are cleaned as by `cleaned`."""
    return json.dumps(cleaned(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


def cleaned(value: Any) -> Any:
    """The value with its texts free of control characters and direction marks; mappings and sequences are copied."""
    if isinstance(value, str):
        return clean(value, keep_lines=True)
    if value is None or isinstance(value, (int, float)):
        return value  # NB: before the abstract classes, which take their time to say no
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(entry) for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [cleaned(entry) for entry in value]
    return int(value) if isinstance(value, Integral) else value  # those of NumPy
