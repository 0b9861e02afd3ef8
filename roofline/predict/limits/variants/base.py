"""What a comparison is made of: the memory of the same deployment with one thing another way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.blocks.base import MixerBlock
from roofline.blocks.model import LayerType, Model
from roofline.predict.memory import MemoryModel
from roofline.predict.request import Request


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing another way: what, in a few words, how that is counted, and the memory that follows."""

    name: str
    why: str
    memory: MemoryModel


def with_mixers(request: Request, changed: dict[str, MixerBlock]) -> MemoryModel:
    """The memory of a model whose layer types have other mixers. All else is as it is, the weights too."""
    types: dict[str, LayerType] = {
        name: layer.model_copy(update={"mixer": changed[name]}) if name in changed else layer
        for name, layer in request.model.layer_types.items()
    }
    model: Model = request.model.model_copy(update={"layer_types": types})
    return replace(request.memory, model=model)
