"""The result of `roofline simulate`: metrics of runs summed up, as frozen values, JSON and rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

from roofline.documents import dump_json, envelope
from roofline.predict.analyze import estimate_basis, estimate_notes, facts
from roofline.predict.duration import Duration
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import pipeline
from roofline.registry import Displayed
from roofline.serving.simulation.batches import OF_CLASS, TIMES, merged
from roofline.serving.simulation.confidence import (
    CONFIDENCE,
    QUANTILES,
    Confidence,
    Interval,
    WarmUp,
    confidence,
    student_quantile,
)
from roofline.serving.simulation.histogram import Histogram
from roofline.serving.simulation.metrics import COSTS
from roofline.serving.simulation.run import Run
from roofline.serving.simulation.server import Pool, ServerConfig
from roofline.serving.simulation.workload import Workload
from roofline.specs.library import Input
from roofline.specs.prices import load_prices
from roofline.specs.source import Assumption
from roofline.specs.workload import Step, cached_tokens, decode, prefill, sequences, tokens

if TYPE_CHECKING:
    import pandas as pd

_OBJECTS = ("requests", "refusals", "assumptions", "classes", "pools")
_LATER = (
    "classes", "confidence", "fairness", "find_rate", "fleet", "goodput_per_gpu", "kv_offload", "longest_wait", "lora",
    "pools", "prefix_hit_rate", "shed_share", "speculative", "starved", "transfer", "warm_up",
)  # fmt: skip
_RATES = ("requests_per_s", "output_tokens_per_s", "prompt_tokens_per_s")


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds over requests (of `itl`: over tokens); None where there is none. Percentiles to 0.1 %.

    `confidence` has the `level` of the intervals, by which `method` they were found ("batch-means" of one run, or
    "replications"), the number of `batches`, and for the mean and each percentile `low` and `high` in seconds, or None and
    `why`.
    """

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    confidence: dict[str, Any] | None = None

    @classmethod
    def of(cls, times: Histogram, confidence: dict[str, Any] | None = None) -> Latency:
        """The mean, percentiles and maximum of a histogram, in seconds, with their confidence intervals."""
        quantiles = {name: times.quantile(share) for name, share in QUANTILES.items()}
        return cls(mean=times.mean, **quantiles, max=times.max if times.weight else None, confidence=confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return the values in seconds by name, and their intervals."""
        values = {"mean": self.mean, "p50": self.p50, "p90": self.p90, "p95": self.p95, "p99": self.p99, "max": self.max}
        return {**values, "confidence": self.confidence}

    def interval(self, figure: str) -> tuple[float, float] | None:
        """Return the confidence interval of `mean` or a percentile, in seconds; None where there is none."""
        one = (self.confidence or {}).get(figure) or {"low": None, "high": None}
        return None if one["low"] is None or one["high"] is None else (one["low"], one["high"])


@dataclass(frozen=True, slots=True)
class Requests:
    """Numbers of requests. `refused`: they could never be served; `shed`: turned away or dropped by admission control; `cut`:
    of those that completed, the ones in the warm-up, which nothing else counts."""

    arrived: int = 0
    completed: int = 0
    refused: int = 0
    preemptions: int = 0
    preempted: int = 0
    cut: int = 0
    failed: int = 0
    """Requests whose replica failed, again and again, or that found none: they miss every objective."""
    retried: int = 0
    """Requests that were sent to another replica since theirs failed."""
    shed: int = 0

    @property
    def unfinished(self) -> int:
        """Requests that ran or waited when the run was interrupted."""
        return self.arrived - self.completed - self.refused - self.failed - self.shed


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Simulation(Displayed):
    """What users of a server see, and what the server does. Times in seconds, rates per second, over all replicas."""

    inputs: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    deployment: dict[str, Any]
    workload: dict[str, Any]
    server: dict[str, Any] = field(default_factory=dict)
    """Scheduler, replicas, router, preemption, KV blocks, `max_num_seqs`, tokens per step, and the basis of step times."""
    fleet: dict[str, Any] | None = None
    """Of replicas that come and go: the settings (`autoscale`, `failures`), hours of replicas and devices, their mean and peak
    numbers, changes of their number, failures, lost tokens, availability, and the cost. None where they do not."""
    lora: dict[str, Any] | None = None
    """Of requests with LoRA adapters: the settings, how many were loaded, of those read from disk, seconds for which steps
    waited, and the share of the requests whose adapter was on the device. None without."""
    requests: Requests = Requests()
    preemption: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COSTS, 0.0))
    """Of a run: tokens that were computed again, and how much longer steps took for it; tokens that moved to the host, and for
    how long steps waited for copies. The warm-up counts."""
    refusals: tuple[dict[str, Any], ...] = ()
    """The first refused requests, with the reason."""
    duration_s: float = 0.0
    offered_rate: float | None = None
    saturated: bool = False
    ttft_s: Latency = Latency()
    tpot_s: Latency = Latency()
    itl_s: Latency = Latency()
    e2e_s: Latency = Latency()
    throughput: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_RATES, 0.0))
    throughput_interval: dict[str, dict[str, float]] | None = None
    """The 80 % interval of each rate (`low`, `high`) where the server sets it: all requests at once, clients, or more than it
    can do. None elsewhere, and without an estimate."""
    goodput: float | None = None
    within_slo: float | None = None
    """Share of the requests within the SLO, of which shed ones are not; None without one."""
    shed_share: float = 0.0
    """Share of the requests that admission control turned away or dropped."""
    longest_wait: dict[str, Any] | None = None
    """Of the request with the longest time to its first token: `run`, `request`, `class`, `seconds`, and how many requests that
    came later were `admitted_before` it, at least. The warm-up counts."""
    starved: dict[str, Any] | None = None
    """The same of the longest among those that the scheduler starves: it admitted 100 later requests before them, or more, and
    they waited ten times the median TTFT or longer. None: there is none."""
    confidence: dict[str, Any] = field(default_factory=dict)
    """Intervals (`low`, `high`) of `within_slo` and `goodput` at a `level`; the rate of completions counts as known."""
    classes: tuple[dict[str, Any], ...] = ()
    """Of each class of requests: how many completed, mean TTFT and E2E, output tokens/s of a request while it is served,
    the share within the SLO, and how many were shed."""
    fairness: float | None = None
    """Jain's index over the classes: 1 if all get the same share of their requests within the SLO (without one: the same output
    tokens/s per request), 1/n if one gets everything; None of one class."""
    warm_up: dict[str, Any] = field(default_factory=lambda: WarmUp().to_dict())
    """The first `requests` of each run, which do not count; by which `method` they were found, and `why`."""
    utilisation: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(("compute", "memory", "kv")))
    prefix_hit_rate: float | None = None
    """Share of the prompt tokens found in the prefix cache, or a KV cache tier, when their request was first admitted; None
    without one."""
    kv_offload: dict[str, Any] | None = None
    """KV cache tiers: where prompt tokens came from (`prompt_tokens`: shares of `device`, each tier, `computed`), the rule by
    which they are loaded (`load`), tokens that were computed although a tier had them (`declined_tokens`), and of each of the
    `tiers` what it is, and of a run its loads, bytes, seconds, and the utilisation of its link. None without tiers."""
    speculative: dict[str, Any] | None = None
    """Of speculative decoding: `method`, `draft`, `num_speculative_tokens`, `acceptance`; of a run, warm-up and all: `rounds`
    of all sequences, tokens drafted and accepted in them (`drafted_tokens`, `accepted_tokens`; those beyond a request's last
    count), `mean_acceptance_length` (1 + accepted tokens per round, as vLLM logs it) and `accepted_share`. None without."""
    series: dict[str, Any] = field(default_factory=dict)
    distributions: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Of each latency at most 200 points: `seconds`, and the `share` of the requests (tokens) that take at most as long."""
    estimate_basis: str | None = None
    """What step times rest on: "measured", "transferred", "published", "prior" or "given"; None of bounds."""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    """A mean prompt (`prefill`) and a mean decode step (`decode`): batch, tokens, and seconds with interval (`time_s`)."""
    assumptions: tuple[Assumption, ...] = ()
    replications: dict[str, Any] | None = None
    """Of several runs: how many, and of each figure the mean with its 95 % confidence interval."""
    pools: tuple[dict[str, Any], ...] = ()
    """Of each pool of replicas, where there are several: `name` and `role`, hardware, deployment, replicas and `devices`, its
    server, `utilisation` (`steps`: share of the time in steps); of a replica the requests that run and that wait (of a decode
    pool: for blocks, too), means over the time in steps. The warm-up counts."""
    transfer: dict[str, Any] | None = None
    """KV caches that were sent from the prefill pool to the decode pool: how many, bytes of the fullest device, share of the
    time in which senders and receivers were taken, and times of a cache: waiting for blocks of the decode replica and for the
    link, on the link, from the end of the prompt to the arrival. The warm-up counts."""
    goodput_per_gpu: float | None = None
    """Requests/s within the SLO per device of all pools; None without an SLO or pools."""
    find_rate: dict[str, Any] | None = None
    """The search for the highest rate within the objectives: `rate` with its interval, `rates` by seed, what `binds` beyond it,
    and the `points` that were tried. This is the simulation at that rate then."""
    interrupted: bool = False
    """Whether the user ended the run: the result is of the requests that had ended by then."""
    unfit: str | None = None
    """Why the model does not run there: then nothing else is known."""

    @property
    def fits(self) -> bool:
        """Whether the model runs there."""
        return self.unfit is None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in the layout of `roofline simulate --json`, in base units."""
        counts = self.requests
        pools = (
            {"pools": list(self.pools), "transfer": self.transfer, "goodput_per_gpu": self.goodput_per_gpu}
            if self.pools
            else {}
        )
        return {
            **envelope(self.inputs),
            "model": self.model,
            "hardware": self.hardware,
            "deployment": self.deployment,
            "fits": self.fits,
            "unfit": self.unfit,
            "workload": self.workload,
            "server": self.server,
            "requests": {
                "arrived": counts.arrived, "completed": counts.completed, "refused": counts.refused, "shed": counts.shed,
                "unfinished": counts.unfinished,
                "preemptions": counts.preemptions, "preempted": counts.preempted, "cut": counts.cut,
                "failed": counts.failed, "retried": counts.retried,
            },
            "fleet": self.fleet,
            "lora": self.lora,
            "preemption": self.preemption,
            "refusals": list(self.refusals),
            "duration_s": self.duration_s,
            "offered_rate": self.offered_rate,
            "saturated": self.saturated,
            "interrupted": self.interrupted,
            "ttft_s": self.ttft_s.to_dict(),
            "tpot_s": self.tpot_s.to_dict(),
            "itl_s": self.itl_s.to_dict(),
            "e2e_s": self.e2e_s.to_dict(),
            "throughput": self.throughput,
            "throughput_interval": self.throughput_interval,
            "goodput": self.goodput,
            "within_slo": self.within_slo,
            "shed_share": self.shed_share,
            "longest_wait": self.longest_wait,
            "starved": self.starved,
            "confidence": self.confidence,
            "warm_up": self.warm_up,
            "classes": list(self.classes),
            "fairness": self.fairness,
            "utilisation": self.utilisation,
            "prefix_hit_rate": self.prefix_hit_rate,
            **({} if self.kv_offload is None else {"kv_offload": self.kv_offload}),
            **({} if self.speculative is None else {"speculative": self.speculative}),
            "estimate_basis": self.estimate_basis,
            "steps": self.steps,
            "series": self.series,
            "distributions": self.distributions,
            "replications": self.replications,
            "find_rate": self.find_rate,
            **pools,
            "assumptions": [
                {"name": note.name, "value": note.value, "origin": note.origin, "why": note.why} for note in self.assumptions
            ],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Simulation:
        """Return the simulation of which `to_dict` gave this.

        Raises:
            KeyError: a key is missing.
            TypeError: a value is of another kind.
        """
        latencies = {name: Latency(**content[name]) for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s")}
        # NB: results of earlier versions have no `_LATER`
        names = [entry.name for entry in fields(cls) if entry.name in content or entry.name not in _LATER]
        plain = {name: content[name] for name in names if name not in (*latencies, *_OBJECTS)}
        counts = {name: count for name, count in content["requests"].items() if name != "unfinished"}
        notes = tuple(Assumption(**note) for note in content["assumptions"])
        return cls(
            **{
                **plain,
                **latencies,
                "requests": Requests(**counts),
                "refusals": tuple(content["refusals"]),
                "classes": tuple(content.get("classes", ())),
                "pools": tuple(content.get("pools", ())),
                "assumptions": notes,
            }
        )

    def to_json(self, indent: int | None = 2) -> str:
        """Return JSON text of `to_dict`; no NaN and no infinity."""
        return dump_json(self.to_dict(), indent)

    def to_frame(self) -> pd.DataFrame:
        """Return the time series as a pandas frame, a row per interval, with its begin in seconds (`begins_s`).

        Raises:
            KeyError: the deployment does not fit, so that there is no series.
        """
        import pandas as pd

        frame = pd.DataFrame({name: values for name, values in self.series.items() if name != "interval_s"})
        frame.insert(0, "begins_s", frame.index * self.series["interval_s"])
        return frame


def summarize(
    server: ServerConfig, workload: Workload, runs: list[Run], notes: list[Assumption], seed: int, warm_up: WarmUp
) -> Simulation:
    """Return the result of runs that differ in their seeds: means over runs, distributions of all together.

    Args:
        server: what was simulated.
        workload: its requests.
        runs: at least one; the time series are of the first.
        notes: what was assumed.
        seed: of the first run.
        warm_up: requests that were not counted.
    """
    figures = [_figures(server, workload, one) for one in runs]
    first, preempted = runs[0].metrics, sum(one.metrics.counted.preempted for one in runs)
    saturated = any(is_saturated(workload, one) for one in runs)
    certainty = confidence([one.metrics.counted_batches for one in runs], _unsteady(workload, server, saturated, runs))
    for other in runs[1:]:
        first.counted.merge(other.metrics.counted)
    means = figures[0] if len(runs) == 1 else {name: _mean([one[name] for one in figures]) for name in figures[0]}
    slo = any(one.ttft or one.tpot for one in workload.classes)
    classes = _classes(workload, runs, slo=slo)
    about: dict[str, Any] = facts(server.request)
    speculative = _speculative(server, runs)
    typical = _typical(server, means, first.times["itl"].mean, means["prefix_hit_rate"] or 0.0)
    latencies: dict[str, Any] = {f"{name}_s": Latency.of(first.times[name], certainty.of(name)) for name in TIMES}
    rates = {name: means[f"throughput.{name}"] or 0.0 for name in _RATES}
    steps = _steps(server, typical)
    paced = workload.rate is None or saturated  # by the server
    starved, median = _longest(workload, [one.metrics.longest_passed for one in runs]), latencies["ttft_s"].p50 or math.inf
    return Simulation(
        inputs=_inputs(server.request.inputs, server.inputs, server.preemption.inputs, *_files(workload, server)),
        **about,
        workload=_workload(workload, seed, _share_cut(runs)),
        server=_server(server),
        requests=Requests(
            arrived=sum(one.num_arrived for one in runs),
            completed=sum(one.num_ended for one in runs),
            refused=sum(one.num_refused for one in runs),
            preemptions=sum(one.num_preemptions for one in runs),
            preempted=preempted,
            cut=sum(one.num_warm_up for one in runs),
            failed=sum(one.num_failed for one in runs),
            retried=sum(len(one.fleet.retried) for one in runs if one.fleet is not None),
            shed=sum(one.num_shed for one in runs),
        ),
        fleet=_fleet(server, means),
        lora=None if server.lora is None else {**server.lora.to_dict(), **_named(means, "lora.")},
        preemption={name: means[f"preemption.{name}"] or 0.0 for name in COSTS},
        refusals=tuple(runs[0].refusals),
        duration_s=means["duration_s"] or 0.0,
        offered_rate=means["offered_rate"],
        interrupted=any(one.stopped for one in runs),
        saturated=saturated,
        **latencies,
        throughput=rates,
        throughput_interval=_rates_interval(rates, steps, server) if paced and server.tables.basis == "estimate" else None,
        goodput=means["goodput"] if slo else None,
        within_slo=means["within_slo"] if slo else None,
        shed_share=sum(one.num_shed for one in runs) / max(sum(one.num_arrived for one in runs), 1),
        longest_wait=_longest(workload, [one.metrics.longest_wait for one in runs]),
        starved=starved if starved is not None and starved["seconds"] >= STARVED_MEDIANS * median else None,
        confidence=_of_slo(certainty, rates["requests_per_s"]) if slo else {},
        warm_up=warm_up.to_dict(),
        classes=classes,
        fairness=jain([one["within_slo"] if slo else one["output_tokens_per_s"] for one in classes]),
        utilisation={name: means[f"utilisation.{name}"] for name in ("compute", "memory", "kv")},
        prefix_hit_rate=means["prefix_hit_rate"] if server.config.caches_prefixes or workload.mean_hit else None,
        kv_offload=_offload(server, means),
        speculative=speculative,
        series=first.series.to_dict(first.last),
        distributions={f"{name}_s": first.times[name].curve() for name in TIMES},
        estimate_basis=None if server.tables.basis == "bound" else estimate_basis(server.request, typical.values()),
        steps=steps,
        assumptions=(*notes, *(estimate_notes(server.request, typical.values()) if server.tables.basis != "bound" else ())),
        replications=intervals(figures) if len(runs) > 1 else None,
        pools=tuple(_pool(pool, means) for pool in server.pools),
        transfer=_transfer(server, runs, means),
        goodput_per_gpu=(means["goodput"] or 0.0) / server.devices if slo and server.pools else None,
    )


def _named(figures: Mapping[str, float | None], prefix: str) -> dict[str, float | None]:
    return {name.removeprefix(prefix): value for name, value in figures.items() if name.startswith(prefix)}


def _fleet(server: ServerConfig, means: Mapping[str, float | None]) -> dict[str, Any] | None:
    """The settings and figures of a fleet that changes; its cost, where the price of its devices is known."""
    config = server.fleet
    if config is None:
        return None
    figures = _named(means, "fleet.")
    prices = load_prices()
    price, hours = prices.of(server.request.hardware), figures["gpu_hours"] or 0.0
    cost = None
    if price is not None:
        rates = {"value": price.per_hour(), "low": price.low, "high": price.high}
        cost = {"currency": price.currency, **{name: rate * hours for name, rate in rates.items()}}
    return {
        "autoscale": None if config.autoscale is None else config.autoscale.to_dict(),
        "failures": None if config.failures is None else config.failures.to_dict(),
        **figures, "cost": cost,
    }  # fmt: skip


def _speculative(server: ServerConfig, runs: Sequence[Run]) -> dict[str, Any] | None:
    """Rounds and tokens of speculative decoding, mean over runs."""
    speculation = server.speculation
    if speculation is None:
        return None
    rounds, accepted = (
        sum(values) / len(runs) for values in zip(*((r.num_rounds, r.num_accepted_tokens) for r in runs), strict=True)
    )
    drafted = rounds * speculation.options.tokens
    return {
        "method": speculation.options.method, "draft": speculation.draft.name,
        "num_speculative_tokens": speculation.options.tokens, "acceptance": speculation.options.acceptance,
        "rounds": rounds, "drafted_tokens": drafted, "accepted_tokens": accepted,
        "mean_acceptance_length": 1 + accepted / rounds if rounds else None,
        "accepted_share": accepted / drafted if drafted else None,
    }  # fmt: skip


def _pool(pool: Pool, means: Mapping[str, float | None]) -> dict[str, Any]:
    """A pool of replicas, with what it did."""
    server, about = pool.server, facts(pool.server.request)
    return {
        "name": pool.name, "role": pool.role, "hardware": about["hardware"], "deployment": about["deployment"],
        "replicas": server.replicas, "devices": server.replicas * server.request.deployment.devices,
        "server": _server(server),
        "utilisation": {name: means[f"pools.{pool.name}.{name}"] for name in ("steps", "compute", "memory", "kv")},
        "running": means[f"pools.{pool.name}.running"], "waiting": means[f"pools.{pool.name}.waiting"],
    }  # fmt: skip


def _transfer(server: ServerConfig, runs: Sequence[Run], means: Mapping[str, float | None]) -> dict[str, Any] | None:
    """The caches that were sent, of several runs together."""
    transfer, sums = server.transfer, [one.transfers for one in runs if one.transfers is not None]
    if transfer is None or not sums:
        return None
    for other in sums[1:]:
        sums[0].merge(other)
    times = {f"{name}_s": Latency.of(one).to_dict() for name, one in sums[0].times.items()}
    for one in times.values():
        del one["confidence"]
    return {
        "links": list(transfer.links), "bandwidths": list(transfer.rates), "latency_s": transfer.latency,
        "first_token": transfer.first_token, "transfers": int(sums[0].times["link"].weight),
        "bytes_per_device": sums[0].num_bytes,
        **{name: means[f"transfer.{name}"] for name in ("sender_utilisation", "receiver_utilisation")}, **times,
    }  # fmt: skip


def _server(server: ServerConfig) -> dict[str, Any]:
    """Settings of a server."""
    return {
        "scheduler": server.scheduler.name,
        "replicas": server.replicas,
        "router": server.router,
        "attention_dp_balance": server.attention_dp_balance,
        "preemption": server.preemption.mode,
        "admission": server.admission.text,
        "basis": server.tables.basis,
        "blocks": server.config.num_gpu_blocks,
        "block_size": server.config.block_size,
        "max_num_seqs": server.config.max_num_seqs,
        "max_num_batched_tokens": server.config.max_num_batched_tokens,
        "stepwise": server.stepwise,
    }


def _classes(workload: Workload, runs: Sequence[Run], *, slo: bool) -> tuple[dict[str, Any], ...]:
    """What the requests of each class of several runs had."""
    whole = merged([one.metrics.counted for one in runs])
    classes = []
    for index, one in enumerate(workload.classes):
        completed, good, within_ttft, within_tpot, ttft, e2e, tokens, failed, shed = whole.classes.get(
            index, [0.0] * len(OF_CLASS)
        )
        number = completed + failed + shed
        classes.append({
            "name": one.name, "completed": int(completed), "shed": int(shed),
            "within_slo": good / number if slo and number else None,
            "within_ttft": within_ttft / number if one.ttft and number else None,
            "within_tpot": within_tpot / (completed + failed) if one.tpot and completed + failed else None,
            "ttft_s": ttft / completed if completed else None,
            "e2e_s": e2e / completed if completed else None,
            "output_tokens_per_s": tokens / e2e if e2e else None,
        })  # fmt: skip
    return tuple(classes)


STARVED_MEDIANS = 10
"""A request is starved when it waits this many medians of TTFT, and `STARVED_BY` later ones are admitted before it."""


def _longest(workload: Workload, waits: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The longest of the waits of several runs."""
    known = [{"run": number, **wait} for number, wait in enumerate(waits) if wait is not None]
    if not known:
        return None
    longest = max(known, key=lambda wait: wait["seconds"])
    return {**longest, "class": workload.classes[longest["class"]].name}


