"""With one thing another way: what heads, latents, windows, formats and copies do to the cost of a swap.

All else is as it is, the recomputation too: weights and kernels do not change, only what is kept and how it is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline.blocks.base import MixerBlock
from roofline.blocks.gqa import GroupedQueryAttention
from roofline.predict.memory import MemoryModel
from roofline.predict.what_if import variants as of_memory
from roofline.predict.what_if import with_mixers
from roofline.serving.preemption.break_even import exact_link
from roofline.serving.preemption.copies import copies
from roofline.serving.preemption.preemption import Cheaper, Preemption
from roofline.serving.preemption.swap import Swap

_LARGE_BLOCK = 256


@dataclass(frozen=True, slots=True)
class VariantRow:
    """One thing another way: what, how that is counted; bytes of a device one way, seconds out and in, the break-even link."""

    variant: str
    why: str
    bytes: float
    swap_s: float
    break_even_link: float | None
    cheaper: Cheaper


def variants(costs: Preemption, tokens: int, recompute: float, *, pinned: bool, host_link: float | None) -> list[VariantRow]:
    """The swap as it is, and with one thing another way, against a recomputation of `recompute` seconds."""
    return [
        _row(name, why, swap, costs.prefix, tokens, recompute)
        for name, why, swap in (("as it is", "", costs.swap), *_changed(costs, pinned=pinned, host_link=host_link))
    ]


def _changed(costs: Preemption, *, pinned: bool, host_link: float | None) -> Iterator[tuple[str, str, Swap]]:
    request, swap = costs.request, costs.swap
    for variant in of_memory(request):
        if request.deployment.conventions.shared_prefix and variant.name == "no shared prefix":
            continue  # then the prefix would be evicted too: another question
        yield variant.name, variant.why, costs.with_memory(variant.memory)
    if (full := _every_head(costs)) is not None:
        yield "a KV head a query head", "multi-head attention (MHA) in the place of grouped queries", costs.with_memory(full)
    if request.memory.block_size != _LARGE_BLOCK:
        yield f"blocks of {_LARGE_BLOCK}", "tokens in a block", costs.with_block(_LARGE_BLOCK)
    name, why = ("block by block", "a call a block, layer and tensor") if swap.coalesced else ("coalesced", "one call each way")
    yield name, why, replace(swap, coalesced=not swap.coalesced)
    other = copies(request, pinned=not pinned, host_link=host_link, share=swap.share)
    if pinned:
        yield "pageable", "host memory that is not page-locked", replace(swap, copies=other)
    else:
        yield "pinned", "page-locked host memory", replace(swap, copies=other)


def _every_head(costs: Preemption) -> MemoryModel | None:
    """A key and a value for each query head; None where that is so, or attention is of another kind."""
    changed: dict[str, MixerBlock] = {}
    for name, layer in costs.request.model.layer_types.items():
        mixer = layer.mixer
        if isinstance(mixer, GroupedQueryAttention) and mixer.num_key_value_heads < mixer.num_attention_heads:
            changed[name] = mixer.model_copy(update={"num_key_value_heads": mixer.num_attention_heads})
    return with_mixers(costs.request, changed) if changed else None


def _row(name: str, why: str, swap: Swap, prefix: int, tokens: int, recompute: float) -> VariantRow:
    took = float(swap.both(tokens, prefix))
    return VariantRow(
        variant=name,
        why=why,
        bytes=float(swap.bytes(tokens, prefix)),
        swap_s=took,
        break_even_link=exact_link(swap, recompute, tokens, prefix),
        cheaper="swap" if took <= recompute else "recompute",
    )
