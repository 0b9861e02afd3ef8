"""From replicas that were sized to answers: how many, what they cost, what users see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline.formatting import percent
from roofline.predict.request import Request
from roofline.serving.planning.candidate import Candidate, Cost, Pool, Power
from roofline.serving.planning.closed import Turn, turn
from roofline.serving.planning.energy import watts
from roofline.serving.planning.engines import engines
from roofline.serving.planning.engines.base import Start
from roofline.serving.planning.expected import Expected, expected
from roofline.serving.planning.question import Question
from roofline.serving.planning.search import Option
from roofline.serving.planning.sizing import Role, Sized
from roofline.serving.queueing.replica import BOUND
from roofline.specs.workload import decode

_TINY = 1e-9
_BUSY = 0.75  # docs/capacity.md, errors by utilisation
_APART: tuple[Role, ...] = ("prefill", "decode")
_CLIENTS = 24  # numbers of replicas that are tried for a closed loop


@dataclass(frozen=True)
class Draft:
    """So many replicas (spares not counted) of one or two sized ones: what is needed to rank them."""

    option: Option
    parts: tuple[tuple[str, Sized, int], ...]
    """Role, replica, how many."""
    spare: int
    seen: Turn | None = None
    others: tuple[Option, ...] = ()
    """Options that the parts are of, where they differ."""

    @property
    def devices(self) -> int:
        """Of all replicas, spares included."""
        return sum(one.replica.request.deployment.devices * (many + self.spare) for _, one, many in self.parts)

    @property
    def rate(self) -> float:
        """Requests a second at which the first part breaks, spares not counted."""
        return min(one.most * many for _, one, many in self.parts)


def drafts(question: Question, found: Sequence[Option]) -> list[Draft]:
    """Every way that meets the objectives, whatever it costs."""
    if question.load.concurrency is not None:
        return [draft for option in found if (draft := _closed(question, option)) is not None]
    rate = question.load.rate
    assert rate is not None  # noqa: S101 - a load has either a rate or clients
    together = [
        Draft(option, (("both", one, _needed(rate, one)),), question.spare)
        for option in found if (one := option.sized.get("both")) is not None and one.most > 0
    ]  # fmt: skip
    return together + list(_apart(question, found, rate))


def _needed(rate: float, one: Sized) -> int:
    return max(math.ceil(rate / one.most * (1 - _TINY)), 1)


def _apart(question: Question, found: Sequence[Option], rate: float) -> Iterable[Draft]:
    """Pools of prompts and of answers on one kind of hardware in one precision: of each the one with fewest devices."""
    groups: dict[tuple[str, str], list[Option]] = {}
    for option in found:
        groups.setdefault((option.hardware.name, option.precision), []).append(option)
    for options in groups.values():
        chosen: list[tuple[Option, str, Sized, int]] = []
        for role in _APART:
            able = [
                (option, one, _needed(rate, one)) for option in options
                if (one := option.sized.get(role)) is not None and one.most > 0
            ]  # fmt: skip
            if able:
                option, one, many = min(able, key=lambda each: ((each[2] + question.spare) * each[0].devices, each[0].devices))
                chosen.append((option, role, one, many))
        if len(chosen) == 2:
            option = chosen[1][0]
            parts = tuple((role, one, many) for _, role, one, many in chosen)
            yield Draft(option, parts, question.spare, others=tuple(each[0] for each in chosen))


def _closed(question: Question, option: Option) -> Draft | None:
    """The fewest replicas among which the clients are within the objectives."""
    load, one = question.load, option.sized.get("both")
    if one is None or load.concurrency is None:
        return None
    clients, most = load.concurrency, min(load.concurrency, _affordable(question, option))
    tried = sorted({max(round(most ** (step / _CLIENTS)), 1) for step in range(_CLIENTS + 1)} | {1, 2, 3})
    before = 0
    for replicas in (many for many in tried if many <= most):
        if not turn(one, load, clients / replicas).misses(load):
            low, high = before, replicas
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if turn(one, load, clients / middle).misses(load) else (low, middle)
            return Draft(option, (("both", one, high),), question.spare, seen=turn(one, load, clients / high))
        before = replicas
    return None


def _affordable(question: Question, option: Option) -> int:
    """Replicas that the devices are enough for."""
    return max(question.devices(option.hardware) // option.devices - question.spare, 1)


def cost_per_hour(question: Question, draft: Draft) -> float | None:
    """Of all devices; None where the price is not known."""
    price = question.prices.of(draft.option.hardware)
    return None if price is None else price.value * draft.devices


def candidate(question: Question, draft: Draft) -> Candidate:
    """A draft with all that is told of it."""
    seen, rate, mean_rate = _seen(question, draft)
    pools = tuple(_pool(question, draft, index, seen) for index in range(len(draft.parts)))
    load, hardware = question.load, draft.option.hardware
    outputs, inputs = mean_rate * load.mean_output, mean_rate * load.mean_input
    drawn = watts(hardware, draft.devices)
    closed = draft.seen is not None
    return Candidate(
        hardware=hardware.name,
        title=hardware.title if hardware.node is None else f"{hardware.accelerator.title} of {hardware.title}",
        mode="colocated" if len(pools) == 1 else "disaggregated",
        precision=draft.option.precision,
        pools=pools,
        expected=seen,
        requests_per_s=rate,
        output_tokens_per_s=rate * load.mean_output,
        input_tokens_per_s=rate * load.mean_input,
        cost=_cost(question, draft, seen, inputs, outputs),
        power=Power(drawn, None if drawn is None or not outputs else drawn * question.pue / outputs, question.pue),
        headroom=None if closed else draft.rate / rate - 1,
        breaks_at=None if closed else draft.rate,
        basis=draft.parts[0][1].replica.basis,
        notes=tuple(_notes(question, draft, seen)),
    )


def _seen(question: Question, draft: Draft) -> tuple[Expected, float, float]:
    """What users see; requests a second at the peak, and on average."""
    if draft.seen is not None:
        rate = draft.seen.rate * draft.parts[0][2]
        return draft.seen.expected, rate, rate
    rate, mean = question.load.rate or 0.0, question.load.mean_rate or 0.0
    first, later = draft.parts[0], draft.parts[-1]
    rates = (rate / (first[2] + draft.spare), rate / (later[2] + draft.spare))
    after = draft.others[0].after_s if draft.others else ()
    return expected(first[1], later[1], question.load, rates, after), rate, mean


def _cost(question: Question, draft: Draft, seen: Expected, inputs: float, outputs: float) -> Cost:
    price = question.prices.of(draft.option.hardware)
    if price is None:
        return Cost(None, None, None, None, None, None, None, None)
    devices = draft.devices
    hour = price.value * devices
    per_second = hour / 3600
    share = seen.prompt_share
    if len(draft.parts) == 2:
        of_prompts = draft.parts[0][1].replica.request.deployment.devices * (draft.parts[0][2] + draft.spare)
        share = of_prompts / devices
    return Cost(
        per_hour=hour,
        low=price.low * devices,
        high=price.high * devices,
        input=per_second * share / inputs * 1e6 if inputs else None,
        output=per_second * (1 - share) / outputs * 1e6 if outputs else None,
        total=per_second / (inputs + outputs) * 1e6,
        currency=price.currency,
        price=price.describe(),
        scaled_per_hour=_scaled(question, draft, price.value),
    )


def _scaled(question: Question, draft: Draft, hour: float) -> float | None:
    """The mean of an hour with as many replicas as each part of the day needs."""
    profile, mean = question.traffic.profile, question.load.mean_rate
    if profile is None or mean is None:
        return None
    devices = [
        sum((_needed(mean * factor, one) + draft.spare) * one.replica.request.deployment.devices for _, one, _ in draft.parts)
        for factor in profile.factors
    ]
    return hour * sum(devices) / len(devices)


def _pool(question: Question, draft: Draft, index: int, seen: Expected) -> Pool:
    role, one, many = draft.parts[index]
    option = draft.others[index] if draft.others else draft.option
    request = one.replica.request
    pool = role if role != "both" else None
    hits = any(service.mix.hit > 0 for service in question.load.services)
    start = Start(request=_for_flags(request, one.slots), longest=option.longest, pool=pool, prefix_caching=hits)
    lines = {engine.label(request): flags for engine in engines() if (flags := engine.flags(start)) is not None}
    return Pool(
        role=role,
        replicas=many + draft.spare,
        spare=draft.spare,
        devices=request.deployment.devices,
        deployment=deployment(request, option, one),
        engine_flags=lines,
        max_rate=one.most,
        binds=one.binds,
        running=0.0 if role == "prefill" else seen.running,
    )


def _for_flags(request: Request, slots: int) -> Request:
    batch = slots * request.deployment.data_parallel_size
    return replace(request, workload=replace(request.workload, batch=batch, steps=(("decode", decode(batch, 1)),)))


def deployment(request: Request, option: Option, one: Sized) -> dict[str, Any]:
    """The deployment in the words of `analyze`, as its options take it; with what memory holds of requests of mean length."""
    found = request.deployment
    return {
        "weight_dtype": request.precision.dtypes("linear").weight.name,
        "activation_dtype": request.precision.activation.name,
        "kv_dtype": request.precision.kv.name,
        "quantization": found.quantization,
        "tensor_parallel": found.tensor_parallel_size,
        "pipeline_parallel": found.pipeline_parallel_size,
        "data_parallel": found.data_parallel_size,
        "expert_parallel": found.expert_parallel_size,
        "context_parallel": found.context_parallel_size,
        "max_num_seqs": one.slots,
        "max_num_batched_tokens": one.budget,
        "max_model_len": option.longest,
        "gpu_memory_utilization": request.memory.utilization,
        "block_size": request.memory.block_size,
        "engine": f"{request.engine.name}@{request.engine.version}",
        "backend": found.backend,
    }


def _notes(question: Question, draft: Draft, seen: Expected) -> Iterable[str]:
    option, load = draft.option, question.load
    if draft.parts[0][1].replica.basis == BOUND:
        name = option.hardware.accelerator.name
        yield f"times are bounds, which no kernel is quicker than: kernels of {name} were not measured"
    if seen.utilisation > _BUSY and load.concurrency is None:
        yield f"beyond {percent(_BUSY, 0)} of the rate that saturates, waits may be up to a quarter longer than told"
    if option.precision == "fp8" and not question.model.quantization and "quantization" not in question.fixed:
        yield "fp8 weights are not what the model's file has: check the quality of the answers"
    longest = load.beyond if load.beyond is not None else load.longest
    if longest > option.longest:
        yield f"requests of more than {option.longest:,} tokens are refused by --max-model-len"
    if draft.others:
        from roofline.serving.planning.pools import way

        road = way(option.hardware)
        assert road is not None  # noqa: S101 - pools apart are only tried where there is one
        yield f"caches move over {road[0]} at {road[1] / 1e9:g} GB/s a device"
