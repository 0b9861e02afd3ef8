"""Draw docs/images/layers.svg, the floors of the program and what passes between them: `python docs/build_layers.py`."""  # noqa: INP001 - no package

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path

PAGE = Path(__file__).with_name("images") / "layers.svg"

# From the top: name of the layer, and its packages with a line of what each holds.
LAYERS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("front ends", (("cli", "commands"), ("roofline", "Python API"))),
    ("pages", (("teach", "worksheets, lessons"), ("report", "figures, tables, pages"))),
    ("checks", (("audit", "claims, engine logs"), ("measure", "records, calibration"))),
    ("service", (("serving", "traffic, queueing, preemption, simulation, planning"),)),
    ("predictions", (("predict", "bounds, estimates, memory, limits, sweeps"),)),
    ("one step", (("formulas", "LaTeX, JavaScript"), ("graph", "sharding, collectives"))),
    ("blocks", (("blocks", "attention, MLP, experts, scans: a section of a file as operators"),)),
    ("operators", (("operators", "FLOP and bytes: arithmetic"), ("specs", "models, hardware: YAML"))),
    ("ground", (("cost · units · symbols · numeric", "numbers, arrays and symbols"),)),
)
_ANNEX = (("bench", "runs kernels"), ("records", "measurements"), ("fits", "one file each"))

_WIDE, _LEFT, _GAP, _TALL, _STEP = 620, 96, 8, 52, 64
_BOXES = 372  # width of the boxes; the annex is to the right of them
_STYLE = """
.ground { fill: #f6f8fa; } .package { fill: #ffffff; stroke: #57606a; } .annex { fill: #fff4e0; stroke: #8a5a00; }
text { font-family: system-ui, "DejaVu Sans", sans-serif; fill: #1f2328; }
.name, .about { text-anchor: middle; }
.name { font-size: 15px; font-weight: 600; } .about { font-size: 12.5px; } .layer { font-size: 13px; fill: #4a525a; }
.arrow { stroke: #4a525a; stroke-width: 1.5; fill: none; } .head { fill: #4a525a; }
@media (prefers-color-scheme: dark) {
  .ground { fill: #1b2027; } .package { fill: #262d36; stroke: #8b949e; } .annex { fill: #3a2d12; stroke: #d9a441; }
  text { fill: #e6edf3; } .layer { fill: #b4bdc7; } .arrow { stroke: #b4bdc7; } .head { fill: #b4bdc7; }
}"""
_HEAD = '<path class="head" d="M0 0L8 4L0 8z"/>'
_ABOUT = "The layers of the package, front ends on top and arithmetic at the ground. Next to them measurements become fits."


def page() -> str:
    """The whole picture.

    >>> page().startswith("<svg ")
    True
    """
    tall = 24 + len(LAYERS) * _STEP + 30
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {tall}" role="img" aria-labelledby="about">',
        f'<title id="about">{escape(_ABOUT)}</title>',
        f"<style>{_STYLE}\n</style>",
        f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">{_HEAD}',
        "</marker></defs>",
        f'<rect class="ground" width="{_WIDE}" height="{tall}" rx="10"/>',
    ]
    for index, (layer, packages) in enumerate(LAYERS):
        top = 20 + index * _STEP
        drawn.append(f'<text class="layer" x="{_LEFT - 10}" y="{top + 31}" text-anchor="end">{escape(layer)}</text>')
        each = (_BOXES - _GAP * (len(packages) - 1)) / len(packages)
        for place, package in enumerate(packages):
            drawn += _box("package", _LEFT + place * (each + _GAP), top, each, package)
    drawn += _annex()
    bottom = 20 + len(LAYERS) * _STEP
    drawn.append(
        f'<text class="layer" x="{_LEFT}" y="{bottom + 12}">imports only go down; only measure.bench imports torch</text>'
    )
    return "\n".join([*drawn, "</svg>", ""])


def _box(kind: str, left: float, top: float, wide: float, package: tuple[str, str]) -> list[str]:
    name, about = package
    middle = left + wide / 2
    return [
        f'<rect class="{kind}" x="{left:g}" y="{top}" width="{wide:g}" height="{_TALL}" rx="6"/>',
        f'<text class="name" x="{middle:g}" y="{top + 22}"{_fit(name, wide, 9)}>{escape(name)}</text>',
        f'<text class="about" x="{middle:g}" y="{top + 40}"{_fit(about, wide, 6.9)}>{escape(about)}</text>',
    ]


def _fit(text: str, wide: float, each: float) -> str:
    """A length for a text that would not fit in its box."""
    return f' textLength="{wide - 12:g}" lengthAdjust="spacingAndGlyphs"' if len(text) * each > wide - 12 else ""


def _annex() -> list[str]:
    """From a device's kernels to the fits that estimates are based on, upwards; the last points at the predictions."""
    left, wide = _LEFT + _BOXES + 28, _WIDE - _LEFT - _BOXES - 40
    predictions = next(index for index, (layer, _) in enumerate(LAYERS) if layer == "predictions")
    rows = [predictions + 2 * step for step in (2, 1, 0)]
    drawn: list[str] = []
    for row, entry in zip(rows, _ANNEX, strict=True):
        drawn += _box("annex", left, 20 + row * _STEP, wide, entry)
    middle = left + wide / 2
    for below, above in pairwise(rows):
        start, end = 20 + below * _STEP - 2, 20 + above * _STEP + _TALL + 2
        drawn.append(f'<path class="arrow" d="M{middle:g} {start}V{end}" marker-end="url(#head)"/>')
    level = 20 + predictions * _STEP + _TALL // 2
    drawn.append(f'<path class="arrow" d="M{left - 2} {level}H{_LEFT + _BOXES + 3}" marker-end="url(#head)"/>')
    return drawn


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