def jain(shares: Sequence[float | None]) -> float | None:
    """Return Jain's fairness index of what each of several gets; None of fewer than two, or where none gets anything.

    Source: Jain, Chiu, Hawe 1984, A quantitative measure of fairness and discrimination, DEC TR-301.

    >>> jain([1.0, 1.0, 1.0]), jain([1.0, 0.0, 0.0, 0.0])
    (1.0, 0.25)
    """
    known = [one for one in shares if one is not None]
    squares = math.fsum(one**2 for one in known)
    return math.fsum(known) ** 2 / (len(known) * squares) if len(known) > 1 and squares else None


def changes(workload: Workload, server: ServerConfig) -> str:
    """Return what changes in the course of a run, so that it has no steady state; "" where nothing does."""
    if workload.changes:
        return "the load changes over the day"
    return "the number of replicas changes" if server.fleet is not None and server.fleet.autoscale is not None else ""


def _unsteady(workload: Workload, server: ServerConfig, saturated: bool, runs: Sequence[Run]) -> str:
    """Why latencies have no steady state; "" where they may have one."""
    if len(runs) == 1 and (why := changes(workload, server)):
        return f"{why}: --replications gives intervals"
    if any(one.stopped for one in runs):
        return "the run was interrupted"
    if saturated:
        return "saturated: latencies grow for as long as the run lasts"
    return "" if workload.closed or workload.rate is not None else "all requests come at once: there is no steady state"


