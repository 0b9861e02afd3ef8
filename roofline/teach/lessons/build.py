"""Build the course: execute every lesson once, and write its page, slides, notebook and figures, and an index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from roofline.documents import DATA_VERSION, __version__, code_cell, markdown_cell, notebook_json
from roofline.errors import InputError, MissingExtraError
from roofline.report.figure_files import check_extra, plain_svg, typeset
from roofline.report.page import as_json, content_policy, deflated, environment, inlined, page_scripts, style_sheets
from roofline.report.svg import svg
from roofline.teach.lessons.drawn import Drawn
from roofline.teach.lessons.execute import ExecutedCell, ExecutedLesson, execute
from roofline.teach.lessons.figures import Plot
from roofline.teach.lessons.formula import Formula
from roofline.teach.lessons.items import Item, Table, flattened
from roofline.teach.lessons.live.play import script as program_script
from roofline.teach.lessons.questions import Question
from roofline.teach.lessons.slides import slides
from roofline.teach.markdown import Ids, checked, html_of, inline_of, plain, preformatted


@dataclass(frozen=True, slots=True)
class Built:
    """The lessons, the files that were written, and the reason if PNG files were not."""

    lessons: tuple[ExecutedLesson, ...]
    files: tuple[Path, ...]
    left_out: str


def sources(folder: Path) -> list[Path]:
    """Return the lessons of a folder (`NN_name.py`), in order."""
    return sorted(folder.glob("[0-9][0-9]_*.py"))


def build(folder: Path, to: Path, progress: Callable[[str], object] = str, *, png: bool = True) -> Built:
    """Build the lessons of a folder.

    Args:
        folder: the sources.
        to: the folder to write to.
        progress: called with the name of each lesson before it is executed.
        png: whether to write PNG files of the figures, which needs the extra `figures`.

    Raises:
        InputError: the folder has no lesson, or a lesson breaks a rule; what else a cell raises is raised too.
    """
    paths = sources(folder)
    if not paths:
        raise InputError(f"{folder} has no lesson: sources are named 01_name.py and so on")
    lessons = []
    for path in paths:
        progress(path.stem)
        lessons.append(execute(path))
    written: list[Path] = []
    pictures: list[Path] = []
    for at, lesson in enumerate(lessons):
        neighbours = [
            (lessons[other], word) for other, word in ((at - 1, "Before"), (at + 1, "Next")) if 0 <= other < len(lessons)
        ]
        links = [(f"{one.name}.html", f"{word}: {one.title}") for one, word in neighbours]
        written.append(_write(to / f"{lesson.name}.html", page(lesson, links)))
        written.append(_write(to / "decks" / f"{lesson.name}.html", deck(lesson)))
        written.append(_write(to / "notebooks" / f"{lesson.name}.ipynb", notebook(lesson)))
        pictures += _write_svg(lesson, to / "figures")
    written.append(_write(to / "index.html", index(lessons)))
    drawn, why = write_png(pictures) if png else ([], "PNG is switched off")
    return Built(tuple(lessons), (*written, *pictures, *drawn), f"no PNG of the figures: {why}" if why else "")


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


WHEEL = f"roofline-{__version__}-py3-none-any.whl"
"""The wheel that `lessons/build.py` puts next to the notebooks: the package is not on an index."""
SETUP = f"""try:
    import roofline
