"""A picture of the report with its colours written into its shapes, for slides, notebooks and programs that read no styles."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from roofline.report.looks import DARK, HEAT_DARK, HEAT_DARK_TEXT, HEAT_LIGHT, HEAT_LIGHT_TEXT, LIGHT
from roofline.specs.library import shipped

_SVG = "http://www.w3.org/2000/svg"
_RULE = re.compile(r"\.(f-[\w-]+) \{([^}]*)\}")
_FONT = "system-ui, Segoe UI, Roboto, Noto Sans, DejaVu Sans, sans-serif"
_MARGIN = 12.0


def plain_svg(picture: str, *, dark: bool = False) -> str:
    """The picture on a ground of its own, by the rules of `reports/figures.css` and the colours of `roles.py`."""
    ET.register_namespace("", _SVG)
    root = ET.fromstring(picture)  # noqa: S314 - made by our own `svg`
    hues = DARK if dark else LIGHT
    _paint(root, _rules(dark), hues["ink"])
    left, top, width, height = (float(part) for part in root.attrib["viewBox"].split())
    wide, tall = width + 2 * _MARGIN, height + 2 * _MARGIN
    root.set("viewBox", f"{left - _MARGIN:g} {top - _MARGIN:g} {wide:g} {tall:g}")
    root.set("width", f"{wide:g}")
    root.set("height", f"{tall:g}")
    root.set("font-family", _FONT)
    place = {"x": f"{left - _MARGIN:g}", "y": f"{top - _MARGIN:g}", "width": f"{wide:g}", "height": f"{tall:g}"}
    ground = ET.Element(f"{{{_SVG}}}rect", {**place, "fill": hues["ground"]})
    root.insert(2, ground)  # after title and description, which readers of screens look for first
    return ET.tostring(root, encoding="unicode")


def _rules(dark: bool) -> dict[str, dict[str, str]]:
    """What each class sets, with values in the place of custom properties."""
    hues, heat, texts = (DARK, HEAT_DARK, HEAT_DARK_TEXT) if dark else (LIGHT, HEAT_LIGHT, HEAT_LIGHT_TEXT)
    found: dict[str, dict[str, str]] = {}
    for name, inside in _RULE.findall((shipped("reports") / "figures.css").read_text(encoding="utf-8")):
        set_ = dict(part.strip().split(": ", 1) for part in inside.split(";") if ": " in part)
        found[name] = {key: re.sub(r"var\(--f-(\w+)\)", lambda match: hues[match[1]], value) for key, value in set_.items()}
    for shade, (fill, text) in enumerate(zip(heat, texts, strict=True)):
        found[f"f-heat-{shade}"] = {"fill": fill}
        found[f"f-heat-{shade}-text"] = {"fill": text}
    return found


def _paint(element: ET.Element, rules: dict[str, dict[str, str]], colour: str) -> None:
    """Write what the classes of an element set into it, `currentColor` as the colour that holds there."""
    for name in element.attrib.pop("class", "").split():
        for key, value in rules.get(name, {}).items():
            if key == "color":
                colour = value
            else:
                element.set(key, value)
    for key in ("fill", "stroke"):
        if element.get(key) == "currentColor":
            element.set(key, colour)
    for child in element:
        _paint(child, rules, colour)
