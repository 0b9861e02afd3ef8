"""From what a user gives to a workload."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from roofline.errors import InputError
from roofline.serving.simulation.arrivals import Arrivals, Clients, parse_arrivals
from roofline.serving.simulation.arrivals.constant import Constant
from roofline.serving.simulation.arrivals.gamma import Gamma
from roofline.serving.simulation.arrivals.poisson import Poisson
from roofline.serving.simulation.workload import MOST_AT_ONCE, REQUESTS, Workload
from roofline.serving.traffic.build import load_traffic, single
from roofline.serving.traffic.classes import Class, Traffic
from roofline.serving.traffic.lengths import around
from roofline.serving.traffic.scalars import parse_rate, parse_seconds
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.specs.source import Assumption
from roofline.units import parse_count

_LENGTHS = ("input_len", "output_len")


def ask(
    *, trace: Any = None, workload: Any = None, rate: Any = None, requests: Any = None, until: Any = None,
    skip_bad_rows: bool = False, notes: list[Assumption], **words: Any,
) -> Workload:  # fmt: skip
    """A workload from options; `words`: `input_len`, `output_len`, `ttft`, `tpot` of one class of requests.

    Raises:
        InputError: what is missing, or too much, by flag.
    """
    most = None if requests is None else parse_count(requests, "--requests", minimum=1)
    end = math.inf if until is None else _flag("until", parse_seconds, until)
    wanted = None if rate is None else _flag("rate", parse_rate, rate)
    limits: dict[str, Any] = {"requests": most, "until": end}
    if workload is not None and (isinstance(workload, Traffic) or Path(str(workload)).suffix in (".yaml", ".yml")):
        if given := [name for name in (*_LENGTHS, "ttft", "tpot") if words.get(name) is not None]:
            raise InputError(f"--workload {workload} says what comes: leave out --{given[0].replace('_', '-')}")
        if trace is not None:
            raise InputError("--workload and --trace both say what comes: give one of them")
        found = workload if isinstance(workload, Traffic) else load_traffic(Path(str(workload)), skip_bad_rows)
        notes += found.assumptions
        return _of_traffic(found, wanted, limits, str(workload), notes)
    read = trace if trace is None or isinstance(trace, Trace) else read_trace(trace, skip_bad_rows)
    if read is not None and workload is None and (read.arrived is not None):
        return _traced(read, wanted, limits, words, notes)
    if workload is None and wanted is None:
        what = f"{read.name} has no arrivals" if read is not None else "nothing says when requests come"
        raise InputError(f"{what}: give --rate, --workload (poisson:8, closed:32, ...) or a --trace with a column arrived_at")
    arrivals = parse_arrivals(str(workload)) if workload is not None else Poisson(wanted or 0.0)
    if workload is not None and wanted is not None:
        if isinstance(arrivals, Clients):
            raise InputError("--rate: clients of a closed loop send when they have their answers; leave it out")
        arrivals = arrivals.at_rate(wanted)
    one = _class(arrivals, read, words)
    source = str(workload) if workload is not None else f"poisson:{wanted:g}"
    if isinstance(arrivals, Clients):
        return _closed((one,), (arrivals,), source, limits, notes)
    _ends(limits, notes, arrivals)
    return Workload(classes=(one,), arrivals=(arrivals,), source=source, **limits)


def _class(arrivals: Arrivals | Clients, read: Trace | None, words: dict[str, Any]) -> Class:
    """The one class: its lengths and its objectives. Of what comes all at once nobody asks for a rate."""
    if not isinstance(arrivals, Clients):
        load = {"rate": arrivals.rate} if arrivals.rate is not None else {"concurrency": 1}
        return single(**load, trace=read, **words).classes[0]
    one = single(concurrency=arrivals.clients, trace=read, **words).classes[0]
    if arrivals.spread is None:
        return one
    if read is not None:
        raise InputError(f"spread: the trace {read.name} has lengths of its own; leave one of them out")
    try:
        prompts, answers = (around(lengths, arrivals.spread) for lengths in (one.input_len, one.output_len))
    except InputError as error:
        raise InputError(f"spread: {error}") from None
    return replace(one, input_len=prompts, output_len=answers)


def _closed(
    classes: tuple[Class, ...], clients: tuple[Clients, ...], source: str, limits: dict[str, Any], notes: list[Assumption]
) -> Workload:
    """Clients, and how the run begins and ends: what TTFT depends on most."""
    many = sum(one.clients for one in clients)
    for name, word in (("prompts", "prompts"), ("warm_up", "warm-up")):
        if len({getattr(one, name) for one in clients}) > 1:
            raise InputError(f"{source}: {word} a client must be the same in all classes, which take turns")
    prompts, warm_up = clients[0].prompts, clients[0].warm_up
    if prompts is not None:
        if limits["requests"] is not None:
            raise InputError(f"--requests: {source} says how many come, {prompts:,} a client; leave one of them out")
        limits["requests"] = prompts * many
    else:
        _ends(limits, notes, clients[0])
    if limits["requests"] is not None and warm_up * many >= limits["requests"]:
        raise InputError(
            f"warm-up: {warm_up:,} prompts of each of {many:,} clients are all of the {limits['requests']:,} that come"
        )
    alike = all(one.pairs is None and not (one.input_len.variance or one.output_len.variance) for one in classes)
    if alike and many > 1 and not any(one.ramp for one in clients):
        why = "all clients at once with equal lengths: they stay in step, and TTFT is many prompts long (docs/closed-loop.md)"
        notes.append(Assumption("first_wave", "at once", "default", why))
    found = Workload(classes=classes, clients=clients, source=source, warm_up=warm_up * many, **limits)
    if found.at_once > MOST_AT_ONCE:
        fewer = "give fewer clients" if prompts is not None else "give fewer clients, or --requests"
        raise InputError(
            f"{source}: {found.at_once:,} clients send at least one request, and a run holds {MOST_AT_ONCE:,}: {fewer}"
        )
    return found


def _traced(
    read: Trace, wanted: float | None, limits: dict[str, Any], words: dict[str, Any], notes: list[Assumption]
) -> Workload:
    if given := [name for name in _LENGTHS if words.get(name) is not None]:
        raise InputError(
            f"--{given[0].replace('_', '-')}: the trace has its own lengths; give the trace or the lengths, not both"
        )
    if wanted is not None and not read.rate:
        raise InputError(f"--rate: all requests of {read.name} arrive at once, and there is no rate to change")
    if read.skipped:
        notes.append(Assumption("skipped_rows", read.skipped, "given", f"broken, and left out: {'; '.join(read.reasons)}"))
    notes += [Assumption("trace", read.name, "assumed", note) for note in read.notes]
    stretch = 1.0
    if wanted is not None and read.rate:
        stretch = read.rate / wanted
        notes.append(
            Assumption("rate", wanted, "given", f"arrivals of {read.name}, whose own rate is {read.rate:.4g}/s, stretched")
        )
    load: dict[str, Any] = {"rate": wanted or read.rate} if read.rate else {"concurrency": 1}
    one = single(**load, trace=read, **words).classes[0]
    return Workload(classes=(one,), trace=read, stretch=stretch, source=read.name, **limits)


def _of_traffic(found: Traffic, wanted: float | None, limits: dict[str, Any], source: str, notes: list[Assumption]) -> Workload:
    classes = found.at_peak
    if found.peak_factor > 1:
        notes.append(Assumption("peak_factor", found.peak_factor, "given", "the highest load is what is simulated"))
    for one in classes:
        if one.prefix_hit:
            why = f"every prompt is computed whole: that the prefix cache has {one.prefix_hit:.3g} of it is not simulated"
            notes.append(Assumption(f"{one.name}.prefix_hit", 0.0, "assumed", why))
    if found.closed:
        if wanted is not None:
            raise InputError("--rate: clients of a closed loop send when they have their answers; leave it out")
        clients = tuple(
            Clients(one.concurrency or 1, ramp=one.ramp, prompts=one.prompts, warm_up=one.warm_up) for one in classes
        )
        return _closed(classes, clients, source, limits, notes)
    total = sum(one.rate or 0.0 for one in classes)
    arrivals = tuple(_of_class(one, (one.rate or 0.0) * (wanted / total if wanted else 1.0)) for one in classes)
    _ends(limits, notes, arrivals[0])
    return Workload(classes=classes, arrivals=arrivals, source=source, **limits)


def _of_class(one: Class, rate: float) -> Arrivals:
    """By chance, or as bursty as the class says."""
    if one.burstiness == 1:
        return Poisson(rate)
    return Gamma(rate, one.burstiness) if one.burstiness else Constant(rate)


def _ends(limits: dict[str, Any], notes: list[Assumption], arrivals: Arrivals | Clients) -> None:
    """How many come, where nobody says."""
    counted = isinstance(arrivals, Arrivals) and arrivals.count is not None
    if limits["requests"] is None and limits["until"] == math.inf and not counted:
        limits["requests"] = REQUESTS
        notes.append(Assumption("requests", REQUESTS, "default", "that come; --requests and --until say another end"))


def _flag(name: str, parse: Any, value: Any) -> Any:
    try:
        return parse(value)
    except InputError as error:
        raise InputError(f"--{name}: {error}") from None
