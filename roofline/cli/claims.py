"""A judgement on a terminal, and as rows."""

from __future__ import annotations

import sys
import textwrap
from typing import Any

from roofline import files
from roofline.audit.claims import judge
from roofline.audit.claims.names import matches
from roofline.audit.claims.result import Judged, Judgement
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.errors import InputError
from roofline.text import clean

_WIDTH = 120
_STYLES = {"possible": "bold green", "implausible": "bold yellow", "impossible": "bold red"}


def answer(words: list[str], hardware: str | None, options: dict[str, Any]) -> tuple[Answer, int]:
    """The judgement in every form, and the exit code."""
    text, model = _sorted(words)
    judgement = judge(text, model, hardware, **options)
    formats = {".md": lambda: markdown(judgement)}
    found = Answer(judgement.to_dict(), lambda: rows(judgement), lambda: show(judgement), formats)
    return found, 1 if judgement.verdict == "impossible" else 0


def _sorted(words: list[str]) -> tuple[str | None, str | None]:
    """Which argument is the text, and which the model."""
    texts = [word for word in words if not _is_model(word)]
    models = [word for word in words if _is_model(word)]
    if len(texts) > 1:
        two = f"{texts[0]!r} and {texts[1]!r}"
        raise InputError(f"two texts: {two}. Quote the whole claim, and give at most one MODEL beside it")
    if len(models) > 1:
        raise InputError(f"two models: {models[0]!r} and {models[1]!r}; a claim is about one")
    if texts and " " not in texts[0].strip():
        # one word is no claim: it is meant as a name
        return None, models[0] if models else texts[0]
    return texts[0] if texts else None, models[0] if models else None


def _is_model(word: str) -> bool:
    """A path, a name on Hugging Face, or a name of models and nothing else."""
    if " " not in word.strip():
        return not any(sign in word for sign in ("=", ":")) and ("/" in word or bool(matches("models", word)))
    return files.exists(word) or bool(matches("models", word))


def rows(judgement: Judgement) -> Rows:
    """A row a claim."""
    return [
        {
            "claim": one.claim.title, "verdict": one.verdict, "claimed": one.claimed, "ceiling": one.ceiling,
            "unit": one.claim.unit, "ratio": one.ratio, "bound": one.bound, "estimate": one.estimate, "best": one.best,
            "fits": one.fits, "likely_mistakes": "; ".join(mistake.name for mistake in one.likely_mistakes),
        }
        for one in judgement.claims
    ]  # fmt: skip


def show(judgement: Judgement) -> None:
    """Verdict, ceiling, derivation, likely mistakes, assumptions."""
    if not sys.stdout.isatty():
        write_stdout("\n\n".join("\n".join(_lines(one, _WIDTH)) for one in judgement.claims))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for index, one in enumerate(judgement.claims):
        if index:
            console.print()
        first, *rest = _lines(one, console.width)
        word, colon, headline = first.partition(":")
        console.print(Text.assemble((word, _STYLES[one.verdict]), (colon + headline, "bold")), soft_wrap=True)
        for line in rest:
            console.print(Text(line, style="bold" if line and not line.startswith(" ") else ""), soft_wrap=True)


def _lines(one: Judged, width: int) -> list[str]:
    lines = _wrapped(f"{one.verdict.capitalize()}: {one.headline}", "", "  ", width)
    if one.ceiling is not None and one.claim.kind != "fits":
        lines += ["", f"  claimed    {one.claim.written(one.claimed or 0)}", f"  ceiling    {one.claim.written(one.ceiling)}"]
        if one.estimate is not None:
            best = f", at best {one.claim.written(one.best)}" if one.best is not None else ""
            lines.append(f"  expected   {one.claim.written(one.estimate)}{best}")
        lines.append(f"  ratio      {_ratio(one.ratio or 0.0)}{' (beyond the ceiling)' if one.verdict == 'impossible' else ''}")
    sections = (
        ("Why", list(one.derivation)),
        ("What would give this number", [f"{mistake.name}: {mistake.why}" for mistake in one.likely_mistakes]),
        (
            "Assumed",
            [f"{note.name} = {note.value} ({note.origin}){': ' + note.why if note.why else ''}" for note in one.assumptions],
        ),
    )
    for title, entries in sections:
        if entries:
            lines += ["", title]
            for entry in entries:
                lines += _wrapped(entry, "  ", "    ", width)
    return lines


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


def _wrapped(text: str, first: str, further: str, width: int) -> list[str]:
    wide = max(min(width, _WIDTH), 40)
    return textwrap.wrap(
        clean(text), wide, initial_indent=first, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def markdown(judgement: Judgement) -> str:
    """The same as a Markdown document."""
    from roofline.cli.text import markdown_cell

    parts = []
    for one in judgement.claims:
        parts.append(f"# {one.verdict.capitalize()}: {markdown_cell(one.claim.title)}\n\n{markdown_cell(one.headline)}")
        for title, entries in (
            ("Why", list(one.derivation)),
            ("What would give this number", [f"{mistake.name}: {mistake.why}" for mistake in one.likely_mistakes]),
            ("Assumed", [f"{note.name} = {note.value}: {note.why or note.origin}" for note in one.assumptions]),
        ):
            if entries:
                parts.append(f"## {title}\n\n" + "\n".join(f"- {markdown_cell(entry)}" for entry in entries))
    return "\n\n".join(parts) + "\n"
