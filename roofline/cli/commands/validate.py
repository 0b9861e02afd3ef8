"""`roofline validate`: measured records against predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import hardware_option, own, several, takes
from roofline.cli.output import Output, Result, Rows, by_name
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import about_percent, percent, plural
from roofline.text import Answer, Table

if TYPE_CHECKING:
    from roofline.measure.validate import Validation
    from roofline.report.figure import View

_PRINTED = 10  # refusals that are printed one by one


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="validate")(takes(figures=("parity", "residuals"), formats=[".html"])(validate))


def validate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Measurement records: .csv or .parquet files, or folders of them.")
    ],
    hardware: Annotated[
        list[str] | None,
        hardware_option("Use only records of these accelerators. Default: all."),
    ] = None,
    backend: Annotated[str | None, own("--backend", metavar="NAME", text="Use only records of this kernel library.")] = None,
    max_error: Annotated[
        str | None,
        own(
            "--max-error",
            metavar="E",
            text="Exit with code 1 if the mean error of the estimate (of the bound, if there is none) exceeds E, such as 0.5.",
        ),
    ] = None,
    fit: Annotated[
        str | None, own("--fit", metavar="FILE", text="Estimate with the fit in FILE, written by `calibrate`.")
    ] = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="Read serving measurements from PATH and compare TPOT at each concurrency.")
    ] = False,
    *,
    out: Output,
) -> int:
    """Compare predictions with measurements.

    Reports errors by operator and by regime (the size and kind of a kernel's work), and measurements that are faster than the
    bound. Each record is matched with the hardware that its column `gpu` names, which is built in or described by
    hardware.yaml in the same folder. Invalid rows are skipped and listed by file and
    line. measurements/README.md describes the columns.
    """
    from roofline.measure.validate import to_dict, validate
    from roofline.measure.validate.serving import validate_serving
    from roofline.predict.engine_command import shell_line

    limit = _error_limit(max_error) if max_error is not None else None
    names = tuple(several(hardware))
    validation = validate_serving(paths, names, backend) if serving else validate(paths, names, backend, fit)
    report = to_dict(validation)
    _warn(validation, out)
    if fit is not None:
        out.note(f"{fit}: its own errors (held_out) are of shapes it has not seen; rows it was fitted to count here")
    judged = "bound" if report["overall"]["estimate"]["mape"] is None else "estimate"
    error = report["overall"][judged]["mape"]
    passed = limit is None or error <= limit
    document = {**envelope(by_name(validation.inputs)), **report, "max_error": limit, "within_max_error": passed}

    reached = None
    if limit is not None:
        within = f"{'within' if passed else 'above'} --max-error {percent(limit)}"
        reached = f"Mean error of the {judged}: {about_percent(error)}, {within}."

    def show() -> None:
        print_answer(replace(_answer(validation, report, reached), passed=passed if limit is not None else None), out.verbosity)

    flags = [("--hardware", name) for name in names] + [("--backend", backend), ("--fit", fit)]
    words = [word for flag, value in flags if value for word in (flag, value)] + ["--serving"] * serving
    line = shell_line(("roofline", "validate", *paths, *words))

    def page() -> str:
        from roofline.report.validation_page import validation_page

        return validation_page(validation.frame, report, f"{line} --output validation.html")

    def figures() -> View:
        from roofline.report.validation_page import first_view

        return first_view(validation.frame, report)

    out.emit(Result(document, lambda: _rows(report), show, {".html": page}, figures, line))
    return 0 if passed else 1


def _error_limit(text: str) -> float:
    """A relative error: a fraction or a percentage.

    >>> _error_limit("0.5"), _error_limit("50%")
    (0.5, 0.5)
    """
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        msg = f"--max-error must be a fraction such as 0.5 or a percentage such as 50%, not {text!r}"
        raise InputError(msg)
    return value


def _warn(validation: Validation, out: Output) -> None:
    """What was not used, on stderr."""
    for refusal in validation.refusals[:_PRINTED]:
        out.note(f"refused: {refusal}")
    if (more := len(validation.refusals) - _PRINTED) > 0:
        out.note(f"refused: and {more} more kinds of rows, listed with --json")
    for text in validation.passed_by[:_PRINTED]:
        out.note(f"passed by: {text}")
    if validation.ignored_columns:
        out.note(f"not used: columns {', '.join(validation.ignored_columns)}")


def _rows(report: dict[str, Any]) -> Rows:
    """A flat row per group."""
    return [
        {name: value for name, value in group.items() if not isinstance(value, dict)}
        | {f"{kind}_{name}": value for kind in ("bound", "estimate") for name, value in group[kind].items()}
        for group in report["groups"]
    ]


def _answer(validation: Validation, report: dict[str, Any], reached: str | None) -> Answer:
    """How far predictions are off, by hardware and op; with -v by kernels and regime, counters, and what beat its bound."""
    from roofline.measure.validate import groups, sentences

    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (report["refused"], "refused"),
            (sum(report["other_hardware"].values()), "of other hardware left out"),
            (sum(report["other_backend"].values()), "of other backends left out"),
        )
        if count
    ]
    names = list(dict.fromkeys(group["hardware"] for group in report["groups"]))
    some = groups(validation.frame, ("hardware", "op"))
    listed = sorted(sorted(some, key=lambda group: -group["n"])[:_ROWS], key=some.index)
    reasons = report["beneath_bound_reasons"]
    fast = f"{sum(entry['n'] for entry in reasons):,} of {plural(report['rows'], 'record')}: likely because "
    causes = Counter[str]()
    for entry in reasons:
        causes[entry["why"]] += entry["n"]
    fast += "; ".join(f"{why} ({count:,})" for why, count in causes.most_common(_CAUSES))
    fast += f"; {len(causes) - _CAUSES} more reasons: -v" if len(causes) > _CAUSES else ""
    more = len(some) - len(listed)
    estimated = "; bias: with its sign; in 80 %: inside the interval" if report["overall"]["coverage"] is not None else ""
    return Answer(
        title=f"{plural(report['rows'], 'record')} of {plural(len(validation.files), 'file')} compared with predictions",
        settings=" · ".join([*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []), *left_out]),
        verdict=" ".join([*([reached] if reached else []), *sentences(report["overall"])]),
        brief=(_groups(listed, ("hardware", "op") if len(names) > 1 else ("op",)),),
        details=(
            *(
                replace(_groups([group for group in report["groups"] if group["hardware"] == name], _NAMES), title=name)
                for name in names
            ),
            *([_counters(report["counters"])] if report["counters"] else []),
            *([_faster_than_bound(report)] if reasons else []),
        ),
        notes=(
            ("Error", f"median of |predicted / measured - 1|{estimated}"),
            ("Faster than bound", fast if reasons else "none"),
        ),
        hint=f"{plural(more, 'more row')}, by kernels and regime: -v" if more else "By kernels and regime: -v",
    )


_ROWS, _CAUSES, _NAMED = 12, 2, 6
"""Rows, reasons and hardware that are named on one screen."""
_NAMES = ("op", "kernels", "regime")


def _groups(groups: list[dict[str, Any]], names: Sequence[str]) -> Table:
    """Errors of groups, with columns of the estimate where any has one, and of times where there is none of hardware."""
    timed = "hardware" not in names
    estimated = any(group["estimate"]["median_ape"] is not None for group in groups)
    cells = tuple(
        (
            *(_kernels(group) if name == "kernels" else str(group[name]) for name in names),
            f"{group['n']:,}",
            *((formatting.seconds(group["measured_s"]),) if timed else ()),
            about_percent(group["bound"]["median_ape"]),
            *(
                (
                    about_percent(group["estimate"]["median_ape"]),
                    about_percent(group["estimate"]["bias"], sign=True),
                    about_percent(group["coverage"]),
                )
                if estimated
                else ()
            ),
            _share(group["beneath_bound"]),
        )
        for group in groups
    )
    times = ("median time",) if timed else ()
    figures = ("n", *times, "bound error", *(("error", "bias", "in 80 %") if estimated else ()), "faster")
    return Table("", "", (*names, *figures), (*([False] * len(names)), *([True] * len(figures))), cells)


def _kernels(group: dict[str, Any]) -> str:
    """Dtype and backend; the cache's dtype where it is another."""
    cache = [name for name in group["kv_dtypes"] if name != group["dtype"]]
    return " ".join(filter(None, [group["dtype"], f"(KV {', '.join(cache)})" if cache else "", group["backend"]]))


def _share(value: float) -> str:
    """A share, in which a few of very many do not look like none."""
    return "0" if value == 0 else "<0.1 %" if value < 0.0005 else about_percent(value)


def _counters(rows: list[dict[str, Any]]) -> Table:
    def ratio(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    cells = tuple(
        (row["hardware"], row["op"], row["backend"], f"{row['n']:,}", ratio(row["bytes_ratio"]), ratio(row["flops_ratio"]))
        for row in rows
    )
    columns = ("hardware", "op", "backend", "n", "bytes", "FLOP")
    note = "hardware counters over predictions, medians: device memory traffic and matrix FLOP"
    return Table("Counters", note, columns, (False, False, False, True, True, True), cells)


def _faster_than_bound(report: dict[str, Any]) -> Table:
    total = sum(entry["n"] for entry in report["beneath_bound_reasons"])
    cells = tuple(
        (entry["op"], f"{entry['n']:,}", f"{entry['fastest']:.2f}", entry["why"], entry["at"])
        for entry in report["beneath_bound_reasons"]
    )
    note = f"{total:,} of {plural(report['rows'], 'point')}; the lowest measured / bound, and where it stands"
    return Table(
        "Faster than the bound", note, ("op", "n", "lowest", "likely because", "at"), (False, True, True, False, False), cells
    )
