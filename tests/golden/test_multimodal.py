"""Language models of multimodal configs: every class that vLLM serves is read, or listed here with the reason.

The reference is the class of transformers on the meta device, from configs whose numbers are those of no other key. Where the
class is published beside the weights alone, it is that of the language model which the config names.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from mutations import MUTATIONS, places, problem

from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.errors import SpecError
from roofline.predict.parameters import count_parameters
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.multimodal import WRAPPERS, wrapper_of
from roofline.specs.huggingface.read import UNDESCRIBED, Origin

Keys = dict[str, Any]

# https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/registry.py, _MULTIMODAL_MODELS: not read here.
UNREAD: dict[str, str] = {
    "BagelForConditionalGeneration": "the class has norms of queries and keys, and a second set of layers that makes images",
    "BailingMoeV3VLForConditionalGeneration": "Ling 3 is no family that is read",
    "CohereCompassForConditionalGeneration": "each layer's rotation is chosen by a key of its own",
    "DeepseekV4ForConditionalGeneration": "a class of vLLM alone, whose config is not published",
    "DeepseekV41ForCausalLM": "DeepSeek-V4.1 is no family that is read",
    "Dots3NoteForCausalLM": "dots3 is no family that is read",
    "UnlimitedOCRForCausalLM": "every token sees the whole prompt and a window of what follows",
    "Gemma3nForConditionalGeneration": "its language model is read; its towers are not counted",
    "DiffusionGemmaForBlockDiffusion": "diffuses blocks of tokens: no step makes one token",
    "GLM4VForCausalLM": "ChatGLM's keys are no family that is read",
    "Glm5NextForConditionalGeneration": "the file around GLM-5-Next is no wrapper that is read",
    "InternS1ProForConditionalGeneration": "the model_type of its language model is not published with transformers or vLLM",
    "InternS2MobiusForConditionalGeneration": "a class of vLLM alone, whose config is not published",
    "KimiK3ForConditionalGeneration": "Kimi K3 is no family that is read",
    "MiMoV2OmniForCausalLM": "MiMo-V2 Omni is no family that is read",
    "MiniMaxM3SparseForConditionalGeneration": "the file around MiniMax-M3 is no wrapper that is read",
    "Moondream3ForCausalLM": "Moondream 3 is no family that is read",
    "HfMoondream": "Moondream 3 is no family that is read",
    "MuseGlimmerForConditionalGeneration": "Muse is no family that is read",
    "MuseSparkForConditionalGeneration": "Muse is no family that is read",
    "OpenPanguVLForConditionalGeneration": "Pangu is no family that is read",
    "PixtralForConditionalGeneration": "its file is params.json, with Mistral's own keys",
    "Qwen4ExpForConditionalGeneration": "Qwen 4 is no family that is read",
    "Step3VLForConditionalGeneration": "Step-3 is refused: multi-matrix factorization attention",
    "Step5ForConditionalGeneration": "Step 5 is no family that is read",
    "VoxtralRealtimeGeneration": "norms of each layer depend on the delay",
    "CohereAsrForConditionalGeneration": "an encoder and a decoder",
    "NemotronParseForConditionalGeneration": "an encoder and a decoder",
    "RadioMBartPrefixForCausalLM": "an encoder and a decoder",
    "WhisperForConditionalGeneration": "an encoder and a decoder",
}

_SIZES: Keys = {
    "hidden_size": 256, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
    "vocab_size": 1000, "head_dim": 32, "max_position_embeddings": 512,
}  # fmt: skip
_MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 6, 4]}
_GEMMA4 = {
    "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 64, "attention_k_eq_v": True,
    "num_global_key_value_heads": 2, "global_head_dim": 48,
}  # fmt: skip
_EXPERTS: Keys = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "decoder_sparse_step": 1}

# Classes of transformers by the name that vLLM has for them, what the language model is given besides `_SIZES`, and the whole.
HF: dict[str, tuple[str, Keys, Keys]] = {
    **{
        name: (name, {}, {})
        for name in (
            "AriaForConditionalGeneration", "AudioFlamingo3ForConditionalGeneration", "Blip2ForConditionalGeneration",
            "Cohere2VisionForConditionalGeneration", "Exaone4_5_ForConditionalGeneration", "Gemma3ForConditionalGeneration",
            "GlmAsrForConditionalGeneration", "Lfm2VlForConditionalGeneration", "Glm4vForConditionalGeneration",
            "GlmOcrForConditionalGeneration",
            "GraniteSpeechForConditionalGeneration", "GraniteSpeechPlusForConditionalGeneration",
            "InternVLForConditionalGeneration", "Idefics3ForConditionalGeneration",
            "MossTranscribeDiarizeForConditionalGeneration", "Llama4ForConditionalGeneration", "LlavaForConditionalGeneration",
            "LlavaNextForConditionalGeneration", "LlavaNextVideoForConditionalGeneration",
            "LlavaOnevisionForConditionalGeneration", "MiniCPMOcrForConditionalGeneration",
            "MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration", "Mistral3ForConditionalGeneration",
            "Molmo2ForConditionalGeneration", "NemotronH_Omni_Reasoning_V3", "Ovis2ForConditionalGeneration",
            "PaddleOCRVLForConditionalGeneration", "PaliGemmaForConditionalGeneration", "QianfanOCRForConditionalGeneration",
            "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen2AudioForConditionalGeneration",
            "Qwen3ASRForConditionalGeneration", "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "SmolVLMForConditionalGeneration",
            "Step3p7ForConditionalGeneration", "VoxtralForConditionalGeneration",
        )
    },
    "Cosmos3EdgeForConditionalGeneration": ("Cosmos3EdgeForConditionalGeneration", {"rope_parameters": _MROPE}, {}),
    "DeepseekOcr2ForConditionalGeneration": (
        "DeepseekOcr2ForConditionalGeneration",
        {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "moe_intermediate_size": 40, "n_routed_experts": 6,
         "n_shared_experts": 2, "num_experts_per_tok": 2},
        {},
    ),
    "Ernie4_5_VLMoeForConditionalGeneration": (
        "Ernie4_5_VLMoeForConditionalGeneration",
        {"rope_parameters": _MROPE, "moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": [40, 24]},
        {},
    ),
    "Gemma4ForConditionalGeneration": (
        "Gemma4ForConditionalGeneration", {**_GEMMA4, "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 900}, {},
    ),
    "Gemma4UnifiedForConditionalGeneration": ("Gemma4UnifiedForConditionalGeneration", _GEMMA4, {}),
    "Glm4vMoeForConditionalGeneration": (
        "Glm4vMoeForConditionalGeneration",
        {"head_dim": 32, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}, {},
    ),
    "Granite4VisionForConditionalGeneration": (
        "Granite4VisionForConditionalGeneration", {}, {"deepstack_layer_map": [[0, 1]], "downsample_rate": "1/2"},
    ),
    "KimiK25ForConditionalGeneration": (
        "Kimi_K25ForConditionalGeneration",
        {"num_key_value_heads": 8, "n_routed_experts": 6, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
         "moe_intermediate_size": 40}, {},
    ),
    "LightOnOCRForConditionalGeneration": ("LightOnOcrForConditionalGeneration", {}, {}),
    "MllamaForConditionalGeneration": (
        "MllamaForConditionalGeneration", {"cross_attention_layers": [1, 3], "pad_token_id": 0}, {}
    ),
    "Phi4MultimodalForCausalLM": ("Phi4MultimodalForCausalLM", {"pad_token_id": 0}, {}),
    "Qwen2_5OmniForConditionalGeneration": ("Qwen2_5OmniThinkerForConditionalGeneration", {}, {}),
    "Qwen3OmniMoeForConditionalGeneration": ("Qwen3OmniMoeThinkerForConditionalGeneration", {**_EXPERTS, "head_dim": 48}, {}),
}  # fmt: skip
# Classes whose configs are those of another one.
SAME: dict[str, str] = {
    "NemotronH_Nano_VL_V2": "NemotronH_Omni_Reasoning_V3",
    "NemotronH_Nano_Omni_Reasoning_V3": "NemotronH_Omni_Reasoning_V3",
    "NemotronH_Super_Omni_Reasoning_V3": "NemotronH_Omni_Reasoning_V3",
    "Qwen2_5OmniModel": "Qwen2_5OmniForConditionalGeneration",
    "Qwen3ASRRealtimeGeneration": "Qwen3ASRForConditionalGeneration",
}
# Parts that are counted apart from the language model though their weights lie in it.
_INSIDE = ("image_token_embeddings", "vision_cross_attention", "vision_experts")
_SENSES = (
    "vision", "visual", "audio", "projector", "language_projection", "resampler", "merger",
    "connector", "qformer", "query_tokens", "newline",
    "encoder.", "image_embed", "embed_audio", "view_sep",
)  # fmt: skip


def _model(config: Keys) -> Model:
    return read(parse_json(json.dumps(config, default=str), "config.json"), Origin("test", "Test"))


def _in_language_model(config: Keys) -> int:
    model = _model(config)
    return count_parameters(model).total + sum(model.apart.get(name, 0) for name in _INSIDE)


def _libraries() -> tuple[Any, Any]:
    torch = pytest.importorskip("torch", reason="transformers builds its classes with PyTorch")
    return torch, pytest.importorskip("transformers", minversion="5.23", reason="its classes are the reference")


def _whole(case: str) -> tuple[Any, Any]:
    """The class of a case, and its config."""
    _, transformers = _libraries()
    name, text, rest = HF[case]
    kind = getattr(transformers, name)
    config_class = kind.config_class
    default = config_class().get_text_config()
    known = {key: value for key, value in _SIZES.items() if key in default.to_dict()}
    sizes: Keys = {**known, **text}
    if sizes.get("head_dim") and default.to_dict().get("head_dim") is None and "head_dim" not in text:
        del sizes["head_dim"]  # the class divides where it has none
    if type(default) is config_class:
        return kind, config_class(**sizes, **rest)
    return kind, config_class(text_config={"model_type": default.model_type, **sizes}, **rest)


@pytest.mark.oracle
@pytest.mark.parametrize("case", HF)
def test_language_model_of_a_class_of_transformers(case: str) -> None:
    """All its parameters but those of towers and projectors, from the config as transformers writes it."""
    torch, _ = _libraries()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind, config = _whole(case)
        with torch.device("meta"):
            network = kind(config)
    expected = sum(
        parameter.numel()
        for name, parameter in network.named_parameters()
        if ".vision_moe." in name or not any(word in name for word in _SENSES)
    )
    assert _in_language_model({**config.to_dict(), "architectures": [case]}) == expected


# Language models by family, as their own class has the keys.
_PLAIN: Keys = {key: value for key, value in _SIZES.items() if key != "head_dim"} | {
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
_QWEN3: Keys = {**_PLAIN, "head_dim": 48}
_QWEN3_MOE: Keys = {**_QWEN3, **_EXPERTS, "mlp_only_layers": []}
_LATENT: Keys = {
    **_PLAIN, "num_key_value_heads": 8, "q_lora_rank": None, "kv_lora_rank": 24, "qk_nope_head_dim": 20, "qk_rope_head_dim": 12,
    "v_head_dim": 28, "n_routed_experts": 6, "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
_OF_FAMILY: dict[str, Keys] = {
    "llama": _PLAIN, "mistral": {**_PLAIN, "sliding_window": None}, "qwen2": _PLAIN, "qwen3": _QWEN3, "qwen3_moe": _QWEN3_MOE,
    "phi3": {**_PLAIN, "pad_token_id": 0, "sliding_window": None}, "deepseek_v3": _LATENT, "qwen3_vl_text": _QWEN3,
}  # fmt: skip

# By class: the model_type, where the language model stands ("": beside the towers), its family, and other parts.
_VISION: Keys = {"vision_config": {"depth": 3}}
_AUDIO: Keys = {"audio_config": {"encoder_layers": 3}}
REMOTE: dict[str, tuple[str, str, str, Keys]] = {
    "Alpamayo2Super": ("alpamayo2_super", "text_config", "qwen3_vl_text", _VISION),
    "BeeForConditionalGeneration": ("bee", "text_config", "qwen3", _VISION),
    "Cosmos3ForConditionalGeneration": ("cosmos3_omni", "text_config", "qwen3_vl_text", _VISION),
    "DotsOCRForCausalLM": ("dots_ocr", "", "qwen2", _VISION),
    "Eagle2_5_VLForConditionalGeneration": ("eagle_2_5_vl", "text_config", "qwen2", _VISION),
    "FireRedASR2ForConditionalGeneration": ("fireredasr2", "", "qwen2", {"audio_encoder_conf": {"n_layers": 3}}),
    "FunASRForConditionalGeneration": ("funasr", "", "qwen3", {"audio_encoder_conf": {"output_size": 3}}),
    "FunAudioChatForConditionalGeneration": ("funaudiochat", "text_config", "qwen3", _AUDIO),
    "H2OVLChatModel": ("h2ovl_chat", "llm_config", "mistral", _VISION),
    "InternVLChatModel": ("internvl_chat", "llm_config", "qwen2", _VISION),
    "InternS1ForConditionalGeneration": ("interns1", "text_config", "qwen3_moe", _VISION),
    "IsaacForConditionalGeneration": ("isaac", "text_config", "qwen3", _VISION),
    "KananaVForConditionalGeneration": ("kanana-1.5-v", "text_config", "llama", {**_VISION, "projector_config": {}}),
    "KeyeForConditionalGeneration": ("Keye", "", "qwen3", _VISION),
    "KeyeVL1_5ForConditionalGeneration": ("KeyeVL1_5", "", "qwen3", _VISION),
    "KimiVLForConditionalGeneration": ("kimi_vl", "text_config", "deepseek_v3", _VISION),
    "MoonshotKimiaForCausalLM": ("kimi_audio", "", "qwen2", {}),
    "Llama_Nemotron_Nano_VL": ("Llama_Nemotron_Nano_VL", "llm_config", "llama", _VISION),
    "LlavaOnevision2ForConditionalGeneration": ("llava_onevision2", "text_config", "qwen3", _VISION),
    "MiDashengLMModel": ("midashenglm", "text_config", "qwen2", {"audio_encoder_config": {"depth": 3}}),
    "MiniCPMO": ("minicpmo", "", "qwen2", {**_VISION, **_AUDIO, "version": "2.6"}),
    "MiniCPMO 4.5": ("minicpmo", "", "qwen3", {**_VISION, **_AUDIO, "version": 4.5}),
    "MiniCPMV": ("minicpmv", "", "qwen2", {**_VISION, "version": 2.6}),
    "MiniCPMV 4.0": ("minicpmv", "", "llama", {**_VISION, "version": "4.0"}),
    "MiniCPMV 4.5": ("minicpmv", "", "qwen3", {**_VISION, "version": 4.5}),
    "MossAudioModel": ("moss_audio", "language_config", "qwen3", _AUDIO),
    "NVLM_D": ("NVLM_D", "llm_config", "qwen2", _VISION),
    "OpenCUAForConditionalGeneration": ("opencua", "text_config", "qwen2", _VISION),
    "OpenVLAForActionPrediction": ("openvla", "text_config", "llama", {}),
    "Ovis": ("ovis", "llm_config", "qwen2", {"visual_tokenizer_config": {"depth": 3}}),
    "Ovis2_5": ("ovis2_5", "llm_config", "qwen3", {"vit_config": {"depth": 3}}),
    "Ovis2_6ForCausalLM": ("ovis2_6", "llm_config", "qwen3", {"vit_config": {"depth": 3}}),
    "Ovis2_6_MoeForCausalLM": ("ovis2_6_moe", "llm_config", "qwen3_moe", {"vit_config": {"depth": 3}}),
    "Phi3VForCausalLM": ("phi3_v", "", "phi3", {"embd_layer": {"projection_cls": "mlp"}, "img_processor": {"name": "clip"}}),
    "Phi4ForCausalLMV": ("phi4-siglip", "", "phi3", _VISION),
    "Phi4MMForCausalLM": ("phi4mm", "", "phi3", {"embd_layer": {}, "audio_processor": {}, "vision_lora": {"r": 3}}),
    "RForConditionalGeneration": ("R", "text_config", "qwen3", _VISION),
    "SkyworkR1VChatModel": ("skywork_chat", "llm_config", "qwen2", _VISION),
    "StepVLForConditionalGeneration": ("step_robotics", "text_config", "qwen3", _VISION),
    "UltravoxModel": ("ultravox", "text_config", "llama", _AUDIO),
}


def _remote(case: str) -> Keys:
    model_type, place, family, parts = REMOTE[case]
    whole = {"architectures": [case.split(maxsplit=1)[0]], "model_type": model_type, **parts}
    keys = _OF_FAMILY[family]
    return {**whole, place: {**keys, "model_type": family}} if place else {**keys, **whole}


def _as_published(family: str, keys: Keys) -> int:
    torch, transformers = _libraries()
    kind = transformers.CONFIG_MAPPING[family]
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        if family == "qwen3_vl_text":
            kind, family = transformers.Qwen3Config, "qwen3"
        network = transformers.AutoModelForCausalLM.from_config(kind.from_dict({**keys, "model_type": family}))
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.oracle
@pytest.mark.parametrize("case", REMOTE)
def test_language_model_of_a_class_beside_its_weights(case: str) -> None:
    """All parameters of the class of its family. Qwen3-VL's language model is Qwen3."""
    family = REMOTE[case][2]
    assert _in_language_model(_remote(case)) == _as_published(family, _OF_FAMILY[family])


