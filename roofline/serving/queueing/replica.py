"""A replica under a mix of requests: the seconds of its steps, and the batch server that the formulas of `steady.py` describe.

A decode step of n sequences is evaluated at representative contexts: a prompt and half of an output, outputs weighted by the
time that they run (E[m^2]/(2 E[m]) tokens). What a prompt adds is a step that holds it less the same step without: the linear
operators see both together, so that weights are read once. A prompt of more tokens than the budget comes in chunks, of which
the first and the last whole one are evaluated: between them the time is linear in the cached tokens.

Data-parallel ranks that step together have a step as long as that of the fullest rank, and share the experts. With x_i prompts
on rank i a step is longer by a max_i x_i + b sum_i x_i: a is attention, projections and exchanges of the fullest rank, b the
work on experts, which all ranks share. Both follow from two steps: one prompt on one rank, w_1 = a + b, and one on each,
w_R = a + R b.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roofline.numeric import Expr
from roofline.predict.compiled import Compiled
from roofline.predict.compiled_rounds import CompiledRounds
from roofline.predict.request import ResolvedRequest
from roofline.predict.speculation import Speculation
from roofline.serving.queueing.ranks import excess_rounds, fullest_rank
from roofline.serving.queueing.rounds import RoundLengths
from roofline.specs.workload import Segment, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

BOUND, ESTIMATE = "bound", "estimate"
REPRESENTATIVES = 384
"""Representative prompts and outputs of a class: their third moment is within 2 % for lognormal lengths."""
_SEQUENCES = 14  # batch sizes at which a decode step is evaluated
_PROMPTS = 14  # prompt lengths likewise
_CONTEXTS = 5
_RUNNING = 3  # batch sizes that are evaluated with a prompt
HOLD_STEPS = 50
"""Steps for which prompts are held, at most, until every data-parallel rank can start one, if they are balanced.

Source: `attention_dp_config.timeout_iters` of TensorRT-LLM 1.2; published recipes set 60."""
_TINY = 1e-12
"""Minimum seconds of a request, so that there is a rate."""


def step_seconds(steps: Compiled, step: Step, sequences: Expr) -> dict[str, Array]:
    """Seconds of one engine step of a deployment, by basis.

    Args:
        steps: the compiled deployment.
        step: the segments; counts may be arrays.
        sequences: sequences per replica, which the engine's time depends on.

    Returns:
        "bound": sum of the kernels' bounds; "estimate": kernel time, plus engine overhead, less hidden launches; NaN where no
        fit applies. Arrays broadcast over the counts.
    """
    took = steps.times(step)
    return {BOUND: took.bound, ESTIMATE: took.kernels + steps.request.engine_seconds(sequences)}


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of one class, as equally likely representatives.

    Args:
        share: of all requests.
        running: batch sizes of the rows of `prompt_s`, (rows,).
        prompt_s: seconds that a prompt adds to steps of that batch size, (rows, K); of several ranks one prompt on each, w_R.
        prompt_tokens: tokens to compute, (K,).
        decode_steps: output tokens less the first, (K2,).
        after_s: seconds from the end of a prompt to its first token outside any step (a cache transfer), (K,).
        rank_share: part of `prompt_s` that the fullest rank decides, a/w_R; the rest is shared by all ranks.
        decode_tokens: with speculative decoding: output tokens less the first, (K2,), and `decode_steps` are the mean rounds
            that give them; None: one token per step.
        rounds_variance: variance of these rounds, (K2,).
    """

    share: float
    running: Array
    prompt_s: Array
    prompt_tokens: Array
    decode_steps: Array
    after_s: Array | float = 0.0
    rank_share: float = 1.0
    decode_tokens: Array | None = None
    rounds_variance: Array | float = 0.0

    def alone(self, ranks: int) -> float:
        """Seconds of a prompt on one rank over those of one on each: w_1/w_R."""
        return self.rank_share + (1 - self.rank_share) / ranks

    def prompts(self, running: Array) -> Array:
        """Seconds that each prompt adds to steps, interpolated at batch sizes `running`, (rates,): shape (rates, K)."""
        import numpy as np

        if len(self.running) == 1:
            return np.broadcast_to(self.prompt_s, (len(running), self.prompt_s.shape[1]))
        row = np.clip(np.searchsorted(self.running, running) - 1, 0, len(self.running) - 2)
        left, right = self.running[row], self.running[row + 1]
        part = np.clip((running - left) / (right - left), 0, 1)[:, None]
        return np.asarray((1 - part) * self.prompt_s[row] + part * self.prompt_s[row + 1])


