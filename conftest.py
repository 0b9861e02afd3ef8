"""What every run of pytest in this repository has.

Tests are marked by kind: `unit`, `properties`, `golden`, `parity`, `contracts`, `fuzz`, `browser`, `bench`, `gpu` after their
folder, `examples` for those in docstrings. `fast` are the quick ones that need no extra: `pytest -m fast`.

`--order reverse` runs tests from the last to the first; `--order 7` shuffles modules, and the tests in each of them, by that
number. `--every 8` runs of each parametrized test the first case and every eighth after it, of those marked `every_case` all.
Examples in modules of the package are skipped where an extra that they import is not installed.
"""

from __future__ import annotations

import importlib
import os
import random
from collections import Counter
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import pytest

PACKAGE = Path(__file__).with_name("roofline")
EXTRAS = ("torch", "pynvml", "pyarrow", "distributed", "huggingface_hub", "jupytext", "nbformat")
"""What modules of the package may import and an installation may lack."""

# What a shell or a CI service may have set: another library of specs, another width, colours in a pipe.
for name in (
    "ROOFLINE_PATH", "ROOFLINE_DEBUG", "COLUMNS", "LINES", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "PY_COLORS",
    "TTY_COMPATIBLE", "TTY_INTERACTIVE", "TERMINAL_WIDTH", "GITHUB_ACTIONS", "PYTHONWARNINGS", "PYTHONIOENCODING",
):  # fmt: skip
    os.environ.pop(name, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--order` and `--every`."""
    parser.addoption("--order", metavar="reverse|NUMBER", type=_order, help="run tests in reverse, or shuffled by this number")
    parser.addoption(
        "--every", metavar="N", type=_every, default=1, help="of each parametrized test, run the first case and every N-th"
    )


def _order(text: str) -> str:
    if text != "reverse" and not text.isdecimal():
        msg = f"--order must be reverse or a whole number from 0, not {text!r}"
        raise pytest.UsageError(msg)
    return text


def _every(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        msg = f"--every must be a whole number from 1, not {text!r}"
        raise pytest.UsageError(msg)
    return int(text)


TESTS = Path(__file__).with_name("tests")
KINDS = ("unit", "properties", "golden", "parity", "contracts", "fuzz", "browser", "bench", "gpu")
QUICK = ("unit", "properties", "contracts", "examples")


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks a test by its kind; examples that import an extra which is not installed are skipped."""
    if isinstance(item, pytest.DoctestItem) and item.dtest is not None:
        for extra in EXTRAS:
            if any(example.source == f"import {extra}\n" for example in item.dtest.examples) and not find_spec(extra):
                item.add_marker(pytest.mark.skip(reason=f"{extra} is not installed"))
    kind = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else "examples"
    if kind in (*KINDS, "examples"):
        item.add_marker(kind)
    if kind in QUICK and item.get_closest_marker("slow") is None:
        item.add_marker("fast")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects cases by `--every`, and sorts by `--order`.

    Tests of a module stay together: what a module prepares once is not prepared again for each of them.
    """
    every = config.getoption("--every")
    if every > 1:
        number: Counter[str] = Counter()
        chosen: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            test = item.nodeid.partition("[")[0]
            skipped = number[test] % every and item.get_closest_marker("every_case") is None
            (left if skipped else chosen).append(item)
            number[test] += 1
        config.hook.pytest_deselected(items=left)
        items[:] = chosen
    order = config.getoption("--order")
    if order == "reverse":
        items.reverse()
    elif order is not None:
        chance = random.Random(order)  # noqa: S311 - every process of a run has to come to the same order
        modules = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
        chance.shuffle(modules)
        for tests in modules:
            chance.shuffle(tests)
        items[:] = [test for tests in modules for test in tests]


def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """Skips the examples of a module that imports what is not installed, and says what that is."""
    if not isinstance(collector, pytest.Module) or not collector.path.is_relative_to(PACKAGE):
        return None
    name = ".".join(collector.path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in EXTRAS:
            why = f"{error.name} is not installed"
            return pytest.CollectReport(collector.nodeid, "skipped", (str(collector.path), 1, why), [])
    except Exception:  # noqa: BLE001, S110 - pytest imports it once more, and says what is wrong with it
        pass
    return None
