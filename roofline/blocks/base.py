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
from roofline.operators.collectives import AllGather, AllReduce, ExpertRouting, ReduceScatter
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
    """What a block needs to know to give its operators on one device: residual stream, step, formats and conventions.

    `hidden_size` is the width of the residual stream in elements. `tokens` are those that the device works on; `step` has the
    sequences as they are, on however many devices.
    """

    hidden_size: Expr
    step: Step
    tokens: Expr
    precision: Precision
    conventions: Conventions
    expert_ranks: int = 1
    """Devices over which whole experts are spread."""
    redundant_experts: int = 0
    """Slots of these devices that have copies of experts."""
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
    decode_ranks: int = 1
    """Tensor-parallel devices, side by side, that have the same KV heads and divide the cached tokens of each sequence."""

    @property
    def key_ranks(self) -> int:
        """Devices that divide the keys of decoded tokens."""
        return self.context_ranks * self.decode_ranks

    @property
    def written_tokens(self) -> Expr:
        """Tokens whose keys and values this device writes into its KV cache: its share where devices divide the tokens."""
        return self.tokens if self.key_ranks == 1 else ratio(tokens(self.step), self.key_ranks)


@dataclass(frozen=True, slots=True)
class Cache:
    """The KV cache of one layer and sequence: `elements` of each token that is kept.

    `window`: only the last `window` tokens are kept (None: all). `ratio`: one entry for each `ratio` tokens (None: one per
    token). `chunked`: the window does not slide; it is the chunk of the newest token. `index`: those of the elements that are
    an indexer's key, which engines store in a format of its own. `elements` are numbers, not bytes: the format is that of the
    KV cache.
    """

    elements: Expr
    window: Expr | None = None
    ratio: Expr | None = None
    chunked: bool = False
    index: Expr = 0

    @property
    def per_token(self) -> Expr:
        """Elements that one more token adds, as long as the window is not full; of a compressed entry, the token's share."""
        return self.elements if self.ratio is None else ratio(self.elements, self.ratio)

    def retained(self, length: Expr) -> Expr:
        """The number of tokens, or of entries, that the cache holds of a sequence of `length` tokens.

        >>> [Cache(1).retained(300), Cache(1, window=128).retained(300), Cache(1, ratio=128).retained(300)]
        [300, 128, 2]
        """
        return entries(length, self.ratio) if self.window is None else minimum(length, self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The recurrent state of one layer and sequence, of the same size at any length.

    `conv` channels of a causal convolution, each with the inputs that its next output needs, in the format of activations;
    `recurrent` elements of state, in the format of state.
    """

    conv: Expr = 0
    conv_kernel: Expr = 1
    """Tokens that the convolution sees, the token itself included."""
    recurrent: Expr = 0

    def bytes(self, precision: Precision, *, allocated: bool) -> Expr:
        """Bytes of recurrent state per sequence.

        Args:
            precision: formats of activations (inputs of the convolution) and of state.
            allocated: as engines allocate it, with conv_kernel - 1 inputs per channel; else as Hugging Face's cache does, with
                one for every tap of the convolution.

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
    """A weight of a model: a matrix with its outputs first, a table or a vector.

    `shape` is in elements. `role` is that of the operator that holds it, empty if it is never quantised; `bias` is the length
    of its bias (0: none); `copies` is the number of experts that have one each, `heads` the number of heads that have a part
    of it each (0: none).
    """

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
        """The numbers of routed experts and of those that a token uses; None without experts."""
        return None

    @property
    def routing(self) -> ExpertRouting | None:
        """Where the experts of a token may be; None without experts."""
        return None

    @property
    def shareable(self) -> bool:
        """Whether another layer may run with the weights of this block."""
        return False

    @property
    def unshared(self) -> dict[str, str]:
        """What a layer has of its own though it shares its other weights: keys of weights by names of operators."""
        return {}

    @property
    def branches(self) -> tuple[str, ...]:
        """Names of branches whose outputs tensor-parallel devices sum one by one; empty: the block's output is summed once."""
        return ()

    @property
    def has_shared_experts(self) -> bool:
        """Whether there are experts that every token uses, in addition to the routed ones."""
        return False

    def routed_width(self, hidden: Expr) -> Expr:
        """Elements per token that are sent to a routed expert.

        Args:
            hidden: width of the residual stream, in elements.
        """
        return hidden

    def describe(self) -> str:
        """The block in a few words: its kind, and the sizes that tell it from others of the kind."""
        return self.kind.replace("_", " ")

    def part_of(self, operator: str) -> str:
        """The part of a model whose parameter count an operator belongs to, such as "attention" or "experts".

        Args:
            operator: the operator's name within the block, such as "experts/up_proj".
        """
        return self.path.replace("_", " ")

    def operators(self, site: BlockContext) -> Operators:
        """The operators of one layer on one device.

        Args:
            site: width of the residual stream, step, formats and conventions.

        Returns:
            Operators in the order in which they run, by name. `norm`, `add` and the names of collectives are the graph's.
        """
        raise NotImplementedError

    def checkpoint_weights(self, hidden: int) -> Iterator[Weight]:
        """The weights of one layer in a checkpoint, with names, shapes and roles.

        Args:
            hidden: width of the residual stream, in elements.

        Raises:
            InputError: the class does not list its weights.
        """
        msg = f"how checkpoints store the weights of a {self.kind} block is not known"
        raise InputError(msg)


def per_segment(
    site: BlockContext,
    window: Expr | None = None,
    form: Callable[[Segment], object] = lambda segment: None,
    *,
    chunked: bool = False,
) -> list[tuple[str, Expr, Segment]]:
    """The segments of a step, each with a suffix for operator names and how often it reads the shared prefix: 0 or 1.

    The prefix is read for the segment that sees most of it; the others find it there, unless they work on it in another
    `form`. The suffix is empty for a step of one segment.

    Args:
        site: the step and its shared prefix.
        window: tokens that a query sees, itself included; None: all.
        form: the form in which a segment reads the prefix; each form reads it once.
        chunked: the window does not slide, see `keys_read`.
    """
    step = site.step
    if len(step) == 1:
        return [("", 1, step[0])]
    prefix = site.conventions.shared_prefix
    seen = [shared_prefix_in_window(prefix, segment.cached, window, chunked=chunked) for segment in step]
    forms = [form(segment) for segment in step]
    reads: list[Expr] = []
    for place in range(len(step)):
        # of those that see equally much the first; lengths may be arrays, with another reader at each point
        first: Expr = 1
        for other in range(len(step)):
            if other != place and forms[other] == forms[place]:
                first = first * (seen[place] > seen[other] if other < place else seen[place] >= seen[other])
        reads.append(first)
    numbered = not all(isinstance(number, int) for segment in step for number in (segment.count, segment.new, segment.cached))
    return [(f"/{position}" if numbered else f"/{segment}", reads[position], segment) for position, segment in enumerate(step)]


def kv_all_gather(site: BlockContext, segment: Segment, width: Expr, vector: Dtypes, suffix: str) -> Operators:
    """The all-gather of a prompt's keys and values where devices divide its tokens; empty otherwise and for decode segments.

    Under context parallelism new tokens are gathered too. Tensor-parallel devices that divide the cache have the new ones.

    Args:
        site: devices that divide the tokens, and the distance between them.
        segment: sequences whose keys and values, new and cached, are gathered.
        width: elements of the KV cache per token.
        vector: formats; elements are sent as they are cached.
        suffix: of the operator's name.
    """
    alone = site.context_ranks == 1  # then what is new is on every device
    if site.key_ranks == 1 or segment.decode or (alone and isinstance(segment.cached, int) and segment.cached == 0):
        return {}
    stored = replace(vector, activation=vector.kv)  # NB: as it is cached; an engine may send it wider
    elements, stride = segment.count * (segment.cached + (0 if alone else segment.new)) * width, site.context_stride
    stride = 1 if alone else stride
    return {"kv_all_gather" + suffix: AllGather(elements=elements, world=site.key_ranks, stride=stride, dtypes=stored)}


def query_all_gather(site: BlockContext, segment: Segment, heads: Expr, width: Expr, vector: Dtypes, suffix: str) -> Operators:
    """The all-gather of decoded queries to the tensor-parallel devices that divide the cache of their KV heads.

    Args:
        site: these devices.
        segment: the decoded sequences.
        heads: query heads on this device.
        width: elements of one head's query.
        vector: formats of the queries.
        suffix: of the operator's name.
    """
    if site.decode_ranks == 1 or not segment.decode:
        return {}
    elements = segment.tokens * heads * site.decode_ranks * width
    return {f"core{suffix}/query_all_gather": AllGather(elements=elements, world=site.decode_ranks, dtypes=vector)}


def merge_partial_outputs(
    site: BlockContext, segment: Segment, heads: Expr, width: Expr, vector: Dtypes, suffix: str
) -> Operators:
    """The operators that merge partial attention outputs, where devices divide the keys of decoded tokens.

    An all-gather of the log-sum-exp of each query and head (fp32), the rescaling of the partial outputs, and their sum: an
    all-reduce under context parallelism, a reduce-scatter of the heads of all where tensor-parallel devices divide the cache.
    Empty on one device and for prompts.

    Args:
        site: these devices and the distance between them.
        segment: the decoded sequences.
        heads: query heads on this device.
        width: elements of one head's output.
        vector: formats of the outputs.
        suffix: of the operators' names.
    """
    if site.key_ranks == 1 or not segment.decode:
        return {}
    rows, world = segment.tokens * heads * site.decode_ranks, site.key_ranks
    stride = site.context_stride if site.decode_ranks == 1 else 1
    sums = replace(vector, activation=FP32)
    merged: Operators = {
        f"core{suffix}/lse_all_gather": AllGather(elements=rows * world, world=world, stride=stride, dtypes=sums),
        f"core{suffix}/rescale": Rescale(rows=rows, width=width, parts=world, dtypes=vector),
    }
    if site.decode_ranks == 1:
        merged[f"core{suffix}/all_reduce"] = AllReduce(elements=rows * width, world=world, stride=stride, dtypes=vector)
    else:
        merged[f"core{suffix}/reduce_scatter"] = ReduceScatter(elements=rows * width, world=world, dtypes=vector)
    return merged


class MixerBlock(Block):
    """Mixes tokens: attention, or a recurrence instead of it."""

    role: ClassVar[Role] = "mixer"
    path: ClassVar[str] = "attention"
    cache_replicated: ClassVar[bool] = False
    """Whether what is cached has no heads to divide: every tensor-parallel device holds all of it."""

    def cache(self) -> Cache | None:
        """The KV cache of one layer; None where nothing is kept per token."""
        return None

    def state(self) -> State | None:
        """The recurrent state of one layer; None without one."""
        return None

    def caches(self) -> tuple[Cache, ...]:
        """All caches of one layer: that of `cache`, unless there are several that grow differently."""
        one = self.cache()
        return () if one is None else (one,)

    @property
    def kv_shape(self) -> tuple[int, int, int] | None:
        """KV heads, elements of a key and elements of a value, of a cache that a later layer may read; None if none may."""
        return None

    @property
    def reads_earlier_cache(self) -> bool:
        """Whether the layer has no KV cache of its own, but reads that of an earlier layer."""
        return False

    @property
    def selected(self) -> tuple[int, str] | None:
        """How many keys an indexer chooses for a query, at most, and what they are ("keys" or "entries"); None: all."""
        return None

    def without_window(self) -> MixerBlock | None:
        """The block with full attention; None where it has no window, or cannot do without."""
        return None

    def why_undivided(self) -> str | None:
        """Why context parallelism cannot divide the tokens of a sequence, for an error message; None where it can."""
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
        """The kinds of cache that a layer keeps ("full", "window", "state", ...), as the rules of engines name them."""
        words: set[CacheKind] = {"state"} if self.state() is not None else set()
        for cache in self.caches():
            if cache.window is not None:
                words.add("chunk" if cache.chunked else "window")
            else:
                words.add("full" if cache.ratio is None else "compressed")
        return words


class FeedForwardBlock(Block):
    """Works on each token alone: a feed-forward block, dense or of experts."""

    role: ClassVar[Role] = "mlp"
    path: ClassVar[str] = "mlp"


def causal_conv(site: BlockContext, channels: Expr, kernel: Expr, *, bias: bool = False, activation: bool = True) -> CausalConv:
    """The short convolution in front of a recurrence: one kernel for the sequences of all segments.

    Args:
        site: tokens, step and formats.
        channels: of the convolution on this device.
        kernel: tokens that an output sees, itself included.
        bias: whether each channel has a bias.
        activation: whether a SiLU follows.
    """
    return CausalConv(
        tokens=site.tokens,
        sequences=sequences(site.step),
        resumed=sum(segment.count * resumed(segment.cached) for segment in site.step),
        channels=channels,
        kernel=kernel,
        bias=bias,
        activation=activation,
        dtypes=site.precision.dtypes("norm"),
    )


def indexer_operators(
    site: BlockContext,
    n_heads: Expr,
    head_dim: Expr,
    *,
    ratio: Expr | None = None,
    head_sum: Literal["matrix", "vector"] = "matrix",
) -> Operators:
    """The scores and the top-k selection of an indexer, two operators for each segment.

    Args:
        site: step, formats and conventions.
        n_heads: heads of the indexer.
        head_dim: elements of one of its queries, and of a key.
        ratio: tokens that a key stands for; None: one.
        head_sum: whether the weighted sum over heads is a matrix product or vector work.
    """
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
