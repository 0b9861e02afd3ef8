"""Static pictures: well-formed, safe, legible, and with the figure's numbers where they belong."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from figure_samples import BATCHES, BUDGET, HEAT, MEMORY, NOTHING, ROOFLINE, SAMPLES, SENSITIVITY, STANDING, TTFT
from picture_texts import text_boxes, text_faults

from roofline.report.axes import span
from roofline.report.figure import Axis, Figure, Mark, Series, Zone
from roofline.report.layout import Frame, labels, spot
from roofline.report.plotly_figure import plot
from roofline.report.svg import svg
from roofline.units import parse_quantity

_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = r"-?\d+(?:\.\d+)?"
_HOSTILE = "</title><script>alert('1')</script>\"]]>&\u202e\x00\ud800\ufffe"


def _tree(figure: Figure) -> ET.Element:
    return ET.fromstring(svg(figure))  # noqa: S314 - our own


def _visible(tree: ET.Element) -> list[str]:
    return [element.text or "" for element in tree.iter(f"{_SVG}text")]


def _plot(tree: ET.Element) -> ET.Element:
    """The group that holds the frame; its coordinates start in the frame's upper left corner."""
    return tree.findall(f"{_SVG}g")[0]


def _ticks(tree: ET.Element, side: str) -> dict[str, float]:
    """Texts of the ticks of an axis, with their places in pixels of the frame."""
    texts = [element for element in _plot(tree).findall(f"{_SVG}text") if element.get("class") == "f-text"]
    if side == "y":
        return {_text(e): float(e.get("y", "")) - 4.2 for e in texts if e.get("text-anchor") == "end" and e.get("x") == "-7"}
    low = max(float(e.get("y", "")) for e in texts if e.get("text-anchor") == "end" and e.get("x") == "-7")
    under = [
        e for e in texts if e.get("text-anchor") == "middle" and e.get("font-size") == "12" and float(e.get("y", "")) > low
    ]
    return {_text(element): float(element.get("x", "")) for element in under}


def _text(element: ET.Element) -> str:
    return element.text or ""


def _scale(tree: ET.Element, side: str, read: Callable[[str], float], *, log: bool) -> Callable[[float], float]:
    """Pixels to value, by the first and the last tick: what a reader does with a ruler."""
    marks = sorted((place, read(text)) for text, place in _ticks(tree, side).items())
    (first, low), (last, high) = marks[0], marks[-1]

    def value(place: float) -> float:
        share = (place - first) / (last - first)
        return low * (high / low) ** share if log else low + share * (high - low)

    return value


def _si(unit: str) -> Callable[[str], float]:
    return lambda text: 0.0 if text == "0" else float(parse_quantity(text.replace(",", ""), unit))


def _count(text: str) -> float:
    return float(text.replace(",", ""))


def _numbers(path: str) -> list[tuple[float, float]]:
    found = [float(number) for number in re.findall(_NUMBER, path)]
    return (
        list(itertools.batched(found, 2)) if hasattr(itertools, "batched") else list(zip(found[::2], found[1::2], strict=True))
    )


def _titled(tree: ET.Element, words: str) -> ET.Element:
    """The shapes that have a text under the pointer."""
    (found,) = [group for group in tree.iter(f"{_SVG}g") if group.findtext(f"{_SVG}title") == words]
    return found


@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: figure.key)
def test_it_is_an_image_with_a_name_and_a_description(figure: Figure) -> None:
    tree = _tree(figure)
    assert tree.tag == f"{_SVG}svg"
    assert tree.get("role") == "img"
    named = (tree.get("aria-labelledby") or "").split()
    ids = {element.get("id"): element for element in tree.iter() if element.get("id")}
    assert [ids[name].tag for name in named] == [f"{_SVG}title", f"{_SVG}desc"]
    assert ids[named[0]].text == figure.title
    assert re.fullmatch(r"0 0 760 \d+(\.\d)?", tree.get("viewBox") or "")


