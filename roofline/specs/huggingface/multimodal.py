"""Multimodal configs: which classes are known, and which family the language model inside is of.

In most of them the language model stands in a part of its own (`text_config`, `llm_config`, ...) whose `model_type` names a
family. Others have its keys beside those of the towers (flat configs): there `family` says which one it is.
Sources: the classes of transformers 5.23 and vLLM 0.33, and the config.json of each model on https://huggingface.co.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from roofline.specs.huggingface.config import Config
from roofline.specs.huggingface.families.base import transformers

FamilyOf = str | Callable[[Config], str | None]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A kind of multimodal config: its `model_type`s, its classes, and where its keys are explained.

    `family` is that of a language model whose keys name none: those of a flat config, or of a part without a `model_type`.
    """

    name: str
    architectures: tuple[str, ...]
    source: str
    family: FamilyOf | None = None
    types: tuple[str, ...] = ()

    @property
    def model_types(self) -> tuple[str, ...]:
        """Every `model_type` of the whole config."""
        return (self.name, *self.types)

    def family_of(self, config: Config) -> str | None:
        """The name of the language model's family, where the wrapper decides it.

        Raises:
            SpecError: it depends on a key that has an unknown value.
        """
        return self.family(config) if callable(self.family) else self.family


def _minicpm(config: Config) -> str:
    """The language model of MiniCPM-V and MiniCPM-o changes with their version."""
    versions = {"2.0": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
    given = config.raw("version")
    if given is None:  # as vLLM has it: MiniCPM-o 2.6 and the first two MiniCPM-V do not say
        first = config.data.get("hidden_size") == 2304 and config.data.get("query_num") == 64
        family = "qwen2" if config.data.get("model_type") == "minicpmo" else "minicpm" if first else "llama"
        config.note("version", f"that of {family}", "config.json names none: as vLLM has it")
        return family
    if str(given) not in versions:
        config.refuse("version", f"{given!r} is not known; known: {', '.join(versions)}")
    return versions[str(given)]


# Classes of the first LLaVA, whose keys stand beside those of the tower, which they name and do not describe.
_LLAVA = {
    "LlavaLlamaForCausalLM": "llama", "LlavaMistralForCausalLM": "mistral", "LlavaMixtralForCausalLM": "mixtral",
    "LlavaQwenForCausalLM": "qwen2", "LlavaQwenMoeForCausalLM": "qwen2_moe", "LlavaMptForCausalLM": "mpt",
}  # fmt: skip


def _llava(config: Config) -> str | None:
    """The language model of a flat LLaVA config, by its class; None for one with parts."""
    if config.place:
        return None
    return next((_LLAVA[name] for name in config.raw("architectures", default=[]) if name in _LLAVA), None)


def _known(name: str, *architectures: str, page: str = "", types: tuple[str, ...] = ()) -> Wrapper:
    """One of which transformers has the class."""
    return Wrapper(name, architectures, transformers(page or name), types=types)


def _remote(name: str, *architectures: str, file: str, family: FamilyOf | None = None, types: tuple[str, ...] = ()) -> Wrapper:
    """One whose class is published beside its weights, and in vLLM as `file`."""
    source = f"https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/models/{file}.py"
    return Wrapper(name, architectures, source, family, types)


WRAPPERS: tuple[Wrapper, ...] = (
    _remote("alpamayo2_super", "Alpamayo2Super", file="alpamayo2_super"),
    _known("aria", "AriaForConditionalGeneration"),
    _known("audioflamingo3", "AudioFlamingo3ForConditionalGeneration"),
    _known("aya_vision", "AyaVisionForConditionalGeneration"),
    _remote("bee", "BeeForConditionalGeneration", file="bee"),
    _known("blip-2", "Blip2ForConditionalGeneration"),
    _known("cohere2_vision", "Cohere2VisionForConditionalGeneration"),
    _known("cosmos3_omni", "Cosmos3ForConditionalGeneration", types=("cosmos3",)),
    _known("cosmos3_edge", "Cosmos3EdgeForConditionalGeneration"),
    _known("deepseek_ocr2", "DeepseekOcr2ForConditionalGeneration"),
    _remote(
        "deepseek_vl_v2", "DeepseekVLV2ForCausalLM", "DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM",
        file="deepseek_vl2", types=("DeepseekOCR", "deepseek_ocr"),
    ),
    _remote("dots_ocr", "DotsOCRForCausalLM", file="dots_ocr", family="qwen2"),
    _remote("eagle_2_5_vl", "Eagle2_5_VLForConditionalGeneration", file="eagle2_5_vl"),
    _known("ernie4_5_vl_moe", "Ernie4_5_VLMoeForConditionalGeneration", types=("ernie4_5_moe_vl",)),
    _known("exaone4_5", "Exaone4_5_ForConditionalGeneration"),
    _remote("fireredasr2", "FireRedASR2ForConditionalGeneration", file="fireredasr2", family="qwen2"),
    _remote("funasr", "FunASRForConditionalGeneration", file="funasr", family="qwen3"),
    _remote("funaudiochat", "FunAudioChatForConditionalGeneration", file="funaudiochat", family="qwen3"),
    _known("gemma3", "Gemma3ForConditionalGeneration"),
    _known("gemma3n", "Gemma3nForConditionalGeneration"),
    _known("gemma4", "Gemma4ForConditionalGeneration"),
    _known("gemma4_unified", "Gemma4UnifiedForConditionalGeneration"),
    _known("glm4v", "Glm4vForConditionalGeneration"),
    _known("glm4v_moe", "Glm4vMoeForConditionalGeneration"),
    _known("glm_ocr", "GlmOcrForConditionalGeneration"),
    _known("glmasr", "GlmAsrForConditionalGeneration"),
    _known("granite4_vision", "Granite4VisionForConditionalGeneration"),
    _known("granite_speech", "GraniteSpeechForConditionalGeneration"),
    _known("granite_speech_plus", "GraniteSpeechPlusForConditionalGeneration"),
    _remote("h2ovl_chat", "H2OVLChatModel", file="h2ovl"),
    _known("hyperclovax_vision_v2", "HCXVisionV2ForCausalLM", "HyperCLOVAXVisionV2ForConditionalGeneration"),
    _known("idefics3", "Idefics3ForConditionalGeneration"),
    _known("internvl", "InternVLForConditionalGeneration"),
    _remote("internvl_chat", "InternVLChatModel", file="internvl"),
    _remote("interns1", "InternS1ForConditionalGeneration", file="interns1"),
    _remote("interns2_preview", "InternS2PreviewForConditionalGeneration", file="interns2_preview"),
    _remote("isaac", "IsaacForConditionalGeneration", file="isaac", family="qwen3"),
    _remote("kanana-1.5-v", "KananaVForConditionalGeneration", file="kanana_v", family="llama"),
    _remote("Keye", "KeyeForConditionalGeneration", file="keye", family="qwen3"),
    _remote("KeyeVL1_5", "KeyeVL1_5ForConditionalGeneration", file="keye_vl1_5", family="qwen3"),
    _known("kimi_k25", "KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"),
    _remote("kimi_vl", "KimiVLForConditionalGeneration", file="kimi_vl"),
    _remote("kimi_audio", "MoonshotKimiaForCausalLM", file="kimi_audio", family="qwen2"),
    _known("lfm2_vl", "Lfm2VlForConditionalGeneration"),
    _known("lighton_ocr", "LightOnOcrForConditionalGeneration", "LightOnOCRForConditionalGeneration"),
    _known("llama4", "Llama4ForConditionalGeneration"),
    _remote("Llama_Nemotron_Nano_VL", "Llama_Nemotron_Nano_VL", file="nemotron_vl"),
    Wrapper("llava", ("LlavaForConditionalGeneration",), transformers("llava"), family=_llava),
    Wrapper(
        "llava_llama", tuple(_LLAVA), "https://github.com/LLaVA-VL/LLaVA-NeXT/tree/main/llava/model/language_model", _llava,
        ("llava_mistral", "llava_mixtral", "llava_qwen", "llava_qwen_moe", "llava_mpt"),
    ),
    _known("llava_next", "LlavaNextForConditionalGeneration"),
    _known("llava_next_video", "LlavaNextVideoForConditionalGeneration"),
    _known("llava_onevision", "LlavaOnevisionForConditionalGeneration"),
    _remote("llava_onevision2", "LlavaOnevision2ForConditionalGeneration", file="llava_onevision2"),
    _remote("midashenglm", "MiDashengLMModel", file="midashenglm", family="qwen2"),
    _known("minicpm_ocr", "MiniCPMOcrForConditionalGeneration"),
    _known("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration"),
    _known("minicpmv4_7", "MiniCPMV4_7ForConditionalGeneration"),
    _remote("minicpmo", "MiniCPMO", file="minicpmo", family=_minicpm),
    _remote("minicpmv", "MiniCPMV", file="minicpmv", family=_minicpm),
    _known("mistral3", "Mistral3ForConditionalGeneration"),
    _known("mllama", "MllamaForConditionalGeneration"),
    _known("molmo2", "Molmo2ForConditionalGeneration"),
    _remote("moss_audio", "MossAudioModel", file="moss_audio"),
    _known("moss_transcribe_diarize", "MossTranscribeDiarizeForConditionalGeneration"),
    _known("muse_glimmer", "MuseGlimmerForConditionalGeneration"),
    _known(
        "nemotron_h_omni", "NemotronH_Nano_VL_V2", "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Super_Omni_Reasoning_V3",
        "NemotronH_Omni_Reasoning_V3", types=("NemotronH_Nano_VL_V2", "NemotronH_Nano_Omni_Reasoning_V3",
        "NemotronH_Super_Omni_Reasoning_V3", "NemotronH_Omni_Reasoning_V3"),
    ),
    _remote("NVLM_D", "NVLM_D", file="nvlm_d"),
    _remote("opencua", "OpenCUAForConditionalGeneration", file="opencua", family="qwen2"),
    _remote("openvla", "OpenVLAForActionPrediction", file="openvla", family="llama"),
    _remote("ovis", "Ovis", file="ovis"),
    _known("ovis2", "Ovis2ForConditionalGeneration"),
    _remote("ovis2_5", "Ovis2_5", file="ovis2_5"),
    _remote("ovis2_6", "Ovis2_6ForCausalLM", file="ovis2_5"),
    _remote("ovis2_6_moe", "Ovis2_6_MoeForCausalLM", file="ovis2_5"),
    _known("phi4_multimodal", "Phi4MultimodalForCausalLM"),
    _remote("phi4mm", "Phi4MMForCausalLM", file="phi4mm"),
    _remote("step_robotics", "StepVLForConditionalGeneration", file="step_vl"),
    _remote("molmo", "MolmoForCausalLM", file="molmo"),
    _known("paddleocr_vl", "PaddleOCRVLForConditionalGeneration"),
    _known("paligemma", "PaliGemmaForConditionalGeneration"),
    _remote("phi3_v", "Phi3VForCausalLM", file="phi3v", family="phi3"),
    _remote("phi4-siglip", "Phi4ForCausalLMV", file="phi4siglip", family="phi3"),
    _known("qianfan_ocr", "QianfanOCRForConditionalGeneration"),
    _known("qwen2_audio", "Qwen2AudioForConditionalGeneration"),
    _known("qwen2_5_omni", "Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel"),
    _known("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"),
    _known("qwen2_vl", "Qwen2VLForConditionalGeneration"),
    _known("qwen3_asr", "Qwen3ASRForConditionalGeneration", "Qwen3ASRRealtimeGeneration"),
    _known("qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration"),
    _known("qwen3_vl", "Qwen3VLForConditionalGeneration"),
    _known("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration"),
    _known("qwen3_5", "Qwen3_5ForConditionalGeneration"),
    _known("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"),
    _remote("R", "RForConditionalGeneration", file="rvl"),
    _remote("skywork_chat", "SkyworkR1VChatModel", file="skyworkr1v"),
    _known("smolvlm", "SmolVLMForConditionalGeneration"),
    _known("step3p7", "Step3p7ForConditionalGeneration"),
    _remote("ultravox", "UltravoxModel", file="ultravox"),
    _known("voxtral", "VoxtralForConditionalGeneration"),
)  # fmt: skip


@cache
def wrappers() -> dict[str, Wrapper]:
    """Wrappers by the `model_type` of the whole config."""
    return {model_type: wrapper for wrapper in WRAPPERS for model_type in wrapper.model_types}


@cache
def _by_class() -> dict[str, Wrapper]:
    return {name: wrapper for wrapper in WRAPPERS for name in wrapper.architectures}


def wrapper_of(data: dict[str, Any]) -> Wrapper | None:
    """The wrapper of a config, by its `model_type`, or else by its class; None: it is none, or is not known."""
    names = data.get("architectures")
    classes = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    by_name = next((_by_class()[name] for name in classes if name in _by_class()), None)
    return wrappers().get(str(data.get("model_type")), by_name)


# Parts of a config that are for another sense than text, by the words in their names.
_SENSES = re.compile(
    r".*(vision|visual|vit|siglip|image|img|video|audio|speech|sound|encoder_conf|projector|resampler|qformer|embd_layer|adapter_config).*"
)
_SETTINGS = ("quantization_config", "generation_config")


def other_parts(data: dict[str, Any], language: str | None) -> list[str]:
    """The keys of a config under which parts stand that are not its language model: towers, projectors, decoders of speech.

    Args:
        data: the config.
        language: the key of its language model; None where that has its keys beside the others'.
    """
    parts = [key for key, value in data.items() if isinstance(value, dict) and key != language and key not in _SETTINGS]
    return [key for key in parts if _SENSES.fullmatch(key) or (language is not None and key.endswith("_config"))]


# Numbers that a class has for keys that are absent. Some published language parts name what differs from them alone:
# LLaVA 1.5 and 1.6, OpenVLA, PaliGemma.
_LLAMA = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip
CLASS_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {**_LLAMA, "intermediate_size": 11008, "num_key_value_heads": 32},
    "mistral": {**_LLAMA, "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072},
}
_COMPLETE = ("hidden_size", "num_hidden_layers", "num_attention_heads")


def class_defaults(model_type: Any, part: dict[str, Any]) -> dict[str, Any]:
    """The keys that a language part leaves to its class, with their values there; empty for a part that is written out.

    A part that names none of its width, its depth and its heads names what differs from its class alone.
    """
    if not isinstance(model_type, str) or any(key in part for key in _COMPLETE):
        return {}
    return {key: value for key, value in CLASS_DEFAULTS.get(model_type, {}).items() if key not in part}
