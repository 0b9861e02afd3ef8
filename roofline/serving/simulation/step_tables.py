"""Seconds of the steps of a deployment, tabulated once: the simulator reads them at every event, in about a microsecond.

A step that decodes one token of each of n sequences with c cached tokens on average, beside chunks of prompts with x new
tokens after y cached ones, takes

    D(n, c) + R(n + sum x) - R(n) + F(sum x) + H(n + m) - H(n) + sum Q(x) + sum E(x, y)

D: the whole step of equal sequences, for every n, at contexts in steps of a 20th, joined by straight lines as few as keep it
to 0.1 %; R: what depends on all tokens of a step, for every number of tokens; F: what depends on those of prompts; H: the LM
head on m more sequences; Q: attention of a prompt without a past, for every length; E: what its past adds, on a grid,
bilinear. So the sum is exact (`roofline.predict`'s own formulas, `step_time.py`) but for three things: contexts between those
of the grid, contexts that are not equal (attention that is linear in its cache depends on the sum alone; one with a window does
not), and pasts between those of the grid. Together at most 1 %: tests/unit/serving/simulation/test_tables.py.

In a pipeline of p stages a step is a round: the sequences are dealt to p microbatches, each in another stage. It takes as long
as one microbatch through all stages, or the slowest stage for all of them (`predict/timing.py`). A prompt goes with one
microbatch.

Of data-parallel ranks that step together, every table is of steps in which each rank has the same; X is the part of R that
depends on the tokens of all ranks. Where the mean rank has fewer tokens than the fullest, n, a step is X(n) - X(mean) shorter.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.step_time import Basis, Cell, Chunk, Resource, StepCosts, StepParts
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofline.graph.build import Graph
    from roofline.predict.request import ResolvedRequest

    Array = NDArray[Any]

_TOLERANCE = 1e-3
_RATIO = 1.05  # of contexts of the grid
_PAST = 1.25  # of the grid of pasts
_TILED = 1024  # new tokens of a chunk
_BLOCK = 64  # numbers of sequences that are tabulated at a time
_EXACT = 1 << 14  # tokens of a step up to which there is an entry for each
_COARSE = 1.02  # ratio of the entries beyond


def knots(longest: int, ratio: float = _RATIO, first: int = 16) -> list[int]:
    """Return the points of a grid, ascending: 0, whole numbers from `first` on in steps of a ratio, and `longest`."""
    points, at = [0], float(first)
    while at < longest:
        points.append(round(at))
        at *= ratio
    return [*points, max(longest, first)]


def cells(contexts: Sequence[float], seconds: Sequence[float], tolerance: float = _TOLERANCE) -> list[Cell]:
    """Return pieces between points, as few as stay within a share of the points between; the last holds up to infinity.

    Args:
        contexts: cached tokens, ascending, at least two.
        seconds: of a step at each of them.
        tolerance: as a share of the seconds.

    >>> cells([0, 1, 2, 4], [1.0, 2.0, 3.0, 9.0])
    [(2, 1.0, 1.0), (inf, -3.0, 3.0)]
    """
    chords: list[Cell] = []
    start, last = 0, len(contexts) - 1
    while start < last:
        x, y = contexts[start], seconds[start]
        low, high, end, slope = -math.inf, math.inf, start, 0.0
        for at in range(start + 1, last + 1):
            run = contexts[at] - x
            chord = (seconds[at] - y) / run
            if not low <= chord <= high:
                break
            end, slope = at, chord
            allowed = tolerance * seconds[at] / run
            low, high = max(low, chord - allowed), min(high, chord + allowed)
        chords.append((contexts[end], y - slope * x, slope))
        start = end
    base, slope = chords[-1][1:]
    chords[-1] = (math.inf, base, slope)
    return chords


@dataclass
class Line:
    """A function of whole numbers: an entry for each up to some, and beyond them straight lines between a few."""

    exact: list[float]
    far: list[int]
    values: list[float]

    def __call__(self, at: int) -> float:
        """The value."""
        if at < len(self.exact):
            return self.exact[at]
        place = min(max(bisect_right(self.far, at) - 1, 0), len(self.far) - 2)
        left, right = self.far[place], self.far[place + 1]
        low, high = self.values[place], self.values[place + 1]
        return low + (high - low) * (at - left) / (right - left)


@dataclass
class BilinearTable:
    """A function of two whole numbers, bilinear between the points of a grid and beyond its ends."""

    xs: list[int]
    ys: list[int]
    values: list[list[float]]

    def __call__(self, x: int, y: int) -> float:
        """The value."""
        i = min(max(bisect_right(self.xs, x) - 1, 0), len(self.xs) - 2)
        j = min(max(bisect_right(self.ys, y) - 1, 0), len(self.ys) - 2)
        u = (x - self.xs[i]) / (self.xs[i + 1] - self.xs[i])
        v = (y - self.ys[j]) / (self.ys[j + 1] - self.ys[j])
        near, far = self.values[i], self.values[i + 1]
        return (1 - u) * (near[j] + v * (near[j + 1] - near[j])) + u * (far[j] + v * (far[j + 1] - far[j]))


@dataclass
class StepTables:
    """Seconds of the steps of one replica: a `StepTime`.

    Args:
        request: the deployment.
        basis: `estimate` or `bound`.
        max_model_len: tokens of the longest sequence.
        max_num_seqs: sequences at a time.
    """

    request: ResolvedRequest
    basis: Basis
    max_model_len: int
    max_num_seqs: int
    graph: Callable[[Step], Graph] | None = None
    """As `StepCosts` has it."""
    _microbatch: dict[int, list[Cell]] = field(default_factory=dict, repr=False)
    _round: dict[int, list[Cell]] = field(default_factory=dict, repr=False)
    _bounds: dict[int, list[float]] = field(default_factory=dict, repr=False)
    """Where each piece of a round ends."""
    _rows: dict[int, tuple[Array, Array]] = field(default_factory=dict, repr=False)
    """Seconds at the contexts of the grid of one microbatch, and of a round, before they are asked for as cells."""

    @cached_property
    def costs(self) -> StepCosts:
        """The formulas that are tabulated."""
        return StepCosts(self.request, self.basis, self.graph)

    @cached_property
    def num_microbatches(self) -> int:
        """Microbatches at a time."""
        return self.request.deployment.pipeline_parallel_size

    @cached_property
    def ranks(self) -> int:
        """Data-parallel ranks, which step together."""
        return self.request.deployment.data_parallel_size

    num_step_tokens = 1
    """Tokens of a sequence that decodes in a step."""

    def shared_excess(self, fullest: int, mean: float) -> float:
        """Return the seconds by which a step is shorter if the mean rank has `mean` tokens, not as many as the fullest."""
        shared = self._shared
        if shared is None or mean >= fullest:
            return 0.0
        whole = int(mean)
        low = shared(whole)
        return shared(fullest) - (low + (mean - whole) * (shared(whole + 1) - low))

    # A StepTime

    def cells(self, num_sequences: int) -> list[Cell]:
        """Return the seconds of a step that decodes, as pieces that are affine in the tokens that all sequences have cached."""
        if num_sequences not in self._round:
            if num_sequences not in self._rows:
                self._tabulate((num_sequences - 1) // _BLOCK)
            one, whole = self._rows.pop(num_sequences)
            contexts = [context * num_sequences for context in self._contexts]
            self._round[num_sequences] = pieces = cells(contexts, whole.tolist())
            self._bounds[num_sequences] = [below for below, _, _ in pieces]
            if self.num_microbatches > 1:
                self._microbatch[num_sequences] = cells(contexts, one.tolist())
        return self._round[num_sequences]

    def mixed(self, num_sequences: int, num_cached_tokens: float, chunks: Sequence[Chunk]) -> float:
        """Return the seconds of a step with chunks of prompts."""
        if self.num_microbatches > 1:
            return self._mixed_round(num_sequences, num_cached_tokens, chunks)
        exact, own, head, of_prompts = self._exact
        if len(chunks) == 1:
            ((tokens, before),) = chunks
        else:
            tokens, before = sum([new for new, _ in chunks]), -1
        after = num_sequences + tokens
        seconds = exact[after] if after < len(exact) else self._rest(after)
        num_segments = num_sequences + len(chunks)
        if num_sequences:
            pieces = self._round.get(num_sequences) or self.cells(num_sequences)
            _, base, slope = pieces[bisect_right(self._bounds[num_sequences], num_cached_tokens)]
            seconds += base + slope * num_cached_tokens
            seconds += head[num_segments] - head[num_sequences] - exact[num_sequences]
        else:
            seconds += head[num_segments] + self._engine
        seconds += self._per_sequence * len(chunks)
        if of_prompts is not None:
            seconds += of_prompts(tokens)
        if before == 0 and tokens < len(own):
            seconds += own[tokens]
        else:
            for new, before in chunks:
                seconds += self._own(new)
                if before:
                    seconds += self._past(new, before)
        return seconds if seconds > self._eager or not chunks else self._eager

    @cached_property
    def _exact(self) -> tuple[list[float], list[float], list[float], Line | None]:
        """R, Q and H where they have an entry for each number, and F."""
        return self._rest.exact, self._own.exact, self._head, self._of_prompts

    def _mixed_round(self, num_sequences: int, num_cached_tokens: float, chunks: Sequence[Chunk]) -> float:
        if not chunks:
            return at(self.cells(num_sequences), num_cached_tokens)
        num_microbatches = self.num_microbatches
        decodes = -(-num_sequences // num_microbatches)
        rest = self._rest
        added = []
        for new, before in chunks:
            seconds = rest(decodes + new) - (rest(decodes) if decodes else 0.0) + self._own(new) + self._per_sequence
            if self._of_prompts is not None:
                seconds += self._of_prompts(new)
            added.append(seconds + (self._past(new, before) if before else 0.0))
        if not num_sequences:
            return max(self._engine + max(*added, sum(added) / num_microbatches), self._slowest * sum(added))
        whole = at(self.cells(num_sequences), num_cached_tokens)  # first: it tabulates both
        alone = at(self._microbatch[num_sequences], num_cached_tokens)
        return max(alone + max(*added, sum(added) / num_microbatches), whole + self._slowest * sum(added))

    # Tables

    def _tabulate(self, block: int) -> None:
        """Steps that decode, of a block of numbers of sequences."""
        import numpy as np

        first, last = block * _BLOCK + 1, min((block + 1) * _BLOCK, max(self.max_num_seqs, block * _BLOCK + 1))
        num_sequences = np.arange(first, last + 1)
        contexts = np.array(self._contexts, dtype=np.float64)
        num_microbatches = np.minimum(self.num_microbatches, num_sequences)[:, None]
        batch = np.ceil(num_sequences[:, None] / num_microbatches)
        stages = self.decode_seconds(batch, contexts, self.basis)
        shape = (len(num_sequences), len(contexts))
        alone = np.broadcast_to(np.sum(stages, axis=0), shape) + self._added(batch)
        host = self.request.stage_seconds(batch) if self.basis == "estimate" else 0.0
        slowest = np.max(stages, axis=0) + host
        whole = alone if self.num_microbatches == 1 else np.maximum(alone, num_microbatches * slowest)
        self._rows.update(zip(num_sequences.tolist(), zip(alone, whole, strict=True), strict=True))

    def decode_seconds(self, batch: Array, contexts: Array, quantity: Basis | Resource) -> list[Array]:
        """Return the seconds of steps that decode in each pipeline stage, without what the engine adds.

        Args:
            batch: sequences of a rank.
            contexts: cached tokens of each; the two broadcast.
            quantity: a basis, or a resource that would work at its peak.
        """
        return self.costs.totals((Segment(batch * self.ranks, 1, contexts, decode=True),), quantity)

    def utilization(self, step: Step) -> dict[str, list[StepParts]]:
        """Return the seconds at their peaks of a step of prompts, as `StepCosts.utilization`."""
        return self.costs.utilization(step)

    @cached_property
    def _contexts(self) -> list[int]:
        # a sequence that decodes has a past: with none a step reads no recurrent state
        return [1, *knots(self.max_model_len)[1:]]

    def _added(self, num_sequences: Any) -> Any:
        """Seconds that the engine adds to a step of a microbatch."""
        return self.request.engine_seconds(num_sequences) if self.basis == "estimate" else 0.0

    @cached_property
    def _per_sequence(self) -> float:
        return float(self._added(2) - self._added(1))

    @cached_property
    def _eager(self) -> float:
        """Least seconds of a step with prompts. NB: not of a pipeline, whose stages have hosts of their own."""
        return self.request.eager_seconds if self.basis == "estimate" else 0.0

    @cached_property
    def _engine(self) -> float:
        """Seconds per step, whatever is in it."""
        return float(self._added(0))

    @cached_property
    def _prompts(self) -> tuple[Line, Line | None, Line, Line, float]:
        """Of one prompt by its tokens: R, F (None: there is nothing of the kind), Q and X; the slowest stage's share."""
        import numpy as np

        exact = min(self.request.memory.max_num_batched_tokens + self.max_num_seqs, _EXACT)
        far = [exact]
        while far[-1] < max(self.max_model_len, exact + 1):
            far.append(math.ceil(far[-1] * _COARSE))
        # what is dealt out in tiles is quickest just at whole waves of them, where lengths in use often are
        edges = (2**power + more for power in range(exact.bit_length(), far[-1].bit_length()) for more in (0, 1))
        far = sorted({*far, *edges})
        at = np.array([*range(1, exact + 1), *far[1:]], dtype=np.float64)
        stages = self.costs.seconds((Segment(self.ranks, at, 0),))
        lines = []
        for name in ("rest", "prompts", "own", "shared"):
            values = np.broadcast_to(sum(getattr(parts, name) for parts in stages), at.shape).tolist()
            lines.append(Line([0.0, *values[:exact]], far, values[exact - 1 :]))
        sums = [float(parts.total[exact - 1]) for parts in stages]
        return lines[0], lines[1] if any(lines[1].exact) else None, lines[2], lines[3], max(sums) / sum(sums)

    @cached_property
    def _rest(self) -> Line:
        return self._prompts[0]

    @cached_property
    def _of_prompts(self) -> Line | None:
        return self._prompts[1]

    @cached_property
    def _own(self) -> Line:
        return self._prompts[2]

    @cached_property
    def _shared(self) -> Line | None:
        return self._prompts[3] if self.ranks > 1 else None

    @cached_property
    def _slowest(self) -> float:
        return self._prompts[4]

    @cached_property
    def _head(self) -> list[float]:
        """What n sequences take beside their tokens, less what one takes: n prompts of eight tokens less one of 8 n tokens."""
        import numpy as np

        at = np.arange(1, self.max_num_seqs * self.num_step_tokens + 1, dtype=np.float64)
        several = sum(parts.rest for parts in self.costs.seconds((Segment(at * self.ranks, 8, 0),)))
        one: Any = np.array(self._rest.exact[8 : 8 * len(at) + 1 : 8])
        if len(one) < len(at):  # beyond what has an entry for each number
            one = sum(parts.rest for parts in self.costs.seconds((Segment(self.ranks, 8 * at, 0),)))
        return [0.0, *np.broadcast_to(several - one, at.shape).tolist()]

    @cached_property
    def _past(self) -> BilinearTable:
        """What the past of a chunk adds, by its new tokens and those before it."""
        import numpy as np

        budget = max(self.request.memory.max_num_batched_tokens, 32)
        # kernels take queries in tiles of 16 to 128: up to some length the edges of tiles are points of the grid
        edges = {edge + more for edge in (*range(16, 129, 16), *range(64, _TILED + 1, 64)) for more in (0, 1)}
        xs = sorted({1, 2, 4, 8, *knots(budget, 1.1)[1:], *(edge for edge in edges if edge < budget)})
        ys = [1, 2, 4, 8, *knots(self.max_model_len, _PAST)[1:]]
        new, before = np.array(xs, dtype=np.float64)[:, None], np.array(ys, dtype=np.float64)
        with_past = sum(parts.total for parts in self.costs.seconds((Segment(self.ranks, new, before),)))
        without = sum(parts.total for parts in self.costs.seconds((Segment(self.ranks, new, 0),)))
        return BilinearTable(xs, ys, np.asarray(with_past - without).tolist())


