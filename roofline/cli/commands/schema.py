"""`roofline schema`: the JSON Schema of a model's or a hardware's file, and of the options of an analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline.cli.options import QuietOption, output_option
from roofline.cli.output import Output, Result
from roofline.errors import UnknownNameError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="schema")(schema)


def schema(
    what: Annotated[
        str, typer.Argument(metavar="model|hardware|options", help="Schema to print; options are those of `analyze`.")
    ],
    output: Annotated[Path | None, output_option([".json"])] = None,
    quiet: QuietOption = False,
) -> None:
    """Print the JSON Schema of model files, hardware files or options."""
    if what == "model":
        from roofline.blocks.model import Model

        document = Model.model_json_schema()
    elif what == "hardware":
        from pydantic import TypeAdapter

        from roofline.specs.hardware import Accelerator, Node

        document = TypeAdapter(Accelerator | Node).json_schema()
    elif what == "options":
        from roofline.predict.options import json_schema

        document = json_schema()
    else:
        raise UnknownNameError("schema", what, ("model", "hardware", "options"))
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}
    # NB: a schema is JSON and nothing else: it has no rows and no page.
    Output(output is None, output, quiet).emit(Result(document, None, lambda: None))
