"""Parameters of a model, in all and by part, and what each type of layer is made of and keeps.

They are counted from the weights that the operators of the model hold.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field

from roofline.blocks.model import Model
from roofline.dtypes import BF16, Precision
from roofline.graph.build import CANONICAL, Graph, build
from roofline.graph.sharding import caches, states
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.specs.deployment import Deployment

TWO_BYTES = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
# The part that a path belongs to, inside a layer and outside; the first pattern that fits.
_PART_PATTERNS = (
    (r"(.*/)?hc_\w+|hc_\w+/.*", "hyper-connections"),
    (r"(\w+/)?((post|interpolation)_)?norm|final_norm", "norms"),
    (r"(position_)?embedding|project_in|embedding_norm|initial_state", "embedding"),
    (r"per_layer_(embedding|input)(/.*)?", "per-layer inputs"),
    (r"ngram_embedding(/.*)?", "n-gram embeddings"),
    (r"lm_head|project_out", "lm_head"),
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters of the language model alone.

    `active` leaves out the routed experts that a token does not use; `embedding` is the input tables (tokens, learned
    positions, embeddings of the layers and of n-grams); `apart` lists what is not counted in `total`.
    """

    total: int
    active: int
    embedding: int
    apart: dict[str, int] = field(default_factory=dict)


def count_parameters(model: Model) -> Parameters:
    """Return the numbers of parameters of a model, tied weights counted once."""
    graph = build(model, Deployment(), TWO_BYTES, CANONICAL)
    total = sum(operator.parameters * repeat for operator, repeat in graph.values())
    idle = sum(
        operator.parameters // operator.experts * (operator.experts - operator.top_k) * repeat
        for operator, repeat in graph.values()
        if isinstance(operator, GroupedGemm)
    )
    rows, width = model.per_layer_embedding
    embedding = model.vocab_size * model.embedding_width + model.learned_positions * model.hidden_size + rows * width
    embedding += model.ngram_rows * model.ngram_width
    return Parameters(total, total - idle, embedding, dict(model.apart))


def kv_bytes_per_token(model: Model) -> float:
    """Return the bytes that one more token adds to the cache of all layers at 2 bytes per element, below every window."""
    return float(sum(cache.per_token * 2 * count for cache, count in caches(model, Deployment())))


def state_bytes_per_sequence(model: Model) -> float:
    """Return the bytes of recurrent state of one sequence in all layers: fp32, and 2 bytes per element for convolutions."""
    return float(sum(state.bytes(TWO_BYTES, allocated=False) * count for state, count in states(model, Deployment())))


def windows(model: Model) -> list[int]:
    """Return the sliding windows of a model's layers in tokens, rising."""
    return sorted({cache.window for cache, _ in caches(model, Deployment()) if cache.window is not None})


def parameters_by_path(model: Model) -> dict[str, tuple[float, int]]:
    """Return by operator path the parameters of one operator and how often it occurs; without operators that have none."""
    graph: Graph = build(model, Deployment(), TWO_BYTES, CANONICAL)
    return {path: (op.parameters, repeat) for path, (op, repeat) in graph.items() if op.parameters}


@dataclass(frozen=True, slots=True)
class Part:
    """Parameters of one part of a model, in all layers; `active` are those that a token uses."""

    name: str
    parameters: int
    active: int


def parameters_by_part(model: Model) -> list[Part]:
    """Return the parameters of each part of a model, in the order in which a token meets them.

    The part "norms" is those of the residual stream; others count with the block that they are in.
    """
    parts: dict[str, Part] = {}
    for path, (operator, repeat) in build(model, Deployment(), TWO_BYTES, CANONICAL).items():
        if operator.parameters:
            name = _part_of(model, path)
            size = active = operator.parameters * repeat
            if isinstance(operator, GroupedGemm):
                active = size // operator.experts * operator.top_k
            old = parts.get(name, Part(name, 0, 0))
            parts[name] = Part(name, old.parameters + size, old.active + active)
    return list(parts.values())


