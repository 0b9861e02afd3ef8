"""Lists of what is known: one row a file, with figures in base units."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.cli.library import hardware_rows, model_rows
from roofline.specs.library import shipped


@pytest.fixture(autouse=True)
def _no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOFLINE_PATH", raising=False)


def _stems(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml") if not path.name.startswith("_"))


def test_a_row_a_file() -> None:
    """Every shipped file has one row, in the order of ids, and is on record."""
    for kind, (rows, inputs) in (("models", model_rows()), ("hardware", hardware_rows())):
        stems = _stems(shipped(kind))  # type: ignore[arg-type]
        assert [row["id"] for row in rows] == stems
        assert [read.name for read in inputs] == stems


def test_a_model() -> None:
    """Llama 3.1 8B: published parameters, 32 x 2 x 8 x 128 x 2 bytes of cache a token, no window."""
    row = next(row for row in model_rows()[0] if row["id"] == "llama-3.1-8b")
    assert (row["parameters"], row["active"], row["layers"], row["context_length"]) == (
        8_030_261_248,
        8_030_261_248,
        32,
        131_072,
    )
    assert (row["kv_bytes_per_token"], row["window"]) == (32 * 2 * 8 * 128 * 2, None)


def test_a_model_with_a_window() -> None:
    """Mistral 7B v0.1 sees 4096 tokens."""
    assert next(row["window"] for row in model_rows()[0] if row["id"] == "mistral-7b-v0.1") == 4096


def test_hardware() -> None:
    """An H100 SXM: dense peaks, bandwidth, the driver's memory, and the ridge; a node repeats its accelerator's figures."""
    rows = {row["id"]: row for row in hardware_rows()[0]}
    card, node = rows["h100-sxm"], rows["dgx-h100"]
    assert (card["peak_flops_16bit"], card["peak_flops_fp8"], card["bandwidth"]) == (989.4e12, 1978.9e12, 3350e9)
    assert card["memory_bytes"] == 81559 * 2**20
    assert card["ridge_point"] == pytest.approx(989.4e12 / 3350e9)
    assert (card["devices"], node["devices"]) == (1, 8)
    assert node["bandwidth"] == card["bandwidth"]


def test_hardware_without_bf16() -> None:
    """A V100's 16-bit peak is fp16's; it has none for fp8."""
    row = next(row for row in hardware_rows()[0] if row["id"] == "v100-sxm2-16gb")
    assert (row["peak_flops_16bit"], row["peak_flops_fp8"]) == (125e12, None)
