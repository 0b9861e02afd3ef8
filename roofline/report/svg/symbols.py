"""Symbols, dashes and hatches, drawn as plotly draws those of the same names."""

from __future__ import annotations

from roofline.report.roles import Look
from roofline.report.svg.elements import element, px

_DASHES = {"solid": "none", "dot": "2 3", "dash": "7 5", "longdash": "12 6", "dashdot": "8 4 2 4"}
_HATCHES = {
    "/": ("up", "M-2 2L2 -2M0 7L7 0M5 9L9 5"),
    "\\": ("down", "M-2 5L2 9M0 0L7 7M5 -2L9 2"),
    "x": ("cross", "M0 7L7 0M0 0L7 7"),
    "-": ("level", "M0 3.5H7"),
    "+": ("grid", "M0 3.5H7M3.5 0V7"),
    ".": ("dots", "M2.5 3.5H4.5"),
}
_UPRIGHT = 44.0
"""Pixels of the upright stroke that stands for a capacity: more than a bar is thick."""


def stroke(look: Look, width: float) -> dict[str, str | float]:
    """The attributes of a line; its colour is that of its group."""
    return {
        "fill": "none",
        "stroke": "currentColor",
        "stroke_width": f"{width:g}",
        "stroke_dasharray": _DASHES[look.dash],
        "stroke_linejoin": "round",
    }


def symbol(look: Look, x: float, y: float, diameter: float, *, clear: bool = False) -> str:
    """A point: filled with its border in the colour of the ground, or an outline; a `clear` one shows what lies under it."""
    if look.symbol == "line-ns":
        return element("path", d=f"M{px(x)} {px(y - diameter / 2)}v{px(diameter)}", stroke="currentColor", stroke_width=3)
    outline = _outline(look.symbol, x, y, diameter / 2)
    if look.hollow:
        return element("path", d=outline, class_="f-hollow", stroke_width="1.4")
    return element("path", d=outline, class_="f-dot f-clear" if clear else "f-dot")


def upright(look: Look, diameter: float) -> float:
    """The size of a symbol: strokes are as long as they have to be seen."""
    return _UPRIGHT if look.symbol == "line-ns" else diameter


def _outline(kind: str, x: float, y: float, r: float) -> str:
    """A path; areas of different symbols of one size are about the same."""
    if kind == "square":
        s = 0.886 * r
        return f"M{px(x - s)} {px(y - s)}h{px(2 * s)}v{px(2 * s)}h{px(-2 * s)}z"
    if kind == "diamond":
        s = 1.25 * r
        return f"M{px(x)} {px(y - s)}L{px(x + s)} {px(y)}L{px(x)} {px(y + s)}L{px(x - s)} {px(y)}z"
    if kind in ("triangle-up", "triangle-down"):
        way = 1 if kind == "triangle-up" else -1
        s = 1.2 * r
        return f"M{px(x)} {px(y - way * s)}L{px(x + s)} {px(y + way * 0.7 * s)}H{px(x - s)}z"
    if kind == "x":
        a, b = 0.36 * r, 1.05 * r
        quarter = ((-b, a - b), (a - b, -b), (0.0, -a))
        corners = [*quarter, *((-j, i) for i, j in quarter), *((-i, -j) for i, j in quarter), *((j, -i) for i, j in quarter)]
        return f"M{'L'.join(f'{px(x + i)} {px(y + j)}' for i, j in corners)}z"
    return f"M{px(x - r)} {px(y)}a{px(r)} {px(r)} 0 1 0 {px(2 * r)} 0a{px(r)} {px(r)} 0 1 0 {px(-2 * r)} 0z"


def hatch_fill(key: str, hatch: str, hue: str = "ground") -> str:
    """The paint of a hatch in a picture: strokes in the colour of the ground over bars, in another over the ground."""
    return f"url(#{key}-{_HATCHES[hatch][0]}-{hue})"


def hatch_patterns(key: str, hatches: set[tuple[str, str]]) -> str:
    """Definitions of the hatches, each with its hue, that a picture uses."""
    return "".join(
        element(
            "pattern",
            element("path", d=_HATCHES[hatch][1], stroke="currentColor", stroke_width="1", stroke_opacity="0.75", fill="none"),
            id=f"{key}-{_HATCHES[hatch][0]}-{hue}",
            class_=f"f-{hue}",
            width=7,
            height=7,
            patternUnits="userSpaceOnUse",
        )
        for hatch, hue in sorted(hatches)
    )
