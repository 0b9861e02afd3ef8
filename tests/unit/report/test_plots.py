"""Plots: what plotly is given is what the figure says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from figure_samples import BATCHES, BUDGET, HEAT, MEMORY, NOTHING, ROOFLINE, SAMPLES, SENSITIVITY, STANDING, TTFT
from plotly.graph_objects import Figure as Plotly

from roofline.report.figure import Axis, Figure, Mark, Series, Zone
from roofline.report.plotly_figure import plot

_HOSTILE = "<script>alert('1')</script><a href=\"javascript:x\">&\u202e\x07"


def _trace(figure: Figure, name: str, kind: str = "scatter") -> dict[str, Any]:
    """The one trace of a name and type."""
    (found,) = [trace for trace in plot(figure, dark=False)["data"] if trace.get("name") == name and trace["type"] == kind]
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


@pytest.mark.parametrize("width", [760, 320], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: figure.key)
def test_plotly_takes_it(figure: Figure, dark: bool, width: float) -> None:
    found = plot(figure, dark, width)
    Plotly(found)  # its validators refuse unknown names and wrong values
    assert json.loads(json.dumps(found, allow_nan=False)) == found, "plain data"
    assert {trace["type"] for trace in found["data"]} <= {"scatter", "bar", "heatmap"}, "the cartesian bundle"


def test_lines_have_the_figure_s_numbers() -> None:
    trace = _trace(BATCHES, "bound")
    assert trace["x"] == [0.008, 0.015, 0.03]
    assert trace["y"] == [125, None, 8000]
    assert _trace(BATCHES, "estimate")["customdata"] == ["1", "64", "256"]
    assert _trace(BATCHES, "estimate")["hovertext"] == ["batch 1", "batch 64", "batch 256"]


def test_points_have_the_figure_s_numbers_the_large_ones_first() -> None:
    trace = _trace(ROOFLINE, "prefill")
    given = list(zip(trace["customdata"], trace["x"], trace["y"], strict=True))
    assert given == [("prefill/attention", 2000, 6e14), ("prefill/q_proj", 800, 5e14), ("prefill/norm", 0.5, 1e12)]
    large, middle, small = trace["marker"]["size"]
    assert (middle / large) ** 2 == pytest.approx(0.3), "areas are shares"
    assert small >= 6, "small ones can be seen"


def test_bars_have_the_figure_s_numbers() -> None:
    trace = _trace(BUDGET, "compute", "bar")
    assert trace["orientation"] == "h"
    assert (trace["base"], trace["x"], trace["y"]) == ([0, 6e-3], pytest.approx([4e-3, 1e-7]), [0, 0])
    assert trace["customdata"] == ["a", "b"]
    assert _trace(BUDGET, "memory", "bar")["y"] == [1]
    assert plot(BUDGET, dark=False)["layout"]["yaxis"]["ticktext"] == ["compute", "memory"]
    assert plot(BUDGET, dark=False)["layout"]["yaxis"]["range"] == [1.5, -0.5], "from top to bottom"


def test_a_sliver_is_not_drowned_in_its_border() -> None:
    assert _trace(BUDGET, "compute", "bar")["marker"]["line"]["width"] == [1, 0]


def test_bars_that_would_cover_one_another_stand_side_by_side() -> None:
    bound, estimate = _trace(STANDING, "bound", "bar"), _trace(STANDING, "estimate", "bar")
    assert bound["orientation"] == "v"
    assert bound["offset"] + bound["width"] == pytest.approx(estimate["offset"])
    for name in ("less", "more"):
        assert _trace(SENSITIVITY, f"20 % {name}", "bar")["offset"] == pytest.approx(-0.33), "none covers another"
    assert _trace(MEMORY, "weights", "bar")["offset"] == _trace(MEMORY, "free", "bar")["offset"]


def test_a_band_is_an_outline() -> None:
    trace = _trace(BATCHES, "8 of 10")
    assert trace["x"] == [0.01, 0.02, 0.04, 0.04, 0.02, 0.01]
    assert trace["y"] == [110, 3300, 6600, 5400, 2700, 90]
    assert trace["fill"] == "toself"
    assert trace["line"]["color"] == "#2272b8"
    assert trace["fillcolor"] == "rgba(34,114,184,0.19)"  # 0x22, 0x72, 0xb8


def test_colours_are_of_a_form_that_every_plotly_takes() -> None:
    """Six digits, or `rgba()`: plotly 6.0 to 6.5 refuse an opacity as a seventh and eighth digit."""
    for figure in SAMPLES:
        for dark in (False, True):
            colours = [text for text in _strings(plot(figure, dark)) if text.startswith("#")]
            assert [colour for colour in colours if not re.fullmatch(r"#([0-9a-f]{3}){1,2}", colour)] == []


def test_a_heat_has_the_figure_s_numbers_and_hatches() -> None:
    heat = _trace(HEAT, "TPOT", "heatmap")
    assert heat["z"] == [[0.005, 0.006, 0.01], [0.006, 0.02, None]]
    assert heat["customdata"] == [["a", "b", "c"], ["d", "e", "f"]]
    assert (heat["zmin"], heat["zmax"]) == (0.005, 0.02)
    assert heat["hovertext"][1] == ["6 ms<br>memory", "20 ms<br>memory", "no"]
    hatched = _trace(HEAT, "does not fit", "bar")
    assert (hatched["x"], [base + 0.48 for base in hatched["base"]]) == ([2], [1]), "the third column of the second row"
    assert hatched["marker"]["pattern"]["shape"] == "/"
    (texts,) = [trace for trace in plot(HEAT, dark=False)["data"] if trace["type"] == "scatter" and trace["mode"] == "text"]
    assert list(zip(texts["x"], texts["y"], texts["text"], strict=True))[4] == (1, 1, "20 ms<br>memory")


@pytest.mark.parametrize("values", [(1.0, 2.0, 4.0), (1e-3, 1.0, 1e3)], ids=["linear", "logarithmic"])
def test_shades_rise_with_values(values: tuple[float, ...]) -> None:
    """A heat's scale of colours covers its range without a gap, in equal steps of the value or of its logarithm."""
    (series,) = HEAT.series
    figure = replace(HEAT, series=(replace(series, z=(values, values), hatched=()),))
    scale = _trace(figure, "TPOT", "heatmap")["colorscale"]
    edges = [edge for edge, _ in scale]
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (0, 1)
    assert edges[1:-1:2] == edges[2::2], "each step begins where the one before it ends"
    low, high = values[0], values[-1]
    middle = low + (high - low) * edges[6]  # a third of the way
    expected = low + (high - low) / 3 if high / low < 8 else low * (high / low) ** (1 / 3)
    assert middle == pytest.approx(expected)


