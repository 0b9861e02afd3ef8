"""`roofline claim`: is a number that is stated possible?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import files
from roofline.cli.commands import Command
from roofline.cli.options import Options, changed, given, hardware_option, invocation, model_argument, own, takes
from roofline.cli.output import Output, Result, Rows
from roofline.cli.tables import markdown_document, print_answer, write
from roofline.errors import InputError
from roofline.formatting import about_digits, percent
from roofline.predict.options import ALIASES, ALL, PREFIX
from roofline.text import Answer, markdown_cell

if TYPE_CHECKING:
    from roofline.audit.claims.result import ClaimJudgement, Judgement
    from roofline.report.figure import View

FIGURES = ("scale-*",)
_WIDTH = 120
_FAVORABLE = "chosen in the claim's favor"
_STYLES = {"possible": "bold green", "implausible": "bold yellow", "impossible": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    stated = (
        changed("phase", help="Tokens counted in the rate.", choices=("decode", "prefill"), metavar="decode|prefill",
                default="decode", common=True),
        changed("peak_flops", common=True, help='Claimed dense peak of the hardware, such as "989 TFLOP/s".'),
        changed("batch", default=_FAVORABLE),
        changed("tensor_parallel_size", aliases=("tp",), default=_FAVORABLE),  # --num-gpus is --devices here
        *(changed(ALIASES[short], default=_FAVORABLE) for short in ("pp", "dp", "ep")),
        changed("input_len", default=""),
        changed("output_len", help="Number of output tokens per sequence."),
        *(changed(name, common=False) for name in PREFIX),
        changed("context", default="same as --input-len, or the shortest possible"),
    )  # fmt: skip
    app.command(name="claim", cls=_Command)(
        takes(ALL, without=("segments",), changed=stated, figures=FIGURES, formats=[".html"])(claim)
    )


class _Command(Command):
    """A command whose help ends with the grammar, which is read only when help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The usual help, then the grammar; with boxes the former is printed already."""
        from roofline.audit.claims.grammar import grammar

        super().format_help(ctx, formatter)
        formatter.write(f"\n{grammar()}\n")


def claim(  # noqa: PLR0917 - a flag each
    words: Annotated[list[str] | None, model_argument("Claim in words, a model, or both.", '["TEXT"] [MODEL]')] = None,
    hardware: Annotated[str | None, hardware_option()] = None,
    tokens_per_s: Annotated[
        str | None, own("--tokens-per-s", text="Claimed tokens per second of the whole batch.", metavar="X")
    ] = None,
    per_user: Annotated[bool, typer.Option("--per-user", help="Interpret the rate as per user.")] = False,
    per_gpu: Annotated[bool, typer.Option("--per-gpu", help="Interpret the rate as per device.")] = False,
    ttft: Annotated[str | None, own("--ttft", text='Claimed time to first token, such as "10 ms".', metavar="T")] = None,
    tpot: Annotated[str | None, own("--tpot", text='Claimed time per output token, such as "7 ms".', metavar="T")] = None,
    fits: Annotated[bool, typer.Option("--fits", help="Claim that the model fits in memory.")] = False,
    devices: Annotated[
        str | None,
        own(
            "--devices",
            "--num-gpus",
            "--gpus",
            text="Number of devices. Default: product of the parallel sizes that are given, or else the devices of HW.",
            metavar="N",
        ),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Check whether a stated performance number is possible.

    The verdict is possible, implausible or impossible, with the reason and the mistakes that could explain the number. What
    the claim leaves open is chosen in its favor. A model and hardware are required, in TEXT or as MODEL and --hardware.
    Exits with code 1 if the claim is impossible.

    Example: roofline claim "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"
    """
    query = given({**locals(), **options}, "words", "hardware")
    from roofline.audit.claims import judge

    text, model = _text_and_model(words or [])
    judgement = judge(text, model, hardware, **query)
    line = invocation("claim", words or [], given({"hardware": hardware, **query}))

    def page() -> str:
        from roofline.report.claim_page import claim_page

        return claim_page(judgement, text, line)

    def figures() -> View:
        from roofline.report.claim_page import view

        return view(judgement, text, "")

    def show() -> None:
        _show(judgement, out.verbosity)

    formats = {".md": lambda: _markdown(judgement), ".html": page}
    out.emit(Result(judgement.to_dict(), lambda: _rows(judgement), show, formats, figures, line))
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
    from roofline.specs.library import is_path

    if " " not in word.strip():
        rest = word.removeprefix(PurePath(word).drive)
        return not any(sign in rest for sign in ("=", ":")) and (is_path(word) or bool(matching_ids("models", word)))
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


