"""The pages that commands write with `-o x.html`: one design, the picture first, readable at every width, in light and dark."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from browser.paper import printed
from browser.waits import settle
from executed_lessons import done
from page_parts import check_policy
from shared_results import shared

from roofline.cli.app import app
from roofline.teach.lessons.build import page as lesson_page
from roofline.teach.term.build import build as build_term

ROOT = Path(__file__).resolve().parents[2]
LOGS = shlex.quote(str(ROOT / "docs" / "examples"))
# A kind of page is a line: the command that writes it, and before it those that write what it reads.
KINDS = {
    "report": ["report llama-3.1-8b --hardware a100-sxm-80gb"],
    "calculator": ["report --calculator"],
    "analyze": ["analyze qwen3-32b --hardware dgx-h200"],
    "still": ["report llama-3.1-8b --hardware a100-sxm-80gb --segments 3x1@100,1x50@0"],
    "limits": ["limits llama-3.1-8b --hardware a100-sxm-80gb --ttft 1s --tpot 50ms"],
    "plan": ["plan llama-3.1-8b --hardware h100-sxm,l40s --rate 20 --input-len 1k --output-len 256 --ttft 2s --tpot 50ms"],
    "simulate": [
        "simulate llama-3.1-8b --hardware a100-sxm-80gb --rate 5 --requests 300 --input-len 1k --output-len 200 --ttft 1s"
    ],
    "claim": ["claim 'llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16'"],
    "compare": [f"compare --engine-log {LOGS}/vllm.log --bench {LOGS}/vllm-bench.json --hardware h100-sxm"],
    "preempt": ["preempt llama-3.1-8b --hardware h100-sxm --tokens 8192"],
    "preempt-coalesced": ["preempt llama-3.1-8b --hardware h100-sxm --tokens 8192 --coalesced"],
    "sweep": ["sweep llama-3.1-8b --hardware a100-sxm-80gb,h100-sxm --batch 1:64:x2 -o saved.json", "report --from saved.json"],
    "validate": [f"validate {shlex.quote(str(ROOT / 'measurements'))}"],
    "profile": [f"profile {LOGS}/small-llama.json.gz --hardware epyc-9654"],
    "worksheet": ["worksheet kv-cache --seed 7"],
    "worksheet-answers": ["worksheet roofline --seed 7 --answers"],
    "lesson": [],  # not written by a command
}
OTHERS = {
    "op": ["op gemm 512 8192 28672 --hardware h100-sxm"],
    "study": ["study study.yaml -o study", "report --from study"],
    "term": [],  # not written by a command
}
"""Kinds that are only looked at for their policy: other tests have their parts, by the kinds above."""
STUDY = """\
schema_version: 1
kind: study
options: {model: llama-3.1-8b, hardware: a100-sxm-80gb, input_len: 200, output_len: 20, requests: 50, ttft: 60 ms}
policies: [vllm-v1, sarathi]
rates: [5, 10]
seeds: 2
"""
LESSON = "02_the_kv_cache"  # tests/browser/test_lessons.py has the others
NOT_FOR = {
    "picture": {
        "worksheet": "problems have no figures",
        "worksheet-answers": "problems have no figures",
        "lesson": "a lesson is read from its first sentence on; figures stand where they are derived",
    },
    "downloads": {
        "worksheet": "what is on it is to be worked out",
        "worksheet-answers": "the command writes answers as JSON and as CSV",
        "lesson": "its notebook has the numbers",
    },
    "numbers": {
        "worksheet": "it has no tiles",
        "worksheet-answers": "it has no tiles",
        "lesson": "the tiles are those of one of its parts",
    },
}
"""Checks that some kinds of pages need not pass, and why."""
MAX_BYTES = 1_300_000
_BOX = """(element) => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  return { left, top, right, bottom };
}"""
_BOXES = f"(elements) => elements.map({_BOX})"


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a kind, written when it is first needed."""

    @cache
    def path(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        text = shared(f"page-{kind}", lambda: written(kind, folder).read_text(encoding="utf-8"))
        (folder / "page.html").write_text(text, encoding="utf-8")
        return folder / "page.html"

    def written(kind: str, folder: Path) -> Path:
        if kind == "lesson":
            (folder / "page.html").write_text(lesson_page(done(LESSON)), encoding="utf-8")
            return folder / "page.html"
        if kind == "term":
            built = build_term(folder, 1, "hours")
            return next(path for path in built.files if path.name.endswith("-key.html"))
        (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
        *before, last = {**KINDS, **OTHERS}[kind]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            for line in (*before, f"{last} -o page.html"):
                assert app(shlex.split(line), standalone_mode=False) in (0, None, 1)  # 1: the answer is no
        return folder / "page.html"

    return path


@pytest.fixture
def path(paths: Callable[[str], Path], kind: str) -> Path:
    """The page of the test's kind."""
    return paths(kind)


def kinds(check: str = "") -> pytest.MarkDecorator:
    """All kinds that a check is for."""
    return pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NOT_FOR.get(check, {})])


