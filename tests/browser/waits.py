"""Waiting for a page without `eval`.

Playwright's `wait_for_function` evaluates its expression inside the page, again at every poll, and the pages' content security
policy forbids that from the second time on. A locator's `wait_for` and `evaluate` (through the debugger) are not refused.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

TIMEOUT_S = 120.0
"""How long a page may take for anything: a machine with other work to do is no reason to fail."""
_POLL_MS = 20.0


def settle(page: Page) -> None:
    """Returns when the page shows what its controls say: it follows them when they rest."""
    page.locator("html:not([data-waiting])").wait_for(state="attached")


def wait_until(page: Page, expression: str, arg: object = None) -> None:
    """Returns when a JavaScript expression, or a function of `arg`, is true in the page."""
    deadline = time.monotonic() + TIMEOUT_S
    while not page.evaluate(expression, arg):
        if time.monotonic() > deadline:
            pytest.fail(f"not true after {TIMEOUT_S:g} s: {expression}")
        page.wait_for_timeout(_POLL_MS)
