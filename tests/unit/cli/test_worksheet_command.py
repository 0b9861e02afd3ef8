"""`roofline worksheet`: the forms, files, class sets, the list, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from roofline.teach.worksheets import TEMPLATES, TOPICS

Run = Callable[..., Any]


def test_stdout_is_markdown(run: Run) -> None:
    """Without a place, Markdown; the same on every run."""
    answer = run("worksheet", "kv-cache", "--seed", "7")
    assert answer.code == 0
    assert answer.out.startswith("# The KV cache\n")
    assert answer.err == ""
    assert run("worksheet", "kv-cache", "--seed", "7").out == answer.out
    assert "# Answers" not in answer.out
    assert "# Answers" in run("worksheet", "kv-cache", "--seed", "7", "--answers").out
    assert run("worksheet", "kv-cache").out == run("worksheet", "kv-cache", "--seed", "0").out


@pytest.mark.parametrize(
    ("form", "suffix", "start"), [("html", ".html", "<!DOCTYPE"), ("md", ".md", "# "), ("notebook", ".ipynb", "{")]
)
def test_forms_and_suffixes(run: Run, tmp_path: Path, form: str, suffix: str, start: str) -> None:
    """A suffix says the form, a flag says it too, and both give the same file as stdout."""
    by_suffix, by_flag = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    assert run("worksheet", "moe", "--seed", "3", "-o", by_suffix).code == 0
    assert run("worksheet", "moe", "--seed", "3", "--format", form, "-o", by_flag).code == 0
    assert by_suffix.read_bytes() == by_flag.read_bytes()
    text = by_flag.read_text(encoding="utf-8")
    assert text.startswith(start)
    assert run("worksheet", "moe", "--seed", "3", "--format", form).out == text


def test_any_name_with_a_form(run: Run, tmp_path: Path) -> None:
    """With a form that is named, a file may be called anything."""
    place = tmp_path / "sheet.txt"
    assert run("worksheet", "moe", "--format", "md", "-o", place).code == 0
    assert place.read_text(encoding="utf-8").startswith("# ")
    assert ".txt" in run("worksheet", "moe", "-o", place).refused()


def test_json(run: Run) -> None:
    """The problems as data; answers only when asked for."""
    bare = json.loads(run("worksheet", "roofline", "--seed", "2", "--json").out)
    assert list(bare)[:4] == ["schema_version", "tool_version", "data_version", "inputs"]
    assert (bare["topic"], bare["seed"]) == ("roofline", 2)
    assert all("answer" not in problem for problem in bare["problems"])
    full = json.loads(run("worksheet", "roofline", "--seed", "2", "--json", "--answers").out)
    assert all(problem["answer"]["value"] >= 0 and problem["mistakes"] for problem in full["problems"])


@pytest.mark.slow
def test_class_set(run: Run, tmp_path: Path) -> None:
    """A sheet a seed, the same as one by one, and a key with the answers of all."""
    folder = tmp_path / "class"
    answer = run("worksheet", "batching", "--seeds", "8..11", "-o", folder)
    assert answer.code == 0
    assert "4 sheets and key.csv" in answer.err
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["batching-08.html", "batching-09.html", "batching-10.html", "batching-11.html", "key.csv"]
    run("worksheet", "batching", "--seed", "9", "-o", tmp_path / "nine.html")
    assert (folder / "batching-09.html").read_bytes() == (tmp_path / "nine.html").read_bytes()
    rows = list(csv.DictReader((folder / "key.csv").read_text(encoding="utf-8").splitlines()))
    count = sum(one.topic == "batching" for one in TEMPLATES.values())
    assert len(rows) == 4 * count
    assert list(rows[0]) == ["seed", "problem", "template", "answer", "unit", "tolerance", "shown", "minutes"]
    full = json.loads(run("worksheet", "batching", "--seed", "8", "--json", "--answers").out)
    for row, problem in zip(rows, full["problems"], strict=False):
        assert row["template"] == problem["template"]
        assert row["unit"] == "choice" or float(row["answer"]) == pytest.approx(problem["answer"]["value"])
    assert run("worksheet", "batching", "--seeds", "8..9", "--format", "notebook", "-o", folder, "-q").err == ""
    assert (folder / "batching-8.ipynb").exists()


def test_question_banks(run: Run, tmp_path: Path) -> None:
    """A suffix or a flag makes a bank of one sheet or of several; a package needs a file."""
    one, several, package = tmp_path / "one.xml", tmp_path / "several.xml", tmp_path / "bank.zip"
    assert run("worksheet", "moe", "--seed", "3", "-o", one).code == 0
    assert run("worksheet", "moe", "--seed", "3", "--format", "moodle").out == one.read_text(encoding="utf-8")
    assert run("worksheet", "moe", "--seeds", "3..5", "-o", several).code == 0
    count = sum(template.topic == "moe" for template in TEMPLATES.values())
    assert several.read_text(encoding="utf-8").count("<idnumber>") == 3 * count
    assert run("worksheet", "moe", "--seeds", "3..5", "--format", "qti", "-o", package).code == 0
    assert package.read_bytes()[:2] == b"PK"
    assert "-o FILE.zip" in run("worksheet", "moe", "--format", "qti").refused()


@pytest.mark.slow
def test_every_topic(run: Run, tmp_path: Path) -> None:
    """All topics are a practice page or a bank, and nothing else."""
    place, bank = tmp_path / "practice.html", tmp_path / "bank.xml"
    assert run("worksheet", "all", "-o", place).code == 0
    text = place.read_text(encoding="utf-8")
    assert all(f'value="{topic}"' in text for topic in TOPICS)
    assert f"{12 * len(TEMPLATES):,} problems" in text
    assert "default-src 'none'" in unescape(text)
    assert run("worksheet", "all", "--seed", "3", "-o", bank).code == 0
    assert bank.read_text(encoding="utf-8").count("<idnumber>") == len(TEMPLATES)
    assert run("worksheet", "all", "--list").out == run("worksheet", "--list").out
    for arguments in ((), ("-o", "a.md"), ("--seeds", "1..3", "-o", "a.html"), ("--format", "html")):
        assert "a practice page (-o FILE.html) or a question bank" in run("worksheet", "all", *arguments).refused()


def test_list(run: Run) -> None:
    """Every template under its topic."""
    found = json.loads(run("worksheet", "--list", "--json").out)["templates"]
    assert [row["template"] for row in found] == list(TEMPLATES)
    assert {row["topic"] for row in found} == set(TOPICS)
    assert "moe-active-parameters" in run("worksheet", "moe", "--list").out
    assert "kv-cache" not in run("worksheet", "moe", "--list").out
    topics, whole = run("worksheet", "--list").out, run("worksheet", "--list", "-v").out
    assert all(f"\n  {name} " in topics for name in TOPICS)
    assert all(f" {name} " in whole for name in TEMPLATES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "needs a topic: transformer, kv-cache"),
        (("kvcache",), "Did you mean kv-cache"),
        (("kvcache", "--list"), "Did you mean kv-cache"),
        (("moe", "--seed", "x"), "a seed is a whole number"),
        (("moe", "--seed", "-3"), "a seed is a whole number"),
        (("moe", "--seed", "1" * 12), "a seed is a whole number"),
        (("moe", "--format", "pdf"), "unknown format 'pdf'"),
        (("moe", "--format", "md", "-o", "a.html"), "disagree"),
        (("moe", "-o", "a.pdf"), "must be one of .html, .ipynb, .json, .md"),
        (("moe", "--seeds", "1..4"), "say where with -o FOLDER"),
        (("moe", "--seeds", "4..1", "-o", "x"), "the first is at most the last"),
        (("moe", "--seeds", "1..4", "--seed", "3", "-o", "x"), "leave out --seed"),
        (("moe", "--seeds", "1..4", "--json", "-o", "x"), "leave out --json"),
        (("moe", "--seeds", "1..4", "-o", "nowhere/x"), "there is no folder"),
    ],
)
def test_refusals(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str) -> None:
    """One sentence; nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert said in run("worksheet", *arguments).refused()
    assert list(tmp_path.iterdir()) == []
