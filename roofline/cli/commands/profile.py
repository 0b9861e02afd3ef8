"""`roofline profile`: where the time of a recorded run went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.options import Options, complete_models, given, hardware_option, invocation, model_argument, takes
from roofline.cli.output import Output, Result, progress
from roofline.cli.tables import print_answer
from roofline.documents import envelope
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.predict.options import DEPLOYMENT

if TYPE_CHECKING:
    from roofline.measure.profile.profile import Profile

FIGURES = ("roofline", "time", "timeline")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="profile")(takes(DEPLOYMENT, figures=FIGURES, formats=[".html"])(profile))


def profile(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="Trace of PyTorch's profiler (.json, .json.gz), Nsight Systems (.sqlite, .csv) or Nsight Compute (.csv).",
        ),
    ],
    model: Annotated[str | None, model_argument("Model that ran, laid beside the kernels.", "[MODEL]")] = None,
    named: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="The same as MODEL.", autocompletion=complete_models, show_default=False),
    ] = None,
    hardware: Annotated[
        str | None,
        hardware_option("Accelerator or node that it ran on. Default: the one that the trace names.", show_default=False),
    ] = None,
    *,
    options: Options,
    out: Output,
) -> None:
    """Find where the time of a recorded run went.

    Reads kernels of a profiler's trace as operators and shows the FLOP/s and bandwidth that each attained, its share of the
    roofline and of what measured kernels of its kind reach, idle gaps, and what would be gained. With a model, its operators
    are laid beside the kernels. `-o FOLDER/` writes records that `validate` and `calibrate` read.

    Example: roofline profile trace.json.gz qwen3-8b -o profile.html
    """
    from roofline.measure.profile.profile import profile as run
    from roofline.report import profile_page

    if model is not None and named is not None and model != named:
        raise InputError(f"two models: MODEL {model} and --model {named}")
    with progress("MB", quiet=out.quiet) as report:
        result = run(trace, model or named, hardware, progress=report, **options)
    for note in result.notes:
        out.note(f"note: {note}")
    flags = {"model": model or named, "hardware": hardware, **options}
    arguments = [str(trace), *([str(flags.pop("model"))] if flags["model"] else [])]
    flags.pop("model", None)
    line = invocation("profile", arguments, given(flags))
    if out.file is not None and not out.file.suffix:
        _write_records(result, out)
        return
    document = {**envelope({entry.role: _input(entry) for entry in result.inputs}), **result.to_dict()}

    def rows() -> list[dict[str, Any]]:
        details = document["details"]
        return [{name: value for name, value in row.items() if name not in ("kernels", "path")} for row in details]

    out.emit(
        Result(
            document,
            rows,
            lambda: print_answer(profile_page.answer(result), out.verbosity),
            {".html": lambda: profile_page.page(result, line)},
            lambda: profile_page.view(result, line),
            line,
        )
    )


def _input(entry: Any) -> dict[str, str]:
    return {"name": entry.name, "path": entry.path, "sha256": entry.sha256}


def _write_records(result: Profile, out: Output) -> None:
    """Write the records of a profile's operators to the folder of `--output`."""
    from roofline.measure.bench.records_file import RecordsFile
    from roofline.measure.profile.records import records_of
    from roofline.measure.profile.rules import Rules

    assert out.file is not None  # noqa: S101 - narrows the type: the caller looked
    records = records_of(result, Rules.load())
    if not records:
        raise InputError(
            f"{result.trace.path}: no operator with its shape; record with record_shapes=True, and without CUDA graphs"
        )
    file = RecordsFile(out.file)
    try:
        new = [record for record in records if record not in file]
        for record in new:
            file.add(record)
    finally:
        file.close()
    known = f"; {plural(len(records) - len(new), 'record')} were there" if len(new) < len(records) else ""
    out.note(f"wrote {plural(len(new), 'record')} to {out.file / 'records.csv'}{known}")
