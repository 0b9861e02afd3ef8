"""Tables on a terminal: whatever its width, no cell loses a character."""

from __future__ import annotations

import re
import sys

import pytest

from roofline.cli.tables import print_table
from roofline.text import Table

ROWS = (
    (
        "attention_prefill",
        "bf16 sarathi/vllm+torch",
        "12,345",
        "1.09 ms",
        "all its bytes fit in the cache, which was not flushed",
    ),
    ("gemm", "bf16 torch", "7", "364.44", ""),
)
TABLE = Table("Title", "a note", ("op", "kernels", "n", "bound", "likely because"), (False, False, True, True, False), ROWS)


@pytest.mark.parametrize("width", [40, 72, 80, 100, 200])
def test_no_cell_is_cut(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every word of every cell is on the screen, in one piece unless it is a sentence."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for name, value in {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    print_table(TABLE)
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    for row in ROWS:
        for cell in row[:4]:
            assert cell in shown
        for word in row[4].split():
            assert word in shown
