"""Without windows: layers that see the newest tokens alone keep all of them."""

from __future__ import annotations

from roofline.blocks.base import MixerBlock
from roofline.predict.limits.variants.base import Variant, with_mixers
from roofline.predict.request import Request

_KEYS = ("sliding_window", "attention_chunk_size")


def variants(request: Request) -> list[Variant]:
    """One, where some layers have a window (or chunks) that they can be without."""
    changed: dict[str, MixerBlock] = {}
    for name, layer in request.model.layer_types.items():
        mixer = layer.mixer
        bounded = [key for key in _KEYS if getattr(mixer, key, None) is not None and _optional(mixer, key)]
        if mixer is not None and bounded:
            changed[name] = mixer.model_copy(update=dict.fromkeys(bounded))
    if not changed:
        return []
    why = "every layer keeps all tokens"
    return [Variant("no window", why, with_mixers(request, changed))]


def _optional(mixer: MixerBlock | None, key: str) -> bool:
    """Whether a mixer of this kind can be without."""
    return mixer is not None and not type(mixer).model_fields[key].is_required()
