"""Parameters of the vision or audio tower beside a language model, and of the projector between them, from a multimodal config.

The `model_type` of the whole config says which tower it has. Each function takes the numbers of `vision_config` and of the
config around it and returns the parameters of tower and projector; what is stored as a buffer is not counted.

Source: the classes of transformers 5.23, whose parameters on the meta device are compared in tests/golden/test_towers.py; of
InternVL in its own layout, the checkpoints of OpenGVLab.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline.errors import SpecError
from roofline.specs.huggingface.config import Config


@dataclass(frozen=True, slots=True)
class Tower:
    """Parameters of a tower and of the projector from its width to that of the language model."""

    encoder: int
    projector: int
    work: dict[str, Any] | None = None
    """The key `vision` of a model's file: what the tower computes for one image of its own size; None where the number of
    patches follows from the image, or the layout of the layers is another than CLIP's."""

    def parts(self, sense: str = "vision") -> dict[str, int]:
        """The entries of `apart` in a model's file; `sense` is "vision" or "audio"."""
        return {f"{sense}_tower": self.encoder, f"{sense}_projector": self.projector}


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The configs of the tower and of the whole, and the widths of the language model."""

    vision: Config
    whole: Config
    hidden_size: int

    def grid(self) -> int:
        """Patches of an image of the size that positions are made for."""
        side = self.vision.whole("image_size") // self.vision.whole("patch_size")
        return int(side * side)


def tower(model_type: str, vision: Config, whole: Config, hidden_size: int) -> Tower | None:
    """The vision tower of a multimodal config; None where its layout is not known, or a number that it takes is missing.

    Args:
        model_type: of the whole config.
        vision: its `vision_config`.
        whole: the config itself.
        hidden_size: width of the language model.
    """
    count = _TOWERS.get(model_type)
    if count is None or not (_well_formed(vision.data) and _well_formed(whole.data, _AROUND)):
        return None
    try:
        return count(_Sizes(vision, whole, hidden_size))
    except SpecError:  # a tower that is not counted is named in the answer, and does not refuse the language model
        return None


# Keys of towers whose values have one form, also where no count depends on them: another one is no such tower.
_COUNTS = (
    "num_attention_heads", "num_heads", "vt_num_attention_heads", "num_channels", "in_channels", "in_chans", "head_dim",
    "projection_dim", "spatial_merge_size", "downsample_factor", "scale_factor", "alignment_intermediate_size",
    "projection_hidden_size", "num_patches", "num_key_value_heads", "projector_hidden_size",
)  # fmt: skip
_SIDES = ("image_size", "patch_size")
_SWITCHES = (
    "standardize", "vision_use_head", "attention_bias", "qkv_bias", "use_qk_norm", "qk_normalization",
    "multimodal_projector_bias", "projector_bias", "projector_use_layernorm",
)  # fmt: skip
_SHARES = ("pixel_shuffle_ratio", "downsample_ratio")
_LISTS = ("deepstack_visual_indexes",)
_AROUND = (
    "multimodal_projector_bias", "spatial_merge_size", "downsample_factor", "scale_factor", "alignment_intermediate_size",
    "downsample_ratio", "vision_feature_layer", "projector_hidden_size", "projector_bias", "projector_use_layernorm",
)  # fmt: skip


def _well_formed(section: Mapping[str, Any], keys: Collection[str] | None = None) -> bool:
    """Whether the values of a section have the types that its keys have; null is none of them.

    Args:
        section: `vision_config`, or the config around it.
        keys: looked at; None: all.
    """
    return all(_has_form(key, value) for key, value in section.items() if keys is None or key in keys)


def _has_form(key: str, value: Any) -> bool:
    if key in _COUNTS:
        return _is_count(value)
    if key in _SIDES:
        sides = value if isinstance(value, list) else [value]
        return 1 <= len(sides) <= 2 and all(map(_is_count, sides))
    if key in _SWITCHES:
        return isinstance(value, bool)
    if key in _SHARES:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    if key in _LISTS:
        return isinstance(value, list) and all(_is_index(one) for one in value)
    if key == "vision_feature_layer":
        return _is_index(value, -1000) or (isinstance(value, list) and all(_is_index(one, -1000) for one in value))
    return key not in ("model_type", "norm_type") or isinstance(value, str)


def _is_count(value: Any) -> bool:
    return _is_index(value, 1)


def _is_index(value: Any, low: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**31


def _linear(inputs: int, outputs: int, *, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def _norm(width: int, *, bias: bool = True) -> int:
    return 2 * width if bias else width


def _mlp(width: int, inner: int, *, gated: bool = False, bias: bool = True) -> int:
    return (2 if gated else 1) * _linear(width, inner, bias=bias) + _linear(inner, width, bias=bias)


def _patches(vision: Config, width: int, *, bias: bool, frames: bool = False) -> int:
    """The convolution that makes patches of an image, or of some frames of a video."""
    channels = vision.whole("num_channels", "in_channels", "in_chans", default=3)
    depth = vision.whole("temporal_patch_size") if frames else 1
    return _linear(channels * depth * vision.whole("patch_size") ** 2, width, bias=bias)


def _clip_layers(vision: Config, width: int) -> int:
    """Layers with biases in every matrix and two layer norms, as of CLIP and SigLIP."""
    inner = vision.whole("intermediate_size")
    return int(vision.whole("num_hidden_layers")) * (4 * _linear(width, width) + _mlp(width, inner) + 2 * _norm(width))


def _siglip(sizes: _Sizes, *, head: bool = False) -> int:
    vision = sizes.vision
    width = vision.whole("hidden_size")
    ends = _patches(vision, width, bias=True) + sizes.grid() * width + _norm(width)
    if head and vision.flag("vision_use_head", default=True):
        inner = vision.whole("intermediate_size")
        ends += width + 4 * _linear(width, width) + _norm(width) + _mlp(width, inner)
    return int(_clip_layers(vision, width) + ends)


def _clip(sizes: _Sizes) -> int:
    vision = sizes.vision
    width = vision.whole("hidden_size")
    ends = width + _patches(vision, width, bias=False) + (sizes.grid() + 1) * width + 2 * _norm(width)
    return int(_clip_layers(vision, width) + ends)


def _pixtral(sizes: _Sizes) -> int:
    vision = sizes.vision
    width = vision.whole("hidden_size")
    heads = vision.whole("num_attention_heads")
    if vision.whole("head_dim", default=width // heads) * heads != width:
        vision.refuse("head_dim", "the class has heads that divide hidden_size, whatever this says")
    layer = 4 * width * width + 3 * width * vision.whole("intermediate_size") + 2 * width
    return int(_patches(vision, width, bias=False) + width + vision.whole("num_hidden_layers") * layer)


_ENCODERS: Mapping[str, Callable[[_Sizes], int]] = {
    "clip_vision_model": _clip,
    "siglip_vision_model": lambda sizes: _siglip(sizes, head=True),
    "pixtral": _pixtral,
}


def _encoder(sizes: _Sizes) -> int:
    return _ENCODERS[sizes.vision.choice("model_type", of=_ENCODERS)](sizes)


Product = tuple[str, int, int, int]
"""Name, rows of one image, inputs and outputs of a matrix product outside the layers."""


def _work(sizes: _Sizes, tokens: int, *products: Product, rows: int = 0) -> dict[str, Any] | None:
    """The work on one image of the size that positions are made for.

    Args:
        sizes: of the tower.
        tokens: that the image adds to the prompt.
        products: outside the layers, besides the one that makes patches.
        rows: that the layers see besides patches: a class token.
    """
    vision = sizes.vision
    (height, width), (down, across) = _pair(vision, "image_size"), _pair(vision, "patch_size")
    hidden, heads = vision.whole("hidden_size"), vision.whole("num_attention_heads", default=0)
    if not heads or hidden % heads or height % down or width % across or vision.raw("vision_use_head", default=False):
        return None
    patches = (height // down) * (width // across)
    channels = vision.whole("num_channels", "in_channels", default=3)
    listed = [("patches", patches, channels * down * across, hidden), *products]
    return {
        "image_size": [height, width],
        "tokens": tokens,
        "rows": patches + rows,
        "num_hidden_layers": vision.whole("num_hidden_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": vision.whole("intermediate_size"),
        "products": [dict(zip(("name", "rows", "inputs", "outputs"), product, strict=True)) for product in listed],
    }


def _gemma3(sizes: _Sizes) -> Tower:
    sizes.vision.choice("model_type", of=("siglip_vision_model",), default=None)
    width, tokens = sizes.vision.whole("hidden_size"), sizes.whole.whole("mm_tokens_per_image", default=256)
    work = _work(sizes, tokens, ("projector", tokens, width, sizes.hidden_size))
    return Tower(_siglip(sizes, head=True), width * sizes.hidden_size + width, work)


def _paligemma(sizes: _Sizes) -> Tower:
    width = sizes.vision.whole("hidden_size")
    encoder = _encoder(sizes)
    work = _work(sizes, sizes.grid(), ("projector", sizes.grid(), width, sizes.hidden_size))
    return Tower(encoder, _linear(width, sizes.hidden_size), work)


def _llava(sizes: _Sizes, *, newline: bool = False) -> Tower:
    bias = sizes.whole.flag("multimodal_projector_bias", default=True)
    layers = sizes.whole.raw("vision_feature_layer", default=-2)
    width = sizes.vision.whole("hidden_size") * (len(layers) if isinstance(layers, list) else 1)
    text = sizes.hidden_size
    projector = _linear(width, text, bias=bias) + _linear(text, text, bias=bias)
    encoder, work = _encoder(sizes), None
    # NB: the newer kinds cut an image into tiles by its shape
    if not newline and sizes.vision.data.get("model_type") == "clip_vision_model":
        full = sizes.whole.choice("vision_feature_select_strategy", of=("default", "full"), default="default") == "full"
        tokens = sizes.grid() + full
        products = (("projector/linear_1", tokens, width, text), ("projector/linear_2", tokens, text, text))
        work = _work(sizes, tokens, *products, rows=1)
    return Tower(encoder, projector + (text if newline else 0), work)


def _mistral3(sizes: _Sizes) -> Tower:
    bias = sizes.whole.flag("multimodal_projector_bias", default=False)
    width, text = sizes.vision.whole("hidden_size"), sizes.hidden_size
    merged = width * sizes.whole.whole("spatial_merge_size", default=2) ** 2
    projector = width + merged * width + _linear(width, text, bias=bias) + _linear(text, text, bias=bias)
    return Tower(_encoder(sizes), projector)


def _qwen2_vl(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    width, out = vision.whole("embed_dim"), vision.whole("hidden_size")
    layer = 4 * _linear(width, width) + _mlp(width, width * vision.whole("mlp_ratio")) + 2 * _norm(width)
    merged = width * vision.whole("spatial_merge_size") ** 2
    projector = _norm(width) + _linear(merged, merged) + _linear(merged, out)
    return Tower(_patches(vision, width, bias=False, frames=True) + vision.whole("depth") * layer, projector)


def _qwen2_5_vl(sizes: _Sizes, *, grouped: bool = False) -> Tower:
    vision = sizes.vision
    width, out = vision.whole("hidden_size"), vision.whole("out_hidden_size")
    mlp = _mlp(width, vision.whole("intermediate_size"), gated=True)
    keys = width
    if grouped:
        heads = vision.whole("num_heads")
        vision.divides(("num_heads", heads), ("hidden_size", width))
        keys = vision.whole("num_key_value_heads") * (width // heads)
    layer = 2 * (_linear(width, width) + _linear(width, keys)) + mlp + 2 * _norm(width, bias=False)
    merged = width * vision.whole("spatial_merge_size") ** 2
    projector = _norm(width, bias=False) + _linear(merged, merged) + _linear(merged, out)
    return Tower(_patches(vision, width, bias=False, frames=True) + vision.whole("depth") * layer, projector)


def _hyperclovax(sizes: _Sizes) -> Tower:
    """Qwen2.5-VL's tower, and a matrix from its width to that of the language model."""
    sizes.vision.choice("model_type", of=("qwen2_5_vl", "qwen2_5_vl_vision"), default="qwen2_5_vl")
    within = _qwen2_5_vl(sizes)
    projector = within.projector + _linear(sizes.vision.whole("out_hidden_size"), sizes.hidden_size)
    return Tower(within.encoder, projector)


