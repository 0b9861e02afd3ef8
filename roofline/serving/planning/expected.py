"""What users of a replica see at a rate: times with percentiles and bands, and how busy it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.predict.timing import pipeline
from roofline.serving.planning.load import Load
from roofline.serving.planning.sizing import Sized, fewer, servers
from roofline.serving.queueing import tails
from roofline.serving.queueing.replica import BOUND, ESTIMATE
from roofline.serving.queueing.steady import Steady, steady
from roofline.specs.workload import decode, prefill

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


_ENDLESS = 0.98
"""Of what saturates: beyond it waits are said to have no end."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds: the mean, the median and the percentile that is asked for; `low` and `high` are of the mean, with every step at
    the ends of its interval; `bound`, with every step at its bound. None: not known, or without end."""

    mean: float | None
    p50: float | None
    at: float | None
    low: float | None
    high: float | None
    bound: float | None
    percentile: float

    def to_dict(self) -> dict[str, float | None]:
        """Plain data; the percentile under `pP`, and under its own name."""
        name = f"p{self.percentile * 100:g}"
        return {
            "mean": self.mean, "p50": self.p50, "pP": self.at, name: self.at, "low": self.low, "high": self.high,
            "bound": self.bound,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """Of all requests, and of each class by name. `running`: sequences that decode on a replica, mean over time;
    `utilisation`: the offered load as a share of the rate that saturates it, above 1 where more comes than is served;
    `prompt_share`: of the busy time, what prompts take."""

    ttft: Times
    tpot: Times
    classes: dict[str, tuple[Times, Times]]
    running: float
    slot_wait_s: float
    utilisation: float
    prompt_share: float


def expected(first: Sized, later: Sized, load: Load, rates: tuple[float, float], after_s: tuple[Any, ...] = ()) -> Expected:
    """At so many requests a second of the replica that computes prompts and of that which decodes: one, or two pools."""
    low, high = band(first, load)
    ends = {"mean": (1.0, None), "low": (low, None), "high": (high, None), "bound": (1.0, BOUND)}
    if first.replica.basis == BOUND:
        ends = {"mean": (1.0, None), "bound": (1.0, BOUND)}
    found = {name: _states(first, later, load, rates, scale, basis, after_s) for name, (scale, basis) in ends.items()}
    prompts, answers = found["mean"]
    everybody = range(len(load.services))
    percentile = max(service.percentile for service in load.services)
    classes = {
        service.name: tuple(
            _times(found, which_state, [which], [1.0], service.percentile) for which_state in (0, 1)
        ) for which, service in enumerate(load.services)
    }  # fmt: skip
    shares = [service.mix.share for service in load.services]
    ttft, tpot = (_times(found, which_state, list(everybody), shares, percentile) for which_state in (0, 1))
    return Expected(
        ttft=ttft,
        tpot=tpot,
        classes={name: (one, other) for name, (one, other) in classes.items()},
        running=float(answers.running[0]) * later.replica.ranks,
        slot_wait_s=float(answers.slot_wait_s[0]),
        utilisation=max(rates[0] / first.server.capacity, rates[1] / later.server.capacity),
        prompt_share=_prompt_share(prompts, answers),
    )


def band(of: Sized, load: Load) -> tuple[float, float]:
    """How far steps may be off, as factors on their seconds: the widest of the kernels' and the engine's, of both phases."""
    request = of.replica.request
    if of.replica.basis != ESTIMATE:
        return 1.0, 1.0
    low, high = request.engine_band
    ranks = request.deployment.data_parallel_size
    running = max(round(of.slots / 2), 1) * ranks
    for step in (
        decode(running, round(load.mean_input + load.mean_output / 2)),
        prefill(ranks, max(round(load.mean_input), 1)),
    ):
        took = pipeline(request, step)
        if took.estimate and took.low is not None and took.high is not None:
            low, high = min(low, took.low / took.estimate), max(high, took.high / took.estimate)
    return low, high


def _states(
    first: Sized,
    later: Sized,
    load: Load,
    rates: tuple[float, float],
    scale: float,
    basis: str | None,
    after_s: tuple[Any, ...],
) -> tuple[Steady, Steady]:
    def state(of: Sized, rate: float) -> Steady:
        server = servers(of.replica, load, of.role, of.slots, of.budget, scale=scale, basis=basis, after_s=after_s)
        return steady(fewer(server), rate)

    one = state(first, rates[0])
    return one, (one if later is first else state(later, rates[1]))


def _times(
    found: dict[str, tuple[Steady, Steady]], which_state: int, classes: list[int], shares: list[float], percentile: float
) -> Times:
    """TTFT (of the first state, and the wait for a seat of the second) or TPOT (of the second; none where no answer has more
    than a token)."""
    if which_state and all(float(found["mean"][1].server.demands[k].decode_steps.max()) == 0 for k in classes):
        return Times(None, None, None, None, None, None, percentile)
    total = sum(shares)
    weights = [share / total for share in shares]

    def mean(name: str) -> float | None:
        if name not in found:
            return None
        prompts, answers = found[name]
        if any(bool(state.rates[0] > _ENDLESS * state.server.capacity) for state in (prompts, answers)):
            return None
        if which_state:
            return sum(w * float(answers.tpot_mean(k)[0]) for w, k in zip(weights, classes, strict=True))
        beside = 0.0 if answers is prompts else float(answers.slot_wait_s[0])
        return sum(w * float(prompts.ttft_mean(k)[0]) for w, k in zip(weights, classes, strict=True)) + beside

    prompts, answers = found["mean"]
    state = answers if which_state else prompts
    within = state.tpot_within if which_state else state.ttft_within

    def share_within(seconds: Array) -> Array:
        return sum((w * within(k, seconds) for w, k in zip(weights, classes, strict=True)), start=0.0 * seconds)

    p50, at = None, None
    if not bool(state.saturated[0]):
        scale = state.longest(classes, tpot=bool(which_state))
        p50, at = (float(tails.quantile(share_within, share, scale)[0]) for share in (0.5, percentile))
    low, bound = mean("low"), mean("bound")
    if low is not None and bound is not None:
        low = max(low, bound)  # steps at the low end of the band may be quicker than the hardware allows
    return Times(mean("mean"), p50, at, low, mean("high"), bound, percentile)


def _prompt_share(prompts: Steady, answers: Steady) -> float:
    """Of the seconds that a request costs a replica, those of its prompt: E[w] against E[m] d(n)/n."""
    of_prompts = float(prompts.prompt_utilization[0]) / max(float(prompts.rates[0]) / prompts.server.ranks, 1e-300)
    steps = answers.server.mean_steps
    of_answers = steps * float(answers.step_s[0]) / max(float(answers.running[0]), 1.0)
    return of_prompts / (of_prompts + of_answers) if of_prompts + of_answers else 0.0
