"""Results as people see them: figures as plotly objects, lines of text, and what notebooks show."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from typing import Any

import pytest
from picture_texts import text_faults

import roofline
from roofline.audit.claims import judge
from roofline.errors import InputError, UnknownNameError
from roofline.report.analysis.page import first_view
from roofline.report.claim_page import view
from roofline.report.figures import figure_names, figures_of
from roofline.report.summary import BOUND_AND_FLOOR
from roofline.report.svg import svg

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
        "op": roofline.op("gemm", 512, 8192, 28672, hardware=HARDWARE),
        "curve": roofline.op("gemm", n=8192, k=28672, hardware=HARDWARE, sweep="m=1:1024:x2"),
        "limits": roofline.limits(MODEL, HARDWARE, tpot="20 ms"),
        "sweep": roofline.sweep(grid),
    }


NAMES = {
    "analyze": [
        "roofline", "explorer", "time-prefill", "time-decode", "device", "memory", "batch-limits", "ttft", "sensitivity",
        "heatmap",
    ],
    "segments": ["roofline", "time-mixed", "device", "memory"],
    "overflow": ["roofline", "explorer", "memory", "batch-limits", "ttft", "heatmap"],
    "simulate": ["distribution", "requests", "tail", "kv", "output-tokens", "prompt-tokens", "rates", "confidence"],
    "plan": ["cost-tpot", "cost-ttft", "steps"],
    "preempt": ["costs", "blocks", "chunks"],
    "op": ["roofline", "resources"],
    "curve": ["roofline", "curve", "resources"],
    "limits": ["batch-limits", "limit-rates", "variants"],
    "sweep": ["front-decode", "map-decode-0", "map-decode-1"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMES)
def test_each_figure_of_a_page_is_there(results: dict[str, Any], kind: str) -> None:
    """Plotly takes every property of every figure, in both themes; each has something to draw and its title."""
    assert figure_names(results[kind]) == NAMES[kind]
    for number, name in enumerate(NAMES[kind]):
        drawn = roofline.figure(results[kind], name, dark=number % 2 == 1)
        # of what does not fit there is no time to draw, and a schematic has shapes alone
        assert drawn.data or drawn.layout.shapes or kind == "overflow"
        assert drawn.layout.title.text
        assert drawn.to_json()


@pytest.mark.parametrize("kind", NAMES)
def test_texts_of_figures_neither_meet_nor_leave_them(results: dict[str, Any], kind: str) -> None:
    """As wide as a file, and as wide as a column of a page."""
    figures = figures_of(results[kind])
    for name in NAMES[kind]:
        for width in (760.0, 480.0):
            assert text_faults(svg(figures.make(name), width)) == [], name


CLAIMS = (
    "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16",
    "llama-3.1-8b on a100-sxm-80gb: 136 tok/s at batch 1",  # a hair above the ceiling of 135.8
    "llama-3.1-8b on a100-sxm-80gb: 95 tok/s at batch 1",
    "llama-3.1-8b on a100-sxm-80gb: TPOT 7 ms",
    "h100-sxm: 1979 dense bf16 TFLOP/s",
)


@pytest.mark.parametrize("text", CLAIMS)
def test_the_scale_of_a_claim_can_be_read(text: str) -> None:
    """The claimed value has a row; only the border of what is impossible has a text above the plot, so that none meet."""
    shown = view(judge(text), text, "")
    figure = shown.sections[0].figure
    assert figure is not None
    assert [mark.text.strip("←→ ") for mark in figure.marks] == ["", "impossible"]
    assert {zone.text for zone in figure.zones} == {""}
    assert "impossible" in figure.note
    for width in (760.0, 480.0, 320.0):
        assert text_faults(svg(figure, width)) == []


@pytest.mark.slow
def test_a_claim_by_options_says_what_it_is_about() -> None:
    """Model, hardware, data type, and what was stated of the workload; not what was chosen in the claim's favour."""
    shown = view(judge(model="llama-3.1-8b", hardware="a100-sxm-80gb", tokens_per_s=95, batch=1), None, "")
    assert shown.subtitle == "Llama 3.1 8B on one NVIDIA A100 SXM4 80GB · bf16 · batch 1"
    assert shown.tiles[0].note == "by the options"
    shown = view(judge("llama-3.1-8b on 8x h100-sxm: 3000 tok/s"), "3000 tok/s", "")
    assert shown.subtitle == "Llama 3.1 8B on 8 x NVIDIA H100 SXM5 80GB · bf16"
    assert shown.tiles[0].note == "“3000 tok/s”"