_MAX_SHARED = 8
_shared: OrderedDict[tuple[Any, ...], StepTables] = OrderedDict()
_key: ContextVar[str] = ContextVar("key", default="")


@contextmanager
def shared_tables(key: str) -> Iterator[None]:
    """Within this context runs of the same deployment, of which `key` is a name, share their tables in this process."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


@contextmanager
def tables_of_pool(key: str) -> Iterator[None]:
    """Within this context, and where tables are shared, they are those of one deployment of several, of which `key` is a
    name."""
    token = _key.set(_key.get() and f"{_key.get()} {key}")
    try:
        yield
    finally:
        _key.reset(token)


def tables_of(
    request: ResolvedRequest, basis: Basis, max_model_len: int, max_num_seqs: int,
    make: Callable[[ResolvedRequest, Basis, int, int], StepTables] = StepTables,
) -> StepTables:  # fmt: skip
    """Return the tables of a deployment: new ones, which `make` makes, or in `shared_tables` those of an earlier run of the
    same."""
    name = _key.get()
    key = (name, basis, max_model_len, max_num_seqs)
    if not name or key not in _shared:
        tables = make(request, basis, max_model_len, max_num_seqs)
        if not name:
            return tables
        _shared[key] = tables
        while len(_shared) > _MAX_SHARED:
            _shared.popitem(last=False)
    _shared.move_to_end(key)
    return _shared[key]


def at(pieces: Sequence[Cell], num_cached_tokens: float) -> float:
    """Return the seconds of a step at some cached tokens, from its pieces."""
    for below, base, slope in pieces:
        if num_cached_tokens < below:
            return base + slope * num_cached_tokens
    raise AssertionError(num_cached_tokens)