def test_what_is_left_out_is_there() -> None:
    assert {kind for check in NOT_FOR.values() for kind in check} <= KINDS.keys()


def _unfold(page) -> None:
    page.evaluate("for (const box of document.querySelectorAll('details:not(.drawer)')) box.open = true")


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_a_strict_policy(path, kind):
    """Whatever a page was written for: no `unsafe-inline`, nothing loaded or sent, nothing inline but what is listed."""
    check_policy(path.read_text(encoding="utf-8"))


@pytest.mark.every_case
@pytest.mark.parametrize("kind", OTHERS)
def test_nothing_is_refused_by_the_policy(open_page, draw_all, path, kind):
    """In the light and in the dark, drawn, unfolded and printed. Of the other kinds the tests below do the same."""
    page = open_page(path, color_scheme="light")
    draw_all(page)
    _unfold(page)
    page.emulate_media(color_scheme="dark")
    if page.locator("#print").count():
        page.locator("input[value=light]").check(force=True)
    page.emulate_media(media="print")


@kinds()
def test_axe_finds_nothing_before_and_after_scrolling(open_page, axe, draw_all, path, kind):
    """As a page opens on a laptop; drawn and unfolded on a phone in the dark.

    The page of most parts also the other way round: each two of width, scheme and state are then met together.
    """
    ways = [(1440, (("light", False), ("dark", True))), (375, (("dark", False), ("light", True)))]
    if kind != "report":
        ways = [(1440, (("light", False),)), (375, (("dark", True),))]
    for width, looks in ways:
        page = open_page(path, width=width, color_scheme=looks[0][0])
        for scheme, is_drawn in looks:
            page.emulate_media(color_scheme=scheme)
            if is_drawn:
                draw_all(page)
                _unfold(page)
            assert axe(page) == [], (width, scheme)


@kinds()
def test_nothing_is_wider_than_the_window(open_page, path):
    page = open_page(path, width=1440)
    _unfold(page)
    for width in (320, 375, 768, 1440, 3840):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for box in page.locator(".tile:visible, .section").evaluate_all(_BOXES):
            assert -1 <= box["left"] < box["right"] <= width + 1


@pytest.mark.parametrize("kind", ["report", "limits", "plan"])
def test_legends_are_whole_on_a_phone(open_page, draw_all, paths, kind):
    """A legend that has more rows than there was room for would be cut off and scroll."""
    page = open_page(paths(kind), width=375)
    draw_all(page)
    legends = page.locator(".js-plotly-plot").evaluate_all(
        "(all) => all.map((one) => one._fullLayout.legend).filter(Boolean).map((one) => [one._effHeight, one._height])"
    )
    assert len(legends) >= 2
    assert [shown for shown, whole in legends if shown < whole] == []


@kinds("picture")
def test_the_picture_is_on_the_first_screen(open_page, path):
    """At 1440 x 900: title, verdict, all tiles, and the first figure, drawn and whole."""
    page = open_page(path, width=1440, height=900)
    figure = page.locator("figure").first.locator(".main-svg").first
    figure.wait_for()
    tiles = [tile.evaluate(_BOX) for tile in page.locator(".tile").all()]
    assert len(tiles) >= 2
    assert page.locator("h1").evaluate(_BOX)["top"] >= 0
    assert max(tile["bottom"] for tile in tiles) < figure.evaluate(_BOX)["top"]
    assert figure.evaluate(_BOX)["bottom"] <= 900


