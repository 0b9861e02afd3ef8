"""Points a second of `roofline.compile`, against one NumPy operation that any such sweep has to do.

The baseline takes the elementwise maximum of two arrays with a row a point and a column an operator: the roofline
itself, and nothing else. Both run over the same number of points; the ratio says how many of those passes an answer
with times, bytes, memory and limits costs.

    python benchmarks/sweep.py [--points 1000000] [--runs 5]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from clock import seconds

import roofline

MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"


def main() -> int:
    """Measure and print: points one by one in arrays of equal shape, and as a grid of batches by contexts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000, help="points of the sweep [1000000]")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the median counts [5]")
    options = parser.parse_args()

    start = time.perf_counter()
    step = roofline.compile(MODEL, HARDWARE)
    compiled = time.perf_counter() - start
    operators = len(roofline.analyze(MODEL, HARDWARE, phase="decode").decode.operators)

    random = np.random.default_rng(0)
    batch = random.integers(1, 512, options.points)
    context = random.integers(0, 100_000, options.points)
    side = int(options.points**0.5)
    left, right = (random.random((options.points, operators)) for _ in range(2))

    baseline = seconds(lambda: np.maximum(left, right), options.runs)
    print(f"compile            {compiled * 1e3:8.1f} ms")
    print(f"np.maximum         {options.points / baseline:12,.0f} points/s  ({options.points:,} x {operators})")
    listed = seconds(lambda: step(batch=batch, context=context), options.runs)
    print(f"points in a list   {options.points / listed:12,.0f} points/s  {listed / baseline:6.1f} times np.maximum")
    grid = {"batch": np.arange(1, side + 1)[:, None], "context": np.linspace(0, 100_000, side).astype(int)[None, :]}
    gridded = seconds(lambda: step(**grid), options.runs)
    rate = side**2 / gridded
    print(f"points in a grid   {rate:12,.0f} points/s  {options.points / rate / baseline:6.1f} times np.maximum")
    estimated = seconds(lambda: step(**grid, estimate=True), options.runs)
    print(f"  with estimates   {side**2 / estimated:12,.0f} points/s  {estimated / gridded:6.1f} times the bounds alone")
    prompts = roofline.compile(MODEL, HARDWARE, "prefill")
    lengths = {"batch": grid["batch"], "input_len": np.linspace(16, 32_768, side).astype(int)[None, :]}
    bounds = seconds(lambda: prompts(**lengths), options.runs)
    estimates = seconds(lambda: prompts(**lengths, estimate=True), options.runs)
    print(f"prompts in a grid  {side**2 / bounds:12,.0f} points/s")
    print(f"  with estimates   {side**2 / estimates:12,.0f} points/s  {estimates / bounds:6.1f} times the bounds alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
