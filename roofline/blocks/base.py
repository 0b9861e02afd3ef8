"""What a block stands in, and what every block says about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from roofline.dtypes import FP32, Dtypes, Precision
from roofline.errors import InputError
from roofline.numeric import Expr, minimum, ratio
from roofline.operators.attention import shared_prefix_in_window
from roofline.operators.base import Operator
from roofline.operators.causal_conv import CausalConv
from roofline.operators.collectives import AllGather, AllReduce
from roofline.operators.index_scores import IndexScores
from roofline.operators.rescale import Rescale
from roofline.operators.scan import resumed
from roofline.operators.sparse_counts import entries
from roofline.operators.top_k import TopK
from roofline.specs.base import Spec
from roofline.specs.deployment import Conventions
from roofline.specs.engine import CacheKind
from roofline.specs.workload import Segment, Step, sequences, tokens

Operators = dict[str, Operator]
Role = Literal["mixer", "mlp"]

# How a dimension is divided over a group of devices:
#   exact      must divide (query heads)
#   replicate  must divide, or be divided by, the group, and is then replicated (KV heads)
#   split      is cut into pieces of which the largest counts (inner width of an MLP)
#   experts    as split, over the devices that share an expert
Sharding = Literal["exact", "replicate", "split", "experts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockContext:
    """The place of a block on one device: the width of the stream it reads, the step, formats and conventions.

    `tokens` are those that the device works on; `step` has the sequences as they are, on however many devices.
    """

    hidden_size: Expr
    step: Step
    tokens: Expr
    precision: Precision
    conventions: Conventions
    expert_ranks: int = 1
    """Devices over which whole experts are spread."""
    expert_tokens: Expr = 0
    """Tokens whose experts may be on this device: those of all devices that share the experts."""
    exchanged: bool = False
    """Whether the experts' outputs come back to the device whose tokens they are, before they are summed."""
    combined_tokens: Expr = 0
    """Tokens whose experts' outputs are summed on this device."""
    stream_tokens: Expr = 0
    """Tokens whose residual stream is on this device, where the block's outputs go."""
    context_ranks: int = 1
    """Devices that divide the tokens of each sequence (context parallelism)."""
    context_stride: int = 1
    """How far apart these are."""

    @property
    def written_tokens(self) -> Expr:
        """Tokens that this device puts into its cache."""
        return self.tokens if self.context_ranks == 1 else ratio(tokens(self.step), self.context_ranks)