def _qwen3_vl(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    width, out = vision.whole("hidden_size"), vision.whole("out_hidden_size")
    layer = 4 * _linear(width, width) + _mlp(width, vision.whole("intermediate_size")) + 2 * _norm(width)
    merged = width * vision.whole("spatial_merge_size") ** 2
    if not vision.has("deepstack_visual_indexes") and not _is_qwen3_5(sizes):
        vision.refuse("deepstack_visual_indexes", "is missing: the class has three layers there, and Qwen3.5 none")
    deep = len(_listed(vision, "deepstack_visual_indexes"))
    projector = _norm(width) + deep * _norm(merged) + (1 + deep) * (_linear(merged, merged) + _linear(merged, out))
    ends = _patches(vision, width, bias=True, frames=True) + vision.whole("num_position_embeddings") * width
    return Tower(ends + vision.whole("depth") * layer, projector)


def _is_qwen3_5(sizes: _Sizes) -> bool:
    return str(sizes.whole.data.get("model_type")).startswith("qwen3_5")


def _glm4v(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    width, out = vision.whole("hidden_size"), vision.whole("out_hidden_size")
    attention = 4 * width * width + (3 * width if vision.flag("attention_bias", default=False) else 0)
    layer = attention + _mlp(width, out, gated=True, bias=False) + 2 * width
    ends = _patches(vision, width, bias=True, frames=True) + sizes.grid() * width + 2 * width
    merge = _linear(width * vision.whole("spatial_merge_size") ** 2, out)
    projector = out * out + _norm(out) + _mlp(out, vision.whole("intermediate_size"), gated=True, bias=False)
    return Tower(ends + vision.whole("depth") * layer, merge + projector)


def _llama4(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    width, inner = vision.whole("hidden_size"), vision.whole("intermediate_size")
    ends = width + (sizes.grid() + 1) * width + _patches(vision, width, bias=False) + 2 * _norm(width)
    if not vision.whole("projector_input_dim") == vision.whole("projector_output_dim") == vision.whole("vision_output_dim"):
        vision.refuse("projector_input_dim", "the widths of the adapter differ, and its second matrix has one width")
    adapter = inner * vision.whole("projector_input_dim") + vision.whole("projector_input_dim") * vision.whole(
        "projector_output_dim"
    )
    projector = vision.whole("vision_output_dim") * sizes.hidden_size
    between, out = vision.whole("projector_input_dim"), vision.whole("projector_output_dim")
    tokens = _shuffled(sizes, vision.fraction("pixel_shuffle_ratio", default=0.5))
    work = tokens and _work(
        sizes,
        tokens,
        ("adapter/fc1", tokens, inner, between),
        ("adapter/fc2", tokens, between, out),
        ("projector", tokens, vision.whole("vision_output_dim"), sizes.hidden_size),
        rows=1,
    )
    return Tower(_clip_layers(vision, width) + ends, adapter + projector, work or None)


def _shuffled(sizes: _Sizes, ratio: float) -> int:
    """Tokens that are left of an image's patches where neighbours are put together; 0 where that does not come out even."""
    (height, width), (down, across) = _pair(sizes.vision, "image_size"), _pair(sizes.vision, "patch_size")
    rows, columns = height // down * ratio, width // across * ratio
    return round(rows * columns) if rows.is_integer() and columns.is_integer() else 0


def _idefics3(sizes: _Sizes) -> Tower:
    merged = sizes.vision.whole("hidden_size") * sizes.whole.whole("scale_factor") ** 2
    return Tower(_siglip(_of_class(sizes)), merged * sizes.hidden_size)


# Numbers that the classes of both have for keys that are absent, on which SmolVLM2 relies.
_IDEFICS3 = {"intermediate_size": 3072, "num_hidden_layers": 12}


def _of_class(sizes: _Sizes) -> _Sizes:
    """With the numbers that a SmolVLM tower leaves to its class: it names what differs alone."""
    vision = sizes.vision
    if not all(vision.has(key) for key in ("model_type", "hidden_size", "num_attention_heads", "image_size", "patch_size")):
        return sizes
    return replace(sizes, vision=Config(vision.document, {**_IDEFICS3, **vision.data}, vision.place))


def _lfm2_vl(sizes: _Sizes) -> Tower:
    vision, whole = sizes.vision, sizes.whole
    vision.choice("model_type", of=("siglip2_vision_model",), default=None)
    if vision.flag("vision_use_head", default=True):
        vision.refuse("vision_use_head", "is not known to be off: releases of the class differ on what it is then")
    width = vision.whole("hidden_size")
    ends = _patches(vision, width, bias=True) + vision.whole("num_patches") * width + _norm(width)
    merged = width * whole.whole("downsample_factor") ** 2
    inner, bias = whole.whole("projector_hidden_size"), whole.flag("projector_bias", default=True)
    projector = _linear(merged, inner, bias=bias) + _linear(inner, sizes.hidden_size, bias=bias)
    normed = _norm(merged) if whole.flag("projector_use_layernorm", default=True) else 0
    return Tower(_clip_layers(vision, width) + ends, projector + normed)


def _cohere2_vision(sizes: _Sizes) -> Tower:
    merged = sizes.vision.whole("hidden_size") * sizes.whole.whole("downsample_factor") ** 2
    inner = sizes.whole.whole("alignment_intermediate_size")
    return Tower(_encoder(sizes), _linear(merged, inner) + _linear(inner // 2, sizes.hidden_size), _merged(sizes, inner))


def _merged(sizes: _Sizes, inner: int) -> dict[str, Any] | None:
    """The work where neighbouring patches are put together, and projected by a gated block of two matrices."""
    factor, text = sizes.whole.whole("downsample_factor"), sizes.hidden_size
    tokens = _shuffled(sizes, 1 / factor)
    merged = sizes.vision.whole("hidden_size") * factor**2
    products = (("projector/linear_1", tokens, merged, inner), ("projector/linear_2", tokens, inner // 2, text))
    return _work(sizes, tokens, *products) if tokens else None


def _aya_vision(sizes: _Sizes) -> Tower:
    merged = sizes.vision.whole("hidden_size") * sizes.whole.whole("downsample_factor") ** 2
    inner = sizes.whole.whole("alignment_intermediate_size", default=sizes.hidden_size)
    projector = _norm(merged) + _linear(merged, inner) + _linear(inner // 2, sizes.hidden_size)
    return Tower(_encoder(sizes), projector, _merged(sizes, inner))


def _internvl(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    width = vision.whole("hidden_size")
    if sizes.whole.data.get("model_type") == "qianfan_ocr":
        vision.flag("attention_bias", "qkv_bias")  # its class has another default
    bias = vision.flag("attention_bias", "qkv_bias", default=False)
    normed = 2 * width if vision.flag("use_qk_norm", "qk_normalization", default=False) else 0
    norms = 2 * _norm(
        width, bias=vision.choice("norm_type", of=("layer_norm", "rms_norm"), default="layer_norm") == "layer_norm"
    )
    attention = 3 * _linear(width, width, bias=bias) + _linear(width, width) + normed
    layer = attention + _mlp(width, vision.whole("intermediate_size")) + norms + 2 * width
    rows, columns = _pair(vision, "patch_size")
    patches = _linear(vision.whole("num_channels", default=3) * rows * columns, width)
    ends = width + (_grid_of_sides(vision) + 1) * width + patches
    ratio = sizes.whole.fraction("downsample_ratio", default=0.5)
    if not (1 / ratio).is_integer():
        sizes.whole.refuse("downsample_ratio", "puts no whole number of patches together")
    merged, text = round(width / ratio**2), sizes.hidden_size
    projector = _norm(merged) + _linear(merged, text) + _linear(text, text)
    tokens = _shuffled(sizes, ratio)
    products = (("projector/linear_1", tokens, merged, text), ("projector/linear_2", tokens, text, text))
    work = _work(sizes, tokens, *products, rows=1) if tokens else None
    return Tower(ends + vision.whole("num_hidden_layers") * layer, projector, work)


def _pair(config: Config, name: str) -> tuple[int, int]:
    """A number for both sides, or a list of two."""
    value = config.raw(name)
    pair = value if isinstance(value, list) else [value, value]
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        config.refuse(name, f"must be a whole number or two, not {value!r:.60}")
    return pair[0], pair[1]


def _listed(config: Config, name: str) -> list[Any]:
    value = config.raw(name, default=[])
    if not isinstance(value, list):
        config.refuse(name, f"must be a list, not {value!r:.60}")
    return value


def _grid_of_sides(vision: Config) -> int:
    """Patches of an image whose size and patches are given by side, or by height and width."""
    (height, width), (rows, columns) = _pair(vision, "image_size"), _pair(vision, "patch_size")
    return height // rows * (width // columns)


def _kimi(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    width = vision.whole("hidden_size", "vt_hidden_size")
    layer = (
        4 * _linear(width, width) + _mlp(width, vision.whole("intermediate_size", "vt_intermediate_size")) + 2 * _norm(width)
    )
    grid = vision.whole("pos_emb_height", "init_pos_emb_height") * vision.whole("pos_emb_width", "init_pos_emb_width")
    ends = _patches(vision, width, bias=True) + grid * width + _norm(width)
    rows, columns = _pair(vision, "merge_kernel_size")
    merged = width * rows * columns
    normed = sizes.whole.whole("projection_hidden_size", default=None) or vision.whole("mm_hidden_size", default=None)
    if normed is None:
        if sizes.whole.data.get("model_type") != "kimi_vl":
            vision.refuse("mm_hidden_size", "is missing: the class has 1152 there, whatever the tower's width")
        normed = width
    projector = _norm(normed) + _linear(merged, merged) + _linear(merged, sizes.hidden_size)
    return Tower(ends + vision.whole("num_hidden_layers", "vt_num_hidden_layers") * layer, projector)


def _gemma4(sizes: _Sizes) -> Tower:
    vision = sizes.vision
    vision.off("attention_bias")
    width, head_dim = vision.whole("hidden_size"), vision.whole("head_dim")
    queries, keys = vision.whole("num_attention_heads") * head_dim, vision.whole("num_key_value_heads") * head_dim
    mlp = _mlp(width, vision.whole("intermediate_size"), gated=True, bias=False)
    layer = 2 * width * (queries + keys) + 2 * head_dim + mlp + 4 * width
    ends = 2 * vision.whole("position_embedding_size") * width + _patches(vision, width, bias=False)
    return Tower(ends + vision.whole("num_hidden_layers") * layer, width * sizes.hidden_size)


_TOWERS: Mapping[str, Callable[[_Sizes], Tower]] = {
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "paligemma": _paligemma,
    "llava": _llava,
    **dict.fromkeys(("llava_next", "llava_next_video"), lambda sizes: _llava(sizes, newline=True)),
    "llava_onevision": lambda sizes: _llava(sizes, newline=True),
    **dict.fromkeys(("mistral3", "lighton_ocr"), _mistral3),
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "exaone4_5": lambda sizes: _qwen2_5_vl(sizes, grouped=True),
    "lfm2_vl": _lfm2_vl,
    "hyperclovax_vision_v2": _hyperclovax,
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3_vl),
    **dict.fromkeys(("glm4v", "glm4v_moe"), _glm4v),
    "llama4": _llama4,
    **dict.fromkeys(("idefics3", "smolvlm"), _idefics3),
    "cohere2_vision": _cohere2_vision,
    "aya_vision": _aya_vision,
    **dict.fromkeys(("internvl", "internvl_chat", "qianfan_ocr"), _internvl),
    **dict.fromkeys(("kimi_k25", "kimi_vl"), _kimi),
}


def audio_tower(model_type: str, audio: Config, hidden_size: int) -> Tower | None:
    """The audio tower of a multimodal config: Whisper's encoder and a projector; None where the layout is not known.

    Args:
        model_type: of the whole config.
        audio: its `audio_config`.
        hidden_size: width of the language model.
    """
    project = _AUDIO.get(model_type)
    if project is None or not all(_is_count(audio.data[key]) for key in _WHISPER if key in audio.data):
        return None
    try:
        return Tower(_whisper(audio), project(audio, hidden_size))
    except SpecError:
        return None


_WHISPER = (
    "d_model", "hidden_size", "encoder_layers", "num_hidden_layers", "encoder_ffn_dim", "intermediate_size", "num_mel_bins",
    "max_source_positions", "encoder_attention_heads", "num_attention_heads",
)  # fmt: skip


def _whisper(audio: Config) -> int:
    """Two convolutions of three frames, positions, and layers in which keys have no biases."""
    width = audio.whole("d_model", "hidden_size")
    inner = audio.whole("encoder_ffn_dim", "intermediate_size")
    audio.divides(("heads", audio.whole("encoder_attention_heads", "num_attention_heads")), ("the tower's width", width))
    layer = 4 * width * width + 3 * width + _mlp(width, inner) + 2 * _norm(width)
    convolutions = _linear(3 * audio.whole("num_mel_bins"), width) + _linear(3 * width, width)
    ends = convolutions + audio.whole("max_source_positions") * width + _norm(width)
    return int(audio.whole("encoder_layers", "num_hidden_layers") * layer + ends)


def _voxtral_projector(audio: Config, text: int) -> int:
    return int(audio.whole("intermediate_size") * text + text * text)  # four frames side by side, without biases


_AUDIO: Mapping[str, Callable[[Config, int], int]] = {
    "qwen2_audio": lambda audio, text: _linear(audio.whole("d_model", "hidden_size"), text),
    "audioflamingo3": lambda audio, text: _linear(audio.whole("d_model", "hidden_size"), text) + _linear(text, text),
    "voxtral": _voxtral_projector,
}


def senses_of(model_type: str) -> tuple[str, ...]:
    """The senses whose towers are counted in a multimodal config: "vision", "audio"; empty where no layout is known."""
    counted = {"vision": model_type in _TOWERS, "audio": model_type in _AUDIO}
    return tuple(sense for sense, known in counted.items() if known)
