"""Without windows: layers that see the newest tokens alone keep all of them."""

from __future__ import annotations

from roofline.blocks.base import MixerBlock
from roofline.predict.limits.variants.base import Variant, with_mixers
from roofline.predict.request import Request


def variants(request: Request) -> list[Variant]:
    """One, where some layers have a window (or chunks) that they can be without."""
    changed: dict[str, MixerBlock] = {}
    for name, layer in request.model.layer_types.items():
        if layer.mixer is not None and (mixer := layer.mixer.without_window()) is not None:
            changed[name] = mixer
    if not changed:
        return []
    why = "every layer keeps all tokens"
    return [Variant("no window", why, with_mixers(request, changed))]
