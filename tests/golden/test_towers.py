"""Vision towers against the classes of transformers on the meta device, and against published checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofline
from roofline.blocks.config_json import read
from roofline.blocks.model_files import load_model
from roofline.predict.request import prepare
from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.document import Document, parse_json
from roofline.specs.huggingface.read import Origin
from roofline.specs.huggingface.towers import Tower, audio_tower, tower

_SIGLIP = {
    "model_type": "siglip_vision_model", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
    "num_attention_heads": 4, "image_size": 42, "patch_size": 7, "vision_use_head": False,
}  # fmt: skip
_CLIP = {
    "model_type": "clip_vision_model", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
    "num_attention_heads": 4, "image_size": 42, "patch_size": 7, "projection_dim": 64,
}  # fmt: skip
_PIXTRAL = {
    "model_type": "pixtral", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 4,
    "head_dim": 24, "image_size": 42, "patch_size": 7,
}  # fmt: skip
_QWEN = {"depth": 3, "num_heads": 4, "in_channels": 3, "patch_size": 7, "spatial_merge_size": 2, "temporal_patch_size": 2}
_QWEN3 = {**_QWEN, "hidden_size": 96, "intermediate_size": 200, "out_hidden_size": 4096, "num_position_embeddings": 49}
_GLM = {**_QWEN, "hidden_size": 96, "intermediate_size": 200, "out_hidden_size": 160, "image_size": 42}
_IDEFICS = {key: value for key, value in _SIGLIP.items() if key not in ("model_type", "vision_use_head")}

_EXAONE = {**_QWEN, "hidden_size": 96, "intermediate_size": 200, "out_hidden_size": 160}
_LFM2 = {
    "model_type": "siglip2_vision_model", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_patches": 49, "patch_size": 7, "vision_use_head": False,
}  # fmt: skip
_SMOLVLM = {"hidden_size": 96, "num_attention_heads": 4, "image_size": 42, "patch_size": 7}

# Type of the whole config, its vision_config, and what else it is given: no number is that of another key.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gemma3": ("gemma3", _SIGLIP, {}),
    "gemma3 with a head": ("gemma3", {**_SIGLIP, "vision_use_head": True}, {}),
    "gemma4": (
        "gemma4",
        {
            "model_type": "gemma4_vision", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "head_dim": 16,
            "num_attention_heads": 6, "num_key_value_heads": 3, "patch_size": 7, "position_embedding_size": 120,
            "standardize": True,
        },
        {},
    ),
    "paligemma": ("paligemma", _SIGLIP, {}),
    "llava": ("llava", _CLIP, {}),
    "llava of several layers": ("llava", _CLIP, {"vision_feature_layer": [-1, -2], "multimodal_projector_bias": False}),
    "llava with pixtral": ("llava", _PIXTRAL, {}),
    "llava_next": ("llava_next", _CLIP, {}),
    "llava_next_video": ("llava_next_video", _CLIP, {}),
    "llava_onevision": ("llava_onevision", _SIGLIP, {}),
    "exaone4_5": ("exaone4_5", {**_EXAONE, "num_key_value_heads": 2}, {}),
    "lfm2_vl": ("lfm2_vl", _LFM2, {"downsample_factor": 3, "projector_hidden_size": 80, "projector_use_layernorm": False}),
    "lfm2_vl with a norm": ("lfm2_vl", _LFM2, {"downsample_factor": 2, "projector_hidden_size": 80, "projector_bias": False}),
    "smolvlm of its class": ("smolvlm", {**_SMOLVLM, "model_type": "smolvlm_vision"}, {"scale_factor": 4}),
    "lighton_ocr": ("lighton_ocr", _PIXTRAL, {"spatial_merge_size": 3}),
    "qianfan_ocr": (
        "qianfan_ocr",
        {
            "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 4,
            "image_size": [42, 28], "patch_size": [7, 14], "attention_bias": True,
        },
        {"downsample_ratio": 0.5},
    ),
    "mistral3": ("mistral3", _PIXTRAL, {"spatial_merge_size": 3, "multimodal_projector_bias": True}),
    "qwen2_vl": ("qwen2_vl", {**_QWEN, "embed_dim": 96, "hidden_size": 160, "mlp_ratio": 3}, {}),
    "qwen2_5_vl": ("qwen2_5_vl", {**_QWEN, "hidden_size": 96, "intermediate_size": 200, "out_hidden_size": 160}, {}),
    "hyperclovax_vision_v2": (
        "hyperclovax_vision_v2",
        {**_QWEN, "model_type": "qwen2_5_vl", "hidden_size": 96, "intermediate_size": 200, "out_hidden_size": 160},
        {},
    ),
    "qwen3_vl": ("qwen3_vl", {**_QWEN3, "deepstack_visual_indexes": [1, 2]}, {}),
    "qwen3_vl_moe": ("qwen3_vl_moe", {**_QWEN3, "deepstack_visual_indexes": [0]}, {}),
    "qwen3_5": ("qwen3_5", _QWEN3, {}),
    "qwen3_5_moe": ("qwen3_5_moe", _QWEN3, {}),
    "glm4v": ("glm4v", _GLM, {}),
    "glm4v_moe with biases": ("glm4v_moe", {**_GLM, "attention_bias": True}, {}),
    "llama4": (
        "llama4",
        {
            "hidden_size": 96, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 42,
            "patch_size": 7, "vision_output_dim": 112, "projector_input_dim": 112, "projector_output_dim": 112,
            "pixel_shuffle_ratio": 0.5,
        },
        {},
    ),
    "idefics3": ("idefics3", _IDEFICS, {"scale_factor": 3}),
    "smolvlm": ("smolvlm", _IDEFICS, {"scale_factor": 4}),
    "cohere2_vision": ("cohere2_vision", _SIGLIP, {"downsample_factor": 3, "alignment_intermediate_size": 240}),
    "aya_vision": ("aya_vision", _SIGLIP, {"downsample_factor": 3, "alignment_intermediate_size": 240}),
    "internvl": (
        "internvl",
        {
            "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 4,
            "image_size": [42, 28], "patch_size": [7, 14], "attention_bias": True, "use_qk_norm": True, "norm_type": "rms_norm",
        },
        {"downsample_ratio": 0.25},
    ),
    "kimi_k25": (
        "kimi_k25",
        {
            "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 4, "patch_size": 7,
            "pos_emb_height": 5, "pos_emb_width": 6, "merge_kernel_size": [2, 3],
        },
        {"projection_hidden_size": 96},
    ),
}  # fmt: skip


def _counted(model_type: str, config: dict[str, Any], hidden_size: int) -> Tower | None:
    document = Document("config.json", config, json.dumps(config, default=str))
    vision = Config(document, config["vision_config"], ("vision_config",))
    return tower(model_type, vision, Config(document, config), hidden_size)


@pytest.mark.parametrize("case", CASES)
def test_against_transformers(case: str) -> None:
    """All parameters of the class that are not the language model's, from the config as transformers writes it."""
    pytest.importorskip("torch", reason="transformers builds its classes with PyTorch")
    transformers = pytest.importorskip("transformers", reason="its classes are the reference")
    import torch

    model_type, vision, more = CASES[case]
    if model_type not in transformers.CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {model_type}")
    config = transformers.CONFIG_MAPPING[model_type](vision_config=vision, **more)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    language = ("language_model", "text_model", "lm_head")
    expected = sum(value.numel() for name, value in model.named_parameters() if not any(word in name for word in language))
    counted = _counted(model_type, config.to_dict(), config.get_text_config().hidden_size)
    assert counted is not None
    assert counted.encoder + counted.projector == expected


