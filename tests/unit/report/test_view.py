"""What a page shows is what `analyze` answers, point by point."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from picture_texts import text_faults

import roofline
from roofline.predict.request import prepare
from roofline.report.analysis.step_figures import roofline_figure, schematic
from roofline.report.analysis.view import flags, inputs, options, view
from roofline.report.cells import csv_text
from roofline.report.figure import Cell, Section, Table, View
from roofline.report.styles import in_legend, looks
from roofline.report.svg import svg

STATE: dict[str, Any] = {
    "model": "llama-3.1-8b", "hardware": "h100-sxm", "others": ["a100-sxm-80gb"], "fixed": {}, "batch": 8, "input_len": 512,
    "cached_prefix": 0, "images": 0,
    "context": 2048, "output_len": 64, "tp": "1", "pp": "1", "dp": "1", "ep": "1", "weights": "", "kv": "", "backend": "",
    "efficiency": True, "peak_tflops": 0, "bandwidth_gbs": 0, "memory_gb": 0, "ttft_ms": 1000.0, "tpot_ms": 50.0,
}  # fmt: skip
DIGITS = pytest.approx


@pytest.fixture(scope="module")
def shown() -> View:
    """The page of the state."""
    return view(STATE)


def ask(**changes: Any) -> Any:
    """`analyze` of the state, with changes."""
    return roofline.analyze("llama-3.1-8b", "h100-sxm", **{"batch": 8, "input_len": 512, "context": 2048, **changes})


def section(shown: View, key: str) -> Section:
    """A section by its key."""
    return next(entry for entry in shown.sections if entry.key == key)


def rows(shown: View, key: str) -> list[tuple[Cell, ...]]:
    """The rows of a figure's table."""
    figure = section(shown, key).figure
    assert figure is not None
    assert figure.table is not None
    return list(figure.table.rows)


@pytest.mark.slow
def test_explorer(shown: View) -> None:
    """TPOT of a batch is the decode step of that batch; what does not fit has no rate."""
    fitting = 0
    for row in rows(shown, "explorer"):
        found = ask(batch=int(row[0].value or 0), phase="decode")
        fitting += found.memory.fits
        assert row[6].text == ("yes" if found.memory.fits else "no")
        spans = [getattr(found.decode.pipeline, name) for name in ("bound", "estimate", "low", "high")]
        assert [cell.value for cell in row[1:5]] == [None if value is None else DIGITS(value) for value in spans]
        rate = row[0].value / spans[1] if found.memory.fits else None
        assert row[5].value == (None if rate is None else DIGITS(rate))
    assert 3 < fitting < len(rows(shown, "explorer"))


def test_what_does_not_fit_has_no_times() -> None:
    """Neither in tiles nor in tables; the map says where it would fit."""
    found = view({**STATE, "model": "llama-3.1-70b", "hardware": "l4", "others": []})
    assert not found.fits
    assert [tile.cell.value for tile in found.tiles if tile.label in ("TPOT", "TTFT")] == [None, None]
    assert {row[5].value for row in rows(found, "explorer")} == {None}
    assert {row[2].value for row in rows(found, "ttft")} == {None}
    (table,) = [table for table in section(found, "operators").tables if table.key == "operators-decode"]
    at = [column.name for column in table.columns].index("bound")
    assert {row[at].value for row in table.rows} == {None}
    assert "sensitivity" not in [entry.key for entry in found.sections]


def test_heatmap(shown: View) -> None:
    """A cell is the decode step of its batch and context; what binds there too. Both double from cell to cell."""
    cells = rows(shown, "heatmap")
    for listed in (dict.fromkeys(row[0].value for row in cells), dict.fromkeys(row[1].value for row in cells)):
        steps = {(after or 0) / (before or 1) for before, after in itertools.pairwise(listed)}
        assert len(steps) == 1
        assert steps <= {2, 4, 8}
    for context, batch, tpot, binds, fits in cells[::7]:
        found = ask(batch=int(batch.value or 0), context=int(context.value or 0), phase="decode", ignore_capacity=True)
        assert tpot.value == DIGITS(found.decode.pipeline.estimate)
        assert binds.text == found.decode.bound_by
        assert (fits.text == "yes") == found.memory.fits


