"""The application: all commands together, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Annotated, Any, NoReturn

import typer

from roofline.cli.commands import SETTINGS, CommandGroup
from roofline.documents import DATA_VERSION, __version__
from roofline.errors import InputError, RooflineError, StoppedByASignalError, TerminatedError
from roofline.text import clean

app = typer.Typer(
    name="roofline",
    help="Predict the latency, throughput, memory use and cost of LLM inference, and explain every number. "
    "Run `roofline COMMAND --help` for the options of a command.",
    cls=CommandGroup,
    **SETTINGS,
)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"roofline {__version__} (data {DATA_VERSION})\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Predict the latency, throughput, memory use and cost of LLM inference, and explain every number."""


# Typer may bring its own copy of click: its exceptions are reached through one that Typer exports.
_UsageError, _ClickException = typer.BadParameter.__mro__[1:3]


def main() -> NoReturn:
    """Run the command line in `sys.argv`; print an error as one message on stderr; exit with its code."""
    with _streams(), _terminable():
        _run()


def _run() -> NoReturn:
    try:
        code = app(standalone_mode=False, prog_name="roofline")  # also as python -m roofline
        sys.stdout.flush()
    except RooflineError as error:
        _fail(str(error), error.exit_code)
    except _ClickException as error:  # type: ignore[misc]  # reached through a tuple
        _fail_usage(error)
    except (typer.Abort, KeyboardInterrupt) as error:  # before a command began
        stopped = StoppedByASignalError(error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt())
        _fail(str(stopped), stopped.exit_code)
    except BrokenPipeError:
        _discard(sys.stdout)  # the reader of the pipe has seen enough
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'the system refuses'}: {error.strerror or error}", 2)
    except Exception as error:  # the last net: whatever it is, a user is not shown a traceback
        if os.environ.get("ROOFLINE_DEBUG"):
            raise
        message = f"{type(error).__name__}: {error} (ROOFLINE_DEBUG=1 shows where)"
        _fail(f"internal error, please report it with the output of `roofline doctor`: {message}", 70)
    sys.exit(code if isinstance(code, int) else 0)


class _Stdout:
    """Stdout, whose errors say that the result could not be written; also where there is none."""

    def __init__(self, stream: IO[str] | None) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def isatty(self) -> bool:
        return self.stream is not None and self.stream.isatty()

    def fileno(self) -> int:
        return 1 if self.stream is None else self.stream.fileno()

    def write(self, text: str, /) -> int:
        if self.stream is None:
            raise InputError("cannot write the result: stdout is closed")
        with self._named():
            return self.stream.write(text)

    def flush(self) -> None:
        if self.stream is not None:
            with self._named():
                self.stream.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            _discard(self.stream)
            raise InputError(f"cannot write the result: {error.strerror}") from None


def _discard(stream: Any) -> None:
    """Send what a stream still holds nowhere: Python would try to write it once more as it ends, and leave with 120."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _streams() -> Iterator[None]:
    """Stdout and stderr that can be written to, whatever the process was started with."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign shows a question mark
    for number in range(3):  # closed ones, or the next file that is opened would take their place
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _Stdout(sys.stdout)
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


_AT_ONCE = 1.0
"""Seconds within which two signals are one: `timeout` sends it twice, and the second must not break into the end of the first.
A later one counts again, for an exception raised inside a finalizer is lost."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, which is how schedulers and containers stop a process, ends a command as Ctrl-C does."""
    last = -_AT_ONCE

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _AT_ONCE:
            last = now
            raise TerminatedError

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _fail_usage(error: Any) -> NoReturn:
    context = getattr(error, "ctx", None)
    message = _no_such_option(error) if type(error).__name__ == "NoSuchOption" and context else error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        _complain(message)
        sys.exit(2)
    hint = f" See `{context.command_path} --help`." if context and isinstance(error, _UsageError) else ""
    _fail(f"{message}{'' if message.endswith(('.', '?')) else '.'}{hint}", 2)


_HARDWARE = ("--gpu", "--gpu-type", "--device", "--accelerator", "--card", "--hw")


def _no_such_option(error: Any) -> str:
    """The message for an unknown option: what the command calls the same thing, else the nearest names, one per option."""
    import difflib

    from roofline.predict.options import OPTIONS

    flags = {flag: entry.name for entry in error.ctx.command.params for flag in entry.opts if flag.startswith("--")}
    key = error.option_name.removeprefix("--").replace("-", "_")
    meant = [entry.flag for entry in OPTIONS.values() if key in entry.elsewhere and entry.flag in flags]
    if error.option_name in _HARDWARE and "--hardware" in flags:
        meant = ["--hardware"]
    near = meant or difflib.get_close_matches(error.option_name, flags, n=6, cutoff=0.6)
    several = {flags[flag]: flag for flag in reversed(near)}  # the nearest of each option
    return f"no such option: {error.option_name}." + (
        f" Did you mean {' or '.join([*several.values()][::-1][:3])}?" if near else ""
    )


def _fail(message: str, code: int) -> NoReturn:
    _complain(f"error: {clean(message, keep_lines=True)}")
    sys.exit(code)


def _complain(text: str) -> None:
    """A message on stderr, if that can be written to: the exit code says it too."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