def _of_slo(certainty: Confidence, rate: float) -> dict[str, Any]:
    share = certainty.within_slo
    goodput = share if share.low is None or share.high is None else Interval(share.low * rate, share.high * rate)
    return {"level": CONFIDENCE, "within_slo": share.to_dict(), "goodput": goodput.to_dict()}


def _share_cut(runs: Sequence[Run]) -> float:
    """Share of the requests that do not count."""
    return sum(one.num_warm_up for one in runs) / max(sum(one.num_arrived for one in runs), 1)


def _typical(server: ServerConfig, means: Mapping[str, float | None], gap: float | None, hit: float = 0.0) -> dict[str, Step]:
    """A mean prompt of each rank alone, a share of it cached, and the decode step of the sequences that run on average
    (Little's law), `gap` seconds after the one before, half of their output behind them."""
    rate, prompts, outputs = (means[f"throughput.{name}"] or 0.0 for name in ("requests_per_s", *_RATES[2:], _RATES[1]))
    if not rate or not prompts:
        return {}
    ranks = server.request.deployment.data_parallel_size
    serving = means.get("fleet.mean_serving") or server.replicas
    decoding = sum(pool.server.replicas for pool in server.pools if pool.role != "prefill") or serving
    # a gap is between the tokens of two rounds
    running = max(round(outputs * (gap or 0.0) / decoding / _tokens_per_step(server)), ranks)
    prompt = max(round(prompts / rate), 1)
    computing = server.pools[0].server.request.deployment.data_parallel_size if server.transfer else ranks
    return {
        "prefill": prefill(computing, prompt, cached_tokens(prompt, hit)),
        "decode": decode(running, prompt + round(outputs / rate / 2)),
    }


