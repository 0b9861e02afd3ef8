"""Ctrl-C and SIGTERM while a simulation runs: it ends there, and what was counted so far is whole.

What a server writes down is a row at a time; only while rows are added up must nobody break in.
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
    """Somebody wants the run to end here. As with `KeyboardInterrupt`, nobody on the way may take it for an error."""


class Interrupts:
    """Turns SIGINT and SIGTERM into `StoppedError` within `running`, but not within `whole`: there it waits. Anywhere else it
    is only noted (`asked`). A second one is a `KeyboardInterrupt`; a second SIGTERM changes nothing, since `timeout` sends two.

    Where no signal can be caught (any thread but the main one) nothing changes.
    """

    def __init__(self) -> None:
        self.asked = False
        self._runs = self._held = False
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
        """What can be ended anywhere."""
        self._runs = True
        try:
            self._raise()
            yield
        finally:
            self._runs = False

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What has to be done to its end."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self._raise()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            if number == self._first == signal.SIGTERM:
                return
            raise TerminatedError if number == signal.SIGTERM else KeyboardInterrupt
        self.asked, self._first = True, number
        if not self._held:
            self._raise()

    def _raise(self) -> None:
        if self.asked and self._runs:
            raise StoppedError
