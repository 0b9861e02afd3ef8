"""A hardware file with a mistake: units, sources, grades, and peaks that count sparsity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofline.errors import RooflineError
from roofline.specs.library import load_hardware

Refuse = Callable[..., tuple[str, Any]]


@pytest.mark.parametrize("value", ["3350", '"3350"', "3.35e12"])
def test_naked_number(hardware_error: Refuse, value: str) -> None:
    """A bandwidth without a unit is refused where it stands, and the message shows one."""
    message, at = hardware_error("value: 3350 GB/s", f"value: {value}")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "memory.bandwidth.value" in message
    assert 'has no unit: write a quantity with one, such as "2039 GB/s"' in message


def test_wrong_unit(hardware_error: Refuse) -> None:
    """Bytes are no bandwidth."""
    message, at = hardware_error("value: 3350 GB/s", "value: 3350 GB")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "'GB' in '3350 GB' is not a unit of a bandwidth" in message


def test_unknown_key_in_memory(hardware_error: Refuse) -> None:
    """Keys of nested sections are checked too."""
    message, at = hardware_error("  bandwidth:", "  bandwith:")
    assert message.startswith(f"{at.path}:{at.line}:3: unknown key 'bandwith'. Did you mean bandwidth?")


def test_unknown_key_of_a_fact(hardware_error: Refuse) -> None:
    """Keys of a single number are checked too."""
    message, at = hardware_error("grade: A", "grad: A")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "unknown key 'grad'. Did you mean grade?" in message


def test_unknown_grade(hardware_error: Refuse) -> None:
    """Grades are A, B and C."""
    message, at = hardware_error("grade: A", "grade: D")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "'A', 'B' or 'C'" in message


def test_unknown_source_in_its_line(hardware_error: Refuse) -> None:
    """A number whose source is not listed is refused, at that number, with the sources that are."""
    message, at = hardware_error("source: aiconfigurator, grade: A", "source: aiconfig, grade: A")
    assert "memory.bandwidth: source 'aiconfig' is not a key of sources" in message
    assert "aiconfigurator" in message
    assert message.startswith(f"{at.path}:{at.line}:")


def test_sparse_peak_is_caught(hardware_error: Refuse) -> None:
    """132 SM x 1830 MHz x 2048 FMA x 2 = 989 TFLOP/s: NVIDIA's 1979 for bf16 counts sparsity."""
    message, at = hardware_error("bf16: {value: 989.4 TFLOP/s", "bf16: {value: 1978.9 TFLOP/s")
    assert message.startswith(f"{at.path}:")
    assert "peak_flops.bf16 is 1978.9 TFLOP/s" in message
    assert "sparsity" in message


def test_check_of_an_unknown_dtype(hardware_error: Refuse) -> None:
    """The self-check names a peak that exists."""
    message, _ = hardware_error("check: {dtype: bf16", "check: {dtype: bf61")
    assert "check: dtype 'bf61' is not a key of peak_flops" in message


def test_a_best_product_without_its_peak(hardware_error: Refuse) -> None:
    """Estimates take it as a share of the bf16 peak."""
    message, at = hardware_error("  bf16: {value", "  fp4: {value", name="mi300x")
    assert message.startswith(f"{at.path}:{at.line + 5}:1: best_matmul: is of a bf16 product, and peak_flops has no bf16")


def test_peak_of_an_unknown_dtype(hardware_error: Refuse) -> None:
    """A slip in the name of a dtype must not silently leave the card without that peak."""
    message, at = hardware_error("  fp8: {value", "  fp9: {value")
    assert "fp9" in message
    assert message.startswith(f"{at.path}:{at.line}:")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value: 3350 GB/s", "value: 0 GB/s"),
        ("bf16: {value: 989.4 TFLOP/s", "bf16: {value: 0 TFLOP/s"),
        ("fp8: {value: 1978.9 TFLOP/s", "fp8: {value: 0 TFLOP/s"),
        ("vector_flops: {value: 67 TFLOP/s", "vector_flops: {value: 0 TFLOP/s"),
        ("label: {value: 80 GB", "label: {value: 0 GB"),
    ],
)
def test_nothing_is_no_figure(hardware_error: Refuse, old: str, new: str) -> None:
    """A peak, a bandwidth or a memory of 0 is refused: times are divided by them."""
    message, at = hardware_error(old, new)
    assert message.startswith(f"{at.path}:{at.line}:")


@pytest.mark.parametrize("value", ["132.5", "0", "true", "132 SMs"])
def test_counts_are_whole(hardware_error: Refuse, value: str) -> None:
    """Compute units are counted."""
    message, at = hardware_error("compute_units: {value: 132", f"compute_units: {{value: {value}")
    assert message.startswith(f"{at.path}:{at.line}:")
    assert "must be a whole number, at least 1" in message


@pytest.mark.parametrize("line", ["kind: acelerator\n", "kind: [accelerator]\n", ""])
def test_unknown_kind(hardware_error: Refuse, line: str) -> None:
    """A file is an accelerator's or a node's."""
    message, at = hardware_error("kind: accelerator\n", line)
    assert "kind must be accelerator or node" in message
    assert message.startswith(f"{at.path}:{at.line if line else 1}:1:")


def test_node_of_an_unknown_accelerator(edit: Callable[..., Any]) -> None:
    """A node names an accelerator by its id; an ambiguous name lists what it could be."""
    edited = edit("hardware/dgx-h100", "accelerator: h100-sxm", "accelerator: h100")
    with pytest.raises(RooflineError, match="h100-nvl, h100-pcie, h100-sxm"):
        load_hardware(str(edited.path))


def test_node_of_nodes(edit: Callable[..., Any]) -> None:
    """A node holds accelerators, not nodes."""
    edited = edit("hardware/dgx-h100", "accelerator: h100-sxm", "accelerator: dgx-a100")
    assert "the accelerator of a node is a node" in str(edited.refused(load_hardware))


def test_node_of_itself(edit: Callable[..., Any], tmp_path: Any) -> None:
    """A node whose accelerator is its own file is a node of nodes, not an endless search."""
    edited = edit("hardware/dgx-h100", "accelerator: h100-sxm", f"accelerator: {tmp_path / 'dgx-h100.yaml'}")
    assert "the accelerator of a node is a node" in str(edited.refused(load_hardware))
