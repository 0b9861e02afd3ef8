"""What `roofline worksheet` writes: a sheet in one of three forms, a class set, or the list of templates."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from roofline import files
from roofline.cli.output import Answer, as_csv, emit, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError, UnknownNameError
from roofline.report.summary import Table
from roofline.teach.worksheets import TOPICS, Sheet, by_topic, sheet
from roofline.teach.worksheets.sheet import answer_rows, parse_seeds
from roofline.text import clean
from roofline.version import envelope

FORMATS = {"html": ".html", "md": ".md", "notebook": ".ipynb"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was given."""

    topic: str | None
    seed: str | None
    seeds: str | None
    answers: bool
    form: str | None
    listed: bool


def answer(asked: Asked, *, json: bool, output: Path | None, quiet: bool) -> int:
    """Write what was asked for; the exit code.

    Raises:
        InputError: no topic, an unknown one, a seed that is none, a form that does not go with the file.
    """
    if asked.listed:
        _list(asked.topic, json=json, output=output, quiet=quiet)
        return 0
    if asked.topic is None:
        raise InputError(f"a worksheet needs a topic: {', '.join(TOPICS)}")
    by_topic(asked.topic)
    if asked.seeds is not None:
        if asked.seed is not None or json:
            raise InputError(f"--seeds writes a folder of sheets: leave out {'--json' if json else '--seed'}")
        _class_set(asked, output, quiet=quiet)
        return 0
    form = _form(asked.form, output)
    made = sheet(asked.topic, _seed(asked.seed))
    formats: dict[str, Callable[[], str | bytes]] = {
        ending: partial(_written, made, name, answers=asked.answers) for name, ending in FORMATS.items()
    }
    if output is not None and asked.form is not None and output.suffix.lower() not in formats:
        formats[output.suffix.lower()] = formats[FORMATS[form]]
    whole = {**envelope({}), **_plain(made, answers=asked.answers)}
    shown = Answer(whole, None, lambda: write_stdout(_written(made, form, answers=asked.answers)), formats)
    emit(shown, json=json, output=output, quiet=quiet)
    return 0


def _form(form: str | None, output: Path | None) -> str:
    """The form of a sheet, by its name or by the suffix of its file; both have to agree where both say something."""
    if form is not None and form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS, list_all=True)
    suffix = None if output is None else output.suffix.lower()
    by_suffix = next((name for name, ending in FORMATS.items() if ending == suffix), None)
    if form is not None and by_suffix is not None and form != by_suffix:
        raise InputError(f"--format {form} and {output} disagree: its file ends with {FORMATS[form]}")
    return form or by_suffix or "md"


def _seed(text: str | None) -> int:
    if text is None:
        return 0
    if not text.strip().isdecimal() or len(text) > 20:
        raise InputError(f"--seed {text[:40]!r}: a seed is a whole number such as 7")
    return int(text)


def _written(made: Sheet, form: str, *, answers: bool) -> str:
    """A sheet in a form."""
    if form == "html":
        from roofline.teach.worksheets.page import page

        return page(made, answers=answers)
    if form == "notebook":
        from roofline.teach.worksheets.export import notebook

        return notebook(made, answers=answers)
    from roofline.teach.worksheets.export import markdown

    return markdown(made, answers=answers)


def _class_set(asked: Asked, output: Path | None, *, quiet: bool) -> None:
    """A folder with a sheet a seed, and the key of all of them; what is written under these names is written again."""
    assert asked.topic is not None  # noqa: S101 - narrows the type: it was looked up
    if output is None:
        raise InputError("--seeds writes a folder of sheets: say where with -o FOLDER")
    seeds = parse_seeds(asked.seeds or "")
    form = _form(asked.form, None) if asked.form is not None else "html"
    if not files.is_folder(output):
        files.check_target(output)
        try:
            output.mkdir()
        except OSError as error:
            raise InputError(f"cannot write {output}: {error.strerror}") from None
    sheets = [sheet(asked.topic, seed) for seed in seeds]
    width = len(str(seeds[-1]))
    for made in sheets:
        name = f"{asked.topic}-{made.seed:0{width}d}{FORMATS[form]}"
        files.write_whole(output / name, _written(made, form, answers=asked.answers).encode())
    files.write_whole(output / "key.csv", as_csv(answer_rows(sheets)).encode())
    if not quiet:
        sys.stderr.write(f"wrote {clean(output)}: {len(sheets)} sheets and key.csv\n")


def _list(topic: str | None, *, json: bool, output: Path | None, quiet: bool) -> None:
    """Topics and templates."""
    found = [template for name in ([topic] if topic is not None else TOPICS) for template in by_topic(name)]
    rows = [{"topic": one.topic, "template": one.id, "minutes": one.minutes} for one in found]
    table = Table(
        "Templates",
        f"{len(found)} problems, about {sum(one.minutes for one in found)} minutes",
        ("topic", "template", "minutes"),
        (False, False, True),
        tuple((one.topic, one.id, str(one.minutes)) for one in found),
    )
    emit(
        Answer({**envelope({}), "templates": rows}, lambda: rows, lambda: print_table(table)),
        json=json,
        output=output,
        quiet=quiet,
    )


def _plain(made: Sheet, *, answers: bool) -> dict[str, Any]:
    """A sheet as data; without `answers`, what is asked alone."""
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
