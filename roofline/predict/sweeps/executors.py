"""Who evaluates the parts: this process, several, or the workers of a Dask cluster.

All are spoken to as `concurrent.futures.Executor`. What is sent out is a sweep and a part, what comes back is bytes; a part
whose worker is lost is evaluated again.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from roofline.errors import InputError, MissingExtraError
from roofline.predict.sweeps.evaluate import Found, evaluate
from roofline.predict.sweeps.folder import Written, decode, encode
from roofline.predict.sweeps.parts import Part, parts
from roofline.predict.sweeps.spec import Sweep

KINDS = "processes, processes:N, dask or dask:ADDRESS"
_RETRIES = 3
_WAITING = 2
"""Parts sent out for each worker: one that it works on, one that waits."""

Result = TypeVar("Result")


def work(sweep: Sweep, part: Part) -> Written:
    """One part, from the question to the bytes of its file."""
    return encode(sweep, part, evaluate(sweep, part))


def results(sweep: Sweep, wanted: Iterable[Part], executor: str | None) -> Iterator[Written]:
    """Every part as it is ready, in any order.

    Raises:
        InputError: an executor that is not known, workers that are lost again and again.
        MissingExtraError: Dask is not installed.
    """
    if executor is None:
        return (work(sweep, part) for part in wanted)
    kind, _, rest = executor.partition(":")
    if kind == "processes":
        return _by_processes(sweep, wanted, _count(rest))
    if kind == "dask":
        return _by_dask(sweep, wanted, rest)
    raise InputError(f"unknown executor {executor!r}; there are {KINDS}")


def found(sweep: Sweep, executor: str | None) -> Iterator[Found]:
    """Every part, in the order of the rows."""
    ready: dict[int, Written] = {}
    index = 0
    for written in results(sweep, parts(sweep), executor):
        ready[written.index] = written
        while index in ready:
            yield decode(ready.pop(index))
            index += 1


def _count(text: str) -> int:
    if text and not (text.isdecimal() and int(text) > 0):
        raise InputError(f"processes:{text}: how many must be a whole number from 1")
    return int(text) if text else os.cpu_count() or 1


def _by_processes(sweep: Sweep, wanted: Iterable[Part], workers: int) -> Iterator[Written]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    left = iter(wanted)
    lost: list[Part] = []
    for attempt in range(_RETRIES + 1):
        waiting: dict[Future[Written], Part] = {}
        # NB: spawned, not forked: threads of numeric libraries do not survive a fork
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                yield from _through(lambda part: pool.submit(work, sweep, part), left, waiting, workers, lost)
            except BrokenProcessPool:
                lost += [part for part in waiting.values() if part not in lost]
                if attempt == _RETRIES:
                    raise InputError(
                        "worker processes were killed again and again (too little memory?): fewer of them, such as "
                        "--executor processes:1, or smaller parts (--part-rows)"
                    ) from None
                continue
        return


def _through(
    submit: Callable[[Part], Future[Written]],
    left: Iterator[Part],
    waiting: dict[Future[Written], Part],
    workers: int,
    lost: list[Part],
) -> Iterator[Written]:
    """Parts sent out and taken back; at most a few wait for each worker."""
    while True:
        while len(waiting) < workers * _WAITING and (part := lost.pop() if lost else next(left, None)) is not None:
            waiting[submit(part)] = part
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            written = future.result()
            del waiting[future]
            yield written


def _by_dask(sweep: Sweep, wanted: Iterable[Part], address: str) -> Iterator[Written]:
    with _cluster(address) as client:
        workers = max(len(client.scheduler_info()["workers"]), 1)
        pool: Executor = client.get_executor(retries=_RETRIES, pure=False)
        yield from _through(lambda part: pool.submit(work, sweep, part), iter(wanted), {}, workers, [])


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """A client of a cluster: of the one at an address, else of one of this machine, on its loopback."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MissingExtraError("sweeps on a Dask cluster", "cluster") from None
    if address:
        try:
            client = distributed.Client(address, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"no Dask scheduler answers at {address}: {error}") from None
        with client:
            if not client.scheduler_info()["workers"]:
                raise InputError(f"the Dask scheduler at {address} has no workers")
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=os.cpu_count() or 1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
