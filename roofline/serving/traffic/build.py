"""Traffic from what a user gives: the options of a command, or a YAML file of several classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, WithJsonSchema

from roofline.errors import InputError
from roofline.serving.traffic import scalars
from roofline.serving.traffic.classes import PERCENTILE, RequestClass, Traffic
from roofline.serving.traffic.conversations import KEYS, Conversation, parse_conversation, parse_pause
from roofline.serving.traffic.lengths import Lengths, around, parse_lengths, parse_range
from roofline.serving.traffic.pairs import Pairs
from roofline.serving.traffic.profile import Profile, parse_profile
from roofline.serving.traffic.trace import Trace, read_trace
from roofline.specs.base import Scalar, Spec
from roofline.specs.library import Input
from roofline.specs.source import Assumption
from roofline.specs.yaml_file import SectionErrors, read_yaml
from roofline.text import clean
from roofline.units import parse_count

V = TypeVar("V")
CLIENTS = ("prompts", "ramp", "warm_up", "spread")
"""Keys of classes with a concurrency alone."""


def single(
    *,
    rate: Any = None,
    concurrency: Any = None,
    input_len: Any = None,
    output_len: Any = None,
    trace: Any = None,
    ttft: Any = None,
    tpot: Any = None,
    percentile: Any = None,
    prefix_hit: Any = None,
    cached_prefix: Any = None,
    burstiness: Any = None,
    system_prompt: Any = None,
    system_prompts: Any = None,
    turns: Any = None,
    think: Any = None,
    peak_factor: Any = None,
    profile: Any = None,
    name: str = "requests",
    skip_bad_rows: bool = False,
) -> Traffic:
    """Build traffic of one class. Values are texts as on the command line, or parsed ones; None: not given.

    Args:
        rate: requests/s (`8`, `300/min`); or
        concurrency: clients, each of which sends its next request when it has the response. A trace with arrivals needs
            neither: its own rate is used.
        input_len: prompt tokens, a distribution such as `lognormal:1155:900`.
        output_len: output tokens, likewise.
        trace: a trace, or its file, instead of the two.
        ttft: objective for the time to first token: seconds, or a text with a unit.
        tpot: objective for the time per output token, likewise.
        percentile: share of requests that have to meet the objectives: `95`, `p95` or `0.95`, which is the default.
        prefix_hit: share of a prompt's tokens that are in the prefix cache; or
        cached_prefix: the first tokens of each prompt, which are.
        burstiness: standard deviation of the times between arrivals over their mean; default: the trace's, else 1.
        system_prompt: tokens before the messages of each conversation, in common with others.
        system_prompts: how many different ones there are.
        turns: of a conversation, a distribution; `input_len` has the new tokens of each.
        think: pause before each turn but the first: `10 s`, `exponential:10 s`, `lognormal:10 s:5 s`.
        peak_factor: peak load over mean load; or
        profile: weights of the parts of a day, or a file of them.
        name: of the class.
        skip_bad_rows: leave broken rows of the trace out.

    Raises:
        InputError: a missing, wrong or contradictory value, by its flag, with what is allowed.
        SpecError: an invalid trace, file of lengths or profile.
    """
    options = {
        "name": name, "rate": rate, "concurrency": concurrency, "input_len": input_len, "output_len": output_len,
        "trace": trace, "ttft": ttft, "tpot": tpot, "percentile": percentile, "prefix_hit": prefix_hit,
        "cached_prefix": cached_prefix, "burstiness": burstiness, "system_prompt": system_prompt,
        "system_prompts": system_prompts, "turns": turns, "think": think,
    }  # fmt: skip
    builder = _ClassBuilder(options, _flag_error, skip_bad_rows=skip_bad_rows)
    built = builder.build()
    day, peak = _profile_or_peak(profile, peak_factor, _flag_error)
    return Traffic(classes=(built,), profile=day, peak=peak, assumptions=tuple(builder.assumptions))


def _flag_error(key: str, problem: str) -> InputError:
    return InputError(f"--{key.replace('_', '-')}{' ' if problem.startswith('is missing') else ': '}{problem}")


def _profile_or_peak(
    profile: Any, peak_factor: Any, fail: Callable[[str, str], InputError], folder: Path | None = None
) -> tuple[Profile | None, float | None]:
    if profile is not None and peak_factor is not None:
        raise fail("peak_factor", "a profile is given too, which has its own peak: give one of them")
    key = "profile"
    try:
        parsed = None if profile is None else parse_profile(profile, folder)
        key = "peak_factor"
        return parsed, None if peak_factor is None else scalars.parse_peak_factor(peak_factor)
    except InputError as error:
        raise fail(key, str(error)) from None


# Read by `parse_profile`, whose messages are better than those of a union.
Weights = Annotated[Any, WithJsonSchema({"type": ["array", "string"], "items": {"type": "number"}})]


class ClassEntry(Spec):
    """The keys of a class."""

    name: Scalar = Field(description="what it is called")
    rate: Scalar | None = Field(default=None, description="requests/s, such as 8 or 300/min; or concurrency")
    concurrency: Scalar | None = Field(default=None, description="clients, each of which waits for its response")
    prompts: Scalar | None = Field(default=None, description="that each client sends in all; default: no end of its own")
    ramp: Scalar | None = Field(default=None, description="time over which clients begin; default: all at once")
    warm_up: Scalar | None = Field(default=None, description="prompts of each client that are not counted; default 0")
    spread: Scalar | None = Field(default=None, description="shares of the lengths between which clients draw them: 0.8-1")
    input_len: Scalar | None = Field(default=None, description="tokens of a prompt: 1024, lognormal:1155:900, ...")
    output_len: Scalar | None = Field(default=None, description="tokens of an output, likewise")
    trace: Scalar | None = Field(default=None, description="a trace instead of the lengths, and of the rate if none is given")
    ttft: Scalar | None = Field(default=None, description="time to the first token, such as 2 s")
    tpot: Scalar | None = Field(default=None, description="time per output token after the first, such as 50 ms")
    percentile: Scalar | None = Field(default=None, description="share of requests that meet both; default 95")
    prefix_hit: Scalar | None = Field(default=None, description="share of a prompt's tokens in the prefix cache; default 0")
    cached_prefix: Scalar | None = Field(default=None, description="the same as the first tokens of each prompt")
    burstiness: Scalar | None = Field(default=None, description="variation of the times between arrivals; default 1: Poisson")
    system_prompt: Scalar | None = Field(default=None, description="tokens before the messages of each conversation; default 0")
    system_prompts: Scalar | None = Field(default=None, description="how many different system prompts there are; default 1")
    turns: Scalar | None = Field(default=None, description="turns of a conversation: 5, uniform:1:9, ...; default 1")
    think: Scalar | None = Field(default=None, description="pause before each turn but the first: 10 s, exponential:10 s, ...")
    weight: Scalar | None = Field(default=None, description="share of the service under the scheduler fair; default 1")
    adapter: Scalar | None = Field(default=None, description="name of the LoRA adapter of its requests; default: none")


class TrafficFile(Spec):
    """The keys of a traffic file."""

    schema_version: Literal[1] = 1
    kind: Literal["traffic"] = "traffic"
    classes: tuple[ClassEntry, ...] = Field(description="kinds of requests, at least one")
    peak_factor: Scalar | None = Field(default=None, description="peak load over mean load; or profile")
    profile: Weights = Field(default=None, description="weights of the parts of a day, or a file of them")


def load_traffic(path: str | Path, skip_bad_rows: bool = False) -> Traffic:
    """Load the traffic of a YAML file. Paths in it (traces, lengths, a profile) are relative to its folder.

    Args:
        path: the file.
        skip_bad_rows: leave broken rows of its traces out and count them; else the first one is an error.

    Raises:
        SpecError: no such file, a wrong, missing or contradictory key, with its place in the file.
    """
    location = Path(path).expanduser()
    file = read_yaml(location)
    content = file.validate(TrafficFile)
    if not content.classes:
        raise SectionErrors(file)("classes", "at least one class is needed")
    assumptions = []
    classes: list[RequestClass] = []
    for index, entry in enumerate(content.classes):
        builder = _ClassBuilder(entry.model_dump(), SectionErrors(file, ("classes", index)), location.parent, skip_bad_rows)
        built = builder.build()
        if built.name in [other.name for other in classes]:
            raise builder.fail("name", f"two classes are called {built.name!r}: give each a name of its own")
        classes.append(built)
        assumptions += builder.assumptions
    source = Input("traffic", clean(location.name), str(location), file.sha256)
    profile, peak = _profile_or_peak(content.profile, content.peak_factor, SectionErrors(file), location.parent)
    return Traffic(classes=tuple(classes), profile=profile, peak=peak, source=source, assumptions=tuple(assumptions))


@dataclass(slots=True)
class _ClassBuilder:
    """Builds one class from options by key, and collects what it assumed.

    Args:
        options: values by key; None: not given.
        fail: makes an error of the key that is wrong and what is wrong with it.
        folder: the folder that paths are relative to.
        skip_bad_rows: leave broken rows of a trace out.
    """

    options: Mapping[str, Any]
    fail: Callable[[str, str], InputError]
    folder: Path | None = None
    skip_bad_rows: bool = False
    assumptions: list[Assumption] = field(default_factory=list)

    def build(self) -> RequestClass:
        """Build the class.

        Raises:
            InputError: as `fail` makes it: a wrong value, keys that exclude each other, a missing key.
        """
        name = clean(self.options.get("name") or "requests")
        trace = self._trace()
        if trace is not None and trace.skipped:
            rows = "row was" if trace.skipped == 1 else "rows were"
            why = f"broken {rows} left out of the trace {trace.name}; first: {trace.reasons[0]}"
            self._assume(name, "skipped_rows", trace.skipped, "assumed", why)
        if trace is not None:
            for note in trace.notes:
                self._assume(name, "trace", trace.name, "assumed", note)
        input_len, output_len, pairs = self._lengths(trace)
        rate, concurrency = self._load(name, trace)
        generator = self._generator(concurrency)
        percentile = self._parsed("percentile", scalars.parse_percentile)
        if percentile is None:
            percentile = PERCENTILE
            self._assume(name, "percentile", PERCENTILE, "default", "of the requests meet the SLO")
        return RequestClass(
            name=name,
            input_len=input_len,
            output_len=output_len,
            rate=rate,
            concurrency=concurrency,
            ttft=self._parsed("ttft", scalars.parse_seconds),
            tpot=self._parsed("tpot", scalars.parse_seconds),
            percentile=percentile,
            **self._prefix(input_len),
            burstiness=self._burstiness(name, trace, rate),
            pairs=pairs,
            conversation=self._conversation(),
            weight=self._parsed("weight", scalars.parse_weight) or 1.0,
            adapter=clean(str(self.options["adapter"])) if self._has("adapter") else None,
            **generator,
        )

    def _prefix(self, input_len: Lengths) -> dict[str, Any]:
        """What is in the prefix cache of prompts."""
        if self._has("prefix_hit") and self._has("cached_prefix"):
            raise self.fail("cached_prefix", "says the same as prefix_hit, in tokens and as a share: give one of them")
        cached = self._parsed("cached_prefix", lambda value: parse_count(value, "cached tokens")) or 0
        if cached and input_len.maximum is not None and cached >= input_len.maximum:
            longest = f"{input_len.maximum:,} tokens: at most {input_len.maximum - 1:,}"
            raise self.fail("cached_prefix", f"{cached:,} leaves nothing of a prompt of {longest}")
        return {"prefix_hit": self._parsed("prefix_hit", scalars.parse_share) or 0.0, "cached_prefix": cached}

    def _conversation(self) -> Conversation | None:
        """What prompts have in common."""
        parsers: dict[str, Callable[[Any], Any]] = {
            "system_prompt": lambda value: parse_count(value, "tokens of a system prompt", minimum=1),
            "system_prompts": lambda value: parse_count(value, "system prompts", minimum=1),
            "turns": lambda value: parse_lengths(value, "", self.folder),
            "think": parse_pause,
        }
        return parse_conversation({key: self._parsed(key, parsers[key]) for key in KEYS}, self.fail)

    def _generator(self, concurrency: int | None) -> dict[str, Any]:
        """How the load generator starts and stops clients."""
        if concurrency is None and (keys := [key for key in CLIENTS if self._has(key)]):
            raise self.fail(keys[0], "is of clients, which a concurrency gives: requests at a rate have none")
        prompts = self._parsed("prompts", lambda value: parse_count(value, "prompts per client", minimum=1))
        ramp = self._parsed("ramp", lambda value: 0.0 if str(value) == "0" else scalars.parse_seconds(value))
        warm_up = self._parsed("warm_up", lambda value: parse_count(value, "prompts per client")) or 0
        if prompts is not None and warm_up >= prompts:
            raise self.fail("warm_up", f"leaves none of the {prompts} prompts of a client to count")
        return {"prompts": prompts, "ramp": ramp or 0.0, "warm_up": warm_up}

    def _has(self, key: str) -> bool:
        return self.options.get(key) is not None

    def _parsed(self, key: str, parse: Callable[[Any], V]) -> V | None:
        """The parsed value of a key, or None; an error names the key."""
        if not self._has(key):
            return None
        try:
            return parse(self.options[key])
        except InputError as error:
            raise self.fail(key, str(error)) from None

    def _assume(self, name: str, key: str, value: object, origin: Any, why: str) -> None:
        self.assumptions.append(Assumption(f"{name}.{key}", value, origin, why))

    def _trace(self) -> Trace | None:
        def read(value: Any) -> Trace:
            if isinstance(value, Trace):
                return value
            return read_trace((self.folder or Path()) / Path(str(value)).expanduser(), self.skip_bad_rows)

        return self._parsed("trace", read)

    def _lengths(self, trace: Trace | None) -> tuple[Lengths, Lengths, Pairs | None]:
        if trace is not None:
            if both := [key for key in ("input_len", "output_len") if self._has(key)]:
                raise self.fail(both[0], "a trace has its own lengths: give the trace or the lengths, not both")
            if self._has("spread"):
                raise self.fail("spread", "a trace has its own lengths: give the trace or the spread, not both")
            pairs = trace.lengths()
            return pairs.input_len, pairs.output_len, pairs
        spread = self._parsed("spread", parse_range)
        lengths = []
        for key in ("input_len", "output_len"):
            value = self._parsed(key, lambda text: parse_lengths(text, "", self.folder))
            if value is None:
                raise self.fail(key, "is missing: give a length such as 1024 or lognormal:1155:900, or a trace")
            try:
                lengths.append(value if spread is None else around(value, spread))
            except InputError as error:
                raise self.fail("spread", str(error)) from None
        return lengths[0], lengths[1], None

    def _load(self, name: str, trace: Trace | None) -> tuple[float | None, int | None]:
        """Rate and concurrency, of which one is None; the trace's own rate if neither is given."""
        if self._has("rate") and self._has("concurrency"):
            raise self.fail("concurrency", "a rate is given too: requests come either at a rate or from a number of clients")
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
        """As given, else the trace's own, else that of Poisson arrivals."""
        if (burstiness := self._parsed("burstiness", scalars.parse_burstiness)) is not None:
            return burstiness
        if rate is not None and trace is not None and trace.interarrival_cv is not None:
            why = f"of the times between arrivals in the trace {trace.name}"
            self._assume(name, "burstiness", trace.interarrival_cv, "assumed", why)
            return trace.interarrival_cv
        return 1.0
