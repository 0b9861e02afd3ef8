"""A view as one HTML file that holds all it needs: text, style, plots and the scripts that make it live.

The file asks the network for nothing, and a content security policy says so: what is inline is listed there by its hash.
Same inputs, same bytes.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from roofline.report import inline
from roofline.report.controls import LONGEST_TEXT, Control
from roofline.report.figure import View
from roofline.specs.library import shipped

_PLOTLY = "plotly-cartesian.min.js.deflate"
"""Packed once, so that pages of every machine hold the same bytes; a third of its size, which a page unpacks when it is up."""
_STYLES = ("style", "figures", "formulas", "print")
_SCRIPTS = ("packed", "state", "controls", "elements", "view", "points", "plots", "actions", "main")
"""The page's own scripts, in the order in which they stand in the page; they share one scope."""


def page(
    view: View,
    controls: Sequence[Control],
    script: str,
    data: Mapping[str, Any],
    reproduce: str,
    formulas: str = "",
    *,
    asks: str = "Settings",
    stands_last: bool = False,
    styles: Sequence[str] = (),
) -> str:
    """The whole file.

    `view` is what the controls' own values give; it is what is read without JavaScript. `script` is JavaScript that defines the
    global `model` (`load`, `view`, `plot`, `csv`), `data` is what `model.load` is given, `reproduce` is the command that writes
    this page. `formulas` is HTML of ours, shown as it is: what a click on a point opens has the id `op-KEY`. `asks` stands over
    the controls; `stands_last` says that assumptions come after all sections, not before them; `styles` names more styles.
    """
    style = inline.styles((*_STYLES, *styles))
    own = inline.page_scripts(_SCRIPTS)
    bundle = (shipped("reports") / _PLOTLY).read_bytes()
    plotly = inline.inline(zlib.decompress(bundle, wbits=-zlib.MAX_WBITS).decode())
    told = inline.as_json({"data": data, "view": asdict(view), "reproduce": reproduce, "longest_text": LONGEST_TEXT})
    packed = {"data": inline.packed(told), "model": inline.packed(inline.inline(script)), "plotly": b64encode(bundle).decode()}
    template = inline.environment().get_template("page.html.j2")
    return template.render(
        view=view,
        controls=controls,
        values={control.key: control.value for control in controls},
        longest_text=LONGEST_TEXT,
        reproduce=reproduce,
        formulas=formulas,
        asks=asks,
        stands_last=stands_last,
        style=style,
        script=own,
        packed=packed,
        policy=_policy([script, own, plotly], style),
        controls_json=inline.as_json([asdict(control) for control in controls]),
    )


def still(view: View, reproduce: str) -> str:
    """A page without controls and without a script: text, style, still pictures.

    `view` and `reproduce` are as those of `page`; what would be opened by a click is there, closed, for a reader to open.
    """
    style = inline.styles((*_STYLES, "still"))
    policy = f"default-src 'none'; style-src {inline.hashed(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    template = inline.environment().get_template("still.html.j2")
    return template.render(view=view, reproduce=reproduce, style=style, policy=policy)


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


def _policy(scripts: Sequence[str], style: str) -> str:
    """What the page may do: run these scripts, use this style, show images that it made itself. Nothing else."""
    styles = (style, "", _CRISP)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(inline.hashed, scripts))}",
            f"style-src 'unsafe-hashes' {' '.join(map(inline.hashed, styles))}",
            "img-src data: blob:",
            "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