@dataclass(frozen=True)
class BatchServer:
    """One replica with continuous batching.

    Args:
        decode_s: `decode_s[n - 1]` is the seconds of a decode step of n sequences, (max_num_seqs,).
        demands: requests by class.
        budget: tokens per step.
        ranks: data-parallel ranks that step together, each with its own slots and an equal part of the arrivals; rates are
            those of all ranks.
        stages: pipeline stages, which work at the same time; a prompt takes each its part of the time.
        cv: coefficient of variation of the times between arrivals; 1: Poisson.
        scatter: squared coefficient of variation of the lengths of prompts, which are dealt to the ranks in turn; None: ranks
            stay in step, and each has as many prompts in a step as any other.
        hold_steps: steps for which prompts are held at most, until every rank can start one; 0: they are not held.
        step_tokens: tokens of a sequence in a decode step, of which the budget has to be: more than one verify a draft.
    """

    decode_s: Array
    demands: tuple[Demand, ...]
    budget: int
    ranks: int = 1
    stages: int = 1
    cv: float = 1.0
    scatter: float | None = 0.0
    hold_steps: int = 0
    step_tokens: int = 1

    @property
    def slots(self) -> int:
        """Slots of one rank: requests that run at a time."""
        return len(self.decode_s)

    @cached_property
    def mean_steps(self) -> float:
        """Mean decode steps per request, over all classes."""
        return sum(demand.share * float(demand.decode_steps.mean()) for demand in self.demands)

    @cached_property
    def mean_share(self) -> float:
        """Part of the seconds of prompts that the fullest rank decides, a/w_R, over all classes."""
        seconds = [demand.share * float(demand.prompt_s.mean()) for demand in self.demands]
        parts = sum(one * demand.rank_share for one, demand in zip(seconds, self.demands, strict=True))
        return parts / sum(seconds) if sum(seconds) else 1.0

    @cached_property
    def scv_steps(self) -> float:
        """Squared coefficient of variation of the decode steps per request."""
        square = sum(demand.share * float((demand.decode_steps**2 + demand.rounds_variance).mean()) for demand in self.demands)
        return square / self.mean_steps**2 - 1 if self.mean_steps else 0.0

    @cached_property
    def tokens_per_step(self) -> float:
        """Mean tokens that a sequence gets per decode step."""
        tokens = sum(
            d.share * float((d.decode_steps if d.decode_tokens is None else d.decode_tokens).mean()) for d in self.demands
        )
        return tokens / self.mean_steps if self.mean_steps else 1.0

    @cached_property
    def mean_tokens(self) -> float:
        """Mean prompt tokens to compute per request."""
        return sum(demand.share * float(demand.prompt_tokens.mean()) for demand in self.demands)

    def mean(self, by_class: Iterable[Array]) -> Any:
        """Mean over all requests, weighted by class, of one array per class, each (rates, K): shape (rates,)."""
        # sum / K is what `each.mean(axis=1)` gives too, which takes several times as long for few columns
        means = (each.sum(axis=1) / each.shape[1] for each in by_class)
        return sum(demand.share * mean for demand, mean in zip(self.demands, means, strict=True))

    def excess(self, mean: Array, *, in_turn: bool) -> Array:
        """Prompts that the fullest of the ranks, which are not in step, has more in a step than the mean rank.

        A rank computes no more than its token budget holds. Where prompts are held, each rank has one: the longest counts.

        Args:
            mean: prompts of the mean rank in a step.
            in_turn: they are dealt to the ranks in turn; else each rank takes one whenever a slot of its own is free.
        """
        import numpy as np

        variance = self.scatter or 0.0
        if self.hold_steps:
            return np.asarray(mean * (fullest_rank(self.ranks, self.ranks, variance) - 1))
        most = self.budget / self.mean_tokens
        return np.minimum(excess_rounds(mean, self.ranks, variance, in_turn=in_turn), np.maximum(most - mean, 0.0))

    @cached_property
    def capacity(self) -> float:
        """Saturation rate, in requests/s of all ranks.

        All slots S are taken: lambda (E[m] d(S)/S + E[w]) = 1; and prompts have only what the budget leaves them:
        lambda (E[w] + E[tokens] d(n)/(budget - n)) = 1, with the n at which both hold, or n = S. Of ranks that are not in step
        each takes a prompt whenever one of its S slots is free, S/E[m] in a step, and all wait for the fullest
        (`ranks.excess_rounds`). NB: outputs of equal lengths that begin together end together, so that saturated ranks come in
        step and serve more.
        """
        import numpy as np

        counts = np.arange(1, self.slots + 1)
        left = np.maximum(self.budget - counts * self.step_tokens, 1)
        prompts = self.mean(demand.prompts(counts.astype(float)) for demand in self.demands) / self.stages
        fullest: Any = 1.0
        if self.ranks > 1 and self.scatter is not None and self.mean_steps:
            freed = counts / self.mean_steps
            fullest = 1 + self.mean_share * self.excess(freed, in_turn=False) / freed
        by_slots = 1 / np.maximum(self.mean_steps * self.decode_s / counts + prompts * fullest, _TINY)
        by_budget = 1 / np.maximum(prompts + self.mean_tokens * self.decode_s / left, _TINY)
        # a larger batch decodes more and leaves prompts less of the budget: the best of what both allow
        return float(np.max(np.minimum(np.maximum.accumulate(by_slots), by_budget))) * self.ranks


