"""The two files of a comparison; a file that was given in the place of the other is named as what it is."""

from __future__ import annotations

from pathlib import Path

from roofline.audit.engine_logs import bench_file, engine_log
from roofline.audit.engine_logs.benches import Bench
from roofline.audit.engine_logs.engine_log import EngineLog
from roofline.errors import InputError


def log(path: Path) -> EngineLog:
    """An engine's log.

    Raises:
        InputError: as `engine_log.read`; a benchmark's result is named as one.
    """
    try:
        return engine_log.read(path)
    except InputError as error:
        try:
            found = bench_file.read(path)
        except InputError:
            raise error from None
        raise InputError(f"{path}: this is a result of {found.format.title}, no log: give it as --bench") from None


def bench(path: Path) -> Bench:
    """A benchmark's result.

    Raises:
        InputError: as `bench_file.read`; an engine's log is named as one.
    """
    try:
        return bench_file.read(path)
    except InputError as error:
        try:
            found = engine_log.read(path)
        except InputError:
            raise error from None
        raise InputError(f"{path}: this is a log of {found.format.engine}, no result: give it as --engine-log") from None
