"""Without latents: what multi-head attention with the same heads would keep, a key and a value for each of them."""

from __future__ import annotations

from roofline.blocks.base import Cache, MixerBlock
from roofline.blocks.mla import LatentAttentionBlock
from roofline.predict.limits.variants.base import Variant, with_mixers
from roofline.predict.request import Request
from roofline.specs.engine import Kept


def variants(request: Request) -> list[Variant]:
    """One, where some layers keep latents (MLA)."""
    changed: dict[str, MixerBlock] = {
        name: Expanded.model_construct(**dict(layer.mixer))
        for name, layer in request.model.layer_types.items()
        if isinstance(layer.mixer, LatentAttentionBlock)
    }
    if not changed:
        return []
    why = "a key and a value of its own for every query head"
    return [Variant("full K and V, no latent", why, with_mixers(request, changed))]


class Expanded(LatentAttentionBlock):
    """The same layer with another cache; nothing else of it changes. With a `kind` that is no literal it is none of the
    kinds that a model's file can name."""

    kind: str  # type: ignore[assignment]

    def cache(self) -> Cache:
        """A key and a value for each head, and the indexer's key."""
        d_qk, index = self.qk_nope_head_dim + self.qk_rope_head_dim, self.index_head_dim or 0
        return Cache(self.num_attention_heads * (d_qk + self.v_head_dim) + index, index=index)

    def keeps(self) -> set[Kept]:
        """All tokens."""
        return {"full"}
