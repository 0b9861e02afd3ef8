"""What a sequence takes in an engine's memory: tokens in whole blocks, kinds of layers in pages of one size.

The rules are data (`kv_cache` of `engines/*.yaml`); this module knows what the words of a rule mean, and no engine.

A cache is cut into blocks of b tokens. A layer that sees every token holds ceil(s/b) of them. One with a window w lets go
of a block when no coming query sees any of it. With c tokens computed before a step, the next query sees from token
c - w + 1 on, so that while n new ones are computed it holds ceil((c + n)/b) - floor((c - w + 1)/b) blocks: at most
ceil((w + n - 2)/b) + 1, which is reached when the window begins at the last token of a block. A sequence that grows comes
by there, so this is what it is given. A layer that attends in chunks of k lets go of the blocks before the chunk of token
c, and holds at most ceil((k + n - 1)/b), one more where b does not divide k.

Where kinds of layers share one pool of pages (`shared_pages`), every page has the size of the largest kind's block: the
blocks of smaller kinds take more tokens, recurrent state is padded to a page (and the blocks of attention are enlarged
until a state fits into one), blocks that do not divide the largest are padded to it where the engine does that
(`pads_pages`), and layers are put into groups of equal length, one page a layer: of the fewest layers that
a kind has, or of the most where that is less than `widen_below` times the fewest. A kind whose layers do not fill its
last group pays for the whole of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.numeric import Expr, ceil_div, maximum, minimum
from roofline.operators.sparse_counts import entries
from roofline.specs.engine import CacheKind, KvCacheRules


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers with equal caches: `size` is bytes per token in one layer, `count` their number, `window` and `chunk` the tokens
    that
    they see (None: all). With a `ratio`, `size` is that of an entry that stands for that many tokens.
    """

    size: float
    count: int
    window: int | None = None
    chunk: int | None = None
    ratio: int | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers of one kind as they are allocated: `block` tokens (or entries) at a time, which take `block_bytes` in all
    its layers."""

    block: int
    block_bytes: float
    window: int | None = None
    chunk: int | None = None
    ratio: int | None = None
    ahead: int | None = None
    """Tokens beyond the window or the chunk for which memory is reserved from the start; None: blocks are taken as needed."""

    def blocks(self, cached: Expr, new: Expr) -> Expr:
        """Return the largest number of blocks that a sequence holds up to a step.

        Args:
            cached: tokens cached before the step; a number or an array.
            new: tokens of the step; a number or an array.

        >>> Kind(256, 1.0, window=1024, ahead=512).blocks(8191, 1)  # (1024 + 512)/256
        6
        >>> Kind(16, 1.0).blocks(100, 1), Kind(16, 1.0, window=33).blocks(100, 1)  # 101/16; 33 tokens may lie in 3
        (7, 3)
        >>> Kind(16, 1.0, chunk=64).blocks(100, 1)
        4
        """
        every = ceil_div(entries(cached + new, self.ratio), self.block)
        if self.ahead is not None:
            seen = self.window or self.chunk
            return every if seen is None else minimum(every, ceil_div(seen + self.ahead, self.block))
        if self.window is not None:
            return minimum(every, ceil_div(self.window + new - 2, self.block) + 1)
        if self.chunk is not None:
            across = 0 if self.chunk % self.block == 0 else 1
            return minimum(every, ceil_div(self.chunk + new - 1, self.block) + across)
        return every

    def cells(self, length: int, sequences: int = 1) -> int:
        """Return the tokens that a cache reserved from the start has memory for (`ahead`), in whole blocks.

        Args:
            length: tokens of the context that the cache is for.
            sequences: number of sequences that share it; each keeps a window of its own.

        >>> Kind(256, 1.0, window=128, ahead=512).cells(131072), Kind(256, 1.0, window=128, ahead=512).cells(131072, 4)
        (768, 1024)
        """
        seen = self.window or self.chunk
        if seen is not None and self.ahead is not None:
            length = min(length, seen * sequences + self.ahead)
        return int(ceil_div(length, self.block)) * self.block

    def passed(self, cached: Expr) -> Expr:
        """Return the tokens that no later query sees, once `cached` tokens are computed."""
        if self.window is not None:
            return maximum(cached - self.window + 1, 0)
        if self.chunk is not None:
            return cached // self.chunk * self.chunk
        return 0


@dataclass(frozen=True, slots=True)
class Allocation:
    """How an engine lays out what sequences keep on one device."""

    kinds: tuple[Kind, ...]
    state_bytes: float = 0.0
    """Of one sequence."""
    page_bytes: float = 0.0
    """Of the pages of one group of layers, where kinds of layers share a pool: memory is cut into these. 0: they share none."""
    unknown: str = ""
    """Why the engine's rules do not say how this is laid out; empty where they do."""

    def bytes(self, cached: Expr, new: Expr) -> Expr:
        """Return the bytes per device that a sequence holds while a step of `new` tokens runs after `cached` ones."""
        total: Expr = self.state_bytes
        for kind in self.kinds:
            total = total + kind.blocks(cached, new) * kind.block_bytes
        return total

    def shared(self, prefix: Expr, cached: Expr) -> Expr:
        """Return the bytes of those that hold only the first `prefix` tokens: whole blocks that queries after `cached` tokens
        still see.
        """
        total: Expr = 0
        for kind in self.kinds:
            whole, gone = entries(prefix, kind.ratio) // kind.block, kind.passed(cached) // kind.block
            total = total + maximum(whole - gone, 0) * kind.block_bytes
        return total

    @property
    def block(self) -> int | None:
        """Return the tokens per block, where all layers keep all tokens in blocks of one size; None elsewhere."""
        whole = (
            self.kinds and not self.state_bytes and all(kind.window is kind.chunk is kind.ratio is None for kind in self.kinds)
        )
        return self.kinds[0].block if whole and len({kind.block for kind in self.kinds}) == 1 else None


