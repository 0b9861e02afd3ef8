"""Write the table of disaggregated pools of docs/accuracy.md: `python docs/build_disaggregated.py`.

Measured points are found as tests find them (ROOFLINE_TRUTH); without them the page stays as it is.
"""  # noqa: INP001 - no package

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).with_name("accuracy.md")
TRUTH = Path(os.environ.get("ROOFLINE_TRUTH") or PAGE.parents[2] / "shared") / "truth" / "serving" / "disaggregated.csv"
BEGIN, END = "<!-- disaggregated: written by docs/build_disaggregated.py -->", "<!-- end of disaggregated -->"
CARDS = {"h100_sxm": "H100", "h200_sxm": "H200"}
HEAD = (
    "| DeepSeek-R1, fp8, TensorRT-LLM | prompt/output | rows | recipes | TPOT: median error | median ratio |"
    " tokens/s per GPU: median error | median ratio | TTFT: median ratio |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
)


def page() -> str:
    """The page with the table in its place; without the measured points as it stands."""
    text = PAGE.read_text(encoding="utf-8")
    if not TRUTH.is_file():
        return text
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}"


def table() -> str:
    """Median errors in percent, and medians of predicted over measured."""
    sys.path.append(str(PAGE.parents[1] / "tests"))
    pools = importlib.import_module("disaggregated_pools")
    lines, every = [HEAD], []
    for (system, prompt), rows in pools.compare(TRUTH).items():
        recipes = sum((recipe.system, recipe.prompt) == (system, prompt) for recipe in pools.RECIPES)
        devices = pools.NODES[system][1]
        found = _ratios(rows)
        every.append(found)
        what = f"{devices} {CARDS[system]} per replica | {prompt}/{pools.OUTPUT}"
        lines.append(f"| {what} | {len(rows)} | {recipes} | {_cells(found)} |")
    whole = np.concatenate(every)
    lines.append(f"| all |  | {len(whole)} | {len(pools.RECIPES)} | {_cells(whole)} |")
    return "\n".join(lines)


def _ratios(rows: list[Any]) -> np.ndarray:
    return np.array([
        (
            one.prediction.tpot / one.measured.tpot,
            one.prediction.rate_per_device / one.rate_per_device,
            one.prediction.ttft / one.measured.ttft,
        )
        for one in rows
    ])  # fmt: skip


def _cells(ratios: np.ndarray) -> str:
    tpot, rate, ttft = ratios.T
    parts = [f"{np.median(np.abs(each - 1)) * 100:.1f} | {np.median(each):.2f}" for each in (tpot, rate)]
    return " | ".join([*parts, f"{np.median(ttft):.2f}"])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
