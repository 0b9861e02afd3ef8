"""A run: the points of its suites in order, until all are measured or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from roofline import files
from roofline.errors import InputError, RooflineError
from roofline.formatting import plural
from roofline.measure.bench.collectives import Group, groups
from roofline.measure.bench.counters import count
from roofline.measure.bench.devices import Device, DeviceLostError, SamplingBudget
from roofline.measure.bench.devices import device as find_device
from roofline.measure.bench.kernels.attention_packages import backend_version, missing
from roofline.measure.bench.kernels.base import NotRunnableError, TensorFactory
from roofline.measure.bench.machine import HARDWARE_FILE, Environment, gpu_id, measured_id, write_hardware
from roofline.measure.bench.measure import SeenRates, measure, record
from roofline.measure.bench.point import PACKAGES, Point, Suite
from roofline.measure.bench.records_file import RecordsFile
from roofline.measure.bench.suites import Scope, plan

Outcome = Literal["done", "budget", "interrupted", "failed"]
_DEFAULT_DTYPE = {"cuda": "bf16", "cpu": "fp32"}
_MAX_POINT = 2**12
_AT = ".at"  # names the point that is being measured: if a run dies of it, the next one knows
_ENDING = 2.0  # seconds reserved for writing what is left to write


@dataclass(slots=True)
class Progress:
    """How far a run is: points in all and done, seconds to go (None: unknown), and the text of the next point."""

    total: int
    done: int
    left_s: float | None
    words: str


@dataclass(slots=True)
class Report:
    """What a run did: records added (`records`) and there before (`before`), points planned, seconds, notes for the user."""

    outcome: Outcome
    records: int
    before: int
    points: int
    seconds: float
    hardware: bool
    """Whether there is a hardware.yaml."""
    shipped: bool
    """Whether the device is one whose figures are shipped."""
    not_run: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """What to run.

    Attributes:
        folder: for the records.
        suites: to measure.
        device: "cuda" or "cpu".
        dtypes: of operators; empty: bf16 on CUDA, fp32 on a host.
        budget: seconds; None: no limit.
        counters: whether to read hardware counters too.
    """

    folder: Path
    suites: tuple[Suite, ...]
    device: str
    dtypes: tuple[str, ...] = ()
    budget: float | None = None
    counters: bool = False


def scope_of(device: Device, dtypes: tuple[str, ...]) -> Scope:
    """The scope of the suites on a device; without `dtypes` operators are measured in bf16 on CUDA, in fp32 on a host."""
    return Scope(
        device.kind,
        device.cache_bytes,
        dtypes or (_DEFAULT_DTYPE[device.kind],),
        torch.cuda.device_count() if device.kind == "cuda" else 1,
    )


def execute(request: Request, show: Callable[[Progress], None]) -> Report:
    """Measure the points of suites. However it ends, every finished record is on the disk, and `environment.json` says how.

    Args:
        request: what to run.
        show: gets the progress before each point.

    Raises:
        InputError: if there is no such device, it cannot multiply a dtype, or the folder cannot be written or holds records
            of another device or version of torch.
    """
    begin = time.monotonic()
    device = find_device(request.device)
    if device.kind == "cpu" and "tf32" in request.dtypes:
        msg = "--dtype tf32: a way in which CUDA devices multiply fp32; on a host use fp32"
        raise InputError(msg)
    points = plan(request.suites, scope_of(device, request.dtypes))
    records_file = RecordsFile(request.folder)
    try:
        gpu = gpu_id(device)
        same_machine(records_file, gpu)
        environment = Environment(request.folder, device, gpu)
        runner = _Runner(request, device, gpu, records_file, environment, begin, show)
        return runner.run(points)
    finally:
        records_file.close()


def same_machine(records_file: RecordsFile, gpu: str) -> None:
    """One folder holds one device and one version of torch: anything else could not be distinguished afterwards."""
    if others := records_file.gpus - {gpu}:
        msg = (
            f"{records_file.path}: holds records of {', '.join(sorted(others))}, and this device is {gpu}: name another folder"
        )
        raise InputError(msg)
    if others := records_file.versions - {torch.__version__}:
        msg = (
            f"{records_file.path}: holds records of torch {', '.join(sorted(others))}, and this is {torch.__version__}: "
            "name another folder"
        )
        raise InputError(msg)


class _Runner:
    """One run: `factory`, `effort` and `pace` are set when its points are known."""

    factory: TensorFactory
    effort: SamplingBudget
    pace: SeenRates

    def __init__(
        self,
        request: Request,
        device: Device,
        gpu: str,
        records_file: RecordsFile,
        environment: Environment,
        begin: float,
        show: Callable[[Progress], None],
    ) -> None:
        self.request, self.device, self.gpu = request, device, gpu
        self.records_file, self.environment, self.begin, self.show = records_file, environment, begin, show
        self.records, self.seen, self.total = 0, 0, 0
        self.at = request.folder / _AT
        self.machine: bool | None = None
        self.known: list[Point] = []
        self.not_run: list[dict[str, str]] = []
        self.notes: list[str] = []
        self.counted: dict[str, dict[str, float]] = {}

    @property
    def left(self) -> float | None:
        """Seconds of the budget that are left."""
        return None if self.request.budget is None else self.request.budget - _ENDING - (time.monotonic() - self.begin)

    def run(self, points: list[Point]) -> Report:
        """Measure all points that are not yet in the file of records."""
        suspects = self._suspects()
        points, refused = self._installed(points)
        todo = [point for point in points if self._columns(point) not in self.records_file]
        self.known = [point for point in points if self._columns(point) in self.records_file]
        tried = self.environment.not_run
        # last: whatever they do, the others are measured
        todo.sort(key=lambda point: (str(point) in suspects, str(point) in tried))
        self.environment.begin(
            {
                "suites": list(self.request.suites),
                "dtypes": list(self.request.dtypes),
                "budget_s": self.request.budget,
                "counters": self.request.counters,
            },
            len(todo),
        )
        self.at.unlink(missing_ok=True)  # now that the file of the environment has it
        if warning := self.device.load_warning():
            self.notes.append(warning)
        if self.records_file.cut_off:
            self.notes.append("a record that an earlier run had not finished writing was cut away")
        outcome: Outcome = "interrupted"
        try:
            outcome = self._points(todo)
        except KeyboardInterrupt:  # also SIGTERM: `TerminatedError`
            self.at.unlink(missing_ok=True)
        except DeviceLostError as error:
            outcome = "failed"
            self.notes.append(f"the device does not answer any more ({error}); the same command goes on in a new process")
        except Exception as error:
            if isinstance(error, InputError):  # such as a full disk: the point is not to blame
                self.at.unlink(missing_ok=True)
            self._write_hardware()
            with suppress(InputError):  # the first error says what is wrong
                self.environment.end("failed", self.records, self.not_run)
            raise
        hardware = self._write_hardware()
        self.environment.end(outcome, self.records, self.not_run)
        return Report(
            outcome, self.records, len(self.known), len(points) + refused, time.monotonic() - self.begin, hardware,
            self.gpu != measured_id(self.device), self.not_run, self.notes,
        )  # fmt: skip

    def _installed(self, points: list[Point]) -> tuple[list[Point], int]:
        """The points whose backends are installed, and the number of backends that are not: one each that could not be run."""
        for backend in PACKAGES:
            listed = [point for point in points if point.backend == backend]
            if listed and (why := missing(backend)) is not None:
                self.not_run.append({"point": str(listed[0]), "why": f"{why}: {plural(len(listed), 'point')} left out"})
                points = [point for point in points if point.backend != backend]
        return points, len(self.not_run)

    def _suspects(self) -> list[str]:
        """Points in which an earlier run of this folder died."""
        for path in (self.at, self.environment.path, self.request.folder / HARDWARE_FILE):
            files.remove_stale_of(path)
        if files.exists(self.at):
            self.environment.suspect(files.read_text(self.at, _MAX_POINT, "the text of a point", is_input=False))
        return self.environment.suspects

    def _write_hardware(self) -> bool:
        """The machine as measured; what cannot be written now must not end a run."""
        try:
            return write_hardware(self.request.folder, self.device)
        except RooflineError as error:
            self.notes.append(f"no hardware.yaml: {error}")
            return False

    def _columns(self, point: Point) -> dict[str, str]:
        return point.columns(self.gpu, backend_version(point.backend))

    def _points(self, todo: list[Point]) -> Outcome:
        if self.request.counters:
            self.show(Progress(len(todo), 0, self.left, "hardware counters"))
            counted = count(todo, self.device.kind, self.left)
            self.counted = counted.by_point
            self.notes += [counted.note] if counted.note else []
        alone = [point for point in todo if point.suite != "collectives"]
        together = [point for point in todo if point.suite == "collectives"]
        self.total, self.factory = len(todo), TensorFactory(self.device.kind)
        self.effort, self.pace = self._effort(len(alone)), SeenRates(self._longest())
        for point in self.known:
            if (seconds := self.records_file.seconds(self._columns(point))) is not None:
                self.pace.learn(point, seconds)
        # Collectives need processes of their own, which take seconds to start: with a budget a part of it is reserved for them.
        left = self.left or 0.0
        reserved = min(30.0, max(0.15 * left, min(6.0, 0.3 * left))) if together else 0.0
        remaining = self._until(alone, reserved)
        finished = self._together(groups(together, self.device.cores))
        remaining = self._until(remaining, 0.0)
        self.show(Progress(self.total, self.seen, 0.0, ""))
        return "done" if finished and not remaining else "budget"

    def _until(self, points: list[Point], reserved: float) -> list[Point]:
        """Measure points until no more than so much of the budget is left; those that it did not come to."""
        for index, point in enumerate(points):
            if self.left is not None and self.left <= reserved:
                return points[index:]
            if self.machine is None and not (point.suite == "ceilings" and point.tier == 0):
                self.machine = self._write_hardware()  # a run that is killed has it too
            self._next(point)
            self._alone(point)
        return []

    def _next(self, point: Point) -> None:
        """Say what comes next."""
        self.show(Progress(self.total, self.seen, self._ahead(), str(point)))
        self.seen += 1

    def _alone(self, point: Point) -> None:
        files.write_whole(self.at, str(point).encode())
        try:
            self.pace.check(point)
            timing = measure(point, self.device, self.factory, self.effort, self.pace)
        except NotRunnableError as error:
            self.not_run.append({"point": str(point), "why": str(error)})
        else:
            self.pace.learn(point, timing.median)
            self.records_file.add(record(point, timing, self._columns(point), self.counted.get(str(point), {})))
            self.records += 1
        self.device.finish()
        self.at.unlink()

    def _together(self, parts: list[Group]) -> bool:
        """Measure groups of processes; whether the budget was enough for all."""
        for group in parts:
            for point, outcome in group.run(self.device.kind, self.left):
                self._next(point)
                if isinstance(outcome, str):
                    self.not_run.append({"point": str(point), "why": outcome})
                else:
                    self.records_file.add(record(point, outcome, self._columns(point), {}))
                    self.records += 1
            if group.stopped:
                return False
        return True

    def _effort(self, points: int) -> SamplingBudget:
        """Longer samples where the budget allows them."""
        each = 0.1 if self.left is None else 0.5 * self.left / max(points, 1)
        return SamplingBudget(min(max(each, 0.02), 0.25))

    def _longest(self) -> float:
        return 30.0 if self.left is None else max(2.0, min(10.0, 0.05 * self.left))

    def _ahead(self) -> float | None:
        """Seconds to go: of the budget, or at the pace so far if that is sooner."""
        spent = time.monotonic() - self.begin
        pace = spent / self.seen * (self.total - self.seen) if self.seen >= 5 else None
        return min((value for value in (self.left, pace) if value is not None), default=None)
