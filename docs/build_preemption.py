"""Write the poster's experiment, simulated, into docs/preemption.md, and draw it: `python docs/build_preemption.py`."""  # noqa: INP001 - no package

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("preemption.md")
FIGURE = PAGE.parent / "images" / "preemption.svg"
SETTINGS = PAGE.parents[1] / "tests"  # runs are those of tests/golden/test_preemption_simulated.py
BEGIN, END = "<!-- simulated: written by docs/build_preemption.py -->", "<!-- end of simulated -->"
EVICTED = 4096
"""Tokens of the prompts that overflow in the table of blocks."""

WIDTH, LEFT, GAP, PANEL, TOP = 910, 50, 60, 394, 72
HEIGHTS = (170, 130)
BETWEEN = 34
SECONDS = 2.0
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 14px; font-weight: 600 } .small { fill: #59636e }
.axis { stroke: #818b98; fill: none } .grid { stroke: #818b98; stroke-opacity: .25 }
.kv { fill: none; stroke: #0969da; stroke-width: 1.4 }
.output { fill: #0969da } .prompts { fill: #d4720b } .again { fill: #8250df } .out { fill: #cf222e } .back { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .kv { stroke: #4493f8 }
.output { fill: #4493f8 } .prompts { fill: #f0a04b } .again { fill: #bc8cff }
.out { fill: #ff7b72 } .back { fill: #3fb950 }
}
"""
COLOURS = (("output", "answers"), ("prompts", "prompts of those that wait"), ("again", "computed again"))


def settings() -> Any:
    """The runs."""
    if str(SETTINGS) not in sys.path:
        sys.path.append(str(SETTINGS))
    return importlib.import_module("poster_settings")


def page() -> str:
    """The whole page, with the tables in their place."""
    poster = settings()
    tables = [_evicted(poster), _blocks(poster), _lengths(poster), _memory(poster)]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n\n".join(tables) + f"\n\n{END}{rest.partition(END)[2]}"


def _evicted(poster: Any) -> str:
    rows = []
    for tokens in poster.PAIRS:
        again, moved = (poster.pair(mode, tokens) for mode in poster.MODES)
        rows.append((f"{poster.evicted(again):,.0f}", *_two(poster, again, moved)))
    return "One overflow (F28, F29), blocks of 16 tokens:\n\n" + _table(
        ("tokens evicted", "recompute", "swap", "recompute/swap"), rows
    )


def _lengths(poster: Any) -> str:
    rows = []
    for length in poster.LENGTHS:
        again, moved = (poster.batch(mode, length) for mode in poster.MODES)
        counts = (f"{length:,}", f"{again.requests.preemptions}", f"{poster.evicted(again):,.0f}")
        rows.append((*counts, *_two(poster, again, moved)))
    title = f"{poster.BATCH} sequences at once (F32), half of each a prompt, in 60 % of the memory:\n\n"
    return title + _table(("length", "preemptions", "tokens evicted", "recompute", "swap", "recompute/swap"), rows)


def _blocks(poster: Any) -> str:
    rows = []
    for size in poster.BLOCKS:
        kinds = (("recompute", {}), ("swap", {}), ("swap", {"pinned": False}), ("swap", {"coalesced": True}))
        again, pinned, pageable, whole = (poster.overhead(poster.pair(mode, EVICTED, size=size, **k)) for mode, k in kinds)
        many = (poster.by_memory(mode, poster.NARROW, size=size) for mode in poster.MODES)
        each = (f"{poster.overhead(found) / poster.evicted(found) * 1e6:.1f} µs" for found in many)
        rows.append((f"{size}", _s(again), _s(pinned), _s(pageable), f"{pageable / pinned:.2f}", _s(whole), *each))
    number = poster.evicted(poster.pair("swap", EVICTED))
    title = f"Length of a block (F30, F31): {number:,.0f} tokens evicted in one overflow; and a token, of the"
    head = "tokens per block|recompute|swap|pageable|pageable/pinned|swap, one call|a token, recompute|a token, swap"
    below = f"{poster.REQUESTS} requests below in {poster.NARROW} % of the memory"
    return f"{title} {below}:\n\n" + _table(head.split("|"), rows)


def _memory(poster: Any) -> str:
    rows = []
    free = {mode: poster.simulate(mode, blocks=None) for mode in poster.MODES}
    for share in poster.SHARES:
        both = {mode: poster.by_memory(mode, share) for mode in poster.MODES}
        rows.append(
            (
                f"{share} %",
                f"{poster.GPU_TOKENS * share / 100 / (poster.PROMPT + poster.ANSWER):.1f}",
                *(f"{found.requests.preemptions}" for found in both.values()),
                *(_s(poster.overhead(found)) for found in both.values()),
                *(f"{found.duration_s - free[mode].duration_s:.1f} s" for mode, found in both.items()),
            )
        )
    title = f"{poster.REQUESTS} requests at once (F33), prompts of {poster.PROMPT:,} tokens, answers of {poster.ANSWER:,}"
    head = (
        "memory for KV|whole requests that fit|preemptions, recompute|swap|overhead, recompute|swap|"
        "later than without a limit, recompute|swap"
    )
    took = f"without a limit they take {free['swap'].duration_s:.1f} s"
    return f"{title}; {took}:\n\n" + _table(head.split("|"), rows)


def _two(poster: Any, again: Any, moved: Any) -> tuple[str, str, str]:
    first, second = poster.overhead(again), poster.overhead(moved)
    return _s(first), _s(second), f"{first / second:.2f}"


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)


def figure() -> str:
    """Tokens a second and blocks taken over time, for both ways, at 12 % of the memory."""
    poster = settings()
    found = {mode: poster.by_memory(mode, poster.NARROW) for mode in poster.MODES}
    until = max(one.duration_s for one in found.values()) * 1.01
    rates = {mode: _rates(one.series) for mode, one in found.items()}
    most = -(-max(map(sum, (point for one in rates.values() for point in one))) // 1000) * 1000
    height = TOP + sum(HEIGHTS) + BETWEEN + 44
    parts = [_legend()]
    for place, mode in enumerate(poster.MODES):
        left = LEFT + place * (PANEL + GAP)
        parts.append(f'<text class="title" x="{left}" y="44">{mode.capitalize()}</text>')
        parts += _throughput(left, rates[mode], most, until)
        parts += _usage(left, found[mode].series, poster.blocks_of(poster.NARROW), poster.watched(mode), until)
    label = (
        "Two columns, recompute and swap. Above, tokens a second: low while answers are generated, with sharp peaks where "
        "prompts are computed; with recompute part of the peaks is computed again. Below, KV blocks in use: nearly all, a dip "
        "at each eviction, a rise when the evicted request comes back."
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{label}">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def _rates(series: dict[str, Any]) -> list[tuple[float, float, float]]:
    """Tokens a second in longer intervals: of answers, of prompts for the first time, of those again."""
    many = max(round(SECONDS / series["interval_s"]), 1)
    columns = (series[f"{name}_per_s"] for name in ("output_tokens", "prompt_tokens", "recomputed_tokens"))
    output, prompts, again = ([sum(one[at : at + many]) / many for at in range(0, len(one), many)] for one in columns)
    return [(one, max(new - twice, 0.0), twice) for one, new, twice in zip(output, prompts, again, strict=True)]


def _legend() -> str:
    found, x = [], LEFT
    marks = [(f'<rect class="{name}" width="11" height="11" rx="2"/>', text) for name, text in COLOURS]
    for name, text, points in (("out", "evicted", "1,2 9,2 5,10"), ("back", "comes back", "1,10 9,10 5,2")):
        marks.append((f'<polygon class="{name}" points="{points}"/>', text))
    for mark, text in marks:
        found.append(f'<g transform="translate({x} 5)">{mark}<text x="16" y="10">{text}</text></g>')
        x += 40 + round(6.2 * len(text))
    return "\n".join(found)


def _frame(
    left: float, top: float, height: float, marks: Sequence[tuple[float, str]], until: float, *, times: bool
) -> list[str]:
    """Axes, with marks (share of the height, text) and seconds."""
    found = []
    for share, text in marks:
        y = top + height * (1 - share)
        found.append(f'<line class="grid" x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(f'<text class="small" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    if times:
        for second in range(0, int(until) + 1, 20):
            x = left + PANEL * second / until
            found.append(f'<text class="small" x="{x:.1f}" y="{top + height + 17}" text-anchor="middle">{second}</text>')
        found.append(f'<text class="small" x="{left + PANEL / 2}" y="{top + height + 34}" text-anchor="middle">seconds</text>')
    found.append(f'<path class="axis" d="M{left} {top}V{top + height}H{left + PANEL}"/>')
    return found


def _throughput(left: float, rates: Sequence[Sequence[float]], most: float, until: float) -> list[str]:
    height = HEIGHTS[0]
    marks = [(at / most, f"{at:,.0f}") for at in range(0, int(most) + 1, 1000)]
    found = _frame(left, TOP, height, marks, until, times=False)
    found.append(f'<text class="small" x="{left}" y="{TOP - 8}">tokens a second</text>')
    width = PANEL * SECONDS / until
    for place in range(3):
        bars = []
        for at, point in enumerate(rates):
            x = left + at * width
            low, high = sum(point[:place]), sum(point[: place + 1])
            if high - low > most / 1e3 and x + width <= left + PANEL:
                y, tall = TOP + height * (1 - high / most), height * (high - low) / most
                bars.append(f"M{x:.1f} {y:.1f}h{width:.2f}v{tall:.1f}h-{width:.2f}z")
        found.append(f'<path class="{COLOURS[place][0]}" d="{"".join(bars)}"/>')
    return found


def _usage(left: float, series: dict[str, Any], blocks: int, watched: Any, until: float) -> list[str]:
    top, height = TOP + HEIGHTS[0] + BETWEEN, HEIGHTS[1]
    found = _frame(left, top, height, [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")], until, times=True)
    found.append(f'<text class="small" x="{left}" y="{top - 8}">KV blocks in use</text>')
    line = []
    for at, taken in enumerate(series["blocks"]):
        x = left + PANEL * (at + 0.5) * series["interval_s"] / until
        line.append(f"{x:.1f},{top + height * (1 - taken / blocks):.1f}")
    found.append(f'<polyline class="kv" points="{" ".join(line)}"/>')
    for name, times, y, points in (
        ("out", watched.evictions, top + 1, "-4,0 4,0 0,8"),
        ("back", watched.returns, top + height - 9, "-4,8 4,8 0,0"),
    ):
        for at in times:
            x = left + PANEL * at / until
            found.append(f'<polygon class="{name}" points="{points}" transform="translate({x:.1f} {y})"/>')
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    FIGURE.write_text(figure(), encoding="utf-8")
