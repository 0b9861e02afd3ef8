"""The routed experts of one layer on the busiest expert-parallel rank: sort, up, activation, down, weighted sum.

Routing comes first: how many experts meet a row here, and how many rows each. Balanced routing deals rows round; uniform
routing (serving) meets experts independently; a power law draws the counts of the experts from the density x^-a between 1
and 0.8 tokens (0.01 and 2 while rows are fewer than experts), scales them to the sum of all rows, and keeps the rank with
most rows: AIConfigurator's benchmark. The power law is integrated over seven classes of popularity, exactly within each, and
the busiest rank leans to the popular classes by as much as its mean exceeds the mean of all.

Each of the two grouped products is then tiles of (rows of one expert, columns), no tile shared by experts, on all SMs; the
best tile of a menu, mixed with the default tile of engines that found no tuned one. Tiles overlap with the weights of the
experts met, read once from memory. Rows of experts elsewhere cost something too where the kernel runs over them to write
zeros; where an all-to-all brought the tokens there are none. Activations move between the kernels through memory. All times in
seconds.

Sources: default tiles: `get_default_config` of vLLM's `fused_moe.py` and SGLang's `fused_moe_triton_config.py`; the power
law: `sample_power_law` and `power_law_logits_v3` of AIConfigurator's collector. The experts that it expects agree,
mostly to a tenth, with those that memory-bound times on H200 imply (the A100's older rows with few tokens on several ranks
do not follow it).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import cast

from roofline.numeric import Expr, ceil_div, maximum, minimum
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.predict.efficiency.form import Chip, Conditions, KernelForm, Operators, Parameter, Values

# Rows and columns of the tiles that grouped products are built with (Triton configurations, CUTLASS).
MENU = ((16, 64), (32, 64), (32, 128), (64, 64), (64, 128), (128, 128), (256, 128))
# Without a tuned configuration vLLM 0.14 and SGLang take the first up to as many tokens as experts held, then the second.
DEFAULTS = ((16, 32), (64, 64))
# An SM reads 64 bytes a clock from L2: 90 to 117 GB/s at 1.41 GHz (A100) to 1.83 GHz (H100).
FROM_L2 = 1e11
# Triton copies asynchronously, 16 bytes a thread, only where the inner width is known to be a multiple of 16 elements.
# Otherwise one stage is in flight, some 8 KiB (64 x 64 elements) in a round trip to memory of 0.8 us: an order of
# magnitude; fitted per series it is 6 to 15 GB/s.
ALIGNED = 16
UNALIGNED = 1e10
BYTES = 2
"""Of an element in the measured kernels."""
# Kernels that widen weights of 4 or 8 bits on the way multiply at this share of the rate of others. It gives both the times per
# output token of gpt-oss-120b (mxfp4) on Hopper, where experts read 2.7 TB/s on H200 as on H100, and the pace of its prompts.
WIDENING = 0.5
# Shares of experts, from the least popular, at which classes of the power law end: finer where counts are large.
EDGES = (0.0, 0.2, 0.4, 0.6, 0.75, 0.87, 0.95, 1.0)


class _Rows:
    """Experts of one device that meet a row, by classes of equally many rows: (experts, rows each) for each class."""

    def __init__(self, classes: list[tuple[Expr, Expr]], *, even: bool) -> None:
        self.classes = classes
        self.even = even
        """Whether all experts of a class have exactly its rows, not that many on average."""
        self.total = sum(experts * rows for experts, rows in classes)
        self.experts = maximum(sum(experts for experts, _ in classes), 1)

    def and_one(self, rows: Expr) -> _Rows:
        """The same with a number of rows of one expert added."""
        some = minimum(rows, 1)
        return _Rows([*self.classes, (some, rows / maximum(some, 1e-9))], even=self.even)

    def tiles(self, height: int) -> Expr:
        """Tiles of a number of rows each. Where rows spread about a mean, the last tile of an expert is half full."""
        if self.even:
            return sum(experts * ceil_div(rows, height) for experts, rows in self.classes)
        return sum(experts * maximum(rows / height + 0.5, 1) for experts, rows in self.classes)


def _routed(product: GroupedGemm, held: Expr, conditions: Conditions, excess: Expr = 1) -> _Rows:
    """Rows of the busiest of the devices that hold `held` of the experts each.

    Random routing is that of predictions: the mean of all devices, times the `excess` that the user gave, with experts of one
    popularity or by Zipf's law. The power law
    is that of measurements, and finds the busiest device's excess itself: nothing has both.
    """
    tokens, experts, routing = product.tokens, product.slots, conditions.routing
    rows = tokens * product.top_k
    if routing is None:
        share = minimum(excess * product.top_k / experts, 1)
        met = maximum(1 - (1 - share) ** tokens, share)
        popularity = product.skew or conditions.popularity
        if popularity:
            return _Rows(_zipf(tokens, excess * product.top_k / experts, held, experts, popularity), even=False)
        return _Rows([(held * met, excess * rows / experts / met)], even=False)
    if routing == 0:
        return _Rows([(minimum(held, ceil_div(rows * held, experts)), maximum(rows / experts, 1))], even=True)
    return _Rows(_power_law(tokens, rows, experts, held, routing), even=False)


def _power_law(tokens: Expr, rows: Expr, experts: Expr, held: Expr, exponent: float) -> list[tuple[Expr, Expr]]:
    """Classes of the busiest rank under counts drawn from x^-exponent and scaled to sum to all rows."""
    a = exponent + 1e-3 if exponent in {1.0, 2.0, 3.0} else exponent  # there an integral is a logarithm, which it nears
    enough = (rows > experts) * 1.0
    low = (0.01 + 0.99 * enough) ** (1 - a)
    width = (2 + enough * (0.8 * tokens - 2)) ** (1 - a) - low
    # With y = x^(1-a) linear in the share of experts, the integral of x over y is x y (1-a)/(2-a), of x^2 x^2 y (1-a)/(3-a).
    ys = [low + edge * width for edge in EDGES]
    xs = [y ** (1 / (1 - a)) for y in ys]
    firsts = [(1 - a) / (2 - a) * x * y / width for x, y in zip(xs, ys, strict=True)]
    mean = firsts[-1] - firsts[0]
    square = (1 - a) / (3 - a) * (xs[-1] ** 2 * ys[-1] - xs[0] ** 2 * ys[0]) / width
    variance = square / mean**2 - 1
    shares = [after - before for before, after in pairwise(EDGES)]
    counts = [(firsts[j + 1] - firsts[j]) / share / mean for j, share in enumerate(shares)]
    # By how much the busiest of a number of ranks exceeds their mean: the largest of normal sums where a rank holds many
    # experts (3.3 (1 - n^-1/4) is within a tenth of the expected maximum of n normals up to 64), one expert where it holds few.
    ranks = experts / held
    largest = (low + experts / (experts + 1) * width) ** (1 / (1 - a)) / mean - 1
    excess = maximum(3.3 * (1 - ranks**-0.25) * (variance / held) ** 0.5, largest / held * (1 - 1 / ranks))
    excess = minimum(excess, ranks - 1)
    lean = [share * maximum(1 + excess / variance * (count - 1), 0) for share, count in zip(shares, counts, strict=True)]
    whole = sum(lean)
    scale = (1 + excess) * rows / experts * whole / sum(part * count for part, count in zip(lean, counts, strict=True))
    # A count below one is a chance to meet one row.
    return [
        (held * part / whole * minimum(count * scale, 1), maximum(count * scale, 1))
        for part, count in zip(lean, counts, strict=True)
    ]


def _zipf(tokens: Expr, share: Expr, held: Expr, experts: Expr, exponent: float) -> list[tuple[Expr, Expr]]:
    """Classes of experts whose popularity falls with the rank r as r^-exponent: those met, and the rows of each that is.

    A token picks an expert with the probability `share`, times its popularity over the mean, at most 1; an expert of which T
    tokens have a probability p is met with 1 - (1 - p)^T.
    """
    a = exponent + 1e-3 if exponent == 1 else exponent  # there the integral is a logarithm, which it nears
    # The sum over ranks 1 to E is the integral from 1/2 to E + 1/2: x = r/E.
    first = 0.5 / experts
    whole = (1 + first) ** (1 - a) - first ** (1 - a)
    classes = []
    for above, below in pairwise(1 - edge for edge in EDGES):
        count = ((above + first) ** (1 - a) - (below + first) ** (1 - a)) / (above - below) / whole
        picked = minimum(share * count, 1)
        met = maximum(1 - (1 - picked) ** tokens, minimum(picked, 1))
        classes.append((held * (above - below) * met, tokens * picked / met))
    return classes


def _with_a_pick(product: GroupedGemm, here: _Rows, routing: float | None) -> Expr:
    """Tokens with at least one expert here. Picks of balanced routing lie experts/top_k apart."""
    tokens, k = product.tokens, product.top_k
    if routing == 0:
        return tokens * minimum(k * product.held / product.slots, 1)
    share = minimum(here.total / (tokens * k), 1)
    return maximum(tokens * (1 - (1 - share) ** k), minimum(here.total / k, tokens))


def _product(product: GroupedGemm, here: _Rows, far: Callable[[int], Expr], few: Expr, chip: Chip, values: Values) -> Expr:
    """Seconds of one grouped product."""
    n, k = product.n, product.k
    expert = product.held_bytes / product.held
    rate = values["compute"] * (WIDENING if chip.widens(product) else 1.0) * chip.peak(product) / chip.units
    # Weights with scales are stored padded to whole blocks of them, so that their rows are aligned.
    narrow = product.dtypes.weight.bytes < BYTES
    unaligned = 0.0 if narrow else (ceil_div(k, ALIGNED) * ALIGNED > k) * 1.0

    def product_seconds(height: int, width: int) -> Expr:
        columns = ceil_div(n, width)
        loaded = height * k * product.dtypes.activation.bytes + width * expert / n
        compute, load = 2 * height * width * k / rate, loaded / FROM_L2
        tile = ((compute * compute) ** 2 + (load * load) ** 2) ** 0.25 + unaligned * loaded / UNALIGNED + values["tile"]
        # An SM at work on one tile takes the time of one, however few tiles there are.
        waves = maximum(here.tiles(height) * columns / chip.units, 1)
        return waves * tile + values["remote"] * values["tile"] * far(height) * columns / chip.units

    best = product_seconds(*MENU[0])
    for height, width in MENU[1:]:
        best = minimum(best, product_seconds(height, width))
    default = few * product_seconds(*DEFAULTS[0]) + (1 - few) * product_seconds(*DEFAULTS[1])
    compute = best + values["default"] * maximum(default - best, 0)
    memory = here.experts * expert / (values["memory"] * chip.bandwidth)
    # A step along k is of as many bytes: 64 elements of 16 bits, 128 of 8 (the blocks that have a scale).
    step = 1.0 if chip.widens(product) else minimum(product.dtypes.weight.bytes / BYTES, 1)
    return (compute * compute + memory * memory) ** 0.5 + values["latency"] * step * k


def _terms(operators: Operators, chip: Chip, conditions: Conditions, values: Values) -> dict[str, Expr]:
    up, down = (cast("GroupedGemm", operators[name]) for name in ("up_proj", "down_proj"))
    here = _routed(up, up.held, conditions, up.excess)
    everywhere = here if conditions.gathered else _routed(up, up.slots, conditions)
    tokens = up.tokens
    if conditions.sent:
        everywhere = here
        tokens = _with_a_pick(up, here, conditions.routing)
    if conditions.gathered:
        tokens = _with_a_pick(up, here, conditions.routing)
        here = everywhere = here.and_one(maximum(tokens * up.top_k - here.total, 0))

    def far(height: int) -> Expr:
        return maximum(everywhere.tiles(height) - here.tiles(height), 0)

    few = (tokens <= up.held) * 1.0
    first = _product(up, here, far, few, chip, values)
    second = _product(down, here, far, few, chip, values)
    # A row is gathered, multiplied, activated, multiplied and summed: each kernel reads what the one before has written.
    row = 2 * up.n + 2 * down.k + 3 * up.k
    others = 0 if conditions.sent else maximum(tokens * up.top_k - here.total, 0)
    rows = here.total + values["remote"] * others
    moved = (rows * row + tokens * up.k) * up.dtypes.activation.bytes
    stream = moved / (values["stream"] * chip.bandwidth)
    return {
        "launch": values["launch"],
        "up_proj": first,
        "down_proj": second,
        "stream": stream,
        "total": values["launch"] + first + second + stream,
    }


MOE = KernelForm(
    name="moe",
    ops=("moe",),
    about="the routed experts on the busiest rank: tiles of each expert's rows against its weights from memory, twice, and "
    "the activations between",
    parameters=(
        Parameter("launch", "s", "starting the group of 4 to 6 kernels", 2e-5, 5e-6, 1e-3),
        Parameter("compute", "1", "fraction of the matrix peak within a tile", 0.6, 0.05, 1.0),
        Parameter("memory", "1", "fraction of the bandwidth for weights", 0.85, 0.05, 1.0),
        Parameter("stream", "1", "the same for activations", 0.7, 0.05, 2.0, neutral=1e9),
        Parameter("tile", "s", "start and end of a tile on its SM", 5e-7, 1e-8, 1e-5, neutral=0),
        Parameter("latency", "s", "one step of the first tile along k that nothing hides", 3e-9, 1e-11, 1e-8, neutral=0),
        Parameter(
            "remote",
            "1",
            "cost of a row of another device's expert: of its traffic, and of a tile's start",
            0.5,
            1e-3,
            1.0,
            neutral=0,
        ),
        Parameter("default", "1", "how far kernels run the default tile and not the best", 0.3, 1e-3, 1.0, neutral=0),
    ),
    terms=_terms,
)