@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: figure.key)
def test_it_obeys_a_strict_policy(figure: Figure) -> None:
    """No style of its own, nothing that runs, nothing that loads; classes are all in the style of the page."""
    style = (Path(__file__).parents[3] / "reports" / "figures.css").read_text(encoding="utf-8")
    for element in _tree(figure).iter():
        assert element.tag.removeprefix(_SVG) in {
            "svg", "title", "desc", "defs", "clipPath", "g", "path", "rect", "text",
        }  # fmt: skip
        assert not {name for name in element.attrib if name == "style" or name.startswith("on") or "href" in name}
        for name in (element.get("class") or "").split():
            assert f".{name} " in style, name


@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: figure.key)
def test_ids_are_its_own_and_all_references_are_met(figure: Figure) -> None:
    text = svg(figure)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert all(name.startswith(f"{figure.key}-") for name in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def test_a_line_is_where_its_numbers_are() -> None:
    """Read back with a ruler between the first and the last tick, within half a pixel."""
    tree = _tree(TTFT)
    x, y = _scale(tree, "x", _count, log=True), _scale(tree, "y", _si("s"), log=True)
    lines = [path for path in _plot(tree).iter(f"{_SVG}path") if path.get("clip-path") and path.get("fill") == "none"]
    assert len(lines) == 3
    for path, series in zip(lines, TTFT.series[:3], strict=True):
        spots = _numbers(path.get("d") or "")
        assert [x(place) for place, _ in spots] == pytest.approx(series.x, rel=0.01)
        assert [y(place) for _, place in spots] == pytest.approx(series.y, rel=0.02)


def test_a_band_is_between_its_edges() -> None:
    tree = _tree(BATCHES)
    y = _scale(tree, "y", _count, log=False)
    (band,) = [path for path in _plot(tree).iter(f"{_SVG}path") if path.get("class") == "f-band"]
    places = [y(place) for _, place in _numbers(band.get("d") or "")]
    assert places == pytest.approx([110, 3300, 6600, 5400, 2700, 90], abs=12)


def test_points_are_where_their_numbers_are() -> None:
    """Circles are drawn from their left end: its height is the point's, and the middle is half a diameter away."""
    tree = _tree(ROOFLINE)
    x, y = _scale(tree, "x", _count, log=True), _scale(tree, "y", _si("FLOP/s"), log=True)
    for label, along, up in zip(*(getattr(ROOFLINE.series[3], name) for name in ("labels", "x", "y")), strict=True):
        path = _titled(tree, label).find(f"{_SVG}path")
        assert path is not None
        (left, level), (radius, _) = _numbers(path.get("d") or "")[:2]
        assert x(left + radius) == pytest.approx(along, rel=0.02)
        assert y(level) == pytest.approx(up, rel=0.02)


def test_bars_start_and_end_where_their_numbers_are() -> None:
    tree = _tree(BUDGET)
    x = _scale(tree, "x", _si("s"), log=False)
    rect = _titled(tree, "attention").find(f"{_SVG}rect")
    assert rect is not None
    left, width = float(rect.get("x", "")), float(rect.get("width", ""))
    assert (x(left), x(left + width)) == pytest.approx((4e-3, 6e-3), abs=1e-5)
    middle = float(rect.get("y", "")) + float(rect.get("height", "")) / 2
    assert middle == pytest.approx(_ticks(tree, "y")["memory"], abs=0.2), "in its lane"


def test_a_bar_of_next_to_nothing_is_there() -> None:
    rect = _titled(_tree(BUDGET), "norm").find(f"{_SVG}rect")
    assert rect is not None
    assert float(rect.get("width", "")) >= 0.5
    assert rect.get("class") == "f-sliver"


def test_bars_below_zero_go_the_other_way() -> None:
    figure = replace(SENSITIVITY, series=tuple(replace(series, labels=series.short) for series in SENSITIVITY.series))
    tree = _tree(figure)
    more, less = (_titled(tree, words).find(f"{_SVG}rect") for words in ("+25 %", "-16 %"))
    assert more is not None
    assert less is not None
    assert float(less.get("x", "")) + float(less.get("width", "")) == pytest.approx(float(more.get("x", "")), abs=0.2)
    assert float(more.get("width", "")) / float(less.get("width", "")) == pytest.approx(25 / 16, rel=0.01)


def test_standing_bars_end_at_their_values() -> None:
    figure = replace(STANDING, series=(replace(STANDING.series[0], labels=("a", "h")),))
    tree = _tree(figure)
    y = _scale(tree, "y", _si("s"), log=False)
    tops = [_titled(tree, words).find(f"{_SVG}rect") for words in ("a", "h")]
    assert [y(float(rect.get("y", ""))) for rect in tops if rect is not None] == pytest.approx([0.2, 0.06], abs=1e-3)


def test_hatches_are_strokes_inside_their_bars_and_cells() -> None:
    """No pattern, which browsers print as an image."""
    named = replace(MEMORY, series=(replace(MEMORY.series[1], labels=("cache", "other")),))
    for figure, words in ((named, "cache"), (HEAT, "no")):
        assert "<pattern" not in svg(figure)
        rect, hatch = (_titled(_tree(figure), words).find(f"{_SVG}{tag}") for tag in ("rect", "path"))
        assert rect is not None
        assert hatch is not None
        assert (hatch.get("class") or "").startswith("f-hatch ")
        left, top = float(rect.get("x", "")), float(rect.get("y", ""))
        right, bottom = left + float(rect.get("width", "")), top + float(rect.get("height", ""))
        strokes = re.findall(rf"M({_NUMBER}) ({_NUMBER})L({_NUMBER}) ({_NUMBER})", hatch.get("d") or "")
        assert len(strokes) >= (right - left + bottom - top) / 7 - 1
        for stroke in strokes:
            x, y, to_x, to_y = map(float, stroke)
            assert left - 0.1 <= x <= to_x <= right + 0.1
            assert top - 0.1 <= to_y <= y <= bottom + 0.1
            assert x + y == pytest.approx(to_x + to_y, abs=0.21)


def test_cells_hold_their_texts_in_the_shade_of_their_values() -> None:
    """5 to 20 ms in nine equal steps: 5 and 6 ms are in the first, 10 ms is in the fourth, 20 ms in the last."""
    shades = []
    for words in ("5 ms, memory", "10 ms, compute", "20 ms, memory"):
        cell = _titled(_tree(HEAT), words)
        assert ", ".join(element.text or "" for element in cell.findall(f"{_SVG}text")) == words
        rect = cell.find(f"{_SVG}rect")
        shades.append(None if rect is None else rect.get("class"))
    assert shades == ["f-heat-0", "f-heat-3", "f-heat-8"]


def test_a_gap_parts_a_line() -> None:
    (series,) = [series for series in BATCHES.series if series.name == "bound"]
    assert None in series.y
    lines = [
        path.get("d") or ""
        for path in _tree(BATCHES).iter(f"{_SVG}path")
        if path.get("clip-path") and path.get("stroke-dasharray") == "2 3"
    ]
    assert [line.count("M") for line in lines] == [2]


def test_what_a_logarithm_does_not_have_is_not_drawn() -> None:
    axis = Axis(title="", scale="log")
    series = Series(name="a", kind="points", role="decode", x=(0, 1, math.inf, 2), y=(1, -1, 1, 2), labels=("a", "b", "c", "d"))
    tree = _tree(Figure(key="k", title="", note="", x=axis, y=axis, series=(series,)))
    assert [title.text for title in tree.iter(f"{_SVG}title") if title.text in set("abcd")] == ["d"]


def test_every_name_mark_and_zone_can_be_read() -> None:
    for figure in SAMPLES:
        shown = _visible(_tree(figure))
        wanted = [series.name for series in figure.series if series.kind != "heat" and len(series.x) > 0]
        wanted += [part.text for part in (*figure.marks, *figure.zones)]
        assert set(wanted) <= set(shown), figure.key
    assert "does not fit" in _visible(_tree(HEAT))


@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: figure.key)
def test_texts_neither_meet_nor_leave_the_picture(figure: Figure) -> None:
    tree = _tree(figure)
    assert len(list(text_boxes(tree))) >= 5 or figure is NOTHING
    assert text_faults(svg(figure)) == []