def test_first_token(shown: View) -> None:
    """TTFT of a prompt is its prefill, on the hardware of its row; where it does not fit there is none."""
    fitting = 0
    for name, length, bound, estimate, _, _, fits in rows(shown, "ttft")[::2]:
        found = roofline.analyze("llama-3.1-8b", name.text, batch=8, input_len=int(length.value or 0), phase="prefill")
        fitting += found.memory.fits
        assert fits.text == ("yes" if found.memory.fits else "no")
        spans = [found.prefill.pipeline.bound, found.prefill.pipeline.estimate]
        assert [bound.value, estimate.value] == [None if value is None else DIGITS(value) for value in spans]
    assert 3 < fitting < len(rows(shown, "ttft")[::2])


def test_sensitivity(shown: View) -> None:
    """A fifth more bandwidth is `--bandwidth` with a fifth more; efficiency never beats the bound."""
    changes = {row[0].text: (row[1].value, row[2].value) for row in rows(shown, "sensitivity")}
    base = ask().decode.pipeline
    faster = ask(bandwidth="4.02 TB/s").decode.pipeline.estimate  # 1.2 x 3.35 TB/s
    assert changes["memory bandwidth"][1] == DIGITS(faster / base.estimate - 1)
    assert changes["efficiency of kernels"][1] == DIGITS(max(base.estimate / 1.2, base.bound) / base.estimate - 1)
    assert changes["context"][0] == DIGITS(ask(context=1638).decode.pipeline.estimate / base.estimate - 1)


def test_memory_adds_up(shown: View) -> None:
    """The parts of a bar are the engine's share."""
    figure = section(shown, "memory").figure
    assert figure is not None
    budget = ask().memory.budget_bytes / 2**30
    bars = [series for series in figure.series if series.kind == "bars"]
    assert sum(float(series.x[0]) for series in bars) == DIGITS(budget)
    ends = [base + float(x) for series in bars for base, x in zip(series.base[:1], series.x[:1], strict=True)]
    assert max(ends) == DIGITS(budget)


def test_time_budget_is_the_estimate(shown: View) -> None:
    """Operators one after another take as long as the stage, at their bounds as long as its bound; the longest come first."""
    figure = section(shown, "time-decode").figure
    assert figure is not None
    bars, marks = figure.series
    assert sum(map(float, bars.x)) == DIGITS(ask().decode.time.estimate)
    assert sum(map(float, marks.x)) == DIGITS(ask().decode.time.bound)
    assert list(bars.x[:-1]) == sorted(map(float, bars.x[:-1]), reverse=True)
    assert str(bars.y[-1]).endswith(" others")
    assert len(bars.y) == len(set(bars.y)) <= 10


ROOFLINES = [
    ("llama-3.1-8b", "h100-sxm", {"batch": 64}),
    ("llama-3.1-8b", "a100-sxm-80gb", {"input_len": 32}),
    ("mixtral-8x7b", "h200-sxm", {"quantization": "fp8"}),
    ("deepseek-v3", "dgx-h200", {"tp": 8, "batch": 32}),
    ("llama-3.1-70b", "mi300x", {"tp": 2}),
]


@pytest.mark.parametrize(("model", "hardware", "options"), ROOFLINES, ids=[f"{model} {card}" for model, card, _ in ROOFLINES])
def test_no_point_is_above_its_roof(model: str, hardware: str, options: dict[str, Any]) -> None:
    """Points and their bounds are under the datasheet's roof of the fastest format; each large operator has its name once."""
    request, result = prepare(model, hardware, **options), roofline.analyze(model, hardware, **options)
    figure = roofline_figure(request, result)
    by_role = {series.role: series for series in figure.series if series.kind == "points"}
    peak = max(float(y or 0) for series in figure.series if series.role == "roof" for y in series.y)
    for role in ("at-bound", "prefill", "decode"):
        for x, y in zip(by_role[role].x, by_role[role].y, strict=True):
            assert float(y or 0) <= 1.0001 * min(peak, request.hardware.bandwidth * float(x)), (role, x, y)
    for phase in result.phases:
        names = [line.rpartition(" ")[0].rpartition(" ")[0] for text in by_role[phase.name].short for line in text.split("\n")]
        named = [name for name in names if name and not name.endswith("others")]
        assert len(named) == len(set(named)) >= 1


