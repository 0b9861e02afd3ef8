"""The page of a sweep: what is drawn where, what is left out and said, and that names are text."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest
from unit.report.sweep_samples import BATCHES, HARDWARE, described, row, rows, seconds, swept

from roofline.report.figure import Figure, Section, View
from roofline.report.styles import Ramp, ramp, steps
from roofline.report.sweep.data import SweepData
from roofline.report.sweep.maps import MAX_MAPS
from roofline.report.sweep.page import command, sweep_page, view

HOSTILE = "</td></style><script>alert(1)</script>\"&'\u202e"


class Elements(HTMLParser):
    """Tags with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs)))


def section(shown: View, key: str) -> Section:
    (found,) = (entry for entry in shown.sections if entry.key == key)
    return found


def figure(shown: View, key: str) -> Figure:
    found = section(shown, key).figure
    assert found is not None
    return found


def reduced(rule: str, objectives: list[str], by: list[str], limits: dict[str, float] | None = None) -> dict[str, Any]:
    return described(reduce={"rule": rule, "objectives": objectives, "by": by, "limits": limits or {}})


def test_every_configuration_has_a_map() -> None:
    shown = view(swept())
    for number, hardware in enumerate(HARDWARE):
        drawn = figure(shown, f"map-decode-{number}")
        assert drawn.title == f"TPOT of {hardware}, in ms"
        (heat,) = drawn.series
        assert (heat.x, heat.y) == (("1", "2", "4"), ("1,024", "2,048"))
        # 2,048 tokens of each of 4 sequences are 8,192, and 4,096 fit
        assert heat.hatched == ((False, False, False), (False, False, True))
        assert heat.z[0] == tuple(seconds(hardware, batch, 1024) for batch in BATCHES)
        assert heat.z[1][2] is None
        assert heat.texts[1][2] == ""
    # 10 ms + 1 ms x 4 sequences; all points are memory-bound, which the note says once
    first = figure(shown, "map-decode-0")
    assert first.series[0].texts[0][2] == "14"
    assert "Memory-bound." in first.note


def test_maps_side_by_side_have_the_same_shades() -> None:
    """The least time of both is 11 ms (10 + 1), of the first; the greatest 2 x 14 ms, of the second, at 4 sequences."""
    (one,), (other,) = (figure(view(swept()), f"map-decode-{number}").series for number in range(2))
    assert one.shades == other.shades
    assert one.shades == ((0.011, "11"), (pytest.approx(0.0195), "20"), (0.028, "28"))
    assert ramp(one) == ramp(other) == Ramp(low=0.011, high=0.028, log=False)
    # 22 ms on the second is as dark as 22 ms would be on the first: (22 - 11) / 17 of 9 shades
    assert ramp(other).shade(other.z[0][0]) == 5
    assert [text for _, text in steps(one)] == [text for _, text in steps(other)] == ["11", "20", "28"]


def test_only_what_binds_otherwise_is_marked() -> None:
    """Letters in every cell would say the same ten times over."""
    every = [{**entry, "bound_by": "compute" if entry["batch"] == 4 else "memory"} for entry in rows()]
    drawn = figure(view(swept(every)), "map-decode-0")
    assert drawn.series[0].texts[0] == ("11", "12", "14\nC")
    assert "Memory-bound but C: compute-bound." in drawn.note
    assert drawn.table is not None
    assert [cell.text for cell in drawn.table.rows[0]] == ["1,024", "11 M", "12 M", "14 C"]


def test_the_table_of_a_map_has_its_numbers() -> None:
    found = figure(view(swept()), "map-decode-1").table
    assert found is not None
    assert [cell.text for cell in found.rows[0]] == ["1,024", "22 M", "24 M", "28 M"]
    assert found.rows[1][3].text == "–"
    assert found.rows[0][3].value == seconds(HARDWARE[1], 4, 1024)


def test_what_does_not_fit_and_has_a_time_is_hatched_with_it() -> None:
    """As with --ignore-capacity."""
    every = [{**entry, "time_estimate_s": 0.02, "time_bound_s": 0.01} for entry in rows()]
    drawn = figure(view(swept(every)), "map-decode-0")
    assert drawn.series[0].hatched[1][2]
    assert drawn.series[0].texts[1][2] == "20"
    assert drawn.table is not None
    assert drawn.table.rows[1][3].text == "20 M (x)"


def test_a_map_without_estimates_is_of_bounds() -> None:
    """Not of both: bounds beside estimates would look faster."""
    some = [{**entry, "time_estimate_s": None if entry["batch"] == 1 else entry["time_estimate_s"]} for entry in rows()]
    drawn = figure(view(swept(some)), "map-decode-0")
    assert "At the bound" in drawn.note
    assert drawn.series[0].z[0][1] == seconds(HARDWARE[0], 2, 1024) / 2


def test_large_grids_are_thinned_and_say_so() -> None:
    found = [row(HARDWARE[0], batch, tokens) for batch in range(1, 101) for tokens in range(10, 40)]
    drawn = figure(view(swept(found, described=None, points=None)), "map-decode-0")
    (heat,) = drawn.series
    assert (len(heat.x), len(heat.y)) == (24, 24)
    assert (heat.x[0], heat.x[-1], heat.y[0], heat.y[-1]) == ("1", "100", "10", "39")
    assert "24 of 100 batches" in drawn.note
    assert "24 of 30 lengths" in drawn.note