except ImportError:
    from pathlib import Path

    wheel = Path("{WHEEL}")
    if not wheel.is_file():
        how = "upload it from the folder of the notebooks (on Colab: Files, at the left, and Upload)"
        raise FileNotFoundError(f"{{wheel}} is not in {{Path.cwd()}}: {{how}}.") from None
    %pip install -q ./{WHEEL}"""
"""The first cell of a notebook, for Colab and the like; it does nothing where roofline is installed."""


def notebook(lesson: ExecutedLesson) -> str:
    """Return a lesson as the JSON text of a notebook with its outputs: the same on every machine."""
    cells: list[dict[str, Any]] = []
    count = 0
    for executed in lesson.cells:
        text = executed.cell.text
        if executed.cell.kind == "markdown":
            cells.append(markdown_cell(_cell_id(text, len(cells)), text))
            continue
        if count == 0:
            cells.append(code_cell(_cell_id(SETUP, len(cells)), SETUP))
        count += 1
        cell = code_cell(_cell_id(text, len(cells)), text, count=count, outputs=_outputs(executed, count))
        cells.append({**cell, "metadata": {"tags": ["open"]}} if executed.cell.open else cell)
    return notebook_json(cells, roofline={"version": __version__})


def _cell_id(text: str, place: int) -> str:
    return sha256(f"{place} {text}".encode()).hexdigest()[:12]


def _outputs(executed: ExecutedCell, count: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if executed.printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": executed.printed.splitlines(keepends=True)})
    if executed.value is not None:
        data: dict[str, Any] = {"text/plain": repr(executed.value).splitlines(keepends=True)}
        if isinstance(executed.value, Item):
            data["text/markdown"] = executed.value.markdown().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs


_STYLES = ("style", "figures", "print", "lesson")
_BAR = ("elements", "actions", "bar")
_SCRIPTS = (*_BAR, "packed", "state", "controls", "view", "answers", "lesson")
_COMPUTED = (Formula, Plot, Table)
_HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)</h2>')
_COURSE = "Inference, computed: the course"


def page(lesson: ExecutedLesson, neighbours: Sequence[tuple[str, str]] = ()) -> str:
    """Return a lesson as HTML that needs no other file.

    Args:
        lesson: after its execution.
        neighbours: (address, text) of the links to the lessons before and after.

    Raises:
        InputError: a text has a formula that is typed, or a symbol that is not known.
    """
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
        above=_COURSE,
        slides=f"decks/{lesson.name}.html",
        contents=contents,
        body=body,
        neighbours=[{"href": href, "text": text} for href, text in neighbours],
        packed=packed,
        controls_json=as_json([] if play is None else [asdict(control) for control in play.controls]),
        data=True,
        answers=f"{lesson.title}, {_provenance()}",
        scripts=(own, model),
        script=own,
    )


_DECK_STYLES = ("style", "figures", "deck")


def deck(lesson: ExecutedLesson) -> str:
    """Return the slides of a lesson as HTML that needs no other file, with the presenter's view, notes and a print.

    Args:
        lesson: after its execution.
    """
    listed = slides(lesson)
    own = page_scripts((*_BAR, "deck"))
    style = style_sheets(_DECK_STYLES)
    ends = list(accumulate(minutes for minutes, _ in lesson.head.plan))
    parts = [
        {"title": plain(part), "minutes": minutes, "end": end}
        for (minutes, part), end in zip(lesson.head.plan, ends, strict=True)
    ]
    text: str = (
        environment()
        .get_template("deck.html.j2")
        .render(
            policy=content_policy(style, (own,)),
            style=style,
            script=own,
            theme="light",
            title=lesson.title,
            about=lesson.head.about,
            name=lesson.name,
            slides=[{**asdict(slide), "body": slide.body.replace("{title}", f"title-{slide.label}")} for slide in listed],
            count=listed[-1].label.rstrip(ascii_lowercase),
            parts=parts,
            parts_json=as_json(parts),
            provenance=_provenance(),
        )
    )
    return text


def index(lessons: Sequence[ExecutedLesson]) -> str:
    """Return the page that lists all lessons, as HTML."""
    entries = "".join(
        f'<li>\n<h2><a href="{lesson.name}.html">{inline_of(lesson.title)}</a></h2>\n<p>{inline_of(lesson.head.about)}</p>\n'
        f'<p class="note">{sum(minutes for minutes, _ in lesson.head.plan)} minutes. '
        f'<a href="notebooks/{lesson.name}.ipynb">Notebook of lesson {lesson.head.number}</a>, '
        f'<a href="decks/{lesson.name}.html">slides of lesson {lesson.head.number}</a></p>\n</li>\n'
        for lesson in lessons
    )
    about = (
        "Derivations in which every number is computed, questions before answers, exercises that check themselves, pages to "
        "play with."
    )
    # `lessons/build.py` writes the practice page
    link = '<p><a href="practice.html">Practice</a>: problems of every topic, a few minutes each, that check themselves.</p>\n'
    body = f'<ol class="course">\n{entries}</ol>\n{link}'
    own = page_scripts((*_BAR, "course"))
    return _render(
        title=_COURSE, about=about, above="", slides="", contents=[], body=body, neighbours=[], packed={}, controls_json="",
        data=False, scripts=(own,), script=own,
    )  # fmt: skip


def _render(*, scripts: Sequence[str], **context: Any) -> str:
    style = style_sheets(_STYLES)
    template = environment().get_template("lesson.html.j2")
    text: str = template.render(policy=content_policy(style, scripts), style=style, provenance=_provenance(), **context)
    return text


def _provenance() -> str:
    return (
        f"Every number on this page was computed by roofline {__version__} (data {DATA_VERSION}) when it was written. "
        "Text: CC BY 4.0. Code: Apache-2.0."
    )


def _body(lesson: ExecutedLesson) -> str:
    ids = Ids()
    return "".join(_cell_html(cell, ids, is_first=at == 0) for at, cell in enumerate(lesson.cells))


def _cell_html(executed: ExecutedCell, ids: Ids, *, is_first: bool) -> str:
    if executed.cell.kind == "markdown":
        text = checked(executed.cell.text)
        return html_of(text.partition("\n")[2] if is_first else text, ids)
    output = _printed(executed.printed) if executed.printed else ""
    if isinstance(executed.value, Item):
        output += executed.value.html(ids)
    elif executed.value is not None:
        output += _printed(repr(executed.value))
    return _code(executed) + output if executed.cell.open else output + _code(executed)


def _printed(text: str) -> str:
    return preformatted(text).replace("<pre ", '<pre class="printed" ', 1)


def _code(executed: ExecutedCell) -> str:
    """The code of a cell: open, folded, or nothing if it holds an answer or computes nothing."""
    text = preformatted(executed.cell.text)
    if executed.cell.open:
        return text
    items = flattened(executed.value) if isinstance(executed.value, Item) else []
    if not items or any(isinstance(item, Question) for item in items) or not any(isinstance(item, _COMPUTED) for item in items):
        return ""
    return f'<details class="code">\n<summary>Code of this output</summary>\n{text}</details>\n'


def _write_svg(lesson: ExecutedLesson, folder: Path) -> list[Path]:
    """Write every figure and drawing of a lesson as `NN-key.svg`, for light slides, and as `NN-key-dark.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for item in lesson.items():
        if isinstance(item, Plot):
            pictures = {item.figure.key: svg(item.figure)}
        elif isinstance(item, Drawn):
            pictures = {drawing.key: drawing.svg for drawing in item.drawings}
        else:
            continue
        for key, picture in pictures.items():
            for ending, dark in (("", False), ("-dark", True)):
                path = folder / f"{lesson.head.number:02d}-{key}{ending}.svg"
                path.write_text(plain_svg(picture, dark=dark), encoding="utf-8")
                written.append(path)
    return written


def write_png(pictures: Iterable[Path]) -> tuple[list[Path], str]:
    """Write a PNG next to each SVG, two pixels per pixel of the SVG.

    Returns:
        The files, and the reason if there are none: the extra that makes them is not installed.
    """
    try:
        check_extra()
    except MissingExtraError as error:
        return [], str(error)
    written = []
    for path in pictures:
        png = path.with_suffix(".png")
        png.write_bytes(typeset(path.read_text(encoding="utf-8"), ".png"))
        written.append(png)
    return written, ""
