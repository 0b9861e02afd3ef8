"""Draw the figures of the pages on commands: `python docs/build_figures.py`. Each is what the page's first command draws."""  # noqa: INP001 - no package

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import roofline
from roofline.audit.claims import judge
from roofline.report.claim_page import view
from roofline.report.figure_files import figure_file
from roofline.report.figures import figures_of

FOLDER = Path(__file__).with_name("images")
PAGE = FOLDER / "device.svg"
MODEL, HARDWARE = "llama-3.1-8b", "a100-sxm-80gb"
PROMPTS = "lognormal:1155:900"
CLAIM = "llama-3.1-8b on a100-sxm-80gb: 3500 tok/s at batch 1 fp16"


def _plan() -> Any:
    hardware = [HARDWARE, "h100-sxm"]
    return roofline.plan(MODEL, hardware=hardware, rate=50, input_len=PROMPTS, output_len="211", ttft="2 s", tpot="50 ms")


def _simulation() -> Any:
    lengths = {"input_len": PROMPTS, "output_len": "lognormal:211:160"}
    return roofline.simulate(MODEL, HARDWARE, rate=4, requests=5000, ttft="2 s", tpot="50 ms", seed=1, **lengths)


def _sweep() -> Any:
    axes = {"hardware": [HARDWARE, "h100-sxm"], "tp": [1, 2], "batch": [1, 4, 16, 64, 256], "context": "1k,8k"}
    return roofline.sweep({"model": MODEL, **axes})


FIGURES: dict[str, tuple[Callable[[], Any], str]] = {
    "device.svg": (lambda: roofline.analyze(MODEL, HARDWARE), "device"),
    "plan.svg": (_plan, "cost-tpot"),
    "simulate.svg": (_simulation, "distribution"),
    "preempt.svg": (lambda: roofline.preempt(MODEL, HARDWARE, tokens=2048), "costs"),
    "sweep.svg": (_sweep, "front-decode"),
    "limits.svg": (lambda: roofline.limits(MODEL, HARDWARE, ttft="1 s", tpot="50 ms"), "batch-limits"),
    "claim.svg": (lambda: view(judge(CLAIM), CLAIM, ""), "scale-0"),
}
"""By the name of the file: what gives the result, and the figure of it."""


def drawn(name: str) -> str:
    """The figure of one file, as `--figure` writes it."""
    make, key = FIGURES[name]
    figures = figures_of(make())
    return figure_file(figures.make(key), ".svg", figures.about).decode()


def page() -> str:
    """The file of the first figure."""
    return drawn(PAGE.name)


def files() -> dict[Path, str]:
    """The other files."""
    return {FOLDER / name: drawn(name) for name in FIGURES if name != PAGE.name}


if __name__ == "__main__":
    for path, text in {PAGE: page(), **files()}.items():
        path.write_text(text, encoding="utf-8")
