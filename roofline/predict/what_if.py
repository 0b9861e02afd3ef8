"""What-if variants of a deployment, one change at a time, and the memory of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofline.blocks.base import Cache, MixerBlock
from roofline.blocks.mla import LatentAttentionBlock
from roofline.blocks.model import LayerType, Model
from roofline.blocks.precision import resolve_precision
from roofline.predict.memory import MemoryModel
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import SpeculativeMemory
from roofline.specs.engine import CacheKind

KV_DTYPES = ("bf16", "fp8")


@dataclass(frozen=True, slots=True)
class Variant:
    """A deployment with one change: its name, how it is counted, and its memory."""

    name: str
    why: str
    memory: MemoryModel


def with_mixers(request: ResolvedRequest, changed: dict[str, MixerBlock]) -> MemoryModel:
    """Return the memory of the model with other mixers in some layer types, by name.

    All else stays the same, the weights too.
    """
    types: dict[str, LayerType] = {
        name: layer.model_copy(update={"mixer": changed[name]}) if name in changed else layer
        for name, layer in request.model.layer_types.items()
    }
    model: Model = request.model.model_copy(update={"layer_types": types})
    return replace(request.memory, model=model)


def _without_draft(request: ResolvedRequest) -> list[Variant]:
    """Without a draft, where tokens are drafted: no weights and caches of it, no blocks for tokens being verified."""
    memory = request.memory
    if not isinstance(memory, SpeculativeMemory):
        return []
    return [Variant("no speculative decoding", "the model alone", memory.alone())]


def _other_kv_dtypes(request: ResolvedRequest) -> list[Variant]:
    """The cache in each format of another size than the one in use, where anything is cached per token."""
    memory = request.memory
    if not memory.fullest_stage.layout.kinds:
        return []
    others = []
    for name in KV_DTYPES:
        deployment = request.deployment.model_copy(update={"kv_cache_dtype": name})
        multiplies = request.hardware.accelerator.peak_flops
        precision, _ = resolve_precision(request.model, deployment, multiplies, request.engine)
        if precision.kv.bytes != request.precision.kv.bytes:
            why = f"{precision.kv.bytes:g} byte{'s' * (precision.kv.bytes != 1)} per element"
            changed = replace(memory, deployment=deployment, precision=precision)
            if isinstance(changed, SpeculativeMemory) and (draft := changed.draft) is not None:
                changed = replace(changed, draft=replace(draft, precision=replace(draft.precision, kv=precision.kv)))
            others.append(Variant(f"KV in {name}", why, changed))
    return others


def _without_latent(request: ResolvedRequest) -> list[Variant]:
    """Without latents, where some layers keep them (MLA): what multi-head attention with the same heads would keep."""
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
        """Return a cache of a key and a value for each head, and the key of the indexer."""
        d_qk, index = self.qk_nope_head_dim + self.qk_rope_head_dim, self.index_head_dim or 0
        return Cache(self.num_attention_heads * (d_qk + self.v_head_dim) + index, index=index)

    def cache_kinds(self) -> set[CacheKind]:
        """Return that all tokens are kept."""
        return {"full"}


def _without_prefix(request: ResolvedRequest) -> list[Variant]:
    """Without the shared prefix, where cached tokens are common to the batch: every sequence keeps all of its tokens."""
    conventions = request.deployment.conventions
    if not conventions.shared_prefix:
        return []
    alone = request.deployment.model_copy(update={"conventions": conventions.model_copy(update={"shared_prefix": 0})})
    why = "each sequence keeps its own prefix"
    return [Variant("no shared prefix", why, replace(request.memory, deployment=alone))]


def _without_window(request: ResolvedRequest) -> list[Variant]:
    """Without windows, where some layers have one (or chunks) that is optional: they keep all tokens."""
    changed: dict[str, MixerBlock] = {}
    for name, layer in request.model.layer_types.items():
        if layer.mixer is not None and (mixer := layer.mixer.without_window()) is not None:
            changed[name] = mixer
    if not changed:
        return []
    why = "every layer keeps all tokens"
    return [Variant("no window", why, with_mixers(request, changed))]


VARIANTS: tuple[Callable[[ResolvedRequest], list[Variant]], ...] = (
    _without_draft, _other_kv_dtypes, _without_latent, _without_prefix, _without_window,
)  # fmt: skip


def variants(request: ResolvedRequest) -> list[Variant]:
    """Return the variants that apply to a request, each with one change."""
    return [variant for make in VARIANTS for variant in make(request)]