@pytest.mark.parametrize("case", REMOTE)
def test_what_is_left_out_has_a_name(case: str) -> None:
    """Towers without dimensions that are known are named, also where their keys stand beside the language model's."""
    config = _remote(case)
    named = [choice.why for choice in _model(config).assumptions if choice.name == "parts"]
    parts = [key for key, value in config.items() if isinstance(value, dict) and key != REMOTE[case][1]]
    assert named == [f"not counted: weights, memory and time of {', '.join(parts) or UNDESCRIBED}"]


# DeepSeek-VL2-tiny and DeepSeek-OCR: https://huggingface.co/deepseek-ai/deepseek-vl2-tiny/blob/main/config.json
_VL2: Keys = {
    "model_type": "deepseek_v2", "hidden_size": 1280, "intermediate_size": 6848, "num_hidden_layers": 12,
    "num_attention_heads": 10, "num_key_value_heads": 10, "vocab_size": 129280, "max_position_embeddings": 4096,
    "use_mla": False, "kv_lora_rank": None, "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0,
    "first_k_dense_replace": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "moe_intermediate_size": 896, "n_group": 1, "topk_group": 1, "topk_method": "greedy", "lm_head": True, "rm_head": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK = ("DeepseekVLV2ForCausalLM", "DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM")


@pytest.mark.oracle
@pytest.mark.parametrize("name", DEEPSEEK)
def test_deepseek_without_latent_attention(name: str) -> None:
    """Plain attention, and experts as in DeepSeek-V2: those of the class that transformers has for DeepSeek-OCR 2."""
    torch, transformers = _libraries()
    text = {key: value for key, value in _VL2.items() if "lora" not in key and "head_dim" not in key and key != "model_type"}
    text |= {"mlp_layer_types": ["dense"] + ["sparse"] * 11}
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        network = transformers.DeepseekOcr2ForConditionalGeneration(transformers.DeepseekOcr2Config(text_config=text))
    expected = sum(p.numel() for name, p in network.named_parameters() if not any(word in name for word in _SENSES))
    config = {"architectures": [name], "model_type": "deepseek_vl_v2", "language_config": _VL2, **_VISION}
    assert _in_language_model(config) == expected
    head_dim = 1280 // 10
    mixer = next(iter(_model(config).layer_types.values())).mixer
    assert mixer is not None
    assert mixer.model_dump()["head_dim"] == head_dim


def test_molmo() -> None:
    """Molmo-7B-D is Qwen2-7B (7,615,616,512 parameters) with 128 further rows of the embedding."""
    config = {
        "architectures": ["MolmoForCausalLM"], "model_type": "molmo", "hidden_size": 3584, "intermediate_size": 37888,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
        "embedding_size": 152064, "max_position_embeddings": 4096, "qkv_bias": True, "attention_layer_norm": False,
        "layer_norm_type": "rms", "norm_after": False, "weight_tying": False, "torch_dtype": "float32",
    }  # fmt: skip
    model = _model(config)
    assert count_parameters(model).total == 7_615_616_512
    assert model.apart == {"image_token_embeddings": 128 * 3584}


def test_interns2_is_qwen3_5() -> None:
    """Intern-S2-Preview wraps the experts of Qwen3.5: a nested part is read as its own model_type says."""
    text = {
        "model_type": "qwen3_5_moe_text", **_QWEN3_MOE, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
        "linear_key_head_dim": 16, "linear_value_head_dim": 24, "linear_conv_kernel_dim": 4,
        "shared_expert_intermediate_size": 56, "layer_types": ["linear_attention", "full_attention"] * 2,
    }  # fmt: skip
    del text["decoder_sparse_step"], text["mlp_only_layers"]
    config = {"architectures": ["InternS2PreviewForConditionalGeneration"], "model_type": "interns2_preview"}
    alone, wrapped = _model(text), _model({**config, "text_config": text, **_VISION})
    assert count_parameters(wrapped).total == count_parameters(alone).total > 0


def _silent_errors(configs: Mapping[str, Keys], step: int) -> list[str]:
    """What is wrong with the answers to every `step`-th mutant of configs; `ROOFLINE_FUZZ=STEP` tries all."""
    every = [(name, place, mutation) for name, config in configs.items() for place in places(config) for mutation in MUTATIONS]
    tried = every[:: max(round(step / float(os.environ.get("ROOFLINE_FUZZ", "1"))), 1)]
    assert len(tried) > 500
    told = ((name, problem(configs[name], place, mutation)) for name, place, mutation in tried)
    return [f"{name}: {wrong}" for name, wrong in told if wrong]


def test_mutants() -> None:
    """With one key wrong, in the language model's part or around it, a config is read right or refused by name."""
    deepseek = {"architectures": [DEEPSEEK[0]], "model_type": "deepseek_vl_v2", "language_config": _VL2, **_VISION}
    assert not _silent_errors({**{case: _remote(case) for case in REMOTE}, DEEPSEEK[0]: deepseek}, 12)


@pytest.mark.oracle
def test_mutants_of_classes_of_transformers() -> None:
    """The same of configs as transformers writes them, with all the keys of towers and of generation around."""
    _libraries()
    configs = {}
    for case in HF:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = {**_whole(case)[1].to_dict(), "architectures": [case]}
        configs[case] = json.loads(json.dumps(whole, default=str))
    assert not _silent_errors(configs, 25)


READ = {
    *HF, *SAME, *(name.split()[0] for name in REMOTE), *DEEPSEEK, "MolmoForCausalLM", "InternS2PreviewForConditionalGeneration",
} - {"MllamaForConditionalGeneration", "Phi4MultimodalForCausalLM", "DeepseekOcr2ForConditionalGeneration",
     "Ovis2ForConditionalGeneration"}  # fmt: skip
"""Classes of vLLM; the last four are of transformers alone."""


def test_most_classes_of_vllm_are_read() -> None:
    """127 classes are served by vLLM 0.33; each is read by a test above, or stands in `UNREAD`."""
    assert not READ & UNREAD.keys()
    assert len(READ | UNREAD.keys()) == 127
    assert len(READ) >= 90


def test_known_classes_are_those_that_are_read() -> None:
    """No class is known to the reader that no test reads, and none is read by chance."""
    known = {name for wrapper in WRAPPERS for name in wrapper.architectures}
    assert known >= READ
    for name in READ:
        assert wrapper_of({"architectures": [name]}) is not None


def test_an_unknown_wrapper_is_assumed_to_have_a_plain_language_model() -> None:
    """It may change the language model inside (second sets of layers, cross-attention): the result says what was assumed."""
    config = {"model_type": "new_vlm", "text_config": {**_PLAIN, "model_type": "llama"}, **_VISION}
    assumed = [choice for choice in _model(config).assumptions if choice.name == "wrapper"]
    assert [(choice.value, choice.origin) for choice in assumed] == [("new_vlm", "assumed")]
    known = {**config, "model_type": "llava"}
    assert not [choice for choice in _model(known).assumptions if choice.name == "wrapper"]


# https://huggingface.co/llava-hf/llava-1.5-7b-hf/blob/main/config.json and openvla/openvla-7b: what differs from the class.
DIFFERENCES: Mapping[str, tuple[Keys, int]] = {
    "LLaVA 1.5 7B": ({"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}, 6_738_939_904),
    "LLaVA 1.6 Mistral 7B": (
        {
            "model_type": "mistral", "intermediate_size": 14336, "max_position_embeddings": 32768, "num_key_value_heads": 8,
            "sliding_window": None, "vocab_size": 32064,
        },
        7_242_256_384,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_part_that_names_differences_alone(name: str) -> None:
    """Llama 2 7B (6,738,415,616) and Mistral 7B (7,241,732,096) with 64 more rows of 4096 in the embedding and in the head."""
    text, total = DIFFERENCES[name]
    assert total == {"llama": 6_738_415_616, "mistral": 7_241_732_096}[text["model_type"]] + 2 * 64 * 4096
    model = _model({"model_type": "llava", "text_config": {**text, "torch_dtype": "float16"}})
    assert count_parameters(model).total == total
    absent = next(str(choice.value) for choice in model.assumptions if choice.name == "absent_keys")
    assert absent.startswith("hidden_size 4096, num_hidden_layers 32, num_attention_heads 32")


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"])
def test_a_part_that_is_written_out_lacks_nothing(key: str) -> None:
    """One key that is missing beside the others is a mistake, and no difference from the class."""
    text = {name: value for name, value in {**_PLAIN, "model_type": "llama"}.items() if name != key}
    with pytest.raises(SpecError, match=key):
        _model({"model_type": "llava", "text_config": text})


def test_unknown_version_of_minicpm() -> None:
    """It decides whose layers these are."""
    with pytest.raises(SpecError, match=r"9\.9.*known: 2\.0"):
        _model({**_remote("MiniCPMV"), "version": 9.9})
