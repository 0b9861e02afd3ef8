"""Rows a second of `roofline validate`, against reading the same table with pandas.

A made-up table of products and decode attention (shapes and latencies drawn at random) is read, checked, predicted and
summarised; the baseline only parses the CSV.

    python benchmarks/validate.py [--rows 200000] [--runs 3]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from clock import seconds

from roofline.measure.validate import to_dict, validate


def table(rows: int) -> pd.DataFrame:
    """Half products, half decode attention."""
    random = np.random.default_rng(0)
    half = rows // 2

    def whole(low: int, high: int) -> np.ndarray:
        return random.integers(low, high, half)

    heads = whole(1, 9)
    products = pd.DataFrame({"op": "gemm", "m": whole(1, 4096), "n": whole(64, 16384), "k": whole(64, 16384)})
    attention = pd.DataFrame(
        {
            "op": "attention_decode", "batch": whole(1, 256), "q_len": 1, "kv_len": whole(1, 32768), "n_heads": 8 * heads,
            "n_kv_heads": heads, "head_dim": 128, "window": 0,
        }
    )  # fmt: skip
    found = pd.concat([products, attention], ignore_index=True)
    return found.assign(
        source="made up", gpu="h100-sxm", dtype="bf16", backend="none", latency_us=random.uniform(10, 1e4, 2 * half)
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table [200000]")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median counts [3]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.csv"
        table(options.rows).to_csv(path, index=False)
        parsing = seconds(lambda: pd.read_csv(path), options.runs)
        whole = seconds(lambda: to_dict(validate([path])), options.runs)
    print(f"pd.read_csv        {options.rows / parsing:12,.0f} rows/s")
    print(f"roofline validate  {options.rows / whole:12,.0f} rows/s  {whole / parsing:6.1f} times pd.read_csv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