@pytest.mark.parametrize("case", CASES)
def test_a_missing_number_leaves_the_tower_out(case: str) -> None:
    """Nothing is guessed: without a dimension the tower is not counted. Some keys have the same value in all checkpoints."""
    model_type, vision, more = CASES[case]
    optional = {
        "vision_use_head", "in_channels", "num_attention_heads", "num_heads", "head_dim", "model_type", "projection_dim",
        "deepstack_visual_indexes", "attention_bias", "use_qk_norm", "norm_type", "standardize", "pixel_shuffle_ratio",
    }  # fmt: skip
    for key in set(vision) - optional:
        if model_type in ("mistral3", "llava", "lighton_ocr") and key == "image_size" and vision["model_type"] == "pixtral":
            continue  # positions are rotated, not learned
        without = {name: value for name, value in vision.items() if name != key}
        assert _counted(model_type, {"vision_config": without, **more}, 64) is None, key


# Type of the whole config, and its audio_config.
_WHISPER: dict[str, Any] = {
    "num_mel_bins": 20, "max_source_positions": 30, "d_model": 96, "encoder_layers": 3, "encoder_ffn_dim": 200,
    "encoder_attention_heads": 4,
}  # fmt: skip
_NEW_NAMES: dict[str, Any] = {
    "num_mel_bins": 20, "max_source_positions": 30, "hidden_size": 96, "num_hidden_layers": 3, "intermediate_size": 200,
    "num_attention_heads": 4,
}  # fmt: skip
AUDIO = {"qwen2_audio": _WHISPER, "audioflamingo3": _NEW_NAMES, "voxtral": _NEW_NAMES}


