"""Text from files must not steer what shows it: terminal, spreadsheet, Markdown, page."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.text import clean, csv_cell, markdown_cell

Run = Callable[..., Any]
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    "command", [("analyze", "-H", "t4", "--explain"), ("models", "show"), ("models", "show", "--format", "text")]
)
def test_terminal(run: Run, evil_model: Path, command: tuple[str, ...]) -> None:
    """No control character and no direction mark of a title or a layer's name reaches the terminal; the words do."""
    name, *rest = command
    arguments = [name, *rest[:1], evil_model, *rest[1:]] if name == "models" else [name, evil_model, *rest]
    answer = run(*arguments)
    assert answer.code == 0
    assert CONTROL.findall(answer.out) == []
    assert "red" in answer.out


def test_error_messages(run: Run, tmp_path: Path) -> None:
    """Neither do those of a file's name, of a key or of an argument, in a message."""
    path = tmp_path / "a\x1b[31mb.yaml"
    path.write_text('"\\e[31mkey": 1\nname: "\\e[31m"\nschema_version: "\\a"\n')
    for arguments in (
        ("analyze", path, "-H", "t4"),
        ("analyze", "\x1b[31mgpt", "-H", "t4"),
        ("analyze", "gpt2", "-H", "t4", "--dtype", "\x1b[31m"),
    ):
        assert CONTROL.findall(run(*arguments).err) == []


def test_messages_about_files_written(run: Run, tmp_path: Path) -> None:
    """The name of an output file is echoed without its escapes."""
    answer = run("analyze", "gpt2", "-H", "t4", "-o", tmp_path / "a\x1b[31mb.json")
    assert answer.code == 0
    assert CONTROL.findall(answer.err) == []


def test_json_escapes(run: Run, evil_model: Path) -> None:
    """JSON keeps the text as it is, escaped by its own rules: no raw control character, nothing lost."""
    out = run("analyze", evil_model, "-H", "t4", "--json").out
    assert not set(out) & {"\x1b", "\x07"}
    assert json.loads(out)["model"]["title"].startswith("=cmd|\x1b[31mred")


def test_json_has_no_raw_control_characters(run: Run, evil_model: Path) -> None:
    """JSON itself escapes U+0000 to U+001F alone. U+009B begins a terminal's command too, and U+202E turns text round.

    Their escapes are read as the same title.
    """
    out = run("analyze", evil_model, "-H", "t4", "--json").out
    assert not {"\x9b", "\u202e"} & set(out)
    titles = [value for value in json.loads(out)["model"].values() if isinstance(value, str)]
    assert any({"\x9b", "\u202e"} <= set(title) for title in titles)


def test_csv_formulas(run: Run, evil_model: Path, tmp_path: Path) -> None:
    """No cell of text starts like a formula, or holds an escape."""
    assert run("analyze", evil_model, "-H", "t4", "-o", tmp_path / "r.csv").code == 0
    text = (tmp_path / "r.csv").read_text(encoding="utf-8")
    assert CONTROL.findall(text) == []
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert not re.match(r"[=+@-]", cell) or re.fullmatch(r"[+-]?\d[\d.e+-]*", cell)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@SUM(A1)", "\x1b=1", "\t=1", "\r=1", "\n@x"])
def test_csv_cell(text: str) -> None:
    """What starts like a formula, also behind what is stripped, is quoted."""
    assert str(csv_cell(text)).startswith("'")


@pytest.mark.parametrize("value", [-3, -3.5, 0, None, True, "plain", "a=b", "1-2"])
def test_csv_cell_leaves_the_rest(value: object) -> None:
    """Numbers stay numbers, and text that is no formula stays as it is."""
    assert csv_cell(value) == value


def test_markdown(run: Run, evil_model: Path, tmp_path: Path) -> None:
    """Pipes do not open cells, tags do not become markup."""
    assert run("analyze", evil_model, "-H", "t4", "-o", tmp_path / "r.md").code == 0
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert CONTROL.findall(text) == []
    assert "=cmd\\|" in text
    assert not re.search(r"(?<!\\)<(b|i)\b", text)


@pytest.mark.parametrize(
    ("text", "safe"),
    [("a|b", r"a\|b"), ("<b>", r"\<b\>"), ("`x`", r"\`x\`"), ("[x](y)", r"\[x\](y)"), ("a\nb", "ab"), ("x_y*z", r"x\_y\*z")],
)
def test_markdown_cell(text: str, safe: str) -> None:
    """Each sign that means something in Markdown is escaped; lines do not break."""
    assert markdown_cell(text) == safe


@pytest.mark.slow
def test_page(run: Run, evil_model: Path, tmp_path: Path) -> None:
    """The page shows tags as text, and holds no control character."""
    assert run("analyze", evil_model, "-H", "t4", "-o", tmp_path / "r.html").code == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert CONTROL.findall(page) == []


@pytest.mark.parametrize("code", [0x00, 0x07, 0x08, 0x1B, 0x7F, 0x85, 0x9B, 0x200E, 0x202E, 0x2066])
def test_clean(code: int) -> None:
    """Controls of C0 and C1 and marks of direction go; letters, also far ones, stay."""
    assert clean(f"é{chr(code)}漢") == "é漢"
    assert clean("a\nb") == "ab"
    assert clean("a\nb", keep_lines=True) == "a\nb"