def test_two_cards_in_one_plane(shown: View) -> None:
    """Both roofs with their numbers (datasheets of H100 and A100), and points of each phase on each card with its own look."""
    figure = section(shown, "roofline").figure
    assert figure is not None
    roofs = [series.along for series in figure.series if series.role == "roof"]
    assert roofs == [("3.35 TB/s", "989 TFLOP/s bf16"), ("2.04 TB/s", "312 TFLOP/s bf16")]
    points = {
        series.name: (style.hue, style.symbol)
        for series, style in zip(figure.series, looks(figure), strict=True)
        if series.kind == "points" and series.size
    }
    assert points == {
        "prefill, h100-sxm": ("blue", "circle"),
        "decode, h100-sxm": ("orange", "square"),
        "prefill, a100-sxm-80gb": ("blue", "triangle-up"),
        "decode, a100-sxm-80gb": ("orange", "diamond"),
    }


def test_launches_do_not_stretch_the_plane(shown: View) -> None:
    """Sampling is 40 times slower than its bound on an H100: it is not drawn, and counted among those that are not."""
    figure = section(shown, "roofline").figure
    assert figure is not None
    assert not [label for series in figure.series for label in series.labels if "sampling" in label]
    assert re.search(r"Not drawn: \d+ short operators", figure.note)
    lowest = min(float(y or 1e99) for series in figure.series if series.size for y in series.y)
    assert figure.y.low == DIGITS(lowest / 3)


def test_the_best_is_marked(shown: View) -> None:
    """By the lowest time or the highest rate."""
    (table,) = section(shown, "compare").tables
    for name, *cells in table.rows:
        marked = [cell for cell in cells if cell.text.startswith("★")]
        if name.text in ("TPOT", "TTFT"):
            assert [cell.value for cell in marked] == [min(cell.value for cell in cells)]
        elif name.text in ("tokens/s per GPU", "max batch"):
            assert [cell.value for cell in marked] == [max(cell.value for cell in cells)]
        else:
            assert marked == []


@pytest.mark.slow
def test_hardware_beside_the_first_is_named_and_drawn(shown: View) -> None:
    """In the subtitle, and with a schematic of its own, whose title says whose it is; of equals none is the best."""
    assert shown.subtitle.endswith(" · beside NVIDIA A100 SXM4 80GB")
    assert [entry.title for entry in shown.sections if entry.key.startswith("device")] == [
        "Time of each part of h100-sxm",
        "Time of each part of a100-sxm-80gb",
    ]
    twins = view({**STATE, "model": "deepseek-v3"})  # 8 x 640 GB: a batch of 0 on one card of either kind
    (table,) = section(twins, "compare").tables
    assert [cell.text for row in table.rows if row[0].text == "max batch" for cell in row[1:]] == ["0", "0"]


@pytest.mark.slow
def test_what_does_not_fit_says_so() -> None:
    """Weights of 671 GB on 80 GB: no prompt fits, and no legend lists lines that are not there."""
    figure = section(view({**STATE, "model": "deepseek-v3", "others": []}), "ttft").figure
    assert figure is not None
    assert [zone.text for zone in figure.zones] == ["no prompt fits in memory"]
    assert in_legend(figure) == [False for _ in figure.series]


@pytest.mark.slow
def test_without_efficiency_there_is_the_bound_alone() -> None:
    """No estimate in any table."""
    found = view({**STATE, "efficiency": False})
    assert "about" not in " ".join(found.answer)
    assert all(row[2].value is None for row in rows(found, "explorer"))


