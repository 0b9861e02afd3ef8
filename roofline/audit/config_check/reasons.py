"""Findings as sentences: what is wrong by how much, and the flag to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofline import formatting
from roofline.audit.config_check.deployment import CheckedDeployment
from roofline.audit.config_check.findings import Finding, LoadFindings, ReplicaCapacity
from roofline.formatting import percent, plural
from roofline.serving.planning.load import TTFT, Load
from roofline.serving.planning.search import MAX_SLOTS

_GIB = 2**30
_TIMES = ("ttft", "tpot")
_FASTER = "a larger {tp}, weights of fewer bytes or faster hardware makes each step shorter"


@dataclass(frozen=True)
class CheckContext:
    """What the sentences about findings are made from.

    Attributes:
        deployment: what was checked.
        capacity: what one replica holds.
        under_load: findings for any number of replicas; None where the engine does not start.
        serving: number of replicas without spares.
    """

    deployment: CheckedDeployment
    capacity: ReplicaCapacity
    under_load: LoadFindings | None
    serving: int

    @property
    def load(self) -> Load:
        """The load that the deployment serves."""
        return self.deployment.query.load


def finding_sentences(context: CheckContext, findings: tuple[Finding, ...]) -> Iterator[str]:
    """Yield a sentence for each finding that is not met, missed ones first; then remarks, such as on flags not understood."""
    for verdict in ("missed", "at risk"):
        for finding in findings:
            if finding.verdict == verdict and not _is_repetition(finding, findings):
                yield _sentence(context, finding)
    yield from _remarks(context, findings)


def _is_repetition(finding: Finding, findings: tuple[Finding, ...]) -> bool:
    """Whether a time without end only repeats that the replicas are saturated."""
    missed = (one for one in findings if one.objective == "utilisation" and one.verdict == "missed")
    saturated = next(missed, None)
    if saturated is None or finding.objective not in _TIMES:
        return False
    return finding.expected is None and finding.replicas == saturated.replicas


def _sentence(context: CheckContext, finding: Finding) -> str:
    if finding.objective in _TIMES:
        return _time(context, finding)
    if finding.objective == "utilisation":
        return _utilization(context, finding)
    return {
        "memory": _memory, "start": _start, "gpus": _gpus, "length": _length, "max_gpus": _devices, "inventory": _devices,
        "max_cost": _cost,
    }[finding.objective](context, finding)  # fmt: skip


def _memory(context: CheckContext, finding: Finding) -> str:
    deployment, capacity = context.deployment, context.capacity
    more = f"a larger {deployment.flag('tensor_parallel_size')}, weights of fewer bytes or larger devices"
    gib = capacity.budget_bytes / _GIB
    if capacity.weights_bytes >= capacity.budget_bytes or capacity.held < 1:
        return f"it does not fit: weights take {capacity.weights_bytes / _GIB:.1f} GiB of the {gib:.1f} GiB of a device: {more}"
    if capacity.starts:
        mean = context.load.mean_input + context.load.mean_output
        return f"memory holds no request of mean length, {mean:,.0f} tokens: {more}"
    flag = deployment.flag("max_model_len")
    written = "max_model_len" in deployment.places
    what = f"{flag} {capacity.longest}" if written else f"the model's {capacity.longest:,} tokens, which no {flag} shortens,"
    return f"one request of {what} does not fit, and the engine refuses to start: at most {capacity.held:,}"


def _start(context: CheckContext, finding: Finding) -> str:
    deployment = context.deployment
    flag, budget = deployment.flag("max_num_batched_tokens"), f"{finding.limit:.0f}"
    if finding.expected == deployment.max_num_seqs:
        sequences = f"{deployment.flag('max_num_seqs')} {deployment.max_num_seqs}"
        return f"{flag} {budget} is less than {sequences}: the engine refuses to start"
    longest = f"the {context.capacity.longest:,} tokens of {deployment.flag('max_model_len')}"
    return f"{flag} {budget} is less than {longest}, and without chunked prefill the engine refuses to start"


def _gpus(context: CheckContext, finding: Finding) -> str:
    return (
        f"{_sizes(context)} takes {plural(finding.expected or 0, 'GPU')} per replica, and "
        f"{context.deployment.launch.where} has {finding.limit:.0f}"
    )


def _sizes(context: CheckContext) -> str:
    names = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    sizes_of, deployment = context.capacity.request.deployment, context.deployment
    sizes = [f"{deployment.flag(name)} {size}" for name in names if (size := getattr(sizes_of, name)) > 1]
    return " with ".join(sizes) or "one device"


def _length(context: CheckContext, finding: Finding) -> str:
    load, deployment = context.load, context.deployment
    flag = deployment.flag("max_model_len")
    longest = min(load.longest if load.beyond is None else load.beyond, deployment.query.model.max_position_embeddings)
    share, allowed = (f"{100 * (value or 0):.3g} %" for value in (finding.expected, finding.limit))
    limit = f"the {context.capacity.longest:,} tokens of {flag}"
    return (
        f"{share} of the requests{_class(context, finding)} have more than {limit} and are refused "
        f"({allowed} may miss their objectives): {flag} {longest} takes them"
    )


def _devices(context: CheckContext, finding: Finding) -> str:
    allowed = "--max-gpus is" if finding.objective == "max_gpus" else "--inventory has"
    replicas = plural(context.deployment.replicas, "replica")
    hardware = context.deployment.query.hardware[0].name
    return f"{replicas} take {finding.expected:.0f} x {hardware}, and {allowed} {finding.limit:.0f}"


def _cost(context: CheckContext, finding: Finding) -> str:
    price = context.deployment.query.prices.of(context.deployment.query.hardware[0])
    unit = price.currency if price is not None else ""
    hour = f"an hour takes {finding.expected:,.2f} {unit} ({finding.low:,.2f} to {finding.high:,.2f})"
    if finding.verdict == "missed":
        return f"{hour}, and --max-cost is {finding.limit:,.2f}"
    return f"{hour}: the upper end of the prices is beyond --max-cost {finding.limit:,.2f}"


def _at(context: CheckContext) -> str:
    """`at 4 requests/s per replica`."""
    if context.load.concurrency is not None:
        return f"with {context.load.concurrency / context.serving:.4g} clients per replica"
    return f"at {(context.load.rate or 0) / context.serving:.4g} requests/s per replica"


def _class(context: CheckContext, finding: Finding) -> str:
    return f" of {finding.of}" if finding.of is not None and len(context.load.services) > 1 else ""


def _remedy(context: CheckContext, finding: Finding) -> str:
    """How many replicas would do."""
    if finding.replicas is not None:
        spare = f" and {context.deployment.query.spare} spare" if context.deployment.query.spare else ""
        return f": {plural(finding.replicas, 'replica')}{spare} would do ({context.serving:,} now)"
    return ""


def _utilization(context: CheckContext, finding: Finding) -> str:
    assert context.under_load is not None and finding.expected is not None  # noqa: S101, PT018 - a finding of the load
    capacity = (context.load.rate or 0.0) / finding.expected
    if finding.verdict == "missed":
        return (
            f"{context.load.rate:.4g} requests/s are more than the {capacity:.4g} that saturate the replicas"
            f"{_remedy(context, finding)}"
        )
    return (
        f"the load is {percent(finding.expected, 0)} of the rate that saturates the replicas ({capacity:.4g} requests/s): "
        "at a slightly higher load, or with steps at the slow end of their interval, the queue grows without limit"
    )


def _time(context: CheckContext, finding: Finding) -> str:
    assert context.under_load is not None and finding.limit is not None and finding.percentile is not None  # noqa: S101, PT018
    name = f"{finding.objective.upper()} p{finding.percentile * 100:g}{_class(context, finding)}"
    limit = formatting.seconds(finding.limit)
    took = "" if finding.expected is None else formatting.seconds(finding.expected)
    if finding.verdict == "at risk":
        if not context.under_load.measured:
            hardware = context.deployment.query.hardware[0].name
            return (
                f"{name} {took} is within {limit}, but is a bound: no kernels were measured on {hardware} or on what is like it"
            )
        surer = ""
        if (count := _surely(context, finding)) is not None:
            surer = f"; with {plural(count, 'replica')} it is met over the whole interval"
        slow = "the queue grows without limit" if finding.high is None else f"it is {formatting.seconds(finding.high)}"
        return f"{name} {took} is within {limit} {_at(context)}, but at the slow end of the estimate's interval {slow}{surer}"
    least = "" if context.under_load.measured else " at the least"
    text = f"{name} {took}{least} is over {limit} {_at(context)}"
    if finding.expected is None:
        text = f"{name} grows without limit {_at(context)}, and the objective is {limit}"
    if finding.replicas is not None:
        return text + _remedy(context, finding) + _slots(context, finding)
    alone = _alone(context, finding)
    faster = _FASTER.format(tp=context.deployment.flag("tensor_parallel_size"))
    return f"{text}: more replicas do not help, as it is {alone} with almost no load; {faster}"


def _surely(context: CheckContext, finding: Finding) -> int | None:
    """The fewest replicas with which an objective is met with the whole band."""
    assert context.under_load is not None  # noqa: S101 - a finding of the load

    def sure(findings: tuple[Finding, ...]) -> bool:
        return all(one.verdict == "met" for one in findings if (one.objective, one.of) == (finding.objective, finding.of))

    return context.under_load.min_replicas(sure, context.serving)


def _alone(context: CheckContext, finding: Finding) -> str:
    assert context.under_load is not None  # noqa: S101 - a finding of the load
    findings = context.under_load.findings(context.under_load.max_replicas)
    alone = next(one for one in findings if (one.objective, one.of) == (finding.objective, finding.of))
    return "without end" if alone.expected is None else formatting.seconds(alone.expected)


def _slots(context: CheckContext, finding: Finding) -> str:
    """That requests wait for a slot which memory has and the engine does not use."""
    deployment, capacity, under_load = context.deployment, context.capacity, context.under_load
    if finding.objective != TTFT or under_load is None or deployment.max_num_seqs >= capacity.slots:
        return ""
    waited = under_load.slot_wait(context.serving)
    if waited is not None and (finding.expected is None or waited < finding.expected / 4):
        return ""
    long = "without end" if waited is None else f"{formatting.quantity(waited, 's', 2)} on average"
    slots = f"the {deployment.max_num_seqs:,} slots of {deployment.flag('max_num_seqs')}"
    return f"; requests wait {long} for one of {slots}, and memory holds {_held(capacity.slots)}"


def _held(slots: int) -> str:
    return f"{slots:,} or more" if slots >= MAX_SLOTS else f"{slots:,}"


def _remarks(context: CheckContext, findings: tuple[Finding, ...]) -> Iterator[str]:
    deployment, capacity = context.deployment, context.capacity
    if "max_num_seqs" in deployment.places and 0 < capacity.slots < min(deployment.max_num_seqs, MAX_SLOTS):
        flag = deployment.flag("max_num_seqs")
        ranks = " per rank" if capacity.request.deployment.data_parallel_size > 1 else ""
        yield f"{flag} {deployment.max_num_seqs} never fills: memory holds {capacity.slots:,} requests of mean length{ranks}"
    gpus = next((one for one in findings if one.objective == "gpus"), None)
    if gpus is not None and gpus.verdict == "met" and (gpus.limit or 0) > (gpus.expected or 0):
        yield (
            f"{deployment.launch.where} has {gpus.limit:.0f} GPUs, and {_sizes(context)} uses {gpus.expected:.0f} of them: "
            f"raise {deployment.flag('tensor_parallel_size')}, or ask for fewer"
        )
    yield from deployment.notes
    if deployment.unknown:
        yield f"not understood, and left out: {', '.join(deployment.unknown)}"