@dataclass(frozen=True)
class Mix:
    """Requests of one class, by representative lengths (whole tokens, equally likely, ascending).

    Args:
        share: of the arrivals.
        prompts: prompt tokens, (K,).
        outputs: output tokens, (K2,).
        hit: share of a prompt's tokens that the prefix cache has; at least one token is computed; or
        prefix: the first tokens of a prompt, which it has; or
        new: the tokens to compute of each prompt, ascending, (K,); then prompts need not be.
        cases: the requests by what the prefix cache has of them, of which a server is given the shares.
    """

    share: float
    prompts: Array
    outputs: Array
    hit: float = 0.0
    prefix: int = 0
    new: Array | None = None
    cases: tuple[Mix, ...] = ()

    @property
    def cached(self) -> bool:
        """Whether the prefix cache has anything of the prompts."""
        return self.hit > 0 or self.prefix > 0 or bool(self.cases)

    @property
    def computed(self) -> Array:
        """Tokens of each prompt that the prefix cache lacks, at least 1: shape (K,)."""
        import numpy as np

        if self.new is not None:
            return self.new
        computed = np.ceil(self.prompts * (1 - self.hit) - 1e-6)  # NB: 100 * (1 - 0.95) is a little more than 5
        least: Array = np.maximum(computed - self.prefix, 1.0)
        return least

    @property
    def met(self) -> tuple[Array, float]:
        """Equally likely context lengths of a decode step, in tokens, at most 5, and the mean decode steps per request."""
        import numpy as np

        steps = np.maximum(self.outputs - 1.0, 0.0)
        mean = float(steps.mean())
        half = float((steps**2).mean()) / (2 * mean) if mean else 0.0
        slices = np.array_split(self.prompts, min(_CONTEXTS, len(np.unique(self.prompts))))
        return np.array([round(float(part.mean()) + half) for part in slices]), mean


