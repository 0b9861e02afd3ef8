"""Write the tables of docs/closed-loop.md and draw its figure: `python docs/build_closed_loop.py`, some minutes.

Measured points are found as tests find them (ROOFLINE_TRUTH); without them the tables that need them stay as they are.
"""  # noqa: INP001 - no package

from __future__ import annotations

import csv
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import roofline

PAGE = Path(__file__).with_name("closed-loop.md")
FIGURE = PAGE.parent / "images" / "convoy.svg"
SETTINGS = PAGE.parents[1] / "tests"  # points and load generators are those of tests/golden/test_closed_loop_ttft.py
INPUTS, MEASURED, CHOSEN, FIRST, WAITS = "inputs", "measured", "chosen", "first", "waits"
TRUTH = Path(os.environ.get("ROOFLINE_TRUTH") or PAGE.parents[2] / "shared") / "truth" / "serving"
ENGINES = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "sglang": "SGLang"}

# The server of the figure and of the table of inputs: prompts and answers of 922 tokens on average
SERVER: dict[str, Any] = {
    "tp": 4, "backend": "vllm", "quantization": "fp8", "max_num_seqs": 64, "max_num_batched_tokens": 8192,
}  # fmt: skip
CLIENTS = 32
EQUAL, DRAWN = ("922", f"closed:{CLIENTS}:prompts=10"), ("1024", f"closed:{CLIENTS}:prompts=10:spread=0.8-1")
WAYS = (
    ("equal lengths, all at once, 10 prompts per client", *EQUAL),
    ("5 prompts per client", "922", f"closed:{CLIENTS}:prompts=5"),
    ("1 prompt per client", "922", f"closed:{CLIENTS}:prompts=1"),
    ("the first wave is not counted", "922", f"closed:{CLIENTS}:prompts=10:warm-up=1"),
    ("they begin over 10 s", "922", f"closed:{CLIENTS}:prompts=10:ramp=10 s"),
    ("lengths from 0.8 to 1 of 1,024", *DRAWN),
    ("and the first wave is not counted", "1024", f"{DRAWN[1]}:warm-up=1"),
)