def _tokens_per_step(server: ServerConfig) -> float:
    """Mean tokens that a sequence gets per decode step."""
    return 1.0 if server.speculation is None else server.speculation.tokens


def _steps(server: ServerConfig, typical: Mapping[str, Step]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "batch": sequences(step), "new_tokens": tokens(step) * (server.tables.num_step_tokens if name == "decode" else 1),
            "cached_tokens": step[0].cached, "time_s": _step_time(server, name, step).to_dict(),
        }
        for name, step in typical.items()
    }  # fmt: skip


def _step_time(server: ServerConfig, name: str, step: Step) -> Duration:
    """The time of a mean prompt or decode step; with speculative decoding through the draft too, and of a round."""
    speculation = server.speculation
    if speculation is None:
        computes = server.request if server.transfer is None or name == "decode" else server.transfer.sender
        return pipeline(computes, step)
    return speculation.round(sequences(step), step[0].cached) if name == "decode" else speculation.prefill(step)


def _rates_interval(
    rates: dict[str, float], steps: dict[str, dict[str, Any]], server: ServerConfig
) -> dict[str, dict[str, float]] | None:
    """The interval of rates that the server sets: seconds of a request by its mean prompt and mean decode steps, at both
    ends of theirs, since all steps are off in the same direction."""
    if not steps or not rates["requests_per_s"]:
        return None
    outputs = rates["output_tokens_per_s"] / rates["requests_per_s"]
    took = dict.fromkeys(("estimate", "low", "high"), 0.0)
    for name, of_a_request in (("prefill", 1.0), ("decode", max(outputs - 1, 0.0) / _tokens_per_step(server))):
        for end in took:
            took[end] += steps[name]["time_s"][end] * of_a_request / steps[name]["batch"]
    ends = {"low": took["estimate"] / took["high"], "high": took["estimate"] / took["low"]}
    return {name: {end: rate * factor for end, factor in ends.items()} for name, rate in rates.items()}


