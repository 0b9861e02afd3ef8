"""Configs as transformers 5.23 saves them, which are not always as they were published."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden.oracle import test_gemma, test_latent, test_newer_families, test_qwen
from golden.oracle.machinery import counted_by_transformers, read_config

from roofline.predict.parameters import count_parameters

transformers = pytest.importorskip("transformers", minversion="5.20", reason="transformers, the oracle, is not installed")
pytest.importorskip("torch", reason="PyTorch, on which the oracle builds models, is not installed")

Config = dict[str, Any]


def _saved(config: Config) -> Config:
    """The config as transformers writes it."""
    kind = transformers.models.auto.configuration_auto.CONFIG_MAPPING[config["model_type"]]
    return json.loads(kind.from_dict(config).to_json_string())


GEMMA4 = {name: config for name, config in test_gemma.SMALL.items() if config["model_type"] == "gemma4_text"}


@pytest.mark.parametrize("name", GEMMA4)
def test_gemma_4(name: str) -> None:
    """Full layers are listed one by one, with the width of their heads."""
    saved = {**_saved(GEMMA4[name]), "torch_dtype": "bfloat16"}
    assert "per_layer_config" in saved
    assert "global_head_dim" not in saved
    theirs = counted_by_transformers(saved, with_steps=False).total
    assert count_parameters(read_config(saved)).total == theirs == count_parameters(read_config(GEMMA4[name])).total


@pytest.mark.parametrize("around", [True, False])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("kind", ["Mistral3", "Qwen3VLMoe", "InternVL"])
def test_the_file_around_ties(kind: str, around: bool, inside: bool) -> None:
    """Since transformers 5 it is the outer key that counts, where the inner one says otherwise."""
    sizes = {
        "hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
        "head_dim": 16, "vocab_size": 331, "pad_token_id": 0, "tie_word_embeddings": inside, "max_position_embeddings": 512,
    }  # fmt: skip
    text = {
        "Mistral3": {"model_type": "mistral", **sizes},
        "Qwen3VLMoe": {
            "model_type": "qwen3_vl_moe_text", **sizes, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]},
        },
        "InternVL": {"model_type": "qwen2", **sizes},
    }[kind]  # fmt: skip
    made = getattr(transformers, f"{kind}Config")(text_config=text, tie_word_embeddings=around)
    import torch

    with torch.device("meta"):
        network = getattr(transformers, f"{kind}ForConditionalGeneration")(made)
    tied = any(name.endswith("lm_head.weight") for name in network.all_tied_weights_keys)
    model = read_config(json.loads(made.to_json_string()))
    assert model.tie_word_embeddings == tied == around


def test_the_name_that_newer_files_have_for_indexed_layers() -> None:
    """GLM-5.2's quantised files call them deepseek_sparse_attention."""
    model_type, changes = next(value for value in test_latent.VARIANTS.values() if value[0] == "glm_moe_dsa")
    config = {"model_type": model_type, **test_latent.BASES[model_type], **changes}
    named = {**config, "layer_types": ["deepseek_sparse_attention"] * config["num_hidden_layers"]}
    assert read_config(named).layer_types == read_config(config).layer_types


FAMILIES = {
    **{name: config for name, config in test_newer_families.SMALL.items() if name in test_newer_families.BASES},
    **{name: config for name, config in test_qwen.SMALL.items() if name == config["model_type"]},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_saved_again(name: str) -> None:
    """What transformers makes of a config and saves is read as the config was."""
    saved = {**_saved(FAMILIES[name]), "torch_dtype": "bfloat16"}
    ours, before = read_config(saved), read_config(FAMILIES[name])
    assert count_parameters(ours) == count_parameters(before)
    assert [layer.mixer for layer in ours.layer_types.values()] == [layer.mixer for layer in before.layer_types.values()]