def test_a_text_runs_along_its_stroke() -> None:
    """It is turned as the stroke is: by the arc tangent of the rise over the run in pixels."""
    frame = Frame(x=span(ROOFLINE, "x", 8), y=span(ROOFLINE, "y", 7), width=600, height=330)
    along = {label.text: label for label in labels(ROOFLINE, frame) if label.kind == "along"}
    start, end = spot(frame, 0.1, 3.3e11), spot(frame, 300, 1e15)
    assert start is not None
    assert end is not None
    rise = math.degrees(math.atan((end[1] - start[1]) / (end[0] - start[0])))
    assert along["3.3 TB/s"].angle == pytest.approx(rise)
    assert along["1 PFLOP/s"].angle == 0
    assert f"rotate({_plot_angle(ROOFLINE):.1f} " in svg(ROOFLINE)


def _plot_angle(figure: Figure) -> float:
    """The angle of the first stroke of the picture's first line, from its path."""
    path = next(element.get("d", "") for element in _tree(figure).iter(f"{_SVG}path") if element.get("stroke-width") == "2")
    (x0, y0), (x1, y1) = _numbers(path)[:2]
    return round(math.degrees(math.atan2(y1 - y0, x1 - x0)), 1)


def test_a_crowded_point_is_named_from_afar() -> None:
    """Points all around hide every text next to it: it stands away, with a line from the point to it."""
    points = Series(
        name="a", kind="points", role="prefill", x=tuple(100 + index for index in range(10)), y=(1e12,) * 10,
        size=(1.0,) * 10, short=("gate_up_proj\ndown_proj", *("" for _ in range(9))),
    )  # fmt: skip
    around = [(100 * 1.4**i, 1e12 * 2.0**j) for i in range(-3, 4) for j in range(-2, 3)]
    crowd = Series(name="b", kind="points", role="decode", x=tuple(x for x, _ in around), y=tuple(y for _, y in around))
    rates = replace(ROOFLINE.y, low=1e10, high=1e14)
    figure = replace(ROOFLINE, series=(points, crowd), marks=(), y=rates)
    frame = Frame(x=span(figure, "x", 8), y=span(figure, "y", 7), width=600, height=330)
    (label,) = [label for label in labels(figure, frame) if label.kind == "short"]
    place = spot(frame, 100, 1e12)
    assert place is not None
    assert label.leader is not None
    assert math.dist(place, label.leader) > 20
    tree = _tree(figure)
    assert {"gate_up_proj", "down_proj"} <= set(_visible(tree))
    assert [element for element in tree.iter() if element.get("class") == "f-leader"] != []


