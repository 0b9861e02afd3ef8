"""`roofline op`: one operator on one device, by its dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.options import Options, changed, hardware_option, own, takes
from roofline.cli.output import Output, Result
from roofline.cli.tables import markdown_document, print_assumptions, print_table, write, write_labelled
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.predict.op import GROUPS, WITHOUT
from roofline.text import Table, markdown_cell

FIGURES = ("roofline", "curve", "resources")
if TYPE_CHECKING:
    from roofline.predict.op import OpResult
    from roofline.predict.operator_query import Dimension, OperatorQuery


def _complete(incomplete: str) -> list[str]:
    """Names of operators that begin with a text, for shell completion."""
    from roofline.predict.operator_query import operator_names

    return [name for name in operator_names() if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    formats = (
        changed("dtype", default="bf16, or the hardware's 16-bit type"),
        changed("activation_dtype", default="same as weights, but at least 16 bits"),
        changed("kv_cache_dtype", default="same as activations"),
        changed("mamba_ssm_cache_dtype", default="set by the engine"),
        changed("quantization", default="none"),
    )
    decorated = takes(GROUPS, without=WITHOUT, changed=formats, figures=FIGURES, formats=[".html"])(op)
    app.command(name="op", context_settings={"ignore_unknown_options": True})(decorated)


def op(
    shape: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OPERATOR] [DIMENSION]...",
            autocompletion=_complete,
            help="Operator, such as gemm, attention, moe, all-reduce or norm, and its dimensions: values in order, NAME=VALUE "
            "or --name VALUE. Without arguments, lists the operators.",
        ),
    ] = None,
    hardware: Annotated[str | None, hardware_option("Accelerator or node: id or YAML file.")] = None,
    sweep: Annotated[
        str | None,
        own("--sweep", text="Vary one dimension over a range or list, such as m=1:8192:x2 or m=1,8,64.", metavar="NAME=VALUES"),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """Predict the FLOP count, bytes, time and bottleneck of an operator.

    Without --hardware, lists the dimensions of the operator.

    Example: roofline op gemm 512 8192 28672 --hardware h100-sxm --dtype bf16
    """
    from roofline.predict.op import op as predict
    from roofline.predict.operator_query import operator_query

    if not shape:
        out.emit(_list())
        return
    operator, *rest = shape
    query = operator_query(operator)
    positional, named = _read(query, rest)
    if hardware is None:
        if positional or named or options or sweep:
            raise InputError(f"name the hardware with -H: {query.example}")
        out.emit(_dimensions(query))
        return
    result = predict(operator, *positional, hardware=hardware, sweep=sweep, **named, **options)
    line = _command_line(shape, hardware, sweep, options)
    formats = {
        ".html": lambda: _page(result, line),
        ".md": lambda: _markdown(result),
    }
    out.emit(Result(result.to_dict(), result.rows, lambda: _show(result, out.verbosity), formats, lambda: result, line))


def _read(query: OperatorQuery, words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Values in order, and values by name: NAME=VALUE, --name VALUE or --name=VALUE.

    Raises:
        InputError: a name without a value, or a name that is given twice.
    """
    positional: list[str] = []
    named: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-") and not equals:
            positional.append(word)
            continue
        if word.startswith("-") and not word.startswith("--"):
            raise InputError(f"unknown option {word}: dimensions are --name VALUE. Dimensions: {query.usage}")
        entry = query.dimension(name.removeprefix("--"), _flags())
        if not equals:
            switch = entry.kind == "flag" and not (left and left[0].lower() in ("true", "false", "yes", "no", "1", "0"))
            if not switch and (not left or left[0].startswith("--")):
                raise InputError(f"{word} needs a value. Example: {query.example}")
            value = "true" if switch else left.pop(0)
        if entry.name in named:
            raise InputError(f"{query.name}: {entry.name} is given twice")
        named[entry.name] = value
    return positional, named


def _flags() -> list[str]:
    from roofline.predict.options import OPTIONS, of_groups

    return [
        "hardware",
        "sweep",
        "output",
        "figure",
        "json",
        *(entry.name for entry in of_groups(GROUPS, WITHOUT) if entry.name in OPTIONS),
    ]


