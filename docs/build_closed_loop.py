"""Write the tables of docs/closed-loop.md and draw its figure: `python docs/build_closed_loop.py`.

With `--choose` the load generators are chosen anew too, which takes some minutes. Measured points are found as tests find them
(ROOFLINE_TRUTH); without them the tables that need them stay as they are.
"""  # noqa: INP001 - no package

from __future__ import annotations

import csv
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import roofline

PAGE = Path(__file__).with_name("closed-loop.md")
FIGURE = PAGE.parent / "images" / "convoy.svg"
SETTINGS = PAGE.parents[1] / "tests"  # points and load generators are those of tests/golden/test_closed_loop_ttft.py
INPUTS, MEASURED, CHOSEN = "inputs", "measured", "chosen"
TRUTH = Path(os.environ.get("ROOFLINE_TRUTH") or PAGE.parents[2] / "shared") / "truth" / "serving" / "end_to_end.csv"
ENGINES = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "sglang": "SGLang"}
MODELS = {
    "vllm": "Llama 3.1 70B, H100", "trtllm": "Llama 3.1 8B, H100", "sglang": "Llama 3.1 8B, H200",
}  # fmt: skip

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
    return _placed(text, MEASURED, _measured()) if TRUTH.is_file() else text


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


def _settings() -> Any:
    if str(SETTINGS) not in sys.path:
        sys.path.append(str(SETTINGS))
    return importlib.import_module("closed_loops")


def _measured() -> str:
    """Errors on the half that judges."""
    loops = _settings()
    everything = loops.points(TRUTH)
    some = [point for point in everything if not point.suspect]
    rows, judged = [], []
    for engine, scheduler in loops.SCHEDULERS.items():
        judges = [point for point in some if point.engine == engine and point.judges]
        best = loops.CHOSEN[engine]
        seen, documented = (loops.errors(judges, generator) for generator in (best, loops.DOCUMENTED[engine]))
        judged.append(seen)
        rows.append((
            f"{ENGINES[engine]}, {MODELS[engine]}", f"`{scheduler}`", _generator(best), f"{len(judges)}", *_errors(seen),
            _percent(np.median(np.abs(documented[:, 0]))),
        ))  # fmt: skip
    every = np.concatenate(judged)
    rows.append(("all", "", "", f"{len(every)}", *_errors(every), ""))
    suspects = [point for point in everything if point.suspect]
    best = loops.CHOSEN["vllm"]
    apart = _errors(loops.errors(suspects, best))
    rows.append(("apart: vLLM, Llama 3.1 8B in FP8, H200", "`vllm-v1`", _generator(best), f"{len(suspects)}", *apart, ""))
    head = ("points", "scheduler", "load generator", "n", "TTFT: median", "mean", "bias", "TPOT: median", "TTFT as documented")
    waiting = "TensorRT-LLM, answers of 512 tokens, by the number of clients: " + "; ".join(_waiting(some))
    return "\n\n".join([_table(head, rows, 3), f"{waiting}."])


def _chosen() -> str:
    """Errors on the half that chooses: minutes."""
    loops = _settings()
    rows = []
    for engine in loops.SCHEDULERS:
        fitted = [point for point in loops.points(TRUTH) if point.engine == engine and not point.suspect and not point.judges]
        found = loops.scores(fitted)
        best = loops.choose(found)
        cells = (_percent(found[loops.Generator(prompts, spread)][0]) for spread, prompts in _SHOWN)
        rows.append((ENGINES[engine], _generator(best), f"{len(fitted)}", _percent(found[best][0]), *cells))
    names = (f"{spread.replace('1-1', 'equal')}, {prompts}" for spread, prompts in _SHOWN)
    return _table(("engine", "chosen", "n", "median", *names), rows, 2)


_SHOWN = tuple((spread, prompts) for spread in ("1-1", "0.8-1", "0.5-1") for prompts in (1, 5, 10))


def _waiting(some: list[Any]) -> list[str]:
    """Mean number of clients that wait for a first token, by Little's law from what was measured alone."""
    told = []
    for clients in (8, 16, 32):
        here = [point for point in some if point.engine == "trtllm" and point.clients == clients and point.answer == 512]
        many = median(clients * point.ttft / (point.ttft + (point.answer - 1) * point.tpot) for point in here)
        told.append(f"{many:.1f} of {clients} wait")
    return told


def _generator(one: Any) -> str:
    text = f"`{one.workload(0).replace('closed:0', 'closed:N')}`"
    return f"{text}, N - 1 slots" if one.short else text


def _errors(found: Any) -> tuple[str, str, str, str]:
    ttft, tpot = found.T
    return _percent(np.median(np.abs(ttft))), _percent(np.mean(np.abs(ttft))), f"{np.median(ttft) * 100:+.1f}", _percent(
        np.median(np.abs(tpot))
    )  # fmt: skip


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
    if "--choose" in sys.argv:
        table = _chosen()
        PAGE.write_text(_placed(PAGE.read_text(encoding="utf-8"), CHOSEN, table), encoding="utf-8")
