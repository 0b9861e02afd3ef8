"""The page of a simulation: its figures add up to what was simulated, its shares to what was counted."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from roofline.documents import migrated
from roofline.report.figure import Figure, Section, View
from roofline.report.simulation.figures import at_share, view, within
from roofline.report.simulation.page import controls, page_data, simulation_page
from roofline.report.simulation.summary import answer, sentences
from roofline.serving.simulation.result import Simulation
from roofline.serving.simulation.simulate import simulate

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
LINE = "roofline simulate"
LOAD: dict[str, Any] = {"input_len": "lognormal:1155:900:6000", "output_len": 150}


@pytest.fixture(scope="module")
def plain() -> Simulation:
    """Two replicas with an SLO; all requests count."""
    return simulate(MODEL, HARDWARE, rate=6, requests=1200, replicas=2, ttft=0.15, tpot="1 s", warm_up=0, **LOAD)


@pytest.fixture(scope="module")
def pressed() -> Simulation:
    """Too little memory: the host takes what there is no room for."""
    return simulate(MODEL, HARDWARE, rate=5, requests=600, memory="20.5 GiB", preemption="swap", **LOAD)


def shown(result: Simulation, **moved: float) -> View:
    """The view, with lines where they are at first or where they were moved to."""
    read = page_data(result, LINE)
    values = {control.key: control.value for control in controls(read)}
    return view(read, {**values, **moved})


def section(found: View, key: str) -> Section:
    """One by its key."""
    (one,) = (each for each in found.sections if each.key == key)
    return one


def figure(found: View, key: str) -> Figure:
    """That of a section."""
    one = section(found, key).figure
    assert one is not None
    return one


def area(one: Figure, index: int = 0) -> float:
    """Of a line over time: the sum of what it says of each interval."""
    series = [each for each in one.series if each.kind == "line"][index]
    width = 2 * float(series.x[0])
    return width * sum(float(value) for value in series.y if value is not None)


def test_figures_add_up(plain: Simulation) -> None:
    """Over time: requests that come and end, their tokens, the blocks, and requests in the server by Little's law."""
    found = shown(plain)
    rates = figure(found, "rates")
    assert [area(rates, index) for index in (0, 1)] == pytest.approx([1200, 1200], rel=0.02)
    assert area(figure(found, "output-tokens")) == pytest.approx(1200 * 150, rel=0.02)
    taken = area(figure(found, "kv")) / plain.duration_s
    assert taken == pytest.approx(plain.utilisation["kv"] or 0, rel=0.02)
    both = figure(found, "requests")
    assert plain.e2e_s.mean is not None
    # who comes within a step is taken to wait from its begin
    assert 1 <= (area(both) + area(both, 1)) / (1200 * plain.e2e_s.mean) < 1.1
    assert area(both) < 1200 * plain.e2e_s.mean
    assert {one.key for one in found.sections}.isdisjoint({"preemptions", "preempted-tokens"})


def test_preemptions_add_up(pressed: Simulation) -> None:
    """Theirs, and the tokens that went to the host."""
    found = shown(pressed)
    assert pressed.requests.preemptions > 20
    assert area(figure(found, "preemptions")) == pytest.approx(pressed.requests.preemptions, rel=0.05)
    assert area(figure(found, "preempted-tokens")) == pytest.approx(pressed.preemption["swapped_tokens"], rel=0.05)
    (costs,) = (table for table in section(found, "load").tables if table.key == "costs")
    assert [row[0].text for row in costs.rows] == ["swapped out and in"]


def test_the_share_within_the_slo_is_what_was_counted(plain: Simulation) -> None:
    """TPOT is never as long as 1 s: who keeps to the TTFT keeps to the SLO."""
    found = shown(plain)
    (table,) = (each for each in section(found, "latencies").tables if each.key == "within")
    assert [row[0].text for row in table.rows] == ["TTFT", "TPOT"]
    assert [row[1].value for row in table.rows] == pytest.approx([0.15, 1.0])
    assert plain.within_slo is not None
    assert 0.2 < plain.within_slo < 0.9
    assert [row[2].value for row in table.rows] == pytest.approx([plain.within_slo, 1.0], abs=0.005)
    assert [(mark.text, mark.x, mark.role) for mark in figure(found, "latency").marks] == [
        ("TTFT 150 ms", 0.15, "TTFT"), ("TPOT 1 s", 1.0, "TPOT"),
    ]  # fmt: skip