WIDTH, LEFT, RIGHT, TOP, PANEL, HEIGHT, GAP = 940, 62, 14, 62, 402, 230, 60
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 14px; font-weight: 600 } .small { fill: #59636e }
.axis { stroke: #818b98; fill: none } .grid { stroke: #818b98; stroke-opacity: .25 }
.request { fill: #0969da } .mean { stroke: #cf222e; stroke-width: 1.6; stroke-dasharray: 6 4 } .told { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .request { fill: #4493f8 } .mean { stroke: #ff7b72 } .told { fill: #ff7b72 }
}
"""


def page() -> str:
    """The whole page, with the tables in their place."""
    text = _placed(PAGE.read_text(encoding="utf-8"), INPUTS, _inputs())
    if not all((TRUTH / name).is_file() for name in _loops().FILES):
        return text
    for name, table in _tables().items():
        text = _placed(text, name, table)
    return text


def _placed(text: str, what: str, found: str) -> str:
    begin, end = f"<!-- {what}: written by docs/build_closed_loop.py -->", f"<!-- end of {what} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{found}\n\n{end}{rest.partition(end)[2]}"


# Tables


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """The first so many columns are words, the others numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * words + "---:|" * (len(head) - words)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _inputs() -> str:
    rows = []
    for name, length, workload in WAYS:
        times = _simulated(length, workload)[0]
        written = f"`{workload.replace(f'closed:{CLIENTS}', 'closed:N')}`"
        rows.append((
            name, written, f"{times.ttft_s.mean:.3f}", f"{times.ttft_s.p99:.3f}", f"{times.tpot_s.mean * 1e3:.2f}",
            f"{times.throughput['output_tokens_per_s']:,.0f}",
        ))  # fmt: skip
    return _table(("", "`--workload`", "TTFT, mean, s", "p99, s", "TPOT, ms", "output tokens/s"), rows, 2)


def _loops() -> Any:
    """Points, and the simulator under what their sources document."""
    if str(SETTINGS) not in sys.path:
        sys.path.append(str(SETTINGS))
    return importlib.import_module("closed_loops")


def _tables() -> dict[str, str]:
    """The tables of measured points, by name."""
    loops = _loops()
    found = loops.measured(TRUTH)
    return {
        MEASURED: _measured(loops, found.documented),
        CHOSEN: _chosen(loops, found.points, found.fits, found.kernels),
        FIRST: _first(found.kernels),
        WAITS: _waits(loops, found.waits, found.kernels, found.documented),
    }


_ERRORS = ("n", "TPOT: closed form", "TPOT: simulated", "bias", "in the interval", "TTFT: simulated", "bias", "in the interval")


def _errors(loops: Any, some: Any) -> tuple[str, ...]:
    closed = np.median(np.abs(some["closed_form"] / some["tpot"] - 1))
    cells = [f"{len(some):,}", _percent(closed)]
    for name in ("tpot", "ttft"):
        off = loops.errors(some, name)
        cells += [_percent(np.median(np.abs(off))), f"{np.median(off) * 100:+.1f}", f"{loops.inside(some, name) * 100:.0f}"]
    return tuple(cells)


def _measured(loops: Any, frame: Any) -> str:
    """Errors under what the sources document, each model by a fit without it."""
    clients = frame["clients"]
    parts = [
        ("all", frame),
        *((ENGINES[engine], some) for engine, some in frame.groupby("engine")),
        ("8 clients or fewer", frame[clients <= 8]),
        ("9 to 64", frame[(clients > 8) & (clients <= 64)]),
        ("more than 64", frame[clients > 64]),
    ]
    whole = _table(("points", *_ERRORS), [(name, *_errors(loops, some)) for name, some in parts])
    rows = [
        (ENGINES[engine], source, model, hardware, *_errors(loops, some))
        for (engine, source, model, hardware), some in frame.groupby(["engine", "source", "model", "hardware"])
    ]
    return "\n\n".join([whole, _table(("engine", "source", "model", "accelerator", *_ERRORS), rows, 4)])


def _chosen(loops: Any, points: list[Any], fits: Any, documented: Any) -> str:
    """Settings that fit TTFT of one model, on the other models of the engine."""
    prompts_first = replace(loops.MIXED, spread="0.8-1", scheduler="vllm-v0")
    tried: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("trtllm", "a slot fewer than clients", {"fewer": 1}),
        ("sglang", "3 prompts per client, lengths from 0.8 to 1", {"setup": prompts_first, "prompts": 3}),
        ("sglang", "prompts beside decodes (`--enable-mixed-chunk`)", {"setup": loops.MIXED}),
    )
    rows = []
    for engine, what, setting in tried:
        some = loops.judged([point for point in points if point.engine == engine], fits, **setting)
        for model, changed in sorted(some.groupby("model"), key=lambda entry: entry[0] != "llama-3.1-8b"):
            before = documented[(documented["engine"] == engine) & (documented["model"] == model)]
            errors = [np.median(np.abs(loops.errors(one, name))) for name in ("ttft", "tpot") for one in (before, changed)]
            rows.append((ENGINES[engine], what, model, f"{len(changed)}", *map(_percent, errors)))
    head = ("engine", "setting", "model", "n", "TTFT: documented", "with the setting", "TPOT: documented", "with the setting")
    return _table(head, rows, 3)


def _first(frame: Any) -> str:
    """What is left of TTFT beside the simulated one at few clients, of InferenceMAX: measured = a + b simulated.

    The line goes through the means of the shorter and of the longer prompts.
    """
    few = frame[(frame["clients"] <= 8) & (frame["source"] == "InferenceMAX")]
    rows = []
    for (engine, model, hardware, devices), some in few.groupby(["engine", "model", "hardware", "devices"]):
        means = some.groupby("prompt")[["simulated_ttft", "ttft"]].mean().to_numpy()
        if len(means) < 2:
            continue
        slope = (means[1, 1] - means[0, 1]) / (means[1, 0] - means[0, 0])
        fixed = means[0, 1] - slope * means[0, 0]
        rows.append((ENGINES[engine], model, hardware, f"{devices}", f"{len(some)}", f"{round(fixed * 1e3)}", f"{slope:.2f}"))
    return _table(("engine", "model", "accelerator", "TP", "n", "a, ms", "b"), rows, 3)


def _waits(loops: Any, waits: Any, before: Any, after: Any) -> str:
    """What TTFT has beside kernels, fitted without a model, and its errors without and with it."""
    rows = []
    for model, one in sorted(waits.items(), key=lambda entry: (not entry[0], entry[0])):
        errors = [_percent(np.median(np.abs(loops.errors(some if not model else some[some["model"] == model], name))))
                  for name in ("ttft", "tpot") for some in (before, after)]  # fmt: skip
        number = len(after) if not model else int((after["model"] == model).sum())
        rows.append((
            model or "each in turn; numbers of all", f"{number:,}", f"{one.eager * 1e3:.1f}", f"{one.front_end * 1e3:.0f}",
            f"{one.front_end_token * 1e6:.1f}", *errors,
        ))  # fmt: skip
    head = ("model left out", "n", "step with prompts, ms per layer with experts", "front end, ms", "us per prompt token",
            "TTFT without", "with", "TPOT without", "with")  # fmt: skip
    return _table(head, rows)


def _percent(value: float) -> str:
    return f"{value * 100:.1f}"


# Figure


def _simulated(length: str, workload: str) -> tuple[Any, list[float]]:
    """The result, and TTFT of each request in the order in which they were sent."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        found = roofline.simulate(
            "llama-3.1-70b", "h100-sxm", workload=workload, input_len=length, output_len=length, rows=path, **SERVER
        )
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return found, [float(row["ttft_s"]) for row in sorted(rows, key=lambda row: int(row["request"]))]


def figure() -> str:
    """TTFT of each request, in the order of sending, under equal and under drawn lengths."""
    panels = [("Equal lengths: 922 tokens", *_simulated(*EQUAL)), ("Lengths from 819 to 1,024 tokens", *_simulated(*DRAWN))]
    most = max(ttft for _, _, dots in panels for ttft in dots) * 1.05
    whole = TOP + HEIGHT + 44
    label = (
        "Two panels: time to first token of each of 320 requests in the order in which they were sent. The first 32 rise in "
        "steps up to 1.7 seconds in both. Later ones take about 0.44 seconds with equal lengths, and 0.06 with drawn ones."
    )
    size = f'viewBox="0 0 {WIDTH} {whole}" width="{WIDTH}" height="{whole}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">', f"<style>{STYLE}</style>"]
    for place, (title, found, dots) in enumerate(panels):
        parts += _panel(LEFT + place * (PANEL + GAP), title, dots, found.ttft_s.mean, most)
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: float, title: str, dots: list[float], mean: float, most: float) -> list[str]:
    def x(at: float) -> float:
        return left + PANEL * at / len(dots)

    def y(value: float) -> float:
        return TOP + HEIGHT * (1 - value / most)

    right, bottom = left + PANEL, TOP + HEIGHT
    parts = [
        f'<text class="title" x="{left}" y="18">{title}</text>',
        f'<text class="small" x="{left}" y="36">{CLIENTS} clients, 10 prompts each, all begin at once</text>',
        f'<text class="small" x="{left}" y="{TOP - 8}">TTFT, s</text>',
    ]
    for at in _ticks(most):
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(at):.1f}" y2="{y(at):.1f}"/>')
        parts.append(f'<text class="small" x="{left - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{at:g}</text>')
    for wave in range(0, len(dots) + 1, CLIENTS):
        parts.append(f'<line class="grid" x1="{x(wave):.1f}" x2="{x(wave):.1f}" y1="{TOP}" y2="{bottom}"/>')
        if wave % (2 * CLIENTS) == 0:
            parts.append(f'<text class="small" x="{x(wave):.1f}" y="{bottom + 17}" text-anchor="middle">{wave}</text>')
    title = "request, in the order of sending"
    parts.append(f'<text class="small" x="{left + PANEL / 2}" y="{bottom + 36}" text-anchor="middle">{title}</text>')
    parts.append(f'<path class="axis" d="M{left} {TOP}V{bottom}H{right}"/>')
    parts += [f'<circle class="request" cx="{x(at + 0.5):.1f}" cy="{y(ttft):.1f}" r="1.8"/>' for at, ttft in enumerate(dots)]
    parts.append(f'<line class="mean" x1="{left}" x2="{right}" y1="{y(mean):.1f}" y2="{y(mean):.1f}"/>')
    parts.append(f'<text class="told" x="{right}" y="{y(mean) - 6:.1f}" text-anchor="end">mean {mean:.2f} s</text>')
    return parts


def _ticks(end: float) -> list[float]:
    step = next(one for one in (0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100) if end / one <= 6)
    return [round(step * place, 6) for place in range(int(end / step) + 1)]


if __name__ == "__main__":
    FIGURE.write_text(figure(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
