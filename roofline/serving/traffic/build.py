"""Classes from what a user gives: the keys of a file, or the options of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from roofline.errors import InputError
from roofline.serving.traffic import scalars
from roofline.serving.traffic.classes import PERCENTILE, Class
from roofline.serving.traffic.lengths import Lengths, parse_lengths
from roofline.serving.traffic.lengths.around import around, parse_spread
from roofline.serving.traffic.pairs import Pairs
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.specs.assumption import Assumption
from roofline.text import clean
from roofline.units import parse_count

V = TypeVar("V")
CLIENTS = ("prompts", "ramp", "warm_up", "spread")
"""Keys of classes with a concurrency alone."""


@dataclass(slots=True)
class Builder:
    """One class in the making: what is given by key, how an error names a key, and what was assumed."""

    given: Mapping[str, Any]
    fail: Callable[[str, str], InputError]
    """An error from the key that is wrong and what is wrong with it."""
    beside: Path | None = None
    skip_bad_rows: bool = False
    assumptions: list[Assumption] = field(default_factory=list)

    def build(self) -> Class:
        """The class.

        Raises:
            InputError: as `fail` makes it: a value that is none, keys that exclude each other, one that is missing.
        """
        name = clean(self.given.get("name") or "requests")
        trace = self._trace()
        if trace is not None and trace.skipped:
            rows = "row was" if trace.skipped == 1 else "rows were"
            why = f"broken {rows} left out of the trace {trace.name}; first: {trace.reasons[0]}"
            self._assume(name, "skipped_rows", trace.skipped, "assumed", why)
        if trace is not None:
            for note in trace.notes:
                self._assume(name, "trace", trace.name, "assumed", note)
        prompts, answers, pairs = self._lengths(trace)
        rate, concurrency = self._load(name, trace)
        generator = self._generator(concurrency)
        percentile = self._parsed("percentile", scalars.parse_percentile)
        if percentile is None:
            percentile = PERCENTILE
            self._assume(name, "percentile", PERCENTILE, "default", "of the requests keep to the SLO")
        return Class(
            name=name,
            input_len=prompts,
            output_len=answers,
            rate=rate,
            concurrency=concurrency,
            ttft=self._parsed("ttft", scalars.parse_seconds),
            tpot=self._parsed("tpot", scalars.parse_seconds),
            percentile=percentile,
            prefix_hit=self._parsed("prefix_hit", scalars.parse_share) or 0.0,
            burstiness=self._burstiness(name, trace, rate),
            pairs=pairs,
            **generator,
        )

    def _generator(self, concurrency: int | None) -> dict[str, Any]:
        """How clients begin and end, as the load generator has it."""
        if concurrency is None and (given := [key for key in CLIENTS if self._has(key)]):
            raise self.fail(given[0], "is of clients, which a concurrency gives: requests at a rate have none")
        prompts = self._parsed("prompts", lambda value: parse_count(value, "prompts a client", minimum=1))
        ramp = self._parsed("ramp", lambda value: 0.0 if str(value) == "0" else scalars.parse_seconds(value))
        warm_up = self._parsed("warm_up", lambda value: parse_count(value, "prompts a client")) or 0
        if prompts is not None and warm_up >= prompts:
            raise self.fail("warm_up", f"leaves none of the {prompts} prompts of a client to count")
        return {"prompts": prompts, "ramp": ramp or 0.0, "warm_up": warm_up}

    def _has(self, key: str) -> bool:
        return self.given.get(key) is not None

    def _parsed(self, key: str, parse: Callable[[Any], V]) -> V | None:
        """A value that is given, as `parse` reads it; an error names its key."""
        if not self._has(key):
            return None
        try:
            return parse(self.given[key])
        except InputError as error:
            raise self.fail(key, str(error)) from None

    def _assume(self, name: str, key: str, value: object, origin: Any, why: str) -> None:
        self.assumptions.append(Assumption(f"{name}.{key}", value, origin, why))

    def _trace(self) -> Trace | None:
        def read(value: Any) -> Trace:
            if isinstance(value, Trace):
                return value
            return read_trace((self.beside or Path()) / Path(str(value)).expanduser(), self.skip_bad_rows)

        return self._parsed("trace", read)

    def _lengths(self, trace: Trace | None) -> tuple[Lengths, Lengths, Pairs | None]:
        if trace is not None:
            if both := [key for key in ("input_len", "output_len") if self._has(key)]:
                raise self.fail(both[0], "a trace has its own lengths: give the trace or the lengths, not both")
            if self._has("spread"):
                raise self.fail("spread", "a trace has its own lengths: give the trace or the spread, not both")
            pairs = trace.lengths()
            return pairs.input_len, pairs.output_len, pairs
        spread = self._parsed("spread", parse_spread)
        found = []
        for key in ("input_len", "output_len"):
            value = self._parsed(key, lambda text: parse_lengths(text, "", self.beside))
            if value is None:
                raise self.fail(key, "is missing: give a length such as 1024 or lognormal:1155:900, or a trace")
            try:
                found.append(value if spread is None else around(value, spread))
            except InputError as error:
                raise self.fail("spread", str(error)) from None
        return found[0], found[1], None

    def _load(self, name: str, trace: Trace | None) -> tuple[float | None, int | None]:
        """Rate or concurrency, of which exactly one is given, or the trace's own rate."""
        if self._has("rate") and self._has("concurrency"):
            raise self.fail("concurrency", "a rate is given too: requests either come at a rate or from so many clients")
        if self._has("concurrency"):
            return None, self._parsed("concurrency", lambda value: parse_count(value, "the number of clients", minimum=1))
        rate = self._parsed("rate", scalars.parse_rate)
        if rate is None and trace is not None and trace.rate:
            rate = trace.rate
            self._assume(name, "rate", rate, "assumed", f"requests/s of the trace {trace.name}")
        if rate is None:
            why = "" if trace is None else f"; the trace {trace.name} has no arrivals to take it from"
            raise self.fail("rate", f"is missing: give a rate (requests/s) or a concurrency (clients){why}")
        return rate, None

    def _burstiness(self, name: str, trace: Trace | None, rate: float | None) -> float:
        """As given; of a trace its own; else that of Poisson arrivals."""
        if (given := self._parsed("burstiness", scalars.parse_burstiness)) is not None:
            return given
        if rate is not None and trace is not None and trace.interarrival_cv is not None:
            why = f"of the times between arrivals in the trace {trace.name}"
            self._assume(name, "burstiness", trace.interarrival_cv, "assumed", why)
            return trace.interarrival_cv
        return 1.0
