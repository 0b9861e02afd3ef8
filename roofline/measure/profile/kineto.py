"""Read traces of PyTorch's profiler (Kineto, Chrome's trace format), event by event, whatever the size of the file."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import InputError
from roofline.formatting import plural
from roofline.measure.profile.trace import Annotation, HostOperator, Index, Trace, as_shape

if TYPE_CHECKING:
    import numpy as np

MAX_BYTES = 64 * 2**30
Progress = Callable[[int, int | None], None]
"""Called with the number of MB read, and of all."""

_CHUNK, _PIECE, _LONGEST = 2**22, 2**17, 2**27
_FREE_UNPACKED, _MAX_RATIO = 2**28, 400
"""Unpacked bytes that any compressed file may hold, and the largest ratio of unpacked to compressed bytes beyond them. Real
traces have ratios of 10 to 40, a file made to fill memory 1000."""
_SPACE = re.compile(r"[\s,]*")
_DECODE = json.JSONDecoder(strict=False).raw_decode
_BROKEN_NUMBER = re.compile(r":\s*-?(?:nan|inf)\b")
_DTYPE_BYTES = {
    "BFloat16": 2, "Half": 2, "Float": 4, "Double": 8, "Int": 4, "Long": 8, "Char": 1, "Byte": 1, "Short": 2, "Bool": 1,
}  # fmt: skip
"""Formats of the messages of collectives; names that begin with Float8 have 1 byte."""
_WAITS = re.compile(r"^(?:cuda|hip|cu)(?:Stream|Device|Event|Ctx)Synchronize|^(?:cuda|hip)Memcpy$|item\(\)")
_ON_DEVICE = {"kernel": 0, "gpu_memcpy": 1, "gpu_memset": 2}
_RUNTIME = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "xpu_runtime", "mtia_ccp_events", "runtime", "driver")
_ANNOTATIONS = {"user_annotation": False, "gpu_user_annotation": True}
_CLOCKS_END = 1e18
"""Microseconds; clocks since 1970 are at 1.8e15."""


def read_kineto(path: Path, progress: Progress | None = None) -> Trace:
    """Read a trace of PyTorch's profiler: `export_chrome_trace`, or what vLLM's and SGLang's profilers write; gzip or not.

    A run without a device has its host operators as kernels, each with the time that it has for itself.

    Args:
        path: the file.
        progress: told how far it is.

    Returns:
        The trace. A file that ends early or has events that are no JSON gives what could be read, and `notes` say what not.

    Raises:
        InputError: no such file, no JSON of a trace, or nothing in it that ran.
    """
    reader = _Reader(path)
    with files.open_input(path, MAX_BYTES, "a profiler trace") as raw:
        stream = gzip.GzipFile(fileobj=raw) if files.begins_with(path, b"\x1f\x8b") else raw
        size = path.stat().st_size
        for event in _events(_Text(stream, raw), reader):
            reader.take(event)
            if progress is not None and not reader.events % 65536:
                progress(raw.tell() // 10**6, size // 10**6)
    return reader.trace()


_NEXT_EVENT = re.compile(r"\}\s*,\s*\{\s*\"(?:ph|name|cat|ts)\"")


class _EndError(Exception):
    """The text ends inside a value."""


class _Text:
    """The text of a stream, of which a part is in memory: values are decoded one by one."""

    def __init__(self, stream: io.BufferedReader | gzip.GzipFile, raw: io.BufferedReader) -> None:
        self._stream, self._raw, self._count = stream, raw, 0
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self.text, self.at = "", 0
        self.damage = ""
        """What is wrong with the file, if it is."""

    def more(self) -> bool:
        """Read on; False at the end, or where a compressed file is damaged or holds too much."""
        parts, size = [], 0
        if self._count > max(_FREE_UNPACKED, _MAX_RATIO * self._raw.tell()):
            self.damage = f"the compressed file holds more than {_MAX_RATIO} times its size, which no trace does"
            return False
        try:
            while size < _CHUNK and (part := self._stream.read1(_PIECE)):
                parts.append(part)
                size += len(part)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.damage = f"the compressed file is damaged or ends early ({error})"
        self._count += size
        self.text, self.at = self.text[self.at :] + self._decoder.decode(b"".join(parts), final=not parts), 0
        return bool(parts)

    def peek(self) -> str:
        """The next character that is neither space nor a comma; "" at the end."""
        while True:
            match = _SPACE.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def take(self, character: str) -> None:
        """Pass by a character.

        Raises:
            _EndError: something else is there.
        """
        if self.peek() != character:
            raise _EndError
        self.at += 1

    def value(self) -> Any:
        """The value that begins here.

        Raises:
            _EndError: the text ends in it.
            json.JSONDecodeError: it is none.
        """
        while True:
            try:
                value, end = _DECODE(self.text, self.at)
            except RecursionError:
                self.damage = "a value is nested too deep"
                raise _EndError from None
            except json.JSONDecodeError:
                # a value whose end has not been read looks as broken as one that is broken
                if len(self.text) - self.at > _LONGEST:
                    if self._has_next_event():
                        raise
                    self.damage = f"a value has more than {_LONGEST:,} characters"
                    raise _EndError from None
                if self.more():
                    continue
                if self._has_next_event():
                    raise
                raise _EndError from None
            if end < len(self.text) or isinstance(value, (dict, list, str)) or not self.more():
                self.at = end
                return value

    def _has_next_event(self) -> bool:
        return _NEXT_EVENT.search(self.text, self.at) is not None

    def repaired(self) -> dict[str, Any] | None:
        """The event that begins here and is no JSON, with its broken numbers (`inf`) left out; None if that is not enough.

        The next value is the event after it.
        """
        following = _NEXT_EVENT.search(self.text, self.at)
        end = following.start() + 1 if following else len(self.text)
        part, self.at = self.text[self.at : end], end
        try:
            event = json.loads(_BROKEN_NUMBER.sub(": null", part), strict=False)
        except json.JSONDecodeError:
            return None
        return event if isinstance(event, dict) else None


def _events(text: _Text, reader: _Reader) -> Iterator[dict[str, Any]]:
    """Objects of the list `traceEvents`, or of a file that is a list of events; other keys go to `reader.header`."""
    first = text.peek()
    if first not in ("{", "["):
        what = "it is empty" if not first else f"it begins with {text.text[text.at :][:20]!r}"
        raise InputError(f"{reader.path}: no trace of PyTorch's profiler, which is JSON: {text.damage or what}")
    text.at += 1
    try:
        if first == "[":
            yield from _listed(text, reader)
            return
        while text.peek() not in ("}", ""):
            key = text.value()
            text.take(":")
            if text.peek() == "[" and key == "traceEvents":
                text.at += 1
                yield from _listed(text, reader)
            else:
                reader.header[str(key)] = text.value()
        text.take("}")
    except json.JSONDecodeError as error:
        if not reader.events:
            raise InputError(f"{reader.path}: no trace of PyTorch's profiler: not JSON ({error.msg})") from None
        reader.ended = f"what follows event {reader.events:,} is not JSON"
    except _EndError:
        if not (reader.events or reader.header):
            why = text.damage or "not JSON with a list `traceEvents`"
            raise InputError(f"{reader.path}: no trace of PyTorch's profiler: {why}") from None
        reader.ended = text.damage or f"the file ends early, after event {reader.events:,}"


def _listed(text: _Text, reader: _Reader) -> Iterator[dict[str, Any]]:
    """Events up to the end of their list."""
    while (following := text.peek()) != "]":
        if not following:
            raise _EndError
        try:
            event = text.value()
        except json.JSONDecodeError:
            event = text.repaired()
            reader.skipped += event is None
        if isinstance(event, dict):
            yield event
    text.at += 1


class _Reader:
    """Takes events in whatever order and joins kernels with the calls and operators that launched them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.events = self.skipped = 0
        self.ended = ""
        self.header: dict[str, Any] = {}
        self.names: Index[str] = Index()
        self.operators: Index[HostOperator] = Index()
        self.annotations: list[Annotation] = []
        self.syncs: list[tuple[float, float]] = []
        # what ran on the device: name, ts, duration (us), activity, device, stream, correlation, external id, bytes, ranks
        self.ran: tuple[array[Any], ...] = tuple(array(code) for code in "iddbiqqqdi")
        # host operators: signature, ts, duration (us), thread, external id
        self.calls: tuple[array[Any], ...] = tuple(array(code) for code in "iddiq")
        # calls of the runtime: correlation, ts (us), external id, whether it launched a graph
        self.runtime: tuple[array[Any], ...] = tuple(array(code) for code in "qdqb")
        self.threads: Index[tuple[Any, Any]] = Index()
        self.incomplete = 0

    def take(self, event: dict[str, Any]) -> None:
        self.events += 1
        category = event.get("cat")
        if event.get("ph") != "X" or category is None:
            return
        try:
            if category == "cpu_op":
                self._call(event)
            elif category in _ON_DEVICE:
                self._ran(event, _ON_DEVICE[category])
            elif category in _ANNOTATIONS:
                name, start, duration = str(event["name"]), _time(event, "ts"), _time(event, "dur")
                self.annotations.append(Annotation(name, start, duration, _ANNOTATIONS[category]))
            elif category in _RUNTIME:
                self._runtime(event)
        except (KeyError, TypeError, ValueError):
            self.incomplete += 1

    def _ran(self, event: dict[str, Any], activity: int) -> None:
        args = _arguments(event)
        message, ranks = _message(args)
        moved = args.get("bytes")
        row = (
            self.names(str(event["name"])),
            _time(event, "ts"),
            _time(event, "dur"),
            activity,
            _whole(args.get("device", event.get("pid")), 0, bits=31),
            _whole(args.get("stream", event.get("tid")), 0),
            _whole(args.get("correlation"), -1),
            _whole(args.get("External id", args.get("external id")), -1),
            float(moved) if activity and isinstance(moved, (int, float)) else message,
            ranks,
        )
        for column, value in zip(self.ran, row, strict=True):
            column.append(value)

    def _call(self, event: dict[str, Any]) -> None:
        args, name = _arguments(event), str(event["name"])
        if name == "record_param_comms" and (collective := args.get("Collective name")):
            name = f"nccl:{collective}"  # the operator of every collective has one name
        operator = HostOperator(
            name,
            tuple(as_shape(entry) for entry in args.get("Input Dims") or args.get("Input dims") or ()),
            tuple(str(text) for text in args.get("Input type") or ()),
            tuple(str(text) for text in args.get("Concrete Inputs") or ()),
        )
        thread = self.threads((event.get("pid"), event.get("tid")))
        ids = _whole(args.get("External id", args.get("external id")), -1)
        row = (self.operators(operator), _time(event, "ts"), _time(event, "dur"), thread, ids)
        for column, value in zip(self.calls, row, strict=True):
            column.append(value)

    def _runtime(self, event: dict[str, Any]) -> None:
        args, name = _arguments(event), str(event["name"])
        start = _time(event, "ts")
        if _WAITS.search(name):
            self.syncs.append((start, _time(event, "dur")))
        external = _whole(args.get("External id", args.get("external id")), -1)
        row = (_whole(args.get("correlation"), -1), start, external, "GraphLaunch" in name)
        for column, value in zip(self.runtime, row, strict=True):
            column.append(value)

    def trace(self) -> Trace:
        """All of it as a trace.

        Raises:
            InputError: nothing ran in it.
        """
        trace = Trace(self.path, "PyTorch profiler")
        trace.device_names = [str(entry.get("name") or "") for entry in _objects(self.header.get("deviceProperties"))]
        distributed = self.header.get("distributedInfo")
        if isinstance(distributed, dict):
            trace.rank = _whole(distributed.get("rank"), 0)
            trace.world = max(1, _whole(distributed.get("world_size"), 1))
        self._notes(trace)
        kernels = trace.kernels
        kernels.operators = self.operators.values
        kernels.names = self.names.values
        zero = min(
            (min(column) for column in (self.ran[1], self.calls[1], self.runtime[1]) if len(column)),
            default=0.0,
        )
        if len(self.ran[0]):
            self._join(trace, zero)
        elif len(self.calls[0]):
            self._host_only(trace, zero)
        else:
            ended = f": {self.ended}" if self.ended else ""
            raise InputError(
                f"{self.path}: none of its {plural(self.events, 'event')} is a kernel, a copy or an operator that ran{ended}. "
                "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], and let the run synchronize before the "
                "profiler stops"
            )
        kernels.order()
        trace.annotations = sorted(
            (
                entry._replace(start_s=(entry.start_s - zero) * 1e-6, duration_s=entry.duration_s * 1e-6)
                for entry in self.annotations
            ),
            key=lambda entry: entry.start_s,
        )
        trace.syncs = sorted(((start - zero) * 1e-6, duration * 1e-6) for start, duration in self.syncs)
        return trace

    def _notes(self, trace: Trace) -> None:
        if self.ended:
            trace.notes.append(f"{self.ended}: {plural(self.events, 'event')} before it could be read")
        if self.skipped:
            trace.notes.append(f"{plural(self.skipped, 'event')} skipped: not JSON")
        if self.incomplete:
            trace.notes.append(f"{plural(self.incomplete, 'event')} skipped: no name, start or duration, or a negative one")

    def _join(self, trace: Trace, zero: float) -> None:
        """Kernels with their launches (by correlation) and host operators (by external id)."""
        import numpy as np

        columns = [np.frombuffer(column, dtype=column.typecode) for column in self.ran]
        name, start, duration, activity, device, stream, correlation, external, moved, ranks = columns
        launched = _where(self.runtime[0], correlation)
        runtime = [np.frombuffer(column, dtype=column.typecode) for column in self.runtime]
        known = launched >= 0
        launch = np.full(len(name), np.nan)
        in_graph = np.zeros(len(name), dtype="b")
        if len(runtime[0]):
            at = np.maximum(launched, 0)
            launch = np.where(known, (runtime[1][at] - zero) * 1e-6, np.nan)
            in_graph = np.where(known, runtime[3][at], 0).astype("b")
            external = np.where((external < 0) & known, runtime[2][at], external)
        called = _where(self.calls[4], external)
        signature = np.frombuffer(self.calls[0], dtype="i") if len(self.calls[0]) else np.zeros(0, dtype="i")
        operator = np.where(called >= 0, signature[np.maximum(called, 0)], -1) if len(signature) else np.full(len(name), -1)
        # NB: kernels of a graph have the operator that launched the graph, which says nothing of a single one
        operator = np.where(in_graph > 0, -1, operator)
        # a collective of which the trace gives no group is of the whole run
        ranks = np.where((ranks == 0) & ~np.isnan(moved) & (activity == 0) & (trace.world > 1), trace.world, ranks)
        kernels = trace.kernels
        for column, values in (
            ("name", name), ("operator", operator), ("activity", activity), ("start_s", (start - zero) * 1e-6),
            ("duration_s", duration * 1e-6), ("device", device), ("stream", stream), ("launch_s", launch),
            ("in_graph", in_graph), ("bytes", moved), ("world", ranks),
            ("call", np.where(operator >= 0, called, -1)),
        ):  # fmt: skip
            typed: array[Any] = getattr(kernels, column)
            typed.frombytes(np.ascontiguousarray(values, dtype=typed.typecode).tobytes())

    def _host_only(self, trace: Trace, zero: float) -> None:
        """Host operators as what ran: each with its own time, without that of the operators which it called."""
        import numpy as np

        signature, start, duration, thread, _ = (np.frombuffer(column, dtype=column.typecode) for column in self.calls)
        own, root = duration.copy(), np.arange(len(duration))
        operators = ["::" in operator.name for operator in self.operators.values]
        calls = np.zeros(len(duration), dtype=bool)
        # by thread, then start, and the longer first of those that begin together: the one that called comes before
        by_start = np.lexsort((-duration, start, thread))
        stack: list[tuple[float, int, int]] = []
        for at in by_start.tolist():
            begin, on = float(start[at]), int(thread[at])
            while stack and (stack[-1][2] != on or stack[-1][0] <= begin):
                stack.pop()
            if stack:
                own[stack[-1][1]] -= duration[at]
                # what surrounds compiled code is no operator: those inside it are calls of their own
                if operators[signature[stack[-1][1]]]:
                    root[at] = root[stack[-1][1]]
                calls[stack[-1][1]] = True
            stack.append((begin + float(duration[at]), at, on))
        names: Index[str] = Index()
        numbers = [names(operator.name) for operator in self.operators.values]
        wrappers = [names(f"{operator.name} (calling others)") for operator in self.operators.values]
        kernels = trace.kernels
        kernels.names = names.values
        for at in range(len(signature)):
            kernels.append(
                (wrappers if calls[at] else numbers)[signature[at]],
                (float(start[at]) - zero) * 1e-6,
                max(float(own[at]), 0.0) * 1e-6,
                operator=int(signature[at]),
                activity=3,
                stream=int(thread[at]),
                call=int(root[at]),
            )
        trace.device_names = []


