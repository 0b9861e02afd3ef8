"""Kernels of a trace as operators: what each call computes and moves, how long it took, and how long it should take."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.cost import ZERO
from roofline.dtypes import FORMATS, Dtypes
from roofline.errors import InputError, RooflineError
from roofline.measure.profile.alignment import ATTENTION, kind_of
from roofline.measure.profile.trace import ACTIVITIES, HostOperator
from roofline.measure.records.columns import COLUMNS, dtypes
from roofline.measure.records.ops import RECORD_OPS, Call, Operators
from roofline.operators.attention import Attention
from roofline.operators.base import Operator
from roofline.operators.copy import Copy
from roofline.operators.grouped_gemm import GroupedGemm
from roofline.operators.norm import Norm
from roofline.predict.bounds import matrix_dtype, times
from roofline.predict.efficiency.estimate import Estimator, Interval
from roofline.predict.efficiency.kernels import EXPERTS, Kernel
from roofline.specs.kernel_rules import COLLECTIVES
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from roofline.measure.profile.rules import Identity, Rules
    from roofline.measure.profile.steps import Step
    from roofline.measure.profile.trace import Trace
    from roofline.specs.hardware import Hardware

UNKNOWN = "unknown"
"""The kind of kernels that no rule knows."""
NOISE = 0.05
"""A kernel that is faster than its bound by less is within the error of clocks and of the peak."""


@dataclass(slots=True)
class Work:
    """What one call of an operator computes and moves, and the times that follow on the hardware.

    Attributes:
        operators: by name, each with its repeats; the source of all else.
        record: columns of a record of measurements, where one can be made; else empty.
        flops: matrix FLOP.
        bytes: compulsory bytes of device memory, link bytes of a collective.
        bound_s, bound_by: seconds on the hardware and the resource that binds; None and "" without hardware.
        estimate_s, low_s, high_s, basis: the estimate with its 80 % interval, and what it rests on.
        format: that the matrix units multiply; "" where there is no matrix FLOP.
        why_none: why there is no bound, where there is none.
    """

    operators: Operators
    record: dict[str, Any] = field(default_factory=dict)
    flops: float = 0.0
    bytes: float = 0.0
    bound_s: float | None = None
    bound_by: str = ""
    estimate_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    basis: str = ""
    format: str = ""
    why_none: str = ""


@dataclass(slots=True)
class OperatorTime:
    """Calls of one operator, all together; times in seconds.

    Attributes:
        kind: one of `KINDS`, or `UNKNOWN`.
        label: what tells it from others of its kind: its place in the model, or its shape.
        n: calls; of kernels without a host operator the kernels themselves.
        time_s: of all calls.
        names: kernels by name, with their time.
        known_s: the time of the calls whose work is known, which the following are of.
        flops, bytes, bound_s: of those calls; None without shapes, `bound_s` also without hardware.
        timed_s, estimate_s, low_s, high_s, basis: the time of the calls that have an estimate, and their estimates.
        bound_by: the resource that binds longest.
        host_operator: that launched it; "" if not known.
        path: operators of the model that it is; () without a model.
        format: that the matrix units multiply; "" where there is no matrix FLOP.
        why_faster: why it is faster than its bound, if it is.
    """

    kind: str
    label: str
    n: int
    time_s: float
    names: dict[str, float]
    host_operator: str = ""
    path: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    known_s: float = 0.0
    flops: float | None = None
    bytes: float | None = None
    bound_s: float | None = None
    bound_by: str = ""
    timed_s: float = 0.0
    estimate_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    basis: str = ""
    format: str = ""
    why_faster: str = ""
    why_none: str = ""

    @property
    def saves_s(self) -> float:
        """What all calls together would take less if each reached its estimate, seconds."""
        return 0.0 if self.estimate_s is None else max(self.timed_s - self.estimate_s, 0.0)

    def add(self, other: OperatorTime) -> None:
        """Count the calls of another one as well."""
        for name, seconds in other.names.items():
            self.names[name] = self.names.get(name, 0.0) + seconds
        for name in ("n", "time_s", "known_s", "timed_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        larger = (other.bound_s or 0) > (self.bound_s or 0)
        self.bound_by = other.bound_by if larger else self.bound_by
        for name in ("flops", "bytes", "bound_s", "estimate_s", "low_s", "high_s"):
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, more if mine is None else mine + (more or 0.0))
        self.why_faster = self.why_faster or other.why_faster
        self.basis = self.basis or other.basis
        self.format = self.format or other.format
        self.families = tuple(dict.fromkeys(self.families + other.families))

    def figures(self) -> dict[str, Any]:
        """Its numbers as plain data: seconds, FLOP, bytes, rates of them, and shares."""
        return {
            "n": self.n,
            "time_s": self.time_s,
            "flops": self.flops,
            "bytes": self.bytes,
            "attained_flops": _per(self.flops, self.known_s),
            "attained_bandwidth": _per(self.bytes, self.known_s),
            "bound_s": self.bound_s,
            "bound_by": self.bound_by or None,
            "format": self.format or None,
            "estimate_s": self.estimate_s,
            "estimate_low_s": self.low_s,
            "estimate_high_s": self.high_s,
            "estimate_basis": self.basis or None,
            "of_roof": _per(self.bound_s, self.known_s),
            "of_estimate": _per(self.estimate_s, self.timed_s),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind,
            "operator": self.label,
            "path": list(self.path),
            "host_operator": self.host_operator or None,
            **self.figures(),
            "why_faster": self.why_faster or None,
            "kernels": [
                {"name": name, "time_s": seconds} for name, seconds in sorted(self.names.items(), key=lambda item: -item[1])
            ],
        }


def _per(value: float | None, seconds: float) -> float | None:
    return None if value is None or not seconds else value / seconds


class Costing:
    """Makes the work of calls, each distinct one once, and places it on the hardware.

    Args:
        hardware: None: FLOP and bytes alone.
        estimator: of the same hardware; None: no estimates.
    """

    def __init__(self, hardware: Hardware | None, estimator: Estimator | None) -> None:
        self.hardware, self.estimator = hardware, estimator
        self._shortest: Interval | None = None

    def of_record(self, record: Mapping[str, Any], segments: Sequence[Segment] = ()) -> Work | None:
        """The work of a call by columns of a record, or by the bytes that it moves.

        Args:
            record: as `Rules.record` gives it.
            segments: sequences of the step, for attention whose shapes do not have lengths.

        Returns:
            None where columns are missing.
        """
        if "read_bytes" in record:
            moved = record["read_bytes"] + record["write_bytes"]
            return self.moved(moved) if moved else None
        op = RECORD_OPS.get(str(record.get("op", "")))
        if op is None or not record.get("dtype"):
            return None
        formats = dtypes(record["dtype"], record.get("kv_dtype", ""))
        if all(name in record for name in op.needs):
            numbers = {name: value for name, value in record.items() if name in COLUMNS and COLUMNS[name].kind == "count"}
            texts = {name: str(value) for name, value in record.items() if name in COLUMNS and COLUMNS[name].kind == "text"}
            if numbers.get("window") == 0:
                del numbers["window"]
            operators = op.operators(Call(formats, numbers, texts))
            return self.placed(operators, dict(record), op.op)
        if op.op.startswith("attention") and segments and "n_heads" in record and "head_dim" in record:
            return self.placed(_attention(record, segments, formats), {}, op.op)
        return None

    def moved(self, moved: float) -> Work:
        """The work of a pass over memory that reads and writes this many bytes together."""
        formats = Dtypes(weight=FORMATS["bf16"], activation=FORMATS["bf16"], kv=FORMATS["bf16"])
        elements = moved / 2 / formats.activation.bytes
        return self.placed({"copy": (Copy(elements=elements, dtypes=formats), 1)}, {}, "copy_d2d")

    def planned(self, operators: Sequence[tuple[str, Operator]]) -> Work:
        """The work of operators of a model that are computed together: the experts of a layer are one kernel."""
        names = {path.rsplit("/", 1)[-1]: (operator, 1) for path, operator in operators}
        experts = any(isinstance(operator, GroupedGemm) for _, operator in operators) and len(operators) > 1
        return self.placed(names, {}, EXPERTS if experts else "")

    def placed(self, operators: Operators, record: dict[str, Any], op: str) -> Work:
        """Operators with their cost, and on the hardware with bound and estimate. One kernel, whatever their number."""
        work = Work(operators, record)
        costs = [(operator, operator.cost() * repeat) for operator, repeat in operators.values()]
        total = sum((cost for _, cost in costs), ZERO)
        work.flops = float(total.matrix_flops)
        work.bytes = float(total.bytes or total.link_bytes)
        if self.hardware is None:
            return work
        try:
            parts = [times(operator, cost, self.hardware) for operator, cost in costs]
        except RooflineError as error:
            work.why_none = str(error)
            return work
        work.bound_s = float(sum(part.bound for part in parts))
        largest: dict[str, float] = defaultdict(float)
        for part in parts:
            largest[part.bound_by] += float(part.bound)
        work.bound_by = max(largest, key=lambda name: largest[name])
        if work.flops:
            work.format = matrix_dtype(costs[0][0], self.hardware)
        if self.estimator is not None and self.estimator.applies:
            self._estimate(work, op)
        return work

    def _estimate(self, work: Work, op: str) -> None:
        assert self.estimator is not None  # noqa: S101 - narrows the type: the caller looked
        plain = {name: operator for name, (operator, _) in work.operators.items()}
        if op == EXPERTS:
            launched = [Kernel(op, plain, tuple(plain), 1)]
        else:
            launched = [
                Kernel(op or operator.measured_as, {"": operator}, (name,), repeat)
                for name, (operator, repeat) in work.operators.items()
            ]
        interval, parts = self.estimator.step(launched)
        shortest = self.shortest(self.estimator)
        work.estimate_s = max(float(sum(part.seconds for part in parts.values())), float(shortest.seconds))
        work.low_s = max(float(interval.low), float(shortest.low))
        work.high_s = max(float(interval.high), work.estimate_s, float(shortest.high))
        work.basis = self.estimator.basis(launched)

    def shortest(self, estimator: Estimator) -> Interval:
        """The time of a kernel that does next to nothing: no kernel takes less, whatever it moves."""
        if self._shortest is None:
            formats = Dtypes(weight=FORMATS["bf16"], activation=FORMATS["bf16"], kv=FORMATS["bf16"])
            kernel = Kernel("rmsnorm", {"": Norm(rows=1, width=1, dtypes=formats)}, ("",), 1)
            self._shortest = estimator.step([kernel])[0]
        return self._shortest


def _attention(record: Mapping[str, Any], segments: Sequence[Segment], formats: Dtypes) -> Operators:
    """Attention over the sequences of a step, one operator for each length."""
    heads = int(record["n_heads"])
    return {
        f"core {number}" if number else "core": (
            Attention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=heads,
                n_kv_heads=int(record.get("n_kv_heads", heads)),
                head_dim=int(record["head_dim"]),
                window=record.get("window") or None,
                dtypes=formats,
                decode=segment.decode,
            ),
            1,
        )
        for number, segment in enumerate(segments)
    }


@dataclass(slots=True)
class Grouped:
    """Kernels of one operator and shape, before their work is known."""

    kind: str
    operator: int
    step: int
    paths: tuple[str, ...]
    names: dict[str, float] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    time_s: float = 0.0
    kernels: int = 0
    moved: float = float("nan")
    world: int = 0
    activity: int = 0
    identity: Identity | None = None
    counted: dict[str, float] = field(default_factory=dict)
    """Sums of hardware counters, "flops" and "dram_bytes", where all kernels have them."""


def group_operators(
    trace: Trace,
    identities: Sequence[Identity | None],
    member: Sequence[int],
    paths: Mapping[int, tuple[str, ...]],
    instances: Mapping[int, int],
) -> list[Grouped]:
    """Put kernels of one operator, shape and kind of step together.

    Args:
        trace: as read.
        identities: of each kernel.
        member: the group of equal steps of each kernel, -1 of kernels outside of steps.
        paths: operators of the model by the kernels that are aligned with them.
        instances: the number of the operator's call by kernel, likewise.
    """
    kernels = trace.kernels
    counters = {name: kernels.counters[name] for name in ("flops", "dram_bytes") if name in kernels.counters}
    groups: dict[tuple[Any, ...], Grouped] = {}
    for at, identity in enumerate(identities):
        operator, name = kernels.operator[at], kernels.name[at]
        kind = identity.kind if identity is not None else UNKNOWN
        path, moved = paths.get(at, ()), kernels.bytes[at]
        if path:  # an operator of the model has all its kernels together, whatever each does
            kind, moved = "", float("nan")
        # without a model shapes tell operators apart, else the kernels
        own = operator if operator >= 0 and kernels.operators[operator].shapes and not path else -1
        key = (
            kind,
            own,
            -1 if own >= 0 or path else name,
            member[at],
            path,
            moved if own < 0 and not math.isnan(moved) else None,
        )
        group = groups.get(key)
        if group is None:
            group = groups[key] = Grouped(kind, operator, member[at], path, moved=moved, world=kernels.world[at])
            group.activity = kernels.activity[at]
        if path:
            group.calls.add(instances[at])
        text = kernels.names[name]
        seconds = kernels.duration_s[at]
        group.names[text] = group.names.get(text, 0.0) + seconds
        group.time_s += seconds
        group.kernels += 1
        for counter, values in counters.items():  # NaN stays NaN: not all were measured
            group.counted[counter] = group.counted.get(counter, 0.0) + float(values[at])
        if identity is None or not identity.part:
            if not group.counts:  # the main kernel decides what the call is
                group.identity, group.activity = identity, kernels.activity[at]
            group.counts[text] += 1
            if kernels.call[at] >= 0 and not path and ACTIVITIES[kernels.activity[at]] != "cpu":
                group.calls.add(kernels.call[at])
        elif group.identity is None:
            group.identity = identity
    return list(groups.values())


class Describer:
    """Makes `OperatorTime` of grouped kernels: their label, their work, and why one is faster than its bound.

    Args:
        trace: as read.
        rules: of host operators.
        steps: one of each group of equal steps.
        costing: of the hardware.
        planned: by the number of a group of equal steps, operators of the model by path.
        without_lengths: groups of steps of which the trace does not say how long the contexts are: attention has no work.
    """

    def __init__(
        self,
        trace: Trace,
        rules: Rules,
        steps: Sequence[Step],
        costing: Costing,
        planned: Mapping[int, Operators],
        without_lengths: Collection[int] = (),
    ) -> None:
        self.trace, self.rules, self.steps, self.costing, self.planned = trace, rules, steps, costing, planned
        self.without_lengths = without_lengths

    def of(self, group: Grouped) -> OperatorTime:
        """The operator of a group."""
        host = self.trace.kernels.operators[group.operator] if group.operator >= 0 else None
        work = self.work(group, host)
        n = len(group.calls) or sum(group.counts.values()) or group.kernels
        result = OperatorTime(
            group.kind or self._kind(group),
            self.label(group, host, work),
            n,
            group.time_s,
            group.names,
            host.name if host is not None else "",
            group.paths,
            (group.identity.family,) if group.identity is not None else (),
        )
        if work is None or work.why_none:
            result.why_none = "" if work is None else work.why_none
            self.counted(result, group)
            return result
        result.known_s = group.time_s
        result.flops, result.bytes = work.flops * n, work.bytes * n
        if work.bound_s is not None:
            result.bound_s, result.bound_by, result.format = work.bound_s * n, work.bound_by, work.format
            result.why_faster = self.why_faster(result, work)
        if work.estimate_s is not None:
            result.timed_s, result.estimate_s, result.basis = group.time_s, work.estimate_s * n, work.basis
            result.low_s, result.high_s = (work.low_s or 0.0) * n, (work.high_s or 0.0) * n
        return result

    def work(self, group: Grouped, host: HostOperator | None) -> Work | None:
        """The work of one call: as the model has it, by shapes, or by the bytes of a copy or message."""
        if group.paths:
            return self._planned(group)
        identity = group.identity
        activity = ACTIVITIES[group.activity]
        if activity in ("memcpy", "memset"):
            return self._copied(group, activity)
        if group.kind in COLLECTIVES and not math.isnan(group.moved) and group.world > 1:
            record = {"op": group.kind if group.kind != "send_recv" else "p2p", "dtype": "bf16", "bytes": int(group.moved)}
            return self.costing.of_record({**record, "world": group.world}) if group.kind != "broadcast" else None
        step = self.steps[group.step] if 0 <= group.step < len(self.steps) else None
        if host is not None and identity is not None:
            rule = self.rules.operator_rule(host.name)
            record_of = self.rules.record(host) if rule is not None and rule.kind == group.kind else None
            if record_of is not None:
                part = identity.step if identity.step in ("prefill", "decode") else ""
                segments = step.segments(part) if step is not None else ()
                columns = dict(record_of)
                if identity.dtype and "op" in columns:
                    columns.setdefault("dtype", identity.dtype)
                try:
                    work = self.costing.of_record(columns, segments)
                except InputError as error:
                    work = Work({}, why_none=str(error))
                if work is not None:
                    return work
        return None

    def _planned(self, group: Grouped) -> Work | None:
        if group.step in self.without_lengths and self._kind(group) in ATTENTION:
            return None
        planned = self.planned.get(group.step, {})
        operators = tuple((path, planned[path][0]) for path in group.paths if path in planned)
        return self.costing.planned(operators) if operators else None

    def _copied(self, group: Grouped, activity: str) -> Work | None:
        if not group.moved > 0:
            return None
        text = next(iter(group.names))
        if activity == "memset":
            return self.costing.moved(group.moved)
        over_host = "HtoD" in text or "Host ->" in text or "DtoH" in text or "-> Host" in text or "-> P" in text
        if over_host or "Pageable" in text or "Pinned" in text:
            to_device = "HtoD" in text or "-> Device" in text
            op = "copy_h2d" if to_device else "copy_d2h"
            return self.costing.of_record({"op": op, "dtype": "bf16", "bytes": int(group.moved)})
        return self.costing.moved(2 * group.moved)

    def counted(self, result: OperatorTime, group: Grouped) -> None:
        """Set FLOP and bytes as hardware counters measured them, of kernels whose shapes are not known."""
        moved, flops = group.counted.get("dram_bytes", math.nan), group.counted.get("flops", math.nan)
        if math.isnan(moved):
            return
        result.known_s, result.bytes = group.time_s, moved
        result.flops = None if math.isnan(flops) else flops
        hardware = self.costing.hardware
        if hardware is None:
            return
        result.bound_s, result.bound_by = moved / hardware.bandwidth, "memory"
        result.format = group.identity.dtype if group.identity is not None else ""
        if result.flops and result.format in hardware.peaks and result.flops / hardware.peaks[result.format] > result.bound_s:
            result.bound_s, result.bound_by = result.flops / hardware.peaks[result.format], "compute"
        if group.time_s < result.bound_s:
            result.why_faster = "counters of several passes of the profiler, at clocks that differ"

    def _kind(self, group: Grouped) -> str:
        operator = self.planned[group.step][group.paths[0]][0]
        return kind_of(operator, group.paths[0])

    def label(self, group: Grouped, host: HostOperator | None, work: Work | None) -> str:
        """What tells a group from others of its kind."""
        if group.paths:
            if len(group.paths) == 1:
                return group.paths[0]
            base, core, _ = group.paths[0].partition("/core/")
            return f"{base}/core" if core else group.paths[0].removesuffix("/up_proj")
        record = work.record if work is not None else {}
        if group.kind == "gemm" and {"m", "n", "k"} <= record.keys():
            batch = f"{record['batch']}x " if record.get("op") == "bmm" else ""
            return f"{batch}{record['m']}x{record['n']}x{record['k']} {record.get('dtype', '')}".strip()
        if host is not None and host.shapes:
            sizes = [_shape(shape) for shape in host.shapes if shape]
            return f"{host.name} {', '.join(sizes[:3])}".strip()
        return short_name(max(group.names, key=lambda name: group.names[name]))

    def why_faster(self, operator: OperatorTime, work: Work) -> str:
        """Why an operator is faster than its bound: a sentence, "" where it is not."""
        bound = operator.bound_s
        if bound is None or operator.time_s >= bound:
            return ""
        ratio = operator.time_s / bound
        hardware = self.costing.hardware
        l2 = hardware.accelerator.l2.value if hardware is not None and hardware.accelerator.l2 else 0.0
        if work.bound_by == "memory" and l2 and work.bytes <= l2:
            return "its bytes fit in the L2 cache, where the kernel before left them"
        if ratio >= 1 - NOISE:
            return f"within {NOISE * 100:.0f} % of the bound: clocks above the datasheet's, and timing"
        if work.bound_by == "memory" and l2 and work.bytes <= 4 * l2:
            return "a part of its bytes was still in the L2 cache"
        if work.bound_by == "memory":
            return "it moves less than it would alone: its input or output stays in a cache, or kernels share the work"
        if work.bound_by == "compute":
            return "the peak of another format counts than the shapes say, or it computes less than they do"
        return "the message takes a faster link than the hardware has, or fewer devices take part"


def _shape(shape: Sequence[Any]) -> str:
    if shape and isinstance(shape[0], tuple):
        return "[" + ", ".join(_shape(part) for part in shape[:2]) + (", ..." if len(shape) > 2 else "") + "]"
    return "x".join(str(size) for size in shape)


def short_name(name: str, length: int = 72) -> str:
    """A kernel's name without its template's arguments and its parameters.

    >>> short_name("void flash::flash_fwd_kernel<Traits<64, 128> >(flash::Params)")
    'flash::flash_fwd_kernel'
    """
    text = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    for at, character in enumerate(text):
        if character in "<(" and at:
            text = text[:at]
            break
    return text if len(text) <= length else text[: length - 3] + "..."
