"""The script of lessons' pages: what is shown of the controls and how answers are judged, translated from Python."""

from __future__ import annotations

from functools import cache

from roofline.formulas.javascript import Program
from roofline.report import live, svg_shapes
from roofline.teach.lessons.live.shown import shown
from roofline.teach.worksheets.feedback import Asked, Known, judge

_PARTS = ("library.js", "plain.js", "drawing.js", "lesson.js")


@cache
def program() -> Program:
    """One program for all pages, so that all have the same."""
    made = live.program({svg_shapes.escaped: "drawing.safe", svg_shapes.id_part: "drawing.name"})
    made.export("shown", shown)
    made.export("judge", judge)
    for cls in (Asked, Known):
        made.refer(cls)
    for spec in live.every_spec():
        made.refer(spec)
    return made


def script() -> str:
    """The text of it, with what the page's own script calls."""
    return live.page_script(program().source(), _PARTS)
