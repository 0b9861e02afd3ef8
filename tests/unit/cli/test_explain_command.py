"""`roofline explain`: the keys of its JSON, its texts and formats, the list of quantities."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline.predict.explain import QUANTITIES

Run = Callable[..., Any]
LLAMA = ("llama-3.1-8b", "-H", "h100-sxm")


def test_the_json_has_the_keys_of_the_contract(run: Run) -> None:
    """And says bound and floor of a time as its parts, each with its formula; a word picks one of them."""
    document = json.loads(run("explain", LLAMA[0], "tpot", *LLAMA[1:], "--json").out)
    assert {"formula", "latex", "substituted", "value", "unit", "source", "assumptions", "inputs", "low", "high"} <= set(
        document
    )
    result = json.loads(run("analyze", *LLAMA, "--json").out)["phases"][1]["time_s"]
    assert (document["value"], document["low"], document["high"]) == (result["estimate"], result["low"], result["high"])
    parts = {part["name"]: part for part in document["parts"]}
    assert (parts["tpot bound"]["value"], parts["tpot floor"]["value"]) == (result["bound"], result["floor"])
    alone = json.loads(run("explain", LLAMA[0], "tpot", "bound", *LLAMA[1:], "--json").out)
    assert (alone["subject"], alone["value"]) == ("tpot bound", result["bound"])
    assert alone["formula"] == parts["tpot bound"]["formula"]


def test_the_list_is_grouped(run: Run) -> None:
    """Every quantity and every operator once; as JSON by group."""
    lines = run("explain", "gemma-3-12b").out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    words = " ".join(lines).split()
    assert all(words.count(name) >= 1 for name in QUANTITIES)
    document = json.loads(run("explain", "gemma-3-12b", "--json").out)
    assert [name for names in document["groups"].values() for name in names] == document["subjects"]
    assert "lm_head" in document["groups"]["operators"]
    assert document["inputs"]["model"]["name"] == "gemma-3-12b"


def test_everything_is_shown_on_demand(run: Run) -> None:
    """`-v`: every symbol and every assumption; without it one screen."""
    short, full = (run("explain", "deepseek-v3", "parameters", *more).out for more in ((), ("-v",)))
    assert len(short.splitlines()) <= 30
    assert "more symbols with -v" in short
    assert "more symbols" not in full
    assert "d_v" in full
    assert "-v)" not in full


@pytest.mark.parametrize(("name", "begins"), [("a.tex", r"\text{tpot} = t_{"), ("a.txt", "tpot: time per output token")])
def test_files(run: Run, tmp_path: Path, name: str, begins: str) -> None:
    """LaTeX and text, as `--format` prints them."""
    assert run("explain", LLAMA[0], "tpot", *LLAMA[1:], "-o", tmp_path / name).code == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_wrong_words(run: Run) -> None:
    """One line with the nearest name, or with what is allowed."""
    assert "Did you mean" in run("explain", LLAMA[0], "tpott", *LLAMA[1:]).refused()
    assert "one number" in run("explain", LLAMA[0], "max_batch", "floor", *LLAMA[1:]).refused()
    assert "unknown quantity" in run("explain", LLAMA[0], "tpot", "bounds", *LLAMA[1:]).refused()