def _written(text: str) -> Figure:
    """A figure whose every text is this one."""
    lines = Series(name=text, kind="line", role="bound", x=(1, 2), y=("a", text), labels=(text, text), short=("", text))
    bars = Series(
        name=text, kind="bars", role="kv", x=(1, 2), y=(text, "b"), labels=(text, text), short=(text, text), keys=(text, "")
    )
    return Figure(
        key=text[:20],
        title=text,
        note=text,
        x=Axis(title=text, scale="linear", unit=text),
        y=Axis(title=text, scale="category"),
        series=(lines, bars),
        marks=(Mark(text=text, x=1.5), Mark(text=text, y=0.5)),
        zones=(Zone(text=text, role="slo", x1=1.0),),
    )


@pytest.mark.parametrize("text", [_HOSTILE, _HOSTILE * 300, "x" * 10_000], ids=["once", "often", "long"])
def test_hostile_text_changes_nothing_but_text(text: str) -> None:
    harmless = re.sub(r"[^A-Za-z ]", "-", text)
    hostile, calm = _tree(_written(text)), _tree(_written(harmless))
    assert {element.tag for element in hostile.iter()} == {element.tag for element in calm.iter()}
    assert [sorted(element.attrib) for element in hostile.iter()][:3] == [sorted(element.attrib) for element in calm.iter()][:3]
    assert all(re.fullmatch(r"[-\w]+", element.get("id") or "k") for element in hostile.iter())
    for words in _visible(hostile):
        assert len(words) <= 100
        assert not set(words) & {"\u202e", "\x00"}
    assert len(svg(_written(text))) < 30_000


