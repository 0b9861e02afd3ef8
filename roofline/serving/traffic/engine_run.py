"""A run that was measured: a folder with the requests that an engine has served (`requests.jsonl`), and what is known of the
engine (`meta.json`).

A line is a request: `input_toks`, `output_toks`, and on one clock, in seconds, when the engine took it up (`queued_ts`) and
when its first and last tokens were there (`first_token_ts`, `last_token_ts`). Other keys are passed by, `arrival_time` too:
it is of another clock. So writes the benchmark of LLMServingSim (https://github.com/casys-kaist/LLMServingSim), from vLLM's own
times of its engine core.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline import files
from roofline.errors import SpecError
from roofline.serving.traffic.engine_meta import EngineMeta, read_meta
from roofline.serving.traffic.tables import read_bytes
from roofline.serving.traffic.trace import Trace
from roofline.text import clean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAME = "requests.jsonl"
TOKENS = ("input_toks", "output_toks")
TIMES = ("queued_ts", "first_token_ts", "last_token_ts")
_REASONS = 5
_MOST_TOKENS = 2**40


@dataclass(frozen=True)
class EngineRun:
    """What a run was asked and what became of it, request by request in the order of their arrival."""

    trace: Trace
    first: Array = field(repr=False)
    """Seconds from the first arrival to the first token of each; float64, read-only."""
    last: Array = field(repr=False)
    """The same to the last token."""
    meta: EngineMeta | None = None

    def __len__(self) -> int:
        return len(self.trace)

    @property
    def arrived(self) -> Array:
        """Seconds from the first arrival."""
        arrived = self.trace.arrived
        assert arrived is not None  # noqa: S101 - a run always has them
        return arrived


def read_run(folder: str | Path, skip_bad_rows: bool = False) -> EngineRun:
    """A measured run from its folder.

    Args:
        folder: with `requests.jsonl`, and `meta.json` where the engine is known.
        skip_bad_rows: leave broken lines out, and count them, where else the first one is an error.

    Raises:
        SpecError: no such folder or file, a broken line with its number and key, no line that is whole.
    """
    import numpy as np

    place = Path(folder).expanduser()
    path = place / NAME
    if not files.is_folder(place):
        raise SpecError(f"no such folder: a measured run is a folder with {NAME}", path=place)
    if not files.exists(path):
        raise SpecError(f"is a folder without {NAME}: neither a trace nor a measured run", path=place)
    raw = read_bytes(path, "the requests of a measured run")
    rows, bad = _rows(raw)
    if bad and not skip_bad_rows:
        line, why = next(iter(bad.items()))
        more = f" ({len(bad):,} of {len(bad) + len(rows):,} lines are broken)" if len(bad) > 1 else ""
        raise SpecError(f"{why}{more}. --skip-bad-rows leaves such lines out", path=path, line=line)
    if not rows:
        line, why = next(iter(bad.items()))
        raise SpecError(f"{why}. No line of the {len(bad):,} is whole", path=path, line=line)
    found = np.array(rows, dtype=np.float64)
    order = np.argsort(found[:, 2], kind="stable")
    late = int((np.diff(found[:, 2]) < 0).sum())
    found = found[order]
    tokens = [found[:, at].astype(np.int64) for at in (0, 1)]
    arrived, first, last = (found[:, at] - found[0, 2] for at in (2, 3, 4))
    for column in (*tokens, arrived, first, last):
        column.flags.writeable = False
    trace = Trace(
        name=clean(place.resolve().name),
        sha256=hashlib.sha256(raw).hexdigest(),
        path=str(path),
        arrived=arrived,
        prompts=tokens[0],
        answers=tokens[1],
        skipped=len(bad),
        reasons=tuple(f"line {line}: {why}" for line, why in list(bad.items())[:_REASONS]),
        notes=(f"{late:,} lines arrived before the one above them: sorted by arrival",) if late else (),
    )
    return EngineRun(trace, first, last, read_meta(place))


def _rows(raw: bytes) -> tuple[list[tuple[float, ...]], dict[int, str]]:
    """Lines that are whole, and what is wrong with the others by their number."""
    rows: list[tuple[float, ...]] = []
    bad: dict[int, str] = {}
    for number, line in enumerate(raw.decode("utf-8-sig", errors="replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line))
        except ValueError as error:
            bad[number] = str(error)
    return rows, bad


def _row(line: str) -> tuple[float, ...]:
    """The numbers of a line; a `ValueError` says what is wrong with it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON: each line has to be an object in braces") from None
    if not isinstance(entry, dict):
        raise ValueError("is no object in braces")  # noqa: TRY004 - one kind of error for a line
    tokens = [_tokens(name, entry) for name in TOKENS]
    times = [_time(name, entry) for name in TIMES]
    for earlier, later in ((0, 1), (1, 2)):
        if times[later] < times[earlier]:
            raise ValueError(f"{TIMES[later]} is {times[earlier] - times[later]:.6g} s before {TIMES[earlier]}")
    return (*tokens, *times)


def _value(name: str, entry: dict[str, Any]) -> Any:
    if name not in entry:
        raise ValueError(f"{name} is missing; the line has {clean(', '.join(map(str, entry)))[:200]}")
    return entry[name]


def _tokens(name: str, entry: dict[str, Any]) -> int:
    value = _value(name, entry)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _MOST_TOKENS:
        raise ValueError(f"{name} must be a whole number of tokens, at least 1, not {_shown(value)}")
    return value


def _time(name: str, entry: dict[str, Any]) -> float:
    value = _value(name, entry)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number of seconds, not {_shown(value)}")
    return float(value)


def _shown(value: object) -> str:
    return repr(clean(value)[:40]) if isinstance(value, str) else clean(json.dumps(value))[:40]
