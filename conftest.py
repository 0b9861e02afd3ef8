"""What every run of pytest in this repository has.

Tests are marked by kind: `unit`, `properties`, `golden`, `parity`, `contracts`, `fuzz`, `browser`, `bench`, `gpu` after their
folder, `examples` for those in docstrings. `fast` are the quick ones that need no extra: `pytest -m fast`.

`--order reverse` runs tests from the last to the first; `--order 7` shuffles modules, and the tests in each of them, by that
number. `--every 8` runs of each parametrized test the first case and every eighth after it, of those marked `every_case` all;
`--every 8+3` begins with the fourth case where a test has one. `--part 2/3` runs the second third of all tests, by their names,
and those marked `every_part`.
Examples in modules of the package are skipped where an extra that they import is not installed.
"""

from __future__ import annotations

import importlib
import os
import random
import zlib
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
    """Adds `--order`, `--every` and `--part`."""
    parser.addoption("--order", metavar="reverse|NUMBER", type=_order, help="run tests in reverse, or shuffled by this number")
    parser.addoption(
        "--every", metavar="N[+K]", type=_every, default=(1, 0), help="of each parametrized test, run every N-th case, K first"
    )
    parser.addoption("--part", metavar="I/N", type=_part, default=(1, 1), help="run the I-th of N parts of the tests")


def _order(text: str) -> str:
    if text != "reverse" and not text.isdecimal():
        msg = f"--order must be reverse or a whole number from 0, not {text!r}"
        raise pytest.UsageError(msg)
    return text


def _every(text: str) -> tuple[int, int]:
    number, _, first = text.partition("+")
    if not number.isdecimal() or int(number) == 0 or not (first or "0").isdecimal():
        msg = f"--every must be a whole number from 1, or two such as 8+3, not {text!r}"
        raise pytest.UsageError(msg)
    return int(number), int(first or 0) % int(number)


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not part.isdecimal() or not parts.isdecimal() or not 1 <= int(part) <= int(parts):
        msg = f"--part must be two whole numbers such as 2/3, not {text!r}"
        raise pytest.UsageError(msg)
    return int(part), int(parts)


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
    if kind in QUICK and not any(item.get_closest_marker(name) for name in ("slow", "night")):
        item.add_marker("fast")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests by `--part` and cases by `--every`, and sorts by `--order`.

    Tests of a module stay together: what a module prepares once is not prepared again for each of them.
    """
    chosen = _sample(items, config.getoption("--every"), config.getoption("--part"))
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
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


def _sample(items: list[pytest.Item], every: tuple[int, int], part: tuple[int, int]) -> list[pytest.Item]:
    """The items that run: of each test of the part at least one case, of those marked `every_case` all."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    step, first = every
    chosen: list[pytest.Item] = []
    for test, those in cases.items():
        if zlib.crc32(test.encode()) % part[1] == part[0] - 1 or those[0].get_closest_marker("every_part"):
            whole = those[0].get_closest_marker("every_case") is not None
            chosen += those if whole else those[min(first, len(those) - 1) :: step]
    return chosen


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
