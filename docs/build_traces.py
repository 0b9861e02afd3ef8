"""Write the tables of docs/traces.md and draw its figure: `python docs/build_traces.py`.

The traces are found as tests find outside truth (ROOFLINE_TRUTH); without them the page stays as it is.
"""  # noqa: INP001 - no package

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import roofline
from roofline import formatting
from roofline.formatting import percent
from roofline.report.figure_files import plain_svg
from roofline.report.svg import svg
from roofline.serving.traffic import Trace, read_trace
from roofline.teach.lessons.figures import curves

PAGE = Path(__file__).with_name("traces.md")
FIGURE = PAGE.parent / "images" / "traces.svg"
FOLDER = Path(os.environ.get("ROOFLINE_TRUTH") or PAGE.parents[2] / "shared") / "truth" / "traces"
TRACES = {"conversation": "splitwise_conv.csv", "code": "splitwise_code.csv"}
MODEL, HARDWARE, REPLICAS = "llama-3.1-8b", "a100-sxm-80gb", 2
TIMES = (0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6)
"""Of a trace's own rate."""


def page() -> str:
    """The page as it has to be."""
    text = PAGE.read_text(encoding="utf-8")
    if not all((FOLDER / name).is_file() for name in TRACES.values()):
        return text
    for name, table in (("lengths", _lengths(_traces())), ("served", _table(_found()))):
        start, end = f"<!-- {name}: written by docs/build_traces.py -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        text = before + "\n\n".join((start, table, end)) + rest.partition(end)[2]
    return text


@cache
def _traces() -> dict[str, Trace]:
    return {name: read_trace(FOLDER / file) for name, file in TRACES.items()}


@cache
def _found() -> dict[str, list[Any]]:
    return {name: [_served(trace, times) for times in TIMES] for name, trace in _traces().items()}


def _served(trace: Trace, times: float) -> Any:
    return roofline.simulate(MODEL, HARDWARE, trace=trace, replicas=REPLICAS, rate=(trace.rate or 0.0) * times)


def _lengths(traces: dict[str, Trace]) -> str:
    rows = [
        "| | requests | prompt: mean | p50 | p95 | answer: mean | p50 | p95 | requests/s | CV of the gaps |",
        "|---|" + "---:|" * 9,
    ]
    for name, trace in traces.items():
        lengths = [
            f"{value:,.0f}"
            for values in (trace.prompts, trace.outputs)
            for value in (values.mean(), *(_at(values, share) for share in (0.5, 0.95)))
        ]
        rows.append(f"| {name} | {len(trace):,} | {' | '.join(lengths)} | {trace.rate:.2f} | {trace.interarrival_cv:.2f} |")
    return "\n".join(rows)


def _at(values: Any, share: float) -> float:
    return float(sorted(values.tolist())[int(share * len(values))])


def _table(found: dict[str, list[Any]]) -> str:
    rows = [
        "| | times its rate | requests/s | TTFT, mean | p95 | TPOT, mean | p95 | KV blocks | |",
        "|---|" + "---:|" * 7 + "---|",
    ]
    for name, results in found.items():
        for times, one in zip(TIMES, results, strict=True):
            if times not in (0.25, 0.5, 1, 2, 3, 4):
                continue
            cells = [formatting.seconds(value) for value in (one.ttft_s.mean, one.ttft_s.p95, one.tpot_s.mean, one.tpot_s.p95)]
            said = "saturated" if one.saturated else ""
            rows.append(
                f"| {name} | {times:g} | {one.offered_rate:.1f} | {' | '.join(cells)} "
                f"| {percent(one.utilisation['kv'], 0)} | {said} |"
            )
    return "\n".join(rows)


def _drawn(found: dict[str, list[Any]]) -> str:
    lines = {}
    for name, results in found.items():
        steady = [(times, one) for times, one in zip(TIMES, results, strict=True) if not one.saturated]
        for label, which in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
            lines[f"{label}, {name}"] = ([times for times, _ in steady], [getattr(one, which).p95 for _, one in steady])
    drawn = curves(
        "traces", "p95 of TTFT and TPOT as a trace comes faster", ("times its own rate", ""), ("p95", "s"), lines,
        roles=("prefill", "decode", "activations", "sum"), scales=("linear", "log"),
    )  # fmt: skip
    return plain_svg(svg(drawn)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    if FOLDER.is_dir():
        FIGURE.write_text(_drawn(_found()), encoding="utf-8")