def _heard(model_type: str, audio: dict[str, Any], hidden_size: int) -> Tower | None:
    config = {"model_type": model_type, "audio_config": audio}
    document = Document("config.json", config, json.dumps(config, default=str))
    return audio_tower(model_type, Config(document, audio, ("audio_config",)), hidden_size)


@pytest.mark.oracle
@pytest.mark.parametrize("model_type", AUDIO)
def test_audio_against_transformers(model_type: str) -> None:
    """Whisper's encoder and the projector: as the class has them, also with a key changed, or not counted."""
    torch = pytest.importorskip("torch", reason="transformers builds its classes with PyTorch")
    transformers = pytest.importorskip("transformers", reason="its classes are the reference")
    kind = transformers.CONFIG_MAPPING[model_type]
    names = {one for one in dir(transformers) if one.endswith("ForConditionalGeneration")}
    network = next(getattr(transformers, one) for one in sorted(names) if getattr(transformers, one).config_class is kind)
    hidden = kind().get_text_config().hidden_size
    compared = 0
    for what, audio in {"as it is": AUDIO[model_type], **_mutants(AUDIO[model_type])}.items():
        config = None
        try:
            config = kind(audio_config=dict(audio))
            with torch.device("meta"):
                model = network(config)
        except Exception:  # noqa: BLE001 - whatever the library raises, there is no such model
            assert _heard(model_type, audio, hidden) is None, what
            continue
        counted = _heard(model_type, config.to_dict()["audio_config"], hidden)
        expected = sum(one.numel() for name, one in model.named_parameters() if "audio" in name or "projector" in name)
        if counted is not None:
            compared += 1
            assert counted.encoder + counted.projector == expected, what
    assert compared > len(AUDIO[model_type])


@pytest.mark.parametrize("value", ["wide", 0, -3, 1.5, None, True, [7], {"a": 1}])
def test_a_wrong_number_leaves_it_out_too(value: object) -> None:
    """The language model is counted all the same: a tower refuses nothing."""
    vision = {**_SIGLIP, "hidden_size": value}
    assert _counted("gemma3", {"vision_config": vision}, 64) is None


