"""`roofline plan`: which hardware, how many, which flags, at what cost, for a traffic and its objectives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import Options, changed, model_argument, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import (
    markdown_document,
    markdown_table,
    markdown_tables,
    print_answer,
    screen_width,
)  # fmt: skip
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.predict.options import ALIASES, DEPLOYMENT, SPECULATION
from roofline.serving.options import PLAN
from roofline.text import Answer, Table, clean, markdown_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofline.audit.config_check import Check, Finding
    from roofline.serving.planning.result import Plan


_SEARCHED = "searched"
FIGURES = ("cost-tpot", "cost-ttft", "finish", "steps")


def register(app: typer.Typer) -> None:
    """Add the command."""
    without = ("shared_prefix", "logits", "ignore_capacity", "enable_prefix_caching")
    searched = (
        changed("dtype", default=_SEARCHED),
        changed("tensor_parallel_size", default=_SEARCHED, aliases=("tp",)),  # --num-gpus is --max-gpus here
        *(changed(ALIASES[short], default=_SEARCHED) for short in ("pp", "dp", "ep", "cp")),
        *(changed(name, default=_SEARCHED) for name in ("max_num_seqs", "max_num_batched_tokens")),
    )
    app.command(name="plan")(
        takes(
            (*DEPLOYMENT, SPECULATION),
            first=PLAN.values(),
            without=without,
            changed=searched,
            figures=FIGURES,
            formats=[".html"],
        )(plan)
    )


def plan(
    model: Annotated[str | None, model_argument()] = None,
    *,
    options: Options,
    out: Output,
) -> int:
    """Find deployments that serve a load within latency objectives.

    Searches options whose default is "searched". Exits with code 1 if no deployment qualifies.

    Example: roofline plan llama-3.1-8b --rate 50 --input-len lognormal:1155:900 --output-len 211 --ttft "2 s" --tpot "50 ms"
    """
    if "check" in options:
        return _check(model, options, out)
    if model is None:
        raise InputError("plan needs a MODEL, such as llama-3.1-8b")
    if "replicas" in options:
        raise InputError("--replicas goes with --check FILE: a plan finds how many are needed")
    from roofline.report.plan import summary as text
    from roofline.serving.planning.plan import plan as compute

    result = compute(model, **options)
    line = _line(model, options)

    def page() -> str:
        from roofline.report.plan.page import plan_page

        return plan_page(result, f"{line} --output plan.html")

    formats = {".md": lambda: _markdown(result), ".html": page}

    def show() -> None:
        print_answer(text.answer(result, screen_width()), out.verbosity)

    out.emit(Result(result.to_dict(), result.flat, show, formats, lambda: result, line))
    if result.candidates and not (unmet := text.unmet(result)):
        return 0
    out.verdict(unmet[0] if result.candidates else _sentences(result)[0])
    return 1


def _line(model: str, options: Mapping[str, Any]) -> str:
    """The command that plans the same."""
    from roofline.predict.engine_command import shell_line

    line = ["roofline", "plan", model]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        listed = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        line += [] if value in (None, False) else [flag] if value is True else [flag, listed]
    return shell_line(tuple(line))


def _check(model: str | None, query: dict[str, Any], out: Output) -> int:
    """The verdict on a deployment; the exit code."""
    from roofline.audit.config_check import check

    result = check(query.pop("check"), model=model, **query)
    formats = {".md": lambda: _check_markdown(result)}
    out.emit(Result(result.to_dict(), result.flat, lambda: print_answer(_check_answer(result), out.verbosity), formats))
    if result.passed:
        return 0
    out.verdict(_verdict(result))
    return 1


def _verdict(result: Check) -> str:
    """Whether it passes, in a sentence."""
    replicas = plural(result.replicas, "replica")
    needed = result.replicas_needed
    if result.passed:
        at_risk = any(one.verdict == "at risk" for one in result.findings)
        return f"{replicas} meet every objective{', some at risk' if at_risk else ''}."
    if needed is None:
        return f"{replicas} do not meet every objective, and more would not."
    return f"{replicas} do not meet every objective; {needed:,} would."


_OBJECTIVES = {
    "memory": "memory of the longest request", "start": "running sequences (limit: token budget)",
    "gpus": "GPUs of a replica", "length": "requests that are too long", "utilisation": "share of the saturation rate",
    "ttft": "TTFT", "tpot": "TPOT",
}  # fmt: skip


_TIMES = ("ttft", "tpot")


def _findings_table(result: Check) -> Table:
    """Every objective and limit, with its verdict."""
    rows = tuple(
        (
            _OBJECTIVES.get(one.objective, one.objective) + ("" if one.percentile is None else f" p{one.percentile * 100:g}"),
            one.of or "",
            formatting.seconds(one.limit) if one.objective in _TIMES else _measure(one.objective, one.limit),
            _measure(one.objective, one.expected),
            _band(one),
            one.verdict,
        )
        for one in result.findings
    )  # fmt: skip
    columns = ("objective", "class", "limit", "expected", "80 % interval", "verdict")
    return Table("Findings", "", columns, (False, False, True, True, False, False), rows)


def _band(one: Finding) -> str:
    """From the quick end to the slow one, where they are not the same."""
    if one.low is None or one.low == one.high:
        return ""
    low, high = _measure(one.objective, one.low), _measure(one.objective, one.high)
    return low if low == high else f"{low} to {high}"


def _measure(objective: str, value: float | None) -> str:
    if value is None:
        return "unbounded"
    if objective in _TIMES:
        return formatting.about(value)
    if objective == "memory":
        return formatting.binary(value, 3)
    return percent(value) if objective in ("length", "utilisation") else f"{value:,.10g}"


def _check_answer(result: Check) -> Answer:
    from roofline.report import summary
    from roofline.report.answer import provenance_of
    from roofline.report.plan.summary import bullets, columns, load

    best = result.candidate
    table = _findings_table(result)
    one_class = len({row[1] for row in table.rows if row[1]}) < 2
    names = tuple(name for name in table.columns if not (one_class and name == "class"))
    reasons = [f"{reason[0].upper()}{reason[1:]}." for reason in result.reasons]
    where = "" if best is None else f" on {best.devices:,} x {best.title}"
    return Answer(
        title=f"Check of {result.source.path}: {result.plan.model['name']}{where}",
        settings=" · ".join(load(result.plan)),
        verdict=_verdict(result),
        passed=result.passed,
        parts=(replace(columns(table, names), title=""), "\n".join(bullets(reasons, screen_width()))),
        notes=tuple(provenance_of(result.plan.assumptions, None if best is None else best.estimate_basis)),
        assumptions=summary.assumptions_table(result.plan),
        hint="Assumptions in doubt: -v    Every assumption: -vv    A plan instead: without --check",
    )


def _check_markdown(result: Check) -> str:
    reasons = "\n".join(f"* {markdown_cell(reason)}" for reason in result.reasons)
    parts = [f"# {markdown_cell(_verdict(result))}", reasons, markdown_table(_findings_table(result))]
    return markdown_document(filter(None, parts))


def _sentences(result: Plan) -> list[str]:
    """The best candidate in words, or why there is none and what would have to give: as the page of the plan has it."""
    from roofline.report.plan import tables
    from roofline.report.plan.load import planned
    from roofline.report.plan.scaling import first_values

    state = planned(result.to_dict())
    return tables.sentences(state, first_values(state)) if result.candidates else tables.infeasible(state)


def _markdown(result: Plan) -> str:
    from roofline.report import summary
    from roofline.report.plan.summary import candidates_table, commands

    parts = [f"# {markdown_cell('Plan for ' + result.model['name'])}", *map(markdown_cell, _sentences(result))]
    if result.candidates:
        parts += markdown_tables((candidates_table(result), summary.assumptions_table(result)))
        for label, line in commands(result):
            parts += [f"## {markdown_cell(label)}", f"```\n{clean(line)}\n```"]
    return markdown_document(parts)
