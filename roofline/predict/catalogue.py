"""Lists of what is known: one row a model, one row an accelerator or node."""

from __future__ import annotations

from typing import Any

from roofline.blocks.model_files import load_model
from roofline.predict.parameters import count_parameters, kv_bytes_per_token, state_bytes_per_sequence, windows
from roofline.specs.library import Input, ids, load_hardware


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