def _part_of(model: Model, path: str) -> str:
    """The part that an operator's parameters are counted with.

    >>> from roofline.blocks.model_files import load_model
    >>> paths = "moe/moe/experts/up_proj", "dense/attention/o_proj", "dense/attention/norm", "dense/attention/q_a_norm"
    >>> [_part_of(load_model("deepseek-v3")[0], f"layers/{path}") for path in paths]
    ['experts', 'attention', 'norms', 'attention']
    """
    layer_type, rest = inside(model, path)
    for pattern, name in _PART_PATTERNS:
        if re.fullmatch(pattern, rest):
            return name
    first, _, operator = rest.partition("/")
    layer = None if layer_type is None else model.layer_types[layer_type]
    blocks = () if layer is None else (layer.mixer, layer.mlp)
    block = next((block for block in blocks if block is not None and block.path == first), None)
    return first.replace("_", " ") if block is None else block.part_of(operator)


def inside(model: Model, path: str) -> tuple[str | None, str]:
    """Return the layer type that an operator path is in (None: outside the layers), and the rest of the path."""
    top, _, rest = path.partition("/")
    if top != "layers":
        return None, path
    if len(model.layer_types) == 1:
        return next(iter(model.layer_types)), rest
    layer_type, _, rest = rest.partition("/")
    return layer_type, rest


@dataclass(frozen=True, slots=True)
class LayerKind:
    """A type of layer: its letter in the pattern, the number of such layers, what one of them holds and keeps.

    KV bytes are those of one more token, at 2 bytes per element; `windows` are the tokens to which a cache is bounded;
    `ratios` the tokens that share an entry; state bytes those of a sequence, activations at 2 bytes per element.
    """

    letter: str
    name: str
    count: int
    mixer: str
    mlp: str
    parameters: int
    kv_bytes_per_token: float
    windows: tuple[int, ...]
    ratios: tuple[int, ...]
    state_bytes: float


def layer_kinds(model: Model) -> list[LayerKind]:
    """Return the types of a model's layers, in the order of its file."""
    parameters = dict.fromkeys(model.layer_types, 0)
    for path, (operator, _) in build(model, Deployment(), TWO_BYTES, CANONICAL).items():
        if (layer_type := inside(model, path)[0]) is not None:
            parameters[layer_type] += operator.parameters
    sequence, marks = model.layer_sequence, layer_letters(list(model.layer_types))
    kinds = []
    for name, layer in model.layer_types.items():
        mixer = layer.mixer
        caches, state = (mixer.caches(), mixer.state()) if mixer is not None else ((), None)
        kinds.append(
            LayerKind(
                letter=marks[name],
                name=name,
                count=sequence.count(name),
                mixer="" if layer.mixer is None else layer.mixer.describe(),
                mlp="" if layer.mlp is None else layer.mlp.describe(),
                parameters=parameters[name],
                kv_bytes_per_token=float(sum(cache.per_token * 2 for cache in caches)),
                windows=tuple(sorted({cache.window for cache in caches if cache.window is not None})),
                ratios=tuple(sorted({cache.ratio for cache in caches if cache.ratio is not None})),
                state_bytes=float(state.bytes(TWO_BYTES, allocated=False)) if state is not None else 0.0,
            )
        )
    return kinds


def layer_pattern(model: Model) -> str:
    """Return the layers, first to last, by the letters of their types.

    >>> from roofline.blocks.model_files import load_model
    >>> layer_pattern(load_model("deepseek-v3")[0])
    '3 x d, 58 x m'
    >>> layer_pattern(load_model("gemma-3-12b")[0])
    '8 x sssssf'
    """
    marks = layer_letters(list(model.layer_types))
    groups = (("".join(marks[name] for name in group.pattern), group.repeat) for group in model.layers)
    return ", ".join(pattern if repeat == 1 else f"{repeat} x {pattern}" for pattern, repeat in groups)


def layer_letters(names: list[str]) -> dict[str, str]:
    """Return a distinct letter for each name: one from the name where one is free, lower case first.

    >>> layer_letters(["sliding", "full", "sliding_moe", "s"])
    {'sliding': 's', 'full': 'f', 'sliding_moe': 'm', 's': 'S'}
    """
    chosen: dict[str, str] = {}
    everything = string.ascii_letters + string.digits
    for name in names:
        own = [word[0] for word in re.findall(r"[a-z0-9]+", name.lower())]
        own += [char for char in name.lower() if char in everything]
        candidates = [*own, *map(str.upper, own), *everything]
        chosen[name] = next((char for char in candidates if char not in chosen.values()), "?")
    return chosen