@pytest.mark.slow
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


@pytest.mark.slow
def test_without_a_name_it_is_the_first(results: dict[str, Any]) -> None:
    """The one that a notebook shows."""
    for kind, names in NAMES.items():
        assert roofline.figure(results[kind]).layout.title == roofline.figure(results[kind], names[0]).layout.title
    with pytest.raises(InputError, match="no figures"):
        roofline.limits("llama-3.1-70b", "l4").figure()


SHOWN = {
    "analyze": ("Llama 3.1 8B on NVIDIA H100 SXM5 80GB", "Fits.", "TPOT", "KV cache size", "80 % interval"),
    "segments": ("Mixed step",),
    "speculative": ("TPOT, drafted",),
    "overflow": ("Does not fit", "--tensor-parallel-size 8"),
    "simulate": ("requests completed", "p99", "offered load"),
    "plan": ("Cheapest", "USD/h", "TPOT"),
    "preempt": ("2,048 tokens evicted", "recompute", "swap"),
    "op": ("gemm m=512 n=8,192 k=28,672", "240.5 GFLOP", "compute"),
    "curve": ("Compute-bound from m =", "1,024"),
    "limits": ("the SLO limits the batch", "131,072"),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_print_gives_the_answer(results: dict[str, Any], kind: str) -> None:
    """In units that people read, on less than a screen; the repr is one line."""
    text = str(results[kind])
    for words in SHOWN[kind]:
        assert words in text, words
    assert len(text.splitlines()) <= 32
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"\d\.\d{5}|[0-9]e-?[0-9]|None|-vv", text)
    line = repr(results[kind])
    assert line == f"<{type(results[kind]).__name__}: {text.splitlines()[0]}>"


class _Elements(HTMLParser):
    def __init__(self, document: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "html", "body", "link", "img")
        assert not any(name.startswith("on") or "://" in str(value) for name, value in attrs if name != "xmlns")
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_notebooks_show_answer_figure_and_tables(results: dict[str, Any]) -> None:
    """Each result on its own, without scripts or other files; no two outputs of a notebook have an element of one id."""
    ids: list[str] = []
    for kind, words in SHOWN.items():
        shown = _Elements(results[kind]._repr_html_())
        assert not shown.open
        for expected in words:
            assert expected in shown.text
        assert all(note.name in shown.text for note in results[kind].assumptions)
        assert shown.ids, "the figure has a title and a description"
        ids += shown.ids
    assert len(ids) == len(set(ids))


def test_a_table_with_both_says_what_bound_and_floor_are(results: dict[str, Any]) -> None:
    """Once, in the line under the table; tables without the two columns have no such line."""
    shown = results["analyze"]._repr_html_()
    caption = escape(BOUND_AND_FLOOR)
    before, _ = shown.split(caption)
    assert before.endswith("</table>\n</div>\n<p class=note>")
    assert "<th class=right scope=col>floor</th>" in before
    assert caption in results["op"]._repr_html_()
    assert caption not in results["preempt"]._repr_html_()


def test_text_of_files_is_escaped_in_notebooks() -> None:
    """A title with markup is text; a model without a file has no figure, and tables all the same."""
    model = roofline.load_model("gpt2").model_copy(update={"title": "<script>alert(1)</script>\x1b[31m"})
    result = roofline.analyze(model, "t4")
    assert "<script>alert(1)</script>" in _Elements(result._repr_html_()).text
    assert "\x1b" not in result._repr_html_() + str(result)