def allocation(
    layers: list[Layers],
    states: list[tuple[float, int]],
    rules: KvCacheRules,
    block: int,
    retained: set[CacheKind],
    step_tokens: int = 0,
) -> Allocation:
    """Return how an engine lays out the caches and recurrent states of layers on one device.

    Where the rules do not know all kinds of caches, layers take whole blocks, each for itself, and the result says so.

    Args:
        layers: those with caches.
        states: pairs of the state bytes of one layer and the number of such layers.
        rules: of the engine.
        block: tokens per block.
        retained: kinds of caches that the model has, in the words of the rules.
        step_tokens: most tokens of a step, for rules that reserve memory from the start.

    >>> from roofline.specs.engine import KvCacheRules
    >>> full, sliding = Layers(4096, 10), Layers(4096, 52, window=1024)
    >>> layout = allocation([full, sliding], [], KvCacheRules(), 16, {"full", "window"})
    >>> [kind.block_bytes / (16 * 4096) for kind in layout.kinds]  # groups of ten: one, and six of which the last has two
    [10.0, 60.0]
    """
    layers = _merged([_seen(kind, layers, rules) for kind in layers])
    state = sum(size * count for size, count in states) * rules.state_blocks
    same_span = len({(kind.window, kind.chunk) for kind in layers}) <= 1 and not (layers and states)
    if strange := retained - set(rules.known):
        return Allocation(
            tuple(_separate(kind, block) for kind in layers), state, unknown=f"it has none for {', '.join(sorted(strange))}"
        )
    if rules.reserves == "context":
        return Allocation(tuple(replace(_separate(kind, block), ahead=step_tokens) for kind in layers), state)
    if same_span or not rules.shared_pages:
        return Allocation(tuple(_separate(kind, block) for kind in layers), state)
    step = rules.latent_block_step if "latent" in retained else rules.state_block_step
    return _in_pages(layers, states, rules, block, step, state)


def _seen(kind: Layers, layers: list[Layers], rules: KvCacheRules) -> Layers:
    """A kind as the engine treats it: without its window or chunk where the engine keeps every token."""
    keeps_all = rules.window == "all" or (rules.chunk == "all" and any(other.chunk for other in layers))
    if kind.window is not None and keeps_all:
        return Layers(kind.size, kind.count)
    if kind.chunk is not None and rules.chunk == "all":
        return Layers(kind.size, kind.count)
    return kind


def _merged(layers: list[Layers]) -> list[Layers]:
    """Equal kinds as one."""
    counts: dict[Layers, int] = {}
    for kind in layers:
        one = replace(kind, count=1)
        counts[one] = counts.get(one, 0) + kind.count
    return [replace(one, count=count) for one, count in counts.items()]


def _separate(kind: Layers, block: int) -> Kind:
    return Kind(block, kind.size * kind.count * block, kind.window, kind.chunk, kind.ratio)


def _in_pages(
    layers: list[Layers], states: list[tuple[float, int]], rules: KvCacheRules, block: int, step: int, state: float
) -> Allocation:
    """Kinds in pages of one size; where sizes do not divide, each for itself, with `state` bytes of a sequence."""
    largest_state = max((size for size, _ in states), default=0)
    if largest_state:
        narrowest = min(kind.size for kind in layers)
        block = max(block, step * int(ceil_div(largest_state, step * narrowest)))
    page = max(kind.size * block for kind in layers)
    odd = [kind for kind in layers if page % (kind.size * block)]
    if odd and not rules.pads_pages:
        why = f"a block of {odd[0].size * block:,.0f} bytes does not divide the largest, of {page:,.0f}"
        return Allocation(tuple(_separate(kind, block) for kind in layers), state, unknown=why)
    counts = [*(kind.count for kind in layers), *(count for _, count in states)]
    group = max(counts) if max(counts) < rules.widen_below * min(counts) else min(counts)
    kinds = tuple(
        Kind(
            block if kind in odd else int(page // kind.size),
            int(ceil_div(kind.count, group)) * group * page,
            kind.window,
            kind.chunk,
            kind.ratio,
        )
        for kind in layers
    )
    groups = sum(int(ceil_div(count, group)) for _, count in states)
    return Allocation(kinds, groups * group * page * rules.state_blocks, page_bytes=group * page)
