"""A lesson as one page that needs nothing else: text, style, the program of its controls and questions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from roofline.report.page import as_json, csp_hash, deflated, environment, inlined, page_scripts, style_sheets
from roofline.teach.lessons.ask import Question
from roofline.teach.lessons.derived import Formula
from roofline.teach.lessons.drawn import Drawn
from roofline.teach.lessons.execute import Done, Executed, apart
from roofline.teach.lessons.item import Ids, Item
from roofline.teach.lessons.live.program import script as program_script
from roofline.teach.lessons.prose import checked, html_of, inline_of
from roofline.teach.lessons.tabled import Tabled
from roofline.text import clean
from roofline.version import DATA_VERSION, __version__

_STYLES = ("style", "figures", "print", "lesson")
_SCRIPTS = ("packed", "state", "controls", "elements", "view", "lesson")
_COMPUTED = (Formula, Drawn, Tabled)
_HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)</h2>')
COURSE = "Inference, computed: eight lessons"


def page(lesson: Executed, neighbours: Sequence[tuple[str, str]] = ()) -> str:
    """The whole file. `neighbours` are (address, text) of the lessons before and after."""
    body = _body(lesson)
    contents = [{"id": name, "title": title} for name, title in _HEADING.findall(body)]
    play = lesson.play
    model = inlined(program_script())
    own = page_scripts(_SCRIPTS)
    data = None if play is None else play.data
    packed = {"data": deflated(as_json(data)), "model": deflated(model)}
    return _render(
        title=lesson.title,
        about=lesson.head.about,
        above=COURSE,
        contents=contents,
        body=body,
        neighbours=[{"href": href, "text": text} for href, text in neighbours],
        packed=packed,
        controls_json=as_json([] if play is None else [asdict(control) for control in play.controls]),
        data=True,
        scripts=(own, model),
        script=own,
    )


def index(lessons: Sequence[Executed]) -> str:
    """The page of all lessons."""
    entries = "".join(
        f'<li>\n<h2><a href="{lesson.name}.html">{inline_of(lesson.title)}</a></h2>\n<p>{inline_of(lesson.head.about)}</p>\n'
        f'<p class="note">{sum(minutes for minutes, _ in lesson.head.plan)} minutes. '
        f'<a href="notebooks/{lesson.name}.ipynb">Notebook of lesson {lesson.head.number}</a></p>\n</li>\n'
        for lesson in lessons
    )
    about = (
        "Derivations in which every number is computed, questions before answers, exercises that check themselves, pages to "
        "play with."
    )
    body = f'<ol class="course">\n{entries}</ol>\n'
    return _render(
        title=COURSE, about=about, above="", contents=[], body=body, neighbours=[], packed={}, controls_json="", data=False,
        scripts=(), script="",
    )  # fmt: skip


def _render(*, scripts: Sequence[str], **given: Any) -> str:
    style = style_sheets(_STYLES)
    template = environment().get_template("lesson.html.j2")
    text: str = template.render(policy=_policy(scripts, style), style=style, provenance=_provenance(), **given)
    return text


def _provenance() -> str:
    return (
        f"Every number on this page was computed by roofline {__version__} (data {DATA_VERSION}) when it was written. "
        "Text: CC BY 4.0. Code: Apache-2.0."
    )


def _policy(scripts: Sequence[str], style: str) -> str:
    """What the page may do: run these scripts, use this style. Nothing else."""
    allowed = " ".join(map(csp_hash, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {csp_hash(style)}; img-src data:; connect-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )


def _body(lesson: Executed) -> str:
    ids = Ids()
    return "".join(_of_cell(done, ids, is_first=at == 0) for at, done in enumerate(lesson.cells))


def _of_cell(done: Done, ids: Ids, *, is_first: bool) -> str:
    if done.cell.kind == "markdown":
        text = checked(done.cell.text)
        return html_of(text.partition("\n")[2] if is_first else text, ids)
    printed = f'<pre class="printed" tabindex="0"><code>{_escaped(done.printed)}</code></pre>\n' if done.printed else ""
    if isinstance(done.value, Item):
        shown = done.value.html(ids)
    else:
        shown = (
            "" if done.value is None else f'<pre class="printed" tabindex="0"><code>{_escaped(repr(done.value))}</code></pre>\n'
        )
    return _code(done) + printed + shown if done.cell.open else printed + shown + _code(done)


def _code(done: Done) -> str:
    """The code of a cell: to be read, to be opened, or, where it holds an answer or nothing but words, not at all."""
    text = f'<pre tabindex="0"><code>{_escaped(done.cell.text)}</code></pre>\n'
    if done.cell.open:
        return text
    items = apart(done.value) if isinstance(done.value, Item) else []
    if not items or any(isinstance(item, Question) for item in items) or not any(isinstance(item, _COMPUTED) for item in items):
        return ""
    return f'<details class="code">\n<summary>How this was computed</summary>\n{text}</details>\n'


def _escaped(text: str) -> str:
    return escape(clean(text, keep_lines=True))
