"""The page of `preempt`: one break-even rate, lines that can be told apart, and a map only where it has something to say."""

from __future__ import annotations

import itertools

import pytest

import roofline
from roofline.report.figure import Figure
from roofline.report.preemption_page import view
from roofline.report.styles import looks

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"


def figures(**options: object) -> dict[str, Figure]:
    """The figures of the page, by key."""
    shown = view(roofline.preempt(MODEL, HARDWARE, tokens=2048, **options), "")  # type: ignore[arg-type]
    return {section.key: section.figure for section in shown.sections if section.figure is not None}


def test_tile_and_figure_have_one_break_even_rate() -> None:
    """The rate above which a swap is faster is the dashed line of the figure, to the last digit."""
    shown = view(roofline.preempt(MODEL, HARDWARE, tokens=2048), "")
    (tile,) = (tile for tile in shown.tiles if tile.label == "Break-even rate")
    (mark,) = figures()["chunks"].marks
    assert mark.y == tile.cell.value
    assert tile.cell.text in mark.text


def test_lines_can_be_told_apart() -> None:
    """By dash or symbol, not by hue alone: lines of two ways may coincide."""
    styles = [(look.dash, look.symbol) for look in looks(figures()["costs"])]
    assert all(one != other for one, other in itertools.combinations(styles, 2))


def test_coalesced_copies_have_no_map_of_blocks() -> None:
    """Nine equal columns would say one thing nine times."""
    assert "blocks" in figures()
    assert "blocks" not in figures(coalesced=True)


def test_cells_have_two_digits() -> None:
    """0.10 between 0.097 and 0.12, not 0.1; from 100 on three."""
    (heat,) = figures()["blocks"].series
    for line, texts in zip(heat.z, heat.texts, strict=True):
        for value, text in zip(line, texts, strict=True):
            assert len(text.replace(".", "").lstrip("0")) == (2 if float(text) < 100 else 3), text
            assert float(text) == pytest.approx(value, rel=0.051)
