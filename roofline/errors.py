"""Every error that a user can cause: one message, cause first, then what is allowed.

All derive from `RooflineError`, which carries the exit code of the command line (2 for bad input, 3 for a missing
extra). The CLI catches `RooflineError` once; nothing else is ever printed as a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

# So many choices are listed when none is near.
_FEW = 30


class RooflineError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 2


class InputError(RooflineError):
    """A value from the user is wrong: a flag, an argument of the Python API, a combination of both."""


class UnknownNameError(InputError):
    """A name that nothing answers to. The message lists the nearest names, or all of them when they are few."""

    def __init__(self, what: str, name: object, choices: Iterable[str], hint: str = "", *, list_all: bool = False) -> None:
        self.name = str(name)
        self.choices = list(choices)
        near = _near(self.name, self.choices)
        parts = [f"unknown {what} {self.name!r:.120}."]
        if near:
            parts.append(f"Did you mean {' or '.join(near)}?")
        if self.choices and (list_all or (not near and len(self.choices) <= _FEW)):
            parts.append(f"Known: {', '.join(self.choices)}.")
        super().__init__(" ".join([*parts, *([hint] if hint else [])]))


class AmbiguousNameError(InputError):
    """A name that could mean several things, each with numbers of its own."""

    def __init__(self, what: str, name: str, choices: Iterable[str]) -> None:
        self.choices = sorted(choices)
        several = len(self.choices) > 1
        why = "is ambiguous: it could be" if several else "is not a whole name; the one that is known is"
        super().__init__(f"{what} {name!r} {why} {', '.join(self.choices)}. Name {'one of them' if several else 'it'}.")


class SpecError(InputError):
    """A file that cannot be read as what it should be. Says where: file, line, column, key."""

    def __init__(
        self, message: str, *, path: Path | str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        self.path, self.line, self.column = path, line, column
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class UnitError(InputError):
    """A quantity that is not a number with the right unit."""


class MissingExtraError(RooflineError):
    """An optional part of the installation is not there."""

    exit_code = 3

    def __init__(self, feature: str, extra: str) -> None:
        self.extra = extra
        super().__init__(
            f'{feature} needs the optional extra {extra!r}: pip install "roofline[{extra}]", or ".[{extra}]" in a checkout'
        )


class TerminatedError(KeyboardInterrupt):
    """SIGTERM came. It ends what Ctrl-C ends, in the same way: nothing on the way takes it for an error."""


class StoppedByASignalError(RooflineError):
    """A command ended by Ctrl-C or SIGTERM, without a part of its result. The exit code is the shell's: 128 and the signal."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        terminated = isinstance(interrupt, TerminatedError)
        self.exit_code = 143 if terminated else 130
        super().__init__("terminated" if terminated else "interrupted")


def _near(name: str, choices: list[str]) -> list[str]:
    import difflib  # only an error needs it

    near = difflib.get_close_matches(name.lower(), choices, n=4, cutoff=0.55)
    if not near and name:
        near = [choice for choice in choices if name.lower() in choice.lower()][:8]
    return near