@dataclass(frozen=True)
class Replica:
    """A deployment whose step times are computed once for several settings.

    Args:
        request: the deployment.
        slots: the largest number of slots (`max_num_seqs`) per data-parallel rank.
        budgets: token budgets per step.
        balanced: prompts are held until every data-parallel rank can start one.
        speculation: the model with its draft: decode steps are rounds; None: no tokens are drafted.
    """

    request: ResolvedRequest
    slots: int
    budgets: tuple[int, ...]
    balanced: bool = False
    speculation: Speculation | None = None
    _decode: dict[tuple[Any, ...], tuple[Array, dict[str, Array], Array, dict[str, Array]]] = field(
        default_factory=dict, repr=False
    )
    _prompt: dict[tuple[Any, ...], list[list[dict[int, dict[str, tuple[Array, float]]]]]] = field(
        default_factory=dict, repr=False
    )

    @property
    def basis(self) -> str:
        """Basis of times: "estimate" if kernels of this hardware were measured, else "bound"."""
        return ESTIMATE if self.request.estimator.applies else BOUND

    @property
    def steps(self) -> Compiled:
        """The deployment's steps, or rounds."""
        if self.speculation is None:
            return Compiled(self.request, "decode")
        return CompiledRounds(self.request, "decode", self.speculation)

    @property
    def ranks(self) -> int:
        """Data-parallel ranks, which step together."""
        return self.request.deployment.data_parallel_size

    @property
    def microbatches(self) -> int:
        """Microbatches in flight at a time: one per pipeline stage."""
        return self.request.deployment.pipeline_parallel_size

    def server(
        self, mix: Sequence[Mix], slots: int, budget: int, *, cv: float = 1, scale: float = 1, basis: str | None = None,
        shares: Sequence[Sequence[float]] = (),
    ) -> BatchServer:  # fmt: skip
        """The batch server of a setting, whose step times are interpolated between those that are computed once.

        Args:
            mix: requests by class; shares add up to 1.
            slots: slots per rank (`max_num_seqs`), at most those of the replica.
            budget: tokens per step, one of `budgets`.
            cv: coefficient of variation of the times between arrivals.
            scale: factor on all times.
            basis: "bound" or "estimate"; None: the replica's.
            shares: by class, the share of its requests in each of its cases.

        Raises:
            KeyError: a budget that is not one of `budgets`.
        """
        import numpy as np

        name = basis or self.basis
        batches, seconds, _, _ = self._decoding(mix)
        decode = np.interp(np.arange(1, slots + 1), batches, seconds[name]) * scale
        running, prompts = self._prompts(mix)
        demands = tuple(
            _blended(
                [
                    Demand(
                        share=part.share,
                        running=running,
                        prompt_s=np.maximum(added[budget][name][0], 0.0) * scale,
                        prompt_tokens=case.computed,
                        decode_steps=np.maximum(part.outputs - 1.0, 0.0),
                        rank_share=added[budget][name][1],
                    )
                    for case, added in zip(part.cases or (part,), of_part, strict=True)
                ],
                of_class,
            )
            for part, of_part, of_class in zip(mix, prompts, shares or ((1.0,),) * len(mix), strict=True)
        )
        step_tokens = 1
        if self.speculation is not None:
            options = self.speculation.options
            lengths, step_tokens = RoundLengths(options.tokens, options.acceptance), 1 + options.tokens
            demands = tuple(_in_rounds(demand, lengths) for demand in demands)
        # the microbatch of each stage is a part of what runs, with its own token budget
        return BatchServer(
            decode, demands, budget * self.microbatches, self.ranks, self.microbatches, cv,
            scatter=scatter(demands), hold_steps=HOLD_STEPS if self.balanced else 0, step_tokens=step_tokens,
        )  # fmt: skip

    def _decoding(self, mix: Sequence[Mix]) -> tuple[Array, dict[str, Array], Array, dict[str, Array]]:
        """Seconds of decode steps by batch size of a rank: at the contexts of `mix`, and at their mean."""
        import numpy as np

        key = tuple(id(part) for part in mix)
        if key not in self._decode:
            counts = np.unique(np.geomspace(1, self.slots, _SEQUENCES).round())
            met = [part.met for part in mix]
            contexts = np.concatenate([each for each, _ in met])
            weights = np.concatenate([
                np.full(len(each), part.share * max(steps, 1e-9) / len(each))
                for part, (each, steps) in zip(mix, met, strict=True)
            ])  # fmt: skip
            weights = weights / weights.sum()
            mixed = counts[np.unique(np.linspace(0, len(counts) - 1, _RUNNING).round().astype(int))]
            every = np.append(contexts, self._context(mix))
            batch = np.ceil(counts / self.microbatches)[:, None]
            took = self._seconds((Segment(batch * self.ranks, 1, every, decode=True),), batch)
            times = {name: np.broadcast_to(time, (len(counts), len(every))) for name, time in took.items()}
            self._decode[key] = (
                counts,
                {name: time[:, :-1] @ weights for name, time in times.items()},
                mixed,
                {name: time[np.isin(counts, mixed), -1] for name, time in times.items()},
            )
        return self._decode[key]

    @staticmethod
    def _context(mix: Sequence[Mix]) -> float:
        """Mean context of the sequences in a step with a prompt."""
        import numpy as np

        return float(round(np.average([part.met[0].mean() for part in mix], weights=[part.share for part in mix])))

    def _prompts(self, mix: Sequence[Mix]) -> tuple[Array, list[list[dict[int, dict[str, tuple[Array, float]]]]]]:
        """Batch sizes, and by class, case and budget the seconds that prompts add at these, with the fullest rank's share of
        them."""
        _, _, running, alone = self._decoding(mix)
        key = tuple(id(part) for part in mix)
        if key not in self._prompt:
            context = self._context(mix)
            self._prompt[key] = [[self._added(case, running, alone, context) for case in part.cases or (part,)] for part in mix]
        return running, self._prompt[key]

    def _added(
        self, part: Mix, running: Array, alone: dict[str, Array], context: float
    ) -> dict[int, dict[str, tuple[Array, float]]]:
        import numpy as np

        computed = part.computed
        lengths = np.unique(np.linspace(0, len(computed) - 1, _PROMPTS).round().astype(int))
        new, cached = computed[lengths], part.prompts[lengths] - computed[lengths]
        distinct = np.unique(new, return_index=True)[1]
        new, cached = new[distinct], cached[distinct]
        sizes, before = [], []
        for budget in self.budgets:
            whole = np.floor((new - 1) / budget)
            rest = new - whole * budget
            # the first and the last whole chunk, and the rest; without a whole one, the rest instead
            chunk = np.where(whole > 0, budget, rest)
            sizes += [chunk, chunk, rest]
            before += [cached, cached + np.maximum(whole - 1, 0) * budget, cached + whole * budget]
        ranks = self.ranks
        prompts = np.array([ranks, 1])[:, None, None, None] if ranks > 1 else 1  # one on each rank, and one on one
        batch = np.ceil(running / self.microbatches)[:, None, None]
        decoding = Segment(batch * ranks, 1, context, decode=True)
        mixed = self._seconds((decoding, Segment(prompts, np.stack(sizes), np.stack(before))), batch)
        by_budget: dict[int, dict[str, tuple[Array, float]]] = {}
        for index, budget in enumerate(self.budgets):
            whole = np.floor((new - 1) / budget)
            for name, time in mixed.items():
                adds = np.broadcast_to(time - alone[name][:, None, None], (2, len(running), len(sizes), len(new)))
                first, last, rest = (adds[:, :, 3 * index + chunk] for chunk in range(3))
                total = whole * (first + last) / 2 + rest
                seconds = np.stack([np.interp(computed, new, row) for row in total[0]])
                share = 1.0 if ranks == 1 else fullest_share(float(total[0].mean()), float(total[1].mean()), ranks)
                by_budget.setdefault(budget, {})[name] = seconds, share
        return by_budget

    def _seconds(self, step: tuple[Segment, ...], batch: Array) -> dict[str, Array]:
        return step_seconds(self.steps, step, batch)


