"""`roofline claim`: is a number that is stated possible?"""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files
from roofline.cli.commands import Command
from roofline.cli.options import Options, changed, given, hardware_option, model_argument, own, takes
from roofline.cli.output import Output, Result, Rows, write_stdout
from roofline.cli.tables import markdown_document
from roofline.errors import InputError
from roofline.predict.options import ALL, PARALLELISM
from roofline.text import clean, markdown_cell

if TYPE_CHECKING:
    from roofline.audit.claims.result import ClaimJudgement, Judgement

_CLAIM = "What is claimed"
_WIDTH = 120
_STYLES = {"possible": "bold green", "implausible": "bold yellow", "impossible": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    stated = (
        changed("phase", help="Which tokens the rate counts.", choices=("decode", "prefill"), metavar="decode|prefill",
                default="decode", group=_CLAIM),
        changed("peak_flops", help='A dense peak of the hardware, "989 TFLOP/s".', group=_CLAIM),
        changed("batch", default="the most favourable"),
        changed("input_len", default=""),
        changed("context", help="Tokens cached before the step.", default="input-len, or the shortest"),
    )  # fmt: skip
    without = ("segments",)
    app.command(name="claim", cls=_Command)(takes(ALL, without=without, changed=stated)(claim))


class _Command(Command):
    """A command whose help ends with the grammar, which is read only when help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The usual help, then the grammar; with boxes the former is printed already."""
        from roofline.audit.claims.grammar import grammar

        super().format_help(ctx, formatter)
        formatter.write(f"\n{grammar()}\n")


def claim(  # noqa: PLR0917 - a flag each
    words: Annotated[list[str] | None, model_argument("The claim in words, a model, or both.", '["TEXT"] [MODEL]')] = None,
    hardware: Annotated[str | None, hardware_option("Id or YAML file.")] = None,
    tokens_per_s: Annotated[
        str | None, own("--tokens-per-s", text="Tokens per second, of the whole batch.", panel=_CLAIM, metavar="X")
    ] = None,
    per_user: Annotated[bool, typer.Option("--per-user", help="The rate is that of one user.", rich_help_panel=_CLAIM)] = False,
    per_gpu: Annotated[bool, typer.Option("--per-gpu", help="The rate is that of one device.", rich_help_panel=_CLAIM)] = False,
    ttft: Annotated[str | None, own("--ttft", text='Time to first token, "10 ms".', panel=_CLAIM, metavar="T")] = None,
    tpot: Annotated[str | None, own("--tpot", text='Time per output token, "7 ms".', panel=_CLAIM, metavar="T")] = None,
    fits: Annotated[bool, typer.Option("--fits", help="That it fits in memory.", rich_help_panel=_CLAIM)] = False,
    devices: Annotated[
        str | None,
        own(
            "--devices",
            text="Devices, divided in the kindest way where no size is given.",
            panel=PARALLELISM,
            metavar="N",
        ),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Whether a number is possible, implausible or impossible, why, and which usual mistakes would give it.

    Exit code 1 when it is impossible. What is left unsaid is read in the kindest way. Example: roofline claim
    "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"
    """
    query = given({**locals(), **options}, "words", "hardware")
    from roofline.audit.claims import judge

    text, model = _text_and_model(words or [])
    judgement = judge(text, model, hardware, **query)
    formats = {".md": lambda: _markdown(judgement)}
    out.emit(Result(judgement.to_dict(), lambda: _rows(judgement), lambda: _show(judgement), formats))
    return 1 if judgement.verdict == "impossible" else 0


def _text_and_model(words: list[str]) -> tuple[str | None, str | None]:
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
    """Whether a word is a path, a name on Hugging Face, or a name of models and nothing else."""
    from roofline.audit.claims.names import matching_ids

    if " " not in word.strip():
        return not any(sign in word for sign in ("=", ":")) and ("/" in word or bool(matching_ids("models", word)))
    return files.exists(word) or bool(matching_ids("models", word))


def _rows(judgement: Judgement) -> Rows:
    """A row per claim."""
    return [
        {
            "claim": one.claim.title, "verdict": one.verdict, "claimed": one.claimed, "ceiling": one.ceiling,
            "unit": one.claim.unit, "ratio": one.ratio, "bound": one.bound, "estimate": one.estimate, "best": one.best,
            "fits": one.fits, "likely_mistakes": "; ".join(mistake.name for mistake in one.likely_mistakes),
        }
        for one in judgement.claims
    ]  # fmt: skip


def _show(judgement: Judgement) -> None:
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


def _lines(one: ClaimJudgement, width: int) -> list[str]:
    lines = _wrapped(f"{one.verdict.capitalize()}: {one.headline}", "", "  ", width)
    if one.ceiling is not None and one.claim.kind != "fits":
        lines += [
            "",
            f"  claimed    {one.claim.format_value(one.claimed or 0)}",
            f"  ceiling    {one.claim.format_value(one.ceiling)}",
        ]
        if one.estimate is not None:
            best = f", at best {one.claim.format_value(one.best)}" if one.best is not None else ""
            lines.append(f"  expected   {one.claim.format_value(one.estimate)}{best}")
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


def _markdown(judgement: Judgement) -> str:
    """A judgement as a Markdown document."""
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
    return markdown_document(parts)