@pytest.mark.slow
def test_typed_figures_belong_to_the_chosen_hardware() -> None:
    """Not to those beside it."""
    asked = {**STATE, "bandwidth_gbs": 1000}
    assert options(asked)["bandwidth"] == 1e12
    (table,) = section(view(asked), "compare").tables
    bandwidth = next(row for row in table.rows if row[0].text == "bandwidth")
    assert [cell.value for cell in bandwidth[1:]] == [1e12, 2.039e12]


def test_what_reproduces_it() -> None:
    """Flags of `analyze`, each once, and no size of one device."""
    fixed = {"mask": "full", "ignore_capacity": True, "quantization": "gptq"}
    line = flags({**STATE, "kv": "fp8", "weights": "awq", "tp": "2", "peak_tflops": 500, "fixed": fixed})
    pairs = dict(zip(line, (*line[1:], ""), strict=True))
    assert line[:8] == ("--batch", "8", "--input-len", "512", "--context", "2048", "--output-len", "64")
    assert pairs["--tp"] == "2"
    assert pairs["--quantization"] == "awq"  # the control, which stands before what was fixed
    assert pairs["--kv-cache-dtype"] == "fp8"
    assert pairs["--peak-flops"] == "500 TFLOP/s"
    assert pairs["--mask"] == "full"
    assert "--ignore-capacity" in line
    assert len([part for part in line if part.startswith("--")]) == len({part for part in line if part.startswith("--")}) == 10


def test_bytes_kept_free_have_their_unit() -> None:
    """A naked number is refused on the command line."""
    line = flags({**STATE, "fixed": {"reserve": 2147483648.0}})
    assert line[-2:] == ("--reserve", "2147483648 B")
    assert ask(reserve=line[-1]).memory.reserved_bytes == 2**31


def test_csv_has_every_cell(shown: View) -> None:
    """A line a cell; none that a spreadsheet would run."""
    lines = csv_text(shown).splitlines()
    tables: list[Table] = [table for entry in shown.sections for table in entry.tables]
    tables += [entry.figure.table for entry in shown.sections if entry.figure and entry.figure.table]
    cells = sum(len(row) for table in [*tables, shown.assumptions] for row in table.rows)
    assert len(lines) == 1 + len(shown.tiles) + cells
    assert not [line for line in lines if line.rsplit(",", 1)[-1][:1] in ("=", "+", "@")]


@pytest.mark.slow
def test_batch_limits(shown: View) -> None:
    """What memory holds is what `analyze` says; a batch that the objectives allow is quick enough, and one more is not."""
    listed = rows(shown, "batch-limits")
    assert [int(row[0].value or 0) for row in listed][-1] == 131072
    allowed = 0
    for context, held, critical, most, first in listed:
        length, batch = int(context.value or 0), int(most.value or 0)
        found = ask(context=length, phase="decode")
        assert held.value == found.memory.max_batch
        assert critical.value == found.limits.critical_batch_step
        limits = {"memory": held.value, "compute": critical.value or 1e9, "objectives": most.value}
        assert limits[first.text] == min(limits.values())
        if not batch:
            assert ask(batch=1, input_len=length, phase="prefill").prefill.pipeline.estimate > 1
            continue
        sizes = [ask(batch=size, context=length, phase="decode", ignore_capacity=True) for size in (batch, batch + 1)]
        took = [size.decode.pipeline.estimate for size in sizes]
        assert took[0] <= 0.05 < took[1]
        allowed += 1
    assert allowed >= 2


