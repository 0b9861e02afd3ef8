"""A deployment under a mix of requests: the seconds of its steps, as `steady.py` wants them.

A decode step of n sequences is evaluated for contexts that stand for those that are met: a prompt, and half way through an
answer, answers by the time for which they are there (E[m^2]/(2 E[m]) tokens). What a prompt adds is a step that holds it less
the same step without: the linear operators see both together, so that weights are read once. A prompt of more tokens than the
budget comes in chunks, of which the first and the last whole one are evaluated: between them the time is linear in what is
cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.predict.compiled import Compiled
from roofline.predict.request import Request
from roofline.serving.queueing.seconds import BOUND, ESTIMATE, step_seconds
from roofline.serving.queueing.server import BatchServer, Demand
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

REPRESENTATIVES = 384
"""Prompts and answers that stand for those of a class: their third moment is within 2 % for lognormal lengths."""
_SEQUENCES = 14  # numbers of sequences at which a decode step is evaluated
_PROMPTS = 14  # lengths of prompts likewise
_CONTEXTS = 5
_RUNNING = 3  # numbers that run beside a prompt


@dataclass(frozen=True)
class Mix:
    """Requests of one class: `share` of the arrivals, with representative lengths (whole tokens, equally likely, ascending).

    `hit`: the share of a prompt's tokens that the prefix cache has; at least one token is computed.
    """

    share: float
    prompts: Array
    outputs: Array
    hit: float = 0.0

    @property
    def computed(self) -> Array:
        """Tokens of each prompt that are not cached."""
        import numpy as np

        return np.maximum(np.ceil(self.prompts * (1 - self.hit)), 1.0)

    @property
    def met(self) -> tuple[Array, float]:
        """Contexts that a decode step meets, equally likely, and the mean number of decode steps of a request."""
        import numpy as np

        later = np.maximum(self.outputs - 1.0, 0.0)
        mean = float(later.mean())
        half = float((later**2).mean()) / (2 * mean) if mean else 0.0
        slices = np.array_split(self.prompts, min(_CONTEXTS, len(np.unique(self.prompts))))
        return np.array([round(float(part.mean()) + half) for part in slices], dtype=np.float64), mean


@dataclass(frozen=True)
class Replica:
    """A deployment with up to `reach` seats on each of its data-parallel ranks, and one of some budgets of tokens a step.
    Seconds are computed once for all of them."""

    request: Request
    reach: int
    budgets: tuple[int, ...]
    _decode: dict[tuple[Any, ...], tuple[Array, dict[str, Array], Array, dict[str, Array]]] = field(
        default_factory=dict, repr=False
    )
    _prompt: dict[tuple[Any, ...], list[dict[int, dict[str, Array]]]] = field(default_factory=dict, repr=False)

    @property
    def basis(self) -> str:
        """What times stand on: the estimate, where kernels of this hardware were measured."""
        return ESTIMATE if self.request.estimator.applies else BOUND

    @property
    def ranks(self) -> int:
        """Replicas that step together: those of one deployment."""
        return self.request.deployment.data_parallel_size

    @property
    def lanes(self) -> int:
        """Batches that are under way at a time: one a pipeline stage."""
        return self.request.deployment.pipeline_parallel_size

    def server(
        self, mix: Sequence[Mix], seats: int, budget: int, *, cv: float = 1.0, scale: float = 1.0, basis: str | None = None
    ) -> BatchServer:
        """The server with so many seats a rank and tokens a step. `scale` stretches all times; `basis`: bound or estimate."""
        import numpy as np

        name = basis or self.basis
        many = np.arange(1, seats + 1)
        at, seconds, _, _ = self._decoding(mix)
        decode = np.interp(many, at, seconds[name]) * scale
        running, prompts = self._prompts(mix)
        demands = tuple(
            Demand(
                share=part.share,
                running=running,
                prompt_s=np.maximum(found[budget][name], 0.0) * scale,
                prompt_tokens=part.computed,
                answer_steps=np.maximum(part.outputs - 1.0, 0.0),
            )
            for part, found in zip(mix, prompts, strict=True)
        )
        # a batch of each stage is a part of what runs, with its own budget of tokens
        return BatchServer(decode, demands, budget * self.lanes, self.ranks, self.lanes, cv)

    def _decoding(self, mix: Sequence[Mix]) -> tuple[Array, dict[str, Array], Array, dict[str, Array]]:
        """Decode steps by sequences of a rank: over the contexts that are met, and at their mean beside a prompt."""
        import numpy as np

        key = tuple(id(part) for part in mix)
        if key not in self._decode:
            many = np.unique(np.geomspace(1, self.reach, _SEQUENCES).round())
            met = [part.met for part in mix]
            contexts = np.concatenate([found for found, _ in met])
            weights = np.concatenate([
                np.full(len(found), part.share * max(steps, 1e-9) / len(found))
                for part, (found, steps) in zip(mix, met, strict=True)
            ])  # fmt: skip
            weights = weights / weights.sum()
            beside = many[np.unique(np.linspace(0, len(many) - 1, _RUNNING).round().astype(int))]
            every = np.append(contexts, self._context(mix))
            batch = np.ceil(many / self.lanes)[:, None]
            took = self._seconds((Segment(batch * self.ranks, 1, every, decode=True),), batch)
            whole = {name: np.broadcast_to(time, (len(many), len(every))) for name, time in took.items()}
            self._decode[key] = (
                many,
                {name: time[:, :-1] @ weights for name, time in whole.items()},
                beside,
                {name: time[np.isin(many, beside), -1] for name, time in whole.items()},
            )
        return self._decode[key]

    @staticmethod
    def _context(mix: Sequence[Mix]) -> float:
        """Tokens that a sequence beside a prompt has, on average."""
        import numpy as np

        return float(round(np.average([part.met[0].mean() for part in mix], weights=[part.share for part in mix])))

    def _prompts(self, mix: Sequence[Mix]) -> tuple[Array, list[dict[int, dict[str, Array]]]]:
        """Seconds that the prompts of each class add, by budget, and how many run beside them."""
        _, _, running, alone = self._decoding(mix)
        key = tuple(id(part) for part in mix)
        if key not in self._prompt:
            self._prompt[key] = [self._added(part, running, alone, self._context(mix)) for part in mix]
        return running, self._prompt[key]

    def _added(self, part: Mix, running: Array, alone: dict[str, Array], context: float) -> dict[int, dict[str, Array]]:
        import numpy as np

        computed = part.computed
        lengths = np.unique(np.linspace(0, len(computed) - 1, _PROMPTS).round().astype(int))
        new, cached = computed[lengths], part.prompts[lengths] - computed[lengths]
        keep = np.unique(new, return_index=True)[1]
        new, cached = new[keep], cached[keep]
        sizes, before = [], []
        for budget in self.budgets:
            whole = np.floor((new - 1) / budget)
            rest = new - whole * budget
            # the first and the last whole chunk, and what is left; where there is no whole one, the rest stands in for it
            chunk = np.where(whole > 0, budget, rest)
            sizes += [chunk, chunk, rest]
            before += [cached, cached + np.maximum(whole - 1, 0) * budget, cached + whole * budget]
        batch = np.ceil(running / self.lanes)[:, None, None]
        decoding = Segment(batch * self.ranks, 1, context, decode=True)
        mixed = self._seconds((decoding, Segment(1, np.stack(sizes), np.stack(before))), batch)
        found: dict[int, dict[str, Array]] = {}
        for place, budget in enumerate(self.budgets):
            whole = np.floor((new - 1) / budget)
            for name, time in mixed.items():
                adds = np.broadcast_to(time - alone[name][:, None, None], (len(running), len(sizes), len(new)))
                first, last, rest = (adds[:, 3 * place + chunk] for chunk in range(3))
                total = whole * (first + last) / 2 + rest
                found.setdefault(budget, {})[name] = np.stack([np.interp(computed, new, row) for row in total])
        return found

    def _seconds(self, step: tuple[Segment, ...], batch: Array) -> dict[str, Array]:
        return step_seconds(Compiled(self.request, "decode"), step, batch)
