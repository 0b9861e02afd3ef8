"""Seconds of the steps of a deployment, tabulated once: what the simulator asks for at every event, in about a microsecond.

A step that decodes one token of each of n sequences with c cached tokens on average, beside chunks of prompts with x new
tokens after y cached ones, takes

    D(n, c) + R(n + sum x) - R(n) + F(sum x) + H(n + m) - H(n) + sum Q(x) + sum E(x, y)

D: the whole step of equal sequences, for every n, at contexts in steps of a 20th, joined by straight lines as few as keep it
to 0.1 %; R: what depends on all tokens of a step, for every number of tokens; F: what depends on those of prompts; H: the LM
head on m more sequences; Q: attention of a prompt without a past, for every length; E: what its past adds, on a grid,
bilinear. So the sum is exact (`roofline.predict`'s own formulas, `parts.py`) but for three things: contexts between those of
the grid, contexts that are not equal (attention that is linear in its cache depends on the sum alone; one with a window does
not), and pasts between those of the grid. Together at most 1 %: tests/unit/serving/simulation/test_tables.py.

In a pipeline of p stages a step is a round: the sequences are dealt to as many microbatches, of which each is in another
stage. It takes as long as the way of one microbatch through all stages, or the slowest stage for all of them
(`predict/timing.py`). A prompt goes with one microbatch.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.parts import Basis, Parts
from roofline.serving.simulation.step_time import Cell, Chunk
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from roofline.predict.request import Request

    Array = NDArray[Any]

_TOLERANCE = 1e-3
_RATIO = 1.05  # of contexts of the grid
_PAST = 1.25  # of the grid of pasts
_TILED = 1024  # new tokens of a chunk
_BLOCK = 64  # numbers of sequences that are tabulated at a time
_EXACT = 1 << 14  # tokens of a step up to which there is an entry for each
_COARSE = 1.02  # ratio of the entries beyond


def knots(longest: int, ratio: float = _RATIO, first: int = 16) -> list[int]:
    """0, and whole numbers in steps of a ratio, up to the longest and no further than needed."""
    found, at = [0], float(first)
    while at < longest:
        found.append(round(at))
        at *= ratio
    return [*found, max(longest, first)]


def cells(contexts: Sequence[float], seconds: Sequence[float], tolerance: float = _TOLERANCE) -> list[Cell]:
    """Chords between points, as few as stay within a share of the points between: (up to, base, slope), the last to infinity.

    >>> cells([0, 1, 2, 4], [1.0, 2.0, 3.0, 9.0])
    [(2, 1.0, 1.0), (inf, -3.0, 3.0)]
    """
    found: list[Cell] = []
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
        found.append((contexts[end], y - slope * x, slope))
        start = end
    base, slope = found[-1][1:]
    found[-1] = (math.inf, base, slope)
    return found


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
class Plane:
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
    """Seconds of the steps of one replica: a `StepTime`. `longest`: the most tokens of a sequence; `most`: sequences at a
    time."""

    request: Request
    basis: Basis
    longest: int
    most: int
    _alone: dict[int, list[Cell]] = field(default_factory=dict, repr=False)
    _whole: dict[int, list[Cell]] = field(default_factory=dict, repr=False)

    @cached_property
    def parts(self) -> Parts:
        """Where the numbers come from."""
        return Parts(self.request, self.basis)

    @property
    def lanes(self) -> int:
        """Microbatches at a time."""
        return self.request.deployment.pipeline_parallel_size

    # A StepTime

    def cells(self, sequences: int) -> list[Cell]:
        """Of a step that decodes."""
        if sequences not in self._whole:
            self._tabulate((sequences - 1) // _BLOCK)
        return self._whole[sequences]

    def mixed(self, sequences: int, cached: int, chunks: Sequence[Chunk]) -> float:
        """Of a step with prompts."""
        if self.lanes > 1:
            return self._mixed_round(sequences, cached, chunks)
        exact, own, head, form = self._exact
        if len(chunks) == 1:
            ((tokens, before),) = chunks
        else:
            tokens, before = sum([new for new, _ in chunks]), -1
        after = sequences + tokens
        seconds = exact[after] if after < len(exact) else self._rest(after)
        many = sequences + len(chunks)
        if sequences:
            for below, base, slope in self._whole.get(sequences) or self.cells(sequences):
                if cached < below:
                    seconds += base + slope * cached
                    break
            seconds += head[many] - head[sequences] - exact[sequences]
        else:
            seconds += head[many] + self._engine
        seconds += self._per_sequence * len(chunks)
        if form is not None:
            seconds += form(tokens)
        if before == 0 and tokens < len(own):
            return seconds + own[tokens]
        for new, before in chunks:
            seconds += self._prompt(new)
            if before:
                seconds += self._past(new, before)
        return seconds

    @cached_property
    def _exact(self) -> tuple[list[float], list[float], list[float], Line | None]:
        """R, Q and H where they have an entry for each number, and F."""
        return self._rest.exact, self._prompt.exact, self._head, self._form

    def _mixed_round(self, sequences: int, cached: int, chunks: Sequence[Chunk]) -> float:
        if not chunks:
            return _at(self.cells(sequences), cached)
        lanes = self.lanes
        beside = -(-sequences // lanes)
        rest = self._rest
        added = []
        for new, before in chunks:
            seconds = rest(beside + new) - (rest(beside) if beside else 0.0) + self._prompt(new) + self._per_sequence
            if self._form is not None:
                seconds += self._form(new)
            added.append(seconds + (self._past(new, before) if before else 0.0))
        if not sequences:
            first = self._engine
            return max(first + max(*added, sum(added) / lanes), self._slowest * sum(added))
        alone, whole = _at(self._way(sequences), cached), _at(self.cells(sequences), cached)
        return max(alone + max(*added, sum(added) / lanes), whole + self._slowest * sum(added))

    # Tables

    def _way(self, sequences: int) -> list[Cell]:
        """Of one microbatch through all stages."""
        self.cells(sequences)
        return self._alone[sequences]

    def _tabulate(self, block: int) -> None:
        """Steps that decode, of a block of numbers of sequences."""
        import numpy as np

        many = np.arange(block * _BLOCK + 1, min((block + 1) * _BLOCK, max(self.most, block * _BLOCK + 1)) + 1)
        contexts = np.array(self._contexts, dtype=np.float64)
        lanes = np.minimum(self.lanes, many)[:, None]
        batch = np.ceil(many[:, None] / lanes)
        found = [part.whole for part in self.parts.seconds((Segment(batch, 1, contexts, decode=True),))]
        shape = (len(many), len(contexts))
        alone = np.broadcast_to(np.sum(found, axis=0), shape) + self._added(batch)
        whole = alone if self.lanes == 1 else np.maximum(alone, lanes * np.max(found, axis=0))
        for number, way, took in zip(many.tolist(), alone.tolist(), whole.tolist(), strict=True):
            at = [context * number for context in self._contexts]
            self._whole[number] = cells(at, took)
            if self.lanes > 1:
                self._alone[number] = cells(at, way)

    @cached_property
    def _contexts(self) -> list[int]:
        return knots(self.longest)

    def _added(self, sequences: Any) -> Any:
        """By the engine, in a step of so many sequences of a microbatch."""
        return self.request.engine_seconds(sequences) if self.basis == "estimate" else 0.0

    @cached_property
    def _per_sequence(self) -> float:
        return float(self._added(2) - self._added(1))

    @cached_property
    def _engine(self) -> float:
        """A step, whatever is in it."""
        return float(self._added(0))

    @cached_property
    def _prompts(self) -> tuple[Line, Line | None, Line, float]:
        """Of one prompt by its tokens: R, F (None: there is nothing of the kind) and Q; the slowest stage's share."""
        import numpy as np

        exact = min(self.request.memory.max_num_batched_tokens + self.most, _EXACT)
        far = [exact]
        while far[-1] < max(self.longest, exact + 1):
            far.append(math.ceil(far[-1] * _COARSE))
        at = np.array([*range(1, exact + 1), *far[1:]], dtype=np.float64)
        stages = self.parts.seconds((Segment(1, at, 0),))
        lines = []
        for name in ("rest", "prompts", "own"):
            found = np.broadcast_to(sum(getattr(part, name) for part in stages), at.shape).tolist()
            lines.append(Line([0.0, *found[:exact]], far, found[exact - 1 :]))
        sums = [float(part.whole[exact - 1]) for part in stages]
        return lines[0], lines[1] if any(lines[1].exact) else None, lines[2], max(sums) / sum(sums)

    @cached_property
    def _rest(self) -> Line:
        return self._prompts[0]

    @cached_property
    def _form(self) -> Line | None:
        return self._prompts[1]

    @cached_property
    def _prompt(self) -> Line:
        return self._prompts[2]

    @cached_property
    def _slowest(self) -> float:
        return self._prompts[3]

    @cached_property
    def _head(self) -> list[float]:
        """What sequences take beside their tokens, less what one takes: as many prompts of eight tokens less one of as many
        tokens."""
        import numpy as np

        at = np.arange(1, self.most + 1, dtype=np.float64)
        many = sum(part.rest for part in self.parts.seconds((Segment(at, 8, 0),)))
        one = sum(part.rest for part in self.parts.seconds((Segment(1, 8 * at, 0),)))
        return [0.0, *np.broadcast_to(many - one, at.shape).tolist()]

    @cached_property
    def _past(self) -> Plane:
        """What the past of a chunk adds, by its new tokens and those before it."""
        import numpy as np

        most = max(self.request.memory.max_num_batched_tokens, 32)
        # kernels take queries in tiles of 16 to 128: up to some the edges of tiles are points of the grid
        edges = {edge + more for edge in (*range(16, 129, 16), *range(64, _TILED + 1, 64)) for more in (0, 1)}
        xs = sorted({1, 2, 4, 8, *knots(most, 1.1)[1:], *(edge for edge in edges if edge < most)})
        ys = [1, 2, 4, 8, *knots(self.longest, _PAST)[1:]]
        new, before = np.array(xs, dtype=np.float64)[:, None], np.array(ys, dtype=np.float64)
        with_past = sum(part.whole for part in self.parts.seconds((Segment(1, new, before),)))
        without = sum(part.whole for part in self.parts.seconds((Segment(1, new, 0),)))
        return Plane(xs, ys, np.asarray(with_past - without).tolist())


def _at(found: Sequence[Cell], cached: int) -> float:
    for below, base, slope in found:
        if cached < below:
            return base + slope * cached
    raise AssertionError(cached)
