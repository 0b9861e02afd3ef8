"""A figure as a file for other documents: SVG with its style written into its shapes, PNG, and PDF.

SVG is our own. PNG and PDF are made from it by Typst, whose Python package needs no browser and no library of the system.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from roofline.errors import MissingExtraError
from roofline.report.axes import text_width
from roofline.report.figure import Figure
from roofline.report.styles import DARK, HEAT_DARK, HEAT_DARK_TEXT, HEAT_LIGHT, HEAT_LIGHT_TEXT, LIGHT
from roofline.report.svg import WIDTH, svg
from roofline.specs.library import shipped
from roofline.text import clean

FONT = "Arimo, Liberation Sans, Arial, Helvetica, sans-serif"
"""Fonts of the same metrics: one of them is nearly everywhere. The first is shipped, for PNG and PDF."""
SCALE = 2
"""Pixels of a PNG for each pixel of its SVG."""
_SVG = "http://www.w3.org/2000/svg"
_RULE = re.compile(r"\.(f-[\w-]+) \{([^}]*)\}")
_MARGIN = 12.0
_TITLE, _LINE = 16.0, 12.0
"""Sizes in pixels of the title and of the lines under it."""
_MOST_LINES = 3


def figure_file(figure: Figure, suffix: str, about: str = "") -> bytes:
    """Return the content of a file that shows a figure under its title, on white.

    Args:
        figure: what to draw.
        suffix: `.svg`; `.png`, at two pixels for each of the SVG; or `.pdf`, in vectors, with its fonts.
        about: what the figure is of, for the line under its title.

    Raises:
        MissingExtraError: PNG or PDF without the extra `figures`.
    """
    picture = plain_svg(svg(figure), heading=(figure.title, about))
    if suffix == ".svg":
        return f"{picture}\n".encode()
    return typeset(picture, suffix)


def check_extra() -> None:
    """Refuse to write PNG and PDF where what writes them is not installed.

    Raises:
        MissingExtraError: it is not.
    """
    try:
        import typst  # noqa: F401
    except ImportError:
        raise MissingExtraError("writing PNG and PDF", "figures") from None


def plain_svg(picture: str, *, dark: bool = False, heading: tuple[str, str] = ("", "")) -> str:
    """Return an SVG of the report with its background and colours written into its shapes.

    For slides, notebooks and programs that read no stylesheets. The rules are those of `reports/figures.css`, the colours
    those of `roofline.report.styles`.

    Args:
        picture: as `roofline.report.svg.svg` returns it.
        dark: whether to take the colours of the dark theme.
        heading: title, and what the figure is of; "" for none.
    """
    ET.register_namespace("", _SVG)
    root = ET.fromstring(picture)  # noqa: S314 - made by our own `svg`
    hues = DARK if dark else LIGHT
    _paint(root, _rules(dark), hues["ink"])
    left, top, width, height = (float(part) for part in root.attrib["viewBox"].split())
    lines = _heading(heading, left, top, width, hues)
    head = float(lines[-1].get("y", "0")) - top + 10 if lines else 0.0
    wide, tall = width + 2 * _MARGIN, height + 2 * _MARGIN + head
    place = {"x": f"{left - _MARGIN:g}", "y": f"{top - _MARGIN:g}", "width": f"{wide:g}", "height": f"{tall:g}"}
    described = [child for child in root if child.tag in (f"{{{_SVG}}}title", f"{{{_SVG}}}desc")]
    drawn = [child for child in root if child not in described]
    root[:] = [*described, ET.Element(f"{{{_SVG}}}rect", {**place, "fill": hues["ground"]}), *lines]
    body = ET.SubElement(root, f"{{{_SVG}}}g", {"transform": f"translate(0 {head:g})"}) if head else root
    body.extend(drawn)
    root.set("viewBox", " ".join(place.values()))
    root.set("width", place["width"])
    root.set("height", place["height"])
    root.set("font-family", FONT)
    return ET.tostring(root, encoding="unicode")


def _heading(heading: tuple[str, str], left: float, top: float, width: float, hues: dict[str, str]) -> list[ET.Element]:
    """The title, and under it what the figure is of, in as many lines as it takes."""
    title, about = heading
    listed = [(clean(title), _TITLE, hues["ink"])] if title else []
    listed += [(line, _LINE, hues["grey"]) for line in about_lines(about, width - 8)]
    elements: list[ET.Element] = []
    y = top
    for text, size, colour in listed:
        y += size * 1.25 if elements or size == _LINE else size
        written = ET.Element(f"{{{_SVG}}}text", {"x": f"{left + 4:g}", "y": f"{y:g}", "font-size": f"{size:g}", "fill": colour})
        written.text = text
        elements.append(written)
        y += 3 if size == _TITLE else 0
    return elements


def about_lines(about: str, width: float = WIDTH) -> list[str]:
    """Return what a figure is of in lines of at most a width in pixels, in letters of 12 pixels; at most three."""
    lines = [""]
    for word in clean(about).split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, _LINE) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return [line for line in lines[:_MOST_LINES] if line]


def _rules(dark: bool) -> dict[str, dict[str, str]]:
    """The style of each class, with values instead of custom properties."""
    hues, heat, texts = (DARK, HEAT_DARK, HEAT_DARK_TEXT) if dark else (LIGHT, HEAT_LIGHT, HEAT_LIGHT_TEXT)
    rules: dict[str, dict[str, str]] = {}
    for name, inside in _RULE.findall((shipped("reports") / "figures.css").read_text(encoding="utf-8")):
        set_ = dict(part.strip().split(": ", 1) for part in inside.split(";") if ": " in part)
        rules[name] = {key: re.sub(r"var\(--f-(\w+)\)", lambda match: hues[match[1]], value) for key, value in set_.items()}
    for shade, (fill, text) in enumerate(zip(heat, texts, strict=True)):
        rules[f"f-heat-{shade}"] = {"fill": fill}
        rules[f"f-heat-{shade}-text"] = {"fill": text}
    return rules


def _paint(element: ET.Element, rules: dict[str, dict[str, str]], colour: str) -> None:
    """Write the style of an element's classes into its attributes, with `currentColor` resolved."""
    for name in element.attrib.pop("class", "").split():
        for key, value in rules.get(name, {}).items():
            if key == "color":
                colour = value
            else:
                element.set(key, value.removesuffix("px"))
    for key in ("fill", "stroke"):
        if element.get(key) == "currentColor":
            element.set(key, colour)
    for child in list(element):
        _paint(child, rules, colour)
        if child.attrib.pop("paint-order", None) is not None:
            _halo(element, child)