@kinds("numbers")
@pytest.mark.parametrize(("width", "count"), [(1440, 9), (375, 3)])
def test_numbers_stay_in_sight(open_page, path, width, count):
    """While the tiles are out of sight, a line at the edge has their numbers: on a phone the first three."""
    page = open_page(path, width=width, height=700)
    line = page.locator("#brief")
    assert not line.is_visible()
    tiles = page.locator(".tile .value").all_inner_texts()
    page.mouse.wheel(0, 2000)
    line.wait_for()
    box = line.evaluate(_BOX)
    assert (box["left"], box["top"], box["right"]) == (0, 0, width)
    assert line.locator("b:visible").all_inner_texts() == tiles[:count]
    assert all(one.evaluate(_BOX)["right"] <= width for one in line.locator("p:visible").all())
    cut = line.locator("b:visible").evaluate_all("(all) => all.filter((one) => one.scrollWidth > one.clientWidth).length")
    assert cut == 0 or width == 375
    page.evaluate("scrollTo(0, 0)")
    line.wait_for(state="hidden")


@kinds("numbers")
@pytest.mark.parametrize("width", [375, 768])
def test_words_of_commands_stay_whole(open_page, path, width):
    """A line ends between words, never at a hyphen, unless a word is wider than its box; buttons end at one edge."""
    page = open_page(path, width=width)
    broken = page.evaluate(
        """[...document.querySelectorAll(".command code span")].filter((word) => {
          const line = parseFloat(getComputedStyle(word).lineHeight);
          return word.offsetHeight > 1.5 * line && word.offsetWidth < 0.8 * word.closest("code").offsetWidth;
        }).map((word) => word.textContent)"""
    )
    assert broken == []
    edges = page.evaluate('[...document.querySelectorAll("#commands .copy")].map((one) => one.getBoundingClientRect().right)')
    assert len({round(edge) for edge in edges}) <= 1


def test_five_tiles_leave_no_hole(open_page, paths):
    """On a tablet the last row of tiles ends where the first one does."""
    page = open_page(paths("report"), width=768)
    rights = page.evaluate('[...document.querySelectorAll("#tiles > .tile")].map((one) => one.getBoundingClientRect().right)')
    assert len(rights) == 5
    assert round(rights[2]) == round(rights[4])


def test_a_number_follows_a_slider_out_of_sight_of_the_tiles(open_page, paths):
    """On a phone, the drawer with the controls is below the line, and both stay."""
    page = open_page(paths("calculator"), width=375, height=700)
    page.mouse.wheel(0, 2000)
    page.locator("#brief").wait_for()
    before = page.locator("#brief b").first.inner_text()
    page.locator(".drawer > summary").evaluate("(summary) => summary.click()")
    batch = page.locator("#control-batch")
    batch.fill("64")
    settle(page)
    page.locator("#brief").wait_for()
    assert page.locator("#brief b").first.inner_text() not in ("", before)
    assert page.locator("#brief b").first.inner_text() == page.locator(".tile .value").first.inner_text()
    assert page.locator(".drawer").evaluate(_BOX)["top"] >= page.locator("#brief").evaluate(_BOX)["bottom"] - 1
    assert batch.evaluate(_BOX)["bottom"] <= 700


@kinds()
def test_theme_link_and_print(open_page, path):
    page = open_page(path, color_scheme="light", init="() => { window.print = () => { document.title = 'printed'; }; }")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator("input[value=dark]").check(force=True)
    assert page.evaluate(ground) != light
    page.locator("#copy-link").click()
    page.locator("#done").filter(has_text="file://").wait_for(state="attached")
    page.locator("#print").click()
    assert page.title() == "printed"


@kinds("downloads")
def test_downloads(open_page, path, tmp_path):
    page = open_page(path)
    for kind in ("json", "csv"):
        with page.expect_download() as download:
            page.locator(f"#download-{kind}").click()
        download.value.save_as(tmp_path / kind)
        assert (tmp_path / kind).stat().st_size > 500
    view = json.loads((tmp_path / "json").read_text(encoding="utf-8"))["view"]
    assert view["title"] == page.locator("h1").inner_text()


@kinds()
def test_it_is_small(path):
    assert path.stat().st_size <= MAX_BYTES


@kinds()
def test_paper(open_page, path):
    """At most eight sheets, no image, at most 1 MB; no table is wider than the sheet."""
    page = open_page(path, width=703)  # A4 without its margins
    assert printed(page)
    page.emulate_media(media="print")
    wide = page.evaluate("Math.max(...[...document.querySelectorAll('table')].map((one) => one.getBoundingClientRect().right))")
    assert wide <= 703