def test_many_configurations_are_thinned_and_say_so() -> None:
    found = [row(HARDWARE[0], batch, tokens, tp=tp) for tp in range(1, 31) for batch in (1, 2) for tokens in (1, 2)]
    shown = view(swept(found, described=None, points=None))
    maps = [entry.title for entry in shown.sections if entry.key.startswith("map-")]
    assert len(maps) == MAX_MAPS
    assert (maps[0], maps[-1]) == ("TPOT of tp 1, in ms", "TPOT of tp 30, in ms")
    assert "12 of the 30 configurations" in section(shown, "configurations-decode").note
    assert len(section(shown, "configurations-decode").tables[0].rows) == 30


def test_where_nothing_fits_there_is_no_map() -> None:
    found = [{**entry, "fits": False, "time_estimate_s": None, "time_bound_s": None} for entry in rows()]
    shown = view(swept(found))
    assert not shown.fits
    assert shown.answer[0] == "0 of 12 points fit in memory."
    assert not [entry for entry in shown.sections if entry.key.startswith(("map", "front"))]


def test_the_front_of_each_kind_and_of_all() -> None:
    """On the A100 every point is beaten by the same one on the H100, which takes half as long."""
    drawn = figure(view(swept()), "front-decode")
    lines = {series.name: series for series in drawn.series if series.kind == "line"}
    at = [(seconds(HARDWARE[0], batch, 1024), batch / seconds(HARDWARE[0], batch, 1024)) for batch in BATCHES]
    assert list(zip(lines["h100-sxm"].x, lines["h100-sxm"].y, strict=True)) == at
    assert "front of all" not in lines
    assert "The front of all is that of h100-sxm." in drawn.note
    assert lines["a100-sxm-80gb"].x == tuple(2 * time for time, _ in at)
    (beaten,) = (series for series in drawn.series if series.name == "beaten")
    # of each accelerator batches 1 and 2 at 2,048 tokens
    assert sorted(beaten.x) == sorted(seconds(name, batch, 2048) for name in HARDWARE for batch in (1, 2))
    assert drawn.table is not None
    assert [entry[-1].text for entry in drawn.table.rows] == ["yes"] * 3 + ["no"] * 3


def test_a_front_of_several_kinds_is_a_line_below_theirs() -> None:
    """The first has the least times (11, 12 and 14 ms), the second with 4 sequences (28 ms) the highest rate."""
    found = [row(hardware, batch, 1024) for hardware in HARDWARE for batch in BATCHES]
    found[-1]["tokens_per_s_per_device_estimate"] = 1000.0
    drawn = figure(view(swept(found)), "front-decode")
    lines = [series for series in drawn.series if series.kind == "line"]
    assert lines[0].name == "front of all"
    assert lines[0].x == (0.011, 0.012, 0.014, 0.028)


def test_labels_name_everything_that_differs() -> None:
    """With tensor parallelism of 1 and 2 a batch alone says half: points of both are on the line."""
    found = [row(HARDWARE[0], batch, 1024, tp=tp) for tp in (1, 2) for batch in BATCHES]
    for entry in found:  # two devices are faster by a half, and as expensive: small batches win on two, large ones on one
        entry["devices"] = entry["tp"]
        entry["time_estimate_s"] /= 1.5 if entry["tp"] == 2 else 1
        entry["tokens_per_s_per_device_estimate"] = entry["batch"] / entry["time_estimate_s"] / entry["tp"]
    found += [row(HARDWARE[1], batch, 1024, tp=1) for batch in BATCHES]
    drawn = figure(view(swept(found, described=None, points=None)), "front-decode")
    line = next(series for series in drawn.series if series.kind == "line" and series.name == HARDWARE[0])
    # two devices: 7.3, 8 and 9.3 ms with 68, 125 and 214 tokens/s of each; one: 14 ms with 286, its 11 and 12 ms are beaten
    assert line.short == ("1, tp 2", "2, tp 2", "4, tp 2", "4, tp 1")
    assert "Labels: batch, tp." in drawn.note


def test_beaten_points_are_thinned_and_say_so() -> None:
    found = [row(HARDWARE[0], 1, tokens) for tokens in range(1, 1025)] + [row(HARDWARE[0], 2, tokens) for tokens in (1, 2)]
    drawn = figure(view(swept(found, described=None, points=None)), "front-decode")
    (beaten,) = (series for series in drawn.series if series.name == "beaten")
    # on the front are batches 1 and 2 of one token
    assert len(beaten.x) == 200
    assert "Of 1,024 beaten points 200" in drawn.note


def test_one_axis_makes_lines() -> None:
    found = [row(name, batch, 1024) for name in HARDWARE for batch in BATCHES]
    drawn = section(view(swept(found)), "configurations-decode").figure
    assert drawn is not None
    assert [series.name for series in drawn.series] == list(HARDWARE)
    assert drawn.series[1].y == tuple(seconds(HARDWARE[1], batch, 1024) for batch in BATCHES)


