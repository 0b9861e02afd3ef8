"""Ctrl-C and SIGTERM while a simulation runs: it ends there, and what was counted so far is whole.

The log of a run is written row by row; only while its rows are added up must nothing interrupt.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from roofline.errors import TerminatedError


class StoppedError(BaseException):
    """The user ends the run. As with `KeyboardInterrupt`, no handler on the way may take it for an error."""


class Interrupts:
    """Turns SIGINT and SIGTERM into `StoppedError` within `running`; within `whole` the error waits for its end. Anywhere else
    a signal is only noted (`requested`). A second one is a `KeyboardInterrupt`; a second SIGTERM changes nothing, since
    `timeout` sends two.

    Where no signal can be caught (any thread but the main one) nothing changes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._running = self._deferred = False
        self._first = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._caught) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it the run can be ended anywhere."""
        self._running = True
        try:
            self._raise()
            yield
        finally:
            self._running = False

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within it nothing interrupts."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self._raise()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if number == self._first == signal.SIGTERM:
                return
            raise TerminatedError if number == signal.SIGTERM else KeyboardInterrupt
        self.requested, self._first = True, number
        if not self._deferred:
            self._raise()

    def _raise(self) -> None:
        if self.requested and self._running:
            raise StoppedError
