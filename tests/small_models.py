"""Models of a few small layers, for graphs and blocks that are counted by hand."""

from __future__ import annotations

from typing import Any

from roofline.blocks.model import Model

WIDTH = 64
GQA = {"kind": "gqa", "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 16}
MLP = {"kind": "gated_mlp", "intermediate_size": 128}
MOE = {"kind": "moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def small_model(*layers: dict[str, Any], **keys: Any) -> Model:
    """A model of layers of one each, 64 wide, with 1000 words; attention and an MLP where nothing else is said."""
    types = {f"layer{index}": {"mixer": GQA, "mlp": MLP, **layer} for index, layer in enumerate(layers or ({},))}
    return Model.model_validate(
        {
            "schema_version": 1,
            "name": "small",
            "title": "Small",
            "hidden_size": WIDTH,
            "vocab_size": 1000,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": False,
            "layer_types": types,
            "layers": [{"pattern": list(types)}],
            **keys,
        }
    )
