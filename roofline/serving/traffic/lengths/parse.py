"""A distribution of lengths from a text."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from roofline.errors import InputError, UnknownNameError
from roofline.serving.traffic.lengths.base import Kind, Lengths


def parse_lengths(text: object, what: str = "length", beside: Path | None = None) -> Lengths:
    """A distribution of lengths in tokens: `1024`, `8k`, `uniform:LO:HI`, `lognormal:MEAN:SD[:MAX]`, ...

    Args:
        text: as above; a whole number is that length each time.
        what: what the length is of, for messages; "" where the caller says it.
        beside: the folder from which paths are seen; None: the working directory.

    Raises:
        InputError: what is wrong, and what is allowed.

    >>> parse_lengths("8k").mean, parse_lengths("uniform:1:4").variance
    (8192.0, 1.25)
    """
    if isinstance(text, Lengths):
        return text
    known = _kinds()
    words = "" if text is None or isinstance(text, bool) else str(text).strip()
    name, colon, arguments = words.partition(":")
    kind = known.get(name.strip().lower() if colon else "")
    problem = _problem(text, words, name if colon else None)
    if problem is None and kind is not None:
        try:
            return kind.read(arguments if colon else words, beside)
        except InputError as error:
            problem = str(error)
    raise InputError(f"{what}: {problem}" if what else str(problem))


def _problem(text: object, words: str, word: str | None) -> str | None:
    """What is wrong with a text before anything of it is read."""
    known = _kinds()
    if word is not None:
        choices = [each for each in known if each]
        return None if word.strip().lower() in choices else str(UnknownNameError("distribution", word, choices, _all()))
    if lacking := known.get(words.lower()) if words else None:
        return f"{words} alone says nothing: write {lacking.form}, such as {lacking.example}"
    return None if any(letter.isdigit() for letter in words) else f"{str(text)[:60]!r} is no length. {_all()}"


def _all() -> str:
    return f"Write {forms()}."


def kinds() -> list[Kind]:
    """Every kind of distribution."""
    return list(_kinds().values())


def forms() -> str:
    """How every kind is written.

    >>> forms().startswith("1024, ")
    True
    """
    return ", ".join(kind.form for kind in kinds())


@cache
def _kinds() -> dict[str, Kind]:
    """Every kind by its word, the plain number first."""
    home = importlib.import_module("roofline.serving.traffic.lengths.kinds")
    found: dict[str, Kind] = {}
    for module in pkgutil.iter_modules(home.__path__):
        kind = getattr(importlib.import_module(f"{home.__name__}.{module.name}"), "KIND", None)
        if isinstance(kind, Kind) and found.setdefault(kind.word, kind) is not kind:
            msg = f"two distributions are called {kind.word!r}"
            raise TypeError(msg)
    return dict(sorted(found.items()))
