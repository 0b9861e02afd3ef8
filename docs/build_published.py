"""Write the table of published throughputs into docs/accuracy.md: `python docs/build_published.py`.

The rows are found as tests find them (ROOFLINE_TRUTH); without them the table stays as it is. It takes one to two minutes.
"""  # noqa: INP001 - no package

from __future__ import annotations

import importlib
import os
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

PAGE = Path(__file__).with_name("accuracy.md")
TESTS = PAGE.parents[1] / "tests"
TRUTH = Path(os.environ.get("ROOFLINE_TRUTH") or PAGE.parents[2] / "shared") / "truth"
BEGIN, END = "<!-- published: written by docs/build_published.py -->", "<!-- end of published -->"


def page() -> str:
    """The page with the table in its place."""
    text = PAGE.read_text(encoding="utf-8")
    rows = TRUTH / "serving" / "published.csv"
    if not rows.is_file():
        return text
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{rest.partition(END)[2]}"


def ratios(rows: Path) -> tuple[list[tuple[Any, float, bool]], list[Any]]:
    """Each row with predicted over measured and whether its interval holds the measured rate; the rows that are refused."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    published = importlib.import_module("published_throughput")
    known, refused = [], []
    for row in published.rows(rows):
        result = published.result(row, rows.parents[1] / "models" / "configs")
        if result is None:
            refused.append(row)
        else:
            between = result.throughput_interval["output_tokens_per_s"]
            inside = between["low"] <= row.measured <= between["high"]
            known.append((row, result.throughput["output_tokens_per_s"] / row.measured, inside))
    return known, refused


def table(rows: Path) -> str:
    """Errors by what a row is of."""
    known, refused = ratios(rows)
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for row, ratio, inside in known:
        shape = "dense" if row.model.startswith(DENSE) and "llama-4" not in row.model else "MoE"
        static = (f"layout: {row.layout}",) if row.static_batch is None else ("static batches (v0.9)",)
        names = ("all", f"card: {row.gpu}", f"precision: {row.dtype}", *static, f"model: {row.model}", shape)
        for name in names:
            groups[name].append((ratio, inside))
    lines = [
        "| slice | n | median error, % | within 25 %, % | median of predicted/measured | from | to | in the interval, % |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [_line(name, groups[name]) for name in sorted(groups, key=lambda name: (name != "all", name))]
    left = f"{len(refused)} rows are refused, or do not fit by the engine's rules: {_counted(refused)}." if refused else ""
    return "\n".join(lines) + (f"\n\n{left}" if left else "")


DENSE = ("llama", "mistral", "falcon", "gpt-j")


def _line(name: str, predicted: list[tuple[float, bool]]) -> str:
    ratios = [ratio for ratio, _ in predicted]
    errors = [abs(ratio - 1) for ratio in ratios]
    near = sum(error <= 0.25 for error in errors) / len(errors)
    return (
        f"| {name} | {len(ratios)} | {100 * median(errors):.1f} | {100 * near:.0f} | {median(ratios):.2f} | "
        f"{min(ratios):.2f} | {max(ratios):.2f} | {100 * sum(inside for _, inside in predicted) / len(predicted):.0f} |"
    )


def _counted(rows: list[Any]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[f"{row.model} {row.dtype} {row.gpu} {row.layout}"] += 1
    return ", ".join(f"{name} ({count})" for name, count in counts.items())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
