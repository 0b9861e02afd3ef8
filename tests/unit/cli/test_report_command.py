"""`roofline report`: what it writes, and what it refuses before it has done the work."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.audit.claims import judge
from roofline.cli.commands.report import write_page
from roofline.cli.output import Output
from roofline.errors import InputError, RooflineError, SpecError
from roofline.predict.analyze import analyze
from roofline.report import claim_page, limits
from roofline.report.analysis.page import report, report_view
from roofline.report.page import static_page
from roofline.specs.library import shipped

pytestmark = pytest.mark.slow

HOSTILE = ["<script>alert(1)</script>", "\"quoted\" & 'so'", "</script><b>", "x" * 10_000, "\u202eright to left\u200f"]

MAX_BYTES = 1_300_000


def call(output: Path | None, model: str | None = None, hardware: tuple[str, ...] = (), **more: object) -> None:
    """What the command does."""
    calculator, saved = bool(more.pop("calculator", False)), more.pop("saved", None)
    assert saved is None or isinstance(saved, Path)
    out = Output(json=False, file=output, quiet=True)
    write_page(model, list(hardware), dict(more), calculator=calculator, saved=saved, out=out)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    call(path, "gpt2", ("a100-sxm-80gb",), batch="4")
    return path.read_text(encoding="utf-8")


def test_the_same_question_makes_the_same_bytes(made: str, tmp_path: Path) -> None:
    """No date, no random name."""
    call(tmp_path / "again.html", "gpt2", ("a100-sxm-80gb",), batch="4")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == made


def _unmarked(page: str) -> str:
    """A page whose commands are text: on it each word of them is an element."""
    return page.replace("</span> <span>", " ")


def test_a_page_is_whole_and_not_too_large(made: str) -> None:
    """One file, at most 1.3 MB, that says how it was made and asks nobody for anything."""
    assert len(made.encode()) <= MAX_BYTES
    assert "roofline report gpt2 --hardware a100-sxm-80gb --batch 4" in _unmarked(made)
    assert "default-src &#39;none&#39;" in made
    assert 'id="op-' in made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "hardware"),
    [
        ("deepseek-v3", ("dgx-h200",)),
        ("mixtral-8x7b", ("h200-sxm", "a100-sxm-80gb")),
        ("deepseek-v4-pro", ("dgx-h200",)),  # 340 kB of formulas, those that are alike in brief: the largest page
        ("gemma-2-9b", ("dgx-h200",)),  # just too many formulas to be written out
        ("seed-oss-36b", ("dgx-h200",)),  # just few enough: the largest page of those
    ],
)
def test_the_largest_pages_are_not_too_large(tmp_path: Path, model: str, hardware: tuple[str, ...]) -> None:
    call(tmp_path / "report.html", model, hardware)
    assert (tmp_path / "report.html").stat().st_size <= MAX_BYTES


def test_a_saved_result_makes_the_page_again(made: str, tmp_path: Path) -> None:
    """From what `analyze --json` wrote."""
    saved = tmp_path / "result.json"
    saved.write_text(analyze("gpt2", "a100-sxm-80gb", batch="4").to_json(), encoding="utf-8")
    call(tmp_path / "again.html", saved=saved)
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == made


@pytest.mark.parametrize("kind", ["analysis", "limits", "claim"])
def test_what_a_page_downloads_opens_again(tmp_path: Path, kind: str) -> None:
    """The JSON button writes the view of the page: the same title, tiles, figures and tables come back."""
    if kind == "analysis":
        view = report_view("gpt2", ["a100-sxm-80gb"], {"batch": 4})
    elif kind == "limits":
        view = limits.view(roofline.limits("gpt2", "a100-sxm-80gb", tpot="20 ms"), "")
    else:
        view = claim_page.view(judge("gpt2 on a100-sxm-80gb: 900 tok/s at batch 1"), None, "")
    saved = tmp_path / "roofline.json"
    saved.write_text(json.dumps({"reproduce": "", "state": {}, "view": asdict(view)}), encoding="utf-8")
    call(tmp_path / "again.html", saved=saved)
    line = f"roofline report --from {saved} --output page.html"
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == static_page(view, line)
    saved.write_text(json.dumps({"view": {"title": 3}}), encoding="utf-8")
    with pytest.raises(SpecError, match="not as pages write it"):
        call(tmp_path / "again.html", saved=saved)


DRAFTED = {"speculative_model": "llama-3.2-1b", "num_speculative_tokens": 3, "acceptance": 0.7, "batch": 8}


@pytest.mark.parametrize(
    ("model", "options", "texts", "absent"),
    [
        (
            "gpt2",
            {"phase": "decode"},
            ("roofline analyze gpt2 --hardware a100-sxm-80gb --phase decode", "Decode"),
            "Prefill of",
        ),
        ("gpt2", {"segments": "3x1@100,1x50@0"}, ("3x1@100,1x50@0", "layers/attention/core/3x1@100"), "TPOT by batch"),
        ("llama-3.1-8b", DRAFTED, ("llama-3.2-1b drafts 3 tokens per round", "verification of 4 tokens"), "TPOT by batch"),
    ],
)
def test_a_page_without_controls(
    tmp_path: Path, model: str, options: dict[str, Any], texts: tuple[str, ...], absent: str
) -> None:
    """What controls cannot set is a page without them, and so is the page of its saved result."""
    call(tmp_path / "page.html", model, ("a100-sxm-80gb",), **options)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in texts:
        assert text in _unmarked(page)
    assert absent not in page
    assert 'id="json-controls">[]</script>' in page
    saved = tmp_path / "result.json"
    saved.write_text(analyze(model, "a100-sxm-80gb", **options).to_json(), encoding="utf-8")
    call(tmp_path / "again.html", saved=saved)
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_objectives(tmp_path: Path) -> None:
    """They stand in the controls, are drawn, and are in the line that makes the page again."""
    call(tmp_path / "page.html", "gpt2", ("l4",), batch="4", ttft="1 s", tpot=0.05)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    line = re.search(r"roofline report gpt2 .*? --output report\.html", _unmarked(page))
    assert line is not None
    assert "--ttft &#39;1000 ms&#39; --tpot &#39;50 ms&#39;" in line[0]
    shown = report_view("gpt2", ["l4"], {"batch": 4, "ttft": "1 s", "tpot": "50 ms"})
    drawn = {mark.text for one in shown.sections if one.figure is not None for mark in one.figure.marks if mark.role == "slo"}
    assert "TTFT 1 s" in drawn
    controls = json.loads(page.partition('id="json-controls">')[2].partition("</script>")[0])
    assert {one["key"]: one["value"] for one in controls if one["key"] in ("ttft_ms", "tpot_ms")} == {
        "ttft_ms": 1000.0,
        "tpot_ms": 50.0,
    }
    call(tmp_path / "still.html", "gpt2", ("l4",), phase="decode", tpot="50 ms")
    assert "--phase decode --tpot &#39;50 ms&#39;" in _unmarked((tmp_path / "still.html").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match="--tpot"):
        call(tmp_path / "wrong.html", "gpt2", ("l4",), tpot="50")


def test_a_saved_result_whose_files_have_changed_is_refused(tmp_path: Path) -> None:
    """Its numbers would be others."""
    saved = tmp_path / "result.json"
    found = analyze("gpt2", "a100-sxm-80gb").to_dict()
    found["inputs"]["model"]["sha256"] = "0" * 64
    saved.write_text(json.dumps(found, default=str), encoding="utf-8")
    with pytest.raises(SpecError, match="the model gpt2 has changed"):
        call(tmp_path / "again.html", saved=saved)
    assert not (tmp_path / "again.html").exists()


@pytest.mark.parametrize(
    ("text", "said"), [("{", "is no JSON"), ("[]", "no key `asked`"), ('{"asked": {"model": 1}}', "no key `asked`")]
)
def test_what_is_no_result(tmp_path: Path, text: str, said: str) -> None:
    """One message with the file's name."""
    saved = tmp_path / "result.json"
    saved.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=said) as caught:
        call(tmp_path / "again.html", saved=saved)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "one of MODEL"),
        ({"model": "gpt2"}, "needs --hardware"),
        ({"model": "gpt2", "calculator": True}, "unknown calculator 'gpt2'. Known: op"),
        ({"calculator": True, "batch": "4"}, "takes no other options"),
        ({"model": "gpt2", "hardware": ("a100-sxm-80gb",), "segments": "1x1@1", "batch": "2"}, "leave out --batch"),
        ({"model": "gpt2", "hardware": ("a100-sxm-80gb",), "batch": "many"}, "must be a whole number"),
        ({"model": "gpt2", "hardware": ("h1000",)}, "unknown hardware"),
        ({"model": "gpt2", "hardware": ("h100-sxm",), "backend": "fit.yaml"}, "fit.yaml"),
    ],
)
def test_wrong_questions(tmp_path: Path, options: dict[str, object], said: str) -> None:
    """Refused, and nothing written."""
    with pytest.raises(RooflineError, match=said):
        call(tmp_path / "page.html", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_where_a_page_cannot_be_written(tmp_path: Path) -> None:
    """Said before anything is computed."""
    places = ((None, "with -o"), (tmp_path / "page.docx", "is a .html file"), (tmp_path / "no" / "page.html", "no folder"))
    for path, said in places:
        with pytest.raises(InputError, match=said):
            call(path, "gpt2", ("a100-sxm-80gb",))
    sealed = tmp_path / "sealed"
    sealed.mkdir(mode=0o500)
    if os.access(sealed, os.W_OK):
        pytest.skip("this user may write anywhere")
    with pytest.raises(InputError, match="read-only"):
        call(sealed / "page.html", "gpt2", ("a100-sxm-80gb",))


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "quotes", "end", "long", "direction"])
def test_a_name_is_text(tmp_path: Path, name: str) -> None:
    """Whatever a file calls its model, the page has no more elements for it."""
    text = (shipped("models") / "gpt2.yaml").read_text(encoding="utf-8")
    title = next(line for line in text.splitlines() if line.startswith("title:"))
    path = tmp_path / "odd.yaml"
    path.write_text(text.replace(title, f"title: {json.dumps(name)}"), encoding="utf-8")
    page, plain = report(str(path), ["a100-sxm-80gb"], {}), report("gpt2", ["a100-sxm-80gb"], {})
    for tag in ("<script", "</script", "<b>", "<table", "<section", "<style"):
        assert page.count(tag) == plain.count(tag)
    assert "\u202e" not in page
    assert "\u200f" not in page


def test_without_plotly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages hold the plot library; Python's is not asked for."""
    monkeypatch.setitem(sys.modules, "plotly", None)
    call(tmp_path / "page.html", "gpt2", ("a100-sxm-80gb",))
    assert (tmp_path / "page.html").stat().st_size > 100_000
