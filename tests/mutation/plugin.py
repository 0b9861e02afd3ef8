"""A plugin for pytest: which tests come by which mutants (`ROOFLINE_MUTATION=map`), and which mutants they notice (`run`).

Tests are collected once, with all mutants of the sample built into the modules. For each mutant a process is forked that
chooses it and runs the tests that come by it, those that take least first, until one fails. What runs on import is decided
before anything is imported, by a run with `ROOFLINE_MUTANT` for that mutant alone.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mutation.sites import HOOK, ROOT, built, source_of

MODE = os.environ["ROOFLINE_MUTATION"]
TASK: dict[str, Any] = json.loads(Path(os.environ["ROOFLINE_MUTATION_TASK"]).read_text(encoding="utf-8"))
"""`names`: names of mutants by module; `out`: file of results; for `run` also `tests` by name, `limit` in CPU seconds."""

CHOSEN = os.environ.get("ROOFLINE_MUTANT", "")
LONGEST = 5.0
"""CPU seconds: a test that takes longer is not run for a mutant."""
MEMORY = 8 << 30
"""Bytes of address space of a process: a mutant that fills the memory fails."""

_hits: set[str] = set()


def _record(name: str) -> bool:
    _hits.add(name)
    return False


def _choose(name: str) -> bool:
    return name == CHOSEN


setattr(builtins, HOOK, _record if MODE == "map" else _choose)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with its mutants, and keeps nothing."""

    def get_code(self, fullname: str) -> CodeType:
        module = Path(self.path).relative_to(ROOT).as_posix()
        return compile(built(module, source_of(module), frozenset(TASK["names"][module])), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("roofline"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(ROOT):
            return spec
        if Path(spec.origin).relative_to(ROOT).as_posix() in TASK["names"]:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder())


def _caching(maxsize: Any = 128, typed: bool = False) -> Any:
    """`functools.lru_cache` that remembers by which mutants a result came, and counts it as having come by them again."""
    if callable(maxsize):
        return _caching()(maxsize)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        code = getattr(function, "__code__", None)
        if code is None or not Path(code.co_filename).is_relative_to(ROOT):
            return _lru_cache(maxsize, typed)(function)
        results: dict[Any, tuple[Any, set[str]]] = {}

        @functools.wraps(function)
        def wrapper(*args: Any, **keywords: Any) -> Any:
            global _hits  # noqa: PLW0603
            key = functools._make_key(args, keywords, typed)
            if key not in results:
                outer, _hits = _hits, set()
                try:
                    result = function(*args, **keywords)
                finally:
                    inner, _hits = _hits, outer
                    _hits |= inner
                if maxsize is not None and len(results) >= maxsize:
                    results.clear()
                results[key] = result, inner
            result, inner = results[key]
            _hits.update(inner)
            return result

        wrapper.cache_clear = results.clear  # type: ignore[attr-defined]
        wrapper.cache_info = lambda: functools._CacheInfo(0, 0, maxsize, len(results))  # type: ignore[attr-defined]
        wrapper.cache_parameters = lambda: {"maxsize": maxsize, "typed": typed}  # type: ignore[attr-defined]
        return wrapper

    return decorate


_lru_cache = functools.lru_cache
if MODE == "map":
    functools.lru_cache = _caching  # type: ignore[assignment]
    functools.cache = _caching(None)  # type: ignore[assignment]


class _TooLongError(BaseException):
    """A test used up its time."""


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _TooLongError


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """What a fixture of a module or a session came by counts for every test that uses it."""
    if MODE != "map" or fixturedef.scope == "function":
        return (yield)
    global _hits  # noqa: PLW0603
    outer, _hits = _hits, set()
    try:
        return (yield)
    finally:
        _of_fixtures[fixturedef] |= _hits
        _hits = outer | _hits


_of_fixtures: defaultdict[Any, set[str]] = defaultdict(set)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """The tests, once for what they come by, or for every mutant."""
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors while tests were collected")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if MODE == "map":
        _map(session, reporter)
    elif CHOSEN:
        items = sorted(session.items, key=lambda item: TASK["seconds"].get(item.nodeid, LONGEST))
        Path(TASK["out"]).write_text(json.dumps(_outcome(items, TASK["limit"])), encoding="utf-8")
    else:
        _all_mutants(session, reporter)
    return True


def _map(session: pytest.Session, reporter: Any) -> None:
    at_collection = sorted(_hits)
    tests: dict[str, tuple[float, list[str]]] = {}
    failed: list[str] = []
    signal.signal(signal.SIGVTALRM, _stop)
    for i, item in enumerate(session.items):
        _hits.clear()
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
        try:
            reports = runtestprotocol(item, log=False, nextitem=session.items[i + 1] if i + 1 < len(session.items) else None)
        except (_TooLongError, Exception) as error:  # noqa: BLE001 - of which pytest cannot show the line, where there is none
            item.session._setupstate.teardown_exact(None)
            failed.append(f"{item.nodeid} ({'time' if isinstance(error, _TooLongError) else type(error).__name__})")
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if any(report.failed for report in reports):
            failed.append(item.nodeid)
        elif not any(report.skipped for report in reports):
            for definitions in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
                for definition in definitions:
                    _hits.update(_of_fixtures.get(definition, ()))
            tests[item.nodeid] = time.process_time() - start, sorted(_hits)
        if i % 250 == 0:
            reporter.write_line(f"{i} of {len(session.items)} tests, {time.process_time():.0f} s")
    Path(TASK["out"]).write_text(json.dumps({"collection": at_collection, "tests": tests, "failed": failed}), encoding="utf-8")


def _outcome(items: list[pytest.Item], limit: float) -> dict[str, Any]:
    """What becomes of the chosen mutant, in this process."""
    signal.signal(signal.SIGVTALRM, _stop)
    start = time.process_time()
    test, fate = "", "survived"
    num_tests = 0
    for i, item in enumerate(items):
        left = limit - (time.process_time() - start)
        if left <= 0:
            fate = "unfinished"
            break
        expected = TASK["seconds"].get(item.nodeid, LONGEST)
        num_tests += 1
        try:
            # Ten times what a test takes otherwise: a loop that does not end.
            signal.setitimer(signal.ITIMER_VIRTUAL, 10 * expected + 5)
            reports = runtestprotocol(item, log=False, nextitem=items[i + 1] if i + 1 < len(items) else None)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except _TooLongError:
            test, fate = item.nodeid, "timeout"
            break
        if any(report.failed for report in reports):
            test, fate = item.nodeid, "killed"
            break
    return {"fate": fate, "test": test, "tests": num_tests, "of": len(items), "seconds": round(time.process_time() - start, 2)}


def _row(fate: str, test: str, num_tests: int) -> dict[str, Any]:
    return {"fate": fate, "test": test, "tests": 0, "of": num_tests, "seconds": 0.0}


def _all_mutants(session: pytest.Session, reporter: Any) -> None:
    global CHOSEN  # noqa: PLW0603
    items = {item.nodeid: item for item in session.items}
    # by type: `isinstance` asks an object for its class, which some answer with a warning
    caches = [thing for thing in gc.get_objects() if type(thing) is functools._lru_cache_wrapper]
    gc.collect()
    gc.freeze()
    for number, (name, ids) in enumerate(TASK["tests"].items(), start=1):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            CHOSEN = name
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                if name in TASK["collection"]:
                    for thing in caches:
                        thing.cache_clear()
                result = _outcome([items[test] for test in ids if test in items], TASK["limit"])
            except BaseException as error:  # noqa: BLE001 - a mutant may do anything
                result = _row("killed", f"the run: {type(error).__name__}", len(ids))
            os.write(writing, json.dumps(result).encode())
            os._exit(0)
        os.close(writing)
        text = b""
        if select.select([reading], [], [], 10 * TASK["limit"] + 120)[0]:
            text = os.read(reading, 1 << 16)
        else:
            os.kill(child, signal.SIGKILL)
        os.close(reading)
        os.waitpid(child, 0)
        result = json.loads(text) if text else _row("timeout", "", len(ids))
        with Path(TASK["out"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "version": TASK["versions"][name], **result}) + "\n")
        reporter.write_line(f"{number}/{len(TASK['tests'])} {name} {result['fate']} {result['seconds']} s {result['test']}")
