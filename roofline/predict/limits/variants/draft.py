"""Without a draft: no weights and caches of it, and no room for tokens that are being verified."""

from __future__ import annotations

from roofline.predict.limits.variants.base import Variant
from roofline.predict.request import Request
from roofline.predict.speculative.memory import SpeculativeMemory


def variants(request: Request) -> list[Variant]:
    """One, where tokens are drafted."""
    memory = request.memory
    if not isinstance(memory, SpeculativeMemory):
        return []
    return [Variant("no speculative decoding", "the model alone", memory.alone())]