def test_a_line_that_is_moved_is_another(plain: Simulation) -> None:
    """Beside the objective, which stays; its share is that of the percentile."""
    assert plain.ttft_s.p90 is not None
    found = shown(plain, ttft=plain.ttft_s.p90 * 1000)
    marks = figure(found, "latency").marks
    assert [mark.role for mark in marks] == ["TTFT", "TPOT", "TTFT"]  # each in the hue of its quantity
    assert figure(found, "tail").marks == marks
    (table,) = (each for each in section(found, "latencies").tables if each.key == "within")
    assert table.rows[0][2].value == pytest.approx(0.9, abs=0.005)


def test_curves_and_percentiles_agree(plain: Simulation) -> None:
    """The distributions of the page have the percentiles of the result."""
    for curve in page_data(plain, LINE).curves:
        latency = getattr(plain, f"{curve.key}_s")
        for part, seconds in ((0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99)):
            assert within(curve, seconds * 0.997) - 0.005 <= part <= within(curve, seconds * 1.003) + 0.005
            assert within(curve, at_share(curve, part)) == pytest.approx(part, abs=1e-6)
        assert within(curve, latency.max) == pytest.approx(1)


def test_the_page_says_what_the_terminal_says(plain: Simulation) -> None:
    """Sentences, latencies with the numbers behind them, files with their whole hashes."""
    found = shown(plain)
    assert " ".join([found.verdict, *found.answer[:-1]]) == " ".join(sentences(plain))
    (table,) = (each for each in section(found, "latencies").tables if each.key == "latencies")
    assert [cell.value for cell in table.rows[0][1:]] == [
        plain.ttft_s.mean, plain.ttft_s.p50, plain.ttft_s.p90, plain.ttft_s.p95, plain.ttft_s.p99, plain.ttft_s.max,
    ]  # fmt: skip
    (inputs,) = (each for each in section(found, "inputs").tables if each.key == "inputs")
    assert {row[0].text: row[2].text for row in inputs.rows} == {role: entry["sha256"] for role, entry in plain.inputs.items()}
    assert all(re.fullmatch("[0-9a-f]{64}", row[2].text) for row in inputs.rows)


def test_without_objectives_lines_are_where_95_of_100_are() -> None:
    """To the three digits of a control."""
    result = simulate(MODEL, HARDWARE, rate=4, requests=300, **LOAD)
    ttft, tpot = controls(page_data(result, LINE))
    assert result.ttft_s.p95 is not None
    assert result.tpot_s.p95 is not None
    assert ttft.value == pytest.approx(result.ttft_s.p95 * 1000, rel=0.02)
    assert tpot.value == pytest.approx(result.tpot_s.p95 * 1000, rel=0.02)
    assert shown(result).tiles[-1].label == "KV cache in use"  # none speaks of an SLO


def test_classes_have_objectives_of_their_own(tmp_path: Path) -> None:
    """Both are drawn, each with its class; the control is not that of one of them."""
    traffic = tmp_path / "traffic.yaml"
    traffic.write_text(
        "classes:\n"
        '  - {name: chat, rate: "4/s", input_len: 300, output_len: 60, ttft: "300 ms"}\n'
        '  - {name: batch, rate: "1/s", input_len: 2000, output_len: 200, ttft: "5 s"}\n',
        encoding="utf-8",
    )
    result = simulate(MODEL, HARDWARE, workload=traffic, requests=400)
    found = shown(result)
    texts = [mark.text for mark in figure(found, "latency").marks[:2]]
    assert texts == ["TTFT 300 ms (chat)", "TTFT 5 s (batch)"]
    (classes,) = (each for each in section(found, "inputs").tables if each.key == "classes")
    assert [row[0].text for row in classes.rows] == ["chat", "batch"]
    help_ = {control.key: control.help for control in controls(page_data(result, LINE))}
    assert help_["ttft"] == "at first: where 95 % of the requests are"


