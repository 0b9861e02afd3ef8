"""`roofline worksheet`: problems that compute their own answers; a sheet, a class set, a question bank, or the list."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files
from roofline.cli.help import OUTPUT
from roofline.cli.options import takes
from roofline.cli.output import Output, Result, as_csv, write_stdout
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.errors import InputError, UnknownNameError
from roofline.text import Answer, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roofline.teach.worksheets import Sheet

_FORMATS = {"html": ".html", "md": ".md", "notebook": ".ipynb", "moodle": ".xml", "qti": ".zip"}
_ALL = "all"
"""Instead of a topic: all of them."""
_BANKS = ("moodle", "qti")
"""Formats for learning-management systems, which hold several sheets in a file."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="worksheet")(takes(formats=_FORMATS.values(), tables=False)(worksheet))


def worksheet(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="Topic, such as kv-cache (--list has them), or all.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="N", help="Random seed. Default: 0.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds",
            metavar="A..B",
            help="Write one sheet per seed, and an answer key (key.csv), to the folder given by -o; with moodle or qti, all to "
            "one question bank.",
        ),
    ] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Include solutions and common mistakes.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Output format: html, md, notebook, moodle (XML) or qti (zip). Default: the suffix of -o, otherwise md.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the templates of each topic.")] = False,
    *,
    out: Output,
) -> int:
    """Write a problem sheet with computed solutions.

    An .html sheet checks the reader's answers and explains errors. The same seed and version always give the same sheet. Topic
    all writes a page to practice every topic, a problem at a time.

    Example: roofline worksheet kv-cache --seed 7 -o kv-cache.html
    """
    from roofline.teach.worksheets import TOPICS, by_topic, sheet
    from roofline.teach.worksheets.sheet import parse_seeds

    if listed:
        _list(None if topic == _ALL else topic, out)
        return 0
    if topic is None:
        raise InputError(f"a worksheet needs a topic: {', '.join(TOPICS)}, or {_ALL}")
    if topic != _ALL:
        by_topic(topic)
    if seeds is not None and (seed is not None or out.json):
        raise InputError(f"--seeds writes a folder of sheets: leave out {'--json' if out.json else '--seed'}")
    if topic == _ALL:
        return _every_topic(_seed(seed), seeds, form, out)
    if seeds is not None and form not in _BANKS and not out.has_suffix(*(_FORMATS[bank] for bank in _BANKS)):
        _class_set(topic, seeds, form, out, answers=answers)
        return 0
    name = _format(form, out.file)
    if name == "qti" and out.file is None and not out.json:
        raise InputError("a QTI package is a zip: name a file with -o FILE.zip")
    sheets = [sheet(topic, each) for each in ([_seed(seed)] if seeds is None else parse_seeds(seeds))]
    made = sheets[0]
    formats: dict[str, Callable[[], str | bytes]] = {
        suffix: partial(_written, sheets, each, answers=answers) for each, suffix in _FORMATS.items()
    }
    if out.file is not None and form is not None:
        formats.setdefault(out.file.suffix.lower(), formats[_FORMATS[name]])
    document = {**envelope({}), **_data(made, answers=answers)}
    out.emit(Result(document, None, lambda: write_stdout(str(formats[_FORMATS[name]]())), formats))
    return 0


def _every_topic(seed: int, seeds: str | None, form: str | None, out: Output) -> int:
    """The practice page, or a question bank of every topic."""
    from roofline.teach.worksheets import TOPICS, sheet
    from roofline.teach.worksheets.practice import practice
    from roofline.teach.worksheets.sheet import parse_seeds

    name = _format(form, out.file)
    if out.file is None or out.json or name not in ("html", *_BANKS) or (name == "html" and seeds is not None):
        raise InputError("all topics are a practice page (-o FILE.html) or a question bank (-o FILE.xml, -o FILE.zip)")
    if name == "html":
        content: str | bytes = practice(seed)
    else:
        numbers = [seed] if seeds is None else parse_seeds(seeds)
        content = _written([sheet(topic, one) for topic in TOPICS for one in numbers], name, answers=True)
    files.check_target(out.file)
    files.write_whole(out.file, content.encode() if isinstance(content, str) else content)
    out.note(f"wrote {out.file}")
    return 0


