"""What a device holds of one sequence, as copies see it: blocks, layer by layer, keys and values each in a tensor of its own.

A block of b tokens is a piece of b n_kv d_head elements in the tensor of keys of a layer, and one more in that of its values:
2 L copies a block. Latents (MLA) have one tensor a layer, an indexer one more for its keys. Layers with a window hold the
blocks that are still in sight, whatever the sequence's length. Recurrent state is two pieces a layer.

Source: the layout of vLLM's `swap_blocks` (Kwon et al. 2023, arXiv:2309.06180, section 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.graph.sharding import Stage, caches, states
from roofline.numeric import Expr, maximum
from roofline.operators.entries import entries
from roofline.predict.allocation import Kind
from roofline.predict.memory import StageMemory

_OF_A_STATE = 2
"""Tensors of a recurrent layer: the inputs of its convolution, and the state."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Layers that are alike: how their tokens fall into blocks, bytes of a block in one of them, in so many tensors."""

    kind: Kind
    layers: int
    block_bytes: float
    tensors: int

    def blocks(self, tokens: Expr, prefix: int) -> Expr:
        """Blocks of the `tokens` tokens that come after `prefix` ones, of which whole blocks are elsewhere."""
        cached = prefix + tokens - 1
        every = self.kind.blocks(cached, 1)
        if prefix == 0:
            return every
        whole, gone = entries(prefix, self.kind.ratio) // self.kind.block, self.kind.passed(cached) // self.kind.block
        return every - maximum(whole - gone, 0)

    @property
    def chunk(self) -> float:
        """Bytes of one copy."""
        return self.block_bytes / self.tensors


@dataclass(frozen=True, slots=True)
class Kept:
    """What one device of a pipeline stage holds of a sequence. Counts may be arrays."""

    pieces: tuple[Piece, ...]
    state_bytes: float = 0.0
    state_calls: int = 0

    def bytes(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Bytes of whole blocks, and the state."""
        total: Expr = self.state_bytes
        for piece in self.pieces:
            total = total + piece.blocks(tokens, prefix) * (piece.layers * piece.block_bytes)
        return total

    def calls(self, tokens: Expr, prefix: int = 0) -> Expr:
        """Copies, one a block, layer and tensor."""
        total: Expr = self.state_calls
        for piece in self.pieces:
            total = total + piece.blocks(tokens, prefix) * (piece.layers * piece.tensors)
        return total

    @property
    def whole(self) -> bool:
        """Whether every layer keeps every token as it is, so that any part of the sequence can be copied by itself."""
        plain = all(piece.kind.window is piece.kind.chunk is piece.kind.ratio is None for piece in self.pieces)
        return plain and not self.state_bytes

    @property
    def chunk(self) -> float:
        """Bytes of the smallest copy of cache; 0: there is none."""
        return min((piece.chunk for piece in self.pieces), default=0.0)


def kept(memory: StageMemory) -> Kept:
    """What a device of a stage holds, as its engine lays it out.

    >>> from roofline.predict.request import prepare
    >>> found = kept(prepare("llama-3.1-8b", "a100-sxm-80gb").memory.fullest)
    >>> found.calls(2048), found.bytes(2048) / 2**20, found.chunk  # 128 blocks x 32 layers x 2; 16 tokens x 8 heads x 128 x 2 B
    (8192, 256.0, 32768.0)
    """
    kinds, stage = list(memory.layout.kinds), memory.stage
    found: list[Piece] = []
    taken: dict[tuple[float, tuple[object, ...]], Kind] = {}
    for name, count in stage.layers:
        alone: Stage = replace(stage, layers=((name, count),))
        mixer = memory.model.layer_types[name].mixer
        words = mixer.keeps() if mixer is not None and hasattr(mixer, "keeps") else set()
        for cache, layers in caches(memory.model, memory.deployment, alone):
            size = float(cache.elements * memory.precision.kv.bytes)
            reach = _reach(memory, cache.window, chunked=cache.chunked)
            key = (size, (*reach, cache.ratio))
            if key not in taken:  # kinds come in the order in which layers of another size or reach are first met
                taken[key] = next(
                    (kind for kind in kinds if (kind.window, kind.chunk, kind.ratio) == (*reach, cache.ratio)), kinds[0]
                )
                kinds = [kind for kind in kinds if kind is not taken[key]] or kinds
            tensors = (1 if words & {"latent", "compressed"} else 2) + (1 if cache.index else 0)
            found.append(Piece(taken[key], layers, taken[key].block * size, tensors))
    held = states(memory.model, memory.deployment, stage)
    calls = _OF_A_STATE * sum(count for _, count in held)
    return Kept(tuple(found), memory.layout.state_bytes, calls)


def _reach(memory: StageMemory, window: Expr | None, *, chunked: bool) -> tuple[Expr | None, Expr | None]:
    """Window and chunk of a cache as its engine keeps them: none where it keeps all."""
    known = {(kind.window, kind.chunk) for kind in memory.layout.kinds}
    wanted = (None, window) if chunked else (window, None)
    return wanted if wanted in known else (None, None)
