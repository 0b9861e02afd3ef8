"""Looks: seen by every eye, in light and in dark, and the same in plots and in pictures."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from figure_samples import BATCHES, TTFT

from roofline.report.figure import Axis, Figure, Series
from roofline.report.styles import DARK, HEAT_DARK, HEAT_DARK_TEXT, HEAT_LIGHT, HEAT_LIGHT_TEXT, LIGHT, in_legend, look, looks

_THEMES = {"light": LIGHT, "dark": DARK}
_HUES = [name for name in LIGHT if name not in ("ground", "grid")]
_HEATS = {"light": (HEAT_LIGHT, HEAT_LIGHT_TEXT), "dark": (HEAT_DARK, HEAT_DARK_TEXT)}

# What stands side by side in one figure.
_TOGETHER = [
    ("prefill", "decode", "mixed"),
    ("compute", "memory", "link", "overhead"),
    ("compute", "link", "gathered", "split"),
    ("weights", "tower", "kv", "state", "activations", "reserve", "draft", "free"),
    ("bound", "estimate", "sum", "measured"),
    ("less", "more"),
]

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency", IEEE TVCG 15(6),
# 2009, https://doi.org/10.1109/TVCG.2009.113: matrices of severity 1.0, on linear RGB.
_EYES = {
    "all cones": np.eye(3),
    "no long": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "no medium": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "no short": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])


def _linear(colour: str) -> np.ndarray:
    """Linear RGB of sRGB written as #rgb or #rrggbb."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    value = np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio."""
    dark, bright = sorted(float(_linear(colour) @ _TO_XYZ[1]) for colour in (one, other))
    return (bright + 0.05) / (dark + 0.05)


def _lab(linear: np.ndarray) -> np.ndarray:
    ratio = _TO_XYZ @ np.clip(linear, 0, 1) / _WHITE
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_contrast_is_known() -> None:
    """Black on white is 21:1 by definition; #767676 is WCAG's well-known grey of 4.54:1."""
    assert _contrast("#000", "#ffffff") == pytest.approx(21, rel=1e-3)
    assert _contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", _THEMES)
@pytest.mark.parametrize("hue", _HUES)
def test_every_hue_can_be_read_on_the_ground(theme: str, hue: str) -> None:
    """WCAG AA: 3:1 for shapes, 4.5:1 for text; texts in bars have the colour of the ground on a hue."""
    table = _THEMES[theme]
    assert _contrast(table[hue], table["ground"]) >= 4.5


@pytest.mark.parametrize("theme", _HEATS)
def test_texts_can_be_read_on_every_shade(theme: str) -> None:
    for shade, text in zip(*_HEATS[theme], strict=True):
        assert _contrast(shade, text) >= 4.5


@pytest.mark.parametrize("theme", _HEATS)
def test_shades_go_one_way(theme: str) -> None:
    """Lightness tells the order to every eye."""
    lightness = [float(_linear(shade) @ _TO_XYZ[1]) for shade in _HEATS[theme][0]]
    assert lightness == sorted(lightness, reverse=theme == "light")


@pytest.mark.parametrize("theme", _THEMES)
@pytest.mark.parametrize("eye", _EYES)
def test_hues_stay_apart(theme: str, eye: str) -> None:
    """A difference of 10 in CIELAB is seen at a glance; 2.3 is the least that is seen at all."""
    seen = {hue: _lab(_EYES[eye] @ _linear(_THEMES[theme][hue])) for hue in _HUES}
    for one, other in itertools.combinations(_HUES, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= 10, (one, other)


@pytest.mark.parametrize("group", _TOGETHER, ids="-".join)
def test_what_stands_together_differs_by_more_than_colour(group: tuple[str, ...]) -> None:
    for one, other in itertools.combinations(map(look, group), 2):
        assert (one.hatch, one.hollow) != (other.hatch, other.hollow), "bars"
        assert (one.symbol, one.dash, one.hollow) != (other.symbol, other.dash, other.hollow), "lines and points"


@pytest.mark.parametrize("role", ["estimate", "bound", "roof", "roof-achievable", "decode", "kv"])
def test_variants_differ_by_more_than_colour(role: str) -> None:
    found = [look(role, variant) for variant in range(4)]
    assert len({(one.symbol, one.dash) for one in found}) == 4
    assert len({one.hue for one in found}) == 4


def test_a_variant_of_a_bound_is_still_a_bound() -> None:
    assert look("bound", 2).dash == look("bound").dash
    assert look("bound", 2).hollow


def test_variants_are_counted_by_kind_and_role_unless_they_are_given() -> None:
    series = [
        Series(name=name, kind=kind, role="estimate", x=(), y=(), variant=variant)
        for name, kind, variant in (("a", "line", None), ("a", "band", None), ("b", "line", None), ("c", "line", 3))
    ]
    axis = Axis(title="", scale="linear")
    found = looks(Figure(key="k", title="", note="", x=axis, y=axis, series=tuple(series)))
    assert found == [look("estimate", 0), look("estimate", 0), look("estimate", 1), look("estimate", 3)]


def test_a_band_shares_the_entry_of_its_line() -> None:
    assert in_legend(TTFT) == [True, True, True, False]
    assert in_legend(BATCHES) == [True, True, True]


def test_an_unknown_role_is_an_error() -> None:
    with pytest.raises(KeyError, match="colour"):
        look("colour")


def test_the_style_has_the_same_colours() -> None:
    style = (Path(__file__).parents[3] / "reports" / "figures.css").read_text(encoding="utf-8")
    variables = dict(re.findall(r"--f-(\w+): light-dark\((#\w+, #\w+)\)", style))
    assert variables == {name: f"{LIGHT[name]}, {DARK[name]}" for name in LIGHT}
    shades = re.findall(r"\.f-heat-\d { fill: light-dark\((#\w+), (#\w+)\)", style)
    assert shades == list(zip(HEAT_LIGHT, HEAT_DARK, strict=True))
    texts = re.findall(r"\.f-heat-\d-text { fill: light-dark\((#\w+), (#\w+)\)", style)
    assert texts == list(zip(HEAT_LIGHT_TEXT, HEAT_DARK_TEXT, strict=True))
    assert {hue for hue in _HUES if f".f-{hue} {{ color: var(--f-{hue}); }}" in style} == set(_HUES)
