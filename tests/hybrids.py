"""Models of recurrent layers beside attention, one for each kind of recurrent mixer: three of four layers are recurrent."""

from __future__ import annotations

from functools import cache
from typing import Any

from roofline.blocks.model import Model

MIXERS: dict[str, dict[str, Any]] = {
    "mamba": {"mamba_d_inner": 4096, "ssm_state_size": 16, "time_step_rank": 128, "ssm_norms": True},
    "mamba2": {"mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 4, "ssm_state_size": 128},
    "gated_delta_net": {
        "linear_num_key_heads": 8,
        "linear_num_value_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
    },
    "kda": {"linear_num_heads": 16, "linear_head_dim": 128},
    "lightning_attention": {"num_attention_heads": 16, "head_dim": 128},
}
KINDS = list(MIXERS)


@cache
def hybrid(kind: str, attention: int = 4, recurrent: int = 12) -> Model:
    """A model of about a billion parameters; without attention layers, or without recurrent ones, where there are 0."""
    mlp = {"kind": "gated_mlp", "intermediate_size": 5632}
    gqa = {"kind": "gqa", "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128}
    types = {"recurrent": {"kind": kind, **MIXERS[kind]}, "full": gqa}
    counts = {"recurrent": recurrent, "full": attention}
    return Model.model_validate(
        {
            "schema_version": 1,
            "name": f"{kind}-hybrid",
            "title": f"Hybrid of {kind}",
            "hidden_size": 2048,
            "vocab_size": 32_000,
            "max_position_embeddings": 262_144,
            "tie_word_embeddings": False,
            "state_dtype": "fp32",
            "layer_types": {name: {"mixer": types[name], "mlp": mlp} for name, count in counts.items() if count},
            "layers": [{"pattern": [name], "repeat": count} for name, count in counts.items() if count],
            "sources": {},
        }
    )
