"""Traffic as a YAML file: several classes, and how load moves over a day."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from roofline.errors import InputError
from roofline.serving.traffic.build import Builder
from roofline.serving.traffic.classes import Class, Traffic
from roofline.serving.traffic.profile import Profile, parse_profile
from roofline.serving.traffic.scalars import parse_peak_factor
from roofline.specs.base import Spec
from roofline.specs.library import Input
from roofline.specs.places import Places
from roofline.specs.scalar import Scalar
from roofline.specs.yaml_file import YamlFile, read_yaml
from roofline.text import clean

# Read by `parse_profile`, whose messages are better than those of a union.
Weights = Annotated[Any, WithJsonSchema({"type": ["array", "string"], "items": {"type": "number"}})]


class ClassEntry(Spec):
    """The keys of a class."""

    name: Scalar = Field(description="what it is called")
    rate: Scalar | None = Field(default=None, description="requests/s, such as 8 or 300/min; or concurrency")
    concurrency: Scalar | None = Field(default=None, description="clients, each of which waits for its answer")
    prompts: Scalar | None = Field(default=None, description="that each client sends in all; default: no end of its own")
    ramp: Scalar | None = Field(default=None, description="time over which clients begin; default: all at once")
    warm_up: Scalar | None = Field(default=None, description="prompts of each client that are not counted; default 0")
    spread: Scalar | None = Field(
        default=None, description="shares of the lengths between which clients draw them, such as 0.8-1"
    )
    input_len: Scalar | None = Field(default=None, description="tokens of a prompt: 1024, lognormal:1155:900, ...")
    output_len: Scalar | None = Field(default=None, description="tokens of an answer, likewise")
    trace: Scalar | None = Field(
        default=None, description="a trace in the place of the lengths; and of the rate, if none is given"
    )
    ttft: Scalar | None = Field(default=None, description="time to the first token, such as 2 s")
    tpot: Scalar | None = Field(default=None, description="time of each token after the first, such as 50 ms")
    percentile: Scalar | None = Field(default=None, description="share of requests that keep to them; default 95")
    prefix_hit: Scalar | None = Field(default=None, description="share of a prompt's tokens in the prefix cache; default 0")
    burstiness: Scalar | None = Field(default=None, description="variation of the times between arrivals; default 1: Poisson")


class TrafficFile(Spec):
    """The keys of a traffic file."""

    schema_version: Literal[1] = 1
    kind: Literal["traffic"] = "traffic"
    classes: tuple[ClassEntry, ...] = Field(description="kinds of requests, at least one")
    peak_factor: Scalar | None = Field(default=None, description="highest load over the mean one; or profile")
    profile: Weights = Field(default=None, description="weights of the parts of a day, or a file of them")


def load_traffic(path: str | Path, skip_bad_rows: bool = False) -> Traffic:
    """The traffic of a file. Paths in it (traces, lengths, a profile) are seen from the folder that it is in.

    Raises:
        SpecError: a wrong key or value, with its place in the file.
    """
    place = Path(path).expanduser()
    file = read_yaml(place)
    found = file.validate(TrafficFile)
    if not found.classes:
        raise Places(file)("classes", "at least one class is needed")
    assumptions = []
    classes: list[Class] = []
    for index, entry in enumerate(found.classes):
        builder = Builder(entry.model_dump(), Places(file, ("classes", index)), place.parent, skip_bad_rows)
        built = builder.build()
        if built.name in [other.name for other in classes]:
            raise builder.fail("name", f"two classes are called {built.name!r}: give each a name of its own")
        classes.append(built)
        assumptions += builder.assumptions
    source = Input("traffic", clean(place.name), str(place), file.sha256)
    profile, peak = _day(file, found, place.parent)
    return Traffic(classes=tuple(classes), profile=profile, peak=peak, source=source, assumptions=tuple(assumptions))


def _day(file: YamlFile, found: TrafficFile, beside: Path) -> tuple[Profile | None, float | None]:
    fail = Places(file)
    if found.profile is not None and found.peak_factor is not None:
        raise fail("peak_factor", "a profile is given too, which has its own peak: give one of them")
    key = "profile"
    try:
        profile = None if found.profile is None else parse_profile(found.profile, beside)
        key = "peak_factor"
        return profile, None if found.peak_factor is None else parse_peak_factor(found.peak_factor)
    except InputError as error:
        raise fail(key, str(error)) from None
