"""`roofline validate`: measured records against predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline import formatting
from roofline.cli.options import hardware_option, own, takes
from roofline.cli.output import Output, Result, Rows, by_name, write_stdout
from roofline.cli.tables import print_table
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.text import Table

if TYPE_CHECKING:
    from roofline.measure.validate import Validation

_PRINTED = 10  # refusals that are printed one by one


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="validate")(takes()(validate))


def validate(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Records: .csv or .parquet files, or folders that hold them.")
    ],
    hardware: Annotated[
        list[str] | None,
        hardware_option("Id or YAML file; only records that name it. Default: what each record names."),
    ] = None,
    backend: Annotated[str | None, own("--backend", metavar="NAME", text="Only records of these kernels.")] = None,
    max_error: Annotated[
        str | None,
        own(
            "--max-error",
            metavar="E",
            text="Exit code 1 when the mean absolute error of the estimate (without one: of the bound) is more: 0.5 or 50%.",
        ),
    ] = None,
    fit: Annotated[str | None, own("--fit", metavar="FILE", text="Estimate by this file, which `calibrate` wrote.")] = None,
    serving: Annotated[
        bool, typer.Option("--serving", help="PATH holds serving points: TPOT at a concurrency, against the closed loop.")
    ] = False,
    *,
    out: Output,
) -> int:
    """Compare measured records with predictions: by operator and regime, and which were faster than should be possible.

    A record is joined with the hardware of its `gpu`: shipped, or the hardware.yaml beside it. Rows that are wrong are
    refused by file and line, and the others are used. measurements/README.md lists the columns, and those that each op needs.
    """
    from roofline.measure.validate import to_dict, validate
    from roofline.measure.validate.serving import validate_serving

    limit = _error_limit(max_error) if max_error is not None else None
    names = tuple(hardware or ())
    validation = validate_serving(paths, names, backend) if serving else validate(paths, names, backend, fit)
    report = to_dict(validation)
    _warn(validation, out)
    if fit is not None:
        out.note(f"{fit}: its own errors (held_out) are of shapes it has not seen; rows it was fitted to count here")
    judged = "bound" if report["overall"]["estimate"]["mape"] is None else "estimate"
    error = report["overall"][judged]["mape"]
    passed = limit is None or error <= limit
    document = {**envelope(by_name(validation.inputs)), **report, "max_error": limit, "within_max_error": passed}

    def show() -> None:
        _show(validation, report)
        if limit is not None:
            write_stdout(
                f"Mean absolute error of the {judged} {percent(error, 1)}: {'within' if passed else 'above'} "
                f"--max-error {percent(limit, 1)}"
            )

    def page() -> str:
        from roofline.predict.engine_command import shell_line
        from roofline.report.validation_page import validation_page

        flags = [("--hardware", name) for name in names] + [("--backend", backend), ("--fit", fit)]
        words = [word for flag, value in flags if value for word in (flag, value)] + ["--serving"] * serving
        line = shell_line(("roofline", "validate", *paths, *words, "--output", "validation.html"))
        return validation_page(validation.frame, report, line)

    out.emit(Result(document, lambda: _rows(report), show, {".html": page}))
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


def _show(validation: Validation, report: dict[str, Any]) -> None:
    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (report["refused"], "refused"),
            (sum(report["other_hardware"].values()), "of other hardware left out"),
            (sum(report["other_backend"].values()), "of other backends left out"),
        )
        if count
    ]
    compared = f"{plural(report['rows'], 'record')} of {plural(len(validation.files), 'file')} compared"
    write_stdout("; ".join([compared, *left_out]))
    for hardware in dict.fromkeys(group["hardware"] for group in report["groups"]):
        print_table(_groups(hardware, [group for group in report["groups"] if group["hardware"] == hardware]))
    if report["counters"]:
        print_table(_counters(report["counters"]))
    write_stdout("")
    if report["beneath_bound_reasons"]:
        print_table(_faster_than_bound(report))
    else:
        write_stdout("No point was faster than its bound.")


def _groups(hardware: str, groups: list[dict[str, Any]]) -> Table:
    note = "medians; bound, error: |predicted/measured - 1|; in band: share inside the 80 % interval; faster: beat their bound"
    cells = tuple(
        (
            group["op"],
            _kernels(group),
            group["regime"],
            f"{group['n']:,}",
            formatting.seconds(group["measured_s"]),
            percent(group["bound"]["median_ape"], 1),
            percent(group["estimate"]["median_ape"], 1),
            percent(group["estimate"]["bias"], 1, sign=True),
            percent(group["coverage"], 1),
            _share(group["beneath_bound"]),
        )
        for group in groups
    )
    columns = ("op", "kernels", "regime", "n", "measured", "bound", "error", "bias", "in band", "faster")
    return Table(hardware, note, columns, (*([False] * 3), *([True] * 7)), cells)


def _kernels(group: dict[str, Any]) -> str:
    """Dtype and backend; the cache's dtype where it is another."""
    cache = [name for name in group["kv_dtypes"] if name != group["dtype"]]
    return " ".join(filter(None, [group["dtype"], f"(KV {', '.join(cache)})" if cache else "", group["backend"]]))


def _share(value: float) -> str:
    """A share, in which a few of very many do not look like none."""
    return (
        "0" if value == 0 else percent(value, 1) if 0.0005 <= value < 0.1 else percent(value, 0) if value >= 0.1 else "<0.1 %"
    )


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