def test_the_best_is_a_bar_and_a_row() -> None:
    found = [row(name, 4, 1024) for name in HARDWARE]
    goal = "tokens_per_s_per_device_estimate:max"
    shown = view(swept(found, described=reduced("best", [goal], ["hardware"])))
    (bars,) = figure(shown, "best-decode").series
    assert bars.y == HARDWARE
    assert bars.x == (4 / 0.014, 4 / 0.028)
    (listed,) = section(shown, "best-decode").tables
    assert len(listed.rows) == 2
    assert "batch 4" in listed.note


def test_a_reduced_front_goes_by_its_own_objectives() -> None:
    found = [row(HARDWARE[0], batch, 1024, memory_bytes=2e9 * batch) for batch in BATCHES]
    goals = ["memory_bytes:min", "tokens_per_s_per_device_estimate:max"]
    drawn = figure(view(swept(found, described=reduced("pareto", goals, []))), "front-decode")
    assert drawn.series[0].x == (2e9, 4e9, 8e9)
    assert drawn.x.title == "memory per device"


def test_counts_are_bars_with_the_empty_ones_between_them() -> None:
    """Bins have the edges 10^(k/10): 10 ms, 12.6 ms, 15.8 ms, 20 ms."""
    found = [
        {"phase": "decode", "column": "step_estimate_s", "low": low, "high": high, "count": count}
        for low, high, count in ((0.01, 0.0125893, 7), (0.0199526, 0.0251189, 2))
    ]
    shown = view(swept(found, described=reduced("histogram", ["step_estimate_s:min"], [])))
    (bars,) = figure(shown, "histogram-decode-0").series
    assert bars.x == ("10 ms", "12.6 ms", "15.8 ms", "20 ms")
    assert bars.y == (7, 0, 0, 2)
    assert shown.answer == ("Counted were 9 points, all of which fit in memory.",)


def test_counts_of_many_decades_are_put_together() -> None:
    found = [
        {"phase": "decode", "column": "flops", "low": 10.0**power, "high": 1.2589 * 10.0**power, "count": 1, "hardware": name}
        for power in range(13)
        for name in HARDWARE
    ]
    drawn = figure(view(swept(found, described=None, points=None)), "histogram-decode-0")
    assert len(drawn.series) == 2
    # 121 tenths of a decade, 5 at a time
    assert len(drawn.series[0].x) == 25
    assert sum(drawn.series[0].y) == 13


def test_what_was_refused_is_said_by_its_reason() -> None:
    entry = {"configuration": {"hardware": "h100-sxm", "tp": 3}, "points": 6, "why": "3 divides no heads"}
    shown = view(swept(refused=(entry, {**entry, "points": 4})))
    (table,) = (table for table in section(shown, "swept").tables if table.key == "refused")
    assert [cell.text for cell in table.rows[0]] == ["3 divides no heads", "10", "2", "hardware h100-sxm"]
    assert "10 of 12 points cannot be, and have no rows: the reasons are below." in shown.answer


def test_the_command_asks_the_same() -> None:
    limits = {"decode_s": 0.05}
    asked = swept(described=reduced("best", ["step_estimate_s:min"], ["hardware"], limits))
    assert command(asked) == (
        "roofline sweep llama-3.1-8b --hardware h100-sxm,a100-sxm-80gb --phase decode --batch 1,2,4 --context 1024,2048 "
        "--columns time_estimate_s,fits --reduce best --objective step_estimate_s:min --by hardware --tpot '50 ms'"
    )
    assert command(swept(described=None)) == ""


def test_a_page_is_closed_and_same_every_time() -> None:
    text = sweep_page(swept())
    assert sweep_page(swept()) == text
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in text
    assert f"style-src &#39;unsafe-hashes&#39; &#39;sha256-{digest}&#39;" in text
    elements = Elements(text).found
    assert not {"iframe", "object", "base"} & {tag for tag, _ in elements}
    for _, attributes in elements:
        assert not {"src", "style", "action"} & set(attributes)
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("axis", ["model", "hardware", "kv_cache_dtype"])
def test_a_name_is_text(axis: str) -> None:
    found = [{**entry, axis: entry.get(axis, "fp8")} for entry in rows()]
    odd = [{**entry, axis: HOSTILE + entry[axis]} for entry in found]
    refused = ({"configuration": {axis: HOSTILE}, "points": 1, "why": HOSTILE},)
    plain = Elements(sweep_page(swept(found, described=None, refused=({**refused[0], "why": "x"},)))).found
    text = sweep_page(swept(odd, described=None, refused=refused))
    assert [tag for tag, _ in Elements(text).found] == [tag for tag, _ in plain]
    assert "\u202e" not in text


def test_no_rows() -> None:
    nothing = replace(swept(), frame=pd.DataFrame())
    assert isinstance(nothing, SweepData)
    assert view(nothing).answer == ("No point was kept: none fits in memory and meets the limits.",)
    assert "</html>" in sweep_page(nothing)
