"""A model written as YAML: equal when it is loaded, and as a person would write it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model, model_yaml
from roofline.specs.library import ids, shipped


def _again(text: str, folder: Path) -> Model:
    file = folder / "again.yaml"
    file.write_text(text, encoding="utf-8")
    return load_model(str(file))[0]


@pytest.mark.parametrize("name", [*ids("models"), str(shipped("models") / "_template.yaml")], ids=lambda name: Path(name).stem)
def test_equal_when_loaded(name: str, tmp_path: Path) -> None:
    """Every shipped model, and the template, which uses every kind of section."""
    model, _ = load_model(name)
    assert _again(model_yaml(model), tmp_path) == model


@pytest.mark.parametrize(
    "title",
    ["yes", "null", "1e3", "0o17", "2026-01-31", "a: b", "# no comment", "- a", "{a}", "&x", "*x", "x\ny", " ", "é", "'\"'",
     "\x1b[31mred", "\u202eevil", "=1+1", "!!python/object", "%YAML", "?", "~", "x" * 300],
)  # fmt: skip
def test_words_that_yaml_would_read_otherwise(title: str, tmp_path: Path) -> None:
    """A title stays what it is, in its line and in the comment at the top; nothing that a terminal obeys is written."""
    model = load_model("gpt2")[0].model_copy(update={"title": title.strip(), "notes": (title.strip(),)})
    text = model_yaml(model)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert _again(text, tmp_path) == model


def test_sections_that_return_are_named_once() -> None:
    """DeepSeek-V3 has one attention in two layer types, and two feed-forward blocks."""
    text = model_yaml(load_model("deepseek-v3")[0])
    assert text.count("mixer: &mla\n") == text.count("mixer: *mla\n") == 1
    assert text.count("q_lora_rank") == 1
    assert text.count("kind: gated_mlp") == text.count("kind: moe") == 1
    assert "&" not in text.replace("&mla", "")


def test_two_sections_of_one_kind_that_return(tmp_path: Path) -> None:
    """Each has a name of its own."""
    model = load_model("gemma-3-12b")[0]
    full, sliding = model.layer_types["full"], model.layer_types["sliding"]
    small = full.mlp.model_copy(update={"intermediate_size": 64})  # type: ignore[union-attr]
    types = {
        "full": full, "sliding": sliding,
        "full_small": full.model_copy(update={"mlp": small}), "sliding_small": sliding.model_copy(update={"mlp": small}),
    }  # fmt: skip
    model = Model.model_validate(
        {**model.model_dump(), "layer_types": {n: t.model_dump() for n, t in types.items()}, "layers": [{"pattern": [*types]}]}
    )
    text = model_yaml(model)
    assert sorted(re.findall(r"&(\w+)\s", text)) == ["gated_mlp", "gated_mlp_2", "gqa", "gqa_2"]
    assert _again(text, tmp_path) == model


@pytest.mark.slow
def test_lines_are_short() -> None:
    """A section that has no room on one line has a line for each key."""
    for name in ids("models"):
        lines = [line for line in model_yaml(load_model(name)[0]).splitlines() if "https://" not in line]
        assert max(map(len, lines)) <= 128, name
