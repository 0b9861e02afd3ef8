"""Names and shapes of the tensors of checkpoints, against those that transformers would write for the same config."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import pytest
from golden.oracle import (
    test_classic,
    test_gemma,
    test_latent,
    test_latest_families,
    test_llama,
    test_modern_experts,
    test_modern_hybrids,
    test_newer_families,
    test_qwen,
    test_recurrent,
)
from golden.oracle.machinery import read_config, stored_by_transformers

from roofline.blocks.checkpoint import tensors
from roofline.predict.checkpoint import compare
from roofline.specs.huggingface.names import BY_FAMILY, names
from roofline.specs.huggingface.safetensors import Checkpoint, Stored

pytestmark = pytest.mark.oracle

Config = dict[str, Any]


def _classic() -> dict[str, Config]:
    found = {}
    for name, keys in test_classic.SMALL.items():
        model_type = name.split(" ", maxsplit=1)[0]
        left = test_classic.NOT_THEIR_KEYS.get(model_type, ())
        found[name] = {"model_type": model_type, **{key: value for key, value in keys.items() if key not in left}}
    return found


# The small configs that the tests of the families use.
CONFIGS: dict[str, Config] = {
    **_classic(),
    **{f"llama {name}": {**test_llama.SMALL, **changes} for name, changes in test_llama.VARIANTS.items()},
    **test_gemma.SMALL,
    **test_modern_experts.SMALL,
    **test_modern_hybrids.SMALL,
    **{
        name: keys
        for module in (test_newer_families, test_latest_families)
        for name, keys in module.SMALL.items()
        if keys["model_type"] in BY_FAMILY
    },
    **test_qwen.SMALL,
    **{
        name: {"model_type": model_type, **module.BASES[model_type], **changes}
        for module in (test_latent, test_recurrent)
        for name, (model_type, changes) in module.VARIANTS.items()
    },
    "aria": {
        "model_type": "aria_text", "hidden_size": 64, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 128, "moe_num_experts": 6, "moe_topk": 2,
        "moe_num_shared_experts": 3, "tie_word_embeddings": False,
    },
}  # fmt: skip
# Language models that have no class of their own, or tensors of another sense among them.
_INSIDE_ANOTHER = {
    "cosmos3_edge_text", "deepseek_ocr2_text", "domynedge", "muse_glimmer_text", "nemotron_h_puzzle",
    "ernie4_5_vl_moe_text", "glm_ocr_text", "mllama_text_model", "molmo",
    "molmo2_text",
}  # fmt: skip
# Stored, and no parameters: corrections of routers, scales that are 1, tables that are made anew.
_BUFFERS = re.compile(
    r"(?<!moe_statics\.)(?<!mlp\.experts\.)e_score_correction_bias|layer_scalar|tid2eid|_decay$|slope_rate|ffn\.gate\.bias|act_fn\.(beta|eps)"
)
# What transformers writes under another name than the authors did.
_WRITTEN: dict[str, tuple[tuple[str, str], ...]] = {
    "deepseek_v4": ((r"^model\.", ""), (r"^hc_head\.hc_", "hc_head_"), (r"^embed_tokens", "embed")),
    "hy_v4": ((r"mlp\.(shared_experts\.)?linear_gate", r"mlp.\1gate_proj"),),
    "hy_v3": ((r"mlp\.expert_bias", "mlp.gate.e_score_correction_bias"),),
    "kolibri1": ((r"moe\.router\.expert_bias", "mlp.gate.e_score_correction_bias"),),
    "lfm2_moe": ((r"feed_forward\.expert_bias", "feed_forward.gate.e_score_correction_bias"),),
    "kimi_linear": ((r"block_sparse_moe\.(gate_proj|up_proj|down_proj)", r"mlp.\1"),),  # dense layers
}


def _published(family: str, name: str) -> str:
    for pattern, word in _WRITTEN.get(family, ()):
        name = re.sub(pattern, word, name)
    return name


def _lies(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape, without axes of 1; a vector by its length alone, which Cohere writes as heads x width."""
    return tuple(size for size in shape if size != 1)


@pytest.mark.parametrize("name", CONFIGS)
def test_names_and_shapes(name: str) -> None:
    """Every tensor, in one of the ways that the family has, and none that is not there."""
    model = read_config(CONFIGS[name])
    wanted = {
        _published(model.family, tensor): shape
        for tensor, shape in stored_by_transformers(CONFIGS[name]).items()
        if not _BUFFERS.search(_published(model.family, tensor))
    }
    ways = [{tensor.name: tensor.shape for tensor in tensors(model, way)} for way in names(model.family)]
    found = min(ways, key=lambda way: len(way.keys() ^ wanted.keys()))
    assert found.keys() == wanted.keys()
    for tensor, shape in wanted.items():
        if len(found[tensor]) == 1:
            assert prod(found[tensor]) == prod(shape), tensor
        else:
            assert _lies(found[tensor]) == _lies(shape), tensor


@pytest.mark.parametrize("name", CONFIGS)
def test_checkpoints_match(name: str) -> None:
    """A checkpoint as transformers would write it has nothing missing and nothing left over; buffers stand apart."""
    model = read_config(CONFIGS[name])
    stored = {
        _published(model.family, tensor): Stored("BF16", shape, 2 * prod(shape))
        for tensor, shape in stored_by_transformers(CONFIGS[name]).items()
    }
    model = model.model_copy(update={"dtype": "bf16"})
    found = compare(model, Checkpoint(stored, sum(tensor.bytes for tensor in stored.values())))
    assert found.problems == ()
    assert found.matched + sum(found.apart.values()) == len(stored)
    assert found.stored_bytes == found.predicted_bytes


def test_the_configs_are_of_most_families() -> None:
    """The test above is about something."""
    seen = {read_config(config).family for config in CONFIGS.values()}
    assert len(seen & set(BY_FAMILY)) > 0.8 * len(set(BY_FAMILY) - _INSIDE_ANOTHER)
    assert seen <= set(BY_FAMILY)
