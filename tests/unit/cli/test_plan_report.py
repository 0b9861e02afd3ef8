"""`roofline report --from` of what `roofline plan` has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.report.plan_samples import infeasible, plan

from roofline.cli.commands.report import write_page
from roofline.cli.output import Output
from roofline.errors import SpecError


def made(found: object, folder: Path) -> str:
    """The page of a saved result."""
    saved, output = folder / "my plan.json", folder / "plan.html"
    saved.write_text(json.dumps(found), encoding="utf-8")
    write_page(None, [], {}, calculator=False, saved=saved, out=Output(json=False, file=output, quiet=True))
    return output.read_text(encoding="utf-8")


def test_a_saved_plan_makes_its_page(tmp_path: Path) -> None:
    text = made(plan(), tmp_path)
    assert "<h1>a-model for 50 requests/s</h1>" in text
    assert "3 x H100-SXM serve 50 requests/s" in text
    assert "roofline report --from &#39;my plan.json&#39; --output plan.html" in text.replace("</span> <span>", " ")


def test_a_plan_without_an_answer_has_a_page_too(tmp_path: Path) -> None:
    assert "Relax TPOT from 1 ms to 3.5 ms" in made(infeasible(), tmp_path)


def test_a_broken_plan_is_refused_with_its_file_and_key(tmp_path: Path) -> None:
    found = plan()
    del found["candidates"][1]["pools"]
    with pytest.raises(SpecError, match=r"candidates\[1\]\.pools must be a list") as caught:
        made(found, tmp_path)
    assert "my plan.json" in str(caught.value)
    assert not (tmp_path / "plan.html").exists()
