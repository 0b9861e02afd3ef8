"""Which layers are of which kind (full, sliding, sparse, dense), what each is called, and how wide sliding windows are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from roofline.specs.huggingface.config import REQUIRED, Config
from roofline.specs.huggingface.draft import Layer, Section
from roofline.specs.huggingface.sections import gated_mlp

# The words of `layer_types` and `mlp_layer_types`, and what a layer of that kind is called here.
FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
SPARSE, DENSE = "sparse", "dense"
_CALLED = {FULL: "full", SLIDING: "sliding", CHUNKED: "chunked", LINEAR: "linear", SPARSE: "moe", DENSE: "dense"}


def layer_names(*features: list[str]) -> list[str]:
    """The name of each layer's type, made of the features in which layers differ; "decoder" if all are alike.

    Args:
        features: words of `layer_types` or `mlp_layer_types`, one per layer; several lists of the same length.

    >>> layer_names(["sliding_attention", "full_attention"], ["sparse", "sparse"])
    ['sliding', 'full']
    >>> layer_names(["full_attention", "full_attention"], ["dense", "sparse"])
    ['dense', 'moe']
    >>> layer_names(["full_attention", "full_attention"], ["sparse", "sparse"])
    ['decoder', 'decoder']
    """
    telling = [feature for feature in features if len(set(feature)) > 1]
    return ["_".join(_CALLED[word] for word in words) or "decoder" for words in zip(*telling, strict=True)] or [
        "decoder" for _ in features[0]
    ]


def attention_kinds(config: Config, count: int, of: Collection[str], rule: Callable[[int], str] | None = None) -> list[str]:
    """The kind of attention of each layer: `layer_types`, or for a config without them the rule of the class.

    Args:
        config: of the model.
        count: number of layers.
        of: kinds that are allowed.
        rule: the kind of a layer, by its index from 0; None: `layer_types` is required.

    Raises:
        SpecError: `layer_types` is missing, of another length, or has an unknown entry.
    """
    given = config.words("layer_types", count, of, default=REQUIRED if rule is None else None)
    return list(given) if given is not None or rule is None else [rule(index) for index in range(count)]


def sparse_by_step(config: Config, count: int) -> list[str]:
    """SPARSE or DENSE for each layer by Qwen's rule: each `decoder_sparse_step`-th is sparse, unless in `mlp_only_layers`."""
    step = config.whole("decoder_sparse_step")
    dense = config.indices("mlp_only_layers", count, default=[])
    return [DENSE if index in dense or (index + 1) % step else SPARSE for index in range(count)]


def sparse_after(config: Config, count: int, key: str = "first_k_dense_replace") -> list[str]:
    """SPARSE or DENSE for each layer: the first are dense, as many as `key` says, and all others are mixtures of experts."""
    first = config.whole(key, low=0)
    return [DENSE if index < first else SPARSE for index in range(count)]


def listed_blocks(config: Config, count: int, rule: Callable[[], list[str]]) -> list[str]:
    """SPARSE or DENSE for each layer: `mlp_layer_types`, or for a config without them the rule of the class."""
    listed = config.words("mlp_layer_types", count, (DENSE, SPARSE), default=None)
    return rule() if listed is None else list(listed)


def by_kind_and_block(
    kinds: list[str], blocks: list[str], mixers: dict[str, Section], feeds: dict[str, Section | None], **rest: Any
) -> list[Layer]:
    """Layers that differ in the kind of their mixer and in what works on each token.

    Args:
        kinds: words of `layer_types`, one per layer.
        blocks: SPARSE or DENSE, one per layer.
        mixers: sections by kind.
        feeds: sections by SPARSE and DENSE.
        rest: further keys of a layer type, such as `norms`.
    """
    return [
        Layer(name, mixers[kind], feeds[block], dict(rest))
        for name, kind, block in zip(layer_names(kinds, blocks), kinds, blocks, strict=True)
    ]


def dense_block(config: Config, blocks: list[str], key: str = "intermediate_size") -> Section | None:
    """The gated MLP of the dense layers; None if no layer is dense, where its width may be given and has no effect."""
    config.harmless(key)
    return gated_mlp(config.whole(key)) if DENSE in blocks else None


def window_width(config: Config, longest: int, *, default: Any = REQUIRED) -> int | None:
    """The sliding window in tokens; None where the key is null, or the window covers the `longest` context (in tokens).

    Raises:
        SpecError: the key is missing without a default, or no integer.
    """
    name = "sliding_window"
    if name in config.data and config.data[name] is None:
        config.harmless(name)
        return None
    width = config.whole(name, default=default)
    if width is None or width < longest:
        return None if width is None else int(width)
    config.note(name, width, f"a window over the longest context ({longest}) cuts nothing: read as full attention")
    return None