def test_batch_limits_end_with_the_reason(shown: View) -> None:
    """A prompt alone takes longer than TTFT 1 s from the end of the objectives' line on, and no longer 10 % before."""
    figure = section(shown, "batch-limits").figure
    assert figure is not None
    line = next(series for series in figure.series if series.role == "slo")
    end = int(float(line.x[-1]))
    assert line.x[-2] == line.x[-1]
    assert float(line.y[-1] or 0) < 1 <= float(line.y[-2] or 0)
    took = [ask(batch=1, input_len=round(part * end), phase="prefill").prefill.pipeline.estimate for part in (0.9, 1.1)]
    assert took[0] < 1 < took[1]
    assert [(zone.text, zone.x0) for zone in figure.zones] == [("no batch meets TTFT 1 s", end)]


@pytest.mark.slow
def test_without_objectives_none_is_drawn() -> None:
    """Neither in the batch limits nor along the batch nor over prompts."""
    view_of = view({**STATE, "ttft_ms": 0, "tpot_ms": 0})
    figures = [entry.figure for entry in view_of.sections if entry.figure is not None]
    assert not [series.name for figure in figures for series in figure.series if series.role == "slo"]
    assert not [mark.text for figure in figures for mark in figure.marks if mark.role == "slo"]


@pytest.mark.slow
def test_the_tile_of_the_largest_batch_says_when_linear_layers_are_compute_bound() -> None:
    """312 TFLOP/s over 2.039 TB/s are 153 FLOP/byte; a weight has 2 bytes, and 2 FLOP per sequence: 153 sequences."""
    tile = view({**STATE, "hardware": "a100-sxm-80gb"}).tiles[-1]
    assert tile.label == "Max batch"
    assert "linear layers are compute-bound from 153" in tile.note


@pytest.mark.slow
def test_the_engine_starts_for_one_point_and_for_service() -> None:
    """For the batch of the state, and for the largest that fits; one command where they are the same."""
    commands = {command.label: command.text for command in view(STATE).commands}
    most = ask(output_len=64).memory.max_batch_of_steps
    assert "--max-num-seqs 8" in commands["Start the engine, to measure these numbers"]
    assert f"--max-num-seqs {most}" in commands[f"Start the engine, for service of up to {most:,} sequences"]
    full = view({**STATE, "batch": most})
    assert [command.label for command in full.commands if "service" in command.label] == []


def test_batch_limits_where_nothing_fits() -> None:
    """No line for memory; without objectives, none for them; the table still has its rows."""
    found = view({**STATE, "model": "llama-3.1-70b", "hardware": "l4", "others": [], "ttft_ms": 0, "tpot_ms": 0})
    figure = section(found, "batch-limits").figure
    assert figure is not None
    assert {series.name for series in figure.series} <= {"compute-bound from"}
    assert {row[1].value for row in rows(found, "batch-limits")} == {0}
    assert {row[3].value for row in rows(found, "batch-limits")} == {None}
    assert {row[4].text for row in rows(found, "batch-limits")} == {"memory"}


def test_a_given_figure_has_no_published_source() -> None:
    """Inputs say of a bandwidth that was typed that it was given, what it replaces (2.039 TB/s), and whose that figure is."""
    texts = {}
    settings: tuple[dict[str, Any], ...] = ({}, {"bandwidth": "1500 GB/s"}, {"memory": "40 GiB", "peak_flops": "100 TFLOP/s"})
    for given in settings:
        request = prepare("llama-3.1-8b", "a100-sxm-80gb", **given)
        texts[len(given)] = {str(row[0].text): row[2].text for row in inputs(request).rows}
    plain, one, two = texts[0], texts[1], texts[2]
    assert "given" not in plain["bandwidth, TB/s"]
    assert one["bandwidth, TB/s"] == f"given, instead of 2.039 TB/s ({plain['bandwidth, TB/s']})"
    assert one["bf16 peak, TFLOP/s"] == plain["bf16 peak, TFLOP/s"]
    assert two["memory, GiB"].startswith("given, instead of 80 GiB")
    assert two["bf16 peak, TFLOP/s"].startswith("given, instead of 312 TFLOP/s")