@pytest.mark.parametrize("figure", SAMPLES, ids=lambda figure: figure.key)
def test_ticks_are_inside_and_in_order(figure: Figure) -> None:
    for width in (320, 500, 760):
        layout = plot(figure, dark=False, whole_width=width)["layout"]
        for axis in (layout["xaxis"], layout["yaxis"]):
            low, high = sorted(axis["range"])
            places = [math.log10(value) if axis["type"] == "log" else value for value in axis["tickvals"]]
            assert places == sorted(places)
            assert all(low <= place <= high for place in places)
            assert len(axis["ticktext"]) == len(places)


def test_what_is_drawn_is_inside_the_axes() -> None:
    layout = plot(TTFT, dark=False)["layout"]
    low, high = (10**end for end in layout["xaxis"]["range"])
    assert low < 128
    assert high > 131072
    low, high = (10**end for end in layout["yaxis"]["range"])
    assert low < 0.004
    assert high > 20


def test_what_a_logarithm_does_not_have_is_a_gap() -> None:
    axis = Axis(title="", scale="log")
    series = Series(name="line", kind="line", role="bound", x=(1, 2, 3, 4), y=(0, -1, float("inf"), 5))
    assert _trace(Figure(key="k", title="", note="", x=axis, y=axis, series=(series,)), "line")["y"] == [None, None, None, 5]


def test_marks_stand_at_their_values() -> None:
    layout = plot(TTFT, dark=False)["layout"]
    level, upright = (shape for shape in layout["shapes"] if shape["type"] == "line")
    assert (level["y0"], level["y1"], level["xref"]) == (0.5, 0.5, "paper")
    assert (upright["x0"], upright["x1"], upright["yref"]) == (4096, 4096, "paper")
    texts = {note["text"]: note for note in layout["annotations"]}
    assert texts["SLO 500 ms"]["y"] == pytest.approx(math.log10(0.5)), "annotations stand on logarithmic axes by exponent"
    assert texts["this prompt"]["x"] == pytest.approx(math.log10(4096))


