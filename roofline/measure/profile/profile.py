"""`profile`: where the time of a recorded run went, kernel by kernel, against the roofline, the estimates and the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError
from roofline.formatting import percent, plural
from roofline.formatting import seconds as format_seconds
from roofline.measure.profile.alignment import ATTENTION, Aligned, align, planned_operators, units_of
from roofline.measure.profile.comparison import AlignedOperator, Difference, Table, decompose
from roofline.measure.profile.gaps import Gaps, find_gaps, running
from roofline.measure.profile.operators import (
    UNKNOWN,
    Costing,
    Describer,
    OperatorTime,
    group_operators,
)
from roofline.measure.profile.read import read_trace
from roofline.measure.profile.rules import Identity, Rules
from roofline.measure.profile.steps import Step, find_steps
from roofline.measure.profile.trace import HostOperator, Trace
from roofline.predict.efficiency.estimate import Estimator
from roofline.predict.efficiency.fits import Fits
from roofline.predict.efficiency.kernels import kernels
from roofline.specs.kernel_rules import COLLECTIVES
from roofline.specs.library import Input, by_driver_name, load_hardware
from roofline.specs.workload import Segment

if TYPE_CHECKING:
    from roofline.graph.build import Graph
    from roofline.predict.request import ResolvedRequest
    from roofline.specs.hardware import Hardware


@dataclass(slots=True)
class Profile:
    """Where the time of a trace went.

    Attributes:
        trace: as read.
        hardware: that bounds are of; None if it is not known.
        steps: in the order of their start.
        operators: by kind, the longest first.
        details: by operator and shape, the longest first.
        gaps: idle times of the device, over all steps; of several devices those of the one whose kernels take longest.
        gaps_of_devices: of each device by its number.
        outside_s: the time of kernels that are in no step.
        alignment: with a model: its operators and the kernels that are none of them.
        inputs: files that were read.
        notes: what a reader should know.
    """

    trace: Trace
    hardware: Hardware | None
    steps: list[Step]
    operators: list[OperatorTime]
    details: list[OperatorTime]
    gaps: Gaps
    gaps_of_devices: dict[int, Gaps]
    outside_s: float
    identities: list[Identity | None]
    model: str = ""
    alignment: list[AlignedOperator] = field(default_factory=list)
    step_estimates: list[tuple[float | None, float | None]] = field(default_factory=list)
    """Bound and estimate of the kernels of each step by the model, seconds."""
    difference: Difference | None = None
    """Why steps took longer than their estimate; None where no step has one."""
    inputs: list[Input] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def time_s(self) -> float:
        """The time of all kernels, seconds."""
        return float(sum(self.trace.kernels.duration_s))

    @property
    def unknown(self) -> list[OperatorTime]:
        """Kernels that no rule knows, by name, the longest first."""
        return [entry for entry in self.details if entry.kind == UNKNOWN]

    @property
    def understood_share(self) -> float:
        """The share of the kernels' time whose kind is known."""
        time = self.time_s
        return 1 - sum(entry.time_s for entry in self.unknown) / time if time else 1.0

    @property
    def gains(self) -> list[OperatorTime]:
        """Operators that are slower than their estimate, the one that costs most first."""
        return sorted((entry for entry in self.details if entry.saves_s > 0), key=lambda entry: -entry.saves_s)

    def to_dict(self) -> dict[str, Any]:
        """Plain data in seconds, bytes and FLOP; the layout of `roofline profile --json`."""
        time, gaps = self.time_s, self.gaps
        steps = len(self.steps)
        return {
            "trace": {
                "path": str(self.trace.path),
                "source": self.trace.source,
                "devices": self.trace.device_names,
                "rank": self.trace.rank,
                "world": self.trace.world,
                "notes": self.trace.notes,
            },
            "hardware": self.hardware.name if self.hardware is not None else None,
            "model": self.model or None,
            "steps": [
                {
                    "name": step.name or None,
                    "kind": step.kind or None,
                    "batch": step.batch,
                    "new_tokens": step.new_tokens,
                    "cached_tokens": step.cached_tokens,
                    "inferred": step.inferred,
                    "start_s": step.start_s,
                    "duration_s": step.duration_s,
                    "kernels": len(step.kernels),
                    "bound_s": bound,
                    "estimate_s": estimate,
                }
                for step, (bound, estimate) in zip(self.steps, self.step_estimates or [(None, None)] * steps, strict=True)
            ],
            "kernels": {
                "n": len(self.trace.kernels),
                "time_s": time,
                "understood_share": self.understood_share,
                "outside_steps_s": self.outside_s,
            },
            "operators": [
                {"kind": entry.kind, "share": entry.time_s / time if time else 0.0, **entry.figures()}
                for entry in self.operators
            ],
            "details": [{"share": entry.time_s / time if time else 0.0, **entry.to_dict()} for entry in self.details],
            "gaps": {
                "span_s": gaps.span_s,
                "running_s": gaps.running_s,
                "idle_s": gaps.idle_s,
                "launch_bound_s": gaps.launch_bound_s,
                "after_sync_s": gaps.after_sync_s,
                "queued_s": gaps.queued_s,
                "unknown_s": gaps.unknown_s,
                "communication_s": gaps.communication_s,
                "communication_exposed_s": gaps.communication_exposed_s,
                "longest": [{"start_s": start, "duration_s": length, "cause": cause} for start, length, cause in gaps.longest],
                "devices": [
                    {
                        "device": device,
                        "span_s": own.span_s,
                        "running_s": own.running_s,
                        "idle_s": own.idle_s,
                        "communication_exposed_s": own.communication_exposed_s,
                    }
                    for device, own in self.gaps_of_devices.items()
                ],
            },
            "gains": [
                {
                    "operator": entry.label,
                    "kind": entry.kind,
                    "saves_s": entry.saves_s,
                    "saves_per_step_s": entry.saves_s / max(steps, 1),
                    "time_s": entry.timed_s,
                    "estimate_s": entry.estimate_s,
                    "estimate_basis": entry.basis or None,
                }
                for entry in self.gains
            ],
            "unknown": [
                {"name": name, "time_s": seconds, "share": seconds / time if time else 0.0}
                for entry in self.unknown
                for name, seconds in sorted(entry.names.items(), key=lambda item: -item[1])
            ],
            "alignment": [entry.to_dict() for entry in self.alignment],
            "difference": self.difference.to_dict() if self.difference is not None else None,
            "notes": self.notes,
        }


