"""Cases of a test that does the same with each: a few of them are enough to try other versions of dependencies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def same_calls(cases: Iterable[Any], every: int = 8) -> list[Any]:
    """Return the cases of a parametrized test, all but the first, the one `every` later and so on marked `same_calls`.

    Args:
        cases: values, or tuples of values.
        every: of so many cases one has no mark.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.same_calls] if index % every else [])
        for index, case in enumerate(cases)
    ]