def without_fit(request: ResolvedRequest, workload: Workload, notes: list[Assumption], why: str) -> Simulation:
    """Return the result without metrics of a deployment that does not fit; `why` says what does not."""
    about: dict[str, Any] = facts(request)
    return Simulation(
        inputs=_inputs(request.inputs, *(one.inputs for one in workload.classes)),
        **about,
        workload=_workload(workload, 0, 0.0),
        assumptions=tuple(notes),
        unfit=why,
    )


def intervals(runs: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    """Return the mean of each figure over runs, and the 95 % confidence interval of its expectation.

    By Student's t distribution with one degree of freedom less than runs. A figure that some run does not have is left out.

    Args:
        runs: figures by name, in base units, of at least two runs.

    Returns:
        `runs` and `confidence`, and `figures` with `mean`, `low` and `high` by name.

    Source: Law 2015, Simulation Modeling and Analysis, 5th edition, section 9.4.1.
    """
    num_runs = len(runs)
    factor = student_quantile(num_runs - 1) / math.sqrt(num_runs)
    figures: dict[str, Any] = {}
    for name in runs[0]:
        values = [value for one in runs if (value := one[name]) is not None]
        if len(values) < num_runs:
            continue
        mean = math.fsum(values) / num_runs
        half = factor * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (num_runs - 1))
        figures[name] = {"mean": mean, "low": mean - half, "high": mean + half}
    return {"runs": num_runs, "confidence": CONFIDENCE, "figures": figures}


