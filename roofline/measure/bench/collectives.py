"""Collectives: processes of their own, one a rank, that run points one after the other and hand the times to the first."""

from __future__ import annotations

import os
import queue
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from roofline.measure.bench.devices import Timing, timing
from roofline.measure.bench.kernels.base import first_line
from roofline.measure.bench.point import Point

_SAMPLES, _CALLS = 20, 5
_PATIENCE = 60.0  # seconds without a word from the processes, after which they are given up


class Group:
    """The points of collectives with the same number of ranks, run by one process per rank.

    Args:
        world: the number of ranks.
        points: what to measure, in order.
        cores: those of a host, on which the ranks may run; empty: wherever the system puts them.
    """

    def __init__(self, world: int, points: list[Point], cores: Sequence[int] = ()) -> None:
        self.world, self.points, self.cores = world, points, cores
        self.stopped = False
        """The budget ended before the points did."""

    def run(self, kind: str, left: float | None) -> Iterator[tuple[Point, Timing | str]]:
        """Start the ranks, measure the points and end the ranks.

        Args:
            kind: "cuda" (NCCL, a device per rank) or "cpu" (gloo).
            left: seconds of the budget; None: no limit. When they are over, `stopped` is set and no more points come.

        Yields:
            The points in order, each with its time, or with the reason why there is none.
        """
        end = None if left is None else time.monotonic() + left
        if not torch.distributed.is_available():
            yield from ((point, "this torch has no torch.distributed") for point in self.points)
            return
        context = torch.multiprocessing.get_context("spawn")
        results: Any = context.Queue()
        with tempfile.TemporaryDirectory() as folder:
            meeting = str(Path(folder, "meet"))
            ranks = [
                context.Process(target=_rank, args=(rank, self.world, kind, self.points, meeting, results), daemon=True)
                for rank in range(self.world)
            ]
            try:
                with _unbound(self.cores):
                    for rank in ranks:
                        rank.start()
                yield from self._collect(results, ranks, end)
            finally:
                for rank in ranks:
                    if rank.is_alive():
                        rank.terminate()
                for rank in ranks:
                    rank.join(timeout=10)

    def _collect(self, results: Any, ranks: list[Any], end: float | None) -> Iterator[tuple[Point, Timing | str]]:
        for position, point in enumerate(self.points):
            try:
                yield point, self._next(results, ranks, end)
            except TimeoutError:
                self.stopped = True
                return
            except RuntimeError as error:
                yield from ((other, str(error)) for other in self.points[position:])
                return

    @staticmethod
    def _next(results: Any, ranks: list[Any], end: float | None) -> Timing | str:
        patience = time.monotonic() + _PATIENCE
        while True:
            if end is not None and time.monotonic() > end:
                raise TimeoutError
            try:
                result: Timing | str = results.get(timeout=0.2)
            except queue.Empty:
                if any(rank.exitcode not in (None, 0) for rank in ranks):
                    raise RuntimeError("a process of the group ended with an error") from None
                if time.monotonic() > patience:
                    raise RuntimeError(f"no response from the processes of the group for {_PATIENCE:.0f} s") from None
            else:
                return result


@contextmanager
def _unbound(cores: Sequence[int]) -> Iterator[None]:
    """The thread that starts processes may be bound to a core, which they would all inherit."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def groups(points: list[Point], cores: Sequence[int] = ()) -> list[Group]:
    """Group points of collectives by their number of ranks (`world`), the smallest first; for `cores` see `Group`."""
    worlds = sorted({point.numbers["world"] for point in points})
    return [Group(world, [point for point in points if point.numbers["world"] == world], cores) for world in worlds]


def _rank(rank: int, world: int, kind: str, points: list[Point], meeting: str, results: Any) -> None:
    """One process of a group. It ends by itself when the first process is gone, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    parent = os.getppid()
    if kind == "cpu":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl" if kind == "cuda" else "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world,
        timeout=timedelta(seconds=_PATIENCE),
    )  # fmt: skip
    try:
        for point in points:
            if os.getppid() != parent:
                return
            result = _time(point, rank, world, kind)
            if rank == 0:
                results.put(result)
    finally:
        torch.distributed.destroy_process_group()


def _time(point: Point, rank: int, world: int, kind: str) -> Timing | str:
    """Each sample begins when all ranks are there."""
    where = torch.device("cuda", rank) if kind == "cuda" else torch.device("cpu")
    dtype = torch.bfloat16 if point.dtype == "bf16" else torch.float32
    count = point.numbers["bytes"] // dtype.itemsize
    count -= count % world
    try:
        call = _call(point.op, torch.randn(count, device=where).to(dtype), rank, world)
        for _ in range(3):
            call()
        samples = []
        for _ in range(_SAMPLES):
            _meet(kind)
            begin = time.perf_counter()
            for _ in range(_CALLS):
                call()
            _wait(kind)
            samples.append((time.perf_counter() - begin) / _CALLS)
    except (RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return timing(samples, _CALLS, "wall clock from a barrier on")


def _call(op: str, tensor: Any, rank: int, world: int) -> Any:
    """The collective; `tensor` is the larger of its two buffers."""
    group = torch.distributed
    part = torch.empty_like(tensor[: tensor.numel() // world])
    match op:
        case "all_reduce":
            return lambda: group.all_reduce(tensor)
        case "all_gather":
            return lambda: group.all_gather_into_tensor(tensor, part)
        case "reduce_scatter":
            return lambda: group.reduce_scatter_tensor(part, tensor)
        case "all_to_all":
            other = torch.empty_like(tensor)
            return lambda: group.all_to_all_single(other, tensor)
    return lambda: group.send(tensor, 1) if rank == 0 else group.recv(tensor, 0)


def _wait(kind: str) -> None:
    if kind == "cuda":
        torch.cuda.synchronize()


def _meet(kind: str) -> None:
    _wait(kind)
    torch.distributed.barrier()
    _wait(kind)