def _blended(cases: list[Demand], shares: Sequence[float]) -> Demand:
    """The demand of requests of which a share is in each case: as many representatives as one case has, in the order of the
    tokens to compute, each the mean of an equal part of all. Means are kept."""
    import numpy as np

    if len(cases) == 1:
        return cases[0]
    sizes = np.array([len(case.prompt_tokens) for case in cases])
    weight = np.repeat(np.asarray(shares) / sizes, sizes)
    tokens = np.concatenate([case.prompt_tokens for case in cases])
    order = np.argsort(tokens, kind="stable")
    ends = np.concatenate([[0.0], np.cumsum(weight[order])])
    count = len(cases[0].prompt_tokens)
    cuts = np.linspace(0, ends[-1], count + 1)

    def part(values: Array) -> Array:
        sums = np.concatenate([[0.0], np.cumsum(values[order] * weight[order])])
        return np.asarray(np.diff(np.interp(cuts, ends, sums)) * count / ends[-1])

    seconds = [float(share * case.prompt_s.mean()) for share, case in zip(shares, cases, strict=True)]
    fullest = sum(one * case.rank_share for one, case in zip(seconds, cases, strict=True))
    return replace(
        cases[0],
        prompt_s=np.stack([part(np.concatenate(rows)) for rows in zip(*(case.prompt_s for case in cases), strict=True)]),
        prompt_tokens=part(tokens),
        rank_share=fullest / sum(seconds) if sum(seconds) else 1.0,
    )


