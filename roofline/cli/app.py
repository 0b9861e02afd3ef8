"""The application: commands put together, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import sys
from typing import Annotated, Any, NoReturn

import typer

from roofline.cli import commands
from roofline.errors import RooflineError
from roofline.version import DATA_VERSION, __version__

app = typer.Typer(
    name="roofline",
    help="How fast, how big and how expensive is this LLM on that hardware, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,  # boxes are for terminals
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"roofline {__version__} (data {DATA_VERSION})\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """How fast, how big and how expensive is this LLM on that hardware, and why?"""


def _register(arguments: list[str]) -> None:
    """Add the command that is called; all of them where that is not known yet (help, completion, a slip)."""
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    called = arguments[0] if arguments and "_ROOFLINE_COMPLETE" not in os.environ else None
    for name in [called] if called in names else names:
        importlib.import_module(f"{commands.__name__}.{name}").register(app)


_register(sys.argv[1:])

# Typer may bring its own copy of click: its exceptions are reached through one that Typer exports.
_UsageError, _ClickException = typer.BadParameter.__mro__[1:3]


def main() -> NoReturn:
    """Run a command; print an error as one message; leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign shows a question mark
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except RooflineError as error:
        _fail(str(error), error.exit_code)
    except _ClickException as error:  # type: ignore[misc]  # reached through a tuple
        _fail_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of the pipe has seen enough. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"cannot write {error.filename or 'the result'}: {error.strerror}", 2)
    except Exception as error:  # the last net: whatever it is, a user is not shown a traceback
        if os.environ.get("ROOFLINE_DEBUG"):
            raise
        _fail(f"internal error, please report it: {type(error).__name__}: {error} (ROOFLINE_DEBUG=1 shows where)", 70)
    sys.exit(code if isinstance(code, int) else 0)


def _fail_usage(error: Any) -> NoReturn:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{message}\n")
        sys.exit(2)
    hint = f" See `{context.command_path} --help`." if context and isinstance(error, _UsageError) else ""
    _fail(f"{message.rstrip('.')}.{hint}", 2)


def _fail(message: str, code: int) -> NoReturn:
    from roofline.cli.text import clean

    sys.stderr.write(f"error: {clean(message, keep_lines=True)}\n")
    sys.exit(code)
