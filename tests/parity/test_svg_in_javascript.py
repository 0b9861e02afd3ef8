"""Pictures drawn by the translation of the functions that draw them here: the same text, to the last sign."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from figure_samples import SAMPLES

from roofline.report import page_program
from roofline.report.svg import svg

NODE = shutil.which("node")
DRAWING = Path(__file__).resolve().parents[2] / "reports" / "drawing.js"
SPELLED = "<b> & \"c\" 'd' \u202eright to left\u0007, \ufffe"
FIGURES = (*SAMPLES, replace(SAMPLES[0], key="a key/with <signs>", title=SPELLED, note=SPELLED))


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed; tests/browser compares too, in Chromium")
def test_same_pictures(tmp_path):
    """Every kind of series, and texts of others."""
    made = page_program.new_program()
    made.export("svg", svg)
    data = [made.encode(figure) for figure in FIGURES]
    path = tmp_path / "program.js"
    harness = 'const data = JSON.parse(require("fs").readFileSync(0));\n'
    harness += "console.log(JSON.stringify(data.map((one) => program.svg($.revive(one)))));\n"
    path.write_text(f"{made.source()}\n{DRAWING.read_text(encoding='utf-8')}\n{harness}", encoding="utf-8")
    done = subprocess.run([NODE, str(path)], input=json.dumps(data), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for figure, drawn in zip(FIGURES, json.loads(done.stdout), strict=True):
        assert drawn == svg(figure), figure.key