def _show(judgement: Judgement, verbosity: int) -> None:
    """Verdict, ceiling, derivation, likely mistakes and assumptions: of each claim, by default of the worst one alone."""
    for one in judgement.claims:
        if not verbosity and one is not judgement.worst:
            write(_title(one), "bold")
            write("")
    for index, one in enumerate(judgement.claims if verbosity else [judgement.worst]):
        if index:
            write("")
        print_answer(_answer(one, verbosity), verbosity)


def _title(one: ClaimJudgement) -> str:
    return f"{one.verdict.capitalize()}: {one.headline}"


def _answer(one: ClaimJudgement, verbosity: int) -> Answer:
    from roofline.report.answer import all_assumptions
    from roofline.report.summary import assumptions_table

    table = assumptions_table(one)
    mistakes = [mistake.why for mistake in one.likely_mistakes]
    if not verbosity:
        mistakes = _first(mistakes, _MISTAKES)
    assumed = [f"{name} {value}{f' ({why})' if why else ''}" for name, value, origin, why in table.rows if origin == "assumed"]
    texts = "; ".join([*(_first(assumed, _ASSUMED) or ["defaults"]), all_assumptions(len(table.rows))])
    groups = (_figures(one), _labelled("Why", one.derivation), _labelled("Possible mistakes", mistakes), [("Assumed", texts)])
    lines = [line for group in groups if group for line in (*group, ("", ""))]
    return Answer(
        title=_title(one),
        passed={"possible": True, "impossible": False}.get(one.verdict),
        parts=(tuple(lines[:-1]),),
        assumptions=table,
    )


def _labelled(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(label if at == 0 else "", text) for at, text in enumerate(texts)]


def _first(texts: list[str], number: int) -> list[str]:
    """The first texts, and how many others there are."""
    return texts if len(texts) <= number else [*texts[:number], f"{len(texts) - number} more with -v"]


_LIMITS = dict.fromkeys(("tokens_per_s", "tpot", "ttft"), ", with perfect overlap of compute, memory and links")
"""How a ceiling is reached."""
_MISTAKES, _ASSUMED = 3, 2
"""Likely mistakes and assumptions on one screen."""


def _figures(one: ClaimJudgement) -> list[tuple[str, str]]:
    """Labels and texts: what is claimed against the ceiling, and what is expected."""
    if one.ceiling is None or one.claim.kind == "fits":
        return []
    limit, ratio = "floor" if one.claim.is_time else "ceiling", one.ratio or 0.0
    times = f"{_ratio(ratio)} times the {limit}" if ratio > 1 else f"{percent(ratio, digits=2)} of the {limit}"
    if one.claim.is_time:
        times = f"{_ratio(ratio)} times as fast as the floor allows" if ratio > 1 else f"{_ratio(1 / ratio)} times the floor"
    lines = [
        ("Claimed", f"{one.claim.title.partition(' ')[2] if one.claim.is_time else one.claim.title}, {times}"),
        (limit.capitalize(), f"{one.claim.format_value(one.ceiling)}{_LIMITS.get(one.claim.kind, '')}"),
    ]
    if one.estimate is not None:
        best = f"; {_about(one, one.best)} at the fast end of the 80 % interval" if one.best is not None else ""
        lines.append(("Expected", f"{_about(one, one.estimate)}{best}"))
    return lines


def _about(one: ClaimJudgement, value: float) -> str:
    """An estimated value, with the digits of an estimate."""
    return one.claim.format_value(float(f"{value:.{about_digits(value) - 1}e}"))


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


def _markdown(judgement: Judgement) -> str:
    """A judgement as a Markdown document."""
    from roofline.report.summary import written

    parts = []
    for one in judgement.claims:
        parts.append(f"# {one.verdict.capitalize()}: {markdown_cell(one.claim.title)}\n\n{markdown_cell(one.headline)}")
        for title, entries in (
            ("Why", list(one.derivation)),
            ("What would give this number", [mistake.why for mistake in one.likely_mistakes]),
            ("Assumed", [f"{n.name} = {written(n.name, n.value)}: {n.why or n.origin}" for n in one.assumptions]),
        ):
            if entries:
                parts.append(f"## {title}\n\n" + "\n".join(f"- {markdown_cell(entry)}" for entry in entries))
    return markdown_document(parts)