def test_lines_are_smooth_and_the_cut_interval_is_left_out(plain: Simulation) -> None:
    """A run ends within its last interval, whose mean would look like an outage."""
    both = figure(shown(plain), "requests")
    band, line = both.series[:2]
    assert (band.kind, line.kind) == ("band", "line")
    assert both.x.high is not None
    assert both.x.high <= plain.duration_s * (1 + 1e-6)
    values = [float(value) for value in line.y if value is not None]
    raw = [high if high > value else low for low, high, value in zip(band.low, band.high, values, strict=True)]
    steps = [sum(abs(after - before) for before, after in pairwise(each)) for each in (values, raw)]
    assert steps[0] < 0.7 * steps[1]


def test_replications_have_intervals() -> None:
    """In a table; what goes over time is of the first run, and says so."""
    found = shown(simulate(MODEL, HARDWARE, rate=4, requests=200, replications=3, **LOAD))
    assert [table.key for table in section(found, "load").tables] == ["load", "between"]
    assert figure(found, "requests").note.endswith("Of the first run.")


def test_few_requests_have_no_tail_and_no_rates() -> None:
    """Three requests have neither a slowest percent nor arrivals a second."""
    found = shown(simulate(MODEL, HARDWARE, workload="at-once:3", input_len=500, output_len=40))
    assert {"latency", "requests", "kv"} <= {one.key for one in found.sections}
    assert {one.key for one in found.sections}.isdisjoint({"tail", "rates"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workload": "at-once:3", "input_len": 5000, "output_len": 1, "max_model_len": 4000}, "0 of 3 requests completed"),
        ({"workload": "at-once:3", "input_len": 500, "output_len": 40, "memory": "10 GiB"}, "does not run on"),
    ],
    ids=["refused", "unfit"],
)
def test_without_answers_there_is_nothing_to_move(given: dict[str, Any], said: str) -> None:
    """A page without controls says why."""
    text = simulation_page(simulate(MODEL, HARDWARE, **given), LINE)
    assert said in text
    assert 'id="json-controls">[]</script>' in text
    assert 'data-fits="no"' in text


@pytest.mark.slow
def test_texts_of_files_are_no_markup(tmp_path: Path) -> None:
    """The name of a trace, and twice the same bytes."""
    trace = tmp_path / "<img src=x onerror=alert(1)>.csv"
    lines = [f"{at},{100 + at},20" for at in range(40)]
    trace.write_text("\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *lines]), encoding="utf-8")
    result = simulate(MODEL, HARDWARE, trace=trace)
    text = simulation_page(result, LINE)
    assert "<img" not in text
    assert "&lt;img src=x" in text
    assert simulation_page(result, LINE) == text
    assert len(text.encode()) < 2e6


def test_intervals_are_whiskers(plain: Simulation) -> None:
    """Around the value of each latency, as shares of it, and in seconds in the table beside the figure."""
    one = figure(shown(plain), "confidence")
    ends = plain.ttft_s.interval("mean")
    assert ends is not None
    assert plain.ttft_s.mean is not None
    whiskers = next(each for each in one.series if each.name == "TTFT" and each.kind == "line")
    assert whiskers.y[:2] == ("TTFT mean", "TTFT mean")
    assert whiskers.x[:2] == pytest.approx([end / plain.ttft_s.mean - 1 for end in ends])
    assert one.table is not None
    assert [cell.value for cell in one.table.rows[0][1:]] == pytest.approx([plain.ttft_s.mean, *ends])


def test_results_of_earlier_versions_are_shown(plain: Simulation) -> None:
    """Without what came later: intervals, classes, prefix caches, searches; with the router under its earlier name."""
    content = plain.to_dict()
    for name in ("confidence", "warm_up", "classes", "fairness", "prefix_hit_rate", "find_rate"):
        del content[name]
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        del content[name]["confidence"]
    content["server"]["balancer"] = content["server"].pop("router")
    for one in content["workload"]["classes"]:
        del one["conversation"], one["percentile"]
    content["schema_version"] = 1
    old = Simulation.from_dict(migrated(content, "saved.json"))
    assert old.prefix_hit_rate is None
    assert "2 replicas (round-robin)" in answer(old).settings
    assert old.ttft_s.mean == plain.ttft_s.mean