def test_a_choice_of_weights_replaces_bits_per_weight() -> None:
    """One precision at a time: what a page was made with gives way to its control."""
    made = {**STATE, "fixed": {"bits_per_weight": 4.85}, "cached_prefix": 128}
    assert options(made)["bits_per_weight"] == 4.85
    assert "bits_per_weight" not in options({**made, "weights": "fp8"})
    assert "--bits-per-weight" in flags(made)
    assert "--cached-prefix" in flags(made)
    assert "--cached-prefix" not in flags({**made, "cached_prefix": 0})


@pytest.mark.slow
def test_a_vision_tower_is_a_part_of_the_memory() -> None:
    """It has a look of its own, beside the weights of the language model."""
    figure = section(view({**STATE, "model": "gemma-3-12b", "others": []}), "memory").figure
    assert figure is not None
    parts = {series.name: (style.hue, style.hatch) for series, style in zip(figure.series, looks(figure), strict=True)}
    assert parts["vision tower"] != parts["weights"]
    tower = next(float(series.x[0]) for series in figure.series if series.name == "vision tower")
    result = roofline.analyze("gemma-3-12b", "h100-sxm", batch=8, input_len=512, context=2048)
    assert tower == DIGITS(result.memory.tower_bytes / 2**30)


@pytest.mark.slow
def test_a_tower_is_called_by_what_it_senses() -> None:
    """Voxtral's hears."""
    figure = section(view({**STATE, "model": "voxtral-mini-3b", "others": []}), "memory").figure
    assert figure is not None
    named = {series.name: style.hatch for series, style in zip(figure.series, looks(figure), strict=True)}
    assert "audio tower" in named
    assert "vision tower" not in named
    assert named["audio tower"] != named["weights"]


def test_schematic() -> None:
    """Llama 3.1 8B, decode at batch 1 and 1,024 tokens on the A100 SXM 80GB, and the same divided over two.

    Memory: the bytes of the step over 2.039 TB/s; matrix units: its matrix FLOP over 312 TFLOP/s. A collective of two devices
    over NVLink's 300 GB/s takes time on the links, which one device alone does not have.
    """
    result = roofline.analyze("llama-3.1-8b", "a100-sxm-80gb")
    figure = schematic(prepare("llama-3.1-8b", "a100-sxm-80gb"), result)
    assert figure.table is not None
    rows = {row[0].text: row for row in figure.table.rows}
    decode = result.decode
    assert decode is not None
    assert rows["HBM2e 80 GiB"][3].value == pytest.approx(decode.cost.bytes / 2.039e12)
    assert rows["matrix units"][3].value == pytest.approx(decode.cost.matrix_flops / 312e12)
    assert [row[-1].text for row in figure.table.rows] == ["prefill", "", "decode"]
    strong = {block.text.split("\n")[0] for block in figure.blocks if block.strong}
    assert strong == {"matrix units", "HBM2e 80 GiB", "2.04 TB/s"}
    assert [block.text for block in figure.blocks if block.beside] == ["2.04 TB/s"]

    two = schematic(prepare("llama-3.1-8b", "a100-sxm-80gb", tp=2), roofline.analyze("llama-3.1-8b", "a100-sxm-80gb", tp=2))
    pipes = {block.text: block.x1 - block.x0 for block in two.blocks if block.beside}
    assert pipes["300 GB/s"] / pipes["2.04 TB/s"] == pytest.approx(300 / 2039)
    assert two.table is not None
    assert (two.table.rows[-1][3].value or 0) > 0


def test_blocks_of_a_schematic_hold_their_texts() -> None:
    """In a column of a page, and on a phone, where a text that is too long is cut, not written beyond its block."""
    figure = schematic(prepare("llama-3.1-8b", "a100-sxm-80gb", tp=2), roofline.analyze("llama-3.1-8b", "a100-sxm-80gb", tp=2))
    for width in (760.0, 480.0, 300.0):
        assert text_faults(svg(figure, width)) == []
    boxes = sorted((block.y0, block.y1) for block in figure.blocks if block.x0 == 0.0)
    assert all(lower[1] <= upper[0] for lower, upper in itertools.pairwise(boxes))
