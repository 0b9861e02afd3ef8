"""`bench serve`: a decode loop measured step by step, with its kernels, beside the prediction for the same model and batch."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from roofline import files
from roofline.blocks.model import Model
from roofline.blocks.model_files import load_model
from roofline.errors import InputError
from roofline.formatting import binary, plural
from roofline.graph.build import build
from roofline.measure.bench.decode_loop import DecodeLoop, LoopSizes, loop_memory, step_name, trace
from roofline.measure.bench.devices import Call, Device, Timing, timing
from roofline.measure.bench.devices import device as find_device
from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory
from roofline.measure.bench.kernels.decoder import unsupported
from roofline.measure.bench.machine import HARDWARE_FILE, Environment, gpu_id, measured_id, shipped_id
from roofline.measure.bench.measure import record
from roofline.measure.bench.point import GROUPED, LOOP, Point
from roofline.measure.bench.records_file import RecordsFile
from roofline.measure.bench.run import Progress, execute, same_machine
from roofline.measure.bench.run import Request as BenchRequest
from roofline.measure.bench.suites import COLD
from roofline.measure.profile.comparison import AlignedOperator
from roofline.measure.profile.profile import Profile, profile
from roofline.measure.profile.records import records_of
from roofline.measure.profile.rules import Rules
from roofline.measure.profile.trace import ACTIVITIES
from roofline.predict.drafts import resolve
from roofline.predict.duration import Duration
from roofline.predict.efficiency.kernels import kernels
from roofline.predict.request import ResolvedRequest
from roofline.predict.timing import request_times
from roofline.specs.hardware import Hardware
from roofline.specs.library import Input, load_hardware
from roofline.specs.workload import decode

DTYPES = ("bf16", "fp16", "fp32")
"""Formats in which a whole step can be run."""
_DEFAULT_MODEL = {"cuda": "llama-3.2-1b", "cpu": "gpt2"}
_DEFAULT_DTYPE = {"cuda": "bf16", "cpu": "fp32"}
_ATTENTION = "sdpa-flash"
_SAMPLES = 96
"""Steps to measure, if the budget allows them; in whole passes over the loop."""
_PASSES = 2
"""Passes at least, after one to warm up."""
_PREFILLS = 7
"""Samples of prefill, if the budget allows them."""
_TRACED = 16
"""Steps in the trace, evenly spaced over the loop, again and again where it has fewer; not less than a pass in time."""
_CEILINGS = 0.4
"""The share of the budget for the ceilings of a machine that is not known."""
_MAX_BYTES = 2**20
"""Of a hardware.yaml."""
_STAGES = 4
"""Parts of a run in its progress: making tensors, warming up, steps, kernels."""
_MEMORY = 0.9
"""The share of the free memory that a loop may take."""
GRAPHS, EAGER = "CUDA graphs", "one by one"
"""How the kernels of a step are launched."""
_HOW = {GRAPHS: "CUDA graph", EAGER: "launched one by one"}
"""The same in the notes of records, as those of other records."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run.

    Attributes:
        model: an id or a path; None: one that suits the device.
        device: "cuda" or "cpu".
        dtype: of `DTYPES`; None: bf16 on CUDA, fp32 on a host.
        sizes: batch, prompt and steps.
        budget: seconds.
        hardware: an id or a path; None: that of the device, by its name or as measured.
        backend: whose measured kernels the estimate is of; None: the default of the hardware.
        folder: for records; None: they are not written.
    """

    model: str | None
    device: str
    dtype: str | None
    sizes: LoopSizes
    budget: float
    hardware: str | None = None
    backend: str | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Launching:
    """The decode steps with their kernels launched in one way.

    Attributes:
        how: `GRAPHS` or `EAGER`.
        step: seconds of a step.
        kernels_s: of the kernels of a step, on a host of its operators.
        kernels: in a step.
    """

    how: str
    step: Timing
    kernels_s: float
    kernels: float

    @property
    def between_s(self) -> float:
        """Seconds of a step in which no kernel runs: launches and gaps."""
        return self.step.median - self.kernels_s


@dataclass(frozen=True, slots=True)
class KernelKind:
    """The kernels of one kind in a step, measured and predicted, in seconds; no prediction of kernels that no operator is.

    Calls are of the model's operators, each of a kernel or more; kernels of a host are torch's operators, with those inside.
    """

    kind: str
    calls: float
    kernels: float
    measured_s: float
    bound_s: float | None
    estimate_s: float | None

    @property
    def over_s(self) -> float:
        """What was measured beyond the estimate, or beyond the bound where there is none."""
        predicted = self.bound_s if self.estimate_s is None else self.estimate_s
        return self.measured_s - (predicted or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in (*self.__slots__, "over_s")}


@dataclass(slots=True)
class Served:
    """What a decode loop took, and what was predicted of it, in seconds.

    Attributes:
        model: that ran.
        device: its name.
        on_device: whether kernels are those of a device; False: operators of the host.
        hardware: that predictions are of.
        dtype: of weights, activations and caches.
        sizes: what ran; fewer steps than requested where the budget did not allow more.
        passes: how often the loop was measured.
        prefill: seconds of the prompts of the batch.
        launching: the ways in which steps were launched, that of engines first.
        kinds: the kernels of a step of `launching[0]`, the largest difference first.
        predicted_prefill, predicted_step: bound and estimate; of a step the mean over the steps of the loop.
        basis: what the estimate rests on, if that is not this accelerator; "" without an estimate.
        traced_ratio: the seconds of a step under the profiler over those without.
        inputs: files that were read.
        notes: what a reader should know.
    """

    model: Model
    device: str
    on_device: bool
    hardware: Hardware
    dtype: str
    sizes: LoopSizes
    passes: int
    prefill: Timing
    launching: list[Launching]
    kinds: list[KernelKind]
    predicted_prefill: Duration
    predicted_step: Duration
    basis: str
    traced_ratio: float
    inputs: Sequence[Input]
    records: int | None = None
    folder: Path | None = None
    machine_known: bool = True
    """Whether the records' id of the machine is that of a shipped file, or of a hardware.yaml beside them."""
    notes: list[str] = field(default_factory=list)

    @property
    def launch_s(self) -> float | None:
        """What launching kernels one by one adds to a step; None where that is the only way."""
        if len(self.launching) == 1:
            return None
        return self.launching[1].step.median - self.launching[0].step.median

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of the batch."""
        return self.sizes.batch / self.launching[0].step.median

    def to_dict(self) -> dict[str, Any]:
        """Plain data in seconds; the layout of `roofline bench serve --json`."""
        sizes = self.sizes
        return {
            "model": self.model.name,
            "device": self.device,
            "on_device": self.on_device,
            "hardware": self.hardware.name,
            "torch": torch.__version__,
            "dtype": self.dtype,
            "batch": sizes.batch,
            "input_len": sizes.prompt,
            "steps": sizes.steps,
            "passes": self.passes,
            "prefill": {"time_s": _timing(self.prefill), "predicted_s": self.predicted_prefill.to_dict()},
            "step": {
                "launching": [
                    {
                        "how": way.how,
                        "time_s": _timing(way.step),
                        "kernels_s": way.kernels_s,
                        "between_s": way.between_s,
                        "kernels": way.kernels,
                    }
                    for way in self.launching
                ],
                "launch_s": self.launch_s,
                "predicted_s": self.predicted_step.to_dict(),
                "estimate_basis": self.basis or None,
                "tokens_per_s": self.tokens_per_s,
                "traced_ratio": self.traced_ratio,
            },
            "kinds": [entry.to_dict() for entry in self.kinds],
            "folder": str(self.folder) if self.folder is not None else None,
            "records": self.records,
            "notes": self.notes,
        }


def _timing(value: Timing) -> dict[str, float]:
    return {"median": value.median, "p10": value.p10, "p90": value.p90, "samples": value.samples}


def serve(request: Request, show: Callable[[Progress], None]) -> Served:
    """Run a decode loop, and lay its steps and kernels beside what is predicted.

    Args:
        request: what to run.
        show: gets the progress.

    Raises:
        InputError: no such device, a model that the loop cannot run, or too little memory.
        RooflineError: an unknown name, a file that is not what it should be.
    """
    with tempfile.TemporaryDirectory() as temporary:
        try:
            return _Serving(request, Path(temporary), show).run()
        except torch.OutOfMemoryError:
            why = "the device is out of memory: fewer --batch, --input-len or --steps"
        except NotRunnableError as error:
            why = str(error)
        raise InputError(f"{request.model or 'the loop'}: {why}")


@dataclass(slots=True)
class _Way:
    """Steps launched in one way, with the seconds of each step by pass."""

    how: str
    steps: list[Call]
    passes: list[list[float]] = field(default_factory=list)


@dataclass(slots=True)
class _Traced:
    """Steps under the profiler: what they were, and the seconds of one."""

    profile: Profile
    step_s: float

    @property
    def kernels_s(self) -> float:
        """Seconds of the kernels of a step."""
        seconds = self.profile.trace.kernels.duration_s
        total = sum(float(seconds[at]) for step in self.profile.steps for at in step.kernels.tolist())
        return total / len(self.profile.steps)

    @property
    def kernels(self) -> float:
        """Kernels in a step."""
        return sum(len(step.kernels) for step in self.profile.steps) / len(self.profile.steps)


class _Serving:
    """One run."""

    def __init__(self, request: Request, temporary: Path, show: Callable[[Progress], None]) -> None:
        self.begin = time.monotonic()
        self.request, self.temporary, self.show = request, temporary, show
        self.device: Device = find_device(request.device)
        self.name = request.model or _DEFAULT_MODEL[self.device.kind]
        self.model, source = load_model(self.name)
        if source.path == "shipped":  # the whole id, of which a part may have been given
            self.name = self.model.name
        self.dtype = request.dtype or _DEFAULT_DTYPE[self.device.kind]
        self.sizes = request.sizes
        self.gpu = gpu_id(self.device)
        self.how = "monotonic clock" if self.device.kind == "cpu" else "events"
        self.prefills: list[float] = []
        self.stage = 0
        self.notes: list[str] = []

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.request.budget - (time.monotonic() - self.begin)

    def run(self) -> Served:
        """Measure, predict, write."""
        self._check()
        if warning := self.device.load_warning():
            self.notes.append(warning)
        hardware = self._hardware()
        self._resolve(hardware)  # refuses wrong names before anything is measured
        file = RecordsFile(self.request.folder) if self.request.folder is not None else None
        try:
            environment = None
            if file is not None:
                same_machine(file, self.gpu)
                environment = Environment(file.path.parent, self.device, self.gpu)
                environment.begin(self._arguments(), 1)
            records, outcome = 0, "interrupted"
            try:
                result, ways, traced = self._measured(hardware)
                if file is not None:
                    result.folder = file.path.parent
                    result.records = records = self._write(file, ways[0], traced, hardware)
                    result.machine_known = self.gpu != measured_id(self.device) or files.exists(
                        file.path.parent / HARDWARE_FILE
                    )
                outcome = "done"
            finally:
                if environment is not None:
                    environment.end(outcome, records, [])
        finally:
            if file is not None:
                file.close()
        return result

    def _arguments(self) -> dict[str, Any]:
        sizes = self.sizes
        return {
            "suites": ["serve"], "dtypes": [self.dtype], "budget_s": self.request.budget, "model": self.name,
            "batch": sizes.batch, "input_len": sizes.prompt, "steps": sizes.steps,
        }  # fmt: skip

    def _check(self) -> None:
        """Refuse what cannot be run: unknown parts of a model, positions that it does not have, too little memory."""
        sizes, model = self.sizes, self.model
        if (why := unsupported(model)) is not None:
            raise NotRunnableError(why)
        most = model.max_position_embeddings
        if most and sizes.tokens > most:
            raise InputError(f"--input-len {sizes.prompt} and --steps {sizes.steps}: {model.name} has {most:,} positions")
        memory, free = loop_memory(model, self.dtype, sizes), _MEMORY * self.device.free_bytes()
        if (needed := memory.total(sizes.batch)) > free:
            largest = memory.largest_batch(free)
            fits = f"the largest batch that fits is {largest:,}" if largest > 0 else "not one sequence fits"
            raise InputError(
                f"--batch {sizes.batch}: {model.name} in {self.dtype} with {plural(sizes.tokens, 'token')} per sequence needs "
                f"about {binary(needed)}, and {binary(free)} of memory may be taken: {fits}"
            )

    def _hardware(self) -> str:
        """The id or the file of what predictions are of: as named, as recognised, as measured before, or measured now."""
        if self.request.hardware is not None:
            return self.request.hardware
        if (shipped := shipped_id(self.device)) is not None:
            return shipped
        folder = self.request.folder or self.temporary
        path = folder / HARDWARE_FILE
        if not files.exists(path):
            ceilings = BenchRequest(
                folder, ("ceilings",), self.device.kind, (self.dtype,), max(_CEILINGS * self.request.budget, 5.0)
            )
            if not execute(ceilings, self.show).hardware:
                raise InputError("the budget is too small to measure the ceilings of this machine: name it with --hardware")
        return str(path)

    def _resolve(self, hardware: str) -> ResolvedRequest:
        """The same model, batch and lengths as `analyze` sees them, without an engine's part."""
        options = {"dtype": self.dtype, "backend": self.request.backend, "ignore_capacity": True}
        lengths = {"batch": self.sizes.batch, "input_len": self.sizes.prompt, "output_len": self.sizes.steps + 1}
        request, _ = resolve(self.name, hardware, **lengths, **options)
        return replace(request, steps=None)

    def _measured(self, hardware: str) -> tuple[Served, list[_Way], _Traced]:
        """The result, the ways of launching, and the trace that has the shapes of operators."""
        self._next("weights and KV cache")
        grouped = self.device.kind == "cuda"
        loop = DecodeLoop(
            self.model, TensorFactory(self.device.kind), self.dtype, self.sizes, attention=_ATTENTION,
            expert_backend=GROUPED if grouped else LOOP,
        )  # fmt: skip
        ways = self._ways(loop)
        self._passes(loop, ways)
        traces = [self._traced(way, hardware) for way in ways]
        return self._result(hardware, ways, traces), ways, traces[-1]

    def _next(self, words: str) -> None:
        """Say what comes next."""
        self.show(Progress(_STAGES, min(self.stage, _STAGES), max(self.left, 0.0), words))
        self.stage += 1

    def _ways(self, loop: DecodeLoop) -> list[_Way]:
        """The ways of launching, after a pass over the loop that warms it up; graphs first, as engines have them."""
        self._next("warming up")
        calls = self._affordable(loop)
        self.device.laps(calls)
        ways = [_Way(EAGER, calls)]
        try:
            if (graphs := self.device.captured(calls)) is not None:
                ways.insert(0, _Way(GRAPHS, graphs))
                self.device.laps(graphs)
        except NotRunnableError as error:
            self.notes.append(str(error))
        return ways

    def _affordable(self, loop: DecodeLoop) -> list[Call]:
        """The steps of the loop; fewer where the budget is too small for all of them. Prefill has run after it."""
        calls = loop.steps
        prefill, step = self.device.laps([loop.prefill, calls[0]])
        if prefill + step < 0.1 * self.left:  # the first calls find libraries and memory
            prefill, step = self.device.laps([loop.prefill, calls[0]])
        self.prefills.append(prefill)
        rounds = _PASSES + 2  # one to warm up, and one under the profiler
        number = max(1, int(self.left / (rounds * (2 if self.device.kind == "cuda" else 1) * step)))
        if number >= len(calls):
            return calls
        self.notes.append(f"the budget allows {plural(number, 'step')} of {len(calls)}")
        self.sizes = replace(self.sizes, steps=number)
        return calls[:number]

    def _passes(self, loop: DecodeLoop, ways: Sequence[_Way]) -> None:
        """Measure passes over the loop, ways by turns, until there are enough samples or the budget is spent.

        A pass begins with prefill where there is time for it; the caches are full in any case.
        """
        self._next("steps")
        for number in range(max(_PASSES, math.ceil(_SAMPLES / self.sizes.steps))):
            begin = time.monotonic()
            again = len(self.prefills) < _PREFILLS and self.prefills[0] < 0.1 * self.left
            for way in ways:
                seconds = self.device.laps([loop.prefill, *way.steps] if again else way.steps)
                if again:
                    self.prefills.append(seconds.pop(0))
                way.passes.append(seconds)
            if number + 1 >= _PASSES and self.left < 2 * (time.monotonic() - begin):
                break

    def _traced(self, way: _Way, hardware: str) -> _Traced:
        """Steps under the profiler. The caches are full from the passes before: any step can run."""
        self._next("kernels")
        contexts, steps = self.sizes.contexts, self.sizes.steps
        traced = min(steps, _TRACED)
        chosen = [round(at * (steps - 1) / max(traced - 1, 1)) for at in range(traced)]
        again = max(1, min(_TRACED // traced, int(self.left / (2 * max(sum(way.passes[-1]), 1e-9)))))
        path = self.temporary / "decode-loop.json.gz"
        calls = [(step_name(self.sizes.batch, contexts[at]), way.steps[at]) for _ in range(again) for at in chosen]
        seconds = trace(self.device, calls, path)
        result = profile(path, self.name, hardware, dtype=self.dtype, backend=self.request.backend)
        on_host = all(ACTIVITIES[number] == "cpu" for number in result.trace.kernels.activity)
        if on_host and self.device.kind != "cpu":
            raise NotRunnableError("torch's profiler saw no kernel of the device: it may not read its counters here")
        return _Traced(result, sum(seconds) / len(seconds))

    def _result(self, hardware: str, ways: Sequence[_Way], traces: Sequence[_Traced]) -> Served:
        request = self._resolve(hardware)
        predicted = request_times(request, timed=True)
        assert predicted is not None  # noqa: S101 - it has an output
        launching, scales = [], []
        for way, traced in zip(ways, traces, strict=True):
            step = timing([seconds for lap in way.passes for seconds in lap], 1, self.how)
            # On a host the profiler's own time is in that of the operators; kernels of a device are as long as without it.
            scales.append(step.median / traced.step_s if self.device.kind == "cpu" else 1.0)
            launching.append(Launching(way.how, step, traced.kernels_s * scales[-1], traced.kernels))
        first = traces[0]
        graph = build(
            request.model, request.deployment, request.precision, decode(self.sizes.batch, self.sizes.prompt),
            request.memory.stage,
        )  # fmt: skip
        basis = request.estimator.basis(kernels(graph)) if request.estimator.applies else ""
        return Served(
            model=self.model,
            device=self.device.name,
            on_device=self.device.kind != "cpu",
            hardware=request.hardware,
            dtype=self.dtype,
            sizes=self.sizes,
            passes=len(ways[0].passes),
            prefill=timing(self.prefills, 1, self.how),
            launching=launching,
            kinds=by_kind(first.profile.alignment, len(first.profile.steps), scales[0]),
            predicted_prefill=predicted["ttft_s"],
            predicted_step=predicted["tpot_s"],
            basis=basis,
            traced_ratio=first.step_s / launching[0].step.median,
            inputs=(*request.inputs, *request.estimator.fits.inputs.values()),
            notes=self.notes,
        )

    def _write(self, file: RecordsFile, way: _Way, traced: _Traced, hardware: str) -> int:
        """Append the records of prefill, of each step and of operators in the trace, and the machine; how many were new."""
        self._copy_hardware(hardware)
        rows = []
        samples = [((self.sizes.prompt, self.sizes.prompt), self.prefills, EAGER)]
        for at, cached in enumerate(self.sizes.contexts):
            samples.append(((1, cached + 1), [lap[at] for lap in way.passes], way.how))
        for (new, keys), seconds, launched in samples:
            numbers = {"batch": self.sizes.batch, "q_len": new, "kv_len": keys}
            point = Point("operators", "step", self.dtype, numbers, {"kernel": self.name}, backend=_ATTENTION)
            if point.cost.bytes < COLD * self.device.cache_bytes:
                point = replace(point, cache="warm")
            timed = timing(seconds, 1, f"decode loop, {_HOW[launched]}, {self.how}")
            rows.append(record(point, timed, point.columns(self.gpu, torch.__version__), {}))
        same = {"gpu": self.gpu, "version": torch.__version__}
        rows += [row | same for row in records_of(traced.profile, Rules.load())]
        new_rows = [row for row in rows if row not in file]
        for row in new_rows:
            file.add(row)
        if len(new_rows) < len(rows):
            self.notes.append(f"{plural(len(rows) - len(new_rows), 'record')} of earlier runs were kept and not repeated")
        return len(new_rows)

    def _copy_hardware(self, hardware: str) -> None:
        """The file of this machine as it was measured, beside its records: they carry its id."""
        assert self.request.folder is not None  # noqa: S101 - narrows the type: the caller looked
        target = self.request.folder / HARDWARE_FILE
        if self.gpu == measured_id(self.device) and not files.exists(target):
            specs, inputs = load_hardware(hardware)
            if specs.name == self.gpu:
                files.write_whole(target, files.read_text(Path(inputs[0].path), _MAX_BYTES).encode())


def by_kind(alignment: Iterable[AlignedOperator], steps: int, scale: float = 1.0) -> list[KernelKind]:
    """The kernels of a step by their kind, the largest difference first.

    Args:
        alignment: of all steps of a trace.
        steps: their number.
        scale: what measured seconds are multiplied by.
    """
    totals: dict[str, KernelKind] = {}

    def plus(one: float | None, other: float | None) -> float | None:
        return one if other is None else other / steps + (one or 0.0)

    for entry in alignment:
        before = totals.get(entry.kind, KernelKind(entry.kind, 0.0, 0.0, 0.0, None, None))
        totals[entry.kind] = KernelKind(
            entry.kind,
            before.calls + entry.measured / steps,
            before.kernels + entry.kernels / steps,
            before.measured_s + entry.time_s * scale / steps,
            plus(before.bound_s, entry.bound_s),
            plus(before.estimate_s, entry.estimate_s),
        )
    return sorted(totals.values(), key=lambda kind: -kind.over_s)
