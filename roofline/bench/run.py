"""A run: the points of its suites in order, until all are measured or the budget is spent."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from roofline.bench.collectives import Group, groups
from roofline.bench.counters import count
from roofline.bench.devices import device as find_device
from roofline.bench.devices.base import Device, Effort
from roofline.bench.environment import Environment
from roofline.bench.kernels.base import NotRunnableError
from roofline.bench.ledger import Ledger
from roofline.bench.machine import gpu_id, write_hardware
from roofline.bench.measure import measure, record
from roofline.bench.pace import Pace
from roofline.bench.place import Place
from roofline.bench.point import Point, Suite
from roofline.bench.suites import Scope, plan
from roofline.errors import InputError

Outcome = Literal["done", "budget", "interrupted"]
_DEFAULT_DTYPE = {"cuda": "bf16", "cpu": "fp32"}
_ENDING = 2.0  # seconds kept for writing what is left to write


@dataclass(slots=True)
class Progress:
    """How far a run is, for whoever shows it."""

    total: int
    done: int
    left_s: float | None
    words: str


@dataclass(slots=True)
class Report:
    """What a run did."""

    outcome: Outcome
    records: int
    before: int
    points: int
    seconds: float
    hardware: bool
    not_run: list[dict[str, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    folder: Path
    suites: tuple[Suite, ...]
    device: str
    dtypes: tuple[str, ...] = ()
    budget: float | None = None
    counters: bool = False


def scope_of(device: Device, dtypes: tuple[str, ...]) -> Scope:
    """What the suites are cut to."""
    return Scope(
        device.kind,
        device.cache_bytes,
        dtypes or (_DEFAULT_DTYPE[device.kind],),
        torch.cuda.device_count() if device.kind == "cuda" else 1,
    )


def execute(request: Request, show: Callable[[Progress], None]) -> Report:
    """Run. Whatever ends it, every finished record is on the disk, and the folder says how it ended."""
    begin = time.monotonic()
    device = find_device(request.device)
    points = plan(request.suites, scope_of(device, request.dtypes))
    ledger = Ledger(request.folder)
    try:
        gpu = gpu_id(device)
        _same_machine(ledger, gpu)
        environment = Environment(request.folder, device, gpu)
        runner = _Runner(request, device, gpu, ledger, environment, begin, show)
        return runner.run(points)
    finally:
        ledger.close()


def _same_machine(ledger: Ledger, gpu: str) -> None:
    """One folder holds one device and one version of torch: anything else could not be told apart afterwards."""
    if others := ledger.gpus - {gpu}:
        msg = f"{ledger.path}: holds records of {', '.join(sorted(others))}, and this device is {gpu}: name another folder"
        raise InputError(msg)
    if others := ledger.versions - {torch.__version__}:
        msg = (
            f"{ledger.path}: holds records of torch {', '.join(sorted(others))}, and this is {torch.__version__}: "
            "name another folder"
        )
        raise InputError(msg)


class _Runner:
    def __init__(
        self,
        request: Request,
        device: Device,
        gpu: str,
        ledger: Ledger,
        environment: Environment,
        begin: float,
        show: Callable[[Progress], None],
    ) -> None:
        self.request, self.device, self.gpu = request, device, gpu
        self.ledger, self.environment, self.begin, self.show = ledger, environment, begin, show
        self.records = 0
        self.not_run: list[dict[str, str]] = []
        self.said: list[str] = []
        self.counted: dict[str, dict[str, float]] = {}

    @property
    def left(self) -> float | None:
        """Seconds of the budget that are left."""
        return None if self.request.budget is None else self.request.budget - _ENDING - (time.monotonic() - self.begin)

    def run(self, points: list[Point]) -> Report:
        """All points that are not yet in the ledger."""
        todo = [point for point in points if self._columns(point) not in self.ledger]
        self.environment.begin(
            {
                "suites": list(self.request.suites),
                "dtypes": list(self.request.dtypes),
                "budget_s": self.request.budget,
                "counters": self.request.counters,
            },
            len(todo),
        )
        if self.ledger.cut_off:
            self.said.append("a record that an earlier run had not finished writing was cut away")
        outcome: Outcome = "interrupted"
        try:
            with _terminate_as_interrupt():
                outcome = self._points(todo)
        except KeyboardInterrupt:
            pass
        finally:
            hardware = write_hardware(self.request.folder, self.device)
            self.environment.end(outcome, self.records, self.not_run)
        return Report(
            outcome, self.records, len(points) - len(todo), len(points), time.monotonic() - self.begin, hardware, self.not_run,
            self.said,
        )  # fmt: skip

    def _columns(self, point: Point) -> dict[str, str]:
        return point.columns(self.gpu, torch.__version__)

    def _points(self, todo: list[Point]) -> Outcome:
        if self.request.counters:
            found = count(todo, self.device.kind, self.left)
            self.counted = found.by_point
            self.said += [found.said] if found.said else []
        alone = [point for point in todo if point.suite != "collectives"]
        together = [point for point in todo if point.suite == "collectives"]
        place, effort, pace = Place(self.device.kind), self._effort(len(alone)), Pace(self._longest())
        # Collectives need processes of their own, which take seconds to start: with a budget they have a part of its end.
        left = self.left or 0.0
        reserved = min(30.0, max(0.15 * left, min(10.0, 0.4 * left))) if together else 0.0
        outcome: Outcome = "done"
        for index, point in enumerate(alone):
            if self.left is not None and self.left <= reserved:
                outcome = "budget"
                break
            self.show(Progress(len(todo), index, self._ahead(index, len(todo)), str(point)))
            self._alone(point, place, effort, pace)
        after = self._together(groups(together), len(todo), len(alone))
        self.show(Progress(len(todo), len(todo), 0.0, ""))
        return "budget" if "budget" in (outcome, after) else "done"

    def _alone(self, point: Point, place: Place, effort: Effort, pace: Pace) -> None:
        try:
            pace.check(point)
            timing = measure(point, self.device, place, effort, pace)
        except NotRunnableError as error:
            self.not_run.append({"point": str(point), "why": str(error)})
            return
        pace.learn(point, timing.median)
        self.ledger.add(record(point, timing, self._columns(point), self.counted.get(str(point), {})))
        self.records += 1

    def _together(self, parts: list[Group], total: int, done: int) -> Outcome:
        for group in parts:
            for point, found in group.run(self.device.kind, self.left):
                self.show(Progress(total, done, self._ahead(done, total), str(point)))
                done += 1
                if isinstance(found, str):
                    self.not_run.append({"point": str(point), "why": found})
                else:
                    self.ledger.add(record(point, found, self._columns(point), {}))
                    self.records += 1
            if group.stopped:
                return "budget"
        return "done"

    def _effort(self, points: int) -> Effort:
        """Longer samples where the budget has room for them."""
        each = 0.1 if self.left is None else 0.5 * self.left / max(points, 1)
        return Effort(min(max(each, 0.02), 0.25))

    def _longest(self) -> float:
        return 30.0 if self.left is None else max(2.0, 0.05 * self.left)

    def _ahead(self, done: int, total: int) -> float | None:
        """Seconds to go: of the budget, or at the pace so far if that is sooner."""
        spent = time.monotonic() - self.begin
        pace = spent / done * (total - done) if done >= 5 else None
        return min((value for value in (self.left, pace) if value is not None), default=None)


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """A polite kill ends a run as Ctrl-C does."""

    def stop(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
