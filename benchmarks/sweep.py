"""Points a second of `roofline.compile`, and the bound, memory and fit of a grid against NumPy written by hand.

A grid has batches from 1 and contexts from 0 to 100,000 on axes of their own. The answers that `by_hand.py` gives too are
compared before anything is measured. Times are CPU time, medians; what is set against each other takes turns.

    python benchmarks/sweep.py [--sides 1000 2000] [--runs 9]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # before NumPy is imported

import by_hand  # noqa: E402
import numpy as np  # noqa: E402
from clock import in_turns, seconds  # noqa: E402

import roofline  # noqa: E402
from roofline.predict.grid import COLUMNS  # noqa: E402

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
FEW = ("time_bound_s", "memory_bytes", "fits")


def axes(side: int) -> tuple[by_hand.Array, by_hand.Array]:
    """Batches down, contexts across."""
    return np.arange(1.0, side + 1)[:, None], np.linspace(0, 100_000, side).round()[None, :]


def check(ours: dict[str, Any], hand: by_hand.Answer) -> None:
    """Both say the same, or nothing is measured."""
    for name, values in zip(FEW, hand, strict=True):
        if not (np.array_equal if name == "fits" else close)(ours[name], values):
            sys.exit(f"{name}: by_hand.py says something else, so there is nothing to compare")


def close(one: Any, other: Any) -> bool:
    """Equal to nine digits."""
    return np.allclose(one, other, rtol=1e-9, atol=0)


def grid(side: int, runs: int) -> None:
    """One grid of decode steps: few columns beside the hand-written ones, then more columns."""
    step = roofline.compile(MODEL, HARDWARE)
    batch, context = axes(side)
    few = step(batch=batch, context=context, columns=FEW)
    check(few, by_hand.step(batch, context))
    check(few, by_hand.factored(batch, context))
    del few  # so that each run may use its memory again
    every = tuple(COLUMNS)
    taken = in_turns(
        {
            "ours": lambda: step(batch=batch, context=context, columns=FEW),
            "hand": lambda: by_hand.step(batch, context),
            "factored": lambda: by_hand.factored(batch, context),
        },
        runs,
    )
    taken["plain"] = seconds(lambda: step(batch=batch, context=context), max(runs // 3, 1))
    taken["every"] = seconds(lambda: step(batch=batch, context=context, estimate=True, columns=every), max(runs // 3, 1))

    def line(name: str, text: str, more: str = "") -> None:
        print(f"  {text:34} {side**2 / taken[name]:12,.0f} points/s{more}")

    print(f"decode, {side:,} x {side:,} points")
    line("ours", "bound, memory, fits")
    line("hand", "by hand", f"  ours/by hand {taken['hand'] / taken['ours']:.2f}")
    line("factored", "by hand, attention factored", f"  ours/by hand {taken['factored'] / taken['ours']:.2f}")
    line("plain", "the columns given unless asked")
    line("every", f"with estimates, all {len(every)} columns")


def others(side: int, runs: int) -> None:
    """Points in a list, against the same by hand, and prompts."""
    random = np.random.default_rng(0)
    points: dict[str, Any] = {"batch": random.integers(1, 512, side**2), "context": random.integers(0, 100_000, side**2)}
    step, prompts = roofline.compile(MODEL, HARDWARE), roofline.compile(MODEL, HARDWARE, "prefill")
    lengths: dict[str, Any] = {"batch": axes(side)[0], "input_len": np.linspace(16, 32_768, side).round()[None, :]}
    batch, context = (points[name].astype(float) for name in ("batch", "context"))
    check(step(**points, columns=FEW), by_hand.step(batch, context))
    turns = {"ours": lambda: step(**points, columns=FEW), "hand": lambda: by_hand.step(batch, context)}
    listed = in_turns(turns, runs)
    taken = {
        "decode, points in a list": listed["ours"],
        "prompts, a grid": seconds(lambda: prompts(**lengths, columns=FEW), runs),
        "prompts, with estimates": seconds(lambda: prompts(**lengths, estimate=True), runs),
    }
    print(f"{side**2:,} points; the list: ours/by hand {listed['hand'] / listed['ours']:.2f}")
    for name, spent in taken.items():
        print(f"  {name:34} {side**2 / spent:12,.0f} points/s")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[1000, 2000], help="points along each axis of a grid")
    parser.add_argument("--runs", type=int, default=9, help="runs, of which the median counts [9]")
    options = parser.parse_args()
    start = time.process_time()
    roofline.compile(MODEL, HARDWARE)
    print(f"compile, first time in a process     {(time.process_time() - start) * 1e3:10.1f} ms")
    for side in options.sides:
        grid(side, options.runs)
    others(options.sides[0], max(options.runs // 3, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
