"""Many tasks carried out: by this process, by several, or by the workers of a Dask cluster.

Executors are spoken to as `concurrent.futures.Executor`. A function and a task are sent out, a result comes back; a task whose
worker is lost is done again. Results come as they are ready.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from roofline.errors import InputError, MissingExtraError

KINDS = "processes, processes:N, dask or dask:ADDRESS"
_RETRIES = 3
_WAITING = 2
"""Tasks sent out for each worker: one that it works on, one that waits."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def results(
    work: Callable[[Task], Result], tasks: Iterable[Task], executor: str | None, *, what: str, smaller: str = ""
) -> Iterator[Result]:
    """Return the result of every task as they are ready, in any order.

    Args:
        work: does a task; it and the tasks are pickled for other processes.
        tasks: in the order in which they are begun.
        executor: "processes", "processes:N", "dask" or "dask:ADDRESS"; None: this process.
        what: what is done, such as "sweeps", for messages.
        smaller: how tasks can be made smaller, to end a message.

    Raises:
        InputError: an executor that is not known, workers that are lost again and again.
        MissingExtraError: Dask is not installed.
    """
    if executor is None:
        return map(work, tasks)
    kind, _, rest = executor.partition(":")
    if kind == "processes":
        return _by_processes(work, tasks, _num_workers(rest), smaller)
    if kind == "dask":
        return _by_dask(work, tasks, rest, what)
    raise InputError(f"unknown executor {executor!r}; there are {KINDS}")


def _num_workers(text: str) -> int:
    if text and not (text.isdecimal() and int(text) > 0):
        raise InputError(f"processes:{text}: how many must be a whole number from 1")
    return int(text) if text else os.cpu_count() or 1


def _begin_worker() -> None:
    """In a worker: Ctrl-C is for the process that sends tasks, and a worker ends when that one is gone, however it went."""
    import multiprocessing
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _by_processes(work: Callable[[Task], Result], tasks: Iterable[Task], workers: int, smaller: str) -> Iterator[Result]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    left = iter(tasks)
    lost: list[Task] = []
    for attempt in range(_RETRIES + 1):
        waiting: dict[Future[Result], Task] = {}
        # NB: spawned, not forked: threads of numeric libraries do not survive a fork
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_worker) as pool:
            try:
                yield from through(lambda task: pool.submit(work, task), left, waiting, workers, lost)
            except BrokenProcessPool:
                lost += [task for task in waiting.values() if task not in lost]
                if attempt == _RETRIES:
                    raise InputError(
                        "worker processes were killed again and again (too little memory?): fewer of them, such as "
                        f"--executor processes:1{smaller}"
                    ) from None
                continue
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return


def through(
    submit: Callable[[Task], Future[Result]],
    left: Iterator[Task],
    waiting: dict[Future[Result], Task],
    workers: int,
    lost: list[Task],
) -> Iterator[Result]:
    """Send tasks out and take results back; at most a few wait for each worker.

    Args:
        submit: sends a task out.
        left: tasks that have not been sent.
        waiting: gets the tasks that are out.
        workers: their number.
        lost: tasks to send again, before `left`.
    """
    while True:
        while len(waiting) < workers * _WAITING and (task := lost.pop() if lost else next(left, None)) is not None:
            lost.append(task)  # until it is sent: a pool that has just broken takes nothing
            future = submit(task)
            waiting[future] = lost.pop()
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            result = future.result()
            del waiting[future]
            yield result


def _by_dask(work: Callable[[Task], Result], tasks: Iterable[Task], address: str, what: str) -> Iterator[Result]:
    with _cluster(address, what) as client:
        workers = max(len(client.scheduler_info()["workers"]), 1)
        pool: Executor = client.get_executor(retries=_RETRIES, pure=False)
        yield from through(lambda task: pool.submit(work, task), iter(tasks), {}, workers, [])


@contextmanager
def _cluster(address: str, what: str) -> Iterator[Any]:
    """A client of a cluster: of the one at an address, else of one of this machine, on its loopback."""
    try:
        import distributed as untyped
    except ImportError:
        raise MissingExtraError(f"{what} on a Dask cluster", "cluster") from None
    distributed: Any = untyped  # its functions have no annotations
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