def _where(ids: array[int], wanted: np.ndarray) -> np.ndarray:
    """The place of each wanted id among `ids`; -1 of those which are not there, or are negative."""
    import numpy as np

    if not len(ids):
        return np.full(len(wanted), -1)
    values = np.frombuffer(ids, dtype="q")
    by_value = np.argsort(values, kind="stable")
    ordered = values[by_value]
    at = np.minimum(np.searchsorted(ordered, wanted), len(values) - 1)
    return np.where((ordered[at] == wanted) & (wanted >= 0), by_value[at], -1)


def _message(args: dict[str, Any]) -> tuple[float, int]:
    """Bytes of a collective's larger buffer, and its ranks; NaN and 0 where the event does not say."""
    elements = [args.get("In msg nelems"), args.get("Out msg nelems")]
    known = [value for value in elements if isinstance(value, (int, float))]
    if not known:
        return float("nan"), 0
    dtype = str(args.get("dtype", ""))
    size = 1 if dtype.startswith("Float8") else _DTYPE_BYTES.get(dtype)
    return (float(max(known)) * size if size else float("nan")), _whole(args.get("Group size"), 0, bits=31)


def _whole(value: Any, default: int, bits: int = 63) -> int:
    """A whole number of an event, or the default where it has none, or one of more bits than there are."""
    if isinstance(value, bool) or value is None:
        return default
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if abs(number) < 2**bits else default


def _time(event: dict[str, Any], name: str) -> float:
    """The start (`ts`) or the duration (`dur`) of an event in microseconds, as far as clocks count.

    Raises:
        KeyError, TypeError, ValueError: it has none, or ended before it began.
    """
    time = float(event[name])
    if not abs(time) < _CLOCKS_END or (name == "dur" and time < 0):
        raise ValueError(name)
    return time


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
