"""A run as a trace to look at: Chrome's trace-event JSON, which ui.perfetto.dev and chrome://tracing open.

A process a replica. Its first track has the steps of the engine: one slice a step with prompts, one a run of decode steps in
which nothing changes (step by step: one each), one for the copies of caches before a step. Each seat has a track with the
requests that hold it, while their prompt is computed and while they decode. Requests without a seat (queued, preempted,
swapped) are asynchronous slices, a track each. Counters have what runs, what waits and which blocks are free, as each step
begins (what waits: as it ends).

Times are whole microseconds: readers cut fractions off, of begin and duration apart, and neighbours would overlap.

Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from heapq import heappop, heappush
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from roofline import files
from roofline.errors import InputError
from roofline.serving.simulation.job import Job
from roofline.serving.simulation.replica import Replica
from roofline.text import clean

SUFFIXES = (".json", ".json.gz")
_FLUSH = 1 << 12  # events
_STEPS = 1
"""The track of a process that has its steps; seats follow."""


class Trace:
    """A trace in the making, as of `files.writing`, written a part at a time. `about` stands in its head; within `whole()`
    nothing breaks in.

    Raises:
        InputError: another suffix, a place that cannot be written to.
    """

    def __init__(
        self, path: Path, about: Mapping[str, str] | None = None,
        whole: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:  # fmt: skip
        if not path.name.lower().endswith(SUFFIXES):
            raise InputError(f"cannot write a trace to {path}: the name must end in {' or '.join(SUFFIXES)}")
        self.path = path
        self._open = ExitStack()
        self._file = self._open.enter_context(files.writing(path))
        self._packer: gzip.GzipFile | None = None
        if path.name.lower().endswith(".gz"):  # without a name and a time: the same run makes the same bytes
            self._packer = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._file, mtime=0)
        self._whole = whole
        self._lines: list[str] = []
        self._between = ""
        self._watches: list[_Watch] = []
        self._refusing = 0
        head = {"displayTimeUnit": "ms", "otherData": {name: clean(value) for name, value in (about or {}).items()}}
        self._write(f'{json.dumps(head)[:-1]}, "traceEvents": [\n')

    def watch(self, replica: Replica) -> Callable[[tuple[Any, ...]], None]:
        """What tells the trace of a replica's events."""
        pid = replica.index + 1
        found = _Watch(self, replica, pid)
        self._watches.append(found)
        self.put(f'"M","pid":{pid},"name":"process_name","args":{{"name":"replica {replica.index}"}}')
        self.put(f'"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}')
        self.name(pid, _STEPS, "engine steps")
        return found

    def refused(self, job: Job) -> None:
        """A request came that can never be served."""
        if not self._refusing:
            self._refusing = pid = len(self._watches) + 1
            self.put(f'"M","pid":{pid},"name":"process_name","args":{{"name":"refused requests"}}')
            self.put(f'"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}')
            self.name(pid, _STEPS, "refused")
        self.put(
            f'"i","s":"t","pid":{self._refusing},"tid":{_STEPS},"ts":{_us(job.arrived)},"name":"refused",'
            f'"args":{{"request":{job.index},"prompt":{job.prompt},"answer":{job.answer}}}'
        )

    def name(self, pid: int, tid: int, text: str) -> None:
        """A track's name and place."""
        self.put(f'"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":"{text}"}}')
        self.put(f'"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":{tid}}}')

    def put(self, event: str) -> None:
        """An event, from the value of its `ph` on."""
        self._lines.append(event)
        if len(self._lines) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        if not self._lines:
            return
        with self._whole():
            self._write(self._between + '{"ph":' + '},\n{"ph":'.join(self._lines) + "}")
            self._between = ",\n"
            self._lines.clear()

    def _write(self, text: str) -> None:
        (self._packer or self._file).write(text.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._open.pop_all() as closing:
            if kind is not None:
                with suppress(Exception):  # the file is removed: what its end would have been does not matter
                    if self._packer is not None:
                        self._packer.close()
                closing.__exit__(kind, error, trace)
                return
            for watch in self._watches:
                watch.close()
            self._flush()
            self._write("\n]}\n")
            if self._packer is not None:
                self._packer.close()  # the last part of a packed file comes with its end


class _Watch:
    """Turns the events of a replica into those of a trace. Of a request it keeps what it does since when, until it ends."""

    def __init__(self, trace: Trace, replica: Replica, pid: int) -> None:
        self._trace, self._put, self._replica, self._pid = trace, trace.put, replica, pid
        self._now: dict[int, tuple[Job, str, int, int]] = {}
        """By request: what it does, since when, and its seat; 0 if it has none."""
        self._free: list[int] = []
        """A heap of the seats that nobody holds."""
        self._seats = 0
        self._counted: dict[str, int] = {}
        self._last = 0
        self._does: dict[str, Callable[[tuple[Any, ...]], None]] = {
            "decode": self._decode, "mixed": self._mixed, "admit": self._admit, "token": self._token, "end": self._end,
            "preempt": lambda event: self._evicted(event, "preempted"),
            "swap": lambda event: self._evicted(event, "swapped"),
            "resume": self._resume,
        }  # fmt: skip

    def __call__(self, event: tuple[Any, ...]) -> None:
        self._does[event[0]](event)

    def close(self) -> None:
        """Whoever is still there was so up to the last event."""
        for index in list(self._now):
            self._leave(index, self._last)

    # Steps

    def _decode(self, event: tuple[Any, ...]) -> None:
        _, begins, ends, steps, many = event
        self._step(begins, ends, "decode", f'"steps":{steps},"sequences":{many},"cached tokens":{self._replica.cached}')

    def _mixed(self, event: tuple[Any, ...]) -> None:
        _, begins, ends, many, chunks = event
        tokens = sum([new for _, new, _ in chunks])
        before = sum([before for _, _, before in chunks])
        which = ",".join([str(index) for index, _, _ in chunks])
        args = f'"prompt tokens":{tokens},"cached of prompts":{before},"requests":[{which}]'
        if many:
            args += f',"sequences":{many},"cached tokens":{self._replica.cached}'
        self._step(begins, ends, "prefill and decode" if many else "prefill", args)

    def _step(self, begins: float, ends: float, name: str, args: str) -> None:
        replica, pid = self._replica, self._pid
        begin, end = _us(begins), _us(ends)
        self._count("running", "requests", begin, len(replica.running))
        self._count("KV blocks", "free", begin, replica.free)
        if replica.lead:
            after = _us(begins + replica.lead)
            self._put(f'"X","pid":{pid},"tid":{_STEPS},"ts":{begin},"dur":{after - begin},"name":"copies to or from the host"')
            begin = after
        taken = replica.blocks - replica.free
        self._put(
            f'"X","pid":{pid},"tid":{_STEPS},"ts":{begin},"dur":{end - begin},"name":"{name}",'
            f'"args":{{{args},"KV blocks taken":{taken}}}'
        )
        self._count("waiting", "requests", end, len(replica.waiting) + len(replica.swapped))
        self._last = end

    def _count(self, name: str, unit: str, at: int, value: int) -> None:
        """A counter, where it is another than before."""
        if self._counted.get(name) != value:
            self._counted[name] = value
            self._put(f'"C","pid":{self._pid},"ts":{at},"name":"{name}","args":{{"{unit}":{value}}}')

    # Requests

    def _admit(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        job = next(reversed(self._replica.running))  # the last that was let in
        begin = _us(at)
        if index in self._now:
            self._leave(index, begin)
        else:
            self._apart(job, "queued", _us(job.arrived), begin)
        self._begin(job, "prefill", begin, self._seat())

    def _token(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        job, _, _, seat = self._now[index]
        begin = _us(at)
        self._leave(index, begin, keeps=True)
        self._begin(job, "decode", begin, seat)

    def _resume(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        job, begin = self._now[index][0], _us(at)
        self._leave(index, begin)
        self._begin(job, "decode", begin, self._seat())

    def _evicted(self, event: tuple[Any, ...], how: str) -> None:
        _, at, index = event
        job, begin = self._now[index][0], _us(at)
        self._leave(index, begin)
        self._begin(job, how, begin, 0)

    def _end(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        job, end, replica = self._now[index][0], _us(at), self._replica
        self._leave(index, end, f',"ttft_s":{job.first - job.arrived:.6g},"e2e_s":{at - job.arrived:.6g}')
        if not replica.running:  # no step may come for long
            self._count("running", "requests", end, 0)
            self._count("KV blocks", "free", end, replica.free)

    def _begin(self, job: Job, does: str, at: int, seat: int) -> None:
        self._now[job.index] = (job, does, at, seat)

    def _leave(self, index: int, at: int, more: str = "", *, keeps: bool = False) -> None:
        """What a request did has ended; what took no time is not shown."""
        job, did, since, seat = self._now.pop(index)
        if not seat:
            self._apart(job, did, since, at)
            return
        if at > since:
            self._put(
                f'"X","pid":{self._pid},"tid":{_STEPS + seat},"ts":{since},"dur":{at - since},"name":"{did}",'
                f'"args":{{{_described(job)}{more}}}'
            )
        if not keeps:
            heappush(self._free, seat)

    def _apart(self, job: Job, did: str, since: int, at: int) -> None:
        if at > since:
            which = f'"cat":"{did}","id":"{job.index:#x}","pid":{self._pid},"tid":{_STEPS},"name":"{did}"'
            # both at once: somebody may break in
            self._put(f'"b",{which},"ts":{since},"args":{{{_described(job)}}}}},\n{{"ph":"e",{which},"ts":{at}')

    def _seat(self) -> int:
        """The first that is free; a new one where all are held."""
        if self._free:
            return heappop(self._free)
        self._seats += 1
        self._trace.name(self._pid, _STEPS + self._seats, f"seat {self._seats}")
        return self._seats


def _described(job: Job) -> str:
    found = f'"request":{job.index},"prompt":{job.prompt},"answer":{job.answer}'
    return f'{found},"preemptions":{job.preemptions}' if job.preemptions else found


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