def _halo(parent: ET.Element, text: ET.Element) -> None:
    """Put the outline of a text under it as a text of its own: most programs know no `paint-order` and would draw it on top."""
    under = ET.Element(text.tag, {**text.attrib, "fill": text.get("stroke", "none"), "aria-hidden": "true"})
    under.text = text.text
    parent.insert(list(parent).index(text), under)
    for key in [key for key in text.attrib if key.startswith("stroke")]:
        del text.attrib[key]


# PNG and PDF

_DOCUMENT = b"""#set document(title: sys.inputs.title, date: none)
#set page(width: auto, height: auto, margin: 0pt)
#image(bytes(sys.inputs.picture), format: "svg", width: float(sys.inputs.width) * 0.75pt, alt: sys.inputs.title)
"""
"""A page as large as its picture; a pixel is 0.75 points."""


def typeset(picture: str, suffix: str) -> bytes:
    """Return an SVG of `plain_svg` as `.png` or `.pdf`.

    Raises:
        MissingExtraError: the extra `figures` is not installed.
    """
    check_extra()
    import typst

    root = ET.fromstring(picture)  # noqa: S314 - our own
    title = root.findtext(f"{{{_SVG}}}title", "")
    inputs = {"picture": picture, "title": title, "width": root.attrib["width"]}
    fonts = [str(shipped("reports") / "fonts")]
    form = suffix.removeprefix(".")
    compiled: Any = typst.compile  # its annotations want folders of fonts in the type of the document
    content: bytes = compiled(_DOCUMENT, format=form, ppi=96.0 * SCALE, sys_inputs=inputs, font_paths=fonts)
    return content
