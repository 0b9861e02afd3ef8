"""Figures of results as plotly objects: every figure of every kind of result, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.errors import InputError, UnknownNameError
from roofline.report.analysis.page import first_view
from roofline.report.figures import figure_names

MODEL, HARDWARE = "llama-3.1-8b", "h100-sxm"
LOAD = {"input_len": "1024", "output_len": "128"}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """One of each kind."""
    grid = {"model": MODEL, "hardware": ["l4", HARDWARE], "batch": [1, 8], "context": "1k,8k"}
    return {
        "analyze": roofline.analyze(MODEL, HARDWARE, batch=8),
        "segments": roofline.analyze(MODEL, HARDWARE, segments="4x1@1024,1x512@0"),
        "speculative": roofline.analyze(MODEL, HARDWARE, speculative_method="ngram", num_speculative_tokens=4, acceptance=0.6),
        "overflow": roofline.analyze("llama-3.1-70b", "l4"),
        "simulate": roofline.simulate(MODEL, HARDWARE, rate=5, until="60s", **LOAD),
        "plan": roofline.plan(MODEL, hardware=[HARDWARE], rate=20, ttft="1s", tpot="50ms", **LOAD),
        "preempt": roofline.preempt(MODEL, "a100-sxm-80gb", tokens=2048),
        "sweep": roofline.sweep(grid),
    }


NAMES = {
    "analyze": [
        "roofline", "time-prefill", "time-decode", "memory", "batch-limits", "explorer", "ttft", "heatmap", "sensitivity",
    ],
    "segments": ["roofline", "time-mixed", "memory"],
    "overflow": ["roofline", "memory", "batch-limits", "explorer", "ttft", "heatmap"],
    "simulate": ["distribution", "tail", "requests", "kv", "output-tokens", "prompt-tokens", "rates"],
    "plan": ["cost-tpot", "cost-ttft", "steps"],
    "preempt": ["costs", "blocks", "chunks"],
    "sweep": ["front-decode", "map-decode-0", "map-decode-1"],
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_each_figure_of_a_page_is_there(results: dict[str, Any], kind: str) -> None:
    """Plotly takes every property of every figure, in both themes; each has something to draw and its title."""
    assert figure_names(results[kind]) == NAMES[kind]
    for number, name in enumerate(NAMES[kind]):
        drawn = roofline.figure(results[kind], name, dark=number % 2 == 1)
        assert drawn.data or kind == "overflow"  # of what does not fit there is no time to draw
        assert drawn.layout.title.text
        assert drawn.to_json()


def test_names_are_those_of_the_page() -> None:
    """What a reader sees in the address of a section is what the method takes."""
    sections = first_view(MODEL, HARDWARE).sections
    assert NAMES["analyze"] == [section.figure.key for section in sections if section.figure is not None]


def test_a_point_has_the_numbers_of_the_result(results: dict[str, Any]) -> None:
    """The bar of the weights in the figure of the memory is what the result says, in GiB."""
    result = results["analyze"]
    weights = next(trace for trace in result.figure("memory").data if trace.name == "weights")
    assert weights.x[0] == pytest.approx(result.memory.weights_bytes / 2**30)


def test_a_speculative_result_has_figures_too(results: dict[str, Any]) -> None:
    """Of its steps without a draft."""
    assert results["speculative"].figure("roofline").data


def test_an_unknown_name_lists_the_known_ones(results: dict[str, Any]) -> None:
    """With the nearest first."""
    with pytest.raises(UnknownNameError, match=r"roofine.*roofline.*time-prefill"):
        results["analyze"].figure("roofine")


def test_what_has_no_figures_is_refused() -> None:
    """Any other object, and an analysis of a model that has no file."""
    with pytest.raises(InputError, match="not of int"):
        roofline.figure(1, "roofline")
    model = roofline.load_model(MODEL)
    with pytest.raises(InputError, match="given by name or path"):
        roofline.analyze(model, HARDWARE).figure("roofline")
