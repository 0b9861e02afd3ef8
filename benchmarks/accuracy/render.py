"""The text of docs/accuracy.md from measured figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from roofline.measure.calibrate import engine_steps
from roofline.predict.efficiency.forms import FORMS
from roofline.specs.fit import Family
from roofline.specs.library import fit_files, load_fit

HERE = Path(__file__).parent
Cells = list[dict[str, Any]]


def percent(value: float, sign: str = "") -> str:
    """A share with one decimal."""
    return f"{100 * value:{sign}.1f}"


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]], left: int = 1) -> list[str]:
    """A Markdown table whose first columns are text."""
    head = ["---"] * left + ["---:"] * (len(columns) - left)
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join(head)}|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def all_cells(cells: Cells) -> list[str]:
    """One row a family, accelerator and backend."""
    ordered = sorted(cells, key=lambda cell: (cell["key"], cell["gpu"], cell["backend"]))
    rows = (
        (
            cell["key"], cell["gpu"], cell["backend"], f"{cell['rows']:,} of {cell['shapes']}",
            *(f"{percent(cell[name]['median'])} / {percent(cell[name]['mean'])}" for name in ("bound", "ceilings")),
            f"**{percent(cell['form']['median'])}** / {percent(cell['form']['mean'])}",
            percent(cell["form"]["bias"], "+"), "" if cell["coverage"] is None else f"{100 * cell['coverage']:.0f}",
        )
        for cell in ordered
    )  # fmt: skip
    columns = ("family", "accelerator", "backend", "rows of shapes", "bound", "3 parameters", "estimate", "bias", "in band")
    return table(columns, rows, 3)


def by_op(cells: Cells) -> list[str]:
    """Medians over accelerators and backends."""
    found: dict[str, Cells] = defaultdict(list)
    for cell in cells:
        found[cell["key"].split("/")[0]].append(cell)
    rows = (
        (
            op, str(len(group)), f"{sum(cell['rows'] for cell in group):,}",
            *(percent(median(cell[name]["median"] for cell in group)) for name in ("bound", "ceilings", "form")),
            " to ".join(percent(end(cell["form"]["median"] for cell in group)) for end in (min, max)),
        )
        for op, group in sorted(found.items())
    )  # fmt: skip
    return table(("op", "fits", "rows held out", "bound", "3 parameters", "estimate", "from best to worst fit"), rows)


def terms(cells: Cells) -> list[str]:
    """What each parameter of each form is worth: the held-out median without it, less with it."""
    families: dict[tuple[str, str, str], Family] = {}
    for gpu, paths in fit_files().items():
        for path in paths:
            fit = load_fit(path)[0]
            families |= {(gpu, fit.backend, key): family for key, family in fit.families.items()}
    worth: dict[str, dict[str, list[tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        form = families[cell["gpu"], cell["backend"], cell["key"]].form
        for name, change in cell["without"].items():
            worth[form][name].append((change, f"{cell['gpu']} {cell['backend']} {cell['key']}"))
    lines: list[str] = []
    for name in sorted(worth):
        form = FORMS[name]
        lines += ["", f"### `{name}`", "", f"{form.about[0].upper()}{form.about[1:]}.", ""]
        rows = []
        for entry in form.parameters:
            changes = sorted(worth[name].get(entry.name, []))
            if not changes:
                rows.append((f"`{entry.name}`", entry.meaning, "always there", "", ""))
                continue
            most, where = changes[-1]
            rows.append(
                (
                    f"`{entry.name}`",
                    entry.meaning,
                    percent(median(value for value, _ in changes), "+"),
                    percent(most, "+"),
                    where,
                )
            )
        lines += table(("parameter", "meaning", "median", "most", "there"), rows, 2)
    return lines


def transferred(tried: list[dict[str, Any]]) -> list[str]:
    """Fits of one accelerator on another's kernels, of the same backend and formats."""
    pairs: dict[tuple[str, str, str], list[tuple[str, float]]] = defaultdict(list)
    for entry in tried:
        if entry["kind"] in ("architecture", "accelerator"):
            op = entry["from"][2]
            pairs[op, entry["from"][0], entry["to"][0]].append((entry["from"][1], entry["median"]))
    rows = (
        (op, here, there, ", ".join(f"{backend} {percent(value)}" for backend, value in sorted(found)))
        for (op, here, there), found in sorted(pairs.items())
    )
    return table(("family", "fitted on", "asked about", "median error by backend"), rows, 4)


def worlds(cells: Cells) -> list[str]:
    """One row a collective, accelerator, backend and number of ranks that a fit did not see."""
    ordered = sorted(cells, key=lambda cell: (cell["key"], cell["gpu"], cell["backend"]))
    rows = (
        (
            cell["key"], cell["gpu"], f"{cell['backend']}, {entry['ranks']} ranks", f"{entry['rows']:,}",
            *(f"{percent(entry[name]['median'])} / {percent(entry[name]['bias'], '+')}" for name in ("short", "long")),
        )
        for cell in ordered
        for entry in cell["worlds"]
    )  # fmt: skip
    return table(("op", "accelerator", "backend and ranks left out", "rows", "up to 256 KiB", "above"), rows, 3)


def serving(paths: list[Path]) -> list[str]:
    """TPOT of closed loops by engine, model and accelerator, each model predicted without any point of it."""
    frames = [engine_steps(paths, engine)[1] for engine in ("vllm", "sglang", "trtllm")]
    frame = pd.concat(frames)
    frame = frame.assign(
        off=frame["estimate_s"] / frame["measured_s"] - 1,
        inside=frame["measured_s"].between(frame["low_s"], frame["high_s"]),
    )
    usable = frame[frame["usable"]]
    few = usable["regime"].astype(str) == "<=8 clients"
    dense = usable["expert_layers"] == 0
    rows = [
        _serving("all", usable), _serving("dense models", usable[dense]), _serving("models with experts", usable[~dense]),
        *(_serving(f"{regime}", some) for regime, some in usable.groupby(usable["regime"].astype(str))),
        *(_serving(f"<=8 clients, {name}", some) for name, some in usable[few].groupby("hardware")),
    ]  # fmt: skip
    whole = table(("points", "n", "bound: median", "estimate: median", "mean", "bias", "in the interval"), rows, 1)
    rows = [
        (engine, model, hardware, *_serving("" if used else "left out", some))
        for (engine, model, hardware, used), some in frame.groupby(["backend", "kernel", "hardware", "usable"])
    ]
    columns = (
        "engine",
        "model",
        "accelerator",
        "",
        "n",
        "bound: median",
        "estimate: median",
        "mean",
        "bias",
        "in the interval",
    )
    return [*whole, "", *table(columns, rows, 4)]


def _serving(name: str, some: pd.DataFrame) -> tuple[str, ...]:
    off = some["off"]
    return (
        name, f"{len(some):,}", percent((some["bound_s"] / some["measured_s"] - 1).abs().median()), percent(off.abs().median()),
        percent(off.abs().mean()), percent(off.median(), "+"), f"{100 * some['inside'].mean():.0f}",
    )  # fmt: skip


def page(cells: Cells, tried: list[dict[str, Any]], points: list[Path]) -> str:
    """The whole page."""
    words = (HERE / "words.md").read_text(encoding="utf-8")
    parts = {
        "BY_OP": by_op(cells),
        "CELLS": all_cells(cells),
        "TERMS": terms(cells),
        "WORLDS": worlds(cells),
        "TRANSFER": transferred(tried),
        "SERVING": serving(points) if points else [],
    }
    for name, lines in parts.items():
        words = words.replace(f"<!-- {name} -->", "\n".join(lines))
    return words