def _figures(server: ServerConfig, workload: Workload, one: Run) -> dict[str, float | None]:
    """The figures of one run, by name."""
    metrics, counts = one.metrics, one.metrics.counted
    begin = min(one.first_arrival if not one.num_warm_up else metrics.after, metrics.last)
    duration = max(metrics.last - one.first_arrival, 0.0) if metrics.last else 0.0
    counted = max(metrics.last - begin, 1e-300)
    span = one.last_arrival - one.first_arrival
    fleet = None if one.fleet is None else one.fleet.figures(server.request.deployment.devices)
    replica_s = duration * server.replicas if fleet is None else (fleet["replica_hours"] or 0.0) * 3600
    device_s = replica_s * server.tables.ranks  # of a device of each rank
    figures: dict[str, float | None] = {
        "duration_s": duration,
        "offered_rate": (one.num_arrived - 1) / span if span > 0 and not workload.closed else None,
        "throughput.requests_per_s": counts.completed / counted,
        "throughput.output_tokens_per_s": counts.output_tokens / counted,
        "throughput.prompt_tokens_per_s": counts.prompt_tokens / counted,
        "goodput": counts.good / counted,
        "within_slo": counts.good / counts.ended if counts.ended else None,
        "utilisation.compute": metrics.utilized_s["matrix"] / device_s if device_s else None,
        "utilisation.memory": metrics.utilized_s["memory"] / device_s if device_s else None,
        "utilisation.kv": metrics.block_seconds / (device_s * server.config.num_gpu_blocks) if device_s else None,
    }
    if server.pools:
        figures |= _pool_figures(server, one, duration)
    figures["prefix_hit_rate"] = counts.cached_tokens / counts.prompt_tokens if counts.prompt_tokens else None
    figures |= _offload_figures(server, one, duration)
    figures |= {f"preemption.{name}": getattr(metrics, name) for name in COSTS}
    figures |= {f"fleet.{name}": value for name, value in (fleet or {}).items()}
    if one.lora is not None:
        figures |= {f"lora.{name}": value for name, value in one.lora.figures().items()}
        figures["preemption.swap_s"] = 0.0  # steps waited for adapters, and for no cache
    for name in TIMES:
        latency = Latency.of(counts.times[name])
        figures |= {f"{name}_s.{key}": getattr(latency, key) for key in ("mean", *QUANTILES)}
    return figures