def _list() -> Result:
    """Every operator with its dimensions."""
    from roofline.predict.operator_query import operator_names, operator_query

    queries = [operator_query(name) for name in operator_names()]
    rows = [{"operator": query.name, "usage": query.usage, "about": query.about, "example": query.example} for query in queries]

    def show() -> None:
        write("Operators and their dimensions, those in brackets with a default:", "bold")
        for query in queries:
            write(query.usage, indent=2, hanging=6)
        write("")
        write("More of one: roofline op NAME. Example: roofline op gemm 512 8192 28672 -H h100-sxm", "dim")

    return Result({**envelope({}), "operators": rows}, lambda: rows, show)


def _dimensions(query: OperatorQuery) -> Result:
    """The dimensions of an operator, what they mean, and their other names."""
    rows = [
        {
            "dimension": entry.name,
            "default": _default(query, entry),
            "meaning": entry.meaning + (f": {', '.join(entry.choices)}" if entry.choices else ""),
            "also": ", ".join(name for name in dict.fromkeys((entry.field, *entry.aliases)) if name and name != entry.name),
        }
        for entry in query.dimensions
    ]

    def show() -> None:
        write(f"{query.name}: {query.about}", "bold")
        write("")
        listed = []
        for row in rows:
            label = f"{row['dimension']} [{row['default']}]" if row["default"] else row["dimension"]
            listed.append((label, row["meaning"] + (f"; also {row['also']}" if row["also"] else "")))
        write_labelled(listed)
        if query.conventions:
            write("")
            write(f"Options of counting: {', '.join('--' + name.replace('_', '-') for name in query.conventions)}")
        write("")
        write("Example:")
        write(query.example, indent=2, hanging=4)

    return Result({**envelope({}), "operator": query.name, "about": query.about, "dimensions": rows}, lambda: rows, show)


def _default(query: OperatorQuery, entry: Dimension) -> str:
    """What holds where a dimension is not given."""
    if entry.required:
        return ""
    if entry.default is None:
        return "heads" if entry.name == "kv_heads" and query.name == "attention" else "none"
    return {True: "yes", False: "no"}[entry.default] if isinstance(entry.default, bool) else str(entry.default)


def _show(result: OpResult, verbosity: int) -> None:
    """Print the answer on one screen; with -v all points of a sweep, with -vv all assumptions."""
    from roofline.report import operator_page as page

    write(page.title(result), "bold")
    write(page.settings(result), "dim")
    write("")
    if result.sweep is not None:
        print_table(page.sweep_table(result.sweep, None if verbosity else 14))
        write("")
        for sentence in page.sweep_sentences(result):
            write(sentence)
        write_labelled([("Estimate", page.basis(result))])
    else:
        print_table(page.times_table(result))
        write("")
        write_labelled(page.lines(result))
        write("")
        write_labelled(page.formula_lines(result))
    if verbosity > 1:
        write("")
        print_assumptions(_assumptions(result), verbosity)


def _assumptions(result: OpResult) -> Table:
    rows = tuple((note.name, str(note.value), note.origin, note.why) for note in result.assumptions)
    return Table("Assumptions", "", ("name", "value", "origin", "why"), (False,) * 4, rows)


def _markdown(result: OpResult) -> str:
    from roofline.report import operator_page as page

    bullets = [f"- **{label}**: {markdown_cell(text)}" for label, text in page.lines(result)]
    formulas = [f"- {label}: {markdown_cell(text)}" for label, text in page.formula_lines(result)]
    parts = [f"# {markdown_cell(page.title(result))}", markdown_cell(page.settings(result)), "\n".join(bullets)]
    parts += [markdown_cell(text) for text in page.sweep_sentences(result)]
    parts += _markdown_tables(result)
    return markdown_document([*parts, "## Formulas", "\n".join(formulas)])


def _markdown_tables(result: OpResult) -> list[str]:
    from roofline.cli.tables import markdown_table
    from roofline.report import operator_page as page

    table = page.times_table(result) if result.sweep is None else page.sweep_table(result.sweep, None)
    return [markdown_table(table)]


def _page(result: OpResult, line: str) -> str:
    from roofline.report.operator_page import operator_page

    return operator_page(result, line)


def _command_line(shape: list[str], hardware: str, sweep: str | None, options: dict[str, Any]) -> str:
    """The command that gives the same result."""
    from roofline.predict.engine_command import shell_line
    from roofline.predict.options import flags

    curve = ["--sweep", sweep] if sweep else []
    return shell_line(("roofline", "op", *shape, "--hardware", hardware, *curve, *flags(options)))
