"""Without the shared prefix: every sequence keeps all of its tokens for itself."""

from __future__ import annotations

from dataclasses import replace

from roofline.predict.limits.variants.base import Variant
from roofline.predict.request import Request


def variants(request: Request) -> list[Variant]:
    """One, where cached tokens are common to the batch."""
    conventions = request.deployment.conventions
    if not conventions.shared_prefix:
        return []
    alone = request.deployment.model_copy(update={"conventions": conventions.model_copy(update={"shared_prefix": 0})})
    why = "each sequence keeps its own prefix"
    return [Variant("no shared prefix", why, replace(request.memory, deployment=alone))]
