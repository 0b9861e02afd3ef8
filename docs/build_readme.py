"""Draw docs/images/readme*.svg, the picture of README: `python docs/build_readme.py`, with the facts of ROOFLINE_TRUTH."""  # noqa: INP001 - no package

from __future__ import annotations

import csv
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

import roofline
from roofline.measure.validate.serving import ClosedLoop
from roofline.predict.request import prepare
from roofline.report.analysis.step_figures import roofline_figure
from roofline.report.figure import Axis, Figure, Series
from roofline.report.figure_files import plain_svg
from roofline.report.svg import svg

PAGE = Path(__file__).with_name("images") / "readme.svg"
DARK = PAGE.with_name("readme-dark.svg")
FACTS = Path(os.environ.get("ROOFLINE_TRUTH", Path(__file__).resolve().parents[2] / "shared"))
POINTS = FACTS / "truth" / "serving" / "end_to_end.csv"
MODEL, HARDWARE, TP, PROMPT, OUTPUT = "llama-3.1-70b", "h100-sxm", 4, 1024, 1024
_SVG = "{http://www.w3.org/2000/svg}"
_GAP, _HEAD = 24.0, 34.0


def measured() -> list[tuple[int, float]]:
    """Clients, and seconds per output token, of the measured points at this setting."""
    wanted = {"model_path": "Llama-3.1-70B", "system": "h100_sxm", "backend": "vllm", "precision": "fp8"}
    sizes = {"isl": PROMPT, "osl": OUTPUT, "tp_size": TP}
    with POINTS.open(encoding="utf-8") as file:
        return sorted(
            (int(float(row["batch_size"])), float(row["silicon_tpot_ms"]) * 1e-3)
            for row in csv.DictReader(file)
            if all(row[name].split("/")[-1] == value for name, value in wanted.items())
            and all(float(row[name]) == value for name, value in sizes.items())
        )


def throughput() -> Figure:
    """Tokens/s of a GPU against TPOT: bound, estimate with its 80 % interval, and what was measured."""
    loop = ClosedLoop.of(MODEL, HARDWARE, tp=TP, quantization="fp8", backend="vllm")
    clients = np.array([1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80], dtype=float)
    times = loop.tpot(clients, np.full(clients.size, PROMPT), np.full(clients.size, OUTPUT))
    edges = {name: (times[name], clients / times[name] / TP) for name in ("bound", "estimate", "low", "high")}
    xs = np.geomspace(edges["low"][0][0], edges["estimate"][0][-1] * 1.15, 60)
    above = np.interp(xs, *edges["low"], left=0.0)
    below = np.interp(xs, *edges["high"], left=0.0)
    points = measured()
    series = (
        Series(name="80 % interval", kind="band", role="estimate", x=tuple(xs), y=(), low=tuple(below), high=tuple(above)),
        *(
            Series(name=name, kind="line", role=name, x=tuple(edges[name][0]), y=tuple(edges[name][1]))
            for name in ("bound", "estimate")
        ),
        Series(
            name="measured", kind="points", role="decode", x=tuple(time for _, time in points),
            y=tuple(count / time / TP for count, time in points), short=tuple(f"{count}" for count, _ in points),
        ),
    )  # fmt: skip
    return Figure(
        key="throughput", title="Throughput against TPOT", note="",
        x=Axis(title="TPOT", scale="linear", low=0.0, unit="s"),
        y=Axis(title="output tokens/s per GPU", scale="linear", low=0.0),
        series=series,
    )  # fmt: skip


def picture(*, dark: bool) -> str:
    """Both figures side by side, with their titles."""
    options = {"tp": TP, "quantization": "fp8", "batch": 16, "input_len": PROMPT}
    left = roofline_figure(prepare(MODEL, HARDWARE, **options), roofline.analyze(MODEL, HARDWARE, **options))
    parts = [ET.fromstring(plain_svg(svg(figure), dark=dark)) for figure in (left, throughput())]  # noqa: S314 - our own
    widths = [float(part.get("width", "0")) for part in parts]
    tall = max(float(part.get("height", "0")) for part in parts) + _HEAD
    ground = parts[0].find(f"{_SVG}rect")
    fill = "#ffffff" if ground is None else ground.get("fill", "#ffffff")
    whole = ET.Element(
        f"{_SVG}svg",
        {"viewBox": f"0 0 {sum(widths) + _GAP:g} {tall:g}", "role": "img", "font-family": str(parts[0].get("font-family"))},
    )
    ET.SubElement(whole, f"{_SVG}title").text = "Roofline, and throughput against time per output token"
    ET.SubElement(whole, f"{_SVG}rect", {"width": "100%", "height": "100%", "fill": fill})
    titles = (
        "Roofline: Llama 3.1 70B, fp8, on 4 x H100, batch 16",
        "1,024 tokens in and out: predicted, and measured with vLLM at 4 to 64 clients",
    )
    ink = "#e6e6e6" if dark else "#1f2328"
    place = 0.0
    for part, width, title in zip(parts, widths, titles, strict=True):
        label = ET.SubElement(whole, f"{_SVG}text", {"x": f"{place + 14:g}", "y": "24", "font-size": "15", "fill": ink})
        label.text = title
        part.set("x", f"{place:g}")
        part.set("y", f"{_HEAD:g}")
        whole.append(part)
        place += width + _GAP
    return ET.tostring(whole, encoding="unicode") + "\n"


def page() -> str:
    """The picture for a light background; as it is where the facts are absent."""
    return picture(dark=False) if POINTS.is_file() else PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    if POINTS.is_file():
        DARK.write_text(picture(dark=True), encoding="utf-8")
