"""Write the errors of the queueing formulas into docs/capacity.md: `python docs/build_queueing.py`."""  # noqa: INP001 - no package

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.formatting import percent

if TYPE_CHECKING:
    import numpy as np

PAGE = Path(__file__).with_name("capacity.md")
SETTINGS = PAGE.parents[1] / "tests"  # servers and loads are those of tests/golden/test_queueing.py
BEGIN, END = "<!-- errors: written by docs/build_queueing.py -->", "<!-- end of errors -->"
BURSTS, AT = (1.5, 2.0), (0.5, 0.7)


def page() -> str:
    """The whole page, with the tables in their place."""
    if str(SETTINGS) not in sys.path:
        sys.path.append(str(SETTINGS))
    settings = importlib.import_module("queueing_settings")
    head = "| " + " | ".join(["of the rate that saturates", *settings.NAMES]) + " |\n|---|" + "---|" * len(settings.NAMES)
    poisson = [f"| {percent(share, 0)} | {_row(found)} |" for share, found in settings.errors().items()]
    bursts = [
        f"| {percent(share, 0)}, CV {cv:g} | {_row(found)} |"
        for cv in BURSTS
        for share, found in settings.errors(AT, cv).items()
    ]
    tables = "\n".join([head, *poisson, "", "With bursts:", "", head, *bursts])
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.partition(END)[2]}"


def _row(found: np.ndarray) -> str:
    """Of each column, the median of the absolute error over servers and loads, and the largest."""
    columns = abs(found).T
    return " | ".join(f"{percent(_median(column), 1)} ({percent(max(column), 0)})" for column in columns)


def _median(values: np.ndarray) -> float:
    ordered = sorted(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
