"""The answer of `roofline validate`, as tables and as rows."""

from __future__ import annotations

import sys
from typing import Any

from roofline import formatting
from roofline.cli.lists import by_name
from roofline.cli.output import Answer, Rows, write_stdout
from roofline.cli.page import print_table
from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.measure.validate import Validation, to_dict, validate
from roofline.predict.engine_command import shell_line
from roofline.report.summary import Table
from roofline.text import clean
from roofline.version import envelope

_FIRST = 10  # refusals that are shown one by one


def parse_error(text: str) -> float:
    """A relative error: a fraction or a percentage.

    >>> parse_error("0.5"), parse_error("50%")
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


def answer(
    paths: list[str],
    hardware: tuple[str, ...],
    backend: str | None,
    limit: float | None,
    *,
    fit: str | None = None,
    serving: bool = False,
    quiet: bool,
) -> tuple[Answer, int]:
    """The comparison in every form, and the exit code."""
    if serving:
        from roofline.measure.validate.serving import validate_serving

        result = validate_serving(paths, hardware, backend)
    else:
        result = validate(paths, hardware, backend, fit)
    found = to_dict(result)
    if not quiet:
        _warn(result)
        if fit is not None:
            sys.stderr.write(
                f"{clean(fit)}: its own errors (held_out) are of shapes it has not seen; rows it was fitted to count here\n"
            )
    judged = "bound" if found["overall"]["estimate"]["mape"] is None else "estimate"
    error = found["overall"][judged]["mape"]
    passed = limit is None or error <= limit
    whole = {**envelope(by_name(result.inputs)), **found, "max_error": limit, "within_max_error": passed}

    def show() -> None:
        _show(result, found)
        if limit is not None:
            write_stdout(
                f"Mean absolute error of the {judged} {percent(error, 1)}: {'within' if passed else 'above'} "
                f"--max-error {percent(limit, 1)}"
            )

    def page() -> str:
        from roofline.report.validation_page import validation_page

        given = [("--hardware", one) for one in hardware] + [("--backend", backend), ("--fit", fit)]
        options = [word for flag, value in given if value for word in (flag, value)] + ["--serving"] * serving
        line = shell_line(("roofline", "validate", *paths, *options, "--output", "validation.html"))
        return validation_page(result.frame, found, line)

    return Answer(whole, lambda: _rows(found), show, {".html": page}), 0 if passed else 1


def _warn(result: Validation) -> None:
    """What was not used, on stderr."""
    for refusal in result.refusals[:_FIRST]:
        sys.stderr.write(f"refused: {clean(refusal)}\n")
    if (more := len(result.refusals) - _FIRST) > 0:
        sys.stderr.write(f"refused: and {more} more kinds of rows, listed with --json\n")
    for text in result.passed_by[:_FIRST]:
        sys.stderr.write(f"passed by: {clean(text)}\n")
    if result.ignored_columns:
        sys.stderr.write(f"not used: columns {clean(', '.join(result.ignored_columns))}\n")


def _rows(found: dict[str, Any]) -> Rows:
    """A flat row a group."""
    return [
        {name: value for name, value in group.items() if not isinstance(value, dict)}
        | {f"{kind}_{name}": value for kind in ("bound", "estimate") for name, value in group[kind].items()}
        for group in found["groups"]
    ]


def _show(result: Validation, found: dict[str, Any]) -> None:
    left_out = [
        f"{count:,} {what}"
        for count, what in (
            (found["refused"], "refused"),
            (sum(found["other_hardware"].values()), "of other hardware left out"),
            (sum(found["other_backend"].values()), "of other backends left out"),
        )
        if count
    ]
    counted = f"{plural(found['rows'], 'record')} of {plural(len(result.files), 'file')} compared"
    write_stdout("; ".join([counted, *left_out]))
    for hardware in dict.fromkeys(group["hardware"] for group in found["groups"]):
        print_table(_groups(hardware, [group for group in found["groups"] if group["hardware"] == hardware]))
    if found["counters"]:
        print_table(_counters(found["counters"]))
    write_stdout("")
    if found["beneath_bound_reasons"]:
        print_table(_beneath(found))
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


def _beneath(found: dict[str, Any]) -> Table:
    total = sum(entry["n"] for entry in found["beneath_bound_reasons"])
    cells = tuple(
        (entry["op"], f"{entry['n']:,}", f"{entry['fastest']:.2f}", entry["why"], entry["at"])
        for entry in found["beneath_bound_reasons"]
    )
    note = f"{total:,} of {plural(found['rows'], 'point')}; the lowest measured / bound, and where it stands"
    return Table(
        "Faster than the bound", note, ("op", "n", "lowest", "likely because", "at"), (False, True, True, False, False), cells
    )
