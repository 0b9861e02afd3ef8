"""Layers of several kinds in one model: which of them slide, which are sparse, and what each is called."""

from __future__ import annotations

from collections.abc import Callable, Collection

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Section
from roofline.specs.huggingface.parts import gated_mlp

# The words of `layer_types` and `mlp_layer_types`, and what a layer of that kind is called here.
FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
SPARSE, DENSE = "sparse", "dense"
_CALLED = {FULL: "full", SLIDING: "sliding", CHUNKED: "chunked", LINEAR: "linear", SPARSE: "moe", DENSE: "dense"}


def names(*features: list[str]) -> list[str]:
    """What each layer is called: after the features in which layers differ.

    >>> names(["sliding_attention", "full_attention"], ["sparse", "sparse"])
    ['sliding', 'full']
    >>> names(["full_attention", "full_attention"], ["dense", "sparse"])
    ['dense', 'moe']
    >>> names(["full_attention", "full_attention"], ["sparse", "sparse"])
    ['decoder', 'decoder']
    """
    telling = [feature for feature in features if len(set(feature)) > 1]
    return ["_".join(_CALLED[word] for word in words) or "decoder" for words in zip(*telling, strict=True)] or [
        "decoder" for _ in features[0]
    ]


def attention_kinds(config: Config, count: int, of: Collection[str], rule: Callable[[int], str] | None = None) -> list[str]:
    """`layer_types`, or for a config without them the rule of the class for layer i, from 0."""
    given = config.words("layer_types", count, of, default=REQUIRED if rule is None else None)
    return list(given) if given is not None or rule is None else [rule(index) for index in range(count)]


def sparse_by_step(config: Config, count: int) -> list[str]:
    """Qwen's rule: every `decoder_sparse_step`-th layer is a mixture of experts, unless `mlp_only_layers` names it."""
    step = config.whole("decoder_sparse_step")
    dense = config.indices("mlp_only_layers", count, default=[])
    return [DENSE if index in dense or (index + 1) % step else SPARSE for index in range(count)]


def sparse_after(config: Config, count: int, key: str = "first_k_dense_replace") -> list[str]:
    """The first layers are dense, all others mixtures of experts."""
    first = config.whole(key, low=0)
    return [DENSE if index < first else SPARSE for index in range(count)]


def dense_block(config: Config, blocks: list[str], key: str = "intermediate_size") -> Section | None:
    """The gated block of the dense layers. Without any, their width may be there, and does nothing."""
    config.harmless(key)
    return gated_mlp(config.whole(key)) if DENSE in blocks else None