_OF_TIER = (
    "loads", "loaded_tokens", "loaded_bytes", "stored_tokens", "stored_bytes", "mean_load_s", "mean_wait_s",
    "read_utilisation", "write_utilisation",
)  # fmt: skip


def _offload_figures(server: ServerConfig, one: Run, duration: float) -> dict[str, float | None]:
    """The figures of the KV cache tiers of one run, by name."""
    offload, counts = server.offload, one.metrics.counted
    if offload is None:
        return {}
    size, prompts = offload.block_size, counts.prompt_tokens
    loaded_of = {place: counts.loaded_tokens.get(place, 0.0) for place in range(len(offload.tiers))}
    sources = {
        "device": counts.cached_tokens - sum(loaded_of.values()),
        **{tier.name: loaded_of[place] for place, tier in enumerate(offload.tiers)},
        "computed": prompts - counts.cached_tokens,
    }
    figures = {f"kv_offload.prompt_tokens.{name}": tokens / prompts if prompts else None for name, tokens in sources.items()}
    figures["kv_offload.declined_tokens"] = float(size * sum(each.num_declined for each in one.tiers))
    for place, config in enumerate(offload.tiers):
        tiers = list({id(each.tiers[place]): each.tiers[place] for each in one.tiers}.values())
        loads, link_s = sum(tier.num_loads for tier in tiers), duration * len(tiers)
        loaded, stored = sum(tier.num_blocks_loaded for tier in tiers), sum(tier.num_blocks_stored for tier in tiers)
        values = (
            loads, loaded * size, loaded * config.block_bytes, stored * size, stored * config.block_bytes,
            sum(tier.load_s for tier in tiers) / loads if loads else None,
            sum(tier.wait_s for tier in tiers) / loads if loads else None,
            *(
                sum(link.seconds_until(one.metrics.last) for link in links) / link_s if link_s else None
                for links in ([tier.reads for tier in tiers], [tier.writes for tier in tiers])
            ),
        )  # fmt: skip
        figures |= {f"kv_offload.{config.name}.{name}": value for name, value in zip(_OF_TIER, values, strict=True)}
    return figures


