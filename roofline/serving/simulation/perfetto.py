"""Trace export: a run as Chrome's trace-event JSON, which ui.perfetto.dev and chrome://tracing open.

A replica is a process. Its first track has the steps of the engine: one slice per step with prompts, one per run of decode
steps in which nothing changes (with `stepwise`: one per step), one for the copies of caches before a step. Each slot has a
track with the requests that run in it, while their prompt is computed and while they decode. Requests without a slot (queued,
preempted, swapped, loading blocks) are asynchronous slices, a track each. The link of each KV cache tier has a track with its
loads. Counters have the requests that run and wait and the free blocks, as
each step begins (requests that wait: as it ends).

Times are whole microseconds: readers cut off fractions of begin and duration separately, and neighbours would overlap.

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
from typing import TYPE_CHECKING, Any, Self

from roofline import files
from roofline.errors import InputError
from roofline.serving.simulation.replica import Replica
from roofline.serving.simulation.request import Request
from roofline.serving.simulation.scheduler import Watch
from roofline.text import clean

if TYPE_CHECKING:
    from roofline.serving.simulation.disaggregation import Transfer

SUFFIXES = (".json", ".json.gz")
_FLUSH = 1 << 12  # events
_TRANSFERS = 1 << 20
"""The process with the caches that are sent from one replica to another."""
_STEPS = 1
"""The track of a process that has its steps; slots follow."""
_LINKS = 1 << 20
"""The first track of the links of KV cache tiers."""


class Trace:
    """A trace file, written part by part; removed when something fails (`files.writing`).

    Args:
        path: where; `.gz` packs it.
        metadata: what is in its head.
        whole: within it nothing interrupts.

    Raises:
        InputError: another suffix, a path that cannot be written to.
    """

    def __init__(
        self, path: Path, metadata: Mapping[str, str] | None = None,
        whole: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:  # fmt: skip
        if not path.name.lower().endswith(SUFFIXES):
            raise InputError(f"cannot write a trace to {path}: the name must end in {' or '.join(SUFFIXES)}")
        self.path = path
        self._open = ExitStack()
        self._file = self._open.enter_context(files.writing(path))
        self._packer: gzip.GzipFile | None = None
        if path.name.lower().endswith(".gz"):  # no name and no time: the same run makes the same bytes
            self._packer = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=self._file, mtime=0)
        self._whole = whole
        self._lines: list[str] = []
        self._between = ""
        self._watches: list[_Watch] = []
        self._refusing = self._transferring = 0
        self._senders: set[int] = set()
        head = {"displayTimeUnit": "ms", "otherData": {name: clean(value) for name, value in (metadata or {}).items()}}
        self._write(f'{json.dumps(head)[:-1]}, "traceEvents": [\n')

    def watch(self, replica: Replica, label: str = "replica") -> Watch:
        """Add a process for a replica, called by a label and its number; returns what receives its events
        (`Scheduler.watch`)."""
        pid = replica.index + 1
        watch = _Watch(self, replica, pid)
        self._watches.append(watch)
        self.put(f'"M","pid":{pid},"name":"process_name","args":{{"name":"{label} {replica.index}"}}')
        self.put(f'"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}')
        self.name_track(pid, _STEPS, "engine steps")
        return watch

    def refused(self, request: Request, what: str) -> None:
        """Add an event for a request that gets to no replica: it can never be served, or is shed at the gate."""
        if not self._refusing:
            self._refusing = pid = len(self._watches) + 1
            self.put(f'"M","pid":{pid},"name":"process_name","args":{{"name":"refused requests"}}')
            self.put(f'"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}')
            self.name_track(pid, _STEPS, "refused")
        self.put(
            f'"i","s":"t","pid":{self._refusing},"tid":{_STEPS},"ts":{_us(request.arrival_time)},"name":"{what}",'
            f'"args":{{"request":{request.index},"prompt":{request.num_prompt_tokens},"answer":{request.max_tokens}}}'
        )

    def transferred(self, transfer: Transfer) -> None:
        """Add a cache on its way from one replica to another, on the track of its sender."""
        if not self._transferring:
            self._transferring = pid = _TRANSFERS
            self.put(f'"M","pid":{pid},"name":"process_name","args":{{"name":"KV cache transfers"}}')
            self.put(f'"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}')
        pid, tid = self._transferring, transfer.sender + 1
        if tid not in self._senders:
            self._senders.add(tid)
            self.name_track(pid, tid, f"from replica {transfer.sender}")
        which = f'"pid":{pid},"tid":{tid},"name":"transfer"'
        begin, end = _us(transfer.begins), _us(transfer.sent)
        self.put(
            f'"X",{which},"ts":{begin},"dur":{end - begin},"args":{{"request":{transfer.request.index},'
            f'"to replica":{transfer.receiver},"bytes per device":{round(transfer.num_bytes)},'
            f'"waited for blocks and link_us":{begin - _us(transfer.handed)}}}'
        )

    def name_track(self, pid: int, tid: int, text: str) -> None:
        """Name the track `tid` of the process `pid`; tracks are in the order of `tid`."""
        self.put(f'"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":"{text}"}}')
        self.put(f'"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":{tid}}}')

    def put(self, event: str) -> None:
        """Add an event: its JSON from the value of `ph` on, without the closing brace."""
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
                with suppress(Exception):  # the file is removed
                    if self._packer is not None:
                        self._packer.close()
                closing.__exit__(kind, error, trace)
                return
            for watch in self._watches:
                watch.close()
            self._flush()
            self._write("\n]}\n")
            if self._packer is not None:
                self._packer.close()  # it writes the end of a packed file


class _Watch:
    """Turns the events of a replica into those of a trace."""

    def __init__(self, trace: Trace, replica: Replica, pid: int) -> None:
        self._trace, self._put, self._scheduler, self._pid = trace, trace.put, replica.scheduler, pid
        self._now: dict[int, tuple[Request, str, int, int]] = {}
        """By request: what it does, since when, and its slot; 0 if it has none."""
        self._free: list[int] = []
        """A heap of free slots."""
        self._num_slots = 0
        self._counted: dict[str, int] = {}
        self._last = 0
        self._links: set[int] = set()
        self._does: dict[str, Callable[[tuple[Any, ...]], None]] = {
            "decode": self._decode, "mixed": self._mixed, "admit": self._admit, "token": self._token, "end": self._end,
            "preempt": lambda event: self._evicted(event, "preempted"),
            "swap": lambda event: self._evicted(event, "swapped"),
            "resume": self._resume, "loading": self._loading, "load": self._load, "shed": self._shed,
            "receive": self._receive, "handoff": self._handed,
        }  # fmt: skip

    def __call__(self, event: tuple[Any, ...]) -> None:
        self._does[event[0]](event)

    def close(self) -> None:
        """End the slices of unfinished requests at the last event."""
        for index in list(self._now):
            self._leave(index, self._last)

    # Steps

    def _decode(self, event: tuple[Any, ...]) -> None:
        _, begins, ends, num_steps, num_sequences = event
        cached = round(self._scheduler.batch.num_cached_tokens)
        self._step(begins, ends, "decode", f'"steps":{num_steps},"sequences":{num_sequences},"cached tokens":{cached}')

    def _mixed(self, event: tuple[Any, ...]) -> None:
        _, begins, ends, num_sequences, chunks = event
        tokens = sum([new for _, new, _ in chunks])
        before = sum([before for _, _, before in chunks])
        which = ",".join([str(index) for index, _, _ in chunks])
        args = f'"prompt tokens":{tokens},"cached of prompts":{before},"requests":[{which}]'
        if num_sequences:
            args += f',"sequences":{num_sequences},"cached tokens":{round(self._scheduler.batch.num_cached_tokens)}'
        self._step(begins, ends, "prefill and decode" if num_sequences else "prefill", args)

    def _step(self, begins: float, ends: float, name: str, args: str) -> None:
        scheduler, pid = self._scheduler, self._pid
        begin, end = _us(begins), _us(ends)
        self._count("running", "requests", begin, len(scheduler.running))
        self._count("KV blocks", "free", begin, scheduler.kv_cache.num_free_blocks)
        if scheduler.copy_s:
            after = _us(begins + scheduler.copy_s)
            self._put(f'"X","pid":{pid},"tid":{_STEPS},"ts":{begin},"dur":{after - begin},"name":"copies to or from the host"')
            begin = after
        self._put(
            f'"X","pid":{pid},"tid":{_STEPS},"ts":{begin},"dur":{end - begin},"name":"{name}",'
            f'"args":{{{args},"KV blocks taken":{scheduler.kv_cache.num_taken_blocks}}}'
        )
        self._count("waiting", "requests", end, len(scheduler.waiting) + len(scheduler.swapped))
        self._last = end

    def _count(self, name: str, unit: str, at: int, value: int) -> None:
        """Add a counter where its value has changed."""
        if self._counted.get(name) != value:
            self._counted[name] = value
            self._put(f'"C","pid":{self._pid},"ts":{at},"name":"{name}","args":{{"{unit}":{value}}}')

    # Requests

    def _admit(self, event: tuple[Any, ...]) -> None:
        self._admitted(event, "prefill", slotted=True)

    def _loading(self, event: tuple[Any, ...]) -> None:
        self._admitted(event, "loading", slotted=False)

    def _admitted(self, event: tuple[Any, ...], does: str, *, slotted: bool) -> None:
        _, at, index = event
        begin = _us(at)
        if index in self._now:
            request = self._now[index][0]
            self._leave(index, begin)
        else:
            request = next(reversed(self._scheduler.running))  # the last that was admitted
            self._async(request, "queued", _us(request.arrival_time), begin)
        self._begin(request, does, begin, self._slot() if slotted else 0)

    def _load(self, event: tuple[Any, ...]) -> None:
        """A transfer from a KV cache tier."""
        _, begins, ends, index, place, tokens = event
        tiers = self._scheduler.tiers
        assert tiers is not None  # noqa: S101 - who loads has tiers
        tid, tier = _LINKS + place, tiers.tiers[place].config
        if place not in self._links:
            self._links.add(place)
            self._trace.name_track(self._pid, tid, f"loads from {tier.name}")
        begin, end = _us(begins), _us(ends)
        self._put(
            f'"X","pid":{self._pid},"tid":{tid},"ts":{begin},"dur":{end - begin},"name":"load",'
            f'"args":{{"request":{index},"tokens":{tokens}}}'
        )

    def _token(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        request, _, _, slot = self._now[index]
        begin = _us(at)
        self._leave(index, begin, keep_slot=True)
        self._begin(request, "decode", begin, slot)

    def _receive(self, event: tuple[Any, ...]) -> None:
        """A request whose cache was sent begins to decode."""
        _, at, _ = event
        request = next(reversed(self._scheduler.running))  # the last that was admitted
        self._begin(request, "decode", _us(at), self._slot())

    def _handed(self, event: tuple[Any, ...]) -> None:
        """A request goes on to another replica."""
        _, at, index = event
        self._leave(index, _us(at))

    def _resume(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        request, begin = self._now[index][0], _us(at)
        self._leave(index, begin)
        self._begin(request, "decode", begin, self._slot())

    def _evicted(self, event: tuple[Any, ...], how: str) -> None:
        _, at, index = event
        request, begin = self._now[index][0], _us(at)
        self._leave(index, begin)
        self._begin(request, how, begin, 0)

    def _shed(self, event: tuple[Any, ...]) -> None:
        _, at, index, arrived, prompt, output = event
        begin, end = _us(arrived), _us(at)
        args = f'"request":{index},"prompt":{prompt},"answer":{output}'
        if end > begin:
            which = f'"cat":"queued","id":"{index:#x}","pid":{self._pid},"tid":{_STEPS},"name":"queued"'
            self._put(f'"b",{which},"ts":{begin},"args":{{{args}}}}},\n{{"ph":"e",{which},"ts":{end}')
        self._put(f'"i","s":"t","pid":{self._pid},"tid":{_STEPS},"ts":{end},"name":"shed","args":{{{args}}}')

    def _end(self, event: tuple[Any, ...]) -> None:
        _, at, index = event
        request, end, scheduler = self._now[index][0], _us(at), self._scheduler
        arrived = request.arrival_time if request.transfer is None else request.transfer.request.arrival_time
        ttft, e2e = request.first_token_time - arrived, at - arrived
        self._leave(index, end, f',"ttft_s":{ttft:.6g},"e2e_s":{e2e:.6g}')
        if not scheduler.running:  # no step may come for long
            self._count("running", "requests", end, 0)
            self._count("KV blocks", "free", end, scheduler.kv_cache.num_free_blocks)

    def _begin(self, request: Request, does: str, at: int, slot: int) -> None:
        self._now[request.index] = (request, does, at, slot)

    def _leave(self, index: int, at: int, more: str = "", *, keep_slot: bool = False) -> None:
        """End the slice of what a request did; no slice for what took no time."""
        request, did, since, slot = self._now.pop(index)
        if not slot:
            self._async(request, did, since, at)
            return
        if at > since:
            self._put(
                f'"X","pid":{self._pid},"tid":{_STEPS + slot},"ts":{since},"dur":{at - since},"name":"{did}",'
                f'"args":{{{_described(request)}{more}}}'
            )
        if not keep_slot:
            heappush(self._free, slot)

    def _async(self, request: Request, did: str, since: int, at: int) -> None:
        if at > since:
            which = f'"cat":"{did}","id":"{request.index:#x}","pid":{self._pid},"tid":{_STEPS},"name":"{did}"'
            # both at once: a signal may interrupt
            self._put(f'"b",{which},"ts":{since},"args":{{{_described(request)}}}}},\n{{"ph":"e",{which},"ts":{at}')

    def _slot(self) -> int:
        """The first free slot; a new one where all are taken."""
        if self._free:
            return heappop(self._free)
        self._num_slots += 1
        self._trace.name_track(self._pid, _STEPS + self._num_slots, f"slot {self._num_slots}")
        return self._num_slots


def _described(request: Request) -> str:
    args = f'"request":{request.index},"prompt":{request.num_prompt_tokens},"answer":{request.max_tokens}'
    return f'{args},"preemptions":{request.num_preemptions}' if request.num_preemptions else args


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