def last_of_each(config: Config, layers: int, every: int, why: str) -> list[str]:
    """SLIDING or FULL for each layer: `layer_types`, or without it the last of each `every` layers is full.

    Args:
        config: of the model.
        layers: number of layers.
        every: layers of a period.
        why: whose rule that is, put on record.
    """
    if not config.has("layer_types"):
        config.note("layer_types", f"full every {every} layers", why)
    return attention_kinds(config, layers, (FULL, SLIDING), lambda index: SLIDING if (index + 1) % every else FULL)


def window_key(kind: str, width: int | None) -> Section:
    """The `sliding_window` key of a mixer in a layer of a kind; empty for layers without a window."""
    return {"sliding_window": width} if kind == SLIDING and width is not None else {}


def windows(config: Config, kinds: list[str], *keys: str) -> list[int | None]:
    """The sliding window of each layer in tokens, None where it does not slide.

    Args:
        config: of the model.
        kinds: SLIDING or another kind, one per layer.
        keys: names of the window's key (default: `sliding_window`); it is required if any layer slides.
    """
    keys = keys or ("sliding_window",)
    if SLIDING not in kinds:
        config.harmless(*keys)
        return [None] * len(kinds)
    window = config.whole(*keys)
    return [window if kind == SLIDING else None for kind in kinds]


def switched_windows(config: Config, count: int, rule: Callable[[int], str]) -> list[int | None]:
    """The sliding window of each layer in tokens, None without one, where `use_sliding_window` switches windows on.

    Switched off, a `sliding_window` in the config has no effect.

    Args:
        config: of the model.
        count: number of layers.
        rule: the kind of a layer, by its index from 0, where there are no `layer_types`.
    """
    why = "the default of the class: `sliding_window` does nothing" if config.has("sliding_window") else ""
    if not config.flag("use_sliding_window", default=False, why=why):
        config.harmless("sliding_window", "max_window_layers")
        attention_kinds(config, count, (FULL,), lambda index: FULL)
        return [None] * count
    if not config.has("sliding_window"):
        config.refuse("use_sliding_window", "is true, but there is no sliding_window")
    return windows(config, attention_kinds(config, count, (FULL, SLIDING), rule))


def sliding_from_layer(config: Config) -> Callable[[int], str]:
    """The rule of Qwen2 and Qwen3, for `switched_windows`: layers from `max_window_layers` on slide."""
    first: list[int] = []

    def rule(index: int) -> str:
        if not first:
            first.append(config.whole("max_window_layers", low=0))
        return SLIDING if index >= first[0] else FULL

    return rule


def kinds_of_windows(widths: list[int | None]) -> list[str]:
    """FULL or SLIDING for each layer, from its window (None: full)."""
    return [FULL if window is None else SLIDING for window in widths]


_LETTERS = {"F": "full", "S": "shared"}


def indexers(config: Config, count: int, attends: Callable[[int], bool] = lambda index: True) -> list[str]:
    """Whether a layer has an indexer ("full") or shares that of a layer before it: as listed, as a line of letters, or one
    every few layers.

    Args:
        config: of the model.
        count: number of layers.
        attends: whether a layer, by its index from 0, attends to keys at all.

    Raises:
        SpecError: a key is wrong, or the first layer that attends has no indexer.
    """
    listed = config.words("indexer_types", count, ("full", "shared"), default=None)
    letters = config.raw("index_topk_pattern")
    every = config.whole("index_topk_freq", default=1)
    first = config.whole("index_skip_topk_offset", default=2, low=0)
    if listed is None and letters is not None:
        if not isinstance(letters, str) or len(letters) != count or set(letters) - set(_LETTERS):
            config.refuse(
                "index_topk_pattern", f"must be a line of {count} letters, F (full) or S (shared), one for each layer"
            )
        listed = [_LETTERS[letter] for letter in letters]
    if listed is None:
        # Those up to `first` have one, and from there on every `every`-th.
        listed = ["shared" if max(index - first + 1, 0) % every else "full" for index in range(count)]
    if next((each for index, each in enumerate(listed) if attends(index)), "full") == "shared":
        key = next((name for name in ("indexer_types", "index_topk_pattern") if config.has(name)), "index_topk_freq")
        config.refuse(key, "the first layer has no earlier one")
    return list(listed)