def test_text_comes_back_as_it_was() -> None:
    figure = _written("<b> & \"c\" 'd'")
    assert "<b> & \"c\" 'd'" in _visible(_tree(figure))
    assert 'id="-b-----c---d--title"' in svg(figure)


def test_names_too_wide_to_stand_side_by_side_lean() -> None:
    names = tuple(f"a hardware of a long name {number}" for number in range(6))
    series = Series(name="a", kind="bars", role="bound", x=names, y=(1,) * 6)
    figure = Figure(
        key="k", title="", note="", x=Axis(title="", scale="category"), y=Axis(title="", scale="linear"), series=(series,)
    )
    assert svg(figure).count("rotate(-32") == 6
    assert "rotate(-32" not in svg(STANDING)


@pytest.mark.parametrize("width", [760.0, 480.0, 340.0, 260.0])
@pytest.mark.parametrize("title", ["On the scale", "Map", "Change"])
def test_numbers_under_a_figure_stand_upright(title: str, width: float) -> None:
    """Where all ticks' texts would meet, every second or third is left out, in pictures and plots.

    Rates of four decades, as a claim has them, batches that double, and a change to both sides of zero, which keeps its zero.
    """
    names = tuple(str(2**power) for power in range(10))
    shown = {
        "On the scale": (Axis(title="tok/s", scale="log", unit=""), (100.0, 100_000.0), ("a", "b"), "points"),
        "Map": (Axis(title="sequences", scale="category"), names, ("128", "512"), "heat"),
        "Change": (Axis(title="change", scale="linear", unit="%"), (-0.167, 0.25), ("a", "b"), "bars"),
    }[title]
    across, x, y, kind = shown
    heat = {"z": ((1.0,) * len(x), (2.0,) * len(x))} if kind == "heat" else {}
    series = Series(name="a", kind=kind, role="estimate", x=x, y=y, **heat)
    figure = Figure(
        key="k", title=title, note="", x=across, y=Axis(title="efficiency of kernels", scale="category"), series=(series,)
    )
    assert "rotate(-32" not in svg(figure, width)
    axis = plot(figure, False, width)["layout"]["xaxis"]
    assert axis["tickangle"] == 0
    assert len(axis["tickvals"]) >= 2
    assert ("0" in axis["ticktext"]) == (title == "Change")


def test_same_figure_same_bytes() -> None:
    for figure in SAMPLES:
        assert svg(figure) == svg(replace(figure))


def test_numbers_of_thin_bars_are_left_out() -> None:
    """Lying bars of two series: 2 categories have space for the numbers of 4 bars, 30 categories do not."""

    def numbers(count: int) -> int:
        names = tuple(f"kernel {at}" for at in range(count))
        bars = [
            Series(name=name, kind="bars", role=role, x=(1.5,) * count, y=names, short=("1.5 ms",) * count)
            for name, role in (("bound", "bound"), ("estimate", "estimate"))
        ]
        y, x = Axis(title="", scale="category"), Axis(title="time", scale="linear")
        figure = Figure(key="thin", title="Thin", note="", x=x, y=y, series=tuple(bars))
        return _visible(ET.fromstring(svg(figure, 700.0, 200.0))).count("1.5 ms")  # noqa: S314 - our own

    assert (numbers(2), numbers(30)) == (4, 0)