def _format(form: str | None, output: Path | None) -> str:
    """The format of a sheet, by its name or by the suffix of its file; the two must agree."""
    if form is not None and form not in _FORMATS:
        raise UnknownNameError("format", form, _FORMATS, list_all=True)
    suffix = None if output is None else output.suffix.lower()
    by_suffix = next((name for name, ending in _FORMATS.items() if ending == suffix), None)
    if form is not None and by_suffix is not None and form != by_suffix:
        raise InputError(f"--format {form} and {output} disagree: its file ends with {_FORMATS[form]}")
    return form or by_suffix or "md"


def _seed(text: str | None) -> int:
    if text is None:
        return 0
    if not text.strip().isdecimal() or len(text) > 20:
        raise InputError(f"--seed {text[:40]!r}: a seed is a whole number such as 7")
    return int(text)


def _written(sheets: Sequence[Sheet], form: str, *, answers: bool) -> str | bytes:
    """A sheet in a format; several in one for learning-management systems."""
    if form in _BANKS:
        from roofline.teach.worksheets.lms import moodle, qti

        return moodle(sheets) if form == "moodle" else qti(sheets)
    (made,) = sheets
    if form == "html":
        from roofline.teach.worksheets.page import page

        return page(made, answers=answers)
    if form == "notebook":
        from roofline.teach.worksheets.export import notebook

        return notebook(made, answers=answers)
    from roofline.teach.worksheets.export import markdown

    return markdown(made, answers=answers)


def _class_set(topic: str, text: str, form: str | None, out: Output, *, answers: bool) -> None:
    """A folder with a sheet per seed, and the key of all of them. Files of these names are replaced."""
    from roofline.teach.worksheets import sheet
    from roofline.teach.worksheets.sheet import answer_rows, parse_seeds

    folder = out.file
    if folder is None:
        raise InputError("--seeds writes a folder of sheets: say where with -o FOLDER")
    seeds = parse_seeds(text)
    name = _format(form, None) if form is not None else "html"
    if not files.is_folder(folder):
        files.check_target(folder)
        try:
            folder.mkdir()
        except OSError as error:
            raise InputError(f"cannot write {folder}: {error.strerror}") from None
    sheets = [sheet(topic, seed) for seed in seeds]
    width = len(str(seeds[-1]))
    for made in sheets:
        file = f"{topic}-{made.seed:0{width}d}{_FORMATS[name]}"
        files.write_whole(folder / file, str(_written([made], name, answers=answers)).encode())
    files.write_whole(folder / "key.csv", as_csv(answer_rows(sheets)).encode())
    out.note(f"wrote {folder}: {len(sheets)} sheets and key.csv")


def _list(topic: str | None, out: Output) -> None:
    """Topics and templates."""
    from roofline.teach.worksheets import TOPICS, by_topic

    templates = [template for name in ([topic] if topic is not None else TOPICS) for template in by_topic(name)]
    rows = [{"topic": one.topic, "template": one.id, "minutes": one.minutes} for one in templates]
    cells = tuple((one.topic, one.id, str(one.minutes)) for one in templates)
    every = Table("", "", ("topic", "template", "minutes"), (False, False, True), cells)
    by_name: dict[str, list[Any]] = {}
    for one in templates:
        by_name.setdefault(one.topic, []).append(one)
    sums = tuple((name, str(len(some)), str(sum(one.minutes for one in some))) for name, some in by_name.items())
    answer = Answer(
        title=f"{len(templates)} problems, about {sum(one.minutes for one in templates)} minutes",
        brief=(every if topic is not None else Table("", "", ("topic", "problems", "minutes"), (False, True, True), sums),),
        details=(every,),
        hint="roofline worksheet TOPIC --seed 7 -o FILE.html" + ("" if topic is not None else "    Every problem: -v"),
    )
    show = lambda: print_answer(answer, out.verbosity)  # noqa: E731
    out.emit(Result({**envelope({}), "templates": rows}, lambda: rows, show))


def _data(made: Sheet, *, answers: bool) -> dict[str, Any]:
    """A sheet as data; without `answers`, the problems alone."""
    problems = []
    for entry in made.problems:
        problem = entry.problem
        row: dict[str, Any] = {
            "number": entry.number, "template": entry.template, "title": problem.title, "minutes": entry.minutes,
            "text": problem.text, "kind": problem.answer.kind, "tolerance": problem.answer.tolerance,
            "choices": list(problem.answer.choices),
        }  # fmt: skip
        if answers:
            row["answer"] = {"value": problem.answer.value, "shown": problem.right_answer}
            row["mistakes"] = [asdict(mistake) for mistake in problem.mistakes]
            row["source"] = problem.source
        problems.append(row)
    return {"topic": made.topic, "seed": made.seed, "title": made.title, "minutes": made.minutes, "problems": problems}
