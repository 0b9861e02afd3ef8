"""`roofline worksheet`: problems that compute their own answers; a sheet in one of three formats, a class set, or the list."""

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
    from collections.abc import Callable
    from pathlib import Path

    from roofline.teach.worksheets import Sheet

_FORMATS = {"html": ".html", "md": ".md", "notebook": ".ipynb"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="worksheet")(takes(formats=_FORMATS.values(), tables=False)(worksheet))


def worksheet(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="Topic: transformer, kv-cache, roofline, batching, measured, moe, preemption, serving or scaling-book.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="N", help="Random seed. Default: 0.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="A..B", help="Write one sheet per seed, and an answer key (key.csv), to the folder given by -o."
        ),
    ] = None,
    answers: Annotated[bool, typer.Option("--answers", help="Include solutions and common mistakes.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Output format: html, md or notebook. Default: set by the suffix of -o, otherwise md.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the templates of each topic.")] = False,
    *,
    out: Output,
) -> int:
    """Write a problem sheet with computed solutions.

    An .html sheet checks the reader's answers and explains errors. The same seed and version always give the same sheet.

    Example: roofline worksheet kv-cache --seed 7 -o kv-cache.html
    """
    from roofline.teach.worksheets import TOPICS, by_topic, sheet

    if listed:
        _list(topic, out)
        return 0
    if topic is None:
        raise InputError(f"a worksheet needs a topic: {', '.join(TOPICS)}")
    by_topic(topic)
    if seeds is not None:
        if seed is not None or out.json:
            raise InputError(f"--seeds writes a folder of sheets: leave out {'--json' if out.json else '--seed'}")
        _class_set(topic, seeds, form, out, answers=answers)
        return 0
    name = _format(form, out.file)
    made = sheet(topic, _seed(seed))
    formats: dict[str, Callable[[], str | bytes]] = {
        suffix: partial(_written, made, each, answers=answers) for each, suffix in _FORMATS.items()
    }
    if out.file is not None and form is not None:
        formats.setdefault(out.file.suffix.lower(), formats[_FORMATS[name]])
    document = {**envelope({}), **_data(made, answers=answers)}
    out.emit(Result(document, None, lambda: write_stdout(_written(made, name, answers=answers)), formats))
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


def _written(made: Sheet, form: str, *, answers: bool) -> str:
    """A sheet in a format."""
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
        files.write_whole(folder / file, _written(made, name, answers=answers).encode())
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
