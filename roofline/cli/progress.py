"""How far a long piece of work is, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def counted(unit: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A line that changes on a terminal, a line now and then elsewhere: so many of so many (None: nobody knows) are done."""
    if quiet:
        yield lambda done, of: None
        return
    start, last, first = time.monotonic(), time.monotonic(), -1
    terminal = sys.stderr.isatty()

    def told(done: int, of: int | None) -> None:
        nonlocal last, first
        first = done if first < 0 else first
        now = time.monotonic()
        if now - last < (0.2 if terminal else _EVERY) and (of is None or done < of):
            return
        last = now
        rate = (done - first) / max(now - start, 1e-9)
        left = f", {_duration((of - done) / rate)} left" if of is not None and rate and done < of else ""
        many = f"{done:,}" if of is None else f"{done:,} of {of:,}"
        line = f"{many} {unit}, {rate:,.0f} a second{left}"
        if terminal:
            sys.stderr.write(f"\r\x1b[2K{line}")
        elif now - start > _EVERY:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    try:
        yield told
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[2K")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
