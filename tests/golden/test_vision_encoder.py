"""The work of vision towers on images: FLOP of PyTorch's counter over the classes of transformers, tokens and times."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.audit.claims import judge
from roofline.blocks.config_json import read
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.cost import ZERO
from roofline.errors import InputError
from roofline.graph.vision import encoder_graph
from roofline.predict.analyze import answer
from roofline.predict.explain.explain import explain_step
from roofline.report.analysis.page import report, report_view
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


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["gemma-3-4b", "gemma-3-12b", "gemma-3-27b"])
def test_towers_of_shipped_models(name: str) -> None:
    """Their files' numbers: parameters and FLOP of SigLIP at 896 x 896 in transformers, projected to the width of the model."""
    torch = pytest.importorskip("torch", reason="its counter is the reference")
    transformers = pytest.importorskip("transformers", minversion="5.23", reason="its classes are the reference")
    from torch.utils.flop_counter import FlopCounterMode

    model = load_model(name)[0]
    vision = {**_SIGLIP, "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
              "image_size": 896, "patch_size": 14}  # fmt: skip
    text = {**_TEXT, "model_type": "gemma3_text", "hidden_size": model.hidden_size, "pad_token_id": 0}
    config = transformers.Gemma3Config(vision_config=vision, text_config=text, mm_tokens_per_image=256)
    with torch.device("meta"):
        network = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager").eval()
        pixels = torch.empty(1, 3, 896, 896)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.get_image_features(pixel_values=pixels)
    assert model.vision is not None
    graph = encoder_graph(model.vision, 1, "bf16")
    cost = sum((operator.cost() * repeat for operator, repeat in graph.values()), ZERO)
    assert cost.matrix_flops == counter.get_total_flops()
    parts = (network.model.vision_tower, network.model.multi_modal_projector)
    sizes = [sum(each.numel() for each in part.parameters()) for part in parts]
    assert sizes == [model.apart["vision_tower"], model.apart["vision_projector"]]


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


@pytest.fixture
def llava(tmp_path: Path) -> str:
    """The path of LLaVA's config."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAVA), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("options", [{"images": 2}, {"images": 1, "batch": 3, "tp": 2, "output_len": 20}])
def test_formulas_of_the_encoder(options: Keys) -> None:
    """Of each operator FLOP, bytes and bound, and of the encoder, TTFT and E2E each time: what `analyze` has."""
    model = _model(LLAVA)
    result = roofline.analyze(model, "h100-sxm", **options)
    assert result.encoder is not None
    for op in result.encoder.operators:
        parts = {part.subject: part.value for part in roofline.explain(model, op.path, "h100-sxm", **options).parts}
        assert parts.get("matrix_flops", 0) == op.cost.matrix_flops
        assert parts.get("weight_bytes", 0) == op.cost.weight_bytes
        assert parts.get("activation_bytes", 0) == op.cost.activation_bytes
        assert parts.get("link_bytes", 0) == op.cost.link_bytes
        for word in ("bound", "estimate"):
            explained = roofline.explain(model, f"{op.path} {word}", "h100-sxm", **options)
            assert explained.value == pytest.approx(getattr(op.time, word))
    times = {"encoder": result.encoder.time, "ttft": result.first_token}
    if result.request is not None:
        times = {"encoder": result.encoder.time, "ttft": result.request.ttft_s, "e2e": result.request.e2e_s}
        assert result.request.ttft_s == result.first_token
    for name, span in times.items():
        for word in ("bound", "floor", "estimate"):
            explained = roofline.explain(model, f"{name} {word}", "h100-sxm", **options)
            assert explained.value == pytest.approx(getattr(span, word))


def test_symbols_of_the_encoder() -> None:
    """The scores and sums of every row with every row: 4 x layers x heads x width x images x rows^2."""
    explained = roofline.explain("gemma-3-12b", "vision/layers/attention/core", images=2)
    assert explained.formula == "4·L_vision·n_q_vision·d_head_vision·n_img·r_img²"
    assert explained.value == 4 * 27 * 16 * 72 * 2 * 4096**2
    with pytest.raises(InputError, match="give their number per prompt with --images"):
        roofline.explain("gemma-3-12b", "vision/layers/attention/core")
    with pytest.raises(InputError, match="give their number per prompt with --images"):
        roofline.explain("gemma-3-12b", "encoder", "h100-sxm")


def test_a_page_says_what_analyze_says(llava: str) -> None:
    """TTFT of the tile, of the answer and of the curve over prompts; the encoder's rows; images in what reproduces the page."""
    options = {"images": 2, "input_len": 100, "output_len": 20}
    result = roofline.analyze(llava, "h100-sxm", **options)
    assert result.encoder is not None
    assert result.request is not None
    shown = report_view(llava, ["h100-sxm"], options)
    tiles = {tile.label: tile.cell.value for tile in shown.tiles}
    assert tiles["TTFT"] == result.request.ttft_s.estimate
    sections = {section.key: section for section in shown.sections}
    rows = {row[1].value: row[3].value for row in sections["ttft"].figure.table.rows}
    assert rows[100 + 2 * 576] == result.request.ttft_s.estimate
    assert min(length for length in rows if length is not None) > 2 * 576
    listed = [row[0].text for row in sections["operators"].tables[0].rows]
    assert listed == [op.path for op in result.encoder.operators]
    assert sections["time-encoder"].title == "Where the encoder time goes"
    (reproduce,) = [one.text for one in shown.commands if one.repeats]
    assert "--input-len 100" in reproduce
    assert "--images 2" in reproduce
    explained = [one.subject for phase, one in explain_step(answer(llava, "h100-sxm", **options)[0]) if phase == "encoder"]
    assert explained == listed
    assert "--images 2" in result.to_html().replace("</span> <span>", " ")  # each word of a command is an element


