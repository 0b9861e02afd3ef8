"""A sweep carried out: by this process, by several, or by the workers of a Dask cluster.

Executors are spoken to as `concurrent.futures.Executor`. A sweep and a part are sent out, bytes come back; a part whose worker
is lost is evaluated again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.errors import InputError, MissingExtraError, RooflineError, UnitError, UnknownNameError
from roofline.predict.compiled import compile
from roofline.predict.sweeps.axes import COUNTS, DEPLOYMENT
from roofline.predict.sweeps.evaluate import MOST_ROWS, Evaluated, Refused, check_any, evaluate, refusals, together
from roofline.predict.sweeps.folder import Written, decode, encode
from roofline.predict.sweeps.spec import Part, Sweep

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Called with the points evaluated so far, and the points of the sweep."""


def collect(
    sweep: Sweep, results: Iterable[Evaluated] | None = None, progress: Progress = lambda done, of: None
) -> pd.DataFrame:
    """Return all rows in one frame, in their order; `frame.attrs["refused"]` lists configurations that cannot be.

    Args:
        sweep: what is evaluated.
        results: parts in order; None: they are evaluated here.
        progress: called after each part with the points done and the points of the sweep.

    Raises:
        InputError: more rows than one table holds, or no point that can be.
    """
    if sweep.reduction is None and sweep.points > MOST_ROWS:
        raise InputError(
            f"{sweep.points:,} points do not fit into one table of at most {MOST_ROWS:,} rows: write a folder of parts "
            "(-o with a name that has no suffix), or reduce them (--reduce)"
        )
    frames: list[pd.DataFrame] = []
    refused: list[Refused] = []
    done = 0
    for one in results if results is not None else (evaluate(sweep, part) for part in sweep.parts()):
        frames.append(one.frame)
        refused += one.refused
        done += one.points + sum(entry.points for entry in one.refused)
        progress(done, sweep.points)
        if sweep.reduction is not None and len(frames) > 1:
            frames = [together(sweep, frames)]
    whole = together(sweep, frames)
    listed = refusals(refused)
    if whole.empty and not any(len(frame) for frame in frames) and listed:
        check_any(sweep, listed)
    whole.attrs["refused"] = listed
    return whole


def check_values(sweep: Sweep) -> None:
    """Check the values of axes that no configuration could have: an unknown name, a number without its unit.

    Each is tried with the first value of every other axis that it needs.

    Raises:
        InputError: such a value.
    """
    model, hardware = next(iter(sweep.models.values())), next(iter(sweep.hardware.values()))
    for name in sweep.axes:
        if name not in DEPLOYMENT or name in COUNTS:
            continue
        for value in sweep.axes[name]:
            try:
                option: dict[str, Any] = {name: None if value is None else str(value)}
                compile(model, hardware, **option)
            except RooflineError as error:
                # a message about the option itself is of every configuration, any other of this one
                if isinstance(error, UnknownNameError | UnitError) or str(error).startswith(f"--{name.replace('_', '-')}"):
                    raise InputError(f"axis {name!r}: {error}") from None


KINDS = "processes, processes:N, dask or dask:ADDRESS"
_RETRIES = 3
_WAITING = 2
"""Parts sent out for each worker: one that it works on, one that waits."""

Result = TypeVar("Result")


def _work(sweep: Sweep, part: Part) -> Written:
    """One part, from the question to the bytes of its file."""
    return encode(sweep, part, evaluate(sweep, part))


def written_parts(sweep: Sweep, wanted: Iterable[Part], executor: str | None) -> Iterator[Written]:
    """Return parts as Parquet as they are ready, in any order.

    Args:
        sweep: what is evaluated.
        wanted: its parts.
        executor: "processes", "processes:N", "dask" or "dask:ADDRESS"; None: this process.

    Raises:
        InputError: an executor that is not known, workers that are lost again and again.
        MissingExtraError: Dask is not installed.
    """
    if executor is None:
        return (_work(sweep, part) for part in wanted)
    kind, _, rest = executor.partition(":")
    if kind == "processes":
        return _by_processes(sweep, wanted, _num_workers(rest))
    if kind == "dask":
        return _by_dask(sweep, wanted, rest)
    raise InputError(f"unknown executor {executor!r}; there are {KINDS}")


def evaluated(sweep: Sweep, executor: str | None) -> Iterator[Evaluated]:
    """Return every part, in the order of the rows; arguments and errors as of `written_parts`."""
    ready: dict[int, Written] = {}
    index = 0
    for written in written_parts(sweep, sweep.parts(), executor):
        ready[written.index] = written
        while index in ready:
            yield decode(ready.pop(index))
            index += 1


def _num_workers(text: str) -> int:
    if text and not (text.isdecimal() and int(text) > 0):
        raise InputError(f"processes:{text}: how many must be a whole number from 1")
    return int(text) if text else os.cpu_count() or 1


def _by_processes(sweep: Sweep, wanted: Iterable[Part], workers: int) -> Iterator[Written]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    left = iter(wanted)
    lost: list[Part] = []
    for attempt in range(_RETRIES + 1):
        waiting: dict[Future[Written], Part] = {}
        # NB: spawned, not forked: threads of numeric libraries do not survive a fork
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                yield from _through(lambda part: pool.submit(_work, sweep, part), left, waiting, workers, lost)
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
            lost.append(part)  # until it is sent: a pool that has just broken takes nothing
            future = submit(part)
            waiting[future] = lost.pop()
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
        yield from _through(lambda part: pool.submit(_work, sweep, part), iter(wanted), {}, workers, [])


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """A client of a cluster: of the one at an address, else of one of this machine, on its loopback."""
    try:
        import distributed as untyped
    except ImportError:
        raise MissingExtraError("sweeps on a Dask cluster", "cluster") from None
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
