"""Findings as sentences: what is wrong by how much, and the flag to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofline import formatting
from roofline.audit.config_check.result import Finding
from roofline.audit.config_check.standing import Standing
from roofline.audit.config_check.subject import Subject
from roofline.audit.config_check.under_load import TTFT, UnderLoad
from roofline.formatting import percent, plural
from roofline.serving.planning.load import Load
from roofline.serving.planning.search import MAX_SLOTS

_GIB = 2**30
_TIMES = ("ttft", "tpot")
_FASTER = "a larger {tp}, weights of fewer bytes or faster hardware makes each step shorter"


@dataclass(frozen=True)
class Case:
    """What sentences are made of. `serving`: the replicas that are counted on, spares left out."""

    subject: Subject
    stands: Standing
    loaded: UnderLoad | None
    serving: int

    @property
    def load(self) -> Load:
        """What is served."""
        return self.subject.question.load


def sentences(case: Case, findings: tuple[Finding, ...]) -> Iterator[str]:
    """A sentence for each that is not met, those that are missed first; then what else should be known."""
    for verdict in ("missed", "at risk"):
        for finding in findings:
            if finding.verdict == verdict and not _said_already(finding, findings):
                yield _sentence(case, finding)
    yield from _remarks(case, findings)


def _said_already(finding: Finding, findings: tuple[Finding, ...]) -> bool:
    """Whether a time without end says no more than that the replicas are saturated."""
    busy = next((one for one in findings if one.objective == "utilisation" and one.verdict == "missed"), None)
    return busy is not None and finding.objective in _TIMES and finding.expected is None and finding.replicas == busy.replicas


def _sentence(case: Case, finding: Finding) -> str:
    if finding.objective in _TIMES:
        return _time(case, finding)
    if finding.objective == "utilisation":
        return _busy(case, finding)
    return {
        "memory": _memory, "start": _start, "gpus": _gpus, "length": _length, "max_gpus": _devices, "inventory": _devices,
        "max_cost": _cost,
    }[finding.objective](case, finding)  # fmt: skip


def _memory(case: Case, finding: Finding) -> str:
    subject, stands = case.subject, case.stands
    more = f"a larger {subject.flag('tensor_parallel_size')}, weights of fewer bytes or larger devices"
    gib = stands.budget_bytes / _GIB
    if stands.weights_bytes >= stands.budget_bytes or stands.held < 1:
        return f"it does not fit: weights take {stands.weights_bytes / _GIB:.1f} GiB of the {gib:.1f} GiB of a device: {more}"
    if stands.starts:
        mean = case.load.mean_input + case.load.mean_output
        return f"memory holds no request of mean length, {mean:,.0f} tokens: {more}"
    flag = subject.flag("max_model_len")
    written = "max_model_len" in subject.places
    what = f"{flag} {stands.longest}" if written else f"the model's {stands.longest:,} tokens, which no {flag} shortens,"
    return f"one request of {what} does not fit, and the engine refuses to start: at most {stands.held:,}"


def _start(case: Case, finding: Finding) -> str:
    subject = case.subject
    flag, budget = subject.flag("max_num_batched_tokens"), f"{finding.limit:.0f}"
    if finding.expected == subject.seats:
        return f"{flag} {budget} is less than {subject.flag('max_num_seqs')} {subject.seats}: the engine refuses to start"
    return (
        f"{flag} {budget} is less than the {case.stands.longest:,} tokens of {subject.flag('max_model_len')}, and without "
        "chunked prefill the engine refuses to start"
    )


def _gpus(case: Case, finding: Finding) -> str:
    return (
        f"{_sizes(case)} takes {plural(finding.expected or 0, 'GPU')} a replica, and "
        f"{case.subject.run.where} has {finding.limit:.0f}"
    )


def _sizes(case: Case) -> str:
    names = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    deployment, subject = case.stands.request.deployment, case.subject
    sizes = [f"{subject.flag(name)} {size}" for name in names if (size := getattr(deployment, name)) > 1]
    return " with ".join(sizes) or "one device"


def _length(case: Case, finding: Finding) -> str:
    load, subject = case.load, case.subject
    flag = subject.flag("max_model_len")
    longest = min(load.longest if load.beyond is None else load.beyond, subject.question.model.max_position_embeddings)
    share, allowed = (f"{100 * (value or 0):.3g} %" for value in (finding.expected, finding.limit))
    return (
        f"{share} of the requests{_class(case, finding)} have more than the {case.stands.longest:,} tokens of {flag} and are "
        f"refused ({allowed} may miss their objectives): {flag} {longest} takes them"
    )


def _devices(case: Case, finding: Finding) -> str:
    allowed = "--max-gpus is" if finding.objective == "max_gpus" else "--inventory has"
    many = plural(case.subject.replicas, "replica")
    return f"{many} take {finding.expected:.0f} x {case.subject.question.hardware[0].name}, and {allowed} {finding.limit:.0f}"


def _cost(case: Case, finding: Finding) -> str:
    price = case.subject.question.prices.of(case.subject.question.hardware[0])
    unit = price.currency if price is not None else ""
    hour = f"an hour takes {finding.expected:,.2f} {unit} ({finding.low:,.2f} to {finding.high:,.2f})"
    if finding.verdict == "missed":
        return f"{hour}, and --max-cost is {finding.limit:,.2f}"
    return f"{hour}: the upper end of the prices is beyond --max-cost {finding.limit:,.2f}"


def _at(case: Case) -> str:
    """`at 4 requests/s a replica`."""
    if case.load.concurrency is not None:
        return f"with {case.load.concurrency / case.serving:.4g} clients a replica"
    return f"at {(case.load.rate or 0) / case.serving:.4g} requests/s a replica"


def _class(case: Case, finding: Finding) -> str:
    return f" of {finding.of}" if finding.of is not None and len(case.load.services) > 1 else ""


def _remedy(case: Case, finding: Finding) -> str:
    """How many replicas would do."""
    if finding.replicas is not None:
        spare = f" and {case.subject.question.spare} spare" if case.subject.question.spare else ""
        return f": {plural(finding.replicas, 'replica')}{spare} would do ({case.serving:,} now)"
    return ""


def _busy(case: Case, finding: Finding) -> str:
    one = case.loaded
    assert one is not None and finding.expected is not None  # noqa: S101, PT018 - a finding of the load
    most = (case.load.rate or 0.0) / finding.expected
    if finding.verdict == "missed":
        return (
            f"{case.load.rate:.4g} requests/s are more than the {most:.4g} that saturate the replicas{_remedy(case, finding)}"
        )
    return (
        f"the replicas are busy for {percent(finding.expected, 0)} of the rate that saturates them ({most:.4g} "
        "requests/s): a little "
        "more, or steps at the slow end of the band, and waits have no end"
    )


def _time(case: Case, finding: Finding) -> str:
    assert case.loaded is not None and finding.limit is not None and finding.percentile is not None  # noqa: S101, PT018
    name = f"{finding.objective.upper()} p{finding.percentile * 100:g}{_class(case, finding)}"
    limit = formatting.seconds(finding.limit)
    took = "" if finding.expected is None else formatting.seconds(finding.expected)
    if finding.verdict == "at risk":
        if not case.loaded.measured:
            hardware = case.subject.question.hardware[0].name
            return (
                f"{name} {took} is within {limit}, but is a bound: no kernels were measured on {hardware} or on what is like it"
            )
        high = "one without end" if finding.high is None else formatting.seconds(finding.high)
        surer = ""
        if (many := _surely(case, finding)) is not None:
            surer = f" ({plural(many, 'replica')} keep to it in the whole band)"
        return f"{name} {took} is within {limit} {_at(case)}, and {high} at the slow end of the estimate's band is not{surer}"
    least = "" if case.loaded.measured else " at the least"
    text = f"{name} {took}{least} is over {limit} {_at(case)}"
    if finding.expected is None:
        text = f"{name} has no end {_at(case)}, and {limit} is asked for"
    if finding.replicas is not None:
        return text + _remedy(case, finding) + _seats(case, finding)
    alone = _alone(case, finding)
    faster = _FASTER.format(tp=case.subject.flag("tensor_parallel_size"))
    return f"{text}: more replicas do not help, with almost no load it is {alone}; {faster}"


def _surely(case: Case, finding: Finding) -> int | None:
    """The fewest replicas with which an objective is met with the whole band."""
    assert case.loaded is not None  # noqa: S101 - a finding of the load

    def sure(findings: tuple[Finding, ...]) -> bool:
        return all(one.verdict == "met" for one in findings if (one.objective, one.of) == (finding.objective, finding.of))

    return case.loaded.fewest(sure, case.serving)


def _alone(case: Case, finding: Finding) -> str:
    assert case.loaded is not None  # noqa: S101 - a finding of the load
    many = case.loaded.most_replicas
    found = next(one for one in case.loaded.findings(many) if (one.objective, one.of) == (finding.objective, finding.of))
    return "without end" if found.expected is None else formatting.seconds(found.expected)


def _seats(case: Case, finding: Finding) -> str:
    """That first tokens wait for a seat which memory has and the engine is not to give."""
    subject, stands, loaded = case.subject, case.stands, case.loaded
    if finding.objective != TTFT or loaded is None or subject.seats >= stands.seats:
        return ""
    waited = loaded.seat_wait(case.serving)
    if waited is not None and (finding.expected is None or waited < finding.expected / 4):
        return ""
    long = "without end" if waited is None else f"{formatting.quantity(waited, 's', 2)} on average"
    flag = subject.flag("max_num_seqs")
    return f"; requests wait {long} for one of the {subject.seats:,} seats of {flag}, and memory holds {_held(stands.seats)}"


def _held(seats: int) -> str:
    return f"{seats:,} or more" if seats >= MAX_SLOTS else f"{seats:,}"


def _remarks(case: Case, findings: tuple[Finding, ...]) -> Iterator[str]:
    subject, stands = case.subject, case.stands
    if "max_num_seqs" in subject.places and 0 < stands.seats < min(subject.seats, MAX_SLOTS):
        flag = subject.flag("max_num_seqs")
        ranks = " a rank" if stands.request.deployment.data_parallel_size > 1 else ""
        yield f"{flag} {subject.seats} never fills: memory holds {stands.seats:,} requests of mean length{ranks}"
    gpus = next((one for one in findings if one.objective == "gpus"), None)
    if gpus is not None and gpus.verdict == "met" and (gpus.limit or 0) > (gpus.expected or 0):
        yield (
            f"{subject.run.where} has {gpus.limit:.0f} GPUs, and {_sizes(case)} uses {gpus.expected:.0f} of them: raise "
            f"{subject.flag('tensor_parallel_size')}, or ask for fewer"
        )
    yield from subject.notes
    if subject.unknown:
        yield f"not understood, and left out: {', '.join(subject.unknown)}"
