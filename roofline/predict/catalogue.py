"""Lists of what is known: one row a model, one row an accelerator or node."""

from __future__ import annotations

from typing import Any

from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.dtypes import BF16, Precision
from roofline.graph import CANONICAL, Graph, build, caches, states
from roofline.predict.parameters import count_parameters
from roofline.specs.deployment import Deployment
from roofline.specs.library import Input, ids, load_hardware

TWO_BYTES = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)


def kv_bytes_per_token(model: Model) -> float:
    """Bytes that one more token adds to the cache at 2 bytes an element, below every window."""
    return float(sum(cache.per_token * 2 * count for cache, count in caches(model, Deployment())))


def state_bytes_per_sequence(model: Model) -> float:
    """Bytes of recurrent state that a sequence has, however long it is: fp32, and convolutions at 2 bytes an element."""
    found = states(model, Deployment())
    return float(sum(state.bytes(TWO_BYTES, allocated=False) * count for state, count in found))


def windows(model: Model) -> list[int]:
    """The sliding windows of a model's layers."""
    return sorted({cache.window for cache, _ in caches(model, Deployment()) if cache.window is not None})


def parameters_by_path(model: Model) -> dict[str, tuple[float, int]]:
    """Parameters of one operator and how many layers have it, by path; those with none are left out."""
    graph: Graph = build(model, Deployment(), TWO_BYTES, CANONICAL)
    return {path: (op.parameters, repeat) for path, (op, repeat) in graph.items() if op.parameters}


def model_rows() -> tuple[list[dict[str, Any]], list[Input]]:
    """Every known model with its size, and the files."""
    rows, inputs = [], []
    for name, path in ids("models").items():
        model, read = load_model(str(path))
        inputs.append(read)
        counted = count_parameters(model)
        rows.append(
            {
                "id": name, "title": model.title, "parameters": counted.total, "active": counted.active,
                "layers": model.num_hidden_layers,
                "hidden_size": model.hidden_size, "context_length": model.max_position_embeddings,
                "kv_bytes_per_token": kv_bytes_per_token(model), "window": windows(model)[0] if windows(model) else None,
                "state_bytes_per_sequence": state_bytes_per_sequence(model),
            }
        )  # fmt: skip
    return rows, inputs


def hardware_rows() -> tuple[list[dict[str, Any]], list[Input]]:
    """Every known accelerator and node with its headline figures, and the files."""
    rows, inputs = [], []
    for name, path in ids("hardware").items():
        hardware, read = load_hardware(str(path))
        inputs.append(read[0])
        sixteen = next((dtype for dtype in ("bf16", "fp16") if dtype in hardware.peaks), None)
        rows.append(
            {
                "id": name, "title": hardware.title, "devices": hardware.node.count if hardware.node else 1,
                "peak_flops_16bit": hardware.peaks[sixteen] if sixteen else None, "peak_flops_fp8": hardware.peaks.get("fp8"),
                "bandwidth": hardware.bandwidth, "memory_bytes": hardware.memory_bytes,
                "ridge_point": hardware.peaks[sixteen] / hardware.bandwidth if sixteen else None,
            }
        )  # fmt: skip
    return rows, inputs