def test_texts_of_neighbouring_marks_do_not_meet() -> None:
    texts = [
        note
        for note in plot(BATCHES, dark=False)["layout"]["annotations"]
        if note["text"] in ("memory is full", "critical batch")
    ]
    places = {(note["xanchor"], note["yshift"]) for note in texts}
    assert len(places) == 2


def test_a_zone_reaches_to_the_edge() -> None:
    found = plot(BATCHES, dark=False)["layout"]
    (zone,) = [shape for shape in found["shapes"] if shape["type"] == "rect"]
    assert zone["x1"] == 0.03
    assert zone["x0"] < found["xaxis"]["range"][0]
    assert zone["y0"] < found["yaxis"]["range"][0] < found["yaxis"]["range"][1] < zone["y1"]


def test_the_title_is_not_drawn() -> None:
    for figure in SAMPLES:
        assert figure.title not in list(_strings(plot(figure, dark=False)))


def test_a_name_has_one_entry_in_the_legend() -> None:
    for figure in SAMPLES:
        shown = [trace["name"] for trace in plot(figure, dark=False)["data"] if trace.get("showlegend", False)]
        assert len(shown) == len(set(shown))
    assert sum(trace["showlegend"] for trace in plot(TTFT, dark=False)["data"] if trace["name"] == "H200 estimate") == 1


def test_themes_differ_in_colours_alone() -> None:
    def blind(value: object) -> str:
        return re.sub(r"#[0-9a-f]{3,8}|rgba\(\d+,\d+,\d+", "#", json.dumps(value))

    for figure in SAMPLES:
        light, dark = plot(figure, dark=False), plot(figure, dark=True)
        assert blind(light) == blind(dark)
        assert figure is NOTHING or light["data"] != dark["data"]


def _hostile(text: str) -> Figure:
    """Every text of a figure is this one."""
    lines = Series(name=text, kind="line", role="bound", x=(1, 2), y=(text, text), labels=(text, text), short=(text, text))
    bars = Series(
        name=text, kind="bars", role="kv", x=(1, 2), y=(text, "b"), labels=(text, text), short=(text, text), keys=(text, "")
    )
    axis = Axis(title=text, scale="linear", unit=text)
    return Figure(
        key="k",
        title=text,
        note=text,
        x=axis,
        y=Axis(title=text, scale="category"),
        series=(lines, bars),
        marks=(Mark(text=text, x=1.5), Mark(text=text, y=0.5)),
        zones=(Zone(text=text, role="slo", x1=1.0),),
    )


@pytest.mark.parametrize(
    "figure", [_hostile(_HOSTILE), _hostile(_HOSTILE * 200), _hostile("x" * 10_000)], ids=["once", "often", "long"]
)
def test_hostile_text_stays_text(figure: Figure) -> None:
    found = plot(figure, dark=False)
    Plotly(found)
    keys = found["data"][1].pop("customdata")
    assert keys[0] == figure.series[1].keys[0], "keys are names, not shown"
    found["layout"].pop("uirevision")
    for text in _strings(found):
        assert not set(text) & {"<", ">", "\u202e", "\x07"}
        assert len(text) < 700
        assert re.sub(r"&(lt|gt|amp);", "", text).count("&") == 0


def test_a_hostile_heat_stays_text() -> None:
    (series,) = HEAT.series
    hostile = replace(series, name=_HOSTILE, hatched_name=_HOSTILE, texts=((_HOSTILE,) * 3,) * 2, labels=(_HOSTILE,) * 6)
    for text in _strings(plot(replace(HEAT, series=(hostile,)), dark=False)):
        assert "<" not in text.replace("<br>", "")


def test_line_feeds_in_labels_are_lines() -> None:
    series = Series(name="a", kind="line", role="bound", x=(1,), y=(1,), labels=("q_proj\n1 < 2",))
    axis = Axis(title="", scale="linear")
    figure = Figure(key="k", title="", note="", x=axis, y=axis, series=(series,))
    assert _trace(figure, "a")["hovertext"] == ["q_proj<br>1 &lt; 2"]


def test_wide_cells_have_texts_and_narrow_ones_none() -> None:
    many = tuple(range(40))
    series = Series(name="t", kind="heat", role="estimate", x=many, y=("a",), z=(many,), texts=(("12.5 ms",) * 40,))
    category = Axis(title="", scale="category")
    found = plot(Figure(key="k", title="", note="", x=category, y=category, series=(series,)), dark=False)["data"]
    assert set(found[2]["text"]) == {""}
    assert set(plot(HEAT, dark=False, whole_width=320)["data"][2]["text"]) != {""}