def _in_rounds(demand: Demand, lengths: RoundLengths) -> Demand:
    """The demand of requests that get their tokens in rounds."""
    mean, variance = lengths.rounds(demand.decode_steps)
    return replace(demand, decode_steps=mean, decode_tokens=demand.decode_steps, rounds_variance=variance)


def prompts_of_round(mean: Array, stages: int, variance: float = 0.0) -> Array:
    """Prompts that a round of a pipeline is longer by, each at its seconds through all stages.

    A round has k prompts, Poisson distributed, each with another microbatch of the s that are under way. It takes as long as
    the slowest microbatch through all stages, or a stage for all of them (`predict/timing.py`): max(M_k, k/s) prompts, with M_k
    the longest of k (of s, if k > s). So with probabilities P(k)

        mean/s + sum of max(M_k - k/s, 0) P(k) over k > 0

    which is the mean for one stage, mean/s where every microbatch has prompts, and the mean where few rounds have one.

    Args:
        mean: prompts in a round.
        stages: pipeline stages, s.
        variance: squared coefficient of variation of the lengths of prompts.

    >>> import numpy as np
    >>> prompts_of_round(np.array([2.0]), 1).tolist(), prompts_of_round(np.array([0.001, 100.0]), 4).round(6).tolist()
    ([2.0], [0.001, 25.0])
    """
    import numpy as np

    if stages == 1:
        return mean
    total, weight = mean / stages, np.exp(-mean)
    longest = fullest_rank(np.arange(stages + 1), stages, variance)
    for k in range(1, math.ceil(float(longest[stages]) * stages)):
        weight = weight * mean / k
        total = total + (float(longest[min(k, stages)]) - k / stages) * weight
    return total


def fullest_share(each: float, one: float, ranks: int) -> float:
    """Part of the seconds of a prompt on each rank that the fullest rank decides: a/w_R = (R w_1/w_R - 1)/(R - 1).

    Args:
        each: seconds that a prompt on each of the ranks adds to a step, w_R.
        one: seconds that a prompt on one of them adds, w_1.
        ranks: data-parallel ranks, at least 2.

    >>> fullest_share(1.0, 1.0, 4), fullest_share(1.0, 0.25, 4)  # nothing is shared; all of it is
    (1.0, 0.0)
    """
    return min(max((ranks * one / each - 1) / (ranks - 1), 0.0), 1.0) if each > 0 else 1.0


def scatter(demands: Sequence[Demand]) -> float:
    """Squared coefficient of variation of the prompt tokens to compute, over all classes: 0 for prompts of one length."""
    mean = sum(one.share * float(one.prompt_tokens.mean()) for one in demands)
    square = sum(one.share * float((one.prompt_tokens**2).mean()) for one in demands)
    return max(square / mean**2 - 1, 0.0)
