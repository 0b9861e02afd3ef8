"""The lists of architectures that docs/configs.md counts by are those of the libraries."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from roofline.specs.huggingface.families import by_architecture
from roofline.specs.huggingface.multimodal import WRAPPERS

DOCS = Path(__file__).resolve().parents[3] / "docs"


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("build_families", DOCS / "build_families.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_causal_models_of_transformers() -> None:
    """By model type and class, where transformers 5.23 is installed."""
    transformers = pytest.importorskip("transformers", reason="transformers, whose list it is, is not installed")
    if not transformers.__version__.startswith("5.23."):
        pytest.skip("the list is of transformers 5.23")
    wanted = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    lines = (DOCS / "coverage" / "transformers-5.23-causal.txt").read_text(encoding="utf-8").splitlines()
    assert {line.split()[0]: line.split()[1] for line in lines} == {
        name: one if isinstance(one, str) else one[0] for name, one in wanted.items()
    }


def test_every_class_of_vllm_is_read_or_has_a_reason() -> None:
    """No class is left without a word, and none that is read has a reason why it is not."""
    script = _script()
    listed = set((DOCS / "coverage" / "vllm-0.33-text.txt").read_text(encoding="utf-8").split())
    assert len(listed) == 124
    around = {name for wrapper in WRAPPERS for name in wrapper.architectures}
    assert set(script.NOT_READ) == listed - set(by_architecture()) - around
    assert all(f"| {name} | " in script.page() for name in script.NOT_READ)