def profile(
    trace: str | PathLike[str] | Trace,
    model: str | PathLike[str] | None = None,
    hardware: str | PathLike[str] | None = None,
    *,
    progress: Callable[[int, int | None], None] | None = None,
    **options: Any,
) -> Profile:
    """Say where the time of a recorded run went.

    Args:
        trace: a file of PyTorch's profiler, Nsight Systems or Nsight Compute, or one that was read.
        model: the model that ran, laid beside the kernels; None: kernels alone.
        hardware: what it ran on. None: the card that the trace names, if it is known.
        progress: told how many MB of the file were read, and of how many.
        **options: the deployment, as of `roofline.analyze`: `tp`, `dtype`, `quantization`, `backend`, ...

    Returns:
        The result, in seconds, FLOP and bytes; `.to_dict()` has the layout of `roofline profile --json`.

    Raises:
        roofline.errors.RooflineError: a file that is no trace, an unknown name, a wrong option.
    """
    read = trace if isinstance(trace, Trace) else read_trace(Path(trace), progress)
    return _Analysis(read, model, hardware, options).result()


class _Analysis:
    """Reads a trace as operators, step by step."""

    def __init__(
        self, trace: Trace, model: str | PathLike[str] | None, hardware: str | PathLike[str] | None, options: dict[str, Any]
    ) -> None:
        self.trace = trace
        self.notes: list[str] = list(trace.notes)
        self.inputs: list[Input] = []
        self.request: ResolvedRequest | None = None
        self.hardware: Hardware | None = None
        self.backend: str | None = None
        self.without_lengths: set[int] = set()
        """Groups of equal steps of which the trace does not say how long the contexts are."""
        self._resolve(model, hardware, options)
        self.rules = Rules.load()
        kernels_ = trace.kernels
        hosts: list[HostOperator | None] = [*kernels_.operators, None]
        self.identities = [
            self.rules.identify(kernels_.names[name], hosts[operator])
            for name, operator in zip(kernels_.name, kernels_.operator, strict=True)
        ]
        self._find_routers()
        self.records = [self.rules.record(operator) for operator in kernels_.operators]
        self.steps = find_steps(trace, self.rules, self.records)
        self.costing = Costing(self.hardware, self.estimator())

    def _resolve(
        self, model: str | PathLike[str] | None, hardware: str | PathLike[str] | None, options: dict[str, Any]
    ) -> None:
        """Hardware and model, given or by the name that the driver has for the card."""
        if hardware is None:
            names = [name for name in self.trace.device_names if name]
            hardware = next((card for name in names if (card := by_driver_name(name)) is not None), None)
            if hardware is None:
                what = f"the trace's {names[0]!r} is not known" if names else "the trace names no device"
                self.notes.append(f"no bounds: {what}; name the accelerator with --hardware")
        if hardware is None:
            if model is not None:
                raise InputError("--hardware is needed with a model: the trace names no accelerator that is known")
            return
        if model is None:
            self.hardware, self.inputs = load_hardware(hardware)
            self.backend = options.get("backend")
            return
        from roofline.predict.drafts import resolve

        self.request, _ = resolve(model, hardware, **options)
        self.hardware, self.inputs = self.request.hardware, list(self.request.inputs)

    def estimator(self) -> Estimator | None:
        """Estimates of the hardware's kernels, in service: weights and caches come from memory."""
        if self.request is not None:
            return self.request.estimator
        if self.hardware is None:
            return None
        return Estimator(Fits(self.hardware, self.backend, {}))

    def result(self) -> Profile:
        groups, first_of = self._equal_steps()
        member = [-1] * len(self.trace.kernels)
        for number, step in enumerate(self.steps):
            for at in step.kernels.tolist():
                member[at] = groups[number]
        graphs = [self._graph(step, group) for group, step in enumerate(first_of)] if self.request is not None else []
        paths, instances, aligned = self._align(groups, graphs) if graphs else ({}, {}, {})
        estimates = self._estimates(groups, graphs) if graphs else []
        grouped = group_operators(self.trace, self.identities, member, paths, instances)
        describer = Describer(self.trace, self.rules, first_of, self.costing, dict(enumerate(graphs)), self.without_lengths)
        merged: dict[tuple[str, str, str], OperatorTime] = {}
        for group in grouped:
            entry = describer.of(group)
            key = (entry.kind, entry.label, entry.host_operator)
            if key in merged:
                merged[key].add(entry)
            else:
                merged[key] = entry
        details = sorted(merged.values(), key=lambda entry: -entry.time_s)
        if self.without_lengths:
            self.notes.append("the trace does not say how long the contexts are: attention has no bound, nor has a whole step")
        if (share := self._by_words()) > 0.001:
            self.notes.append(f"{percent(share, 1)} of the kernels' time is understood by the words of their names alone")
        self._note_collectives()
        of_devices = self._gaps_of_devices()
        gaps = max(of_devices.values(), key=lambda own: own.running_s, default=Gaps(0, 0, 0, 0, 0, 0, 0, 0))
        if len(of_devices) > 1:
            idle = sorted(own.idle_s / own.span_s for own in of_devices.values() if own.span_s)
            busiest = next(device for device, own in of_devices.items() if own is gaps)
            self.notes.append(
                f"times are of {plural(len(of_devices), 'device')} together, gaps of device {busiest}; the devices are idle "
                f"{percent(idle[0])} to {percent(idle[-1])} of their steps"
            )
        alone = [entry.why_none for entry in details if entry.why_none]
        self.notes += list(dict.fromkeys(alone))[:3]
        return Profile(
            trace=self.trace,
            hardware=self.hardware,
            steps=self.steps,
            operators=_by_kind(details),
            details=details,
            gaps=gaps,
            gaps_of_devices=of_devices,
            outside_s=float(sum(seconds for seconds, of in zip(self.trace.kernels.duration_s, member, strict=True) if of < 0)),
            identities=self.identities,
            model=self.request.model.name if self.request is not None else "",
            alignment=self._table(aligned.values()),
            step_estimates=estimates,
            difference=self._difference(aligned, estimates),
            inputs=[*self.inputs, *(self.costing.estimator.fits.inputs.values() if self.costing.estimator is not None else ())],
            notes=list(dict.fromkeys(self.notes)),
        )

    def _find_routers(self) -> None:
        """Top-k and sorts of PyTorch choose experts where products of experts come next, and tokens where attention does."""
        following: dict[int, str] = {}
        for at in range(len(self.identities) - 1, -1, -1):
            identity, device = self.identities[at], self.trace.kernels.device[at]
            if identity is None:
                continue
            if identity.kind in ("grouped_gemm", "permute", *ATTENTION):
                following[device] = identity.kind
            elif (
                identity.kind == "sampling"
                and getattr(identity.rule, "generic", False)
                and following.get(device) in ("grouped_gemm", "permute")
            ):
                self.identities[at] = replace(identity, kind="router")

    def _note_collectives(self) -> None:
        """Say how much time is of a kernel that does any collective, where the trace does not say which."""
        seconds = sum(
            duration
            for identity, operator, duration in zip(
                self.identities, self.trace.kernels.operator, self.trace.kernels.duration_s, strict=True
            )
            if identity is not None and identity.kind == "all_reduce" and getattr(identity.rule, "generic", False)
            if operator < 0
        )
        if seconds:
            self.notes.append(
                f"{format_seconds(seconds)} in kernels that do any collective are counted as all-reduce: the trace does not "
                "say which"
            )

    def _by_words(self) -> float:
        """The share of the kernels' time that only rules for words in names know."""
        bare = {name for name, family in self.rules.families.items() if family.bare}
        known = zip(self.identities, self.trace.kernels.duration_s, strict=True)
        seconds = sum(seconds for identity, seconds in known if identity is not None and identity.family in bare)
        return seconds / (sum(self.trace.kernels.duration_s) or 1.0)

    def _equal_steps(self) -> tuple[list[int], list[Step]]:
        """The number of the group of each step, steps of one kind and numbers being equal; and the first step of each group."""
        numbers: dict[tuple[Any, ...], int] = {}
        groups: list[int] = []
        first: list[Step] = []
        for step in self.steps:
            key = (step.kind, *sorted(step.numbers.items()))
            if key not in numbers:
                numbers[key] = len(first)
                first.append(step)
            groups.append(numbers[key])
        return groups, first

    def _graph(self, step: Step, group: int) -> Graph:
        """The operators of the model for a step; none where the trace does not say how many tokens it has."""
        from roofline.graph.build import build

        assert self.request is not None  # noqa: S101 - narrows the type: the caller looked
        request = self.request
        segments = step.segments()
        if not segments and step.new_tokens:
            count = step.batch or 1
            segments = (Segment(count, max(step.new_tokens // count, 1), 0, decode=step.kind == "decode"),)
            self.without_lengths.add(group)
        if not segments:
            self.notes.append(f"{step.name or 'a step'}: the trace does not say how many tokens it computes")
            return {}
        return build(request.model, request.deployment, request.precision, segments, request.memory.stage, per_replica=True)

    def _align(
        self, groups: Sequence[int], graphs: Sequence[Graph]
    ) -> tuple[dict[int, tuple[str, ...]], dict[int, int], dict[int, Aligned]]:
        """The path of the model's operator of each kernel, the number of its call, and the steps laid beside the model, by
        their number."""
        assert self.request is not None  # noqa: S101 - narrows the type: the caller looked
        paths: dict[int, tuple[str, ...]] = {}
        instances: dict[int, int] = {}
        aligned: dict[int, Aligned] = {}
        known: dict[tuple[Any, ...], Aligned] = {}
        call = 0
        for number, (step, group) in enumerate(zip(self.steps, groups, strict=True)):
            graph = graphs[group]
            if not graph or step.kind == "capture":
                continue
            planned = planned_operators(self.request.model, graph)
            units = units_of(self.trace, step.kernels.tolist(), self.identities, self.records)
            key = (tuple(entry.path for entry in planned), tuple(unit.key for unit in units))
            like = known.get(key)
            if like is None:
                like = known[key] = align(planned, units)
            own = Aligned(planned, units, like.operator, like.fused, group not in self.without_lengths)
            aligned[number] = own
            numbers: dict[int, int] = {}
            for unit, operator in zip(units, own.operator, strict=True):
                if operator < 0:
                    continue
                for at in unit.kernels:
                    paths[at] = planned[operator].paths
                    instances[at] = numbers.setdefault(operator, call + len(numbers))
            call += len(numbers)
        return paths, instances, aligned

    def _table(self, aligned: Iterable[Aligned]) -> list[AlignedOperator]:
        table = Table(self.trace, self.costing)
        for one in aligned:
            table.add(one)
        return table.result()

    def _difference(
        self, aligned: dict[int, Aligned], estimates: Sequence[tuple[float | None, float | None]]
    ) -> Difference | None:
        """Why the steps that have an estimate took longer, or less long."""
        chosen = [number for number in aligned if estimates[number][1] is not None]
        if not chosen:
            return None
        running_s = [running(self.trace, self.steps[number].kernels) for number in chosen]
        return decompose(
            steps=len(chosen),
            measured_s=sum(running_s) if self.trace.serialized else sum(self.steps[number].duration_s for number in chosen),
            running_s=sum(running_s),
            estimate_s=sum(estimates[number][1] or 0.0 for number in chosen),
            rows=self._table(aligned[number] for number in chosen),
        )

    def _estimates(self, groups: Sequence[int], graphs: Sequence[Graph]) -> list[tuple[float | None, float | None]]:
        """Bound and estimate of the kernels of each step."""
        assert self.request is not None  # noqa: S101 - narrows the type: the caller looked
        totals: list[tuple[float | None, float | None]] = []
        for group, graph in enumerate(graphs):
            if not graph or group in self.without_lengths:
                totals.append((None, None))
                continue
            launched = kernels(graph)
            estimator = self.request.estimator
            bound = float(sum(estimator.bound(kernel) * kernel.repeat for kernel in launched))
            estimate = float(estimator.step(launched)[0].seconds) if estimator.applies else None
            totals.append((bound, estimate))
        return [totals[group] for group in groups]

    def _gaps_of_devices(self) -> dict[int, Gaps]:
        """Gaps over all steps by device; over the whole trace where it has no steps."""
        import numpy as np

        collective = np.array(
            [identity is not None and identity.kind in COLLECTIVES for identity in self.identities], dtype=bool
        )
        if self.trace.serialized or not self.steps:
            chosen = [np.arange(len(self.trace.kernels))] if not self.trace.serialized else []
        else:
            chosen = [step.kernels for step in self.steps]
        device = self.trace.kernels.column("device")
        return {
            number: _sum(find_gaps(self.trace, own[device[own] == number], collective) for own in chosen)
            for number in np.unique(device).tolist()
            if chosen
        }


def _sum(parts: Iterable[Gaps]) -> Gaps:
    """Gaps of several steps together."""
    parts = list(parts)
    longest = sorted((gap for part in parts for gap in part.longest), key=lambda gap: -gap[1])[:20]
    names = (
        "span_s", "running_s", "launch_bound_s", "after_sync_s", "queued_s", "unknown_s", "communication_s",
        "communication_exposed_s",
    )  # fmt: skip
    return Gaps(**{name: sum(getattr(part, name) for part in parts) for name in names}, longest=tuple(longest))


def _by_kind(details: Sequence[OperatorTime]) -> list[OperatorTime]:
    """One entry for each kind, the longest first."""
    kinds: dict[str, OperatorTime] = {}
    for entry in details:
        own = kinds.setdefault(entry.kind, OperatorTime(entry.kind, entry.kind, 0, 0.0, {}))
        own.add(entry)
    return sorted(kinds.values(), key=lambda entry: -entry.time_s)