def test_published() -> None:
    """Tensors of two checkpoints.

    Gemma 3 12B: 416,866,032 and 4,424,832. Qwen2.5-VL-7B: 8,292,166,656 in all, less those of Qwen2.5-7B, its language model.
    """
    gemma = load_model("gemma-3-12b")[0]
    siglip = {
        **_SIGLIP,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "image_size": 896,
        "patch_size": 14,
    }
    counted = _counted("gemma3", {"vision_config": siglip}, gemma.hidden_size)
    assert counted is not None
    assert counted.parts() == gemma.apart
    vision = {**_QWEN, "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584, "patch_size": 14}
    qwen = _counted("qwen2_5_vl", {"vision_config": vision}, 3584)
    assert qwen is not None
    assert qwen.encoder + qwen.projector == 8_292_166_656 - 7_615_616_512


def test_a_config_names_its_tower() -> None:
    """In `apart` of the model, beside what the family says stands apart; an audio tower is named and not counted."""
    text = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 3, "vocab_size": 100, "max_position_embeddings": 128, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    config = {"model_type": "llava", "text_config": text, "vision_config": _CLIP, "audio_config": {"hidden_size": 8}}
    model = read(parse_json(json.dumps(config), "config.json"), Origin("test", "Test"))
    counted = _counted("llava", config, 64)
    assert counted is not None
    assert model.apart == counted.parts()
    assert [choice.why for choice in model.assumptions if choice.name == "parts"] == [
        "not counted: weights, memory and time of audio_config"
    ]


def test_weights_of_a_tower_are_in_memory() -> None:
    """In bf16, divided by tensor parallelism, on the devices of the first pipeline stage; a decode step does not read them."""
    parameters = 416_866_032 + 4_424_832
    whole, halves = (roofline.analyze("gemma-3-12b", "h100-sxm", tp=size) for size in (1, 2))
    assert whole.memory.tower_bytes == 2 * parameters
    assert halves.memory.tower_bytes == parameters
    row = 2 * 3840  # of the embedding, which is the LM head too
    assert whole.decode.bytes.weights == whole.memory.weights_bytes + row
    stages = prepare("gemma-3-12b", "h100-sxm", pp=2).memory.stages
    assert [stage.tower_bytes for stage in stages] == [2 * parameters, 0]


def _mutants(section: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The section with one key removed, doubled, null, a text or a list, by what was done."""
    mutants = {}
    for key, value in section.items():
        others = {name: one for name, one in section.items() if name != key}
        mutants[f"{key} removed"] = others
        changed: list[Any] = [None, str(value), "wide", [value, value]]
        if isinstance(value, bool):
            changed.append(not value)
        elif isinstance(value, (int, float)):
            changed += [value * 2, -value, 0, value + 0.5]
        mutants |= {f"{key}: {other!r:.40}": {**others, key: other} for other in changed}
    return mutants


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_no_mutant_is_counted_wrongly(case: str) -> None:
    """With any key of the tower or around it changed, it is counted as transformers counts it, or left out and named."""
    torch = pytest.importorskip("torch", reason="transformers builds its classes with PyTorch")
    transformers = pytest.importorskip("transformers", reason="its classes are the reference")
    model_type, vision, more = CASES[case]
    if model_type not in transformers.CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {model_type}")
    kind = transformers.CONFIG_MAPPING[model_type]
    listed = {what: (mutant, more) for what, mutant in _mutants(vision).items()}
    listed |= {f"outer {what}": (vision, mutant) for what, mutant in _mutants(more).items()}
    compared, wrong = 0, []
    for what, (inner, outer) in listed.items():
        hidden = kind().get_text_config().hidden_size
        counted = _counted(model_type, {"model_type": model_type, "vision_config": inner, **outer}, hidden)
        if counted is None:
            continue
        try:
            with torch.device("meta"):
                config = kind(vision_config=dict(inner), **outer)
                model = transformers.AutoModelForImageTextToText.from_config(config)
        except Exception:  # noqa: BLE001 - whatever the library raises, there is no such model
            wrong.append(f"{what}: counted, and transformers refuses it")
            continue
        compared += 1
        language = ("language_model", "text_model", "lm_head")
        expected = sum(one.numel() for name, one in model.named_parameters() if not any(word in name for word in language))
        if counted.encoder + counted.projector != expected:
            wrong.append(f"{what}: {counted.encoder + counted.projector:,}, not {expected:,}")
    assert not wrong, "\n".join(wrong)
    assert compared