def _offload(server: ServerConfig, means: Mapping[str, float | None]) -> dict[str, Any] | None:
    """What became of the KV cache tiers, from the means over runs."""
    offload = server.offload
    if offload is None:
        return None
    sources = ("device", *(tier.name for tier in offload.tiers), "computed")
    return {
        "load": "always" if offload.always else "cheaper",
        "prompt_tokens": {name: means[f"kv_offload.prompt_tokens.{name}"] for name in sources},
        "declined_tokens": means["kv_offload.declined_tokens"],
        "tiers": [
            {
                "name": tier.name, "shared": tier.shared, "capacity_bytes": tier.num_blocks * tier.block_bytes,
                "capacity_tokens": tier.num_blocks * offload.block_size,
                "read_bandwidth": tier.block_bytes / tier.read.block, "write_bandwidth": tier.block_bytes / tier.write.block,
                "latency_s": tier.latency + tier.read.setup,
                "hit_rate": means[f"kv_offload.prompt_tokens.{tier.name}"],
                **{name: means[f"kv_offload.{tier.name}.{name}"] for name in _OF_TIER},
            }
            for tier in offload.tiers
        ],
    }  # fmt: skip


def _pool_figures(server: ServerConfig, one: Run, duration: float) -> dict[str, float | None]:
    """Figures of each pool of a run, of the links between them, and of all devices together."""
    figures: dict[str, float | None] = {}
    whole = dict.fromkeys(("compute", "memory", "kv"), 0.0)
    for pool, sums in zip(server.pools, one.pools, strict=True):
        part = pool.server
        ranks_s = duration * part.replicas * part.tables.ranks
        used = {
            "steps": sums.step_s, "compute": sums.utilized_s["matrix"], "memory": sums.utilized_s["memory"],
            "kv": sums.block_seconds / part.config.num_gpu_blocks,
        }  # fmt: skip
        shares = {name: seconds / ranks_s if ranks_s else None for name, seconds in used.items()}
        figures |= {f"pools.{pool.name}.{name}": share for name, share in shares.items()}
        step_s = sums.step_s / part.replicas / part.tables.ranks
        for name, total in (("running", sums.running_s), ("waiting", sums.waiting_s)):
            figures[f"pools.{pool.name}.{name}"] = total / step_s if step_s else 0.0
        devices = part.replicas * part.request.deployment.devices
        for name in whole:
            whole[name] += (shares[name] or 0.0) * devices / server.devices
    figures |= {f"utilisation.{name}": share if duration else None for name, share in whole.items()}
    if one.transfers is not None:
        link_s = one.transfers.times["link"].total
        for name, pool in (("sender_utilisation", server.pools[0]), ("receiver_utilisation", server.pools[1])):
            ranks_s = duration * pool.server.replicas * pool.server.tables.ranks
            figures[f"transfer.{name}"] = link_s / ranks_s if ranks_s else None
    return figures


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def is_saturated(workload: Workload, one: Run) -> bool:
    """Whether more requests arrived in a run than were served."""
    return (
        not workload.closed
        and one.last_arrival > one.first_arrival
        and one.metrics.saturated(one.first_arrival, one.last_arrival)
    )


def _files(workload: Workload, server: ServerConfig) -> Iterator[tuple[Input, ...]]:
    """Files of the workload, of the fleet and of the KV cache tiers."""
    yield from (one.inputs for one in workload.classes)
    if server.offload is not None:
        yield server.offload.inputs
    settings = () if server.fleet is None else (server.fleet.autoscale, server.fleet.failures)
    for one in (workload.profile, *settings):
        if one is not None and one.source is not None:
            yield (one.source,)


def _inputs(*parts: Iterable[Input]) -> dict[str, Any]:
    """Files that were read, by role."""
    files: dict[str, Any] = {}
    for entry in chain(*parts):
        files.setdefault(entry.role, {"name": entry.name, "path": entry.path, "sha256": entry.sha256})
    return files


def _workload(workload: Workload, seed: int, warm_up_share: float) -> dict[str, Any]:
    counted = workload.warm_up and workload.requests
    return {
        "source": workload.source,
        "rate": workload.rate,
        "clients": sum(one.clients for one in workload.clients) or None,
        "requests": workload.requests,
        "until_s": None if workload.until == math.inf else workload.until,
        "profile": None if workload.profile is None else list(workload.profile.factors),
        "seed": seed,
        "warm_up": workload.warm_up / counted if counted else warm_up_share,
        "classes": [
            {
                "name": one.name, "input_len": str(one.input_len), "output_len": str(one.output_len),
                "mean_input": one.input_len.mean, "mean_output": one.output_len.mean, "ttft_s": one.ttft, "tpot_s": one.tpot,
                "prefix_hit": one.mean_hit, "percentile": one.percentile,
                "conversation": None if one.conversation is None else one.conversation.to_dict(),
            }
            for one in workload.classes
        ],
    }  # fmt: skip
