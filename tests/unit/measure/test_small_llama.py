"""The small Llama that tests count and trace is a Llama: its cache changes nothing, and its traces are of what it ran."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from small_llama import SMALL, KVCache, SmallLlama, traced


def operators(path: Path) -> Counter[str]:
    """Names of what ran, with counts."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return Counter(event["name"] for event in events if event.get("cat") in ("cpu_op", "user_annotation"))


@pytest.mark.parametrize("parts", [(12,), (11, 1), (5, 7), (4, 1, 1, 6)])
def test_tokens_in_parts_are_the_same_tokens(parts: tuple[int, ...]) -> None:
    """Prefill, decode and chunks after cached tokens give the last logits of one prefill."""
    torch.manual_seed(1)
    model, tokens = SmallLlama().eval(), torch.arange(24).view(2, 12)
    with torch.no_grad():
        whole = model(tokens, KVCache(SMALL, 2))
        cache = KVCache(SMALL, 2)
        logits = torch.cat([model(part, cache) for part in tokens.split(parts, dim=1)], dim=1)
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-4)
    assert cache.length == 12


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_eager_traces(name: str, tmp_path: Path) -> None:
    """A prefill and three decode steps: 7 products in each of 2 layers and the LM head, SDPA of each layer."""
    run = traced(tmp_path / name)
    counts = operators(run.path)
    assert counts["aten::mm"] == (1 + 3) * (2 * 7 + 1)
    assert counts["aten::scaled_dot_product_attention"] == (1 + 3) * 2
    assert counts["execute_context_2(32)_generation_0(0)"] == 1
    assert counts["execute_context_0(0)_generation_2(2)"] == 3
    assert not any(name.startswith("execute_") for name in operators(traced(tmp_path / "bare.json", annotated=False).path))


@pytest.mark.slow
def test_compiled_traces(tmp_path: Path) -> None:
    """The same products; what is between them is fused."""
    counts = operators(traced(tmp_path / "compiled.json.gz", compiled=True).path)
    assert counts["aten::mm"] == (1 + 3) * (2 * 7 + 1)
    assert counts["aten::silu"] == 0
    assert any("cpp_fused" in name for name in counts)
