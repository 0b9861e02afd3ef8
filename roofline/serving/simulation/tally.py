"""Sums over what a server wrote down: latencies, tokens, levels. Books are read a part at a time; nothing of a request is
kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from roofline.serving.simulation.book import AGAIN, CHUNK, END, RUN, Book
from roofline.serving.simulation.busy import Busy
from roofline.serving.simulation.histogram import Histogram
from roofline.serving.simulation.series import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

TIMES = ("ttft", "tpot", "itl", "e2e")
COSTS = ("recomputed_tokens", "recompute_s", "swapped_tokens", "swap_s")
"""What preemptions cost."""
_PIECE = 1e-3
"""Share by which steps that are counted as one may differ."""

Objectives = Mapping[int, tuple[float, float]]
"""Seconds to the first token and between the later ones that each class has to keep to."""


class Tally:
    """What is known of the requests but the first so many (`cut`), and of the steps that began after a time.

    `rows` gets the requests that have ended, as columns of arrays, a part at a time.
    """

    def __init__(
        self, *, cut: int = 0, after: float = 0.0, objectives: Objectives | None = None, busy: Busy | None = None,
        rows: Callable[[dict[str, Array]], None] | None = None,
    ) -> None:  # fmt: skip
        self.cut, self.after, self.objectives, self.rows = cut, after, objectives or {}, rows
        self.times = {name: Histogram() for name in TIMES}
        self.series = Series()
        self._busy = busy
        self.work = {"matrix": 0.0, "memory": 0.0}
        self.completed = self.good = 0
        self.output_tokens = self.prompt_tokens = self.computed_tokens = 0.0
        self.preempted = 0
        """Requests that were preempted at least once."""
        self.recomputed_tokens = self.recompute_s = self.swapped_tokens = self.swap_s = 0.0
        """What preemptions cost, of the whole run: tokens that were dropped and computed again, seconds that steps took longer
        for them, tokens that moved to the host, seconds in which steps waited for copies out and in."""
        self.last = 0.0
        """When the last request ended."""
        self.block_seconds = 0.0

    def read(self, book: Book) -> None:
        """Add up a book, and empty it."""
        import numpy as np

        def table(row: list[float], width: int) -> Array:
            return np.array(row, dtype=np.float64).reshape(-1, width)

        runs, ended = table(book.runs, len(RUN)), table(book.ends, len(END))
        gaps, moved, chunks = table(book.gaps, 2), table(book.moved, 2), table(book.chunks, len(CHUNK))
        again = table(book.again, len(AGAIN))
        dropped = np.array(book.dropped, dtype=np.float64)
        book.clear()
        self._ended(dict(zip(END, ended.T, strict=True)))
        self._ran(dict(zip(RUN, runs.T, strict=True)))
        self.times["itl"].add(gaps[:, 0], gaps[:, 1])
        self.series.count("preemptions", np.concatenate([dropped, moved[:, 0]]))
        self.series.count("swapped_tokens", moved[:, 0], moved[:, 1])
        self.swapped_tokens += float(moved[:, 1].sum())
        self.series.spread("recomputed_tokens", *again[:, :3].T)
        self.recomputed_tokens += float(again[:, 2].sum())
        self.recompute_s += float(again[:, 3].sum())
        if self._busy is not None:
            for name, seconds in self._busy.of(runs, chunks).items():
                self.work[name] += seconds

    def _ended(self, ended: dict[str, Array]) -> None:
        import numpy as np

        arrived, at, answer = ended["arrived"], ended["ended"], ended["answer"]
        if not len(at):
            return
        if self.rows is not None:
            self.rows(ended)
        self.last = max(self.last, float(at.max()))
        self.series.count("arrived", arrived)
        self.series.count("ended", at)
        counts = ended["index"] >= self.cut
        ttft, e2e = ended["first"] - arrived, at - arrived
        several = counts & (answer > 1)
        tpot = (at - ended["first"]) / np.maximum(answer - 1, 1)
        self.times["ttft"].add(ttft[counts])
        self.times["e2e"].add(e2e[counts])
        self.times["tpot"].add(tpot[several])
        self.completed += int(counts.sum())
        self.output_tokens += float(answer[counts].sum())
        self.prompt_tokens += float(ended["prompt"][counts].sum())
        self.preempted += int((ended["preemptions"][counts] > 0).sum())
        good = counts.copy()
        for kind, (first, later) in self.objectives.items():
            good &= (ended["kind"] != kind) | ((ttft <= first) & ((tpot <= later) | (answer == 1)))
        self.good += int(good.sum())

    def _ran(self, runs: dict[str, Array]) -> None:
        import numpy as np

        begins, ends, steps = runs["begins"], runs["ends"], runs["steps"]
        if not len(ends):
            return
        many = runs["sequences"]
        self.block_seconds += float(((ends - begins) * runs["blocks"]).sum())
        self.computed_tokens += float((many * steps + runs["prompt_tokens"]).sum())
        for name in ("running", "waiting"):
            self.series.level(name, begins, ends, runs[name])
        self.series.ramp("blocks", begins, ends, runs["blocks"], runs["grown"])
        self.swap_s += float(runs["lead"].sum())
        self.series.spread("output_tokens", begins, ends, many * steps + runs["prompts"])
        prompts = runs["prompt_tokens"] > 0
        self.series.spread("prompt_tokens", begins[prompts], ends[prompts], runs["prompt_tokens"][prompts])
        counts = (many > 0) & (begins >= self.after)
        times = self.times["itl"]
        first = runs["seconds"] + runs["lead"]
        times.add(first[counts], (many - runs["late"])[counts])
        longer = counts & (steps > 1)
        seconds, more, steps, many = (values[longer] for values in (runs["seconds"], runs["more"], steps, many))
        last = seconds + more * (steps - 1)
        # the later steps of a run in pieces of steps that are as good as equal; their sum is exact
        pieces = np.clip(np.ceil(np.abs(last / seconds - 1) / _PIECE), 1, steps - 1).astype(np.int64)
        of = np.repeat(np.arange(len(pieces)), pieces)
        place = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + 0.5
        share = (steps - 1)[of] / pieces[of]
        times.add(seconds[of] + more[of] * (0.5 + place * share), many[of] * share)

    def saturated(self, first: float, last: float) -> bool:
        """Whether requests came faster than they were answered, of those that came from one time to another.

        In the second half of that time more must have come than have ended, by 2 % of those that came, and by more than chance
        brings (three times the root of their number); and there must be requests that wait.
        """
        width, sums = self.series.width, self.series.sums
        middle, end = int((first + last) / 2 / width), int(last / width) + 1
        came, went = (float(sums[name][middle:end].sum()) for name in ("arrived", "ended"))
        waiting = self.series.mean("waiting", last - (last - first) / 20, last)
        return came - went > max(came / 50, 3 * math.sqrt(came)) and waiting >= 1
