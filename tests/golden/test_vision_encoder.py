"""The work of vision towers on images: FLOP of PyTorch's counter over the classes of transformers, tokens and times."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import roofline
from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.cost import ZERO
from roofline.errors import InputError
from roofline.graph.vision import encoder_graph
from roofline.specs.huggingface.document import parse_json
from roofline.specs.huggingface.read import Origin

Keys = dict[str, Any]

_TEXT: Keys = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 200, "max_position_embeddings": 128, "head_dim": 16,
}  # fmt: skip
_SIGLIP: Keys = {
    "model_type": "siglip_vision_model", "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
    "num_attention_heads": 4, "image_size": 56, "patch_size": 7, "vision_use_head": False,
}  # fmt: skip
_CLIP: Keys = {**{key: value for key, value in _SIGLIP.items() if key != "vision_use_head"}, "model_type": "clip_vision_model"}
_LLAMA4: Keys = {
    "hidden_size": 96, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 56,
    "patch_size": 7, "vision_output_dim": 112, "projector_input_dim": 112, "projector_output_dim": 112,
    "pixel_shuffle_ratio": 0.5,
}  # fmt: skip
_INTERN: Keys = {
    "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": [56, 56],
    "patch_size": [7, 7], "attention_bias": True, "norm_type": "layer_norm",
}  # fmt: skip
# By model_type: the vision_config, the model_type of the language model, the rest, and tokens of an image.
KINDS: dict[str, tuple[Keys, str, Keys, int]] = {
    "gemma3": (_SIGLIP, "gemma3_text", {"mm_tokens_per_image": 16}, 16),
    "paligemma": (_SIGLIP, "gemma", {"projection_dim": 64}, 8 * 8),
    "llava": (_CLIP, "llama", {}, 8 * 8),
    "llava of all rows": (_CLIP, "llama", {"vision_feature_select_strategy": "full"}, 8 * 8 + 1),
    "llama4": (_LLAMA4, "llama4_text", {}, 4 * 4),
    "internvl": (_INTERN, "qwen2", {"downsample_ratio": 0.5}, 4 * 4),
    "cohere2_vision": (_SIGLIP, "cohere2", {"downsample_factor": 2, "alignment_intermediate_size": 240}, 4 * 4),
    "aya_vision": (_SIGLIP, "cohere", {"downsample_factor": 4, "alignment_intermediate_size": 240}, 2 * 2),
}


def _config(kind: str) -> Any:
    transformers = pytest.importorskip("transformers", reason="its classes are the reference")
    vision, language, rest, _ = KINDS[kind]
    known = transformers.CONFIG_MAPPING[language]().to_dict()
    text = {"model_type": language, **{key: value for key, value in _TEXT.items() if key in known}}
    if known.get("pad_token_id"):
        text["pad_token_id"] = 0
    return transformers.CONFIG_MAPPING[kind.split(maxsplit=1)[0]](vision_config=vision, text_config=text, **rest)


def _model(config: Keys) -> Model:
    return read(parse_json(json.dumps(config, default=str), "config.json"), Origin("test", "Test"))


@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
def test_flop_of_a_tower(kind: str) -> None:
    """Matrix FLOP of the patches, layers and projector for three images, and the rows that come out of the projector."""
    torch = pytest.importorskip("torch", reason="its counter is the reference")
    transformers = pytest.importorskip("transformers", minversion="5.23", reason="its classes are the reference")
    from torch.utils.flop_counter import FlopCounterMode

    config = _config(kind)
    vision, _, _, tokens = KINDS[kind]
    size = vision["image_size"] if isinstance(vision["image_size"], list) else [vision["image_size"]] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.device("meta"):
            network = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager").eval()
            pixels = torch.empty(3, 3, *size)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            features = network.get_image_features(pixel_values=pixels)
            rows = features.pooler_output
            if rows is None:  # Llama 4 projects what comes out
                rows = network.multi_modal_projector(features.last_hidden_state)
    assert sum(part.numel() for part in rows) == 3 * tokens * _TEXT["hidden_size"]
    model = _model(config.to_dict())
    assert model.vision is not None
    assert model.vision.tokens == tokens
    graph = encoder_graph(model.vision, 3, "bf16")
    cost = sum((operator.cost() * repeat for operator, repeat in graph.values()), ZERO)
    assert cost.matrix_flops == counter.get_total_flops()


# LLaVA 1.5 7B: https://huggingface.co/llava-hf/llava-1.5-7b-hf/blob/main/config.json
LLAVA: Keys = {
    "model_type": "llava", "vision_feature_layer": -2,
    "text_config": {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064, "torch_dtype": "float16"},
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14, "projection_dim": 768,
    },
}  # fmt: skip


def test_images_of_a_prompt() -> None:
    """LLaVA 1.5: 24 x 24 patches, each a token; two images add 1,152. The encoder comes before prefill, in TTFT and E2E."""
    model = _model(LLAVA)
    plain = roofline.analyze(model, "h100-sxm", input_len=100 + 2 * 576, output_len=20)
    result = roofline.analyze(model, "h100-sxm", input_len=100, images=2, output_len=20)
    assert plain.encoder is None
    assert result.encoder is not None
    assert result.prefill.cost == plain.prefill.cost
    assert (result.encoder.images, result.encoder.tokens_per_image) == (2, 576)
    rows, width = 2 * 577, 1024
    layer = 8 * rows * width**2 + 16 * rows * width**2 + 4 * rows * 577 * width  # attention's four, the MLP's two, scores
    around = 2 * 2 * 576 * (3 * 14 * 14 * width + width * 4096 + 4096 * 4096)
    assert result.encoder.flops.matrix == 24 * layer + around
    for name in ("bound", "estimate"):
        added = getattr(result.encoder.time, name)
        assert added > 0
        for whole, without in ((result.request.ttft_s, plain.request.ttft_s), (result.request.e2e_s, plain.request.e2e_s)):
            assert getattr(whole, name) == pytest.approx(getattr(without, name) + added)
    assert result.request.tpot_s == plain.request.tpot_s
    assert result.to_dict()["encoder"]["flops"]["matrix"] == result.encoder.flops.matrix
    named = [note.why for note in plain.assumptions if note.name == "model.parts"]
    towers = "the vision tower (304 M parameters) and the vision projector (21.0 M parameters)"
    assert named == [f"not counted: the time of {towers}; their weights are in memory (--images N counts their work)"]
    assert not [note for note in result.assumptions if note.name == "model.parts"]


def test_images_are_divided_by_parallelism() -> None:
    """Half of the heads and of the inner width on each of two devices, with two collectives a layer; images of a replica's."""
    model = _model(LLAVA)
    whole, halves, replicas = (
        roofline.analyze(model, "h100-sxm", images=1, batch=4, **size).encoder for size in ({}, {"tp": 2}, {"dp": 2})
    )
    assert halves.flops.matrix == whole.flops.matrix / 2
    assert halves.cost.link_bytes > 0
    assert replicas.flops.matrix == whole.flops.matrix / 2


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("llama-3.1-8b", {"images": 1}, "no vision tower"),
        ("gemma-3-12b", {"images": -1}, "--images"),
        ("gemma-3-12b", {"images": 1.5}, "--images"),
        ("LLAVA", {"images": 1, "cached_prefix": 8}, "cached prefix"),
        ("LLAVA", {"images": 1, "segments": "1x8@0"}, "--images"),
        ("LLAVA", {"images": 10}, ""),
    ],
)
def test_images_that_are_refused(model: str, options: Keys, message: str) -> None:
    """Each with one sentence; ten images are longer than LLaVA's context, which is a note and no error."""
    loaded = _model(LLAVA) if model == "LLAVA" else model
    if not message:
        assert any(note.name == "context_length" for note in roofline.analyze(loaded, "h100-sxm", **options).assumptions)
        return
    with pytest.raises(InputError, match=message):
        roofline.analyze(loaded, "h100-sxm", **options)


def test_sizes_that_follow_from_the_image_are_refused() -> None:
    """Qwen2.5-VL takes images of any size: how many patches there are is in no config."""
    vision = {
        "depth": 2, "num_heads": 4, "in_channels": 3, "patch_size": 7, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "hidden_size": 96, "intermediate_size": 200, "out_hidden_size": 64,
    }  # fmt: skip
    text = {**_TEXT, "model_type": "qwen2_5_vl_text", "tie_word_embeddings": False}
    model = _model({"model_type": "qwen2_5_vl", "vision_config": vision, "text_config": text})
    assert model.towers
    with pytest.raises(InputError, match="does not say how many patches"):
        roofline.analyze(model, "h100-sxm", images=1)


def test_no_page_and_no_formula_leaves_images_out() -> None:
    """They are refused where the work of an encoder is not computed."""
    result = roofline.analyze(_model(LLAVA), "h100-sxm", images=1)
    with pytest.raises(InputError, match="pages have no encoder"):
        result.to_html()
    with pytest.raises(InputError, match="no formula"):
        roofline.explain(_model(LLAVA), "ttft", "h100-sxm", images=1)