@dataclass(frozen=True, slots=True)
class Cache:
    """What one layer keeps: `elements` of each token, of the last `window` tokens (None: of all), or of each entry that
    stands for `ratio` tokens (None: each token has its own).

    `chunked`: the window does not slide; it is the chunk of the newest token that is in sight. `index`: those of the
    elements that are an indexer's key, which engines keep in a format of its own.
    """

    elements: Expr
    window: Expr | None = None
    ratio: Expr | None = None
    chunked: bool = False
    index: Expr = 0

    @property
    def per_token(self) -> Expr:
        """Elements that one more token adds below the window; of an entry, the token's share."""
        return self.elements if self.ratio is None else ratio(self.elements, self.ratio)

    def retained(self, length: Expr) -> Expr:
        """Tokens, or entries, that a sequence of `length` tokens keeps.

        >>> [Cache(1).retained(300), Cache(1, window=128).retained(300), Cache(1, ratio=128).retained(300)]
        [300, 128, 2]
        """
        return entries(length, self.ratio) if self.window is None else minimum(length, self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one layer keeps of each sequence, however long it is.

    `conv` channels of a causal convolution, each with the inputs that its next output needs; `recurrent` elements of
    state. The former are in the activations' format, the latter in that of the state.
    """

    conv: Expr = 0
    conv_kernel: Expr = 1
    """Tokens that the convolution sees, the token itself included."""
    recurrent: Expr = 0

    def bytes(self, precision: Precision, *, allocated: bool) -> Expr:
        """Bytes per sequence: as Hugging Face's cache lays them out, with a column for every tap of the convolution; or as
        engines allocate them, where the newest input comes with its token and the column before the oldest is let go.

        >>> from roofline.dtypes import BF16, Precision
        >>> precision = Precision(weight=BF16.weight, activation=BF16.activation, kv=BF16.kv)
        >>> state = State(conv=8, conv_kernel=4, recurrent=100)
        >>> [state.bytes(precision, allocated=allocated) for allocated in (False, True)]  # 8*4*2 + 100*4, 8*3*2 + 100*4
        [464, 448]
        """
        columns = self.conv_kernel - 1 if allocated else self.conv_kernel
        return self.conv * columns * precision.activation.bytes + self.recurrent * precision.state.bytes


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix, a table or a vector. `role` is that of the operator which holds it, and empty for what is never quantised;
    `bias` is the length of the bias beside it (0: none); `copies` are experts that have one each, `heads` those that have a
    part of it each (0: none)."""

    key: str
    shape: tuple[int, ...]
    role: str = ""
    bias: int = 0
    copies: int = 0
    heads: int = 0


class Block(Spec):
    """A section of a layer that becomes operators, of one of several kinds: each narrows `kind` to a literal of its own.

    `sharding` declares how its dimensions may be divided over devices; `roofline.graph` alone divides them, and calls
    `operators` on the section as one device sees it.
    """

    sharding: ClassVar[dict[str, Sharding]] = {}
    divided: ClassVar[bool] = True
    """Whether tensor-parallel devices share the work, so that their outputs are summed by an all-reduce. Where they do not,
    the block works on each token alone."""
    summed: ClassVar[frozenset[str]] = frozenset()
    """Names of products inside the block whose input is divided: each device has a part of every output, to be summed."""
    conventions: ClassVar[frozenset[str]] = frozenset()
    """Conventions of counting that matter to this kind and not to every block."""
    role: ClassVar[Role]
    path: ClassVar[str]
    kind: str

    @property
    def experts(self) -> tuple[int, int] | None:
        """Routed experts, and how many of them a token uses; None where there are none."""
        return None

    @property
    def branches(self) -> tuple[str, ...]:
        """Branches whose outputs tensor-parallel devices sum one by one; none: the block's output is summed as a whole."""
        return ()

    @property
    def has_shared_experts(self) -> bool:
        """Whether experts that every token uses stand beside the routed ones."""
        return False

    def routed_width(self, hidden: Expr) -> Expr:
        """Elements of a token that are sent to an expert, `hidden` being the width of the stream."""
        return hidden

    def describe(self) -> str:
        """The block in a few words: its kind, and the sizes that tell it from others of the kind."""
        return self.kind

    def part_of(self, operator: str) -> str:
        """The part of a model that the parameters of an operator are counted with, such as "attention" or "experts"."""
        return self.path.replace("_", " ")

    def operators(self, site: BlockContext) -> Operators:
        """The operators of one layer on one device.

        Args:
            site: where the block stands: width of the stream, step, formats and conventions.

        Returns:
            Operators in the order in which they run, by name. `norm`, `add` and the names of collectives are the graph's.
        """
        raise NotImplementedError

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """The weights of one layer in a checkpoint, `hidden` elements being the width of the stream.

        Raises:
            InputError: the block does not say.
        """
        msg = f"how checkpoints store the weights of a {self.kind} block is not known"
        raise InputError(msg)


def per_segment(
    site: BlockContext,
    window: Expr | None = None,
    form: Callable[[Segment], object] = lambda segment: None,
    *,
    chunked: bool = False,
) -> list[tuple[str, int, Segment]]:
    """The segments of a step: what to add to an operator's name, how often it reads the common prefix, and the segment.

    The prefix is read for the segment that sees most of it; the others find it there, unless they work on it in another
    `form`. A step of one segment needs no names for it.
    """
    step = site.step
    if len(step) == 1:
        return [("", 1, step[0])]
    prefix = site.conventions.shared_prefix
    readers: dict[object, Segment] = {}

    def sees(segment: Segment) -> Expr:
        return shared_prefix_in_window(prefix, segment.cached, window, chunked=chunked)

    for segment in step:
        first = readers.setdefault(form(segment), segment)
        if prefix and sees(segment) > sees(first):
            readers[form(segment)] = segment
    numbered = not all(isinstance(number, int) for segment in step for number in (segment.count, segment.new, segment.cached))
    return [
        (f"/{position}" if numbered else f"/{segment}", 1 if readers[form(segment)] is segment else 0, segment)
        for position, segment in enumerate(step)
    ]


def gathered(site: BlockContext, segment: Segment, width: Expr, vector: Dtypes, suffix: str) -> Operators:
    """Where devices divide a prompt: what is cached of its tokens, new and old, `width` elements each, from all to each."""
    if site.context_ranks == 1 or segment.decode:
        return {}
    stored = replace(vector, activation=vector.kv)  # NB: as it is cached; an engine may send it wider
    elements, stride = segment.count * (segment.cached + segment.new) * width, site.context_stride
    return {"kv_all_gather" + suffix: AllGather(elements=elements, world=site.context_ranks, stride=stride, dtypes=stored)}


def joined(site: BlockContext, segment: Segment, heads: Expr, width: Expr, vector: Dtypes, suffix: str) -> Operators:
    """Where devices divide the keys of decoded tokens: the logarithms of all sums of exponentials to each device, the partial
    outputs weighted by them, and summed."""
    if site.context_ranks == 1 or not segment.decode:
        return {}
    rows, world, stride = segment.tokens * heads, site.context_ranks, site.context_stride
    sums = replace(vector, activation=FP32)
    return {
        f"core{suffix}/lse_all_gather": AllGather(elements=rows * world, world=world, stride=stride, dtypes=sums),
        f"core{suffix}/rescale": Rescale(rows=rows, width=width, parts=world, dtypes=vector),
        f"core{suffix}/all_reduce": AllReduce(elements=rows * width, world=world, stride=stride, dtypes=vector),
    }


class MixerBlock(Block):
    """Mixes tokens: attention and what stands in its place."""

    role: ClassVar[Role] = "mixer"
    path: ClassVar[str] = "attention"
    cache_replicated: ClassVar[bool] = False
    """Whether what is cached has no heads to divide: every tensor-parallel device holds all of it."""

    def cache(self) -> Cache | None:
        """What a layer keeps of each token; None where it keeps nothing per token."""
        return None

    def state(self) -> State | None:
        """What a layer keeps of each sequence, whatever its length; None where it keeps nothing but its cache."""
        return None

    def caches(self) -> tuple[Cache, ...]:
        """All that a layer keeps of tokens: its one cache, unless it has several that grow differently."""
        one = self.cache()
        return () if one is None else (one,)

    @property
    def kv_shape(self) -> tuple[int, int, int] | None:
        """KV heads, and the widths of keys and values, of a cache that a later layer may read; None where none may."""
        return None

    @property
    def reads_earlier_cache(self) -> bool:
        """Whether its keys and values are those of an earlier layer."""
        return False

    @property
    def selected(self) -> tuple[int, str] | None:
        """How many keys a query attends to at most, of those that an indexer chooses from, and what they are."""
        return None

    def without_window(self) -> MixerBlock | None:
        """The block with every token in sight; None where it has no window, or cannot be without."""
        return None

    def why_undivided(self) -> str | None:
        """Why devices cannot divide the tokens of a sequence (context parallelism); None where they can."""
        if self.state() is not None:
            return f"a layer ({self.kind}) hands a state from token to token"
        if self.reads_earlier_cache:
            return "a layer reads an earlier layer's cache"
        caches = self.caches()
        if any(cache.window is not None for cache in caches):
            return "a layer attends to a window or a chunk of its sequence, in which devices would not have as many pairs"
        if self.selected is not None or any(cache.ratio is not None for cache in caches):
            return "a layer attends to keys that are compressed or chosen"
        return None

    def cache_kinds(self) -> set[CacheKind]:
        """What is kept of sequences, in the words of engines' rules."""
        words: set[CacheKind] = {"state"} if self.state() is not None else set()
        for cache in self.caches():
            if cache.window is not None:
                words.add("chunk" if cache.chunked else "window")
            else:
                words.add("full" if cache.ratio is None else "compressed")
        return words


class FeedForwardBlock(Block):
    """Works on each token alone."""

    role: ClassVar[Role] = "mlp"
    path: ClassVar[str] = "mlp"


def causal_conv(site: BlockContext, channels: Expr, kernel: Expr, *, bias: bool = False) -> CausalConv:
    """The short convolution in front of a recurrence: one kernel for the sequences of all segments."""
    return CausalConv(
        tokens=site.tokens,
        sequences=sequences(site.step),
        resumed=sum(segment.count * resumed(segment.cached) for segment in site.step),
        channels=channels,
        kernel=kernel,
        bias=bias,
        dtypes=site.precision.dtypes("norm"),
    )


def indexed(
    site: BlockContext,
    n_heads: Expr,
    head_dim: Expr,
    *,
    ratio: Expr | None = None,
    head_sum: Literal["matrix", "vector"] = "matrix",
) -> Operators:
    """An indexer's scores of the keys, or of entries that stand for `ratio` tokens, and its choice, for each segment."""
    vector, operators = site.precision.dtypes("norm"), Operators()
    for suffix, reads, segment in per_segment(site):
        scores = IndexScores(
            batch=segment.count,
            new=segment.new,
            cached=segment.cached,
            n_heads=n_heads,
            head_dim=head_dim,
            ratio=ratio,
            shared_prefix=site.conventions.shared_prefix,
            prefix_reads=reads,
            mask=site.conventions.mask,
            head_sum=head_sum,
            dtypes=vector,
        )
        operators["indexer/scores" + suffix] = scores
        operators["indexer/top_k" + suffix] = TopK(scores=scores.scores, dtypes=vector)
    return operators