def test_a_control_for_images_where_their_work_is_known() -> None:
    """Pages of models whose image size is free, or of text alone, have none: any number of images would be refused."""
    assert 'data-control="images"' in report("gemma-3-12b", ["h100-sxm"], {})
    assert 'data-control="images"' not in report("gpt2", ["h100-sxm"], {})


@pytest.mark.parametrize("options", [{}, {"phase": "prefill"}, {"batch": 4}])
def test_a_claim_is_judged_by_what_analyze_says(options: Keys) -> None:
    """The ceiling of a TTFT is the floor of encoder and prefill of one prompt; bound and estimate are those of the batch."""
    model, given = _model(LLAVA), {"images": 2, "input_len": 100}
    batch = {name: value for name, value in options.items() if name == "batch"}
    alone = roofline.analyze(model, "h100-sxm", **given).first_token
    (one,) = judge(None, model, "h100-sxm", ttft=2e-3, **given, **batch).claims
    assert one.verdict == "impossible"
    assert one.ceiling == pytest.approx(alone.floor)
    assert any("encoder of 2 images before it" in line for line in one.derivation)
    many = roofline.analyze(model, "h100-sxm", **given, **options).first_token
    (one,) = judge(None, model, "h100-sxm", ttft=1.0, **given, **batch).claims
    assert one.verdict == "possible"
    assert one.bound == pytest.approx(many.bound)
    assert one.estimate == pytest.approx(many.estimate)
    note = next(note for note in one.assumptions if note.name == "images")
    assert note.value == 2


def test_rates_with_images() -> None:
    """Of prompt tokens: the work of both over the peak, since the encoder of one prompt overlaps with the prefill of another.

    A claim of what prefill alone could do has left the encoder out.
    """
    model, given = _model(LLAVA), {"images": 1, "input_len": 24, "batch": 8}
    result = roofline.analyze(model, "h100-sxm", **given)
    (one,) = judge(None, model, "h100-sxm", tokens_per_s=1.0, phase="prefill", **given).claims
    flops = result.encoder.cost.matrix_flops + result.prefill.cost.matrix_flops
    assert one.ceiling == pytest.approx(8 * 600 * 989.4e12 / flops)
    (one,) = judge(
        None, model, "h100-sxm", tokens_per_s=0.99 * 8 * 600 / result.prefill.time.floor, phase="prefill", **given
    ).claims
    assert one.verdict == "impossible"
    assert "encoder left out" in [mistake.name for mistake in one.likely_mistakes]
    few = judge(None, model, "h100-sxm", tokens_per_s=1.0, output_len=2, **given).claims[0].ceiling
    more = judge(None, model, "h100-sxm", tokens_per_s=1.0, output_len=2, batch=8, input_len=600).claims[0].ceiling
    assert few < more


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttft": 1.0}, "state these with --input-len"),
        ({"ttft": 1.0, "input_len": 10, "cached_prefix": 5}, "cached prefix"),
        ({"ttft": 1.0, "input_len": 10, "model": "qwen3-8b"}, "no vision tower"),
    ],
)
def test_claims_with_images_that_are_refused(options: Keys, message: str) -> None:
    """A prompt of unknown length, images in the cache, and a model without a tower."""
    given = {"model": _model(LLAVA), "hardware": "h100-sxm", "images": 1, **options}
    with pytest.raises(InputError, match=message):
        judge(None, **given)


def test_drafts_leave_the_encoder_in(llava: str) -> None:
    """TTFT and E2E with speculative decoding are longer by the encoder, as without."""
    drafted = {"speculative_method": "ngram", "num_speculative_tokens": 2, "acceptance": 0.5, "output_len": 20}
    plain = roofline.analyze(llava, "h100-sxm", input_len=100 + 576, **drafted)
    result = roofline.analyze(llava, "h100-sxm", input_len=100, images=1, **drafted)
    for name in ("ttft_s", "e2e_s"):
        longer = getattr(result.request, name).estimate - getattr(plain.request, name).estimate
        assert longer == pytest.approx(result.encoder.time.estimate)
    explained = roofline.explain(llava, "ttft estimate", "h100-sxm", input_len=100, images=1, **drafted)
    assert explained.value == pytest.approx(result.request.ttft_s.estimate)
